"""The predicates of BDDL and CBDDL, the arguments that they accept, and the literals that sections apply them in."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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


# The arguments that each predicate accepts, and the geoms that a number means, for both lint and run.
#
# Facts from VLA-Arena's public checkout of 2025-09, ``envs/bddl_base_domain.py`` (`_eval_predicate` and the functions
# it calls) and ``envs/object_states``.

KINDS = OBJECT, FIXTURE, WORKSPACE, ZONE, REGION, PART, HAND = (
    *("object", "fixture", "workspace"),
    *("zone", "region", "part", "hand"),
)
"""Kinds of names. The workspace is the table or floor itself, and a zone is a region of it. A region is of an object
or fixture. A part is such a region without the three sizes of a box: it may be open, and nothing is in it. The hand is
`pytest_vla.scene.literals.GRIPPER`."""

REGIONS = frozenset({ZONE, REGION})
"""Kinds of names with a box."""

KindOf = Callable[[str], str | None]
"""Returns the kind of a name, or None if the scene has nothing of that name."""

_THINGS = frozenset({OBJECT, FIXTURE})
_TOUCHABLE = _THINGS | {WORKSPACE, HAND}
_MEASURED = _THINGS | {HAND}
_PLACES = _THINGS | REGIONS
_OPENED = _THINGS | {REGION, PART}

# The accepted kinds of each predicate's names, in order. Predicates that are not listed take any name.
_ACCEPTED: Mapping[str, tuple[frozenset[str], ...]] = {
    **dict.fromkeys(("on", "in", "noton", "notin"), (_THINGS, _PLACES)),
    **dict.fromkeys(("up", "fall", "collide"), (_THINGS,)),
    **dict.fromkeys(("open", "close", "turnon", "turnoff"), (_OPENED,)),
    **dict.fromkeys(("incontact", "checkforce"), (_TOUCHABLE, _TOUCHABLE)),
    "checkdistance": (_TOUCHABLE | REGIONS, _TOUCHABLE | REGIONS),
    **dict.fromkeys(("checkgrippercontact", "checkgripperdistance", "checkgripperdist"), (_THINGS | {WORKSPACE},)),
    **dict.fromkeys(("checkgrippercontactpart", "checkgripperdistancepart"), (_THINGS,)),
    "incontactpart": (_THINGS, _THINGS),
}

_CALLED = {
    OBJECT: "an object",
    FIXTURE: "a fixture",
    WORKSPACE: "the table or floor itself",
    ZONE: "a region",
    REGION: "a region",
    PART: "a part that is not a box",
    HAND: "the gripper",
    None: "nothing of this scene",
}

# Upstream looks up the names of these among the states that it keeps: objects, fixtures and regions.
_LOOKED_UP = frozenset(_ACCEPTED) - {"on", "in", "noton", "notin", "up", "open", "close", "turnon", "turnoff"}

_LAST_DIGITS = re.compile(r"[0-9]+\Z")


def names_of(literal: Literal) -> tuple[str, ...]:
    """Return the names that a literal applies its predicate to."""
    return tuple(argument for argument in literal.arguments if isinstance(argument, str))


def all_names_of(literal: Literal) -> Iterator[str]:
    """Yield the names in a literal and in the literals within it."""
    for argument in literal.arguments:
        if isinstance(argument, Literal):
            yield from all_names_of(argument)
        elif isinstance(argument, str):
            yield argument


def refusal(literal: Literal, kind_of: KindOf, known: Sequence[str] = ()) -> str | None:
    """Return why nothing can judge a literal by what it names, or None if it can be judged.

    Args:
        literal: no connective.
        kind_of: returns the kind of a name.
        known: the objects and fixtures, for the message.
    """
    kinds = [kind_of(name) for name in names_of(literal)]
    for name, kind, accepted in zip(names_of(literal), kinds, _ACCEPTED.get(literal.predicate, ()), strict=False):
        if kind not in accepted:
            return f"{name!r} is {_CALLED[kind]}; expected {_expected(accepted, known)}"
    if (
        literal.predicate == "checkdistance"
        and REGIONS.intersection(kinds)
        and not {OBJECT, FIXTURE, HAND}.intersection(kinds)
    ):
        return f"a distance from a region needs an object, a fixture or {GRIPPER}; name one of them"
    return None


def crash_of(literal: Literal, kind_of: KindOf) -> str | None:
    """Return what upstream's code raises at a literal in every state, or None if it judges it in some."""
    predicate, names = literal.predicate, names_of(literal)
    if predicate in CONNECTIVES:
        return f"TypeError: it looks what {predicate!r} holds up as if it were an object's name"
    kinds = [kind_of(name) for name in names]
    if HAND in kinds:
        return f"KeyError: {GRIPPER!r}: it keeps no state of the gripper"
    if predicate == "checkgripperdist":
        return "KeyError: it knows no CheckGripperDist, and looks the distance up as an object's name"
    if WORKSPACE in kinds and predicate in _LOOKED_UP:
        return f"KeyError: {names[kinds.index(WORKSPACE)]!r}: it keeps no state of the table or floor itself"
    if predicate == "checkforce" and len(names) == 1:
        return "KeyError: it looks the limit of a force up as an object's name where only one is given"
    if predicate == "checkdistance" and kinds[0] in REGIONS:
        return "AttributeError: a region's state has no 'check_distance'"
    if predicate == "checkdistance" and kinds[1] in REGIONS:
        return "TypeError: a region is no list of geoms to go through"
    if predicate == "collide":
        return "AttributeError: an object's state has no 'check_collision'"
    if predicate == "incontactpart":
        return "AttributeError: it hands a list of names to '_check_contact' where the simulation belongs"
    if predicate == "printjointstate" and kinds[0] != FIXTURE:
        return f"IndexError: it has no joint states of {names[0]!r} to print"
    return None


