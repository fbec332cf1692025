"""People's labels of quality: a section on how far two people agree, and which metrics go with their labels.

In the layout of tables III, V and VII of arXiv 2507.17049.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla import extensions
from pytest_vla.errors import VlaError
from pytest_vla.metrics.discrimination import (
    CLASSES,
    EFFECT_BANDS,
    FAILURES,
    FEWEST,
    LARGE,
    MOST_EXACT,
    MOST_ORDERS,
    SIGNIFICANT,
    Correlation,
    Discrimination,
    Labelled,
    LabelReport,
    Labels,
    Sign,
    correlation_p,
    effect_category,
    label_report,
    timings,
)
from pytest_vla.metrics.selection import by_model, is_counted
from pytest_vla.records.record import METRIC_SECONDS, Record
from pytest_vla.reports import blocks as b
from pytest_vla.reports import json_schema as j
from pytest_vla.reports.blocks import Block, Column, Heading, PageDrawing, Sentence, Table, notes
from pytest_vla.reports.figures import file_names, new_figure, png_of
from pytest_vla.reports.loaded import Loaded
from pytest_vla.reports.papers import Check, Checks, Note, Paper, PublishedPaper, Row, Rows, printed, published_file
from pytest_vla.reports.sections import Section
from pytest_vla.util.documents import read_json
from pytest_vla.util.text import counted

if TYPE_CHECKING:
    from markupsafe import Markup

_SIZES = tuple(
    f"{letter} {word}, below {below}"
    for (below, letter), word in zip(EFFECT_BANDS, ("negligible", "small", "medium"), strict=True)
)
"""What letters of effects mean, by 2 |A12 - 0.5|."""


_SIGNS: Mapping[Sign, str] = {
    "metric": "a larger metric, a higher quality",
    "paper": "a lower metric, a higher quality, as in the paper's Table III",
}


def section(loaded: Loaded, options: argparse.Namespace) -> Section | None:
    """Return the section, or None without ``--labels``."""
    file = getattr(options, "labels", None)
    if file is None:
        return None
    found = label_report(loaded.records, file, getattr(options, "rho", "metric"))
    models = {(model.model, model.suite, ""): j.written(_MODELS, model) for model in found.models}
    return Section(lambda: labels_blocks(found), j.written(_METHODS, found), models, lambda: pictures(found))


_METHODS = j.methods(
    "labels",
    {
        "sign": j.TEXT.of(lambda found: f"rho above 0: {_SIGNS[found.sign]}"),
        "classes": CLASSES,
        "combined": (
            "the median label of those who labelled an episode; disagreed: the two in the middle differ, and "
            "the episode is in no class and no correlation"
        ),
        "correlation": (
            "Spearman's, of the combined labels' ranks with the metric, over labelled successes; p of up to "
            f"{MOST_ORDERS} over all orders of them, of more by Student's t; band: null where no order of so few "
            f"has a p below {SIGNIFICANT}"
        ),
        "against_failures": (
            "A12 and Mann-Whitney's p of a class beside failures; exact where one of both has up to "
            f"{MOST_EXACT} episodes; category: null where p is not below {SIGNIFICANT}"
        ),
        "kappa": "Cohen's, of two people",
        "left_out": j.listed(j.TEXT),
    },
)
_EFFECT = j.maybe(j.row({"a12": j.SHARE, "p": j.SHARE, "category": j.maybe(j.TEXT), "n": j.COUNT.of("group")}))
_MODELS: j.Keys = {
    "labels": j.row(
        {
            "episodes": j.REASONS.of(lambda found: dict(zip(CLASSES, found.episodes, strict=True))),
            "disagreed": j.COUNT,
            "failures": j.COUNT,
            "agreements": j.listed(
                j.row(
                    {
                        "one": j.TEXT,
                        "other": j.TEXT,
                        "episodes": j.COUNT,
                        "observed": j.SHARE,
                        "kappa": j.maybe(j.NUMBER),
                    }
                )
            ),
            "metrics": j.listed(
                j.row(
                    {
                        "metric": j.TEXT,
                        "correlation": j.maybe(
                            j.row({"rho": j.NUMBER, "p": j.SHARE, "n": j.COUNT, "band": j.maybe(j.TEXT)})
                        ),
                        "against_failures": j.by_name(_EFFECT),
                    }
                )
            ),
        }
    ).of(lambda found: found)
}

schema = partial(j.SectionSchema, _METHODS, _MODELS)
"""Gives the section's keys in JSON."""


