"""``--vla-max-hours`` and ``--vla-worker-hours``: which episodes come when, and when none is begun any more.

The process that keeps the run says whether an item is begun; workers ask it over their channel, so that one clock goes
for all, also on other machines.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.gate.choices import SEQUENTIAL
from pytest_vla.plan.case import Case, parse_node_id, parse_search_id, usually_of
from pytest_vla.records.record import Record
from pytest_vla.records.runs import BALANCED, ORDER, TimeLimitSample
from pytest_vla.run.command_lines import resume_command
from pytest_vla.run.context import RunContext
from pytest_vla.run.gate import is_gated
from pytest_vla.run.nodes import Collected, episode_node, shared_by
from pytest_vla.run.options import OPTIONS
from pytest_vla.run.settings import Settings
from pytest_vla.scale.order import TimeLimit
from pytest_vla.util.text import counted

if TYPE_CHECKING:
    from pytest_vla.scale.order import Balance, PlannedEpisode

FIRST_TURN = -1
"""Of tests without an episode: they are quick as a rule, and belong to no stratum."""

_LONGEST_HOURS, _FEWEST_SECONDS, _DIGITS = 4, 900, 6

clock: Callable[[], float] = time.monotonic
"""Seconds; tests have their own."""


def make_limit(settings: Settings) -> TimeLimit | None:
    """Return the time limit of this invocation, which starts now, or None if it has none."""
    if settings.model is None or (settings.max_hours is None and settings.worker_hours is None):
        return None
    return TimeLimit(clock(), settings.max_hours, settings.worker_hours)


def is_limited(settings: Settings) -> bool:
    """Whether a time limit is set."""
    return settings.max_hours is not None or settings.worker_hours is not None


def limit_text(limit: TimeLimit, settings: Settings) -> str:
    """Return the option that sets the limit, with its value."""
    name = "worker_hours" if limit.by_work else "max_hours"
    option = next(each for each in OPTIONS if each.attribute == name)
    return f"{option.flag}={hours_text(getattr(settings, name))}"


def hours_text(seconds: float) -> str:
    """Write a time so that `hours_of` can parse it, to six digits, such as ``8``, ``0.5``, ``20m`` or ``90s``."""
    from pytest_vla.run.arguments import plain_number

    # Of 0.0000001 hours the seconds are 0.00035999999999999997.
    seconds = float(f"{seconds:.{_DIGITS}g}")
    hours, minutes = plain_number(seconds / 3600), plain_number(seconds / 60)
    if len(hours) <= _LONGEST_HOURS and seconds >= _FEWEST_SECONDS:
        return hours
    return f"{plain_number(seconds)}s" if "." in minutes else f"{minutes}m"


def is_balanced(context: RunContext) -> bool:
    """Whether episodes run in the balanced order: with a time limit, or if the resumed run began in that order.

    A sequential gate has its own planned order.
    """
    selection, resumption = context.selection, context.resumption
    if is_gated(selection) and selection.settings.gate == SEQUENTIAL:
        return False
    begun_so = resumption is not None and resumption.invocation.get(ORDER) == BALANCED
    return begun_so or (selection.settings.model is not None and is_limited(selection.settings))


def kept_order(context: RunContext) -> dict[str, Any]:
    """Return the run's order for its invocation in the store."""
    return {ORDER: BALANCED} if is_balanced(context) else {}


class BalancedOrder:
    """The balanced order of a run's episodes, the same for each invocation of the run.

    Args:
        episodes: all episodes of the run, by the names under which they are recorded.
        known: the cases of the user's own tests, as far as this invocation has them.
        settings: the settings of the run.
    """

    def __init__(self, episodes: Iterable[str], known: Mapping[str, Case], settings: Settings) -> None:
        from pytest_vla.scale.order import balanced_rounds

        self.planned = planned_of(episodes, known, settings)
        rounds = balanced_rounds(self.planned, settings.run_seed)
        self._places = {
            node: (turn, place)
            for place, (turn, node) in enumerate((turn, node) for turn, some in enumerate(rounds) for node in some)
        }
        self._last = len(rounds)

    def place(self, node: str, name: str | None) -> tuple[int, int]:
        """Return the round of an item and its place within it.

        Args:
            node: the item's id.
            name: the name under which its episode is recorded, or None if it has none.
        """
        if name is not None:
            return self._places.get(name, (self._last, 0))
        # A search takes as long as it takes.
        return (self._last + 1, 0) if parse_search_id(node) else (FIRST_TURN, 0)

    def balance(self, done: Iterable[str]) -> "Balance":
        """Return how evenly the ended episodes cover the run's strata."""
        from pytest_vla.scale.order import balance_of

        return balance_of(self.planned, done)


