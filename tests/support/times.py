"""Measure what each test costs, for `cost_tables` beside it: conftest.py loads it if `VLA_TEST_TIMES` names a folder.

Each process of pytest appends lines of JSON to a file of its own: one for each test, with its wall time and the
processor time of the process and of the children that it waited for, and one for each stage of the process itself (this
module imported, tests collected, session ended). A forked run (`tests.support.forks`) is no child of the test that asks
for it: the process between the two appends its processor time.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.support.forks import TIMED, TIMES, append_time


def _cpu() -> float:
    usages = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class TimesPlugin:
    """Writes a line a test and a line a stage."""

    def __init__(self, config: pytest.Config) -> None:
        self._folder, self._began = Path(os.environ[TIMES]), time.time()
        self._worker = getattr(config, "workerinput", {}).get("workerid", "")
        self._stage("start")

    def _stage(self, name: str) -> None:
        line = {"stage": name, "worker": self._worker, "cpu": _cpu(), "at": time.time()}
        with open(self._folder / f"{os.getpid()}.jsonl", "a") as file:
            print(json.dumps(line | {"wall": time.time() - self._began, "command": sys.argv[1:]}), file=file)

    def pytest_collection_finish(self) -> None:
        self._stage("collected")

    def pytest_unconfigure(self) -> None:
        self._stage("end")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        os.environ[TIMED] = item.nodeid
        wall, cpu = time.perf_counter(), _cpu()
        try:
            return (yield)
        finally:
            append_time(item.nodeid, time.perf_counter() - wall, _cpu() - cpu)
