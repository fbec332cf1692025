"""The text logs of the LIBERO scripts of openpi, OpenVLA, OpenVLA-OFT and GR00T N1.5, read as values.

All four print the same lines for an episode, in this order, with or without a logging prefix::

    Task: TEXT
    Starting episode N...
    Success: True
    # episodes completed so far: N
    # successes: N (P%)

and after a task's last episode ``Current task success rate: X`` and ``Current total success rate: X``. Numbers of
completed episodes and successes run on through all tasks of a suite, so that every line can be checked by the others.
Facts from openpi ``examples/libero/main.py`` (15a9616), openvla and openvla-oft
``experiments/robot/libero/run_libero_eval.py`` and Isaac-GR00T ``examples/Libero/eval/run_libero_eval.py`` (15166e3).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

from pytest_vla.errors import VlaError
from pytest_vla.util.text import printable

OPENPI, OPENVLA, OFT, GROOT = TEXT_EVALUATORS = ("openpi", "openvla", "openvla-oft", "groot-n1.5")
"""The evaluators whose scripts write such logs."""


@dataclass(frozen=True)
class TextEpisode:
    """An episode of a text log.

    Attributes:
        number: of the task's episodes, from 1: it began from init state ``number - 1``.
        succeeded: whether the script counted a success.
        error: the exception that ended it, or an empty text; robosuite's own after its last step is none.
        line: where its result is.
    """

    number: int
    succeeded: bool
    error: str
    line: int


@dataclass(frozen=True)
class TaskEpisodes:
    """The episodes of one task, in their order: its instruction, and the line of its first ``Task:``."""

    text: str
    line: int
    episodes: tuple[TextEpisode, ...]


@dataclass(frozen=True)
class TextSection:
    """The part of a log for one suite.

    Attributes:
        suite: its name by ``Task suite:``, or an empty text if the log does not say it.
        line: where it begins.
        tasks: its tasks, in their order.
        earlier: the numbers of episodes and of their successes before the first one in the log, by its counts.
        has_totals: whether it ends with the totals that openpi's and OFT's scripts print.
        open: what the log breaks off in, with the line, or an empty text if its last task is complete.
    """

    suite: str
    line: int
    tasks: tuple[TaskEpisodes, ...]
    earlier: tuple[int, int]
    has_totals: bool
    open: str


@dataclass(frozen=True)
class TaskRate:
    """A task's success rate in a log without episodes.

    Attributes:
        text: the task's instruction, or an empty text if the log does not say it.
        rate: as it is printed, 0..1.
        total: the success rate of all tasks so far, as it is printed, or an empty text.
        line: where it is.
    """

    text: str
    rate: str
    total: str
    line: int


@dataclass(frozen=True)
class RateSection:
    """The part of a log without episodes for one suite.

    Attributes:
        suite: its name by ``Task suite:``, or an empty text if the log does not say it.
        rates: by task, in their order.
        episodes: the number of episodes of all tasks, or 0 if the log does not say it.
    """

    suite: str
    rates: tuple[TaskRate, ...]
    episodes: int


@dataclass(frozen=True)
class TextLog:
    """A text log.

    Attributes:
        sections: a part for each suite, in their order.
        evaluators: those that could have written it, in the order of `TEXT_EVALUATORS`; empty if its lines contradict
            each other.
        clues: the texts that tell them apart, each with its line.
        rates: of a log that has no line of an episode, its tasks' rates by suite.
    """

    sections: tuple[TextSection, ...]
    evaluators: tuple[str, ...]
    clues: tuple[str, ...]
    rates: tuple[RateSection, ...] = ()


_KEYS = (
    *("Task suite: ", "Task: ", "Starting episode ", "Success: ", "# episodes completed so far: ", "# successes: "),
    *("Current task success rate: ", "Current total success rate: ", "Total success rate: ", "Total episodes: "),
    *("Total successes: ", "Overall success rate: ", "Final results:", "Caught exception: ", "Episode error: "),
    *("Saved rollout MP4 at path ", "Using initial states from ", "Using default initial states"),
    *("Logging to local log file: ",),
)
_KEY = re.compile("|".join(map(re.escape, _KEYS)))
_RATE = r"(\d(?:\.\d{1,30})?)"
_VALUES: Mapping[str, str] = {
    "Task suite: ": r"(\S{1,100})",
    "Task: ": r"(\S.{0,999})",
    "Starting episode ": r"(\d{1,7})\.\.\.",
    "Success: ": r"(True|False)",
    "# episodes completed so far: ": r"(\d{1,7})",
    "# successes: ": r"(\d{1,7}) \((\d{1,3}(?:\.\d{1,30})?)%\)",
    "Current task success rate: ": _RATE,
    "Current total success rate: ": _RATE,
    "Total success rate: ": _RATE,
    "Total episodes: ": r"(\d{1,7})",
    "Total successes: ": r"(\d{1,7})",
    "Overall success rate: ": rf"{_RATE} \((\d{{1,3}}(?:\.\d{{1,30}})?)%\)",
}

_OF_EPISODE = ("Starting episode ", "Success: ", "# episodes completed so far: ", "# successes: ")

# A terminal's colours and titles, and tqdm's bars, also those whose beginning was cut off.
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_BAR = re.compile(r"(?:\d{1,3}%\|[^|\n]*|[\u2588-\u258f][\u2588-\u258f ]*)\|\s*\d+/(?:\d+|\?)\s*\[[^\]\n]*\]")
_BLOCKS = dict.fromkeys(range(0x2588, 0x2590))
# rich puts the source's place at the right.
_PLACE = re.compile(r"\s+\S+\.py:\d+$")
# robosuite's exception after 1,000 steps, settling included. GR00T's script has 1,010 for libero_10, so that
# failures end by it: the episode had all of its time, and is no error.
_OUT_OF_TIME = "executing action in terminated episode"
# As tqdm prints it beside a bar, or wandb before a line.
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")

# By a line's key and a pattern in it: the scripts that write it.
_CLUES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Total success rate: ", "", (OPENPI,)),
    *((key, "", (OFT,)) for key in ("Final results:", "Total successes: ", "Overall success rate: ")),
    *((key, "", (OFT,)) for key in ("Episode error: ", "Using default initial states", "Using initial states from ")),
    ("Caught exception: ", "", (OPENPI, OPENVLA, GROOT)),
    ("Logging to local log file: ", "", (OPENVLA, OFT)),
    ("Saved rollout MP4 at path ", "--openvla_oft--", (OFT,)),
    ("Saved rollout MP4 at path ", "(?<!openvla_oft)--episode=", (OPENVLA, GROOT)),
)


@dataclass(frozen=True)
class _Event:
    line: int
    key: str
    value: str
    prefix: str

    @property
    def text(self) -> str:
        return f"{self.key}{self.value}".strip()


def is_text_log(text: str) -> bool:
    """Whether a text has lines of such a log."""
    keys = {event.key for event in _events(text)}
    return bool(keys & {"# successes: ", "Current task success rate: "}) or {"Task: ", "Starting episode "} <= keys


def parse_text_log(text: str, path: Path) -> TextLog:
    """Parse a log. Raises VlaError with the line where it contradicts itself, or has lines missing or twice."""
    reader, events = _Reader(path), [*_events(text)]
    rates = () if any(event.key in _OF_EPISODE for event in events) else tuple(_rates(events))
    for event in events:
        reader.read(event, has_rates=bool(rates))
    return replace(reader.finish(), rates=rates)


def _rates(events: Iterable[_Event]) -> Iterator[RateSection]:
    """Yield the tasks' rates of a log that has no line of an episode, such as what a search for "rate" leaves."""
    suite, text, episodes = "", "", 0
    found: list[TaskRate] = []
    for event in events:
        value = event.value.strip()
        if event.key == "Task suite: ":
            if found:
                yield RateSection(suite, tuple(found), episodes)
            suite, text, episodes, found = value, "", 0, []
        elif event.key == "Task: ":
            text = value
        elif event.key == "Current task success rate: ":
            found.append(TaskRate(text, value, "", event.line))
            text = ""
        elif event.key == "Current total success rate: " and found:
            found[-1] = replace(found[-1], total=value)
        elif event.key == "Total episodes: ":
            episodes = int(value) if value.isdecimal() else 0
    if found:
        yield RateSection(suite, tuple(found), episodes)


