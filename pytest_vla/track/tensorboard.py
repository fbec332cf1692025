"""The TensorBoard tracker: event files in the run's folder, by tensorboard's own writer, without torch."""

import time
from collections.abc import Mapping
from typing import Any

from pytest_vla.track.tracker import Ending, Point, TrackedRun
from pytest_vla.util.extras import required

INSTALL = "pip install 'pytest-vla[tensorboard]'"
ABOUT, ENDING = "run", "ending"
"""The names of the texts that describe the run and its end."""


def begin(run: TrackedRun) -> "Tensorboard":
    """Start the run's event files, which TensorBoard joins with those of earlier invocations. Raises VlaError."""
    required("tensorboard.summary.writer.event_file_writer", INSTALL)
    return Tensorboard(run)


class Tensorboard:
    """A run in TensorBoard; see `pytest_vla.track.tracker.Tracker`. Files are created with the first episode."""

    def __init__(self, run: TrackedRun) -> None:
        self._run, self._texts = run, dict(run.texts)
        self._writer: Any = None
        self._events = required("tensorboard.compat.proto.event_pb2", INSTALL)
        self._summaries = required("tensorboard.compat.proto.summary_pb2", INSTALL)
        self._text = required("tensorboard.plugins.text.summary_v2", INSTALL).text_pb

    @property
    def kept(self) -> str:
        return self._run.name

    @property
    def place(self) -> str:
        return f"tensorboard --logdir {self._run.folder.parent}"

    def about(self, texts: Mapping[str, str]) -> None:
        self._texts |= texts
        self._add(self._text(ABOUT, _table(self._texts)), 0)

    def episode(self, point: Point) -> None:
        value = self._summaries.Summary.Value
        numbers = [value(tag=name, simple_value=number) for name, number in point.numbers.items()]
        self._add(self._summaries.Summary(value=numbers), point.step)
        for name, text in point.texts.items():
            self._add(self._text(name, text), point.step)
        self._writer.flush()

    def end(self, ending: Ending) -> None:
        if self._writer is None:
            return
        value = self._summaries.Summary.Value
        numbers = [value(tag=name, simple_value=number) for name, number in ending.numbers.items()]
        self._add(self._summaries.Summary(value=numbers), 0)
        self._add(self._text(ENDING, _table(ending.texts)), 0)
        self._writer.close()

    def _add(self, summary: Any, step: int) -> None:
        if self._writer is None:
            module = required("tensorboard.summary.writer.event_file_writer", INSTALL)
            self._writer = module.EventFileWriter(str(self._run.folder))
        self._writer.add_event(self._events.Event(wall_time=time.time(), step=step, summary=summary))


def _table(texts: Mapping[str, str]) -> str:
    """Return texts by name as a Markdown table, which TensorBoard shows."""
    rows = (f"| {name} | {' '.join(text.split()).replace('|', '&#124;')} |" for name, text in texts.items())
    return "\n".join(("| | |", "|---|---|", *rows))
