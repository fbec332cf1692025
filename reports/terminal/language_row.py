"""What the language did to a run, at its end: the row of LIBERO-Para's Table 3, and the command that tells the rest.

It is worked out in the process that ends: of what was published, of what records have, of what a report has worked out
before, and, where no parser is installed, of the words alone.
"""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.errors import UnloadedError, VlaError
from pytest_vla.records.record import Record
from pytest_vla.reports.text import wrapped

if TYPE_CHECKING:
    from pytest_vla.metrics.language import Measured
    from pytest_vla.metrics.language_records import Subject
    from pytest_vla.metrics.listening import Estimate
    from pytest_vla.reports.language_similarities import Compared


def language_lines(records: Sequence[Record], run: Path, shown: str, width: int | None) -> list[str]:
    """The row of each suite with paraphrases, and the command that reports the whole run.

    Args:
        records: of the run, some of them varied.
        run: its folder.
        shown: the folder as the user would write it.
        width: of the terminal; None: lines may have any length.
    """
    from pytest_vla.metrics.language_records import subjects
    from pytest_vla.metrics.selection import is_counted
    from pytest_vla.reports.text import printed

    found = [each for each in subjects(records) if any(map(is_counted, each.paraphrases))]
    data, lines = [], []
    if found:
        csv, needed = _find_csv(run)
        data = [f"--data={csv}"] if needed else []
        try:
            lines = _rows(found, csv, width)
        except VlaError as error:
            lines = wrapped(f"PRIDE: {error}", width, "")
    # Without trajectories a run has no folder.
    which = [shown] if run.is_dir() else [run.name, f"--results={Path(shown).parent}"]
    return [*printed(lines), f"more of it: `{shlex.join(['pytest-vla', 'report', *which, *data])}`"]


def _rows(found: "Sequence[Subject]", csv: Path | None, width: int | None) -> list[str]:
    from pytest_vla.metrics.clustered import CONFIDENCE
    from pytest_vla.metrics.language import measure, scored
    from pytest_vla.metrics.pride import ALPHA
    from pytest_vla.metrics.selection import is_counted
    from pytest_vla.reports.text import aligned

    scores = [[record for record in each.paraphrases if is_counted(record)] for each in found]
    rows: list[tuple[str, ...]] = [("model", "suite", "n", "SR", "PRIDE", "overestimation")]
    backends: dict[str, list[str]] = {}
    compared = _compared(scores, csv)
    for each, records, by in zip(found, scores, compared, strict=True):
        if by is None:
            continue
        known = scored(records, by.similarities, by.source.backend)
        measured = measure(known, ALPHA)
        rows.append((each.model, each.suite, *_cells(measured)))
        backends.setdefault(by.source.backend, []).append(each.suite)
    lines = []
    if backends:
        models = list(dict.fromkeys(row[0] for row in rows[1:]))
        # One model's name may be long: it has the line above.
        rows = [row[1:] if len(models) == 1 else row for row in rows]
        over = "over paraphrases like these, of these tasks"
        title = f"paraphrases by {', '.join(models)}, % [{CONFIDENCE:.0%} {over}]"
        lines += [*wrapped(title, width, ""), *aligned(rows, 1 if len(models) == 1 else 2, width=None)]
    for backend, suites in backends.items():
        of = f" ({', '.join(dict.fromkeys(suites))})" if len(backends) > 1 else ""
        lines += wrapped(f"PRIDE at alpha {ALPHA:g} by {backend}{of}", width, "")
    if left := [each.suite for each, by in zip(found, compared, strict=True) if by is None]:
        of = f" of {', '.join(dict.fromkeys(left))}" if backends else ""
        text = f"PRIDE{of}: not worked out here, as a parser would have to be loaded; the report does it, and keeps it"
        lines += wrapped(text, width, "")
    return lines


def _compared(scores: "Sequence[Sequence[Record]]", csv: Path | None) -> "list[Compared | None]":
    """What the report compares each score's records by; None where it would load a parser for it. Raises VlaError."""
    from pytest_vla.reports.language_similarities import comparer

    # A parser brings torch and spaCy with it, which are not for a process that is about to end.
    compare = comparer(None, csv, loading=False)
    found: list[Compared | None] = []
    for records in scores:
        try:
            found.append(compare(records))
        except UnloadedError:
            found.append(None)
    return found


def _find_csv(run: Path) -> tuple[Path | None, bool]:
    """LIBERO-Para's CSV where the run found it, and whether the report has to be told."""
    from pytest_vla.language.published import find_csv
    from pytest_vla.plan.data_folders import given_folders
    from pytest_vla.records.load import open_run

    try:
        with open_run(run.name, run.parent) as (_, runs):
            data = runs[0].invocation.get("settings", {}).get("data")
    except VlaError:
        data = None
    by_itself = os.environ.get("PYTEST_VLA_DATA")
    known = find_csv(Path(by_itself)) if by_itself else None
    found = (find_csv(folder) for folder in given_folders(Path(data) if data else None))
    csv = next((each for each in found if each is not None), None)
    return csv, csv is not None and csv != known


def _cells(measured: "Measured") -> tuple[str, str, str, str]:
    sr, pride, overestimation = map(_with_interval, (measured.sr, measured.pride, measured.overestimation))
    return str(measured.n), sr, pride, overestimation


def _with_interval(estimate: "Estimate | None") -> str:
    if estimate is None:
        return "-"
    bounds = "" if estimate.interval is None else " [{:.1f}, {:.1f}]".format(*estimate.interval)
    return f"{estimate.value:.1f}{bounds}"
