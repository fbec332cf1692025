"""The results of a search: failures at their smallest, the share of failing scenes, and their text."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from pytest_vla.fuzz.amounts import value_at
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.causes import Cause, cause_of
from pytest_vla.fuzz.sampler import EVEN
from pytest_vla.fuzz.shrink import Boundary, Outcome, Shrunk
from pytest_vla.metrics.statistics import difference_interval, wilson_interval
from pytest_vla.scene.variation import Params
from pytest_vla.util.text import digest_text

RUN_SEEDS = 3
"""Under how many further run seeds a failure is tried again: a policy that draws may fail by luck."""


RUN_SEEDS_OF_DRAWS = 7
"""The same for a policy that draws: what fails half of the time fails under all of them in one search of 128."""


def further_seeds(own: int) -> tuple[int, ...]:
    """Return `RUN_SEEDS` run seeds without the search's own."""
    return tuple(seed for seed in range(RUN_SEEDS + 1) if seed != own)[:RUN_SEEDS]


@dataclass(frozen=True)
class Found:
    """A failure, at its smallest.

    Attributes:
        first: the scene as proposed.
        shrunk: its smallest form.
        failed: number of run seeds under which the smallest fails, including the search's own.
        tried: number of run seeds that were tried.
        number: of the proposal.
        source: of the proposal, see `pytest_vla.fuzz.sampler.SOURCES`.
        rival: outcome of the smallest with the policy to compare with, or None if there is none.
        twin: number of run seeds under which its benign twin fails, and of those tried; (0, 0) if only one was tried.
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
        """Whether it fails under some run seeds only, so that it is reported with its rate and not as found."""
        return self.failed < self.tried

    @property
    def cause(self) -> Cause:
        """The cause: kinds, their numbers, and the side of each."""
        return cause_of(self.shrunk.candidate)


@dataclass(frozen=True)
class Searched:
    """The state of a task's search.

    Attributes:
        proposed: number of evenly drawn scenes that were tried.
        failed: of those, how many the policy fails and the expert solves.
        passed: of those, how many the policy solves.
        aside: number of inconclusive scenes by reason.
        guided: number of scenes chosen by the results of others.
        guided_failed: how many of these fail; not a rate of any space.
        guided_passed: how many of these the policy solves.
        again: failures with a known cause, such as more of the same change.
        pending: failures that were not examined, since the search was stopped before.
        found: distinct failures.
        left_out: seeds whose benign twin the policy does not solve, each with the reason.
        base: number of failures of the searched seeds' benign twins under further run seeds, and of trials. The
            search's own run seed is not included, since only seeds whose twin succeeds under it are searched.
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
        """Whether the policy solved or failed any scene, so that the search had a result."""
        return bool(self.passed or self.failed or self.guided_passed or self.guided_failed)


# What a search of one task is told in: failures by what changes and where that begins, the rate with its interval.


def failure_line(found: Found, rival: str = "") -> str:
    """Return a failure in a line: ``fails under 4 of 4 run seeds: action.delay steps=3 (succeeds at ...), seed 0``.

    Args:
        found: the failure.
        rival: the name of the policy to compare with, or an empty text.
    """
    often = often_text(found)
    end = "" if found.shrunk.complete else f"; {_why_not_smaller(found)}"
    return f"fails {often}: {boundary_text(found)}, seed {found.shrunk.candidate.seed}{rival_text(found, rival)}{end}"


def often_text(found: Found) -> str:
    """Return how often it fails: ``under 8 of 8 run seeds [68%, 100%], its benign twin under 1 of 4``.

    Interval and twin are left out if the policy does not draw.
    """
    text = f"under {found.failed} of {found.tried} run seeds"
    if not found.draws:
        return text
    low, high = wilson_interval(found.failed, found.tried)
    twin = f", its benign twin under {found.twin[0]} of {found.twin[1]}" if found.twin[1] else ""
    return f"{text} [{low:.0%}, {high:.0%}]{twin}"


def _why_not_smaller(found: Found) -> str:
    if found.is_flaky:
        return "not shrunk, since it fails only sometimes"
    return "may not be smallest: its episodes were used up, or smaller ones fail only sometimes"


def rival_text(found: Found, rival: str) -> str:
    """Return the outcome with the policy to compare with: ``; old:policy succeeds``; empty if there is none."""
    return "" if found.rival is None else f"; {rival or 'the other policy'} {_RIVAL[found.rival]}"


_RIVAL = {"fails": "fails too", "passes": "succeeds", "aside": "is inconclusive"}


