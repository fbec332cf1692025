"""What the language did to a run, at its end: the row of LIBERO-Para's Table 3, and the command that tells the rest."""

import json
import os
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.records import Record

if TYPE_CHECKING:
    from pytest_vla.language.backends import Choice, Pair
    from pytest_vla.metrics.language import Measured, Subject
    from pytest_vla.metrics.listening import Estimate

LIMIT_SECONDS = 5.0
"""For a parser: what takes longer is left to ``pytest-vla report``."""

# Not of the folder where pytest runs, whose files may have any names.
_COMPARE = ("-P", "-c", "from pytest_vla.reports.pride_row import compare; compare()")

Values = dict["Pair", tuple[float, float]]
"""S_K and S_T of pairs."""


def language_lines(records: Sequence[Record], run: Path, shown: str, width: int | None) -> list[str]:
    """The row of each suite with paraphrases, and the command that reports the whole run.

    Args:
        records: of the run, some of them varied.
        run: its folder.
        shown: the folder as the user would write it.
        width: of the terminal; None: lines may have any length.
    """
    from pytest_vla.metrics.language import subjects
    from pytest_vla.metrics.selection import is_counted
    from pytest_vla.reports.tables import printable

    found = [each for each in subjects(records) if any(map(is_counted, each.paraphrases))]
    data, lines = [], []
    if found:
        csv, needed = _find_csv(run)
        data = [f"--data={csv}"] if needed else []
        try:
            lines = _rows(found, csv, width)
        except VlaError as error:
            lines = _wrapped(f"PRIDE: {error}", width)
    # Without trajectories a run has no folder.
    which = [shown] if run.is_dir() else [run.name, f"--results={Path(shown).parent}"]
    return [*printable(lines), f"more of it: `{shlex.join(['pytest-vla', 'report', *which, *data])}`"]


def compare() -> None:
    """In a process of its own: a backend's values for the pairs on standard input, both as JSON."""
    from pytest_vla.language.backends import choose_backend

    name, pairs = json.load(sys.stdin)
    found = choose_backend(name).backend.compare([(original, paraphrase) for original, paraphrase in pairs])
    print(json.dumps([[each.keyword, each.structural] for each in found]))


def _rows(found: "Sequence[Subject]", csv: Path | None, width: int | None) -> list[str]:
    import numpy as np

    from pytest_vla.language.backends import choose_backend
    from pytest_vla.metrics.bootstrap import CONFIDENCE
    from pytest_vla.metrics.language import measure, pair_of, scored
    from pytest_vla.metrics.pride import ALPHA
    from pytest_vla.metrics.selection import is_counted
    from pytest_vla.report_command import SEED
    from pytest_vla.reports.tables import aligned

    pairs = list(dict.fromkeys(pair_of(each) for one in found for each in one.paraphrases if is_counted(each)))
    choice = choose_backend(None, csv, pairs)
    values, backend = _values(choice, pairs), str(choice.backend)
    if values is None:
        text = f"PRIDE: not worked out here, as {choice.backend.name} takes longer than {LIMIT_SECONDS:g} s"
        return _wrapped(text, width)
    rows: list[tuple[str, ...]] = [("model", "suite", "n", "SR", "PRIDE", "overestimation")]
    for each in found:
        # As the report has it.
        measured = measure(scored(each.paraphrases, values, backend), ALPHA, np.random.default_rng(SEED))
        rows.append((each.model, each.suite, *_cells(measured)))
    models = list(dict.fromkeys(each.model for each in found))
    # One model's name may be long: it has the line above.
    rows = [row[1:] if len(models) == 1 else row for row in rows]
    title = f"paraphrases by {', '.join(models)}, % [{CONFIDENCE:.0%} bootstrap over paraphrases and seeds]"
    return [
        *_wrapped(title, width),
        *aligned(rows, 1 if len(models) == 1 else 2),
        *_wrapped(f"PRIDE at alpha {ALPHA:g} by {backend}", width),
    ]


def _values(choice: "Choice", pairs: "Sequence[Pair]") -> Values | None:
    """The similarities; None where they take too long. Raises VlaError."""
    from pytest_vla.language.backends import PUBLISHED, TEMPLATE

    backend = choice.backend
    if backend.name in (PUBLISHED, TEMPLATE):
        found = [(each.keyword, each.structural) for each in backend.compare(pairs)]
        return dict(zip(pairs, found, strict=True))
    # Parsers import torch and spaCy, which is not for a process that is about to end, and cannot be cut short there.
    try:
        done = subprocess.run(
            [sys.executable, *_COMPARE],
            input=json.dumps([backend.name, pairs]),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=LIMIT_SECONDS,
            check=True,
        )
    except subprocess.TimeoutExpired:
        return None
    except (subprocess.SubprocessError, OSError) as error:
        raise VlaError(f"{backend.name} does not work here; the report says why") from error
    return {
        pair: (keyword, structural) for pair, (keyword, structural) in zip(pairs, json.loads(done.stdout), strict=True)
    }


def _find_csv(run: Path) -> tuple[Path | None, bool]:
    """LIBERO-Para's CSV where the run found it, and whether the report has to be told."""
    from pytest_vla.language.published import find_csv
    from pytest_vla.store import open_store
    from pytest_vla.vary.given import given_folders

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


def _wrapped(text: str, width: int | None) -> list[str]:
    return [text] if width is None else textwrap.wrap(text, width, break_on_hyphens=False)


def _with_interval(estimate: "Estimate | None") -> str:
    if estimate is None:
        return "-"
    bounds = "" if estimate.interval is None else " [{:.1f}, {:.1f}]".format(*estimate.interval)
    return f"{estimate.value:.1f}{bounds}"
