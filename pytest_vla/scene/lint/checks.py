"""All checks of a task's text."""

from collections.abc import Iterator

from pytest_vla.scene.lint.conditions import check_conditions
from pytest_vla.scene.lint.finding import Finding
from pytest_vla.scene.lint.movers import check_movers
from pytest_vla.scene.lint.reading import TaskText
from pytest_vla.scene.lint.regions import check_regions
from pytest_vla.scene.lint.things import check_things


def check_text(task: TaskText) -> Iterator[Finding]:
    """Everything that is wrong with a task's text, as far as it could be read."""
    yield from task.findings
    if task.problem is not None:
        for check in (check_things, check_regions, check_conditions, check_movers):
            yield from check(task, task.problem)