def about_text(found: Found, model: str, digest: str | None) -> str:
    """Return the comment on a case in a file: the failure, what passes, and the policy."""
    return f"{boundary_text(found)}; {model} {digest_text(digest)}"


def boundary_text(found: Found) -> str:
    """Return the least change that fails, and what passes: ``camera.azimuth azimuth_deg=23.4 (succeeds at ...)``."""
    told = []
    for change in found.shrunk.candidate.changes:
        sides = [side for side in found.shrunk.boundaries if side.kind == change.kind]
        passing = " or ".join(filter(None, map(_passing, sides)))
        boundary = f" (succeeds at {passing})" * bool(passing)
        told.append(f"{change.kind} {params_text(_in_short(change.params))}{boundary}")
    return " with ".join(told) or "no change"


def rate_text(seen: Searched) -> str:
    """Return the failure rate: ``5 of 20 evenly drawn scenes fail = 25.0% [11.2%, 46.9%], 3 aside``.

    Inconclusive scenes (aside) do not count. Guided scenes are only counted, since their rate is none of a space.
    """
    number, left = seen.failed + seen.passed, sum(seen.aside.values())
    guided = f"; guided: {seen.guided_failed} of {seen.guided} fail" if seen.guided else ""
    if not number:
        return f"no evenly drawn scene was conclusive{guided}"
    low, high = wilson_interval(seen.failed, number)
    rate = f"{seen.failed / number:.1%} [{low:.1%}, {high:.1%}]{base_text(seen)}"
    aside = f", {left} aside" if left else ""
    return f"{seen.failed} of {number} evenly drawn scenes fail = {rate}{aside}{guided}"


def base_text(seen: Searched) -> str:
    """Return the rate without any change, and the difference; empty if the policy does not draw.

    ``; without any change 3 of 12 = 25.0%: +12.0 points [-15.1, 33.0]``.
    """
    failed, tried = seen.base
    excess = excess_of(seen)
    if not seen.draws or excess is None:
        return ""
    value, (low, high) = excess
    return f"; without any change {failed} of {tried} = {failed / tried:.1%}: {100 * value:+.1f} points " + (
        f"[{100 * low:+.1f}, {100 * high:+.1f}]"
    )


def excess_of(seen: Searched) -> tuple[float, tuple[float, float]] | None:
    """Compute the failure rate of even scenes less the rate without any change, with a 95% interval.

    Returns:
        None if either has no trials.
    """
    number, (failed, tried) = seen.failed + seen.passed, seen.base
    if not number or not tried:
        return None
    rate, base = seen.failed / number, failed / tried
    intervals = wilson_interval(seen.failed, number), wilson_interval(failed, tried)
    return rate - base, difference_interval(rate, intervals[0], base, intervals[1])


def aside_lines(seen: Searched) -> Iterator[str]:
    """Yield a line for each seed that is left out, and for each reason of inconclusive scenes."""
    for seed, why in seen.left_out:
        yield left_out_text(seed, why)
    reasons: dict[str, list[str]] = {}
    for why, number in seen.aside.items():
        reasons.setdefault(why.partition(":")[0], []).extend([why] * number)
    for some in sorted(reasons.values(), key=len, reverse=True):
        yield f"{len(some)} aside: {some[0]}"


def left_out_text(seed: int, why: str) -> str:
    """Return the line on a seed that is not searched: ``seed 2 skipped: without any change the policy fails``."""
    return f"seed {seed} skipped: without any change {why}"


def params_text(params: Params) -> str:
    """Return parameters as text: ``steps=3 std=0.2``."""
    return " ".join(f"{name}={_shown(value)}" for name, value in params.items())


def _passing(side: Boundary) -> str:
    if side.passes is None:
        return ""
    if side.along is not None:
        return f"{side.along}={_shown(value_at(side.passes, side.along))}"
    return params_text(_in_short({name: value for name, value in side.passes.items() if value != side.fails.get(name)}))


def _in_short(params: Params) -> dict[str, Any]:
    """Return the parameters that a line shows: of a texture its family or its file's name; files of cases have all."""
    families = [name.removesuffix(_FAMILY) for name in params if name.endswith(_FAMILY)]
    hidden = {f"{prefix}{name}" for prefix in families for name in ("colours", "repeats", "seed")}
    return {
        name: PurePosixPath(value).name if isinstance(value, str) and value.endswith(".png") else value
        for name, value in params.items()
        if name not in hidden
    }


_FAMILY = "family"
"""How the parameter ends that names a drawn texture (`pytest_vla.vary.effects.textures`)."""


def _shown(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")) if isinstance(value, (list, tuple)) else str(value)
