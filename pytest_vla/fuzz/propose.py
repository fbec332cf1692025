"""Proposals: scenes drawn evenly over dimensions, kinds and amounts; their failure rate is one of that space."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from pytest_vla.errors import VlaError
from pytest_vla.fuzz.amounts import can_be_less, less
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.plan.labels import levelled, parted
from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Params
from pytest_vla.util.text import did_you_mean
from pytest_vla.vary.chosen import Change, change_of, remembering
from pytest_vla.vary.kind import Draw, Kind
from pytest_vla.vary.registry import find_variation, kinds

MOST_CHANGES = 3

SHARES_OF_NUMBERS = (0.5, 0.3, 0.2)
"""How often there are one, two and three changes."""

_MOST_DRAWS = 100


def fuzzed_kinds(task: Task, dimensions: Sequence[str] = ()) -> tuple[Kind, ...]:
    """The kinds that can be searched on a task: ours that are graded or come in parts, and need no files.

    Args:
        task: of any suite that is not varied by itself.
        dimensions: only these; none: all that there are.

    Raises:
        VlaError: there is no such dimension, with close matches, or the task has no kind of any.
    """
    ours = [
        kind
        for kind in kinds()
        if (kind.levels or kind.parts()) and not (kind.published or kind.alone or kind.by_name or kind.probe)
    ]
    known = tuple(dict.fromkeys(kind.dimension for kind in ours))
    for name in dimensions:
        if name not in known:
            raise VlaError(f"no dimension {name!r} can be searched.{did_you_mean(name, known)} {', '.join(known)} can")
    wanted = [kind for kind in ours if not dimensions or kind.dimension in dimensions]
    found = tuple(kind for kind in wanted if not kind.needs_files and _has(task, kind))
    if not found:
        raise VlaError(f"{task.id} has no kind of {', '.join(dimensions or known)}")
    return found


def propose(task: Task, seed: int, some: Sequence[Kind], generator: Random) -> Candidate:
    """A scene drawn evenly: how many dimensions, which, of each a kind, of that any amount up to its highest level.

    Args:
        task: as it is.
        seed: of the case.
        some: the kinds to draw from, of `fuzzed_kinds`.
        generator: the same state gives the same scene.

    Raises:
        VlaError: none of many draws is a scene that the task can have.
    """
    why = ""
    for _ in range(_MOST_DRAWS):
        try:
            return checked(drawn(task, seed, some, generator))
        except VlaError as error:
            # Such as an amount that rounds to nothing.
            why = str(error)
    raise VlaError(f"{task.id}: none of {_MOST_DRAWS} draws is a scene that it can have; the last one: {why}")


def checked(candidate: Candidate) -> Candidate:
    """The same. Raises VlaError: the task cannot have it."""
    with remembering(candidate.changes):
        find_variation(candidate.task, candidate.label, candidate.seed)
    return candidate


def drawn(task: Task, seed: int, some: Sequence[Kind], generator: Random) -> Candidate:
    """A scene as `propose` draws it, once. Raises VlaError, or gives one that the task cannot have: see `checked`."""
    by_dimension: dict[str, list[Kind]] = {}
    for kind in some:
        by_dimension.setdefault(kind.dimension, []).append(kind)
    (number,) = generator.choices(range(1, MOST_CHANGES + 1), SHARES_OF_NUMBERS)
    chosen = generator.sample(sorted(by_dimension), min(number, len(by_dimension)))
    changes = (drawn_change(task, generator.choice(by_dimension[dimension]), generator) for dimension in chosen)
    return Candidate(task, seed, tuple(changes))


def drawn_change(task: Task, kind: Kind, generator: Random, least: float = 0.0) -> Change:
    """A change of a kind, any amount of it.

    Args:
        task: as it is.
        kind: that the task has.
        generator: the same state gives the same change.
        least: of its highest level, the amount that it is above; below 1.

    Raises:
        VlaError: this draw is none that the task can have.
    """
    if not kind.levels:
        part = generator.choice(kind.parts())
        return change_of(
            kind.name, kind.sample(Draw(task, parted(kind.name, part), generator.getrandbits(31), 0, part))
        )
    level = kind.levels[-1]
    draw = Draw(task, levelled(kind.name, level), generator.getrandbits(31), level)
    # Above the least, up to 1: what is varied not at all is the twin.
    share = 1 - generator.random() * (1 - least)
    space, params = kind.space(task), _sampled(kind, draw)
    if not can_be_less(space, params):
        # Words and objects are more or fewer of them.
        wanted = [each for each in kind.levels if each / level > least] or [level]
        params = _sampled(kind, replace(draw, level=generator.choice(wanted)))
    return change_of(kind.name, less(space, params, share))


def _sampled(kind: Kind, draw: Draw) -> Params:
    """Of a level, or of the next below it that there is. Raises VlaError: there is none."""
    for lower in [each for each in reversed(kind.levels) if each <= draw.level]:
        try:
            return kind.sample(replace(draw, level=lower))
        except VlaError:
            # Of words an instruction has only so many.
            if lower == kind.levels[0]:
                raise
    raise VlaError(f"{kind.name} has no level up to {draw.level}")


def _has(task: Task, kind: Kind) -> bool:
    if task.world is not None and not kind.anywhere:
        return False
    try:
        kind.space(task)
        if kind.levels:
            kind.sample(Draw(task, levelled(kind.name, kind.levels[0]), 0, kind.levels[0]))
    except VlaError:
        return False
    return True
