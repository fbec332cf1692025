"""What a search has found, in words."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_vla.fuzz.amounts import value_at
from pytest_vla.fuzz.found import Found, Searched
from pytest_vla.fuzz.shrink import Boundary
from pytest_vla.metrics.statistics import wilson_interval
from pytest_vla.scene.variation import Params


def task_lines(name: str, seen: Searched, rival: str = "") -> Iterator[str]:
    """What was found of a task.

    Args:
        name: of the task.
        seen: of its search.
        rival: the policy that is compared; empty: none is.
    """
    for seed, why in seen.left_out:
        yield f"{name}: seed {seed} is left out: without any change {why}"
    if not (seen.proposed or seen.guided):
        yield f"{name}: no scene was tried"
        return
    counted = seen.failed + seen.passed
    rate = ""
    if counted:
        low, high = wilson_interval(seen.failed, counted)
        rate = f" = {seen.failed / counted:.1%} [{low:.1%}, {high:.1%}]"
    yield f"{name}: {seen.failed} of {counted} scenes drawn evenly fail{rate}"
    if seen.guided:
        yield f"  beside them {seen.guided_failed} of {seen.guided} that were looked for where failures may be"
    reasons: dict[str, list[str]] = {}
    for why, number in seen.aside.items():
        reasons.setdefault(why.partition(":")[0], []).extend([why] * number)
    for some in sorted(reasons.values(), key=len, reverse=True):
        yield f"  {len(some)} aside: {some[0]}"
    for each in seen.found:
        often = f"under {each.failed} of {each.tried} run seeds" if each.is_flaky else "always"
        end = "" if each.shrunk.complete else "; not at its smallest, its episodes were at an end"
        yield f"  fails {often}: {boundary_text(each)}{rival_text(each, rival)}{end}"


def about_text(found: Found, model: str, digest: str | None) -> str:
    """What a file says of a case: how it fails, what passes, and of which policy that is."""
    return f"{boundary_text(found)}; {model} {(digest or 'of unknown content')[:12]}"


def rival_text(found: Found, rival: str) -> str:
    """What the policy that is compared does with it; empty: none is."""
    if found.rival is None:
        return ""
    does = {"fails": "fails too", "passes": "does it", "aside": "tells nothing of it"}[found.rival]
    return f"; {rival or 'the other policy'} {does}"


def boundary_text(found: Found) -> str:
    """``camera.azimuth azimuth_deg=23.4 (does it at azimuth_deg=21.9)``: the least that fails, and what passes."""
    told = []
    for change in found.shrunk.candidate.changes:
        sides = [side for side in found.shrunk.boundaries if side.kind == change.kind and side.passes is not None]
        passing = " or ".join(text for side in sides if (text := _passing(side)))
        does_it = f" (does it at {passing})" * bool(passing)
        told.append(f"{change.kind} {params_text(change.params, list(change.params))}{does_it}")
    return " with ".join(told) or "no change"


def params_text(params: Params, names: Sequence[str]) -> str:
    """``steps=3 std=0.2``."""
    return " ".join(f"{name}={_shown(params[name])}" for name in names)


def _passing(side: Boundary) -> str:
    assert side.passes is not None
    if side.along is not None:
        return f"{side.along}={_shown(value_at(side.passes, side.along))}"
    return params_text(side.passes, [name for name in side.passes if side.passes[name] != side.fails.get(name)])


def _shown(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")) if isinstance(value, (list, tuple)) else str(value)
