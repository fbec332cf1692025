"""What a search of one task is told in: failures by what changes and where that begins, the rate with its interval."""

import json
from collections.abc import Iterator
from math import hypot
from typing import Any

from pytest_vla.fuzz.amounts import value_at
from pytest_vla.fuzz.found import Found, Searched
from pytest_vla.fuzz.shrink import Boundary
from pytest_vla.metrics.statistics import wilson_interval
from pytest_vla.scene.variation import Params


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
