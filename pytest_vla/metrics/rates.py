"""A success rate in words and in JSON, the same in every report, and which episodes are in one rate together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from pytest_vla.metrics.success import Outcome, SeededOutcome, SuccessRate, success_rate, unit_of
from pytest_vla.plan.case import names_of, parts_of
from pytest_vla.records.runs import Count, Run

BENIGN, VARIED = "benign", "varied"
"""Episodes of tasks as they are, and of varied ones: of suites that have both, no rate is over both."""

GIVEN = "given"
"""Before the name of a group that a file of cases gives (--vla-cases): its cases were chosen, mostly because the policy
fails them, so that they are counted and have no rate."""


class VariedOutcome(Outcome, Protocol):
    """An outcome of a task that may be varied."""

    @property
    def variation(self) -> Mapping[str, Any]:
        """As in records; empty: the task as it is."""

    @property
    def is_probe(self) -> bool:
        """Whether it asks what the policy does, and not whether it does the task."""

    @property
    def is_given(self) -> bool:
        """Whether a file of cases gave it."""

    @property
    def in_no_rate(self) -> bool:
        """Whether it is a probe, or given."""


Ended = TypeVar("Ended", bound=VariedOutcome)


def is_plain(record: VariedOutcome) -> bool:
    """Whether its task is as it is, and it was not chosen."""
    return not record.variation and not record.is_given


def judged_apart(records: Sequence[Ended]) -> dict[str, list[Ended]]:
    """The records that are in one rate: `BENIGN` and `VARIED`; probes and given cases are in none.

    Where all are benign, all of them by the empty name. No group is empty.
    """
    if all(map(is_plain, records)):
        return {"": list(records)} if records else {}
    groups = {
        BENIGN: [record for record in records if is_plain(record)],
        VARIED: [record for record in records if record.variation and not record.in_no_rate],
    }
    return {name: some for name, some in groups.items() if some}


def group_of(record: VariedOutcome, by_level: bool = True) -> str:
    """What is not to be in one rate with others: ``benign``, ``language.blank``, ``camera.distance:2``."""
    variation = record.variation
    if not variation:
        return f"{GIVEN}: {BENIGN}" if record.is_given else BENIGN
    dimension, kind = str(variation.get("dimension")), str(variation.get("kind"))
    name = names_of(dimension, kind)
    if record.is_given:
        return f"{GIVEN}: {name}"
    if by_level and len(parts_of(dimension)) == len(parts_of(kind)) > 1:
        # Each part has a level of its own.
        return str(variation.get("label", name))
    level = variation.get("level")
    return f"{name}:{level}" if by_level and level is not None else name


def groups_of(records: Sequence[Ended], *, by_level: bool = True) -> dict[str, list[Ended]]:
    """The records of each group of `group_of`, the benign ones first."""
    groups: dict[str, list[Ended]] = {}
    for record in records:
        groups.setdefault(group_of(record, by_level), []).append(record)
    return {name: groups[name] for name in sorted(groups, key=lambda name: (name != BENIGN, name))}


def share_text(rate: SuccessRate) -> str:
    """``63.6%``; a dash where nothing was counted."""
    return "-" if rate.rate is None else f"{rate.rate:.1%}"


def interval_text(rate: SuccessRate) -> str:
    """``[35.4%, 84.8%]``; a dash where nothing was counted.

    ``(50.0% to 100.0%)`` where a rule chose what was counted: the rate if all that it stopped had failed or succeeded.
    """
    if rate.is_chosen and rate.bounds is not None:
        return "({:.1%} to {:.1%})".format(*rate.bounds)
    return "-" if rate.interval is None else ends_text(rate.interval)


def ends_text(interval: tuple[float, float]) -> str:
    """``[35.4%, 84.8%]``, of shares."""
    return "[{:.1%}, {:.1%}]".format(*interval)


def percents_text(rate: SuccessRate) -> str:
    """``63.6 [35.4, 84.8]``, for tables of percentages; a dash where nothing was counted.

    ``100.0 (50.0 to 100.0)`` where a rule chose what was counted, as `interval_text`.
    """
    if rate.rate is not None and rate.is_chosen and rate.bounds is not None:
        return "{:.1f} ({:.1f} to {:.1f})".format(100 * rate.rate, *(100 * bound for bound in rate.bounds))
    if rate.rate is None or rate.interval is None:
        return "-"
    return "{:.1f} [{:.1f}, {:.1f}]".format(100 * rate.rate, *(100 * bound for bound in rate.interval))


def bounds_text(rate: SuccessRate) -> str:
    """``66.7% to 83.3%``: the rate if all that is in no rate had failed or succeeded; empty: nothing is left out."""
    return "" if rate.bounds is None or not rate.counted else "{:.1%} to {:.1%}".format(*rate.bounds)


def left_out_text(rate: SuccessRate) -> str:
    """``2 errors, 1 invalid: 61.5% to 84.6%``: what is in no rate, and `bounds_text`; empty: nothing is left out.

    Where a rule chose what was counted the bounds stand in the place of the interval, and not here.
    """
    errors, invalid = sum(rate.errors.values()), sum(rate.invalid.values())
    told = [f"{errors} error{'s' * (errors != 1)}"] * bool(errors) + [f"{invalid} invalid"] * bool(invalid)
    return ": ".join(text for text in (", ".join(told), "" if rate.is_chosen else bounds_text(rate)) if text)


def reasons_text(rate: SuccessRate, bounds: bool = True) -> str:
    """``1 policy-raised, 2 timeout; with them 61.5% to 84.6%``: what is in no rate, by reason; empty: nothing.

    Args:
        rate: what it is left out of.
        bounds: with `bounds_text`.
    """
    reasons = ", ".join(f"{number} {reason}" for reason, number in {**rate.errors, **rate.invalid}.items())
    return f"{reasons}; with them {bounds_text(rate)}" if bounds and bounds_text(rate) else reasons


def rate_table(rate: SuccessRate) -> dict[str, Any]:
    """For JSON: ``n`` successes and failures, ``sr``, ``interval`` over these tasks and ``tasks_interval`` over tasks
    like these, in percent, null where there is none.

    ``not_counted``: errors and invalid episodes, which are in no rate; ``bounds`` in percent: the rate if all of them
    had failed, and if all had succeeded; null where there are none.
    """
    return {
        "n": rate.counted,
        "sr": percent(rate.rate),
        "interval": percents(rate.interval),
        "tasks_interval": percents(rate.tasks_interval),
        "not_counted": rate.not_counted,
        "bounds": percents(rate.bounds),
    }


def percent(share: float | None) -> float | None:
    """0..100 of 0..1."""
    return None if share is None else 100 * share


def percents(interval: tuple[float, float] | None) -> tuple[float, float] | None:
    """Both bounds, 0..100 of 0..1."""
    return None if interval is None else (100 * interval[0], 100 * interval[1])


# The success rates of a run, row by row: of suites, of what is varied in them, of tasks, and of the user's tests.

MAX_TASK_ROWS = 50
"""Beyond this many, tasks are shown with -v only, and levels not at all."""


class VariedTask(VariedOutcome, SeededOutcome, Protocol):
    """An outcome of a task that may be varied, with the task's name and what it began from."""


