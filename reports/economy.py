"""How far a policy's hand goes beside the expert's on the same cases: for people as a table, for programs as JSON."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.metrics.clustered import CONFIDENCE, mean_intervals
from pytest_vla.metrics.listening import Estimate
from pytest_vla.metrics.quality.economy import expert_paths, path_ratios
from pytest_vla.metrics.quality.episodes import path_of
from pytest_vla.metrics.quality.motion import path_length
from pytest_vla.metrics.selection import by_model, is_counted, that_count
from pytest_vla.metrics.success import unit_of
from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import load_trajectory, trajectory_file
from pytest_vla.reports.loaded import Loaded, unfinished_of
from pytest_vla.reports.tables import aligned, notes, printed, wrapped
from pytest_vla.util.text import counted

PATH = "hand_path"
_EXPERT = "expert"


@dataclass(frozen=True)
class Economy:
    """One model in one suite.

    Attributes:
        model: the policy's name.
        suite: the suite's.
        path: m, mean of the successes with a path.
        successes: how many these are.
        ratio: the path over the expert's, mean of the successes whose case the expert did too; None: there is none.
        pairs: how many these are.
        left_out: what is in no number, and why.
    """

    model: str
    suite: str
    path: Estimate
    successes: int
    ratio: Estimate | None
    pairs: int
    left_out: tuple[str, ...]


def make_economy(loaded: Loaded) -> tuple[Economy, ...]:
    """Of each model and suite that was asked for `PATH`, the expert itself excepted. Raises nothing of its own.

    The expert's paths are read of its trajectories where it ran without the metric.
    """
    groups = by_model(loaded.records)
    found = []
    for (model, suite), some in groups.items():
        selected = that_count(some)
        records = [record for record in selected.records if is_counted(record) and not record.in_no_rate]
        if model.partition("?")[0] == _EXPERT or not any(PATH in record.metrics for record in records):
            continue
        experts = expert_paths([record for record in loaded.records if record.suite == suite], _length(loaded))
        ratios = path_ratios(records, experts, lambda record: record.metrics.get(PATH))
        if not ratios:
            continue
        pairs = [(each.record, each.ratio) for each in ratios if each.ratio is not None]
        found.append(
            Economy(
                model,
                suite,
                _mean([(each.record, each.path) for each in ratios]),
                len(ratios),
                _mean(pairs) if pairs else None,
                len(pairs),
                (*selected.left_out, *unfinished_of(records, loaded)),
            )
        )
    return tuple(found)


def _length(loaded: Loaded) -> Callable[[Record], float | None]:
    def length(record: Record) -> float | None:
        if PATH in record.metrics or record.arrays is None:
            return record.metrics.get(PATH)
        try:
            trajectory = load_trajectory(trajectory_file(loaded.folders[record.run], record.arrays))
        except VlaError:
            # A file that is gone is the expert's: the case has no twin then, and is counted as such.
            return None
        return None if path_of(trajectory) is None else path_length(trajectory.eef_pos)

    return length


def _mean(values: Sequence[tuple[Record, float]]) -> Estimate:
    numbers = [value for _, value in values]
    return Estimate(fmean(numbers), *mean_intervals(numbers, [unit_of(record) for record, _ in values]))


def economy_table(found: Economy) -> dict[str, Any]:
    """``economy`` of a model and suite in JSON: ``path`` (m) and ``ratio`` (null) of successes, each with ``n``,
    ``mean``, ``interval`` and ``tasks_interval`` (null)."""

    def told(estimate: Estimate | None, number: int) -> dict[str, Any] | None:
        if estimate is None:
            return None
        bounds = {"interval": estimate.interval, "tasks_interval": estimate.tasks_interval}
        return {"n": number, "mean": estimate.value, **bounds}

    return {"path": told(found.path, found.successes), "ratio": told(found.ratio, found.pairs)}


def methods_table() -> dict[str, Any]:
    """How the numbers were made, for JSON."""
    return {
        "confidence": CONFIDENCE,
        "path": "m, the hand's, of successes",
        "ratio": "over the expert's path on the same case, of successes of both",
        "intervals": "Student's t over tasks and seeds; tasks_interval: over tasks",
    }


def economy_lines(found: Sequence[Economy]) -> Iterator[str]:
    """The section for a terminal, line by line. Control characters are taken out."""
    yield from printed(_lines(found))


def _lines(found: Sequence[Economy]) -> Iterator[str]:
    yield from wrapped(
        "How far does the hand go? The path of successes, m, and over that of --vla-model=expert on the same cases. In "
        f"brackets: {CONFIDENCE:.0%} intervals over these tasks"
    )
    rows = [["model", "suite", "path, m", "of", "over the expert's", "of"]]
    for each in found:
        ratio = "-" if each.ratio is None else _cell(each.ratio)
        rows.append([each.model, each.suite, _cell(each.path), str(each.successes), ratio, str(each.pairs)])
    yield from aligned(rows, 2)
    for each in found:
        if each.pairs < each.successes:
            lacking = f"{each.successes - each.pairs} of {counted(each.successes, 'successful episode')}"
            yield from notes(
                [f"{lacking} of {each.model} are without the expert's: run the same cases with --vla-model=expert"]
            )
        yield from notes(each.left_out)


def _cell(each: Estimate) -> str:
    return f"{each.value:.3g}" + ("" if each.interval is None else " [{:.3g}, {:.3g}]".format(*each.interval))
