"""The length of a policy's hand path beside the expert's on the same cases: a section with one table."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from pytest_vla.errors import VlaError
from pytest_vla.metrics.clustered import CONFIDENCE, mean_intervals
from pytest_vla.metrics.language_grounding import GroundingEstimate
from pytest_vla.metrics.quality import expert_paths, path_length, path_of, path_ratios
from pytest_vla.metrics.selection import by_model, is_counted, that_count
from pytest_vla.metrics.success import unit_of
from pytest_vla.records.record import Record
from pytest_vla.reports import json_schema as j
from pytest_vla.reports.blocks import Block, Column, Sentence, Table, notes
from pytest_vla.reports.loaded import Loaded, unfinished_of
from pytest_vla.reports.sections import Section
from pytest_vla.util.text import counted

PATH = "hand_path"
_EXPERT = "expert"


def section(loaded: Loaded, options: argparse.Namespace) -> Section | None:
    """Return the section, or None if no success has the metric."""
    found = make_economy(loaded)
    if not found:
        return None
    models = {(model.model, model.suite, ""): j.written(_MODELS, model) for model in found}
    return Section(lambda: economy_blocks(found), j.written(_METHODS, None), models)


@dataclass(frozen=True)
class Economy:
    """The hand paths of one model in one suite.

    Attributes:
        model: the policy's name.
        suite: the suite's.
        path: m, mean of the successes with a path.
        successes: how many these are.
        ratio: the path over the expert's, mean of the successes whose case the expert did too, or None without any.
        pairs: how many these are.
        left_out: what is in no number, and why.
    """

    model: str
    suite: str
    path: GroundingEstimate
    successes: int
    ratio: GroundingEstimate | None
    pairs: int
    left_out: tuple[str, ...]


def make_economy(loaded: Loaded) -> tuple[Economy, ...]:
    """Compare each model's hand path with the expert's, per suite; skip the expert itself, and runs without `PATH`.

    The expert's paths are read from its trajectories if it ran without the metric.
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
        if PATH in record.metrics:
            return record.metrics[PATH]
        # A file that is gone is the expert's: the case has no twin then, and is counted as such.
        with suppress(VlaError):
            trajectory = loaded.trajectory(record)
            if trajectory is not None and path_of(trajectory) is not None:
                return path_length(trajectory.eef_pos)
        return None

    return length


def _mean(values: Sequence[tuple[Record, float]]) -> GroundingEstimate:
    numbers = [value for _, value in values]
    return GroundingEstimate(fmean(numbers), *mean_intervals(numbers, [unit_of(record) for record, _ in values]))


_METHODS = j.methods(
    "economy",
    {
        "confidence": CONFIDENCE,
        "path": "m, the hand's, of successes",
        "ratio": "over the expert's path on the same case, of successes of both",
        "intervals": "Student's t over tasks and seeds; tasks_interval: over tasks",
    },
)
_PATH_KEYS = {"n": j.COUNT.of("successes"), **j.through("path", {"mean": j.NUMBER.of("value"), **j.INTERVALS})}
_RATIO_KEYS = {"n": j.COUNT.of("pairs"), **j.through("ratio", {"mean": j.NUMBER.of("value"), **j.INTERVALS})}
_MODELS: j.Keys = {
    "economy": j.row(
        {
            "path": j.maybe(j.row(_PATH_KEYS)).of(lambda found: found),
            "ratio": j.maybe(j.row(_RATIO_KEYS)).of(lambda found: None if found.ratio is None else found),
        }
    ).of(lambda found: found)
}

schema = partial(j.SectionSchema, _METHODS, _MODELS)
"""Gives the section's keys in JSON."""


def economy_blocks(found: Sequence[Economy]) -> Iterator[Block]:
    """Yield the section's blocks."""
    yield Sentence(
        "How far does the hand go? The path of successes, m, and over that of --vla-model=expert on the same cases. In "
        f"brackets: {CONFIDENCE:.0%} intervals over these tasks"
    )
    columns = (
        *map(Column, ("model", "suite")),
        Column("path, m", ".3g"),
        Column("of"),
        Column("over the expert's", ".3g"),
        Column("of these"),
    )
    rows = tuple((e.model, e.suite, e.path, e.successes, e.ratio, e.pairs) for e in found)
    yield Table("The hand's path in successes", columns, rows, "paths", names=2, caption_medium="page")
    for each in found:
        if each.pairs < each.successes:
            lacking = f"{each.successes - each.pairs} of {counted(each.successes, 'successful episode')}"
            yield from notes(
                [f"{lacking} of {each.model} are without the expert's: run the same cases with --vla-model=expert"]
            )
        yield from notes(each.left_out)
