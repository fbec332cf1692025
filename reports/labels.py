"""People's labels of quality: how far two agree, and which metrics go with them, in text and as JSON.

In the layout of tables III, V and VII of arXiv 2507.17049.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_vla.metrics.discrimination import (
    EFFECT_BANDS,
    LARGE,
    MOST_EXACT,
    MOST_ORDERS,
    SIGNIFICANT,
    Correlation,
    Discrimination,
    Sign,
)
from pytest_vla.metrics.further import further_names
from pytest_vla.metrics.labels import (
    CLASSES,
    Agreement,
    Label,
    Labelled,
    agreements,
    combined,
    labelled,
    read_labels,
)
from pytest_vla.metrics.selection import by_model, is_counted, that_count
from pytest_vla.reports.loaded import Loaded
from pytest_vla.reports.tables import aligned, notes, printed, wrapped
from pytest_vla.util.text import counted

_SIZES = tuple(
    f"{letter} {word}, below {below}"
    for (below, letter), word in zip(EFFECT_BANDS, ("negligible", "small", "medium"), strict=True)
)
"""What letters of effects mean, by 2 |A12 - 0.5|."""


_SIGNS: Mapping[Sign, str] = {
    "metric": "a larger metric, a higher quality",
    "paper": "a lower metric, a higher quality, as in the paper's Table III",
}


@dataclass(frozen=True)
class Labels:
    """One model in one suite.

    Attributes:
        model: the policy's name.
        suite: the suite's.
        episodes: successes with a label, by class, as many as there are of `CLASSES`.
        disagreed: labelled successes in no class, as `pytest_vla.metrics.labels.combined` has them.
        failures: beside which classes are held.
        agreements: of every two people.
        metrics: each further number of the episodes.
        left_out: what is in no number, and why.
    """

    model: str
    suite: str
    episodes: tuple[int, ...]
    disagreed: int
    failures: int
    agreements: tuple[Agreement, ...]
    metrics: tuple[Labelled, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class LabelReport:
    """What a file of labels says of runs.

    Attributes:
        models: with labelled successes.
        left_out: labels that are in no number, and why.
        sign: of the correlations.
    """

    models: tuple[Labels, ...]
    left_out: tuple[str, ...]
    sign: Sign = "metric"


def make_labels(loaded: Loaded, file: Path, sign: Sign = "metric") -> LabelReport:
    """What goes with labels, of each model and suite that has some.

    A label is of the episode of its case and digest alone: of another policy, or another run of a policy that draws,
    nobody has said anything.

    Raises:
        VlaError: the file cannot be used.
    """
    labels = read_labels(file)
    found = []
    used: set[tuple[str, str]] = set()
    for (model, suite), some in by_model(loaded.records).items():
        selected = that_count(some)
        records = {
            (record.case, record.digest): record
            for record in selected.records
            if is_counted(record) and not record.is_probe
        }
        here = [each for each in labels if each.episode in records and records[each.episode].outcome == "success"]
        if not here:
            continue
        told = combined(here)
        used |= told.keys()
        failed = {episode for episode, record in records.items() if record.outcome == "failure"}
        names = sorted({name for record in records.values() for name in further_names(record)})
        metrics = tuple(
            labelled(name, {e: r.metrics[name] for e, r in records.items() if name in r.metrics}, told, failed, sign)
            for name in names
        )
        by_class = tuple(sum(label == name for label in told.values()) for name in CLASSES)
        disagreed = sum(label is None for label in told.values())
        found.append(
            Labels(model, suite, by_class, disagreed, len(failed), agreements(here), metrics, selected.left_out)
        )
    return LabelReport(tuple(found), tuple(_left_out(labels, used, loaded)), sign)


def _left_out(labels: Sequence[Label], used: Collection[tuple[str, str]], loaded: Loaded) -> Iterator[str]:
    """What to say of labels that are in no number."""
    outcomes = {(record.case, record.digest): record.outcome for record in loaded.records}
    others = [each for each in labels if each.episode not in outcomes]
    if others:
        runs = ", ".join(dict.fromkeys(each.run for each in others))
        yield f"{counted(len(others), 'label')} of other episodes than these runs', and in no number: of run {runs}"
    unused = [each for each in labels if each.episode in outcomes and each.episode not in used]
    for outcome, number in Counter(outcomes[each.episode] for each in unused).items():
        if outcome == "success":
            yield f"{counted(number, 'label')} of successes that do not count here (repeats or probes), in no number"
        else:
            what = {"failure": "failures", "error": "errors"}.get(outcome, f"{outcome} episodes")
            yield f"{counted(number, 'label')} of {what}, in no number: labels are of successes"


def methods_table(sign: Sign = "metric") -> dict[str, Any]:
    """How the numbers were made, for JSON."""
    return {
        "sign": f"rho above 0: {_SIGNS[sign]}",
        "classes": list(CLASSES),
        "combined": "the median label of those who labelled an episode; disagreed: the two in the middle differ, and "
        "the episode is in no class and no correlation",
        "correlation": "Spearman's, of the combined labels' ranks with the metric, over labelled successes; p of up to "
        f"{MOST_ORDERS} over all orders of them, of more by Student's t; band: null where no order of so few has a p "
        f"below {SIGNIFICANT}",
        "against_failures": "A12 and Mann-Whitney's p of a class beside failures; exact where one of both has up to "
        f"{MOST_EXACT} episodes; category: null where p is not below {SIGNIFICANT}",
        "kappa": "Cohen's, of two people",
    }


def labels_table(found: Labels) -> dict[str, Any]:
    """``labels`` of a model and suite in JSON: ``episodes`` by class, ``disagreed``, ``failures``, ``agreements``,
    ``metrics``."""
    return {
        "episodes": dict(zip(CLASSES, found.episodes, strict=True)),
        "disagreed": found.disagreed,
        "failures": found.failures,
        "agreements": [
            {"one": e.one, "other": e.other, "episodes": e.episodes, "observed": e.observed, "kappa": e.kappa}
            for e in found.agreements
        ],
        "metrics": [
            {
                "metric": each.metric,
                "correlation": _correlation(each.correlation),
                "against_failures": {name: _effect(told) for name, told in each.against_failures.items()},
            }
            for each in found.metrics
        ],
    }


def _band(each: Correlation) -> str:
    """The correlation in a word; empty where chance does as much, or has to, as they are so few."""
    if each.band is None:
        return f"- of {each.n}"
    return each.band if each.p < SIGNIFICANT else ""


def _correlation(each: Correlation | None) -> dict[str, Any] | None:
    return None if each is None else {"rho": each.rho, "p": each.p, "n": each.n, "band": each.band}


def _effect(each: Discrimination | None) -> dict[str, Any] | None:
    return None if each is None else {"a12": each.a12, "p": each.p, "category": each.category, "n": each.group}


def labels_lines(found: LabelReport) -> Iterator[str]:
    """The section for a terminal, line by line. Control characters are taken out."""
    yield from printed(_lines(found))


def _lines(found: LabelReport) -> Iterator[str]:
    sizes = "; ".join(_SIZES)
    yield from wrapped(
        "Do metrics go with people's labels of quality? Spearman's rho over labelled successes (above 0: "
        f"{_SIGNS[found.sign]}), called none, low, medium or high where p < {SIGNIFICANT}, and A12 of each class "
        f"beside failures (0.5: alike). Where p < {SIGNIFICANT} the effect's size stands beside it, by 2 |A12 - 0.5|: "
        f"{sizes}; {LARGE} large, beyond"
    )
    yield from notes(found.left_out)
    if not found.models:
        yield from wrapped("no success of these runs has a label")
    for model in found.models:
        yield ""
        yield f"=== {model.model}, {model.suite} ==="
        yield from notes(model.left_out)
        told = ", ".join(f"{number} {name}" for number, name in zip(model.episodes, CLASSES, strict=True))
        yield from wrapped(f"labelled: {told}; {counted(model.failures, 'failure')}")
        if model.agreements or model.disagreed:
            yield from wrapped(
                "where several labelled an episode it has their median label"
                + f"; {counted(model.disagreed, 'episode')} in no class, as the two labels in the middle differ"
                * bool(model.disagreed)
            )
        for each in model.agreements:
            kappa = "not defined" if each.kappa is None else f"{each.kappa:.2f}"
            yield from wrapped(
                f"{each.one} and {each.other} agree on {each.observed:.0%} of {counted(each.episodes, 'episode')}, "
                f"Cohen's kappa {kappa}"
            )
        rows = [["metric", "rho", "p of rho", "", *CLASSES]]
        for one in model.metrics:
            rho = one.correlation
            cells = ["-", "-", "-"] if rho is None else [f"{rho.rho:.2f}", f"{rho.p:.3f}", _band(rho)]
            effects = one.against_failures.values()
            rows.append(
                [
                    one.metric,
                    *cells,
                    *("-" if e is None else f"{e.a12:.2f} {e.category or ''}".rstrip() for e in effects),
                ]
            )
        yield from aligned(rows, 1)
        told_of = [each for one in model.metrics for each in (one.correlation, *one.against_failures.values())]
        if (comparisons := sum(each is not None for each in told_of)) > 1:
            yield from wrapped(
                f"these are {comparisons} comparisons: of as many where nothing goes with anything, one of "
                f"{1 / SIGNIFICANT:.0f} has p < {SIGNIFICANT}"
            )
