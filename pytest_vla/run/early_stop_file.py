"""The decisions of a sequential gate, on their way from the process that keeps the run to those that run its items.

They are a small file in the run's folder, which is replaced as a whole. Each process reads it before an item begins. A
worker on another machine, which does not see the file, runs its items: episodes beyond a decision change nothing.
"""

import json
import os
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

from pytest_vla.run.nodes import counted_node
from pytest_vla.util.files import whole_file

FILE = "decided.json"


_WAS_DECIDED = "vla_was_decided"
"""The attribute of a report that says so; it crosses with the report from worker to controller."""


def was_decided(report: pytest.TestReport) -> bool:
    """Whether the report is for an item that was skipped because its group was decided."""
    return getattr(report, _WAS_DECIDED, False) is True


def write_decided(run: Path, reasons: Mapping[str, str]) -> None:
    """Write the file of items that need not run any more.

    Args:
        run: the run's folder.
        reasons: by node id, as the item is recorded, the reason.

    Raises:
        VlaError: it cannot be written.
    """
    run.mkdir(parents=True, exist_ok=True)
    with whole_file(run / FILE) as stream:
        stream.write(json.dumps(reasons).encode())


class SkipDecided:
    """The hooks of a process that runs items: they skip the items of decided groups.

    Args:
        run: the run's folder.
    """

    def __init__(self, run: Path) -> None:
        self._file = run / FILE
        self._known: tuple[int, ...] = ()
        self._reasons: dict[str, str] = {}
        # An item that another plugin runs again has begun.
        self._begun: set[str] = set()
        self._skipped: set[pytest.Item] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip an item whose group is decided."""
        node = counted_node(item)
        reason = None if node in self._begun else self._now().get(node)
        if reason is not None:
            self._skipped.add(item)
            raise pytest.skip.Exception(reason, _use_item_location=True)
        self._begun.add(node)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Mark the reports of items that were skipped because their group was decided."""
        report = yield
        if item in self._skipped:
            setattr(report, _WAS_DECIDED, True)
        return report

    def _now(self) -> Mapping[str, str]:
        try:
            about = os.stat(self._file)
            known = about.st_ino, about.st_mtime_ns, about.st_size
            if known != self._known:
                self._reasons, self._known = json.loads(self._file.read_bytes()), known
        except OSError:
            # Nothing is decided yet, or it cannot be read: then the item runs.
            return {}
        return self._reasons
