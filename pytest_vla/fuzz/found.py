"""What a search has found: failures at their smallest, and how many of the scenes fail."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import hypot
from typing import Any

from pytest_vla.fuzz.amounts import value_at
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.causes import Cause, cause_of
from pytest_vla.fuzz.sampler import EVEN
from pytest_vla.fuzz.shrink import Boundary, Outcome, Shrunk
from pytest_vla.metrics.statistics import wilson_interval
from pytest_vla.scene.variation import Params

RUN_SEEDS = 3
"""Under how many further run seeds a failure is tried again: a policy that draws may fail by luck."""


RUN_SEEDS_OF_DRAWS = 7
"""The same for a policy that draws: what fails half of the time fails under all of them in one search of 128."""


def further_seeds(own: int) -> tuple[int, ...]:
    """`RUN_SEEDS` run seeds, none of which is the search's own."""
    return tuple(seed for seed in range(RUN_SEEDS + 1) if seed != own)[:RUN_SEEDS]


@dataclass(frozen=True)
class Found:
    """A failure, at its smallest.

    Attributes:
        first: as it was proposed.
        shrunk: what is left of it.
        failed: under how many run seeds the smallest fails, the search's own among them.
        tried: of how many.
        number: of the proposal.
        source: of the proposal, see `pytest_vla.fuzz.sampler.SOURCES`.
        rival: what comes of the smallest with the policy that is compared; None: there is none.
        twin: under how many run seeds its benign twin fails, and of how many; of none where it was tried under one.
        draws: whether the policy draws, so that run seeds are observations.
    """

    first: Candidate
    shrunk: Shrunk
    failed: int
    tried: int
    number: int = 0
    source: str = EVEN
    rival: Outcome | None = None
    twin: tuple[int, int] = (0, 0)
    draws: bool = False

    @property
    def is_flaky(self) -> bool:
        """Whether it fails under some run seeds only: reported with its rate, and not as found."""
        return self.failed < self.tried

    @property
    def cause(self) -> Cause:
        """What it takes: kinds, their numbers, and to which side of each."""
        return cause_of(self.shrunk.candidate)


@dataclass(frozen=True)
class Searched:
    """What a search has seen of a task.

    Attributes:
        proposed: scenes that were drawn evenly and tried.
        failed: of those, how many the policy fails and the expert does.
        passed: how many the policy does.
        aside: by why, how many told nothing.
        guided: scenes that were chosen by what was seen of others.
        guided_failed: how many of these fail; no rate of any space.
        guided_passed: how many the policy does.
        again: failures of kinds that were found before; the same change is at work, more of it.
        pending: failures that were not looked into: the search was stopped before.
        found: distinct failures.
        left_out: seeds whose benign twin the policy does not do, and why.
        base: of the benign twins of the seeds that are searched, under further run seeds, how many fail, and of how
            many. The own run seed is not among them, since seeds are searched whose twin succeeds under it.
        draws: whether the policy draws.
    """

    proposed: int = 0
    failed: int = 0
    passed: int = 0
    aside: Mapping[str, int] = field(default_factory=dict)
    guided: int = 0
    guided_failed: int = 0
    guided_passed: int = 0
    again: int = 0
    pending: int = 0
    found: tuple[Found, ...] = ()
    left_out: tuple[tuple[int, str], ...] = ()
    base: tuple[int, int] = (0, 0)
    draws: bool = False

    @property
    def told_something(self) -> bool:
        """Whether the policy did or failed any scene, so that something was learned of it."""
        return bool(self.passed or self.failed or self.guided_passed or self.guided_failed)


# What a search of one task is told in: failures by what changes and where that begins, the rate with its interval.


def failure_line(found: Found, rival: str = "") -> str:
    """``fails under 4 of 4 run seeds: action.delay steps=3 (does it at steps=2), seed 0``.

    Args:
        found: the failure.
        rival: the policy that is compared; empty: none is.
    """
    often = often_text(found)
    end = "" if found.shrunk.complete else f"; {_why_not_smaller(found)}"
    return f"fails {often}: {boundary_text(found)}, seed {found.shrunk.candidate.seed}{rival_text(found, rival)}{end}"


def often_text(found: Found) -> str:
    """``under 8 of 8 run seeds [68%, 100%], its benign twin under 1 of 4``; of a policy that never draws the count."""
    text = f"under {found.failed} of {found.tried} run seeds"
    if not found.draws:
        return text
    low, high = wilson_interval(found.failed, found.tried)
    twin = f", its benign twin under {found.twin[0]} of {found.twin[1]}" if found.twin[1] else ""
    return f"{text} [{low:.0%}, {high:.0%}]{twin}"


