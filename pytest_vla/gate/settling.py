"""How many episodes more settle a group that is undecided, if they go on like those that there are.

The gate's own tests are asked of so many times as many units of each kind. By how a bound narrows with the root of the
number alone it would be far too many: of few pairs bounds are wider than that says.
"""

from collections.abc import Callable
from math import ceil

from pytest_vla.gate.choices import ALPHA
from pytest_vla.gate.evidence import Sample, changed_p
from pytest_vla.gate.exact import WAYS, UnitCounts, Way, counted_units
from pytest_vla.gate.score import counted_paired_p, unpaired_p

MOST_MORE = 100_000
"""Where more episodes than this would settle it, nobody is told to run them."""

_EXACT = 2000
"""Up to so many pairs that differ the exact test is asked; of more the score test, which says the same, and sooner."""


def more_of(
    sample: Sample, margin: float, alpha: float = ALPHA, groups: int = 1, *, is_paired: bool = True
) -> int | None:
    """About how many episodes more settle a group; None: more than `MOST_MORE`.

    Args:
        sample: of the group, in which nothing is shown.
        margin: the drop that nobody minds, 0..1.
        alpha: of each claim.
        groups: among how many a change is claimed.
        is_paired: whether both sides are of the same cases; else as many more are meant of either.
    """
    if not is_paired:
        return _fewest(len(sample.new), lambda times: _settles_unpaired(sample, times, margin, alpha, groups))
    differences = [new - baseline for new, baseline in zip(sample.new, sample.baseline, strict=True)]
    counts = counted_units(differences, sample.new_units)
    return _fewest(len(differences), lambda times: _settles(_times(counts, times), margin, alpha, groups))


def _fewest(number: int, settles: Callable[[float], bool]) -> int | None:
    """How many more than `number` it takes, of what is settled from some multiple of it on."""
    low, high = number, number
    while not settles(high / number):
        if high - number >= MOST_MORE:
            return None
        low, high = high, min(2 * high, number + MOST_MORE)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if settles(middle / number) else (middle, high)
    return max(ceil(high - number), 1)


def _times(counts: UnitCounts, times: float) -> UnitCounts:
    units = {kind: number * times for kind, number in counts.units.items()}
    return UnitCounts(counts.lost * times, counts.gained * times, units)


def _settles(counts: UnitCounts, margin: float, alpha: float, groups: int) -> bool:
    """Whether either is shown of numbers of units that need not be whole."""
    if margin >= 1.0 or counted_paired_p(counts, margin) <= alpha:
        return True
    return any(groups * _changed(counts, way) <= alpha for way in WAYS)


def _changed(counts: UnitCounts, way: Way) -> float:
    if counts.lost + counts.gained <= _EXACT:
        return changed_p(counts, way)
    if way == "better":
        return counted_paired_p(counts, 0.0)
    turned = {(-total, size): number for (total, size), number in counts.units.items()}
    return counted_paired_p(UnitCounts(counts.gained, counts.lost, turned), 0.0)


def _settles_unpaired(sample: Sample, times: float, margin: float, alpha: float, groups: int) -> bool:
    ours, theirs = (sample.new, sample.new_units), (sample.baseline, sample.baseline_units)
    if margin >= 1.0 or unpaired_p(*ours, *theirs, margin, times) <= alpha:
        return True
    ways = (ours, theirs), (theirs, ours)
    return any(groups * unpaired_p(*one, *other, 0.0, times) <= alpha for one, other in ways)