def labels_blocks(found: LabelReport) -> Iterator[Block]:
    """Yield the section's blocks."""
    sizes = "; ".join(_SIZES)
    yield Sentence(
        "Do metrics go with people's labels of quality? Spearman's rho over labelled successes (above 0: "
        f"{_SIGNS[found.sign]}), called none, low, medium or high where p < {SIGNIFICANT}, and A12 of each class "
        f"beside failures (0.5: alike). Where p < {SIGNIFICANT} the effect's size stands beside it, by 2 |A12 - 0.5|: "
        f"{sizes}; {LARGE} large, beyond"
    )
    yield from notes(found.left_out)
    if not found.models:
        yield Sentence("no success of these runs has a label")
    for model in found.models:
        yield Heading(f"{model.model}, {model.suite}", (model.model, model.suite, ""))
        yield from notes(model.left_out)
        told = ", ".join(f"{number} {name}" for number, name in zip(model.episodes, CLASSES, strict=True))
        yield Sentence(f"labelled: {told}; {counted(model.failures, 'failure')}")
        if model.agreements or model.disagreed:
            yield Sentence(
                "where several labelled an episode it has their median label"
                + f"; {counted(model.disagreed, 'episode')} in no class, as the two labels in the middle differ"
                * bool(model.disagreed)
            )
        for each in model.agreements:
            kappa = "not defined" if each.kappa is None else f"{each.kappa:.2f}"
            yield Sentence(
                f"{each.one} and {each.other} agree on {each.observed:.0%} of {counted(each.episodes, 'episode')}, "
                f"Cohen's kappa {kappa}"
            )
        yield Table(
            "Which metrics go with the labels",
            (
                Column("metric"),
                Column("rho", ".2f"),
                Column("p of rho", ".3f"),
                Column("band"),
                *(Column(name, ".2f") for name in CLASSES),
            ),
            tuple(map(_row, model.metrics)),
            "metrics",
            caption_medium="page",
        )
        for metric in model.metrics:
            if any(metric.values.values()):
                yield PageDrawing(partial(_drawn, metric))
        told_of = [each for one in model.metrics for each in (one.correlation, *one.against_failures.values())]
        if (comparisons := sum(each is not None for each in told_of)) > 1:
            yield Sentence(
                f"these are {comparisons} comparisons: of as many where nothing goes with anything, one of "
                f"{1 / SIGNIFICANT:.0f} has p < {SIGNIFICANT}"
            )


def _drawn(one: Labelled) -> "Markup":
    from pytest_vla.reports.html.svg import violins

    return violins(one.metric, one.values, FAILURES)


def pictures(found: LabelReport) -> dict[str, bytes]:
    """Return PNG by name, ``MODEL-SUITE-labels``: of each metric a violin for each class and for failures."""
    names = file_names([(each.model, each.suite) for each in found.models])
    return {f"{name}-labels": _picture(model) for name, model in zip(names, found.models, strict=True)}