def planned_of(episodes: Iterable[str], known: Mapping[str, Case], settings: Settings) -> "list[PlannedEpisode]":
    """Return the episodes of a run, for drawing the balanced order.

    A user's own test that an earlier invocation ran is a stratum by its function.
    """
    from pytest_vla.run.sharding import scene_names
    from pytest_vla.scale.order import PlannedEpisode

    cases = {node: parse_node_id(node) or known.get(node) for node in episodes}
    scenes = scene_names([case for case in cases.values() if case is not None], settings.data)
    found = []
    for node, case in cases.items():
        own = "" if parse_node_id(node) else node.partition("[")[0]
        if own or case is None:
            # The same whether this invocation has its case or not.
            found.append(PlannedEpisode(node, own, "", (), 0, own))
        else:
            kind = _kind_of(case, settings.data)
            found.append(PlannedEpisode(node, case.suite, case.task_key, kind, case.seed, scenes[case]))
    return found


def _kind_of(case: Case, data: Path | None) -> tuple[str, ...]:
    """Return dimension, kind and level of a variation; empty for none."""
    from pytest_vla.plan.manifests import load_suite
    from pytest_vla.vary.registry import find_variation, parts_told_apart

    if not case.variation:
        return ()
    dimension, kind, level = parts_told_apart(case.variation)
    if kind:
        return dimension, kind, level
    try:
        # A varied suite's labels are its own.
        tasks = {task.key: task for task in load_suite(case.suite, data=data).tasks}
        found = find_variation(tasks[case.task_key], case.variation, case.seed)
    except (VlaError, KeyError):
        found = None
    if found is None:
        dimension, kind, graded = usually_of(case.variation)
        return dimension, kind, str(graded or "")
    return found.dimension, found.kind, str(found.level or "")


