"""Whether two failures are one: what each takes, and whether a scene has all that another one fails for."""

from collections.abc import Sequence

from pytest_vla.fuzz.amounts import distance, side
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.vary.chosen import Change
from pytest_vla.vary.registry import kind_named
from pytest_vla.vary.space import Parameter

Cause = tuple[tuple[str, int], ...]
"""Kinds, each with the side that its largest number is on: to the left is not to the right."""


def cause_of(candidate: Candidate) -> Cause:
    """What a scene takes; distinct failures have distinct ones."""
    return tuple(
        sorted((change.kind, side(space_of(candidate, change), change.params)) for change in candidate.changes)
    )


def has_more(candidate: Candidate, smaller: Candidate) -> bool:
    """Whether a candidate has all that a smaller one has, to the same side and as much, so that it fails for that."""
    params = {change.kind: change.params for change in candidate.changes}
    for change in smaller.changes:
        if change.kind not in params:
            return False
        space, there = space_of(smaller, change), params[change.kind]
        if side(space, there) != side(space, change.params) or distance(space, there) < distance(space, change.params):
            return False
    return True


def space_of(candidate: Candidate, change: Change) -> Sequence[Parameter]:
    """The parameters of a candidate's change."""
    return kind_named(change.kind).space(candidate.task)
