"""Reading task files as far as possible, with faults as findings; the findings and all of their codes."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from pytest_vla.errors import SceneError, VlaError
from pytest_vla.plan.case import UPSTREAM
from pytest_vla.scene.bddl import Atom, LocatedToken, Origin, SExpression, read_expression
from pytest_vla.scene.catalog import CATEGORIES, Categories
from pytest_vla.scene.problem import SECTIONS, Problem, read_problem_tree, read_text
from pytest_vla.scene.workspaces import Workspace, workspace

# The workspace and categories of a problem's class, if it is known.


def place_of(problem: Problem) -> Workspace | None:
    """Return the workspace of a problem, or None if its class is not known."""
    with suppress(VlaError):
        return workspace(problem.name, problem.source)
    return None


def catalogue_of(problem: Problem) -> Categories:
    """Return the categories that a problem's class knows, beside those declared in files."""
    place = place_of(problem)
    return CATEGORIES if place is None or place.categories is None else place.categories


# Lint findings, and all of their codes.

ERROR, WARNING, NOTE = LEVELS = ("error", "warning", "note")
"""Errors make upstream crash or judge something other than the file says. Notes are hardly ever defects."""


@dataclass(frozen=True)
class LintCode:
    """A sort of finding.

    Attributes:
        name: stable; a program may compare it.
        level: one of `LEVELS`.
        meaning: the problem.
        why: the effect upstream.
        simulated: whether only ``--simulate`` finds it.
        elsewhere: its level by the paper's rules and ours, which judge literals on which upstream's code raises;
            empty if the level is the same.
    """

    name: str
    level: str
    meaning: str
    why: str
    simulated: bool = False
    elsewhere: str = ""


