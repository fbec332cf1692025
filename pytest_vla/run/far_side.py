"""A worker on another machine: what it does otherwise than one beside the controller.

Its files (trajectories, videos) lie in a folder of its own, and each is sent to the controller before the report that
tells of it, over the same connection, so that a run's folder is whole where the controller runs, and no file system
has to be shared for it.
"""

import dataclasses
import os
import queue
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pytest_vla.records.record import Record
from pytest_vla.run.context import RunContext
from pytest_vla.run.xdist.messages import Begin, FilePart, MayBegin, PolicyPlaces, WhereIsPolicy, read_message, wire
from pytest_vla.scale.far_object import SCRATCH

_PART = 1 << 20
_LOOK_SECONDS = 1.0


class FarSide:
    """This worker's end of what it and the controller tell each other beside xdist's messages.

    Args:
        channel: leads to the controller.
        run: the run's folder here.
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
        """Sends a file of the run's folder, by its name in it; it is this machine's no more.

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
        """A time of this machine's clock by the controller's; ISO 8601."""
        if not self._ahead:
            return started
        return (datetime.fromisoformat(started) - timedelta(seconds=self._ahead)).isoformat()

    def policy(self, seconds: float) -> dict[str, Any] | None:
        """Where the policy is by now, by the controller; None: it does not say within so many seconds."""
        while not self._answers.empty():
            self._answers.get()
        try:
            self._channel.send(wire(WhereIsPolicy()))
            return self._answers.get(timeout=seconds)
        except (queue.Empty, OSError):
            return None

    def may_begin(self) -> bool:
        """Whether the next item is to be begun, by the controller's clock. Raises OSError: the controller is gone."""
        self._channel.send(wire(MayBegin()))
        while True:
            try:
                return self._begins.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                if self._channel.isclosed():
                    raise OSError("the controller is gone") from None

    def _hear(self, sent: Any) -> None:
        """Take an answer of the controller's. Called by execnet, in a thread of its own."""
        message = read_message(sent)
        if message is not None and (handle := self._handlers.get(message.NAME)) is not None:
            handle(message)


def scratch_of(run: str) -> Path:
    """A run's folder on this machine, in the worker's own.

    Args:
        run: its folder where the controller is.
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
