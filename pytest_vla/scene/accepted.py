"""The arguments that each predicate accepts, and the geoms that a number means, for both lint and run.

Facts from VLA-Arena's public checkout of 2025-09, ``envs/bddl_base_domain.py`` (`_eval_predicate` and the functions it
calls) and ``envs/object_states``.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from pytest_vla.scene.literals import CONNECTIVES, GRIPPER, Literal

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
