"""The steps that episodes take to succeed, and whether two models differ in them: a section."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

from pytest_vla.metrics.clustered import CONFIDENCE
from pytest_vla.metrics.differences import PairedDifference, difference_of, mean_difference
from pytest_vla.metrics.language_grounding import GroundingEstimate
from pytest_vla.metrics.rates import percents
from pytest_vla.metrics.selection import by_model, is_counted, run_of, that_count
from pytest_vla.metrics.success import unit_of
from pytest_vla.metrics.time_to_success import TimeToSuccess, log_rank, time_to_success
from pytest_vla.records.record import Record
from pytest_vla.reports import json_schema as j
from pytest_vla.reports.blocks import P_VALUE, Block, Column, Sentence, Table, notes
from pytest_vla.reports.loaded import Loaded, unfinished_of
from pytest_vla.reports.sections import Section


def section(loaded: Loaded, options: argparse.Namespace) -> Section | None:
    """Return the section, or None if no episodes say when they succeeded."""
    found = make_times(loaded)
    if not found:
        return None
    models = {(each.model, each.suite, ""): j.written(_MODELS, each) for each in found}
    return Section(partial(time_blocks, found), j.written(_METHODS, None), models, title="Time to success")


@dataclass(frozen=True)
class TimeComparison:
    """Two models in one suite.

    Attributes:
        other: the name of the model that the first one is compared with.
        p: of the log-rank test over all episodes of both; None if undefined.
        paired: success less the other's, over the cases that both ran; None without any.
    """

    other: str
    p: float | None
    paired: PairedDifference | None


@dataclass(frozen=True)
class ModelTimes:
    """The time to success of one model in one suite, over unprobed episodes that no file of cases gave.

    Attributes:
        model: the policy's name.
        suite: the suite's.
        time: its time to success.
        compared: it and each later model in the suite.
        left_out: what is in no number, and why.
    """

    model: str
    suite: str
    time: TimeToSuccess
    compared: tuple[TimeComparison, ...]
    left_out: tuple[str, ...]


def make_times(loaded: Loaded) -> tuple[ModelTimes, ...]:
    """Compute the time to success of each model and suite, and compare the models of a suite with each other."""
    sides: dict[tuple[str, str], tuple[list[Record], TimeToSuccess, tuple[str, ...]]] = {}
    for (model, suite), some in by_model(loaded.records).items():
        selected = that_count(some)
        records = [record for record in selected.records if is_counted(record) and not record.in_no_rate]
        time = time_to_success(records)
        if time is not None:
            sides[model, suite] = records, time, (*selected.left_out, *unfinished_of(records, loaded))
    compared: dict[tuple[str, str], list[TimeComparison]] = {}
    for (first, suite), (second, other) in combinations(sides, 2):
        if suite == other:
            mine, theirs = sides[first, suite][0], sides[second, suite][0]
            told = TimeComparison(second, log_rank(mine, theirs), _paired(mine, theirs))
            compared.setdefault((first, suite), []).append(told)
    return tuple(
        ModelTimes(*subject, time, tuple(compared.get(subject, ())), left_out)
        for subject, (_, time, left_out) in sides.items()
    )


def _paired(first: Sequence[Record], second: Sequence[Record]) -> PairedDifference | None:
    """Return the success of the first less that of the second, over their common cases, or None without any."""
    theirs = {run_of(record): record for record in second}
    pairs = [(record, theirs[run_of(record)]) for record in first if run_of(record) in theirs]
    if not pairs:
        return None
    differences = [(mine.outcome == "success") - (other.outcome == "success") for mine, other in pairs]
    return difference_of(mean_difference(differences, [unit_of(mine) for mine, _ in pairs]))


_METHODS = j.methods(
    "time_to_success",
    {
        "confidence": CONFIDENCE,
        "time": "Kaplan-Meier, control steps; failures are censored at their step budget",
        "interval": "of the median, by the log-log transformation; null ends are not reached",
        "log_rank": "two-sided; takes all episodes as independent",
        "paired": "mean difference of success over common cases, percentage points",
    },
)
_STEP = j.maybe(j.COUNT)
_COMPARED: j.Keys = {
    "other": j.TEXT,
    "log_rank_p": j.maybe(j.SHARE).of("p"),
    "pairs": j.COUNT.of(lambda each: 0 if each.paired is None else each.paired.pairs),
    "paired_difference": j.maybe(j.NUMBER).of(lambda each: None if each.paired is None else 100 * each.paired.value),
    "paired_interval": j.INTERVAL.of(lambda each: None if each.paired is None else percents(each.paired.interval)),
    "paired_p": j.maybe(j.SHARE).of(lambda each: None if each.paired is None else each.paired.p),
}
_MODELS: j.Keys = {
    "time_to_success": j.row(
        {
            **j.through("time", {"n": j.COUNT.of("episodes"), "successes": j.COUNT}),
            "quartiles": j.listed(_STEP).of(lambda each: each.time.quartiles),
            "median_interval": j.listed(_STEP).of(lambda each: each.time.interval),
            "curve": j.listed(j.row({"steps": j.COUNT.of(lambda at: at[0]), "share": j.SHARE.of(lambda at: at[1])})).of(
                lambda each: [*zip(each.time.steps, each.time.shares, strict=True)]
            ),
            "compared": j.listed(j.row(_COMPARED)),
            "left_out": j.listed(j.TEXT),
        }
    ).of(lambda each: each)
}

schema = partial(j.SectionSchema, _METHODS, _MODELS)
"""Gives the section's keys in JSON."""


def time_blocks(found: Sequence[ModelTimes]) -> Iterator[Block]:
    """Yield the section's blocks."""
    yield Sentence(
        "Time to success, control steps, by Kaplan-Meier: steps by which a quarter, half and three quarters of the "
        f"episodes have succeeded. In brackets: {CONFIDENCE:.0%} interval of the median; -: not within the step budget"
    )
    yield Table(
        "Time to success, control steps",
        tuple(map(Column, ("model", "suite", "episodes", "successes", "a quarter", "half", "", "three quarters"))),
        tuple(
            (
                each.model,
                each.suite,
                each.time.episodes,
                each.time.successes,
                each.time.quartiles[0],
                each.time.quartiles[1],
                _ends(each.time.interval),
                each.time.quartiles[2],
            )
            for each in found
        ),
        "times",
        names=2,
        caption_medium="page",
    )
    rows = [(each, one) for each in found for one in each.compared]
    if rows:
        yield Sentence(
            "two models: whether one takes longer (log-rank, over all episodes), beside the difference of their "
            "success in percentage points over the cases that both ran. The log-rank test takes episodes as "
            "independent, so its p is too small if several share a start",
            is_apart=True,
        )
        yield Table(
            "Two models: time and success",
            (
                *map(Column, ("model", "and", "suite")),
                Column("p, log-rank", P_VALUE),
                Column("pairs"),
                Column("difference", "+.1f"),
                Column("p, paired", P_VALUE),
            ),
            tuple(
                (
                    each.model,
                    one.other,
                    each.suite,
                    one.p,
                    0 if one.paired is None else one.paired.pairs,
                    None
                    if one.paired is None
                    else GroundingEstimate(100 * one.paired.value, percents(one.paired.interval)),
                    None if one.paired is None else one.paired.p,
                )
                for each, one in rows
            ),
            "compared",
            names=3,
            caption_medium="page",
        )
    yield from notes(dict.fromkeys(note for each in found for note in each.left_out))


def _ends(interval: tuple[int | None, int | None]) -> str:
    if interval == (None, None):
        return ""
    return "[{}, {}]".format(*("-" if end is None else end for end in interval))
