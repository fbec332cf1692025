"""A worker's side of the messages between it and the controller.

xdist's own messages carry ids only. So each worker has a channel of its own; `pytest_vla.run.xdist.messages` lists its
messages.
"""

import dataclasses
import json
import os
import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.records.record import Record
from pytest_vla.run.context import RunContext, context_of
from pytest_vla.run.nodes import Collected, collected_of
from pytest_vla.run.resume import Resumption
from pytest_vla.run.xdist.messages import (
    Begin,
    CasesCollected,
    FilePart,
    MayBegin,
    Message,
    PolicyPlaces,
    ShardPlanned,
    WallLimitChange,
    WhereIsPolicy,
    read_message,
    wire,
)
from pytest_vla.run.xdist.policy import PolicyPlace
from pytest_vla.scale.far_object import SCRATCH

WORKER_INPUT = "vla"
"""The name in a worker's input of what it is handed, as JSON."""

CHANNEL = "vla_channel"
"""The name in a worker's input of its channel to the controller."""


@dataclass(frozen=True)
class Handed:
    """The controller's input for a worker.

    Attributes:
        run: the run's folder on the controller's machine.
        resumption: the resumed run, or None.
        served: the policy's address, or None.
        ahead: for a worker on another machine, seconds by which its clock is ahead; None for one on this machine.
    """

    run: str
    resumption: Resumption | None
    served: PolicyPlace | None
    ahead: float | None = None


def handed_over(config: pytest.Config) -> Handed | None:
    """Return the controller's input for this worker, or None in any other process."""
    text = getattr(config, "workerinput", {}).get(WORKER_INPUT)
    if text is None:
        return None
    table = json.loads(text)
    resumption = table["resumption"]
    if resumption is not None:
        resumption = Resumption(**{**resumption, **{name: tuple(resumption[name]) for name in ("left", "policies")}})
    return Handed(table["run"], resumption, table["served"] and PolicyPlace(**table["served"]), table["ahead"])


class Worker:
    """The hooks of a worker."""

    # Before xdist tells that this worker has collected.
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Send the controller the collected episodes."""
        context = context_of(session.config)
        if context.channel is not None:
            context.channel.send(wire(cases_message(collected_of(session.items))))
            if (table := context.findings.shard) is not None:
                context.channel.send(wire(ShardPlanned(json.dumps(table))))


def channel_of(config: pytest.Config) -> Any:
    """Return this worker's channel to its controller, or None in any other process."""
    return getattr(config, "workerinput", {}).get(CHANNEL)


def cases_message(found: Collected) -> CasesCollected:
    """Return the message with the collected episodes of a worker."""
    told = {node: (found.names[node], found.shared.get(node), astuple(case)) for node, case in found.cases.items()}
    return CasesCollected(json.dumps(told))


def ask_controller(context: RunContext) -> bool:
    """Whether a worker may begin its next item; the controller has the clock."""
    channel = context.channel
    try:
        if context.far_side is not None:
            return context.far_side.may_begin()
        channel.send(wire(MayBegin()))
        while True:
            answer = read_message(channel.receive())
            if isinstance(answer, Begin):
                return answer.allowed
    except (OSError, EOFError):
        # The controller is gone, and xdist ends this worker.
        return True


@contextmanager
def told_controller(context: RunContext, limit: float | None) -> Iterator[None]:
    """Report to the controller that the block has a wall-time limit, so that it can kill a frozen worker.

    Args:
        context: the context of the process, a worker or not.
        limit: seconds, or None for no limit.
    """
    if limit is None:
        yield
        return
    _tell_controller(context, WallLimitChange(in_force=True))
    try:
        yield
    finally:
        lift_controllers_limit(context)


def lift_controllers_limit(context: RunContext) -> None:
    """Report to the controller that this process has no wall-time limit any more."""
    _tell_controller(context, WallLimitChange(in_force=False))


def _tell_controller(context: RunContext, message: Message) -> None:
    if context.channel is not None:
        # A controller that is gone needs to know nothing, and xdist ends this worker.
        with suppress(OSError):
            context.channel.send(wire(message))


# A worker on another machine: what it does otherwise than one beside the controller.
#
# Its files (trajectories, videos) lie in a folder of its own, and each is sent to the controller before the report
# that tells of it, over the same connection, so that a run's folder is whole where the controller runs, and no file
# system has to be shared for it.

_PART = 1 << 20
_LOOK_SECONDS = 1.0


class FarSide:
    """A far worker's end of the messages between it and the controller.

    Args:
        channel: leads to the controller.
        run: the run's folder on this machine.
        ahead: seconds by which this machine's clock is ahead of the controller's.
    """

    def __init__(self, channel: Any, run: Path, ahead: float) -> None:
        self._channel, self._run, self._ahead = channel, run, ahead
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._begins: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._handlers: dict[str, Callable[[Any], None]] = {
            Begin.NAME: lambda message: self._begins.put(message.allowed),
            PolicyPlaces.NAME: lambda message: self._answers.put(message.table),
        }
        channel.setcallback(self._hear)

    def send_file(self, name: str) -> None:
        """Send a file of the run's folder to the controller, and delete it here.

        Raises:
            OSError: it cannot be read, or the controller is gone.
        """
        path = self._run / name
        with path.open("rb") as stream:
            part = stream.read(_PART)
            while len(part) == _PART:
                self._channel.send(wire(FilePart(name, part, is_last=False)))
                part = stream.read(_PART)
            self._channel.send(wire(FilePart(name, part, is_last=True)))
        path.unlink()

    def on_time(self, started: str) -> str:
        """Convert an ISO 8601 time from this machine's clock to the controller's."""
        if not self._ahead:
            return started
        return (datetime.fromisoformat(started) - timedelta(seconds=self._ahead)).isoformat()

    def policy(self, seconds: float) -> dict[str, Any] | None:
        """Ask the controller for the policy's present address; None without an answer within `seconds`."""
        while not self._answers.empty():
            self._answers.get()
        try:
            self._channel.send(wire(WhereIsPolicy()))
            return self._answers.get(timeout=seconds)
        except (queue.Empty, OSError):
            return None

    def may_begin(self) -> bool:
        """Whether the next item may begin, by the controller's clock. Raises OSError if the controller is gone."""
        self._channel.send(wire(MayBegin()))
        while True:
            try:
                return self._begins.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                if self._channel.isclosed():
                    raise OSError("the controller is gone") from None

    def _hear(self, sent: Any) -> None:
        """Take the controller's answer. Called by execnet, in a thread of its own."""
        message = read_message(sent)
        if message is not None and (handle := self._handlers.get(message.NAME)) is not None:
            handle(message)


def scratch_of(run: str) -> Path:
    """Return the run's folder on this machine, within the worker's own folder.

    Args:
        run: the run's folder on the controller's machine.
    """
    return Path(os.environ[SCRATCH]) / Path(run).name


def send_file(context: RunContext, name: str) -> None:
    """Send a file of the run's folder to the controller, if that is on another machine. Raises OSError."""
    if context.far_side is not None:
        context.far_side.send_file(name)


def on_time(context: RunContext, record: Record) -> Record:
    """Return a record with its time by the controller's clock."""
    if context.far_side is None or not record.started:
        return record
    return dataclasses.replace(record, started=context.far_side.on_time(record.started))