def may_crash(literal: Literal, kind_of: KindOf) -> str | None:
    """Return what upstream's code raises at a literal in some states, or None if it raises in none or in all."""
    names = names_of(literal)
    if literal.predicate in ("in", "notin") and kind_of(names[1]) in _THINGS:
        return f"AttributeError: an object such as {names[1]!r} has no 'in_box'"
    return None


def geom_name(index: int, own: str | None) -> str:
    """Return the name that robosuite gives a geom of an object's model.

    Args:
        index: of the geom among all of its body "object", in the file's order, from 0.
        own: its name in the file, or None.
    """
    return f"g{index}" if own is None else own


def geom_number(name: str) -> str | None:
    """Return the number by which a literal can refer to a geom: its name's last digits, or None if it has none.

    This follows upstream. For a geom without a name, the number is its place in the file; for ``wall33`` it is 33,
    wherever that is in the file. Several geoms whose names end alike are all meant.
    """
    found = _LAST_DIGITS.search(name)
    return (found[0].lstrip("0") or "0") if found else None


def missing_parts(wanted: Sequence[str], numbers: Sequence[str], thing: str) -> str | None:
    """Return why no geom of a thing has one of these numbers, or None if each is had.

    Args:
        wanted: numbers of a literal.
        numbers: of the thing's geoms that collide; see `geom_number`.
        thing: its name.
    """
    missing = [part for part in wanted if part not in numbers]
    if not missing:
        return None
    known = " ".join(sorted(set(numbers), key=lambda number: (len(number), number))) or "none"
    return (
        f"no geom of {thing} that collides has the number {' or '.join(missing)}; expected some of ({known}), "
        "the digits that names of its geoms end in"
    )


def _expected(kinds: frozenset[str], known: Sequence[str]) -> str:
    words = ["object", "fixture"] + (["region"] if REGION in kinds else [])
    beside = (["the table or floor itself"] if WORKSPACE in kinds else []) + ([GRIPPER] if HAND in kinds else [])
    text = "an " + ", ".join(words[:-1]) + f" or {words[-1]}"
    text += f": {', '.join(known)}" if known else ""
    return text + (f"; {' and '.join(beside)} will do too" if beside else "")
