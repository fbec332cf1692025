"""What the language did to a run, at its end: the row of LIBERO-Para's Table 3, and the command that tells the rest."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.records.record import Record
from pytest_vla.reports.tables import wrapped

if TYPE_CHECKING:
    from pytest_vla.metrics.language import Measured
    from pytest_vla.metrics.language_records import Subject
    from pytest_vla.metrics.listening import Estimate
    from pytest_vla.reports.language.compared import Compared

LIMIT_SECONDS = 5.0
"""For a parser: what takes longer is left to ``pytest-vla report``."""

# Not of the folder where pytest runs, whose files may have any names.
_COMPARE = ("-P", "-c", "from pytest_vla.reports.language.pride_row import compare; compare()")


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
    from pytest_vla.reports.tables import printed

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


def compare() -> None:
    """In a process of its own: what the report compares records by, and with what result, as JSON.

    On standard input LIBERO-Para's CSV or null, and the records' lines of each score; on standard output a table of
    each score, or ``error``, a text.
    """
    from pytest_vla.records.record import parse_record
    from pytest_vla.reports.language.compared import comparer

    csv, scores = json.load(sys.stdin)
    compared = comparer(None, None if csv is None else Path(csv))
    try:
        found = [compared([parse_record(line) for line in lines]) for lines in scores]
    except VlaError as error:
        print(json.dumps({"error": str(error)}))
        return
    print(json.dumps([[asdict(each.source), [*each.similarities.items()]] for each in found]))


def _rows(found: "Sequence[Subject]", csv: Path | None, width: int | None) -> list[str]:
    from pytest_vla.metrics.clustered import CONFIDENCE
    from pytest_vla.metrics.language import measure, scored
    from pytest_vla.metrics.pride import ALPHA
    from pytest_vla.metrics.selection import is_counted
    from pytest_vla.reports.tables import aligned

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
        text = f"PRIDE{of}: not worked out here, as the parser takes longer than {LIMIT_SECONDS:g} s"
        lines += wrapped(text, width, "")
    return lines


def _compared(scores: "Sequence[Sequence[Record]]", csv: Path | None) -> "list[Compared | None]":
    """What the report compares each score's records by; None where that takes too long. Raises VlaError."""
    from pytest_vla.language.backends import PUBLISHED
    from pytest_vla.reports.language.compared import comparer

    published = comparer(PUBLISHED, csv)
    found: list[Compared | None] = []
    for records in scores:
        try:
            found.append(published(records))
        except VlaError:
            found.append(None)
    left = [place for place, each in enumerate(found) if each is None]
    if left and (parsed := _parsed([scores[place] for place in left], csv)) is not None:
        for place, each in zip(left, parsed, strict=True):
            found[place] = each
    return found


def _parsed(scores: "Sequence[Sequence[Record]]", csv: Path | None) -> "list[Compared] | None":
    """What was not published, compared; None where it takes too long. Raises VlaError."""
    from pytest_vla.records.record import record_line
    from pytest_vla.reports.language.compared import Compared, Source

    lines = [[record_line(record) for record in records] for records in scores]
    # Parsers import torch and spaCy, which is not for a process that is about to end, and cannot be cut short there.
    try:
        done = subprocess.run(
            [sys.executable, *_COMPARE],
            input=json.dumps([None if csv is None else str(csv), lines]),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=LIMIT_SECONDS,
            check=True,
        )
        told = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return None
    except (subprocess.SubprocessError, OSError, ValueError) as error:
        raise VlaError("texts cannot be compared here; the report says why") from error
    if isinstance(told, dict):
        raise VlaError(told["error"])
    return [
        Compared(
            Source(**source), {(one, other): (keyword, structural) for (one, other), (keyword, structural) in pairs}
        )
        for source, pairs in told
    ]


def _find_csv(run: Path) -> tuple[Path | None, bool]:
    """LIBERO-Para's CSV where the run found it, and whether the report has to be told."""
    from pytest_vla.language.published import find_csv
    from pytest_vla.plan.user_files import given_folders
    from pytest_vla.records.store import open_store

    try:
        with open_store(run.parent, create=False) as store:
            data = store.run(run.name).invocation.get("settings", {}).get("data")
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
