"""Results of a search, as lines for people and as tables for programs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_vla.fuzz.found import Found, Searched, aside_lines, excess_of, failure_line, rate_text
from pytest_vla.fuzz.journal import ReplayedSearch
from pytest_vla.fuzz.shares import Both, Coverage, CoverageTally, DimensionShare, DimensionShares
from pytest_vla.metrics.statistics import wilson_interval
from pytest_vla.plan.case import joint_of
from pytest_vla.util.text import counted


@dataclass(frozen=True)
class SearchEnd:
    """The end of a search.

    Attributes:
        name: of the search.
        episodes: how many it ran.
        written: cases in its file.
        stopped: whether somebody stopped it.
        is_done: whether it did all its work.
    """

    name: str
    episodes: int
    written: int
    stopped: bool
    is_done: bool


def search_lines(
    searched: Mapping[str, Searched], ended: SearchEnd, output: Path, again: str, rival: str = ""
) -> Iterator[str]:
    """Yield the results for all tasks, and the commands that continue.

    Args:
        searched: by task.
        ended: how the search did.
        output: the file of cases.
        again: the command that runs these.
        rival: the comparison policy, or empty if there is none.
    """
    for task, seen in searched.items():
        yield from task_lines(task, seen, rival)
    yield counted(ended.episodes, "episode")
    if ended.stopped or not ended.is_done:
        pending = sum(seen.pending for seen in searched.values())
        rest = f"; {counted(pending, 'failure')} not made smaller yet" * bool(pending)
        what = "stopped" if ended.stopped else "time limit reached"
        yield f"{what}: results so far above{rest}; `pytest-vla fuzz --resume={ended.name}` continues the search"
    if ended.written:
        them = "it" if ended.written == 1 else "them"
        yield f"{output}: {counted(ended.written, 'case')}: `{again}` runs {them}"
    else:
        there = f"; {output} is from an earlier search" * output.exists()
        yield f"no failure was found that fails under all its run seeds; no file was written{there}"


def task_lines(name: str, seen: Searched, rival: str = "") -> Iterator[str]:
    """Yield the results for one task.

    Args:
        name: of the task.
        seen: of its search.
        rival: the comparison policy, or empty if there is none.
    """
    if seen.proposed or seen.guided:
        yield f"{name}: {rate_text(seen)}"
    else:
        yield f"{name}: no scene was tried"
    yield from (f"  {line}" for line in aside_lines(seen))
    yield from (f"  {failure_line(each, rival)}" for each in seen.found)


def task_table(name: str, seen: Searched, told: ReplayedSearch) -> dict[str, Any]:
    """Return a task's search: ``fails`` counts evenly drawn ``scenes`` only, and gives the space's failure rate.

    Args:
        name: of the task.
        seen: of its search.
        told: read back from its lines.
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
    """Return a search's coverage: scenes as ``[tried, failed, aside]``, two dimensions under ``one+other``."""
    return {
        "kinds": {kind: _both(both) | _bins(coverage, kind) for kind, both in coverage.kinds.items()},
        "dimensions": {
            joint_of(dict.fromkeys(pair)): _both(both) for pair, both in coverage.pairs.items() if both.tried
        },
        "untried_kinds": list(coverage.untried_kinds),
        "untried_pairs": [joint_of(pair) for pair in coverage.untried_pairs],
    }


def shares_table(shares: DimensionShares) -> dict[str, Any]:
    """Return what each dimension explains, shares from 0 to 1; ``why`` is the reason if there are no shares."""
    return {
        "scenes": shares.scenes,
        "fails": shares.failed,
        "why": shares.why or None,
        "dimensions": [_share(each) for each in shares.single],
        "pairs": [_share(each) | {"more": each.more} for each in shares.pairs if not each.why],
    }


def _share(each: DimensionShare) -> dict[str, Any]:
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


def _tally(tally: CoverageTally) -> list[int]:
    return [tally.tried, tally.failed, tally.aside]


def found_table(found: Found) -> dict[str, Any]:
    """Return a failure at its smallest."""
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
