"""What becomes of a baseline that another takes the place of."""

from dataclasses import dataclass

from pytest_vla.gate.baseline import Baseline
from pytest_vla.gate.comparable import Agreement, Pair, matched


@dataclass(frozen=True)
class Changes:
    """From one baseline to another.

    Attributes:
        before: the one that was.
        after: the one that takes its place.
        lost: cases that succeeded and now fail.
        gained: cases that failed and now succeed.
        otherwise: cases whose outcome is another one, such as an error.
        moved: how many cases end as they did, by another trajectory.
        agreement: the cases that one alone has, and the conditions that differ.
    """

    before: Baseline
    after: Baseline
    lost: tuple[Pair, ...]
    gained: tuple[Pair, ...]
    otherwise: tuple[Pair, ...]
    moved: int
    agreement: Agreement


def changes_of(before: Baseline, after: Baseline) -> Changes:
    """What changes where `after` takes the place of `before`; they need no case in common."""
    found = matched(before, after)
    ways: dict[tuple[str, str], list[Pair]] = {}
    for pair in found.pairs:
        ways.setdefault((pair.baseline.outcome, pair.new.outcome), []).append(pair)
    lost, gained = (tuple(ways.pop(way, ())) for way in (("success", "failure"), ("failure", "success")))
    otherwise = tuple(pair for (one, other), some in ways.items() if one != other for pair in some)
    alike = (pair for (one, other), some in ways.items() if one == other for pair in some)
    moved = sum(pair.baseline.digest != pair.new.digest for pair in alike)
    return Changes(before, after, lost, gained, otherwise, moved, found.agreement)
