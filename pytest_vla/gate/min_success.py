"""``--vla-min-success``: whether a run passes, by the success rates of each suite."""

from collections.abc import Iterator, Sequence

from pytest_vla.gate.lines import luck_line, rate_line, verdict_line
from pytest_vla.metrics.rates import judged_apart
from pytest_vla.metrics.selection import is_counted
from pytest_vla.metrics.success import SuccessRate, success_rate, unit_of
from pytest_vla.records.record import Record
from pytest_vla.util.text import counted

NO_POLICY = "no episode ran, as no policy is given (add --vla-model=POLICY)"


def judge(
    records: Sequence[Record],
    minimum: float,
    others: int,
    stopped: bool,
    by_lower_end: bool = False,
    has_policy: bool = True,
) -> tuple[tuple[str, ...], bool]:
    """The verdict over a run: the lines that say it, of which the last alone says passed or failed; whether it passes.

    Args:
        records: of the suites' own items, or, where none was asked for, of tests of the user's own.
        minimum: the success rate that each suite has to reach: where tasks are varied, its benign episodes by
            themselves, and its varied ones. Probes are in no rate.
        others: how many items failed beside failed episodes of suites: errors, and tests of the user's own.
        stopped: whether the run ended before all its items had run.
        by_lower_end: whether the lower end of each rate's interval has to reach the minimum, and not the rate.
        has_policy: whether there is a policy, for what is said where no episode ran.
    """
    lines, against = weigh(records, minimum, by_lower_end, has_policy)
    against += against_others(others, stopped, any(not record.of_suite for record in records))
    return (*lines, verdict_line(minimum, against, by_lower_end)), not against


def weigh(
    records: Sequence[Record], minimum: float, by_lower_end: bool, has_policy: bool
) -> tuple[list[str], list[str]]:
    """The rates against what was wanted: the lines that say them, and what speaks against the run. See `judge`."""
    found = tuple(_rates(records))
    rates = [rate for rate, _ in found]
    lines = [rate_line(rate, minimum, by_lower_end) for rate in rates]
    # Once for all that are of as many episodes, which mostly all are.
    lucky = (luck_line(rate.counted, units, minimum, by_lower_end) for rate, units in found)
    lines += dict.fromkeys(filter(None, lucky))
    probes = sum(record.is_probe for record in records)
    if probes:
        lines.append(f"not judged: {counted(probes, 'probe')} (of whether it listens or looks), which are in no rate")
    given = sum(record.is_given and not record.is_probe for record in records)
    if given:
        lines.append(f"not judged: {counted(given, 'given case')} (--vla-cases), which are counted and in no rate")
    against = []
    if not has_policy:
        against.append(NO_POLICY)
    elif not rates:
        against.append(f"no episode of a suite {'was judged' if probes or given else 'ran'}")
    if unmeasured := [rate.name for rate in rates if not rate.counted]:
        against.append(f"nothing was measured of {' and '.join(unmeasured)}")
    if below := [rate.name for rate in rates if rate.counted and not rate.reaches(minimum, by_lower_end)]:
        against.append(f"{' and '.join(below)} below it")
    return lines, against


def against_others(others: int, stopped: bool, has_own: bool) -> list[str]:
    """What speaks against a run beside its failed episodes.

    Args:
        others: how many items failed beside them.
        stopped: whether the run ended before all its items had run.
        has_own: whether tests of the user's are among them.
    """
    against = []
    if others and has_own:
        against.append(f"{others} failed by themselves (errors, and tests of yours by their own assertions)")
    elif others:
        against.append(f"{counted(others, 'item')} failed for another reason (errors, costs, other tests)")
    if stopped:
        against.append("the run was stopped before its end")
    return against


def _rates(records: Sequence[Record]) -> Iterator[tuple[SuccessRate, int]]:
    """Each with the number of tasks and seeds that it is of."""
    for suite in sorted({record.suite for record in records}):
        some_of_it = [record for record in records if record.suite == suite]
        name = suite if all(record.of_suite for record in some_of_it) else f"{suite}, own tests"
        for group, some in judged_apart(some_of_it).items():
            units = len({unit_of(record) for record in some if is_counted(record)})
            yield success_rate(f"{name}, {group}" if group else name, some, unit_of), units
