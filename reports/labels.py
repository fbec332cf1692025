"""People's labels of quality: how far two agree, and which metrics go with them, in text and as JSON.

In the layout of tables III, V and VII of arXiv 2507.17049.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_vla.metrics.discrimination import ALPHA, MOST_EXACT, MOST_ORDERS, Correlation, Discrimination
from pytest_vla.metrics.further import further_names
from pytest_vla.metrics.labels import (
    CLASSES,
    Agreement,
    Labelled,
    agreements,
    class_of,
    labelled,
    ranks_of,
    read_labels,
)
from pytest_vla.metrics.selection import by_model, is_counted, that_count
from pytest_vla.reports.loaded import Loaded
from pytest_vla.reports.tables import aligned, notes, printed, wrapped
from pytest_vla.util.text import counted


@dataclass(frozen=True)
class Labels:
    """One model in one suite.

    Attributes:
        model: the policy's name.
        suite: the suite's.
        episodes: successes with a label, by class, as many as there are of `CLASSES`.
        failures: beside which classes are held.
        agreements: of every two people.
        metrics: each further number of the episodes.
        left_out: what is in no number, and why.
    """

    model: str
    suite: str
    episodes: tuple[int, ...]
    failures: int
    agreements: tuple[Agreement, ...]
    metrics: tuple[Labelled, ...]
    left_out: tuple[str, ...]


def make_labels(loaded: Loaded, file: Path) -> tuple[Labels, ...]:
    """What goes with labels, of each model and suite that has some.

    A case that several models ran is each's: label their runs into files of their own, and report them apart.

    Raises:
        VlaError: the file cannot be used, or labels a case that is not there.
    """
    labels = read_labels(file, {record.case for record in loaded.records})
    found = []
    for (model, suite), some in by_model(loaded.records).items():
        selected = that_count(some)
        records = [record for record in selected.records if is_counted(record) and not record.is_probe]
        successes = {record.case for record in records if record.outcome == "success"}
        here = [each for each in labels if each.case in successes]
        if not here:
            continue
        ranks = ranks_of(here)
        failed = {record.case for record in records if record.outcome == "failure"}
        names = sorted({name for record in records for name in further_names(record)})
        metrics = tuple(
            labelled(name, {each.case: each.metrics[name] for each in records if name in each.metrics}, ranks, failed)
            for name in names
        )
        by_class = tuple(sum(class_of(rank) == name for rank in ranks.values()) for name in CLASSES)
        found.append(Labels(model, suite, by_class, len(failed), agreements(here), metrics, selected.left_out))
    return tuple(found)


def methods_table() -> dict[str, Any]:
    """How the numbers were made, for JSON."""
    return {
        "classes": list(CLASSES),
        "correlation": "Spearman's, of the labels' mean ranks with the metric, over labelled successes; p of up to "
        f"{MOST_ORDERS} over all orders of them, of more by Student's t; band: null where no order of so few has a p "
        f"below {ALPHA}",
        "against_failures": "A12 and Mann-Whitney's p of a class beside failures; exact where one of both has up to "
        f"{MOST_EXACT} episodes",
        "kappa": "Cohen's, of two people",
    }


def labels_table(found: Labels) -> dict[str, Any]:
    """``labels`` of a model and suite in JSON: ``episodes`` by class, ``failures``, ``agreements``, ``metrics``."""
    return {
        "episodes": dict(zip(CLASSES, found.episodes, strict=True)),
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


def _correlation(each: Correlation | None) -> dict[str, Any] | None:
    return None if each is None else {"rho": each.rho, "p": each.p, "n": each.n, "band": each.band}


def _effect(each: Discrimination | None) -> dict[str, Any] | None:
    return None if each is None else {"a12": each.a12, "p": each.p, "category": each.category, "n": each.group}


def labels_lines(found: Sequence[Labels]) -> Iterator[str]:
    """The section for a terminal, line by line. Control characters are taken out."""
    yield from printed(_lines(found))


def _lines(found: Sequence[Labels]) -> Iterator[str]:
    yield from wrapped(
        "Do metrics go with people's labels of quality? Spearman's rho over labelled successes (above 0: better where "
        "the metric is larger), and A12 of each class beside failures (0.5: alike) with the effect's size: n, s, m, L"
    )
    if not found:
        yield from wrapped("no success of these runs has a label")
    for model in found:
        yield ""
        yield f"=== {model.model}, {model.suite} ==="
        yield from notes(model.left_out)
        told = ", ".join(f"{number} {name}" for number, name in zip(model.episodes, CLASSES, strict=True))
        yield from wrapped(f"labelled: {told}; {counted(model.failures, 'failure')}")
        for each in model.agreements:
            kappa = "not defined" if each.kappa is None else f"{each.kappa:.2f}"
            yield from wrapped(
                f"{each.one} and {each.other} agree on {each.observed:.0%} of {counted(each.episodes, 'episode')}, "
                f"Cohen's kappa {kappa}"
            )
        rows = [["metric", "rho", "p", "", *CLASSES]]
        for one in model.metrics:
            rho = one.correlation
            cells = ["-", "-", "-"] if rho is None else [f"{rho.rho:.2f}", f"{rho.p:.3f}", rho.band or f"- of {rho.n}"]
            effects = one.against_failures.values()
            rows.append([one.metric, *cells, *("-" if e is None else f"{e.a12:.2f} {e.category}" for e in effects)])
        yield from aligned(rows, 1)
