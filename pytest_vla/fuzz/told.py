"""What a search of one task is told in: failures by what changes and where that begins, the rate with its interval."""

import json
from collections.abc import Iterator
from typing import Any

from pytest_vla.fuzz.search import Found, Searched
from pytest_vla.metrics.statistics import wilson_interval
from pytest_vla.scene.variation import Params


def failure_line(found: Found) -> str:
    """``fails always: action.delay steps=3 (does it at steps=2), seed 0``."""
    often = f"under {found.failed} of {found.tried} run seeds" if found.is_flaky else "always"
    end = "" if found.shrunk.complete else "; not at its smallest, its episodes were at an end"
    return f"fails {often}: {boundary_text(found)}, seed {found.shrunk.candidate.seed}{end}"


def boundary_text(found: Found) -> str:
    """``camera.azimuth azimuth_deg=23.4 (does it at azimuth_deg=21.9)``: the least that fails, and what passes."""
    passes = {each.kind: each.passes for each in found.shrunk.boundaries}
    told = []
    for change in found.shrunk.candidate.changes:
        below = passes.get(change.kind) or {}
        passing = _params_text({name: value for name, value in below.items() if value != change.params[name]})
        does_it = f" (does it at {passing})" if passing else ""
        told.append(f"{change.kind} {_params_text(change.params)}{does_it}")
    return " with ".join(told)


def rate_text(seen: Searched) -> str:
    """``5 of 20 scenes drawn evenly fail = 25.0% [11.2%, 46.9%]``; those that told nothing are not counted."""
    number = seen.failed + seen.passed
    if not number:
        return "no scene that was drawn told anything"
    low, high = wilson_interval(seen.failed, number)
    return f"{seen.failed} of {number} scenes drawn evenly fail = {seen.failed / number:.1%} [{low:.1%}, {high:.1%}]"


def aside_lines(seen: Searched) -> Iterator[str]:
    """What told nothing, and why: seeds, and scenes by their reasons."""
    for seed, why in seen.left_out:
        yield f"seed {seed} is left out: without any change {why}"
    reasons: dict[str, list[str]] = {}
    for why, number in seen.aside.items():
        reasons.setdefault(why.partition(":")[0], []).extend([why] * number)
    for some in sorted(reasons.values(), key=len, reverse=True):
        yield f"{len(some)} aside: {some[0]}"


def _params_text(params: Params) -> str:
    return " ".join(f"{name}={_shown(value)}" for name, value in params.items())


def _shown(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")) if isinstance(value, (list, tuple)) else str(value)