def _picture(model: Labels) -> bytes:
    shown = [each for each in model.metrics if any(each.values.values())]
    columns = min(4, len(shown))
    rows = -(-len(shown) // columns)
    figure = new_figure(3 * columns, 2.4 * rows)
    for axes, each in zip(figure.subplots(rows, columns, squeeze=False).flat, shown, strict=False):
        groups = {name: some for name, some in each.values.items() if len(some)}
        axes.violinplot([*groups.values()], showmedians=True)
        axes.set_xticks(
            range(1, 1 + len(groups)), [f"{name}\n{len(some)}" for name, some in groups.items()], fontsize=7
        )
        axes.set_title(each.metric, fontsize=8)
    for axes in figure.axes[len(shown) :]:
        axes.set_axis_off()
    return png_of(figure)


def _row(one: Labelled) -> tuple[b.Cell, ...]:
    rho = one.correlation
    cells = (None, None, None) if rho is None else (rho.rho, rho.p, _band(rho))
    return (one.metric, *cells, *map(_effect_cell, one.against_failures.values()))


def _band(each: Correlation) -> str:
    """Return the correlation in a word, or an empty text if chance does as much."""
    if each.band is None:
        return f"- of {each.n}"
    return each.band if each.p < SIGNIFICANT else ""


# The paper's tables of one's own models, and its printed numbers recomputed.

_TABLES = "vla_uq_published_tables.json"


TILTED = 30.0
"""Degrees: an object that ends tilted by more has fallen over, as in `pytest_vla.plan.costs`."""

_QUANTILES = {"5%": 5, "25%": 25, "": 50, "75%": 75, "95%": 95}


def _own_rows(loaded: Loaded, options: argparse.Namespace) -> tuple[Rows, Sequence[Note]]:
    """Return Tables II to VIII and Fig. 7 of the records' models, and notes; rho has the paper's sign.

    Table II is by task, of all successes; those without a label are in no class. Table IV is of successes whose object
    did not end tilted, if ``object_turn`` was measured.
    """
    seconds = _step_seconds(loaded)
    repeats = Note(
        "the answers that EV repeats are in your Inference; published rows seem to have them in EV", tables=("VIII",)
    )
    notes_of = [repeats] * any(record.metrics.get("execution_variability") is not None for record in loaded.records)
    if options.labels is None:
        note = "labelled successes are needed: --labels=FILE, which `pytest-vla label` writes"
        return {"VIII": seconds}, [*notes_of, Note(note, tables=("II", "III", "IV", "V", "VI", "VII", "fig7"))]
    found = label_report(loaded.records, options.labels, "paper")
    notes_of += map(Note, found.left_out)
    papers = {alias: entry.name for entry in extensions.metrics().values() for alias in entry.aliases}
    tables: dict[str, list[Row]] = {"II": [], "III": [], "IV": [], "V": [], "fig7": []}
    columns = [papers.get(name, name) for name in VLA_UQ.published.tables["III"].columns[2:]]
    for model in found.models:
        one = {each.metric: each for each in model.metrics}
        classes = [name.lower() for name in VLA_UQ.published.tables["II"].columns[3:]]
        for task, numbers in model.by_task.items():
            counts = dict(zip(CLASSES, numbers, strict=True))
            tables["II"].append((task, model.model, model.successes[task], *(counts[name] for name in classes)))
        if rest := sum(model.successes.values()) - sum(model.episodes):
            successes = sum(model.successes.values())
            text = (
                f"{model.suite}: {rest} of the {successes} episodes that succeeded are in no class: they have no "
                "label, or people disagree"
            )
            notes_of.append(Note(text, model.model))
        if model.failures < FEWEST:
            text = f"{model.suite}: {counted(model.failures, 'failure')}; A12 needs {FEWEST}, and {FEWEST} of a class"
            notes_of.append(Note(text, model.model, ("V", "VI", "VII")))
        tables["III"].append((model.suite, model.model, *_rhos(one, columns)))
        for quality in classes:
            effects = [one[name].against_failures[quality] if name in one else None for name in columns]
            tables["V"].append((model.suite, quality, model.model, *map(_effect_cell, effects)))
        for name, title in zip(columns, VLA_UQ.published.tables["III"].columns[2:], strict=True):
            if name in one:
                parts = [_quantiles(one[name].values[each]) for each in (*classes, FAILURES)]
                tables["fig7"].append((model.suite, model.model, title, *(cell for part in parts for cell in part)))
    measured = [record for record in loaded.records if _TILT in record.metrics]
    if not measured:
        text = "needs the orientation of objects at the end: --vla-metrics=object_turn, or all"
        notes_of.append(Note(text, tables=("IV",)))
    else:
        upright = label_report(
            loaded.records, options.labels, "paper", lambda one: one.metrics.get(_TILT, 180) <= TILTED
        )
        for model in upright.models:
            one = {each.metric: each for each in model.metrics}
            tables["IV"].append((model.suite, model.model, *_rhos(one, columns)))
    return {**tables, "VI": tables["V"], "VII": tables["V"], "VIII": seconds}, notes_of


_TILT = "object_turn.tilt"


def _rhos(one: Mapping[str, Labelled], names: Sequence[str]) -> Iterator[float | None]:
    for name in names:
        found = one[name].correlation if name in one else None
        yield None if found is None else found.rho


def _quantiles(values: Sequence[float]) -> Iterator[b.Cell]:
    """Yield how many values there are, and their `_QUANTILES`, linear between values."""
    yield len(values)
    for share in _QUANTILES.values():
        yield float(np.percentile(values, share)) if len(values) else None


def _step_seconds(loaded: Loaded) -> list[Row]:
    """Return the seconds of a step for each model: of the policy, and of computing each group of metrics.

    What a metric's questions cost the policy, such as the repeats of EV, is in the policy's seconds. A run with
    ``--vla-metrics`` prints it.
    """
    rows: list[Row] = []
    groups = VLA_UQ.published.tables["VIII"].columns[3:]
    papers = {entry.name: _group_of(alias) for entry in extensions.metrics().values() for alias in entry.aliases}
    models: dict[str, list[Record]] = {}
    for (model, _), some in by_model(loaded.records).items():
        models.setdefault(model, []).extend(record for record in some if record.steps and is_counted(record))
    for model, records in models.items():
        seconds: dict[str, list[float]] = {}
        for record in records:
            took = {"policy": record.timings.get("policy") or 0.0}
            for name, value in record.timings.items():
                metric = name.removeprefix(METRIC_SECONDS) if name.startswith(METRIC_SECONDS) else ""
                group = papers.get(metric)
                # To find that there is nothing to measure, such as no probabilities, is no measurement's time.
                if group is not None and value is not None and metric in record.metrics:
                    took[group] = took.get(group, 0.0) + value
            if len(took) > 1:
                for group, value in took.items():
                    seconds.setdefault(group, []).append(value / record.steps)
        found = [timings(seconds[each]) if len(seconds.get(each, ())) > 1 else None for each in ("policy", *groups)]
        if any(found):
            rows += [
                (model, name, *(each and each[place] for each in found)) for place, name in enumerate(("mean", "sd"))
            ]
    return rows


def _group_of(alias: str) -> str:
    """Return the column of Table VIII for a metric's name in the paper, such as ``A-PI``."""
    group = alias.partition("-")[0]
    return "AI" if group == "A" else group


def _effect_cell(effect: Discrimination | None) -> b.Cell:
    return None if effect is None else b.MarkedNumber(effect.a12, f" {effect.category or ''}".rstrip())


def _sums(published: PublishedPaper, _: Path | None) -> Iterator[Check]:
    """Add up the classes of successes."""
    for name, row in published.tables["II"].numbers():
        yield Check(f"{name}: success", printed(row, "success"), sum(printed(row, each) for each in CLASSES))


def _ps(published: PublishedPaper, data: Path | None) -> Iterator[Check]:
    """Recompute p of each rho with its number of successes, beside p that were computed elsewhere."""
    try:
        known = read_json(published_file(_TABLES, data, "p of Table III that were computed elsewhere"))["table_III"]
        why = ""
    except (OSError, ValueError, KeyError) as error:
        raise VlaError(f"{_TABLES} cannot be read: {error!r}") from error
    except VlaError as error:
        known, why = {}, f"the paper prints no p; {error}"
    numbers = dict(published.tables["II"].numbers())
    for name, row in published.tables["III"].numbers():
        for metric, rho in list(row.items())[2:]:
            if isinstance(rho, int | float):
                p = correlation_p(float(rho), int(printed(numbers[name], "success")))
                key = f"{row['suite']}|{row['model']}"
                other = known[metric][key]["p"] if known else None
                yield Check(f"{name} {metric}: p", other, p, 1e-9 * p, why)


def _sizes(table: str) -> Checks:
    """Return what recomputes the letters of A12, and which classes have too few episodes for one."""

    def check(published: PublishedPaper, _: Path | None) -> Iterator[Check]:
        numbers = {(row["task"], row["model"]): row for _, row in published.tables["II"].numbers()}
        for name, row in published.tables[table].numbers():
            few = printed(numbers[row["suite"], row["model"]], str(row["class"])) < FEWEST
            for metric, cell in list(row.items())[3:]:
                letter = cell.mark.strip() if isinstance(cell, b.MarkedNumber) else b.NONE
                found = b.NONE if few or not isinstance(cell, b.MarkedNumber) else effect_category(cell.value or 0.0)
                yield Check(f"{name} {metric}: size", letter, found)

    return check


VLA_UQ = Paper(
    Path(__file__).with_name("vla_uq.toml"),
    _own_rows,
    {"II": _sums, "III": _ps, "V": _sizes("V"), "VII": _sizes("VII")},
)
