"""Makes the language's part of a report of records: success, PRIDE, failure types and the listening score."""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pytest_vla.language.published import SUITE, cell_counts, numbered_tasks
from pytest_vla.metrics.failure_types import USUAL_TAU, Algorithm, Tau, usual_algorithm
from pytest_vla.metrics.language import Scored, measure, measure_paraphrases, of_list, scored
from pytest_vla.metrics.language_paths import listening_score, text_failures
from pytest_vla.metrics.language_records import Subject, benign_rate, pair_of, subjects
from pytest_vla.metrics.language_results import LanguageReport, ModelResults, OtherChange
from pytest_vla.metrics.selection import is_counted
from pytest_vla.metrics.success import success_rate
from pytest_vla.records.record import Record
from pytest_vla.reports.language.compared import Compared, comparer
from pytest_vla.reports.loaded import Loaded, runs_of, unfinished_of
from pytest_vla.reports.paths import path_loader, unread_lines
from pytest_vla.util.live_line import told_when_slow
from pytest_vla.util.text import counted


def make_report(
    loaded: Loaded,
    alpha: float,
    csv: Path | None,
    backend: str | None,
    algorithm: Algorithm | None,
    tau: Tau = USUAL_TAU,
) -> LanguageReport | None:
    """All of the language; None where no record has a variation of it.

    Args:
        loaded: the records.
        alpha: weight of S_K.
        csv: LIBERO-Para's; None: published similarities are not at hand.
        backend: of all similarities; None: of each score the best that has all of its pairs.
        algorithm: of the failure types; None: fastdtw where it is installed.
        tau: how their threshold is made.

    Raises:
        VlaError: what was asked for cannot be had.
    """
    found = subjects(loaded.records)
    if not found:
        return None
    notes = []
    if algorithm is None:
        algorithm = usual_algorithm()
        notes += ["fastdtw, the paper's DTW: it is not installed; exact DTW is taken"] * (algorithm == "exact")
    compare = _told_comparer(comparer(backend, csv), backend)
    models = tuple(_results(each, loaded, alpha, compare, algorithm, tau, notes) for each in found)
    return LanguageReport(alpha=alpha, models=models)


def _told_comparer(
    compare: Callable[[Sequence[Record]], Compared], backend: str | None
) -> Callable[[Sequence[Record]], Compared]:
    """Likewise, and says on standard error that it compares, where that takes long: parsers and models are loaded."""

    def told(records: Sequence[Record]) -> Compared:
        pairs = len({pair_of(record) for record in records})
        by = f" by {backend}" if backend is not None else ""
        what = f"comparing {counted(pairs, 'pair')} of texts{by}; what is worked out is kept"
        with told_when_slow(what, sys.stderr):
            return compare(records)

    return told


def _results(
    subject: Subject,
    loaded: Loaded,
    alpha: float,
    compare: Callable[[Sequence[Record]], Compared],
    algorithm: Algorithm,
    tau: Tau,
    notes: Sequence[str],
) -> ModelResults:
    left_out = list(subject.left_out)
    varied = subject.varied
    runs = runs_of(varied, loaded)
    left_out += unfinished_of(varied, loaded)
    paraphrases, source, of_whole_list, others = None, None, None, {}
    if measured := [record for record in subject.paraphrases if is_counted(record)]:
        compared = compare(measured)
        source = compared.source
        known = scored(measured, compared.similarities, source.backend)
        paraphrases = measure_paraphrases(known, alpha)
        if subject.suite == SUITE:
            of_whole_list = of_list(known, alpha, cell_counts(), len(numbered_tasks()))
            left_out += _no_total(known, of_whole_list is None)
    else:
        left_out.append("PRIDE and the grids: there is no success and no failure under a paraphrase")
    for kind, records in subject.others.items():
        if measured := [record for record in records if is_counted(record)]:
            compared = compare(measured)
            known = scored(measured, compared.similarities, compared.source.backend)
            others[kind] = OtherChange(compared.source, measure(known, alpha))
    paths, troubles = path_loader(loaded)
    reworded = [record for record in subject.reworded if is_counted(record)]
    with told_when_slow(f"failure types of {counted(len(reworded), 'episode')}", sys.stderr):
        failures = text_failures(reworded, paths, algorithm, tau)
    left_out += _without_path(reworded, 0 if failures is None else failures.n)
    left_out += notes if failures is not None else []
    heard, said = listening_score(subject, paths)
    left_out += said
    if heard is None and not subject.probes:
        left_out.append("listening score: no episode has a probe (blank, nonsense, another task's text or its goal)")
    left_out += unread_lines(troubles)
    return ModelResults(
        model=subject.model,
        suite=subject.suite,
        runs=runs,
        seeds=tuple(sorted({record.seed for record in varied})),
        benign=benign_rate(subject),
        counts=success_rate("varied", varied),
        paraphrases=paraphrases,
        of_list=of_whole_list,
        source=source,
        others=others,
        failures=failures,
        listening=heard,
        left_out=tuple(left_out),
        protocol=subject.protocol,
        rate=success_rate("paraphrases", subject.paraphrases) if subject.paraphrases else None,
    )


def _no_total(known: Scored, is_part: bool) -> Iterator[str]:
    """What to say where not all of LIBERO-Para's list was told: a mean over a part of it is no total."""
    told, listed = len(set(known.texts)), sum(cell_counts().values())
    if told < listed:
        instead = ", and there is none as some of its 43 cells or ten tasks are missing" if is_part else ""
        yield f"{told:,} of LIBERO-Para's {listed:,} paraphrases were told: means over them are no total{instead}"


def _without_path(records: Sequence[Record], number: int) -> Iterator[str]:
    """What to say of episodes of which failure types are not known, where so many have a path."""
    if not records:
        yield "failure types: there is no success and no failure under another text, probes aside"
    elif number < len(records):
        imported = sum("imported" in record.provenance for record in records)
        none = len(records) - number
        have = "has" if none == 1 else "have"
        share = f"{none} of {len(records)} episodes {have} no" if number else "no episode has a"
        logs = f" ({imported} {'is' if imported == 1 else 'are'} imported, and logs have none)" if imported else ""
        yield f"failure types: {share} trajectory{logs}"