class BeginInTime:
    """The hooks of a process that runs items: an item that would start too late is passed over, without a report.

    Args:
        may_begin: asks the process that keeps the run whether the next item may start.
    """

    def __init__(self, may_begin: Callable[[], bool]) -> None:
        self._may_begin, self._is_over = may_begin, False
        # The episode that was begun last, where several tests share it.
        self._shared: str | None = None

    # Before whoever runs an item several times.
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Pass over an item after the time limit, unless its shared episode has already run in this process."""
        shared = episode_node(item) if shared_by(item) else None
        if shared is not None and shared == self._shared:
            return None
        # What runs behind an item that was passed over would find that one's fixtures.
        self._is_over = self._is_over or not self._may_begin()
        self._shared = None if self._is_over else shared
        return True if self._is_over else None


def longest_known(
    durations: Iterable[tuple[str, str, int, float]], suites: Iterable[str], estimates: Iterable[float]
) -> float:
    """Return the longest expected duration of an episode in seconds, by earlier runs of the policy; 0 if unknown.

    Args:
        durations: the rows of `Store.durations`.
        suites: names of the suites to run.
        estimates: expected seconds of those episodes that were measured.
    """
    wanted = set(suites)
    return max([*(seconds for suite, _, _, seconds in durations if suite in wanted), *estimates], default=0.0)


def sample_of_run(by: str, balance: "Balance", is_whole: bool, workers: int) -> TimeLimitSample:
    """Return the sample that ran before a time limit ended the run.

    Args:
        by: the option with the limit.
        balance: the balance of the episodes that ran.
        is_whole: whether all of it ran in the balanced order.
        workers: the number of processes that ran it.
    """
    about = balance.tasks, balance.strata, round(balance.share, 4), round(balance.off, 2), workers
    return TimeLimitSample(by, balance.done, balance.planned, is_whole, *about)


def time_line(sample: TimeLimitSample, limit: TimeLimit, resume: str, ran: int, by_gate: bool) -> str:
    """Return the line for the end of a run that a time limit ended.

    Args:
        sample: the sample that ran.
        limit: the time limit.
        resume: the command that resumes the run.
        ran: the number of episodes of this invocation.
        by_gate: whether the order was that of a sequential gate.
    """
    from pytest_vla.reports.terminal import duration_text

    planned = counted(sample.planned, "episode")
    if not sample.planned:
        return f"vla: time limit reached ({sample.by}): not all searches were begun; resume with `{resume}`"
    if not ran:
        longest = f", and an episode may take {duration_text(limit.longest)}" if limit.longest else ""
        return (
            f"vla: no episode was run: the time limit ({sample.by}) was reached first: starting took "
            f"{duration_text(limit.took or 0.0)}{longest}; give more time"
        )
    told = f"vla: time limit reached ({sample.by}): {sample.done} of {planned} ran"
    if sample.balanced and sample.is_few:
        told += f", {sample.few_text}: the rate of so short a run can be off by points"
    elif sample.balanced and sample.done < sample.strata:
        told += f", a balanced sample, drawn evenly over {_strata_text(sample)}, some of which have none yet"
    elif sample.balanced:
        each = "its one task" if sample.strata == 1 else f"each of {_strata_text(sample)}"
        told += f", a balanced sample: {each} has {sample.share:.1%} of its episodes, give or take {sample.off:.1f}"
    elif by_gate:
        told += ", in the gate's order"
    else:
        told += ", not a balanced sample: part of it ran in another order"
    return f"{told}; resume with `{resume}`"


def _strata_text(sample: TimeLimitSample) -> str:
    if sample.strata == sample.tasks:
        return counted(sample.tasks, "task")
    return f"{counted(sample.strata, 'task')} under one kind and level of variation"


def in_order(items: Sequence[pytest.Item], order: BalancedOrder, names: Mapping[str, str]) -> list[pytest.Item]:
    """Sort items into the order of a run with a time limit, for one process.

    Args:
        items: in any order.
        order: the order of the run's episodes.
        names: by node id of items with an episode, the name under which it is recorded.
    """
    return sorted(items, key=lambda item: order.place(item.nodeid, names.get(item.nodeid)))


# A run that time may end, where it is kept: its order, what it learns of episodes, and what it says at its end.

_WHOLE = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


class InTime:
    """The time limit and the order of a run, in the process that keeps it. Does nothing if the run has neither."""

    def __init__(self, context: RunContext) -> None:
        self._context, self._so_far = context, context.so_far
        self._settings, self._limit = context.settings, context.limit
        self._order: BalancedOrder | None = None
        self._workers = 1

    @property
    def until(self) -> Callable[[], float] | None:
        """A function that returns the seconds until the time limit, or None if there is no limit."""
        limit = self._limit
        return None if limit is None else lambda: limit.left(clock())

    def begin(self, collected: Collected, workers: int) -> None:
        """Start with the run's items and its number of workers."""
        if is_balanced(self._context):
            self._order = BalancedOrder(self._so_far.episodes, self._so_far.episodes_of(collected), self._settings)
        self._workers = max(workers, 1)
        if self._limit is not None:
            self._limit.share(self._workers)

    def learn(self, record: Record) -> None:
        """Take an ended episode's duration into account: the next ones may take as long."""
        if self._limit is not None and record.outcome != "error":
            self._limit.learn(record.timings.get("wall") or 0.0)

    def places(self, nodes: Sequence[str]) -> dict[str, tuple[int, int]] | None:
        """Return each item's round, and its place there, by node id; None if the run has no such order."""
        if self._order is None:
            return None
        names = self._so_far.episode_names
        return {node: self._order.place(node, names.get(node)) for node in nodes}

    def put_in_order(self, session: pytest.Session) -> None:
        """Sort the session's items, which are run in this order if there are no workers."""
        if self._order is not None:
            session.items[:] = in_order(session.items, self._order, self._so_far.episode_names)

    def has_ended(self, session: pytest.Session) -> bool:
        """Whether only the time limit has ended the run, and neither -x nor Ctrl-C."""
        is_cut = bool(session.shouldstop or session.shouldfail) or session.exitstatus not in _WHOLE
        return self._limit is not None and self._limit.is_up and not is_cut

    def sample(self, is_whole: bool) -> TimeLimitSample:
        """Return the sample of a run that the time limit has ended.

        Args:
            is_whole: whether all of it ran in the balanced order.
        """
        assert self._limit is not None, "it has no limit"
        by, records = limit_text(self._limit, self._settings), self._so_far.tally.records
        order = self._order or BalancedOrder(self._so_far.episodes, {}, self._settings)
        return sample_of_run(by, order.balance(records), is_whole, self._workers)

    def lines(self, sample: TimeLimitSample | None, by_gate: bool) -> tuple[str, ...]:
        """Return the lines for the run's end; none if no time limit ended the run.

        Args:
            sample: the sample that ran.
            by_gate: whether the order was that of a sequential gate.
        """
        if self._limit is None or sample is None:
            return ()
        resume = resume_command(self._context.config, self._context.folder.name)
        return (time_line(sample, self._limit, resume, len(self._so_far.new), by_gate),)
