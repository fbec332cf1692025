"""Runs of pytest on the built-in suite, in a process and a folder of their own, as a user starts them."""

import os
import subprocess
import sys
from pathlib import Path

from pytest_vla.records.record import Record
from tests.support.runs import records_of
from tests.support.waiting import HANG


def run_suite(folder: Path, name: str, *arguments: str, failures: bool = True) -> dict[str, Record]:
    """The records of a run of tabletop, by case.

    Args:
        folder: where pytest is started: the user's modules lie there.
        name: of the results folder in it, for this run alone.
        arguments: pytest's, and the plugin's.
        failures: whether episodes may fail; anything else that is amiss is an AssertionError.
    """
    (folder / "pytest.ini").touch()
    command = [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", "-p", "no:anyio", "-p", "no:cacheprovider"]
    # Ours may be run by pytest-xdist, and with options that are not meant for theirs.
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_") or "VLA" in key}
    ended = subprocess.run(
        [*command, "--vla-suite=tabletop", f"--vla-results={name}", *arguments],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert ended.returncode in ((0, 1) if failures else (0,)), ended.stdout + ended.stderr
    records = {record.case: record for record in records_of(folder / name)}
    wrong = [record.message for record in records.values() if record.outcome not in ("success", "failure")]
    assert not wrong, wrong
    return records
