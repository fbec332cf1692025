"""Success rates in words, in JSON and in rows, the same in every report, and the rates of stored runs."""

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
        """The variation as in records; empty for the unvaried task."""

    @property
    def is_probe(self) -> bool:
        """Whether the episode tests what the policy does rather than whether it does the task."""

    @property
    def is_given(self) -> bool:
        """Whether it comes from a file of cases."""

    @property
    def in_no_rate(self) -> bool:
        """Whether it is a probe or a given case."""


Ended = TypeVar("Ended", bound=VariedOutcome)


def is_plain(record: VariedOutcome) -> bool:
    """Whether the task is unvaried and the case was not given."""
    return not record.variation and not record.is_given


def judged_apart(records: Sequence[Ended]) -> dict[str, list[Ended]]:
    """Split records by rate: `BENIGN` and `VARIED`; probes and given cases are in none.

    If all are benign, they are returned under the empty name. No group is empty.
    """
    if all(map(is_plain, records)):
        return {"": list(records)} if records else {}
    groups = {
        BENIGN: [record for record in records if is_plain(record)],
        VARIED: [record for record in records if record.variation and not record.in_no_rate],
    }
    return {name: some for name, some in groups.items() if some}


def group_of(record: VariedOutcome, by_level: bool = True) -> str:
    """Return the name of a record's rate group: ``benign``, ``language.blank``, ``camera.distance:2``."""
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
    """Group records by `group_of`, the benign ones first."""
    groups: dict[str, list[Ended]] = {}
    for record in records:
        groups.setdefault(group_of(record, by_level), []).append(record)
    return {name: groups[name] for name in sorted(groups, key=lambda name: (name != BENIGN, name))}


def share_text(rate: SuccessRate) -> str:
    """Format a rate, ``63.6%``; a dash if nothing was counted."""
    return "-" if rate.rate is None else f"{rate.rate:.1%}"


def interval_text(rate: SuccessRate) -> str:
    """Format a rate's interval, ``[35.4%, 84.8%]``; a dash if nothing was counted.

    If a rule chose what was counted, it is ``(50.0% to 100.0%)``: the rate if all stopped episodes had failed or
    succeeded.
    """
    if rate.is_chosen and rate.bounds is not None:
        return "({:.1%} to {:.1%})".format(*rate.bounds)
    return "-" if rate.interval is None else ends_text(rate.interval)


def ends_text(interval: tuple[float, float]) -> str:
    """Format an interval of shares, ``[35.4%, 84.8%]``."""
    return "[{:.1%}, {:.1%}]".format(*interval)


def percents_text(rate: SuccessRate) -> str:
    """Format a rate for tables of percentages, ``63.6 [35.4, 84.8]``; a dash if nothing was counted.

    If a rule chose what was counted, it is ``100.0 (50.0 to 100.0)``, as in `interval_text`.
    """
    if rate.rate is not None and rate.is_chosen and rate.bounds is not None:
        return "{:.1f} ({:.1f} to {:.1f})".format(100 * rate.rate, *(100 * bound for bound in rate.bounds))
    if rate.rate is None or rate.interval is None:
        return "-"
    return "{:.1f} [{:.1f}, {:.1f}]".format(100 * rate.rate, *(100 * bound for bound in rate.interval))


def bounds_text(rate: SuccessRate) -> str:
    """Format the rate if all uncounted episodes had failed or succeeded, ``66.7% to 83.3%``; empty without any."""
    return "" if rate.bounds is None or not rate.counted else "{:.1%} to {:.1%}".format(*rate.bounds)


def left_out_text(rate: SuccessRate) -> str:
    """Format uncounted episodes and `bounds_text`, ``2 errors, 1 invalid: 61.5% to 84.6%``; empty without any.

    If a rule chose what was counted, the bounds replace the interval and are not repeated here.
    """
    errors, invalid = sum(rate.errors.values()), sum(rate.invalid.values())
    told = [f"{errors} error{'s' * (errors != 1)}"] * bool(errors) + [f"{invalid} invalid"] * bool(invalid)
    return ": ".join(text for text in (", ".join(told), "" if rate.is_chosen else bounds_text(rate)) if text)


def reasons_text(rate: SuccessRate, bounds: bool = True) -> str:
    """Format uncounted episodes by reason, ``1 policy-raised, 2 timeout; with them 61.5% to 84.6%``; empty without any.

    Args:
        rate: the rate that they are left out of.
        bounds: whether to add `bounds_text`.
    """
    reasons = ", ".join(f"{number} {reason}" for reason, number in {**rate.errors, **rate.invalid}.items())
    return f"{reasons}; with them {bounds_text(rate)}" if bounds and bounds_text(rate) else reasons


def rate_table(rate: SuccessRate) -> dict[str, Any]:
    """Return a rate for JSON.

    ``n`` is successes and failures; ``sr``, ``interval`` (over these tasks) and ``tasks_interval`` (over tasks like
    these) are in percent, null if undefined. ``not_counted`` is errors and invalid episodes, which are in no rate;
    ``bounds`` are in percent the rate if all of them had failed, and if all had succeeded; null without any.
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
    """Convert 0..1 to 0..100."""
    return None if share is None else 100 * share


def percents(interval: tuple[float, float] | None) -> tuple[float, float] | None:
    """Both bounds, 0..100 of 0..1."""
    return None if interval is None else (100 * interval[0], 100 * interval[1])


# The rows of a run's success rates: suites, variations, tasks, and the user's tests.

MAX_TASK_ROWS = 50
"""Beyond this many, tasks are shown with -v only, and levels not at all."""

MOST_GROUPS = 10
"""The varied groups of a suite with a row each if rows are folded; levels have rows while they are no more."""


class VariedTask(VariedOutcome, SeededOutcome, Protocol):
    """An outcome of a task that may be varied, with the task's name and what it began from."""


