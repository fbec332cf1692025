"""``--vla-gate-summary``: a gate's verdict in files, as Markdown for a job's summary, or as JSON."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.reports.gates import (
    SCHEMA,
    Replay,
    failed_heading,
    fails,
    gate_markdown,
    gate_table,
    measures_markdown,
    measures_table,
)
from pytest_vla.reports.text import markdown_text
from pytest_vla.run.gate import GateOutcome, agreed_line
from pytest_vla.util.files import whole_file

PROGRAMS = ".json"
"""A file whose name ends so is for programs; any other has Markdown appended."""


def check_summaries(files: Sequence[Path]) -> None:
    """Check the files of ``--vla-gate-summary`` before anything runs. Raises VlaError if one cannot be written."""
    for file in files:
        if file.is_dir() or not file.parent.is_dir():
            raise VlaError(f"--vla-gate-summary={file}: expected a file in an existing folder")
        if not os.access(file if file.exists() else file.parent, os.W_OK):
            raise VlaError(f"--vla-gate-summary={file}: no permission to write it")


def write_summaries(files: Sequence[Path], gated: GateOutcome, replay: Replay, line: str) -> None:
    """Write the gate's summary into files: JSON for ``.json``, else Markdown, which is appended.

    Args:
        files: the files of ``--vla-gate-summary``.
        gated: the end of the run.
        replay: gives the command that runs cases again.
        line: the line with the run's verdict.

    Raises:
        VlaError: some cannot be written; the others are.
    """
    troubles = []
    for file in files:
        try:
            if file.suffix == PROGRAMS:
                with whole_file(file) as stream:
                    stream.write(json.dumps(summary_table(gated, replay, line), indent=2).encode() + b"\n")
            else:
                with file.open("a", encoding="utf-8") as appended:
                    appended.write(summary_markdown(gated, replay, line))
        except (OSError, VlaError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            troubles.append(f"--vla-gate-summary={file}: {why}; expected a file that can be written")
    if troubles:
        raise VlaError("\n".join(troubles))


def summary_table(gated: GateOutcome, replay: Replay, line: str) -> dict[str, Any]:
    """Return the table of `pytest-vla gate --json` with ``line``; a run that was not judged has the verdict null."""
    judged = gated.judged
    if judged.judgement is None or judged.new is None:
        return {"schema": SCHEMA, "verdict": None, "reason": judged.against, "passed": False, "line": line}
    table = gate_table(judged.judgement, gated.gate.baseline, judged.new, replay)
    measures = measures_table(judged.measured)
    return {**table, "require": gated.gate.required, "passed": not judged.against, "measures": measures, "line": line}


def summary_markdown(gated: GateOutcome, replay: Replay, line: str) -> str:
    """Return the Markdown of `pytest-vla gate --summary`, with the plan and the run's verdict."""
    judged = gated.judged
    if judged.judgement is None or judged.new is None:
        return f"### gate: not judged\n\n{markdown_text(line)}\n"
    gate, failed = gated.gate, fails(judged.measured, gated.gate.required)
    text = failed_heading(failed) + gate_markdown(judged.judgement, gate.baseline, judged.new, gate.name, replay)
    text += measures_markdown(judged.measured, gate.terms, judged.by, failed)
    told = [*judged.told, agreed_line(gate), line]
    return "\n".join([text, *(f"- {markdown_text(each)}" for each in told if each), ""])
