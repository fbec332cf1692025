"""The problems of tasks, as their files say."""

from functools import cache
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.plan.task import Task

if TYPE_CHECKING:
    from pytest_vla.plan.data_roots import DataRoot
    from pytest_vla.scene.problem import Problem


@cache
def problem_of(task: Task) -> "Problem":
    """The parsed file of a task. Raises VlaError where it is missing or invalid."""
    if task.world is not None:
        raise VlaError("it reads the task's file, and the suite brings a world of its own")
    from pytest_vla.plan.data_roots import task_roots

    return read_problem(task, task_roots(task))


def read_problem(task: Task, roots: "tuple[DataRoot, ...]") -> "Problem":
    """The parsed file of a task, from the first root that has it. Raises VlaError where it is missing or invalid."""
    from pytest_vla.plan.data_roots import find_task_file
    from pytest_vla.scene.problem import parse_problem

    return parse_problem(find_task_file(roots, task))
