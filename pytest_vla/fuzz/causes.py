"""The causes of failures: whether two failures have the same cause, and whether a scene includes a known cause."""

from collections.abc import Iterable, Sequence
from typing import Any

from pytest_vla.fuzz.amounts import Component, components, scaled_components, value_at
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.vary.chosen import Change
from pytest_vla.vary.registry import kind_named
from pytest_vla.vary.space import ANGLE, CHOICE, NUMBER, SEED, TEXT, WHOLE, Parameter

Cause = tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
"""Kinds, each with its numbers that are not benign, and the side that each is on: left is not right, nor joint 3 joint
5."""

ALIKE_DEG, ALIKE_SHARE = 60.0, 0.25
"""How far apart what says how (a heading, a colour, a place) may be: degrees, and of other numbers' ranges."""


def cause_of(candidate: Candidate) -> Cause:
    """Return the cause of a scene: its kinds and the sides of their numbers, without manners such as a heading."""
    return tuple(sorted((change.kind, _sides(candidate, change)) for change in candidate.changes))


def is_one_cause(first: Candidate, second: Candidate) -> bool:
    """Whether two smallest failures have one cause: the same numbers on the same sides, and similar manners."""
    if cause_of(first) != cause_of(second):
        return False
    others = {change.kind: change for change in second.changes}
    return all(_are_alike(first, change, others[change.kind]) for change in first.changes)


ALIKE_AMOUNTS = 1.5
"""The ratio of two amounts up to which failures in different directions are one failure."""


def is_one_failure(first: Candidate, second: Candidate) -> bool:
    """Whether two smallest failures are told as one: they have one cause, or differ in their direction alone.

    A light that may be turned by no more than 40 degrees, whatever the heading, is one failure. If it begins at very
    different amounts to different sides, the direction matters.
    """
    if is_one_cause(first, second):
        return True
    if cause_of(first) != cause_of(second):
        return False
    others = {change.kind: change for change in second.changes}
    return all(
        _are_alike(first, change, others[change.kind], _begin_alike(first, change, others[change.kind]))
        for change in first.changes
    )


def _begin_alike(candidate: Candidate, change: Change, other: Change) -> bool:
    """Whether a change has amounts, and each is up to `ALIKE_AMOUNTS` times the other's."""
    space = {each.name: each for each in space_of(candidate, change)}
    amounts = [
        sorted(abs(value_at(each.params, component) - space[component.name].benign) for each in (change, other))
        for component in scaled_components(list(space.values()), change.params)
    ]
    return bool(amounts) and all(most <= ALIKE_AMOUNTS * least for least, most in amounts)


def has_more(candidate: Candidate, smaller: Candidate) -> bool:
    """Whether a candidate includes all of a smaller one, on the same sides and as much, and fails for that cause.

    Numbers are compared one by one. Manners (a heading, a colour) have to be similar. Texts have no order: those of one
    kind count as equal.
    """
    changes = {change.kind: change for change in candidate.changes}
    for change in smaller.changes:
        there = changes.get(change.kind)
        if there is None or not _are_alike(smaller, change, there):
            return False
        space = {each.name: each for each in space_of(smaller, change)}
        for component in scaled_components(list(space.values()), change.params):
            benign = space[component.name].benign
            wanted = value_at(change.params, component) - benign
            if component.name not in there.params:
                return False
            found = value_at(there.params, component) - benign
            if found * wanted <= 0 or abs(found) < abs(wanted):
                return False
    return True


def changes_nothing(candidate: Candidate, change: Change) -> bool:
    """Whether all amounts of a change are benign."""
    space = space_of(candidate, change)
    return any(each.is_amount for each in space) and not components(space, change.params)


def space_of(candidate: Candidate, change: Change) -> Sequence[Parameter]:
    """Return the parameters of a candidate's change."""
    return kind_named(change.kind).space(candidate.task)


def _sides(candidate: Candidate, change: Change) -> tuple[tuple[str, int], ...]:
    space = space_of(candidate, change)
    benign = {each.name: each.benign for each in space}
    numbers = scaled_components(space, change.params)
    return tuple(sorted((str(each), _side(each, change, benign[each.name])) for each in numbers))


def _side(component: Component, change: Change, benign: Any) -> int:
    return 1 if value_at(change.params, component) > benign else -1


def _are_alike(candidate: Candidate, change: Change, other: Change, any_direction: bool = False) -> bool:
    """Whether manners are similar, and each thing of the first change is near one of the other's.

    With `any_direction`, headings and axes are not compared.
    """
    for each in space_of(candidate, change):
        if each.parts or (any_direction and (each.form == ANGLE or (each.form == NUMBER and each.shape))):
            continue
        if each.benign is None and not _is_alike(each, change.params.get(each.name), other.params.get(each.name)):
            return False
    things = [each for each in space_of(candidate, change) if each.parts]
    return all(
        any(_are_one_thing(each, change.params[each.name], other.params.get(one.name)) for one in things)
        for each in things
        if change.params.get(each.name)
    )


def _are_one_thing(parameter: Parameter, value: Sequence[Any], other: Sequence[Any] | None) -> bool:
    """Whether two things are one, by place alone."""
    if not other:
        return False
    pairs = zip(parameter.parts, value, other, strict=True)
    return all(_is_alike(part, one, another) for part, one, another in pairs if part.form == NUMBER)


def _is_alike(parameter: Parameter, value: Any, other: Any) -> bool:
    if parameter.form in (SEED, TEXT) or value is None or other is None:
        return True
    if parameter.form == CHOICE:
        return bool(value == other)
    if parameter.form not in (ANGLE, NUMBER, WHOLE) or parameter.many:
        return True
    pairs = list(zip(_flat(value), _flat(other), strict=True))
    if parameter.form == ANGLE:
        return all(abs((one - another + 180) % 360 - 180) <= ALIKE_DEG for one, another in pairs)
    reach = ALIKE_SHARE * (parameter.high - parameter.low)
    return all(abs(one - another) <= reach for one, another in pairs)


def _flat(value: Any) -> Iterable[float]:
    if isinstance(value, (list, tuple)):
        return [number for each in value for number in _flat(each)]
    return [float(value)]