CODES: Mapping[str, LintCode] = {
    code.name: code
    for code in (
        LintCode("S001", ERROR, "A section, an attribute or a type is not known.", "It is ignored."),
        LintCode("S002", ERROR, "The text cannot be read as a task.", "It is refused, or read as something else."),
        LintCode(
            "S003", ERROR, "A predicate is not known.", "An assertion fails when it is judged; `:init` ignores it."
        ),
        LintCode("S004", ERROR, "A name is not declared.", "A KeyError when it is judged or placed."),
        LintCode("S005", ERROR, "The problem class is not known.", "A KeyError when the task is loaded."),
        LintCode("G001", ERROR, "The goal is cut off.", "Only the first expression of `:goal` is kept."),
        LintCode(
            "G002",
            ERROR,
            "Judging the goal crashes.",
            "An exception; VLA-Arena's evaluator drops the episode. Our and the paper's rules judge VLA-Arena's tasks.",
            elsewhere=WARNING,
        ),
        LintCode("G003", ERROR, "The goal holds at the start.", "The episode succeeds in its first step."),
        LintCode("G004", ERROR, "The goal asks for less than the prompt.", "A part of the task is not judged."),
        LintCode("G005", ERROR, "The goal can never hold.", "No episode succeeds."),
        LintCode(
            "G006", WARNING, "The goal names a fixture instead of its part.", "`On` looks at the fixture's origin."
        ),
        LintCode("G007", ERROR, "The goal's arguments cannot be judged.", "The task cannot run, by any rules."),
        LintCode("C001", ERROR, "The cost is cut off.", "Only the first expression of `:cost` is kept."),
        LintCode(
            "C002",
            ERROR,
            "Judging a cost crashes.",
            "An exception; VLA-Arena's evaluator drops the episode. Our and the paper's rules charge it.",
            elsewhere=WARNING,
        ),
        LintCode("C003", ERROR, "A cost is always charged, or never.", "It measures nothing."),
        LintCode("C004", WARNING, "A cost is charged to an idle arm.", "No policy can avoid it.", True),
        LintCode("C005", NOTE, "A cost is listed more than once.", "Each of them is charged."),
        LintCode("C006", WARNING, "A cost leaves out some things of a category.", "They are not measured."),
        LintCode(
            "C007", WARNING, "`CheckForce` does not compare the force.", "It compares one contact's tangential force."
        ),
        LintCode(
            "C008", ERROR, "A part is not a colliding geom.", "A list without one never fires; the task cannot run."
        ),
        LintCode("C009", ERROR, "A cost's arguments cannot be judged.", "The task cannot run, by any rules."),
        LintCode("O001", ERROR, "A thing is declared and never placed.", "It stays where its model begins."),
        LintCode("O002", WARNING, "`:obj_of_interest` has an undeclared name.", "Segmentation lacks it."),
        LintCode("O003", ERROR, "A category is not known.", "A KeyError when the task is loaded."),
        LintCode("O004", ERROR, "A thing is placed twice.", "An assertion fails, or the first place is lost."),
        LintCode("O005", ERROR, "A thing stands on a thing without a place.", "It has no place."),
        LintCode("O006", ERROR, "A category is listed twice.", "The later list takes the place of the earlier one."),
        LintCode("R001", WARNING, "Two regions have the same key.", "The last one counts."),
        LintCode("R002", ERROR, "A region is out of the arm's reach.", "The task cannot be done."),
        LintCode("R003", NOTE, "A region is smaller than its object.", "Places are drawn outside of it."),
        LintCode("R004", WARNING, "A region's target is not declared.", "It is ignored."),
        LintCode("R005", ERROR, "A region names a part that its target does not have.", "A KeyError when it is used."),
        LintCode(
            "R006", ERROR, "A region of table or floor has no rectangle.", "An exception when the task is loaded."
        ),
        LintCode("R007", WARNING, "A region of the goal has several rectangles.", "The goal looks at the first."),
        LintCode("M001", ERROR, "A mover cannot be moved.", "An exception in the first step."),
        LintCode("M002", WARNING, "An attribute of a motion has no effect.", "It is read and never used."),
        LintCode("M003", WARNING, "A circle is tilted.", "The thing is pulled below its height for half of each turn."),
        LintCode("M004", NOTE, "A period is odd.", "The motion repeats one step earlier than it says."),
        LintCode("M005", WARNING, "A motion does not begin at its thing's place.", "The thing is pulled there."),
        LintCode("M006", WARNING, "A waypoint's direction has no effect.", "(0 -1 0) becomes no rotation."),
        LintCode("M007", WARNING, "A mover is named first in `InContact`.", "It stops only where it is named second."),
        LintCode(
            "M008",
            ERROR,
            "A motion is written in the paper's form.",
            "An exception when the episode begins. Our and the paper's rules read it.",
            elsewhere=WARNING,
        ),
        LintCode("P001", ERROR, "The prompt does not name the goal's things.", "Success is judged for another task."),
        LintCode("P002", WARNING, "A word of the prompt is misspelt.", "Policies get a wrong instruction."),
        LintCode("P003", WARNING, "The file's name and the prompt name different things.", "One of them is wrong."),
        LintCode(
            "P004",
            WARNING,
            "The file's name and the prompt differ.",
            "LIBERO takes the instruction from the name, VLA-Arena from `:language`.",
        ),
        LintCode(
            "P005", NOTE, "The prompt calls a thing by another category's name.", "Policies may look for that one."
        ),
        LintCode("I001", WARNING, "The `:init` literals do not hold after settling.", "The prompt is false."),
        LintCode("I002", ERROR, "Init states belong to another task.", "Upstream refuses them or sets something else."),
        LintCode("I003", WARNING, "Things are thrown apart as the scene settles.", "They overlap in the init state."),
        LintCode("I004", ERROR, "The scene cannot be built.", "The task cannot run.", True),
    )
}


@dataclass(frozen=True, order=True)
class LintFinding:
    """One finding. `line` and `column` count from 1; they are 1 if the finding is about the whole file.

    `message` gives the problem, its effect and how to mend it. `level` is its code's, unless the rules that the task
    runs by lower it.
    """

    file: str
    line: int
    column: int
    code: str
    message: str
    level: str = ""

    def __post_init__(self) -> None:
        if not self.level:
            object.__setattr__(self, "level", CODES[self.code].level)


_VITAL = frozenset(("problem", ":domain", ":language", ":goal", ":objects", ":fixtures", ":regions"))
"""Required sections: without them, further findings would only be consequences."""

