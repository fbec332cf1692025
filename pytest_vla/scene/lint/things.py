"""Objects and fixtures: declared, placed, known."""

from collections.abc import Callable, Iterator

from pytest_vla.errors import VlaError
from pytest_vla.scene.bddl import Atom
from pytest_vla.scene.lint.finding import Finding, place_of
from pytest_vla.scene.lint.reading import TaskText
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.sections import Declaration
from pytest_vla.scene.workspaces import workspace
from pytest_vla.util.text import did_you_mean


def check_things(task: TaskText, problem: Problem) -> Iterator[Finding]:
    """What is wrong with declarations, places in :init, and :obj_of_interest."""
    try:
        workspace(problem.name, problem.source)
    except VlaError as error:
        yield task.found("S005", task.sections.get("problem"), str(error).removeprefix(f"{problem.source}: "))
    yield from _listed_twice(task, problem)
    yield from _interesting(task, problem)
    if ":init" not in task.broken:
        yield from _unplaced(task, problem)
        yield from _places(task, problem)


def check_categories(
    task: TaskText, problem: Problem, refusal: Callable[[Declaration], str | None]
) -> Iterator[Finding]:
    """Declarations of categories that are not known.

    Args:
        task: of the problem.
        problem: its things.
        refusal: why a thing's category cannot be used; None: it can.
    """
    standing = _standing(problem)
    for item in (*problem.fixtures, *problem.objects):
        reason = None if item.category in standing else refusal(item)
        if reason is not None:
            yield task.found("O003", item, reason)


def _standing(problem: Problem) -> frozenset[str]:
    """The categories that the arena brings: table or floor."""
    place = place_of(problem)
    return frozenset((place.category,) if place is not None else ("table", "floor"))


def _listed_twice(task: TaskText, problem: Problem) -> Iterator[Finding]:
    """``a_1 - a  b_1 - b  a_2 - a``: upstream's table has one list a category."""
    for section in (problem.fixtures, problem.objects):
        ended: dict[str, str] = {}
        for before, item in zip((None, *section), section, strict=False):
            if before is not None and before.category != item.category:
                ended[before.category] = before.name
            if item.category in ended:
                yield task.found(
                    "O006",
                    item,
                    f"the category {item.category} is listed twice, and upstream forgets the first list, with "
                    f"{ended.pop(item.category)}; list all of a category together: NAME NAME - {item.category}",
                )


def _interesting(task: TaskText, problem: Problem) -> Iterator[Finding]:
    known = {item.name for item in (*problem.objects, *problem.fixtures)} | {each.key for each in problem.regions}
    section = task.sections.get(":obj_of_interest")
    places = {item.text.lower(): item for item in (section.items if section else ()) if isinstance(item, Atom)}
    for name in problem.objects_of_interest:
        if name not in known:
            yield task.found(
                "O002",
                places.get(name, section),
                f":obj_of_interest names {name!r}, which is not declared: upstream's segmentation lacks it."
                f"{did_you_mean(name, known)} Name what the task is about",
            )


def _unplaced(task: TaskText, problem: Problem) -> Iterator[Finding]:
    placed = {str(literal.arguments[0]) for literal in problem.init if literal.predicate in ("on", "in")}
    standing = _standing(problem)
    for item in (*problem.fixtures, *problem.objects):
        if item.name not in placed and item.category not in standing:
            yield task.found(
                "O001",
                item,
                f"{item.name!r} is declared, and :init places it nowhere: it lies at its model's origin, in the way of "
                f"arm and furniture; add (On {item.name} REGION) to :init, or remove it",
            )


def _places(task: TaskText, problem: Problem) -> Iterator[Finding]:
    """Things that are placed twice, or on what has no place itself."""
    first: dict[str, int] = {}
    objects = {item.name for item in problem.objects}
    placing = [literal for literal in problem.init if literal.predicate in ("on", "in") and len(literal.arguments) == 2]
    for literal in placing:
        name = str(literal.arguments[0])
        if name in first:
            yield task.found(
                "O004", literal, f"{name!r} is placed twice (first in line {first[name]}); keep one of its literals"
            )
        first.setdefault(name, literal.line)
    # Upstream places what stands on things after all else, in the file's order.
    done = {str(each.arguments[0]) for each in placing if str(each.arguments[1]) not in objects}
    for literal in placing:
        name, target = map(str, literal.arguments)
        if target in objects and target not in done:
            yield task.found(
                "O005",
                literal,
                f"{name!r} stands on {target!r}, which has no place before it; give {target!r} an (On ...) of its own "
                "above this one",
            )
        done.add(name)
