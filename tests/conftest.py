"""A skip for want of data is a failure where the data is there: a green run must have looked at it."""

import contextlib
import importlib
import os
import signal
import sys
from collections.abc import Generator
from typing import Any

import pytest

from pytest_vla import kernels
from tests.support.data import data_root, golden_root

# As in a run with episodes, so that what is simulated here equals what tests' runs simulate.
kernels.pin()

# A pytest that runs in this process forgets what it imported, and numpy cannot be loaded a second time, nor can its
# parts that are loaded when they are first asked for.
import numpy.fft  # noqa: E402
import numpy.linalg  # noqa: E402
import numpy.random  # noqa: E402, F401

# Our own workers are no workers of the runs that tests begin.
os.environ.pop("PYTEST_XDIST_WORKER", None)
# Reports fit a narrow terminal, and a worker has one of 80 columns.
os.environ.pop("COLUMNS", None)
# A user's machine buffers what a process prints.
os.environ.pop("PYTHONUNBUFFERED", None)
# Tests change modules of their projects within a second, which bytecode's time stamps do not tell apart: what they
# start keeps none. The session's own processes keep theirs, of 480 test modules, unless they were told not to.
if not sys.dont_write_bytecode:
    os.environ["VLA_TESTS_KEEP_BYTECODE"] = "1"
sys.dont_write_bytecode = "VLA_TESTS_KEEP_BYTECODE" not in os.environ
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
# A shell starts what runs in its background without Ctrl-C, and what is started without it never gets it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Before any test module is imported.
with contextlib.suppress(ImportError):  # Some environments are made for tests that need no Hypothesis.
    from tests.support.examples import load_profiles

    load_profiles()


def pytest_configure(config: pytest.Config) -> None:
    """What tests cost is measured where `tests/support/cost_tables.py` asks for it."""
    if os.environ.get("VLA_TEST_TIMES"):
        times = importlib.import_module("tests.support.times")
        config.pluginmanager.register(times.TimesPlugin(config), "vla-test-times")


def blames_present_data(reason: str) -> bool:
    """Whether a skip's reason names data that this machine has (the words are tests/support/data.py's)."""
    if "needs " not in reason:
        return False
    if "golden" in reason:
        return golden_root() is not None
    return "data" in reason.lower() and data_root() is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    if report.outcome == "skipped" and not hasattr(report, "wasxfail") and isinstance(report.longrepr, tuple):
        reason = str(report.longrepr[2])
        if blames_present_data(reason):
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid} was skipped, but the data is at {data_root()}: {reason}"
    return report
