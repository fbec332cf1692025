"""The progress line of a run: rewritten in place on a terminal, a new line now and then elsewhere."""

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import pytest

from pytest_vla.metrics.rates import VariedOutcome
from pytest_vla.plan.durations import EndedEpisode, ExpectedEpisode, time_left
from pytest_vla.policies.devices import AUTO
from pytest_vla.records.record import Record
from pytest_vla.reports.terminal import progress_line, shortened
from pytest_vla.util.text import printable_lines

LOG_EVERY = 60.0
"""Seconds between two lines where output is no terminal, such as CI's log."""

PREPARING_EVERY = 10.0
"""Seconds between two log lines on one kind of preparation before an episode."""

SHORT_LOAD = 1.0
"""Seconds: a policy that is loaded faster is not announced, except while it loads on a terminal."""

_REDRAW_EVERY = 0.1
_MOST_TIME = 0.05
"""The largest share of this process's time for the line: the rates of many episodes take long."""


class ProgressLine:
    """The progress line. On a terminal it replaces pytest's own dots for episodes.

    Args:
        reporter: pytest's.
        expected: by node id, the episodes with their expected durations.
        workers: number of processes that run them.
        clock: returns seconds, monotonic.
        scarce: returns the bottleneck in a few words; empty if it is not known.
        until: returns the seconds until a time limit ends the run, or None if the run has no limit.
    """

    def __init__(
        self,
        reporter: pytest.TerminalReporter,
        expected: Mapping[str, ExpectedEpisode],
        workers: int = 1,
        clock: Callable[[], float] = time.monotonic,
        scarce: Callable[[], str] = lambda: "",
        until: Callable[[], float] | None = None,
    ) -> None:
        self._reporter, self._to_come, self._workers = reporter, {**expected}, workers
        self._clock, self._scarce, self._until = clock, scarce, until
        self._start = self._shown = clock()
        self._took = 0.0
        self._first_end = math.nan
        # In the order of their ends.
        self._ended: list[EndedEpisode] = []
        # By worker, what it is at before an episode can begin.
        self._preparing: dict[str, str] = {}
        # When each of it was told in the log, and any of its kind.
        self._told: dict[str, float] = {}
        self._line = self._short_line = ""
        # What workers are at is told from other threads.
        self._lock = threading.Lock()
        verbosity = reporter.config.get_verbosity()
        self.in_place = bool(reporter.isatty) and verbosity == 0
        """Whether the line is rewritten, so that pytest's dots have to keep out of it."""
        self._in_log = not self.in_place and verbosity >= 0
        if self.in_place:
            reporter.showfspath = False
            # pytest's percentage would be written into the line; there is no public switch for a running session.
            reporter._show_progress_info = False

    def learn(self, ended: str, record: Record) -> None:
        """Take an ended episode's duration into account: the next ones may take as long.

        Args:
            ended: node id of the episode's item.
            record: the episode's.
        """
        expected, timings = self._to_come.pop(ended, None), record.timings
        self._first_end = self._clock() if math.isnan(self._first_end) else self._first_end
        if expected is None or record.outcome not in ("success", "failure"):
            return
        # With the first episode of a scene its model is compiled.
        seconds = max((timings.get("wall") or 0.0) - (timings.get("reset") or 0.0), 0.0)
        budget = record.protocol.get("max_steps")
        share = record.steps / budget if isinstance(budget, int) and 0 < record.steps <= budget else 1.0
        self._ended.append(EndedEpisode(expected, seconds, seconds / share))

    def show(self, ended: str | None, new: Callable[[], Sequence[VariedOutcome]], done: int, total: int) -> None:
        """Show the line if it is due.

        Args:
            ended: node id of the episode that has just ended, or None when the run begins.
            new: returns the outcomes of this invocation, each episode once.
            done: the number of ended episodes, with those of earlier invocations and with repeats.
            total: the number of the run's episodes, counted the same way.
        """
        now = self._clock()
        last = done >= total
        every = max(_REDRAW_EVERY, self._took / _MOST_TIME) if self.in_place else LOG_EVERY
        if not last and ended is not None and now - self._shown < every:
            return
        # Where there is no line to replace, the table says it all at the end, and the first line said the beginning.
        if not self.in_place and (not self._in_log or last or ended is None):
            return
        elapsed = now - self._start
        ends_in = None if self._until is None else self._until()
        told = (new(), done, total, elapsed, self._left(now), ends_in)
        self._line, self._short_line = progress_line(*told), progress_line(*told, interval=False)
        with self._lock:
            if self.in_place:
                self._redraw()
            else:
                scarce = self._scarce()
                write_apart(self._reporter, f"{self._line}; {scarce}" if scarce else self._line)
        self._shown = self._clock()
        self._took = self._shown - now

    def leave_out(self, nodes: Iterable[str]) -> None:
        """Take episodes that will not run out of the expected time."""
        for node in nodes:
            self._to_come.pop(node, None)

    def prepare(self, worker: str, what: str | None) -> None:
        """Show a preparation before an episode: in the line on a terminal, elsewhere as a line of its own now and then.

        Args:
            worker: the worker that prepares; empty for this process.
            what: the preparation, or None if it has ended.
        """
        with self._lock:
            if what is None:
                self._preparing.pop(worker, None)
            else:
                self._preparing[worker] = what
            if self.in_place:
                self._redraw()
            elif what is not None and self._in_log and what not in self._told:
                # Of scenes there may be hundreds.
                kind, now = what.partition(" of ")[0], self._clock()
                if now - self._told.get(kind, -math.inf) >= PREPARING_EVERY:
                    write_apart(self._reporter, f"vla: {what}")
                    self._told[what] = self._told[kind] = now

    def _redraw(self) -> None:
        width = self._reporter._tw.fullwidth - 1
        beside = "".join(f"; {what}" for what in dict.fromkeys(self._preparing.values()))[:width]
        room = width - len(beside)
        line, all_of_it = self._line, self._scarce()
        scarce = shortened(all_of_it, room - len(line) - 2)
        if all_of_it and not scarce:
            # Of 80 columns the interval leaves no room for it, and stands in the table at the end.
            line, scarce = self._short_line, shortened(all_of_it, room - len(self._short_line) - 2)
        if scarce:
            beside = f"; {scarce}{beside}"
        self._reporter.rewrite(line[:room] + beside, erase=True)
        # Whatever else is written begins on a line of its own.
        self._reporter.currentfspath = -2
        self._reporter.flush()

    def _left(self, now: float) -> float | None:
        return time_left([*self._to_come.values()], self._ended, self._workers, now - self._first_end)


