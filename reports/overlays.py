"""The hand's paths of failures, by how they failed, beside those of successes: what a page lays over each other."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, TypeVar

from pytest_vla.metrics.language_paths import TaskFailures

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST = 50
"""Episodes of a type; tasks take turns."""

SUCCESSES, NEAR, FAR, UNLABELLED = "successes", "near", "far", "no label"
TYPES = (SUCCESSES, NEAR, FAR, UNLABELLED)

_Each = TypeVar("_Each")


@dataclass(frozen=True)
class Way:
    """One path.

    Attributes:
        case: of the episode.
        path: (n, 3), m, in the world's frame.
    """

    case: str
    path: "NDArray[np.float64]"


@dataclass(frozen=True)
class Overlay:
    """Paths that belong together.

    Attributes:
        title: what was varied.
        ways: by each of `TYPES` that there is, at most `MOST`.
        numbers: of each of them how many there are in all.
    """

    title: str
    ways: Mapping[str, tuple[Way, ...]]
    numbers: Mapping[str, int]


def overlay(title: str, tasks: Sequence[TaskFailures]) -> Overlay:
    """Of one dimension of variation, or of other words.

    Args:
        title: names it.
        tasks: with failures or without; the successes of those with failures are there.
    """
    found: dict[str, list[list[Way]]] = {}
    for task in tasks:
        if not task.failures:
            continue
        by_type: dict[str, list[Way]] = {SUCCESSES: _ways(task.success_cases, task.success_paths)}
        judgement = task.types.judgement
        levels = [UNLABELLED] * task.failures if judgement is None else judgement.levels["max"]
        for level, way in zip(levels, _ways(task.failure_cases, task.failure_paths), strict=True):
            by_type.setdefault(level, []).append(way)
        for name, ways in by_type.items():
            found.setdefault(name, []).append(ways)
    kept = {name: tuple(chain.from_iterable(found[name])) for name in TYPES if name in found}
    numbers = {name: len(ways) for name, ways in kept.items() if ways}
    return Overlay(title, {name: tuple(_turns(found[name]))[:MOST] for name in numbers}, numbers)


def _ways(cases: Sequence[str], paths: "Sequence[NDArray[np.float64]]") -> list[Way]:
    return [Way(case, path) for case, path in zip(cases, paths, strict=True)]


def _turns(some: Iterable[Sequence[_Each]]) -> Iterator[_Each]:
    """The first of each, then the second of each."""
    return (each for turn in zip_longest(*some) for each in turn if each is not None)
