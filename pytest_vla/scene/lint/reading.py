"""Task files, read as far as they can be: what is amiss becomes findings."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pytest_vla.errors import SceneError
from pytest_vla.plan.labels import UPSTREAM
from pytest_vla.scene.bddl import Atom, Group, Origin, Placed, read_expression
from pytest_vla.scene.lint.finding import CODES, Finding
from pytest_vla.scene.problem import SECTIONS, Problem, read_problem_tree, read_text

_VITAL = frozenset(("problem", ":domain", ":language", ":goal", ":objects", ":fixtures", ":regions"))
"""Without these, whatever else is found would follow from what they lack."""

_UNKNOWN = {"predicate": "S003", "predicate of :init": "S003", "name": "S004", "object": "S004"}


@dataclass(frozen=True)
class TaskText:
    """A task file.

    Attributes:
        source: what findings call it.
        problem: what was read; None where too much of it cannot be.
        sections: of the text, by lower-case name.
        broken: the sections that could not be read, and that `problem` has not.
        findings: of reading it.
        rules: that the task runs by, one of `pytest_vla.plan.labels.PROTOCOLS`.
    """

    source: str
    problem: Problem | None
    sections: Mapping[str, Group]
    broken: frozenset[str]
    findings: tuple[Finding, ...]
    rules: str = UPSTREAM

    def found(self, code: str, place: Placed | None, message: str, *, judged: bool = True) -> Finding:
        """A finding at a place of the file, or of the whole of it.

        Args:
            code, place, message: of it.
            judged: whether other rules than upstream's judge what it is about, by which it may be of another level.
        """
        known = place is not None and place.line > 0
        line, column = (place.line, place.column) if known and place is not None else (1, 1)
        level = CODES[code].elsewhere if judged and self.rules != UPSTREAM else ""
        return Finding(self.source, line, column, code, message, level)


def read_task_file(path: str, rules: str = UPSTREAM) -> TaskText:
    """A file as `read_task_text` reads its text; one that cannot be read is a finding too."""
    try:
        text = read_text(path)
    except SceneError as error:
        return TaskText(path, None, {}, frozenset(), (_of_error(path, error),), rules)
    return read_task_text(text, path, rules)


def read_task_text(text: str, source: str, rules: str = UPSTREAM) -> TaskText:
    """A task by its text. Raises nothing: what cannot be read is in the findings."""
    findings: dict[tuple[int, int, str], Finding] = {}

    def told(word: Atom, what: str, message: str) -> None:
        code = _UNKNOWN.get(what, "S001")
        findings[word.line, word.column, code] = Finding(source, word.line, word.column, code, f"{message}. {_MEND}")

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
    sections = {_head(item): item for item in root.items if isinstance(item, Group)}
    return TaskText(source, problem, sections, frozenset(broken), tuple(sorted(findings.values())), rules)


_MEND = "Upstream passes over it or fails: mend or remove it"


def _of_error(source: str, error: SceneError) -> Finding:
    """The finding that a located error is."""
    text = str(error).removeprefix(f"{source}:")
    line, _, rest = text.partition(":")
    column, _, message = rest.partition(":")
    if not (line.isdecimal() and column.isdecimal()):
        return Finding(source, 1, 1, "S002", text.strip())
    return Finding(source, int(line), int(column), "S002", message.strip())


def _without_section(root: Group, place: Placed) -> tuple[Group, str] | None:
    """The expression without the section that a place lies in, and that section's name; None: it cannot be missed."""
    before = [item for item in root.items[1:] if (item.line, item.column) <= (place.line, place.column)]
    if not before or not isinstance(before[-1], Group):
        return None
    name = _head(before[-1])
    kept = tuple(item for item in root.items if item is not before[-1])
    again = any(isinstance(item, Group) and _head(item) == name for item in kept)
    if not name or (name in _VITAL and not again):
        return None
    return replace(root, items=kept), name if not again else ""


def _head(group: Group) -> str:
    first = group.items[0] if group.items else None
    return first.text.lower() if isinstance(first, Atom) else ""