def write_apart(reporter: pytest.TerminalReporter, line: str, **markup: bool) -> None:
    """Write a line of its own, wherever pytest is in its line of dots."""
    # With workers, pytest does not know that dots stand in the line.
    if not reporter.currentfspath and reporter._tw.width_of_current_line:
        reporter.line("")
    reporter.write_line(printable_lines(line), **markup)


# The line that tells that a policy is being loaded: rewritten in place on a terminal, elsewhere written once.


class LoadingLine:
    """A line that shows that a policy is being loaded; silent with ``-q``.

    Args:
        config: pytest's.
        model: the policy's name.
        devices: the devices onto which it is loaded.
    """

    def __init__(self, config: pytest.Config, model: str, devices: Sequence[str] = (AUTO,)) -> None:
        self._reporter = config.pluginmanager.getplugin("terminalreporter")
        if config.get_verbosity() < 0:
            self._reporter = None
        where = "" if AUTO in devices else f" on {', '.join(devices)}"
        self._what, self._began, self._shown = f"{model}{where}", time.monotonic(), False

    def tell(self, seconds: float) -> None:
        """Show for how many seconds the policy has been loading."""
        if self._reporter is None:
            return
        if self._reporter.isatty:
            self._reporter.rewrite(f"vla: loading {self._what}: {seconds:.0f} s", erase=True)
            self._reporter.flush()
        elif seconds < SHORT_LOAD:
            return
        elif not self._shown:
            self._reporter.write_line(f"vla: loading {self._what}")
        self._shown = True

    def end(self) -> None:
        """Show that the policy is loaded, unless it was quick."""
        if self._reporter is None:
            return
        self.drop()
        seconds = time.monotonic() - self._began
        if seconds >= SHORT_LOAD:
            self._reporter.write_line(f"vla: loaded {self._what} in {seconds:.1f} s")

    def drop(self) -> None:
        """Clear the line."""
        if self._reporter is not None and self._shown and self._reporter.isatty:
            self._reporter.rewrite("", erase=True)