def _why_not_smaller(found: Found) -> str:
    if found.is_flaky:
        return "not made smaller, as it fails by luck"
    return "not at its smallest: its episodes were at an end, or what is smaller fails by luck"


def rival_text(found: Found, rival: str) -> str:
    """``; old:policy does it``: what the policy that is compared does with a failure; empty: there is none."""
    return "" if found.rival is None else f"; {rival or 'the other policy'} {_RIVAL[found.rival]}"


_RIVAL = {"fails": "fails too", "passes": "does it", "aside": "tells nothing of it"}


def about_text(found: Found, model: str, digest: str | None) -> str:
    """What a file says of a case: how it fails, what passes, and of which policy that is."""
    return f"{boundary_text(found)}; {model} {(digest or 'of unknown content')[:12]}"


def boundary_text(found: Found) -> str:
    """``camera.azimuth azimuth_deg=23.4 (does it at azimuth_deg=21.9)``: the least that fails, and what passes."""
    told = []
    for change in found.shrunk.candidate.changes:
        sides = [side for side in found.shrunk.boundaries if side.kind == change.kind]
        passing = " or ".join(filter(None, map(_passing, sides)))
        does_it = f" (does it at {passing})" * bool(passing)
        told.append(f"{change.kind} {params_text(change.params)}{does_it}")
    return " with ".join(told) or "no change"


def rate_text(seen: Searched) -> str:
    """``5 of 20 scenes drawn evenly fail = 25.0% [11.2%, 46.9%], 3 aside``; those aside told nothing and do not count.

    Of others the count stands beside it, which is no rate.
    """
    number, left = seen.failed + seen.passed, sum(seen.aside.values())
    guided = f"; beside them {seen.guided_failed} of {seen.guided} that were looked for" if seen.guided else ""
    if not number:
        return f"no scene that was drawn evenly told anything{guided}"
    low, high = wilson_interval(seen.failed, number)
    rate = f"{seen.failed / number:.1%} [{low:.1%}, {high:.1%}]{base_text(seen)}"
    aside = f", {left} aside" if left else ""
    return f"{seen.failed} of {number} scenes drawn evenly fail = {rate}{aside}{guided}"


def base_text(seen: Searched) -> str:
    """``; without any change 3 of 12 = 25.0%: +12.0 points [-15.1, 33.0]``; empty: the policy never draws."""
    failed, tried = seen.base
    excess = excess_of(seen)
    if not seen.draws or excess is None:
        return ""
    value, (low, high) = excess
    return f"; without any change {failed} of {tried} = {failed / tried:.1%}: {100 * value:+.1f} points " + (
        f"[{100 * low:+.1f}, {100 * high:+.1f}]"
    )


def excess_of(seen: Searched) -> tuple[float, tuple[float, float]] | None:
    """The rate of even scenes that fail less the rate without any change, with a 95% interval.

    Newcombe's hybrid score interval for two independent rates (Statistics in Medicine 17, 1998, method 10).

    Returns:
        None if either rate is of nothing.
    """
    number, (failed, tried) = seen.failed + seen.passed, seen.base
    if not number or not tried:
        return None
    rate, base = seen.failed / number, failed / tried
    (low, high), (least, most) = wilson_interval(seen.failed, number), wilson_interval(failed, tried)
    value = rate - base
    return value, (value - hypot(rate - low, most - base), value + hypot(high - rate, base - least))


def aside_lines(seen: Searched) -> Iterator[str]:
    """What told nothing, and why: seeds, and scenes by their reasons."""
    for seed, why in seen.left_out:
        yield f"seed {seed} is left out: without any change {why}"
    reasons: dict[str, list[str]] = {}
    for why, number in seen.aside.items():
        reasons.setdefault(why.partition(":")[0], []).extend([why] * number)
    for some in sorted(reasons.values(), key=len, reverse=True):
        yield f"{len(some)} aside: {some[0]}"


def params_text(params: Params) -> str:
    """``steps=3 std=0.2``."""
    return " ".join(f"{name}={_shown(value)}" for name, value in params.items())


def _passing(side: Boundary) -> str:
    if side.passes is None:
        return ""
    if side.along is not None:
        return f"{side.along}={_shown(value_at(side.passes, side.along))}"
    return params_text({name: value for name, value in side.passes.items() if value != side.fails.get(name)})


def _shown(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")) if isinstance(value, (list, tuple)) else str(value)