@dataclass(frozen=True)
class RateRow:
    """A table row: title, depth, and rate; the rate is None in a heading over the rows that follow.

    Rows for probes and given cases show their counts, and no rate.
    """

    name: str
    rate: SuccessRate | None
    depth: int = 0
    is_probe: bool = False
    is_given: bool = False


def rate_rows(
    records: Sequence[VariedTask],
    own: Mapping[str, Sequence[VariedTask]],
    by_task: bool = True,
    is_folded: bool = False,
) -> list[RateRow]:
    """Return rows for each suite and its tasks, a row over all suites, and rows for each of the user's tests.

    If episodes are varied, no rate mixes benign and varied ones, or two kinds of variation: each has a row below its
    suite's or test's.

    Args:
        records: the suites' own items.
        own: the user's tests, by test: they may run a suite's cases again, so no rate covers both.
        by_task: whether tasks have rows.
        is_folded: whether only the `MOST_GROUPS` lowest of a suite's or test's varied groups have rows.
    """
    by_suite: dict[str, list[VariedTask]] = {}
    for record in sorted(records, key=lambda record: record.suite):
        by_suite.setdefault(record.suite, []).append(record)
    rows = [row for suite, some in by_suite.items() for row in _group_rows(suite, some, by_task, is_folded)]
    if not all(map(is_plain, records)):
        benign = [record for record in records if is_plain(record)]
        if len({record.suite for record in benign}) > 1:
            rows.append(RateRow(f"all, {BENIGN}", success_rate("all", benign, unit_of)))
    elif len(by_suite) > 1:
        rows.append(RateRow("all", success_rate("all", records, unit_of)))
    return rows + [row for name in sorted(own) for row in _group_rows(name, own[name], False, is_folded)]


def kind_rows(records: Sequence[VariedTask]) -> list[RateRow]:
    """Return a row for each rate group: unvaried episodes, each kind of variation, and given cases."""
    groups = groups_of(records, by_level=False)
    return [RateRow(name, success_rate(name, some, unit_of), 0, *_apart(some)) for name, some in groups.items()]


def _group_rows(title: str, records: Sequence[VariedTask], by_task: bool, is_folded: bool) -> list[RateRow]:
    """Return a row over all episodes of a suite or test; if some are varied or given, one per group below its name."""
    if all(map(is_plain, records)):
        return [RateRow(title, success_rate(title, records, unit_of)), *(_task_rows(records, 1) if by_task else [])]
    groups = groups_of(records)
    if len(groups) > (MOST_GROUPS if is_folded else MAX_TASK_ROWS):
        groups = groups_of(records, by_level=False)
    rates = {name: success_rate(name, some, unit_of) for name, some in groups.items()}
    # Those without a rate are left out first.
    order = {name: 1.0 if rate.rate is None else rate.rate for name, rate in rates.items() if name != BENIGN}
    varied = sorted(order, key=order.__getitem__)
    left_out = {*varied[MOST_GROUPS:]} if is_folded else set()
    rows = [RateRow(title, None)]
    for name, some in groups.items():
        if name not in left_out:
            rows.append(RateRow(name, rates[name], 1, *_apart(some)))
            rows += _task_rows(some, 2) if by_task else []
    return [*rows, *([RateRow(f"{len(left_out)} more, not the lowest (-v has all)", None, 1)] if left_out else [])]


def _task_rows(records: Sequence[VariedTask], depth: int) -> list[RateRow]:
    """Return a row for each task in one group's episodes."""
    by_task: dict[str, list[VariedTask]] = {}
    for record in records:
        by_task.setdefault(record.task_key, []).append(record)
    rates = {task: success_rate(task, by_task[task], unit_of) for task in sorted(by_task)}
    return [RateRow(task, rate, depth, *_apart(records)) for task, rate in rates.items()]


def _apart(records: Sequence[VariedTask]) -> tuple[bool, bool]:
    """Return whether a group consists of probes, and whether of given cases."""
    return records[0].is_probe, records[0].is_given


# The success rates of runs, from the counts in their store rows.


def rate_of(run: Run) -> SuccessRate:
    """Return the rate over unvaried episodes or, if all are varied, over varied ones; see `rates_of`."""
    return next(iter(rates_of(run).values()), success_rate("", []))


def rates_of(run: Run) -> dict[str, SuccessRate]:
    """Return the rates over the suites' own episodes, or over those of the user's tests if the run has no others.

    Names are as in `judged_apart`: no rate mixes benign and varied episodes, and probes are in none. The rate of varied
    episodes has no interval, because several share a task and start, which is not known here. Neither has any rate if
    episodes may be copies: a report knows which are.
    """
    rates = {name: success_rate(name, some) for name, some in judged_apart(_outcomes(run)).items()}
    unknown = {name for name in rates if name == VARIED or run.copies}
    return {name: replace(rate, interval=None) if name in unknown else rate for name, rate in rates.items()}


def errors_of(run: Run) -> Mapping[str, int]:
    """Return the number of errors in the episodes of `rate_of`, by reason."""
    return success_rate("", _outcomes(run)).errors


def suites_of(run: Run) -> list[str]:
    """Return the suites of a run's episodes, by name."""
    return sorted({count.suite for count in run.counts})


def _outcomes(run: Run) -> list[Count]:
    counts = [count for count in run.counts if count.of_suite] or run.counts
    return [count for count in counts for _ in range(count.episodes)]
