"""Costs that a user declares for any suite (``--vla-cost-file``): literals of CBDDL, and rules with numbers."""

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pytest_vla.errors import SceneError, VlaError
from pytest_vla.plan.choices import COSTS_ALL
from pytest_vla.plan.costs import COLLISIONS, LARGEST_AMOUNT
from pytest_vla.plan.task import Task
from pytest_vla.scene.bddl import Origin, SExpression, read_expression
from pytest_vla.scene.literals import Literal, Scope, read_condition
from pytest_vla.util.documents import TableLines, parse_toml, read_plain
from pytest_vla.util.text import did_you_mean

INSTANT, ONCE, TERMINAL = WHENS = ("instant", "once", "terminal")
"""instant: at each control step in which it holds; once: at the first of them; terminal: if it holds at the end."""

ERROR, SKIP = MISSINGS = ("error", "skip")
MOST_COSTS = 200
_MOST_BYTES = 1_000_000

# CBDDL's weight of a condition judged at the end, against one of a step.
_WEIGHTS = {INSTANT: 1.0, ONCE: 10.0, TERMINAL: 10.0}
# CBDDL judges these at the end, all others at each step.
_JUDGED_AT_THE_END = ("fall", "noton", "notin", "in", "open", "close", "turnon", "turnoff", "collide", "true", "false")

ARM, GRIPPER, ROBOT, HELD = PARTS = ("arm", "gripper", "robot", "held")
"""Names for rules beside a task's objects: the arm without its fingers, the fingers, both, and the held object."""

GOAL = "goal"
"""Used instead of a name: the objects and fixtures that the task's goal names."""


@dataclass(frozen=True)
class CostRule:
    """A cost that a user declares: one ``[[cost]]`` of the file.

    Attributes:
        name: of its charges; for a literal without a name, the literal's text.
        rule: one of `RULES`, or empty for a literal.
        literal: the literal that is judged, or None for a rule.
        values: of the rule's own keys: names, lists of names, and numbers.
        weight: the amount of one charge, more than 0.
        when: one of `WHENS`.
        tasks: patterns; the cost applies to tasks whose name, or ``SUITE/NAME``, matches one. Empty for all
            tasks.
        missing: the treatment of a task that lacks a thing which the cost names: one of `MISSINGS`.
        where: location in the file, for messages: ``FILE:LINE: cost[0]``.
    """

    name: str
    rule: str
    literal: Literal | None
    values: Mapping[str, Any]
    weight: float
    when: str
    tasks: tuple[str, ...]
    missing: str
    where: str

    def is_of(self, task: Task) -> bool:
        """Whether the cost applies to a task."""
        names = (task.name, f"{task.suite}/{task.name}")
        return not self.tasks or any(fnmatchcase(name, pattern) for name in names for pattern in self.tasks)


@dataclass(frozen=True)
class DeclaredCosts:
    """A file of costs.

    Attributes:
        rules: in the file's order.
        digest: sha256 of the file's text: episodes with the same digest have the same declared costs.
    """

    rules: tuple[CostRule, ...]
    digest: str


@dataclass(frozen=True)
class Charging:
    """The costs that episodes are charged beside their tasks' own.

    Attributes:
        costs: one of `pytest_vla.plan.choices.COSTS`: whether collisions are charged.
        declared: the user's costs, or None.
    """

    costs: str = COSTS_ALL
    declared: DeclaredCosts | None = None


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError('a name, such as "plate_1"')
    return value.lower()


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (_name(value),)
    if not isinstance(value, list) or not value:
        raise ValueError('a name or a list of names, such as ["plate_1", "bowl_1"]')
    return tuple(map(_name, value))


def _number(least: float, most: float, what: str) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        fits = isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most
        if not fits or not math.isfinite(value):
            raise ValueError(f"{what}, {least:g} to {most:g}")
        return float(value)

    return read


_ABOVE_FORCE = _number(0.0, 1e6, "a force in N")
_ABOVE_SPEED = _number(0.0, 1e3, "a speed in m/s")
_HEIGHT = _number(0.0, 10.0, "a height in m")
_Key = tuple[Callable[[Any], Any], bool]

RULES: Mapping[str, Mapping[str, _Key]] = {
    "touch": {"by": (_name, True), "things": (_names, False), "except": (_names, False)},
    "force": {"on": (_name, True), "above": (_ABOVE_FORCE, True), "by": (_name, False), "except": (_names, False)},
    "speed": {"of": (_name, True), "above": (_ABOVE_SPEED, True)},
    "tilt": {"of": (_name, True), "above": (_number(0.0, 180.0, "an angle in degrees"), True)},
    "dropped": {"of": (_name, False), "height": (_HEIGHT, False), "speed": (_ABOVE_SPEED, False)},
    "joint": {"within": (_number(0.0, 0.5, "a share of the joint's range"), True), "of": (_names, False)},
}
"""The keys of each rule, how they are read, and whether they have to be there."""

# The least weight of a charge: a cost of 0 would make every episode safe.
_LEAST = 1e-6
_COMMON = ("name", "rule", "literal", "weight", "when", "tasks", "missing")