@dataclass(frozen=True)
class RateRow:
    """A row: of what, how deep below others it stands, and its rate; None: it stands over the rows that follow.

    Rows of probes and of given cases show their counts, and no rate.
    """

    name: str
    rate: SuccessRate | None
    depth: int = 0
    is_probe: bool = False
    is_given: bool = False


def rate_rows(
    records: Sequence[VariedTask], own: Mapping[str, Sequence[VariedTask]], by_task: bool = True
) -> list[RateRow]:
    """A row a suite with a row for each of its tasks, one over all suites, and a row for each own test.

    Where episodes are varied, no rate is over benign and varied ones, nor over two kinds of variation: each has a row
    below its suite's or test's.

    Args:
        records: of the suites' own items.
        own: of the user's tests, by test: they may run a suite's cases again, so no rate is over both.
        by_task: whether tasks have rows.
    """
    by_suite: dict[str, list[VariedTask]] = {}
    for record in sorted(records, key=lambda record: record.suite):
        by_suite.setdefault(record.suite, []).append(record)
    rows = [row for suite, some in by_suite.items() for row in _group_rows(suite, some, by_task)]
    if not all(map(is_plain, records)):
        benign = [record for record in records if is_plain(record)]
        if len({record.suite for record in benign}) > 1:
            rows.append(RateRow(f"all, {BENIGN}", success_rate("all", benign, unit_of)))
    elif len(by_suite) > 1:
        rows.append(RateRow("all", success_rate("all", records, unit_of)))
    return rows + [row for name in sorted(own) for row in _group_rows(name, own[name], False)]