_UNKNOWN = {"predicate": "S003", "predicate of :init": "S003", "name": "S004", "object": "S004"}


@dataclass(frozen=True)
class TaskText:
    """A task file as read by lint.

    Attributes:
        source: the file's name in findings.
        problem: the parsed problem, or None if too much of the text cannot be read.
        sections: of the text, by lower-case name.
        broken: the sections that could not be read and that `problem` lacks.
        findings: of reading it.
        rules: the rules that the task runs by, one of `pytest_vla.plan.case.PROTOCOLS`.
    """

    source: str
    problem: Problem | None
    sections: Mapping[str, SExpression]
    broken: frozenset[str]
    findings: tuple[LintFinding, ...]
    rules: str = UPSTREAM

    def found(self, code: str, place: LocatedToken | None, message: str, *, judged: bool = True) -> LintFinding:
        """Return a finding at a place of the file, or about the whole file.

        Args:
            code, place, message: the finding's.
            judged: whether rules other than upstream's can judge the literal, so that their level may differ.
        """
        known = place is not None and place.line > 0
        line, column = (place.line, place.column) if known and place is not None else (1, 1)
        level = CODES[code].elsewhere if judged and self.rules != UPSTREAM else ""
        return LintFinding(self.source, line, column, code, message, level)


def read_task_file(path: str, rules: str = UPSTREAM) -> TaskText:
    """Read a file with `read_task_text`; if it cannot be read, that is a finding."""
    try:
        text = read_text(path)
    except SceneError as error:
        return TaskText(path, None, {}, frozenset(), (_of_error(path, error),), rules)
    return read_task_text(text, path, rules)


def read_task_text(text: str, source: str, rules: str = UPSTREAM) -> TaskText:
    """Read a task from its text. Raises nothing: unreadable parts become findings."""
    findings: dict[tuple[int, int, str], LintFinding] = {}

    def told(word: Atom, what: str, message: str) -> None:
        code = _UNKNOWN.get(what, "S001")
        findings[word.line, word.column, code] = LintFinding(
            source, word.line, word.column, code, f"{message}. {_MEND}"
        )

    origin = Origin(source, compat=True, told=told)
    try:
        root = read_expression(text, origin, SECTIONS)
    except SceneError as error:
        return TaskText(source, None, {}, frozenset(), (_of_error(source, error),), rules)
    problem: Problem | None = None
    broken: set[str] = set()
    while True:
        try:
            problem = read_problem_tree(root, origin)
            break
        except SceneError as error:
            finding = _of_error(source, error)
            findings[finding.line, finding.column, finding.code] = finding
            smaller = _without_section(root, finding)
            if smaller is None:
                break
            root, name = smaller
            broken.add(name)
    sections = {_head(item): item for item in root.items if isinstance(item, SExpression)}
    return TaskText(source, problem, sections, frozenset(broken), tuple(sorted(findings.values())), rules)


_MEND = "Upstream ignores it or fails: mend or remove it"


def _of_error(source: str, error: SceneError) -> LintFinding:
    """Return the finding for a located error."""
    text = str(error).removeprefix(f"{source}:")
    line, _, rest = text.partition(":")
    column, _, message = rest.partition(":")
    if not (line.isdecimal() and column.isdecimal()):
        return LintFinding(source, 1, 1, "S002", text.strip())
    return LintFinding(source, int(line), int(column), "S002", message.strip())


def _without_section(root: SExpression, place: LocatedToken) -> tuple[SExpression, str] | None:
    """Return the expression without the section at a place, and that section's name, or None if it is required."""
    before = [item for item in root.items[1:] if (item.line, item.column) <= (place.line, place.column)]
    if not before or not isinstance(before[-1], SExpression):
        return None
    name = _head(before[-1])
    kept = tuple(item for item in root.items if item is not before[-1])
    again = any(isinstance(item, SExpression) and _head(item) == name for item in kept)
    if not name or (name in _VITAL and not again):
        return None
    return replace(root, items=kept), name if not again else ""


def _head(group: SExpression) -> str:
    first = group.items[0] if group.items else None
    return first.text.lower() if isinstance(first, Atom) else ""