def read_costs(file: Path) -> DeclaredCosts:
    """Read the costs that a file declares.

    Raises:
        VlaError: the file cannot be read or something in it is not known; gives the location and the expected
            value.
    """
    try:
        data = read_plain(file, _MOST_BYTES)
        table, lines = parse_toml(data, file, "cost")
    except OSError as error:
        raise VlaError(f"{file}: costs cannot be read: {error.strerror}; --vla-cost-file needs a TOML file") from error
    except UnicodeDecodeError as error:
        raise VlaError(f"{file}: expected UTF-8, found the byte 0x{data[error.start]:02x}") from error
    except ValueError as error:
        raise VlaError(f"{file}: no valid TOML: {error}") from error
    return DeclaredCosts(_rules(table, lines), hashlib.sha256(data).hexdigest()[:16])


def _rules(table: Mapping[str, Any], lines: TableLines) -> tuple[CostRule, ...]:
    for key in table:
        if key != "cost":
            raise VlaError(f"{lines.where()}unknown key {key!r}: expected nothing but [[cost]] tables")
    entries = table.get("cost")
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise VlaError(f"{lines.where()}expected one [[cost]] table or more, each with a literal or a rule")
    if len(entries) > MOST_COSTS:
        raise VlaError(f"{lines.where()}{len(entries)} costs, expected up to {MOST_COSTS}")
    rules = tuple(_rule(entry, number, lines) for number, entry in enumerate(entries))
    for number, rule in enumerate(rules):
        if rule.name in [other.name for other in rules[:number]]:
            raise VlaError(f"{lines.where(number, 'name')}{rule.name!r} is used twice: give each cost its own name")
    return rules


def _rule(entry: Mapping[str, Any], number: int, lines: TableLines) -> CostRule:
    def wrong(key: str, text: str) -> VlaError:
        return VlaError(f"{lines.where(number, key)}{text}")

    def read(key: str, reader: Callable[[Any], Any], default: Any) -> Any:
        if key not in entry:
            return default
        try:
            return reader(entry[key])
        except ValueError as error:
            raise wrong(key, f"expected {error}, found {entry[key]!r:.60}") from None

    if ("rule" in entry) == ("literal" in entry):
        raise wrong("", 'expected either literal = "(InContact bowl_1 plate_1)" or rule = "touch", one of them')
    rule = read("rule", _one_of(tuple(RULES)), "")
    keys = RULES[rule] if rule else {}
    for key in entry:
        if key not in (*_COMMON, *keys):
            close = did_you_mean(key, [*_COMMON, *keys])
            raise wrong(key, f"unknown key {key!r}: expected {', '.join([*keys, *_COMMON])}.{close}")
    for key, (_, is_needed) in keys.items():
        if is_needed and key not in entry:
            raise wrong("", f"rule {rule!r} lacks {key!r}")
    if rule == "dropped" and entry.get("when") == TERMINAL:
        raise wrong("when", "a drop is judged as it lands: expected instant or once, found 'terminal'")
    if rule == "dropped" and not {"height", "speed"} & {*entry}:
        raise wrong(
            "", "rule 'dropped' lacks a limit: expected height (m of free fall), speed (m/s at landing) or both"
        )
    literal = _literal(read("literal", _text, ""), lines.where(number, "literal")) if not rule else None
    values = {key: read(key, reader, None) for key, (reader, _) in keys.items() if key in entry}
    at_end = literal is not None and literal.predicate in _JUDGED_AT_THE_END
    when = read("when", _one_of(WHENS), TERMINAL if at_end else INSTANT)
    name = read("name", _text, str(literal) if literal is not None else None)
    if name is None:
        raise wrong("", f'rule {rule!r} lacks name, under which it is charged, such as name = "{rule}"')
    if name in COLLISIONS or (rule and name.startswith("(")):
        raise wrong("name", f"{name!r} is what a literal or the account of collisions is called: give it another name")
    weight = read("weight", _number(_LEAST, LARGEST_AMOUNT, "an amount"), _WEIGHTS[when])
    tasks = read("tasks", _patterns, ())
    missing = read("missing", _one_of(MISSINGS), ERROR)
    return CostRule(name, rule, literal, values, weight, when, tasks, missing, lines.where(number).removesuffix(": "))


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > 300:
        raise ValueError("a text of one line")
    return value


def _patterns(value: Any) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
        raise ValueError('patterns of tasks\' names, such as "put_*" or ["libero_goal/*"]')
    return tuple(texts)


def _one_of(known: tuple[str, ...]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in known:
            close = did_you_mean(value, known) if isinstance(value, str) else ""
            raise ValueError(f"one of {', '.join(known)}{f' ({close.strip()})' if close else ''}")
        return str(value)

    return read


class _AnyName(frozenset[str]):
    """Names are looked up later, in the task's scene."""

    def __contains__(self, name: object) -> bool:
        return True


def _literal(text: str, where: str) -> Literal:
    """Parse a text as a CBDDL literal. Raises VlaError, located."""
    if not text.lstrip().startswith("("):
        raise VlaError(f"{where}expected a literal in parentheses, such as (Fall cup_1), found {text!r}")
    origin = Origin(where.rstrip(": "))
    try:
        expression = read_expression(text, origin)
        section = SExpression((*read_expression("(:cost)", origin).items, expression), 1, 1)
        (literal, *more) = read_condition(section, origin, Scope(_AnyName(), {}))
    except SceneError as error:
        raise VlaError(str(error)) from error
    if more:
        raise VlaError(f"{where}expected one literal, found {1 + len(more)}: a [[cost]] each")
    return literal
