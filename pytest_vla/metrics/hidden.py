"""Numbers that nobody sees: of records that do not count, and of rules whose metric nobody gave."""

from collections.abc import Iterator, Sequence

from pytest_vla import extensions
from pytest_vla.errors import STOPPED
from pytest_vla.metrics.further import further_names
from pytest_vla.metrics.selection import by_model, run_of, that_count
from pytest_vla.records.counting import ALARM
from pytest_vla.records.record import Record
from pytest_vla.util.text import counted

_MOST_NAMED = 4


def hidden_notes(records: Sequence[Record], metric: str | None = None) -> Iterator[str]:
    """A line for each run whose metrics are in no number, and how to see them.

    Of a case the first complete record counts, also where a later run was asked for metrics and the first was not.

    Args:
        records: of any runs, in the order in which they ended.
        metric: only this one; None: any.
    """
    names: dict[str, dict[str, None]] = {}
    episodes: dict[str, int] = {}
    for some in by_model(records).values():
        counting = that_count(some).records
        seen = {run_of(record): set(further_names(record)) for record in counting}
        ours = {id(record) for record in counting}
        for record in some:
            if id(record) in ours or run_of(record) not in seen:
                continue
            unseen = [
                name
                for name in further_names(record)
                if name not in seen[run_of(record)] and (metric is None or name == metric)
            ]
            if unseen:
                episodes[record.run] = episodes.get(record.run, 0) + 1
                names.setdefault(record.run, {}).update(dict.fromkeys(unseen))
    for run, number in episodes.items():
        told = sorted(names[run])
        more = f" and {len(told) - _MOST_NAMED} more" * (len(told) > _MOST_NAMED)
        have = "have" if number != 1 else "has"
        first = "the first records of their cases" if number != 1 else "the first record of its case"
        are = "are" if number != 1 else "is"
        yield (
            f"{counted(number, 'episode')} of run {run} {have} {', '.join(told[:_MOST_NAMED])}{more} and {are} not "
            f"{first}, which count: pytest-vla report {run}"
        )


def silent_rules(records: Sequence[Record]) -> Iterator[str]:
    """A line for each rule of ``--vla-stop-when`` that could never ring, as no episode has its metric.

    Args:
        records: of a run.
    """
    ruled: dict[str, list[Record]] = {}
    for record in records:
        if ALARM in record.provenance and record.outcome != "error":
            ruled.setdefault(str(record.provenance[ALARM]), []).append(record)
    for text, some in ruled.items():
        from pytest_vla.metrics.alarms import parse_rule

        metric = parse_rule(text).metric
        if any(record.reason == STOPPED or metric in record.metrics for record in some):
            continue
        entry = extensions.metrics().get(metric.partition(".")[0])
        needs = (
            f": it needs {', '.join(entry.needs)}, which this policy or world does not give"
            if entry and entry.needs
            else ""
        )
        never = f"the rule never had a value in {len(some)} of {counted(len(some), 'episode')}, and stopped none"
        yield f"--vla-stop-when={text}: {never}{needs}"