def _events(text: str) -> Iterator[_Event]:
    """Yield the lines that mean something, without what terminals, bars and loggers add."""
    plain = _BAR.sub("", _ESCAPE.sub("", text.replace("\r", ""))).translate(_BLOCKS)
    for number, line in enumerate(plain.split("\n"), 1):
        for found in _KEY.finditer(line):
            if _is_prefix(prefix := line[: found.start()]):
                yield _Event(number, found[0], _PLACE.sub("", line[found.end() :].rstrip()), prefix.strip())
                break


def _is_prefix(text: str) -> bool:
    """Whether a logger may have put a text before a line, which "Current" of "Current Task: 3" is not."""
    last = text.split()[-1:]
    return not last or last[0] in _LEVELS or not last[0][-1].isalpha()


def is_rate(text: str, successes: int, n: int, scale: int = 1) -> bool:
    """Whether a printed number is the rate, rounded to as many digits as it has."""
    digits = len(text.partition(".")[2])
    return abs(float(text) - scale * successes / n) <= 0.5 * 10.0**-digits + 1e-9


@dataclass
class _Reader:
    """What is known after the lines so far."""

    path: Path
    sections: list[TextSection] = field(default_factory=list)
    clues: dict[str, tuple[tuple[str, ...], int]] = field(default_factory=dict)
    suite: str = ""
    first_line: int = 1
    tasks: list[tuple[str, int, list[TextEpisode]]] = field(default_factory=list)
    earlier: tuple[int, int] | None = None
    completed: int | None = None
    successes: int | None = None
    has_task_rate: bool = False
    is_closed: bool = True  # Whether the last task's episodes are all there.
    has_totals: bool = False
    # Of the episode that is being read.
    task: tuple[str, int] | None = None
    started: tuple[int, int] | None = None
    error: str = ""
    result: tuple[bool, int] | None = None
    has_count: bool = False

    def read(self, event: _Event, *, has_rates: bool = False) -> None:
        """Read a line; of a log with nothing but rates, only what tells the evaluators apart, and its form."""
        self._note(event)
        pattern = _VALUES.get(event.key)
        found = re.fullmatch(pattern, event.value) if pattern else None
        if pattern and found is None:
            self._refuse(event.line, f"{event.text[:100]!r} is cut off or changed: it is not as the scripts write it")
        handle = _HANDLERS.get(event.key)
        if handle is not None and not has_rates:
            handle(self, event.line, *(found.groups() if found else (event.value,)))

    def finish(self) -> TextLog:
        self._close_section()
        evaluators = set(TEXT_EVALUATORS).intersection(*(names for names, _ in self.clues.values()))
        return TextLog(
            tuple(each for each in self.sections if each.tasks or each.earlier[0]),
            tuple(name for name in TEXT_EVALUATORS if name in evaluators),
            tuple(f"{what!r} (line {line})" for what, (_, line) in self.clues.items()),
        )

    def on_suite(self, line: int, name: str) -> None:
        self._close_section()
        self.suite, self.first_line = name, line
        self.completed = self.successes = 0

    def on_task(self, line: int, text: str) -> None:
        if self.task is not None and self.started is None and self.result is None:
            self._refuse(line, f"'Task: {text}' follows line {self.task[1]} at once: lines are doubled or missing")
        if self.started is not None:
            self._refuse(line, f"{self._open()} has no result")
        self.task = (text, line)

    def on_start(self, line: int, number: str) -> None:
        if self.task is None:
            if not self._is_head():
                self._refuse(line, f"episode {number} has no 'Task:' before it: lines are missing or doubled")
            return
        if self.started is not None:
            self._refuse(line, f"episode {number} starts within {self._open()}: lines are doubled or missing")
        self.started = (int(number), line)
        if int(number) < 1:
            self._refuse(line, "episodes count from 1")

    def on_error(self, line: int, text: str) -> None:
        if self.started is not None:
            self.error = text.strip() or "an exception"

    def on_result(self, line: int, text: str) -> None:
        if self.started is None:
            if not self._is_head():
                self._refuse(line, "'Success:' without 'Starting episode N...' before it: lines are missing or doubled")
            return
        if self.result is not None:
            self._refuse(line, f"{self._open()} has two results (line {self.result[1]}): lines are doubled or missing")
        if self.error and text == "True":
            self._refuse(line, f"{self._open()} is a success and ended by an exception")
        self.result = (text == "True", line)

    def on_completed(self, line: int, text: str) -> None:
        number = int(text)
        if (self.result is None and not self._is_head()) or self.has_count:
            self._refuse(line, f"'# episodes completed so far: {number}' has no 'Success:' before it")
        if number == 1 and self.completed and self.started is not None and self.started[0] == 1:
            # The script was started again, for another suite, and its first lines were filtered out.
            self._close_section(keep=True)
            self.first_line = self.task[1] if self.task else line
        if number < 1 or (self.completed is not None and number != self.completed + 1):
            self._refuse(line, f"{number} episodes are completed, after {self.completed}: lines are missing or doubled")
        self.completed, self.has_count = number, True

    def on_successes(self, line: int, text: str, percent: str) -> None:
        number = int(text)
        if not self.has_count or self.completed is None:
            if self._is_head() and self.completed is None:
                return
            self._refuse(line, "'# successes:' has no '# episodes completed so far:' before it")
        if number > self.completed or not is_rate(percent, number, self.completed, 100):
            self._refuse(line, f"{number} successes of {self.completed} episodes are not {percent}%")
        before = number - (self.result is not None and self.result[0])
        if self.successes is not None and self.result is not None and before != self.successes:
            told = "success" if number > before else "failure"
            told = f"'# successes' is {number}, after {self.successes} and a {told}"
            self._refuse(line, f"{told}: the counts do not add up")
        if self.result is None:
            if self.successes is not None and not 0 <= number - self.successes <= 1:
                self._refuse(line, f"'# successes' is {number}, after {self.successes}: the counts do not add up")
            self.earlier = (self.completed, number)
        elif self.successes is None:
            self.earlier = (self.completed - 1, before)
        if self.earlier is not None and not 0 <= self.earlier[1] <= self.earlier[0]:
            self._refuse(line, f"{number} successes of {self.completed} episodes: the counts do not add up")
        self.successes, self.has_count = number, False
        if self.result is not None:
            self._add(line)

    def on_task_rate(self, line: int, rate: str) -> None:
        self._between(line, "Current task success rate")
        if not self.tasks:
            return
        if self.is_closed or self.has_task_rate:
            self._refuse(line, "'Current task success rate' is there twice for a task")
        text, _, episodes = self.tasks[-1]
        n, seen = episodes[-1].number, sum(each.succeeded for each in episodes)
        # With the first episodes cut off, some number of successes among them has to give the rate.
        all_of_task = min(max(round(float(rate) * n), seen), seen + n - len(episodes))
        if not is_rate(rate, all_of_task, n):
            self._refuse(line, f"{seen} successes of {n} episodes of {text!r} are no success rate of {rate}")
        self.has_task_rate = True

    def on_total_rate(self, line: int, rate: str, percent: str = "") -> None:
        if not self.completed or self.successes is None:
            return
        self._between(line, "a total success rate")
        told = f"{self.successes} successes of {self.completed} episodes are no success rate of"
        if not is_rate(rate, self.successes, self.completed):
            self._refuse(line, f"{told} {rate}")
        if percent and not is_rate(percent, self.successes, self.completed, 100):
            self._refuse(line, f"{told} {percent}%")

    def on_current_rate(self, line: int, rate: str) -> None:
        self.on_total_rate(line, rate)
        if self.tasks and not self.is_closed and not self.has_task_rate:
            self._refuse(line, "'Current total success rate' without 'Current task success rate' before it")
        self.is_closed, self.has_task_rate = True, False

    def on_final_rate(self, line: int, rate: str, percent: str = "") -> None:
        self.on_total_rate(line, rate, percent)
        self.has_totals = True

    def on_episodes(self, line: int, number: str) -> None:
        if self.completed not in (None, int(number)):
            self._refuse(line, f"{number} episodes in total, {self.completed} were completed")

    def on_all_successes(self, line: int, number: str) -> None:
        if self.successes not in (None, int(number)):
            self._refuse(line, f"{number} successes in total, {self.successes} were counted")

    def on_own_init_states(self, line: int, text: str) -> None:
        if text.strip() != "DEFAULT":
            self._refuse(
                line,
                f"init states are from {text.strip()[:100]}, and not LIBERO's: nobody can say which state an episode "
                "began from",
            )

    def _add(self, line: int) -> None:
        assert self.task is not None
        assert self.started is not None
        assert self.result is not None
        text, first = self.task
        number, _ = self.started
        last = self.tasks[-1] if self.tasks else None
        goes_on = last is not None and last[0] == text and last[2][-1].number + 1 == number and not self.is_closed
        if last is not None and not goes_on:
            if number != 1:
                told = f"episode {last[2][-1].number} of {last[0]!r}"
                self._refuse(line, f"episode {number} of {text!r} follows {told}: lines are missing or doubled")
            if not self.is_closed:
                self._refuse(line, f"{last[0]!r} has no 'Current task success rate' before the next task")
        if not goes_on:
            self.tasks.append((text, first, []))
        error = "" if self.error == _OUT_OF_TIME else self.error
        self.tasks[-1][2].append(TextEpisode(number, self.result[0], error, self.result[1]))
        self.task = self.started = self.result = None
        self.error, self.is_closed, self.has_task_rate = "", False, False

    def _is_head(self) -> bool:
        """Whether the lines are before the first task, as in a file whose beginning was cut off."""
        return not (self.suite or self.task or self.tasks)

    def _between(self, line: int, what: str) -> None:
        if self.started is not None or self.has_count:
            self._refuse(line, f"{what} stands within {self._open()}: lines are missing")

    def _open(self) -> str:
        text, number = self.task or ("?", 0), self.started or (0, 0)
        return f"episode {number[0]} of {text[0]!r} (line {number[1] or text[1]})"

    def _close_section(self, keep: bool = False) -> None:
        """End a suite's part; with `keep` the episode that is being read belongs to the next one."""
        broken = ""
        if not keep and (self.task is not None or self.has_count):
            broken = self._open() if self.started else f"'Task:' (line {self.task[1] if self.task else '?'})"
        elif not self.is_closed:
            text, _, episodes = self.tasks[-1]
            broken = f"{text!r}, after episode {episodes[-1].number} (line {episodes[-1].line})"
        self.sections.append(
            TextSection(
                self.suite,
                self.first_line,
                tuple(TaskEpisodes(text, first, tuple(some)) for text, first, some in self.tasks),
                self.earlier or (0, 0),
                self.has_totals,
                broken,
            )
        )
        self.suite, self.tasks, self.earlier = "", [], None
        self.completed = self.successes = None
        self.is_closed, self.has_task_rate, self.has_totals = True, False, False
        if not keep:
            self.task = self.started = self.result = None
            self.error, self.has_count = "", False

    def _note(self, event: _Event) -> None:
        """Note what tells the evaluators apart."""
        for key, part, names in _CLUES:
            if key == event.key and (found := re.search(part, event.value)):
                self.clues.setdefault(found[0] or key.strip(" :"), (names, event.line))
        if event.prefix.endswith("INFO:root:"):
            self.clues.setdefault("INFO:root:", ((OPENPI,), event.line))

    def _refuse(self, line: int, what: str) -> NoReturn:
        raise VlaError(f"{self.path}, line {line}: {printable(what)}")


_HANDLERS: Mapping[str, Callable[..., None]] = {
    "Task suite: ": _Reader.on_suite,
    "Task: ": _Reader.on_task,
    "Starting episode ": _Reader.on_start,
    "Caught exception: ": _Reader.on_error,
    "Episode error: ": _Reader.on_error,
    "Success: ": _Reader.on_result,
    "# episodes completed so far: ": _Reader.on_completed,
    "# successes: ": _Reader.on_successes,
    "Current task success rate: ": _Reader.on_task_rate,
    "Current total success rate: ": _Reader.on_current_rate,
    "Total success rate: ": _Reader.on_final_rate,
    "Overall success rate: ": _Reader.on_final_rate,
    "Total episodes: ": _Reader.on_episodes,
    "Total successes: ": _Reader.on_all_successes,
    "Using initial states from ": _Reader.on_own_init_states,
}
