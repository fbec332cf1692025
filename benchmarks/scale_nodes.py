"""A pytest plugin: xdist's workers without processes, whose episodes take no time, so that the controller is the limit.

All that happens in the controller is the real thing: xdist's loop, its scheduler in our place, messages as execnet
unpacks them, reports, records, the store, the line. Only nodes are made up: each has its answers ready, as bytes, and
gives them as soon as it is handed an item.

Settings come by the environment: SCALE_EPISODES, SCALE_KIND (of `scale_records`), SCALE_OUT: a file for what was
measured, SCALE_PROFILE: a file for cProfile's account.
"""

import cProfile
import dataclasses
import functools
import json
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import execnet
import pytest
import scale_records
from upstream import resident_bytes
from xdist import workermanage
from xdist.remote import getinfodict

from pytest_vla.records.record import record_line
from pytest_vla.run.collected import Collected
from pytest_vla.run.handover import PROPERTY
from pytest_vla.run.xdist.messages import wire
from pytest_vla.run.xdist.worker import CHANNEL, cases_message

_FILE = "pytest_vla/run/suite_items.py"
_PHASES = ("setup", "call", "teardown")
_HOOKS = [("setup", 0.4), ("call", 0.001), ("teardown", 0.001)]


class Account:
    """What the controller took, from the first item handed out to the session's end."""

    def __init__(self) -> None:
        self.began = self.cpu = self.nodes_seconds = self.nodes_cpu = 0.0
        self.memory = 0
        self.told: dict[str, float] = {}
        self.profile = cProfile.Profile() if os.environ.get("SCALE_PROFILE") else None

    def begin(self) -> None:
        if not self.began:
            self.began, self.cpu, self.memory = time.perf_counter(), time.process_time(), resident_bytes()
            if self.profile is not None:
                self.profile.enable()

    def end(self, episodes: int) -> None:
        """All reports are in, and the run is in the store."""
        if self.profile is not None:
            self.profile.disable()
            self.profile.dump_stats(os.environ["SCALE_PROFILE"])
        seconds = time.perf_counter() - self.began - self.nodes_seconds
        told = {
            "episodes": episodes,
            "seconds": seconds,
            "cpu": time.process_time() - self.cpu - self.nodes_cpu,
            "bytes": resident_bytes() - self.memory,
            "peak": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        }
        self.told = told

    def write(self) -> None:
        """Whatever pytest still had to say is said."""
        self.told["whole"] = time.perf_counter() - self.began - self.nodes_seconds
        Path(os.environ["SCALE_OUT"]).write_text(json.dumps(self.told))


ACCOUNT = Account()


class FakeNode(workermanage.WorkerController):
    """A worker that has run what it is handed before it is handed it."""

    def setup(self) -> None:
        self.config.hook.pytest_configure_node(node=self)
        self._run = Path(json.loads(self.workerinput["vla"])["run"]).name  # type: ignore[typeddict-item]
        self._next: int | None = None
        self._cases, ids, told = _collected()
        self._kind = os.environ.get("SCALE_KIND", scale_records.FULL)
        self.notify_inproc("workerready", node=self, workerinfo=getinfodict())
        channel: Any = self.workerinput[CHANNEL]  # type: ignore[typeddict-item]
        channel.hear(execnet.loads(execnet.dumps(told)))
        self.notify_inproc("collectionfinish", node=self, ids=list(ids))

    def sendcommand(self, name: str, **kwargs: Any) -> None:
        """An item that is handed out has the one before it run, as in a worker."""
        ACCOUNT.begin()
        if name == "runtests":
            for index in kwargs["indices"]:
                if self._next is not None:
                    self._tell(self._next)
                self._next = index
        elif name == "shutdown":
            if self._next is not None:
                self._tell(self._next)
                self._next = None
            output = {"exitstatus": 0, "shouldfail": False, "shouldstop": False}
            self.process_from_remote(("workerfinished", {"workeroutput": output}))

    def ensure_teardown(self) -> None:
        pass

    def _tell(self, index: int) -> None:
        began, processor = time.perf_counter(), time.thread_time()
        messages = self._messages(index)
        ACCOUNT.nodes_seconds += time.perf_counter() - began
        # Of this thread: others may be at work meanwhile.
        ACCOUNT.nodes_cpu += time.thread_time() - processor
        for message in messages:
            self.process_from_remote(execnet.loads(message))

    def _messages(self, index: int) -> list[bytes]:
        case = self._cases[index]
        record = dataclasses.replace(scale_records.record(case, self._kind, self._run), worker=self.gateway.id)
        line, node = record_line(record), case.node_id
        item = node.partition("::")[2]
        location = (_FILE, 14, item)
        about = {"nodeid": node, "location": location}
        keywords = dict.fromkeys((item, case.parameter_id, "suite_items.py", "vla", "run", "pytest_vla", ""), 1)
        told: list[tuple[str, dict[str, Any]]] = [("logstart", about)]
        for when, seconds in _HOOKS:
            failed = when == "call" and record.outcome == "failure"
            text = f"failure after {record.steps} of 300 steps: (open wooden_cabinet_1_middle_region) does not hold\n"
            data = {
                **about,
                "keywords": keywords,
                "outcome": "failed" if failed else "passed",
                "longrepr": f"{text}  run it alone: python -m pytest '{node}' --vla-model=random" if failed else None,
                "when": when,
                "user_properties": [(PROPERTY, line)],
                "sections": [],
                "duration": seconds,
                "start": 1795666889.76,
                "stop": 1795666889.76 + seconds,
                "$report_type": "TestReport",
                "item_index": index,
                "worker_id": self.gateway.id,
                "testrun_uid": self.workerinput["testrunuid"],
            }
            told.append(("testreport", {"data": data}))
        told.append(("logfinish", about))
        told.append(("runtest_protocol_complete", {"item_index": index, "duration": 0.4}))
        return [execnet.dumps(each) for each in told]


@functools.cache
def _collected() -> tuple[list[Any], list[str], tuple[Any, ...]]:
    """The cases, their items, and what a worker tells of them."""
    cases = scale_records.cases(int(os.environ["SCALE_EPISODES"]))
    ids = [case.node_id for case in cases]
    found = Collected(ids, dict(zip(ids, cases, strict=True)), {node: node for node in ids}, {})
    return cases, ids, wire(cases_message(found))


class _Channel:
    """What a worker tells beside xdist's messages."""

    hear: Callable[[Any], None]

    def setcallback(self, callback: Callable[[Any], None]) -> None:
        self.hear = callback


def _setup_node(manager: Any, spec: Any, putevent: Any) -> FakeNode:
    # No process: nothing is started, guarded or killed.
    spec.via = "nobody"
    gateway: Any = SimpleNamespace(
        id=spec.id, spec=spec, newchannel=_Channel, _io=SimpleNamespace(kill=lambda: None), exit=lambda: None
    )
    node = FakeNode(manager, gateway, manager.config, putevent)
    node.setup()
    return node


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    workermanage.NodeManager.setup_node = _setup_node  # type: ignore[method-assign,assignment]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    ACCOUNT.end(int(os.environ["SCALE_EPISODES"]))


def pytest_unconfigure() -> None:
    ACCOUNT.write()