def kind_rows(records: Sequence[VariedTask]) -> list[RateRow]:
    """A row for what is not varied, one for what of it was chosen, and one for each kind of variation."""
    groups = groups_of(records, by_level=False)
    return [RateRow(name, success_rate(name, some, unit_of), 0, *_apart(some)) for name, some in groups.items()]


def _group_rows(title: str, records: Sequence[VariedTask], by_task: bool) -> list[RateRow]:
    """A row over all episodes of a suite or test; if some are varied or chosen, one a group below its name."""
    if all(map(is_plain, records)):
        return [RateRow(title, success_rate(title, records, unit_of)), *(_task_rows(records, 1) if by_task else [])]
    groups = groups_of(records)
    if len(groups) > MAX_TASK_ROWS:
        groups = groups_of(records, by_level=False)
    rows = [RateRow(title, None)]
    for name, some in groups.items():
        rows.append(RateRow(name, success_rate(name, some, unit_of), 1, *_apart(some)))
        rows += _task_rows(some, 2) if by_task else []
    return rows


def _task_rows(records: Sequence[VariedTask], depth: int) -> list[RateRow]:
    """A row for each task of episodes of one group."""
    by_task: dict[str, list[VariedTask]] = {}
    for record in records:
        by_task.setdefault(record.task_key, []).append(record)
    rates = {task: success_rate(task, by_task[task], unit_of) for task in sorted(by_task)}
    return [RateRow(task, rate, depth, *_apart(records)) for task, rate in rates.items()]


def _apart(records: Sequence[VariedTask]) -> tuple[bool, bool]:
    """Whether a group is of probes, and whether it is of given cases."""
    return records[0].is_probe, records[0].is_given


# The success rates of runs, from what their rows in the store count.


def rate_of(run: Run) -> SuccessRate:
    """The rate over what is not varied, or, where all is, over what is; as `rates_of`."""
    return next(iter(rates_of(run).values()), success_rate("", []))


def rates_of(run: Run) -> dict[str, SuccessRate]:
    """The rates over the suites' own episodes; over those of the user's tests where the run has no others.

    By the names of `pytest_vla.metrics.rates.judged_apart`: no rate is over benign and varied ones, and probes are in
    none. That of varied ones has no interval, as several are of one task and start, which is not known here; nor has
    any where episodes may be copies: a report knows which are.
    """
    rates = {name: success_rate(name, some) for name, some in judged_apart(_outcomes(run)).items()}
    unknown = {name for name in rates if name == VARIED or run.copies}
    return {name: replace(rate, interval=None) if name in unknown else rate for name, rate in rates.items()}


def errors_of(run: Run) -> Mapping[str, int]:
    """Of the same episodes, those that broke, by reason."""
    return success_rate("", _outcomes(run)).errors


def suites_of(run: Run) -> list[str]:
    """The suites of its episodes, by name."""
    return sorted({count.suite for count in run.counts})


def _outcomes(run: Run) -> list[Count]:
    counts = [count for count in run.counts if count.of_suite] or run.counts
    return [count for count in counts for _ in range(count.episodes)]
