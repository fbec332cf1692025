"""A worker on another machine: what it does otherwise than one beside the controller.

Its files (trajectories, videos) lie in a folder of its own, and each is sent to the controller before the report that
tells of it, over the same connection, so that a run's folder is whole where the controller runs, and no file system
has to be shared for it.
"""

import os
import queue
import shutil
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.records.record import Record
from pytest_vla.run.folder import RUN
from pytest_vla.run.preparing import CHANNEL
from pytest_vla.scale.far_object import SCRATCH
from pytest_vla.util.files import whole_file

FILE, POLICY, BEGIN = "file", "policy", "begin"
"""What messages between worker and controller are of."""

FAR = pytest.StashKey["FarSide"]()

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
                self._channel.send([FILE, name, part, False])
                part = stream.read(_PART)
            self._channel.send([FILE, name, part, True])
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
            self._channel.send([POLICY])
            return self._answers.get(timeout=seconds)
        except (queue.Empty, OSError):
            return None

    def may_begin(self) -> bool:
        """Whether the next item is to be begun, by the controller's clock. Raises OSError: the controller is gone."""
        self._channel.send([BEGIN])
        while True:
            try:
                return self._begins.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                if self._channel.isclosed():
                    raise OSError("the controller is gone") from None

    def _hear(self, told: Any) -> None:
        """In a thread of execnet's."""
        kind, value = told
        if kind == BEGIN:
            self._begins.put(bool(value))
        if kind == POLICY:
            self._answers.put(value)
        elif kind == FILE:
            name, content = value
            self._run.mkdir(parents=True, exist_ok=True)
            with whole_file(self._run / name) as stream:
                stream.write(content)


def scratch_of(run: str) -> Path:
    """A run's folder on this machine, in the worker's own.

    Args:
        run: its folder where the controller is.
    """
    return Path(os.environ[SCRATCH]) / Path(run).name


def begin(config: pytest.Config, ahead: float) -> None:
    """This process is a worker on another machine."""
    config.stash[FAR] = FarSide(config.workerinput[CHANNEL], config.stash[RUN], ahead)  # type: ignore[attr-defined]
    config.add_cleanup(partial(shutil.rmtree, os.environ[SCRATCH], ignore_errors=True))


def send_file(config: pytest.Config, name: str) -> None:
    """Sends a file of the run's folder to the controller, where that is on another machine. Raises OSError."""
    if (far := config.stash.get(FAR, None)) is not None:
        far.send_file(name)


def on_time(config: pytest.Config, record: Record) -> Record:
    """A record with its time by the controller's clock."""
    far = config.stash.get(FAR, None)
    if far is None or not record.started:
        return record
    import dataclasses

    return dataclasses.replace(record, started=far.on_time(record.started))
