"""The further numbers of episodes that packages and projects add: their means, in words and as JSON."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_vla import extensions
from pytest_vla.metrics.clustered import CONFIDENCE, THESE_TASKS
from pytest_vla.metrics.further import Further, FurtherMean
from pytest_vla.reports.loaded import Loaded, unfinished_of
from pytest_vla.reports.tables import aligned, notes, printed, wrapped
from pytest_vla.util.text import counted

_NAMED = 3
"""So many cases without a number are named."""


def methods_table() -> dict[str, Any]:
    """How the means and their intervals were made, for JSON."""
    return {
        "confidence": CONFIDENCE,
        "over": THESE_TASKS,
        "means": "over successes and failures that have the number",
        "intervals": "Student's t over tasks and seeds, within the number's range; of shares that are 0 or 1 in each "
        "episode Wilson's; of others that are all alike none; tasks_interval: over tasks",
    }


def further_table(found: Further) -> list[dict[str, Any]]:
    """``metrics`` of a model and suite in JSON: one for each number and what is varied, in the number's own unit.

    ``of`` (the suite's name, of its own items; else the test of yours), ``metric``, ``about`` (null where who adds it
    is not known here), ``group``, ``n`` (episodes with the number), ``missing`` (without it), ``mean`` (null),
    ``interval`` and ``tasks_interval`` (null).
    """
    about = abouts()
    return [
        {
            "of": origin,
            "metric": each.name,
            "about": about.get(each.name),
            "group": each.group,
            "n": each.episodes - len(each.missing),
            "missing": len(each.missing),
            "mean": None if each.mean is None else each.mean.value,
            "interval": None if each.mean is None else each.mean.interval,
            "tasks_interval": None if each.mean is None else each.mean.tasks_interval,
        }
        for origin, means in found.means.items()
        for each in means
    ]


def abouts() -> dict[str, str]:
    """By name, what the numbers are whose givers are known here. Raises VlaError, as `extensions.metrics`."""
    return {name: entry.about for name, entry in extensions.metrics().items()}


def further_lines(found: Sequence[Further], loaded: Loaded) -> Iterator[str]:
    """The section for a terminal, line by line. Control characters are taken out."""
    yield from printed(_lines(found, loaded))


def _lines(found: Sequence[Further], loaded: Loaded) -> Iterator[str]:
    yield from wrapped(
        "Further numbers of episodes: means over successes and failures. In brackets: "
        f"{CONFIDENCE:.0%} intervals over these tasks, and over tasks like these"
    )
    for model in found:
        yield ""
        yield f"=== {model.model}, {model.suite} ==="
        yield from notes((*model.left_out, *unfinished_of(model.records, loaded)))
        only_suite = set(model.means) == {model.suite}
        yield from means_lines({"": model.means[model.suite]} if only_suite else model.means, abouts())


def means_lines(means: Mapping[str, Sequence[FurtherMean]], about: Mapping[str, str]) -> Iterator[str]:
    """Tables of means, and what is missing from them.

    Args:
        means: by what they are of, such as a suite; empty: that is said already.
        about: of `abouts`.
    """
    rows = sorted(((title, each) for title, some in means.items() for each in some), key=lambda row: row[1].name)
    for name in dict.fromkeys(each.name for _, each in rows):
        if name in about:
            yield from wrapped(f"{name}: {about[name]}")
    cells = [(each.name, title, each.group, *_numbers(each)) for title, each in rows]
    head = ("number", "of", "variation", "episodes", "mean, these tasks", "tasks like these")
    # What no row has any of has no column.
    kept = [place for place in range(len(head)) if place in (0, 3, 4) or any(row[place] for row in cells)]
    yield from aligned([[row[place] for place in kept] for row in (head, *cells)], sum(place < 3 for place in kept))
    yield from notes(_missing(rows))


def _numbers(each: FurtherMean) -> tuple[str, str, str]:
    number = str(each.episodes - len(each.missing))
    if each.mean is None:
        return number, "-", ""
    over, like = _bounds(each.mean.interval), _bounds(each.mean.tasks_interval)
    return number, f"{each.mean.value:.4g}{' ' * bool(over)}{over}", like


def _bounds(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else "[{:.4g}, {:.4g}]".format(*interval)


def _missing(rows: Iterable[tuple[str, FurtherMean]]) -> Iterator[str]:
    """Which episodes have no such number, by number."""
    lacking: dict[str, list[str]] = {}
    totals: dict[str, int] = {}
    for _, each in rows:
        lacking.setdefault(each.name, []).extend(each.missing)
        totals[each.name] = totals.get(each.name, 0) + each.episodes
    for name, cases in lacking.items():
        if cases:
            more = f" and {len(cases) - _NAMED} more" * (len(cases) > _NAMED)
            of = counted(totals[name], "episode")
            yield f"{name} is missing from {len(cases)} of {of}: {', '.join(cases[:_NAMED])}{more}"
