"""LIBERO-PRO's other tasks: another goal in the same scene, from the user's file or from the suite's own tasks."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.task import Task
from pytest_vla.scene.task_files import problem_of
from pytest_vla.scene.variation import INSTRUCTION, Edits, Params, ProblemEdit
from pytest_vla.suites.libero_pro.tables import NewTask, Table, entries_of, source_of, table_of
from pytest_vla.vary.kind import Draw
from pytest_vla.vary.space import LISTED, Parameter

if TYPE_CHECKING:
    from pytest_vla.scene.problem import Problem


def draw_task(draw: Draw) -> Params:
    """Another task in the same scene.

    Raises:
        VlaError: the scene has none, or none of those in the user's file can be read.
    """
    table = table_of(draw.task, "task")
    found, left_out = _other_tasks(table, draw.task)
    edit = draw.generator().choice(found)
    return {
        **source_of(table),
        "goal": [str(literal) for literal in edit.keywords["goal"]],
        "original": draw.task.language,
        **({"left_out": left_out} if left_out else {}),
        INSTRUCTION: _told(edit),
    }


def other_task(task: Task, params: Params) -> Edits:
    """Another task in the same scene: another instruction, goal and objects of interest.

    Raises:
        VlaError: the scene has none with this instruction.
    """
    found, _ = _other_tasks(table_of(task, "task"), task)
    edit = next((each for each in found if _told(each) == params[INSTRUCTION]), None)
    if edit is None:
        known = ", ".join(map(_told, found))
        raise VlaError(f"no other task of this scene is {params[INSTRUCTION]!r}; there are {known}")
    return replace(edited(task, edit), instruction=params[INSTRUCTION])


def space_of_tasks(task: Task) -> tuple[Parameter, ...]:
    """The other tasks' instructions. Raises as `draw_task`."""
    found, _ = _other_tasks(table_of(task, "task"), task)
    return (Parameter(INSTRUCTION, LISTED, choices=tuple(map(_told, found))),)


def edited(task: Task, edit: ProblemEdit) -> Edits:
    """An edit that the task's problem can have. Raises VlaError where it cannot."""
    edit(problem_of(task))
    return Edits(problem=(edit,))


def _told(edit: Any) -> str:
    return str(edit.keywords["instruction"])


def _other_tasks(table: Table | None, task: Task) -> tuple[list[Any], list[str]]:
    """The edits to other tasks, and what of the user's file was left out, and why. Raises VlaError."""
    from pytest_vla.suites.libero_pro.choices import other_tasks
    from pytest_vla.suites.libero_pro.edits import tasked

    if table is not None:
        return _readable(table, task, problem_of(task))
    return [
        partial(
            tasked,
            instruction=other.language,
            goal=theirs.goal,
            objects_of_interest=theirs.objects_of_interest,
        )
        for other, theirs in other_tasks(task)
    ], []


def _readable(table: Table, task: Task, problem: "Problem") -> tuple[list[Any], list[str]]:
    """The edits of a task's entries whose goals can be read, and what was left out, and why."""
    from pytest_vla.suites.libero_pro.edits import goal_of, tasked

    known = {item.name for item in (*problem.fixtures, *problem.objects)} | {region.key for region in problem.regions}
    entries: tuple[NewTask, ...] = entries_of(table, task)
    found, wrong, left_out = [], [], []
    for entry in entries:
        where = f"{table.file}: {task.files}/{task.name}: {entry.instruction!r}: goal"
        interest = tuple(dict.fromkeys(name for name in entry.objects_of_interest if name in known))
        try:
            goal = goal_of(entry.goal, problem, where)
            edit = partial(tasked, instruction=entry.instruction, goal=goal, objects_of_interest=interest)
            edit(problem)
        except VlaError as error:
            wrong.append(str(error))
            continue
        found.append(edit)
        strangers = [name for name in entry.objects_of_interest if name not in known]
        left_out += [f"{name}, of interest to {entry.instruction!r}, is not in the scene" for name in strangers]
    if not found:
        raise VlaError(f"{'; '.join(wrong)}. Mend it in a copy of the file, or select other tasks by --vla-tasks")
    return found, [*left_out, *wrong]
