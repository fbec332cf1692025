"""What of a run matters most, told before its table: success, what it was lost by, and what broke."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from pytest_vla.metrics.rates import BENIGN, group_of, interval_text, is_plain, share_text
from pytest_vla.metrics.selection import observations
from pytest_vla.metrics.success import SuccessRate, success_rate, unit_of
from pytest_vla.records.record import Record
from pytest_vla.reports.text import wrapped
from pytest_vla.util.text import counted

if TYPE_CHECKING:
    from pytest_vla.metrics.robustness_curves import Harm

FEWEST_ROWS = 10
"""A table of fewer tasks is read at a glance: nothing is told before it."""

_MOST_SUITES, _MOST_TASKS = 3, 3

Tone = Literal["good", "bad", "plain"]


LOOKS: Mapping[Tone, Mapping[str, bool]] = {"good": {"green": True}, "bad": {"red": True}, "plain": {}}
"""What pytest's terminal makes of each where it has colours."""


class Told(NamedTuple):
    """A line, and how it is to look where there are colours."""

    text: str
    tone: Tone = "plain"


def first_lines(records: Sequence[Record], width: int | None) -> tuple[Told, ...]:
    """At most three lines: success, what loses most of it, what is in no rate; none where the table is short.

    Args:
        records: of the suites' own items, of one model, of each item the one that counts.
        width: of the terminal; None: lines may have any length.
    """
    if len({(record.suite, group_of(record, False), record.task_key) for record in records}) < FEWEST_ROWS:
        return ()
    # Benign twins are found among all.
    lost = _lowest(observations(records)) if all(map(is_plain, records)) else _lost(records)
    told = (_success(observations(records)), *lost, _broken(records))
    return tuple(each._replace(text=line) for each in told for line in wrapped(each.text, width))


def _success(records: Sequence[Record]) -> Told:
    """Of what is neither varied nor chosen: no rate is over two kinds of variation."""
    benign = [record for record in records if is_plain(record)]
    if not benign:
        what = "varied or given" if any(record.is_given for record in records) else "varied"
        return Told(f"success: every episode is {what}, so there is no rate over all")
    suites = sorted({record.suite for record in benign})
    of = "of all" if len(suites) > _MOST_SUITES else ""
    groups = {of: benign} if of else {f"of {s}": [each for each in benign if each.suite == s] for s in suites}
    title = f"success, {BENIGN}" if len(benign) < len(records) else "success"
    return Told(f"{title}: {'; '.join(_rate_text(some, name) for name, some in groups.items())}")


def _rate_text(records: Sequence[Record], name: str) -> str:
    rate = success_rate(name, records, unit_of)
    return f"{_share(rate)} {interval_text(rate)} {name}" if rate.counted else f"no episode {name} counts"


def _share(rate: SuccessRate) -> str:
    return f"{rate.successes}/{rate.counted} = {share_text(rate)}"


def _lost(records: Sequence[Record]) -> Iterator[Told]:
    """By which dimension most is lost against benign twins."""
    # They bring numpy, which a run without variations does without.
    from pytest_vla.metrics.robustness import twin_pairs, varied_models
    from pytest_vla.metrics.robustness_curves import most_harmful

    harms = []
    for varied in varied_models(records):
        pairs, _ = twin_pairs(varied)
        if harm := most_harmful(pairs):
            harms.append((varied.suite, harm))
    if harms:
        several = len(harms) > 1
        suite, harm = min(harms, key=lambda each: each[1].change.value)
        yield Told(f"most is lost by {_harm_text(harm)}{f', in {suite}' * several}", "plain" if harm.why else "bad")


def _harm_text(harm: "Harm") -> str:
    change = harm.change
    succeeded = round(change.pairs * change.benign / 100)
    there = f"{succeeded - change.lost + change.gained}/{change.pairs}"
    interval = "" if change.interval is None else " [{:+.1f}, {:+.1f}]".format(*change.interval)
    why = f" ({harm.why})" if harm.why else ""
    text = f"{harm.dimension}: {there} beside {succeeded}/{change.pairs} of the benign twins"
    return f"{text}, {change.value:+.1f}{interval} points{why}"


def _lowest(records: Sequence[Record]) -> Iterator[Told]:
    """In which tasks most is lost."""
    tasks: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        tasks.setdefault((record.suite, record.task_key), []).append(record)
    rates = [success_rate(task, some, unit_of) for (_, task), some in sorted(tasks.items())]
    low = sorted((each for each in rates if each.rate is not None and each.rate < 1), key=lambda each: each.rate or 0)
    counting = [each for each in rates if each.rate is not None]
    if not low or len({each.rate for each in counting}) < 2:
        return
    told = ", ".join(f"{each.name} {each.successes}/{each.counted}" for each in low[:_MOST_TASKS])
    more = f" and {len(low) - _MOST_TASKS} more" * (len(low) > _MOST_TASKS)
    always = f"{len(counting) - len(low)} of {counted(len(counting), 'task')} always succeeded"
    yield Told(f"most is lost in {told}{more}; {always}")


def _broken(records: Sequence[Record]) -> Told:
    reasons = Counter(str(record.reason) for record in records if record.outcome in ("error", "invalid"))
    if not reasons:
        return Told(f"broke: nothing, {counted(len(records), 'episode')} succeeded or failed", "good")
    told = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common())
    errors = any(record.outcome == "error" for record in records)
    return Told(f"broke: {told}; in no rate", "bad" if errors else "plain")
