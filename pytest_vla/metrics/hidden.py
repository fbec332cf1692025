"""Numbers that nobody sees: of records that do not count, as an earlier one of their case has no such number."""

from collections.abc import Iterator, Sequence

from pytest_vla.metrics.further import further_names
from pytest_vla.metrics.selection import by_model, run_of, that_count
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
