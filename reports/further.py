"""Numbers of episodes that packages and projects add: a section with their means."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from pytest_vla import extensions
from pytest_vla.metrics.clustered import CONFIDENCE, TASKS_LIKE_THESE, THESE_TASKS
from pytest_vla.metrics.extra_metrics import Further, FurtherMean, further
from pytest_vla.reports import json_schema as j
from pytest_vla.reports.blocks import Block, Column, Heading, Sentence, Table, notes
from pytest_vla.reports.loaded import Loaded, unfinished_of
from pytest_vla.reports.sections import Section
from pytest_vla.reports.text import first_few
from pytest_vla.util.text import counted

_NAMED = 3
"""So many cases without a number are named."""


def section(loaded: Loaded, options: argparse.Namespace) -> Section | None:
    """Return the section, or None if no episode has such a number."""
    found = further(loaded.records)
    if not found:
        return None
    models = {(model.model, model.suite, ""): j.written(_MODELS, model) for model in found}
    return Section(lambda: further_blocks(found, loaded), j.written(_METHODS, None), models, title="Further numbers")


_METHODS = j.methods(
    "metrics",
    {
        "confidence": CONFIDENCE,
        "over": THESE_TASKS,
        "means": "over successes and failures that have the number",
        "intervals": (
            "Student's t over tasks and seeds, within the number's range; of shares that are 0 or 1 in each "
            "episode Wilson's; of others that are all alike none; tasks_interval: over tasks"
        ),
    },
)
# One for each number and thing that is varied, in the number's own unit: `of` is the suite, or the test of yours.
_MEAN: j.Keys = {
    "of": j.TEXT.of(lambda named: named[0]),
    "metric": j.TEXT.of(lambda named: named[1].name),
    "about": j.maybe(j.TEXT).of(lambda named: abouts().get(named[1].name)),
    "group": j.TEXT.of(lambda named: named[1].group),
    "n": j.COUNT.of(lambda named: named[1].episodes - len(named[1].missing)),
    "missing": j.COUNT.of(lambda named: len(named[1].missing)),
    **j.through(lambda named: named[1].mean, {"mean": j.maybe(j.NUMBER).of("value"), **j.INTERVALS}),
}
_MODELS: j.Keys = {
    "metrics": j.listed(j.row(_MEAN)).of(
        lambda found: [(of, each) for of, some in found.means.items() for each in some]
    )
}

schema = partial(j.SectionSchema, _METHODS, _MODELS)
"""Gives the section's keys in JSON."""


def abouts() -> dict[str, str]:
    """Return the descriptions of the numbers whose providers are known, by name. Raises VlaError."""
    return {name: entry.about for name, entry in extensions.metrics().items()}


def further_blocks(found: Sequence[Further], loaded: Loaded) -> Iterator[Block]:
    """Yield the section's blocks."""
    yield Sentence(
        "Further numbers of episodes: means over successes and failures. In brackets: "
        f"{CONFIDENCE:.0%} intervals over these tasks, and over tasks like these"
    )
    for model in found:
        yield Heading(f"{model.model}, {model.suite}", (model.model, model.suite, ""))
        yield from notes((*model.left_out, *unfinished_of(model.records, loaded)))
        only_suite = set(model.means) == {model.suite}
        yield from means_blocks({"": model.means[model.suite]} if only_suite else model.means, abouts())


def means_blocks(means: Mapping[str, Sequence[FurtherMean]], about: Mapping[str, str]) -> Iterator[Block]:
    """Yield a table of means, and sentences on what is missing from them.

    Args:
        means: by what they belong to, such as a suite; an empty text if that is known already.
        about: of `abouts`.
    """
    rows = sorted(((title, each) for title, some in means.items() for each in some), key=lambda row: row[1].name)
    for name in dict.fromkeys(each.name for _, each in rows):
        if name in about:
            yield Sentence(f"{name}: {about[name]}")
    yield Table(
        "Means over successes and failures",
        (
            Column("number"),
            Column("of", is_optional=True),
            Column("variation", is_optional=True),
            Column("episodes"),
            Column(f"mean, {THESE_TASKS}", ".4g"),
            Column(TASKS_LIKE_THESE, ".4g", is_optional=True),
        ),
        tuple(
            (
                each.name,
                title,
                each.group,
                each.episodes - len(each.missing),
                each.mean,
                "" if each.mean is None else each.mean.tasks_interval or "",
            )
            for title, each in rows
        ),
        "means",
        names=3,
        caption_medium="page",
    )
    yield from notes(_missing(rows))


def _missing(rows: Iterable[tuple[str, FurtherMean]]) -> Iterator[str]:
    """Yield the episodes that have no such number, by number."""
    lacking: dict[str, list[str]] = {}
    totals: dict[str, int] = {}
    for _, each in rows:
        lacking.setdefault(each.name, []).extend(each.missing)
        totals[each.name] = totals.get(each.name, 0) + each.episodes
    for name, cases in lacking.items():
        if cases:
            of = counted(totals[name], "episode")
            yield f"{name} is missing from {len(cases)} of {of}: {first_few(cases, _NAMED)}"
