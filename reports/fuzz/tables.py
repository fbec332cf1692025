"""What a search has found, for programs."""

from typing import Any

from pytest_vla.fuzz.coverage import Both, Coverage, Tally
from pytest_vla.fuzz.found import Found, Searched
from pytest_vla.fuzz.retold import Told
from pytest_vla.fuzz.shares import Share, Shares
from pytest_vla.fuzz.told import excess_of
from pytest_vla.metrics.statistics import wilson_interval
from pytest_vla.plan.labels import joint_of


def task_table(name: str, seen: Searched, told: Told) -> dict[str, Any]:
    """A task's search: ``fails`` are of the ``scenes`` that were drawn evenly, and are a rate of that space.

    Args:
        name: of the task.
        seen: of its search.
        told: of its lines.
    """
    excess = excess_of(seen)
    return {
        "task": name,
        "scenes": seen.proposed,
        "fails": seen.failed,
        "passes": seen.passed,
        "aside": dict(seen.aside),
        "guided_scenes": seen.guided,
        "guided_fails": seen.guided_failed,
        "again": seen.again,
        "pending": seen.pending,
        "twins_left_out": [{"seed": seed, "why": why} for seed, why in seen.left_out],
        "twins_fail": seen.base[0],
        "twins": seen.base[1],
        "draws": seen.draws,
        "excess": None if excess is None else excess[0],
        "excess_interval": None if excess is None else list(excess[1]),
        "found": [found_table(each) for each in seen.found],
        "sources": {source: _tally(tally) for source, tally in told.sources.items()},
        "coverage": coverage_table(told.coverage),
        "shares": shares_table(told.shares),
    }


def coverage_table(coverage: Coverage) -> dict[str, Any]:
    """Where a search has been; of scenes ``[tried, failed, aside]``, of two dimensions under ``one+other``."""
    return {
        "kinds": {kind: _both(both) | _bins(coverage, kind) for kind, both in coverage.kinds.items()},
        "dimensions": {
            joint_of(dict.fromkeys(pair)): _both(both) for pair, both in coverage.pairs.items() if both.tried
        },
        "untried_kinds": list(coverage.untried_kinds),
        "untried_pairs": [joint_of(pair) for pair in coverage.untried_pairs],
    }


def shares_table(shares: Shares) -> dict[str, Any]:
    """What matters, shares from 0 to 1; ``why``: it cannot be told."""
    return {
        "scenes": shares.scenes,
        "fails": shares.failed,
        "why": shares.why or None,
        "dimensions": [_share(each) for each in shares.single],
        "pairs": [_share(each) | {"more": each.more} for each in shares.pairs if not each.why],
    }


def _share(each: Share) -> dict[str, Any]:
    return {
        "of": joint_of(each.of),
        "share": each.share,
        "interval": None if each.interval is None else list(each.interval),
        "p": each.p,
        "p_adjusted": each.adjusted,
        "why": each.why or None,
    }


def _bins(coverage: Coverage, kind: str) -> dict[str, Any]:
    axis = coverage.axes[kind]
    if axis is None:
        return {}
    bins = [_both(each) for each in coverage.bins[kind]]
    return {"amount": axis.name, "unit": axis.unit, "edges": list(axis.edges), "bins": bins}


def _both(both: Both) -> dict[str, Any]:
    return {"even": _tally(both.even), "guided": _tally(both.guided)}


def _tally(tally: Tally) -> list[int]:
    return [tally.tried, tally.failed, tally.aside]


def found_table(found: Found) -> dict[str, Any]:
    """A failure at its smallest."""
    smallest = found.shrunk.candidate
    return {
        "label": smallest.label,
        "seed": smallest.seed,
        "changes": {change.kind: dict(change.params) for change in smallest.changes},
        "first": {change.kind: dict(change.params) for change in found.first.changes},
        "source": found.source,
        "number": found.number,
        "boundaries": [
            {
                "kind": side.kind,
                "along": None if side.along is None else str(side.along),
                "passes": None if side.passes is None else dict(side.passes),
                "fails": dict(side.fails),
            }
            for side in found.shrunk.boundaries
        ],
        "episodes": found.shrunk.tried,
        "complete": found.shrunk.complete,
        "failed_run_seeds": found.failed,
        "run_seeds": found.tried,
        "run_seeds_interval": list(wilson_interval(found.failed, found.tried)) if found.draws else None,
        "twin_failed_run_seeds": found.twin[0],
        "twin_run_seeds": found.twin[1],
        "rival": found.rival,
    }
