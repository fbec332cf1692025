"""The predicates of BDDL and CBDDL, and the literals that sections apply them in."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from pytest_vla.scene.bddl import (
    Atom,
    Node,
    Origin,
    SExpression,
    describe,
    expect_group,
    expect_name,
    expect_word,
    fail,
    read_number,
    reject_unknown,
    split_head,
)

Argument: TypeAlias = "str | float | tuple[str, ...] | Literal"

_UNARY = (("name",),)
_BINARY = (("name", "name"),)

# Every signature that upstream can evaluate, and what its paper prints beside: CheckForce with one name, and
# CheckGripperDist. "parts" is a list of geom numbers, such as (2 3 13).
SIGNATURES: dict[str, tuple[tuple[str, ...], ...]] = {
    "true": _UNARY + _BINARY,
    "false": _UNARY + _BINARY,
    "on": _BINARY,
    "in": _BINARY,
    "up": _UNARY,
    "open": _UNARY,
    "close": _UNARY,
    "turnon": _UNARY,
    "turnoff": _UNARY,
    "printjointstate": _UNARY,
    "noton": _BINARY,
    "notin": _BINARY,
    "fall": _UNARY,
    "collide": _UNARY,
    "incontact": _BINARY,
    "incontactpart": (("name", "name", "parts", "parts"),),
    "checkforce": (("name", "name", "number"), ("name", "number")),
    "checkdistance": (("name", "name", "number"),),
    "checkgrippercontact": _UNARY,
    "checkgrippercontactpart": (("name", "parts"),),
    "checkgripperdistance": (("name", "number"),),
    "checkgripperdist": (("name", "number"),),
    "checkgripperdistancepart": (("name", "parts", "number"),),
}
CONNECTIVES = ("and", "or", "not")
# Upstream uses these in :init and silently ignores all others.
INIT_PREDICATES = ("on", "in", "open", "close", "turnon", "turnoff")

GRIPPER = "gripper0"
"""The gripper's name in conditions, from VLA-Arena's paper; a task declares nothing of that name."""

_SHOWN = {"name": "NAME", "number": "NUMBER", "parts": "(PART ...)"}


@dataclass(frozen=True)
class Literal:
    """One application of a predicate, in lower case.

    `arguments` are names (str), numbers (float; metres or newtons), lists of geom numbers (tuple of str) and, of the
    connectives ``and``, ``or`` and ``not``, literals. An ``and`` at the top of :goal or :cost is not kept: its
    children are. `group` is the index of the top-level expression that the literal stood in: upstream keeps only
    group 0 of :goal and :cost, and evaluates no connective but that ``and``. Places count from 1, 0 is "from no
    file", and they do not count in comparisons.
    """

    predicate: str
    arguments: tuple[Argument, ...]
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)
    group: int = 0

    def __str__(self) -> str:
        return f"({' '.join([self.predicate, *map(_show, self.arguments)])})"


def _show(argument: Argument) -> str:
    if isinstance(argument, float):
        return show_number(argument)
    return f"({' '.join(argument)})" if isinstance(argument, tuple) else str(argument)


def show_number(value: float) -> str:
    """Return the shortest text that reads back as the same float, an integer without its point."""
    return repr(value).removesuffix(".0")


@dataclass(frozen=True)
class Scope:
    """The names that a literal may use: objects, fixtures, keys of regions, and predicates.

    `dangling`: the regions whose target is not declared, and that target. `section`: the addition to "predicate" in
    errors.
    """

    names: frozenset[str]
    dangling: dict[str, str]
    predicates: tuple[str, ...] = (*SIGNATURES, *CONNECTIVES)
    section: str = ""


def read_init(section: tuple[Node, ...], origin: Origin, scope: Scope) -> tuple[Literal, ...]:
    """Read the literals of :init, each a group of its own; only predicates that place or set something."""
    scope = replace(scope, predicates=INIT_PREDICATES, section=" of :init")
    form = "a literal such as (On bowl_1 plate_1)"
    return tuple(
        _read_literal(expect_group(node, origin, form), origin, scope, index) for index, node in enumerate(section)
    )


def read_condition(section: SExpression, origin: Origin, scope: Scope) -> tuple[Literal, ...]:
    """Read the literals of :goal or :cost.

    An ``and`` at the top gives its children, in order, of the same group.
    """
    name, expressions = split_head(section, origin, "a section")
    if not expressions:
        raise fail(
            origin,
            section,
            f"expected an expression in {name.text}, such as (And (On bowl_1 plate_1)); an "
            "empty one would hold at once",
        )
    literals: list[Literal] = []
    for index, node in enumerate(expressions):
        group = expect_group(node, origin, "an expression such as (And (On bowl_1 plate_1))")
        head, rest = split_head(group, origin, "'And' or a predicate")
        if head.text.lower() != "and":
            literals.append(_read_literal(group, origin, scope, index))
            continue
        literals += _read_children(group, rest, origin, scope, index)
    return tuple(literals)


def _read_children(
    group: SExpression, nodes: tuple[Node, ...], origin: Origin, scope: Scope, index: int
) -> list[Literal]:
    if not nodes:
        raise fail(origin, group, f"expected at least one literal in {describe(group)}; add it or remove the group")
    return [_read_literal(expect_group(node, origin, "a literal"), origin, scope, index) for node in nodes]


def _read_literal(group: SExpression, origin: Origin, scope: Scope, index: int) -> Literal:
    """Read a literal; connectives recurse, as deep as the reader of expressions allows."""
    head, nodes = split_head(group, origin, "a predicate")
    predicate = head.text.lower()
    if predicate not in scope.predicates:
        reject_unknown(origin, head, f"predicate{scope.section}", scope.predicates)
    arguments: tuple[Argument, ...]
    if predicate in CONNECTIVES:
        arguments = tuple(_read_children(group, nodes, origin, scope, index))
        if predicate == "not" and len(arguments) != 1:
            raise fail(
                origin, group, f"expected one literal in {head.text!r}, found {len(arguments)}; negate each by itself"
            )
    elif predicate in SIGNATURES:
        signature = next((kinds for kinds in SIGNATURES[predicate] if len(kinds) == len(nodes)), None)
        if signature is None:
            forms = " or ".join(
                f"({' '.join([head.text, *(_SHOWN[kind] for kind in kinds)])})" for kinds in SIGNATURES[predicate]
            )
            raise fail(origin, group, f"expected {forms}, found {len(nodes)} argument{'s' * (len(nodes) != 1)}")
        arguments = tuple(_READERS[kind](node, origin, scope) for kind, node in zip(signature, nodes, strict=True))
    else:
        arguments = tuple(_read_unknown(node, origin) for node in nodes)
    return Literal(predicate, arguments, group.line, group.column, index)


def _read_name(node: Node, origin: Origin, scope: Scope) -> str:
    word = expect_name(node, origin, "the name of an object, a fixture or a region")
    # Only conditions can name the gripper: nothing is placed on it.
    if word in scope.names or not isinstance(node, Atom) or (word == GRIPPER and not scope.section):
        return word
    if word in scope.dangling:
        reject_unknown(
            origin,
            node,
            "name",
            (),
            f": this region's target {scope.dangling[word]!r} is not declared; declare it in :objects or :fixtures",
        )
    else:
        reject_unknown(
            origin, node, "name", scope.names, ": no object, fixture or region (TARGET_REGION) has this name"
        )
    return word


def _read_parts(node: Node, origin: Origin, scope: Scope) -> tuple[str, ...]:
    group = expect_group(node, origin, "a list of geom numbers such as (2 3 13)")
    parts = tuple(expect_word(item, origin, "a geom number") for item in group.items)
    wrong = next((item for item, part in zip(group.items, parts, strict=True) if not _is_part(part)), None)
    if wrong is not None or not parts:
        raise fail(origin, wrong or group, f"expected geom numbers such as (2 3 13), found {describe(wrong or group)}")
    return parts


def _is_part(word: str) -> bool:
    # Upstream compares texts with the digits that a geom's name ends in: 03 would never match.
    return word.isascii() and word.isdecimal() and (word == "0" or not word.startswith("0"))


def _read_threshold(node: Node, origin: Origin, scope: Scope) -> float:
    return read_number(node, origin)


_READERS: dict[str, Callable[[Node, Origin, Scope], Argument]] = {
    "name": _read_name,
    "number": _read_threshold,
    "parts": _read_parts,
}


def _read_unknown(node: Node, origin: Origin) -> Argument:
    """Read an argument of a predicate that ``compat`` accepted: only its words are known."""
    if isinstance(node, SExpression):
        return tuple(expect_word(item, origin, "a word") for item in node.items)
    return node.text.lower()
