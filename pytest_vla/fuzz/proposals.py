"""Scenes drawn evenly over dimensions, kinds and amounts. Their failure rate is that of this space."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.fuzz.amounts import can_be_less, less
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.plan.case import levelled, parted
from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Params
from pytest_vla.util.text import did_you_mean
from pytest_vla.vary.chosen import Change, change_of, remembering
from pytest_vla.vary.kind import Draw, VariationKind
from pytest_vla.vary.registry import find_variation, kinds

MOST_CHANGES = 3


SHARES_OF_NUMBERS = (0.5, 0.3, 0.2)
"""How often there are one, two and three changes."""


_PROPOSE_MOST_DRAWS = 100


def no_scene(task: Task, draws: int, why: str) -> VlaError:
    """Return the error of a task in which no draw is possible; `why` is the error of the last one."""
    return VlaError(f"{task.id}: none of {draws} draws is possible in this task; the last one: {why}")


def fuzzed_kinds(task: Task, dimensions: Sequence[str] = ()) -> tuple[VariationKind, ...]:
    """Return the kinds that can be searched on a task: ours that are graded or come in parts, and need no files.

    Args:
        task: of any suite that is not varied by itself.
        dimensions: only these; empty for all.

    Raises:
        VlaError: there is no such dimension (the message has close matches), or the task has no kind of any.
    """
    ours = [
        kind
        for kind in kinds()
        if (kind.levels or kind.parts()) and not (kind.published or kind.alone or kind.by_name or kind.probe)
    ]
    known = tuple(dict.fromkeys(kind.dimension for kind in ours))
    for name in dimensions:
        if name not in known:
            raise VlaError(
                f"no dimension {name!r} can be searched.{did_you_mean(name, known)} Known: {', '.join(known)}"
            )
    wanted = [kind for kind in ours if not dimensions or kind.dimension in dimensions]
    found = tuple(kind for kind in wanted if not kind.needs_files and _has(task, kind))
    if not found:
        raise VlaError(f"{task.id} cannot be varied by {' or '.join(dimensions or known)}")
    return found


def propose(task: Task, seed: int, some: Sequence[VariationKind], generator: Random) -> Candidate:
    """Draw a scene evenly: the number of dimensions, which ones, a kind of each, and an amount up to its highest level.

    Args:
        task: as it is.
        seed: of the case.
        some: the kinds to draw from, of `fuzzed_kinds`.
        generator: the same state gives the same scene.

    Raises:
        VlaError: none of many draws is a scene that the task can have.
        EpisodeError: a kind of the user's is broken.
    """
    why = ""
    for _ in range(_PROPOSE_MOST_DRAWS):
        try:
            return checked(drawn(task, seed, some, generator))
        except EpisodeError:
            raise
        except VlaError as error:
            # Such as an amount that rounds to nothing.
            why = str(error)
    raise no_scene(task, _PROPOSE_MOST_DRAWS, why)


def checked(candidate: Candidate) -> Candidate:
    """Return the candidate. Raises VlaError if the task cannot have it."""
    with remembering(candidate.changes):
        find_variation(candidate.task, candidate.label, candidate.seed)
    return candidate


def drawn(task: Task, seed: int, some: Sequence[VariationKind], generator: Random) -> Candidate:
    """Draw a scene once, as `propose`.

    The task may not be able to have it, see `checked`. Raises VlaError if nothing can be drawn.
    """
    by_dimension: dict[str, list[VariationKind]] = {}
    for kind in some:
        by_dimension.setdefault(kind.dimension, []).append(kind)
    (number,) = generator.choices(range(1, MOST_CHANGES + 1), SHARES_OF_NUMBERS)
    chosen = generator.sample(sorted(by_dimension), min(number, len(by_dimension)))
    changes = (drawn_change(task, generator.choice(by_dimension[dimension]), generator) for dimension in chosen)
    return Candidate(task, seed, tuple(changes))


def drawn_change(task: Task, kind: VariationKind, generator: Random, least: float = 0.0) -> Change:
    """Draw a change of a kind, with any amount of it.

    Args:
        task: as it is.
        kind: that the task has.
        generator: the same state gives the same change.
        least: the amount that it exceeds, as a share of the highest level; below 1.

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


def _sampled(kind: VariationKind, draw: Draw) -> Params:
    """Sample a level, or the next lower one that the task has. Raises VlaError if there is none."""
    for lower in [each for each in reversed(kind.levels) if each <= draw.level]:
        try:
            return kind.sample(replace(draw, level=lower))
        except EpisodeError:
            raise
        except VlaError:
            # Of words an instruction has only so many.
            if lower == kind.levels[0]:
                raise
    raise VlaError(f"{kind.name} has no level up to {draw.level}")


def _has(task: Task, kind: VariationKind) -> bool:
    if kind.misfit(task):
        return False
    try:
        kind.space(task)
        if kind.levels:
            kind.sample(Draw(task, levelled(kind.name, kind.levels[0]), 0, kind.levels[0]))
    except EpisodeError:
        raise
    except VlaError:
        return False
    return True
