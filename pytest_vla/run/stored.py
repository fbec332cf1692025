"""A run in the store, from its first item to its end."""

import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import CRASHED, EXITED, VlaError, is_of_policy
from pytest_vla.plan.case import Case
from pytest_vla.plan.manifests import suite_names
from pytest_vla.records.counting import is_complete, retries, within_runs
from pytest_vla.records.items import DECIDED, RunItem
from pytest_vla.records.record import Record
from pytest_vla.records.runs import BALANCED, ORDER, SAMPLE, TimeLimitSample, running_file, sample_table
from pytest_vla.records.tally import Repetition, RunTally
from pytest_vla.run.command_lines import resume_command
from pytest_vla.run.context import RunContext
from pytest_vla.run.failures import FAILED, watch_exit
from pytest_vla.run.nodes import Collected
from pytest_vla.run.resume import invocation_of, picking_option
from pytest_vla.run.sharding import planned_items, step_budgets
from pytest_vla.run.time_budget import longest_known

if TYPE_CHECKING:
    from pytest_vla.plan.durations import DurationEstimate, ExpectedEpisode
    from pytest_vla.records.store import Store, Writer
    from pytest_vla.serving.process import About


_EXIT_LOCK_SECONDS = 1.0

_MOST_INTERRUPTED = 0.1
"""The share of a run's episodes that interrupts may meet before the policy is suspected."""

INTERRUPTS = "interrupts"
"""The key of a run's invocation for the episodes that ran at each interrupt."""

KILLED = "killed"
"""The key of a run's invocation for the episodes in which pytest's own process was killed, in order."""


@dataclass(frozen=True)
class Closed:
    """A run in the store, at the end of this invocation.

    Attributes:
        items: all items of the run; none if no episode ran.
        repetition: the episodes of the run that do not count.
        sample: the sample that ran before a time limit, or None if no time limit ended the run.
    """

    items: tuple[RunItem, ...] = ()
    repetition: Repetition = field(default_factory=Repetition)
    sample: TimeLimitSample | None = None


class StoredRun:
    """The run of this invocation in the store. Nothing is written before the first episode is known.

    All read and write errors are raised as VlaError.

    Args:
        context: the context of this process, which keeps the run.
    """

    def __init__(self, context: RunContext) -> None:
        self._context, self._so_far = context, context.so_far
        self._settings, self._run, self._resumption = context.settings, context.folder, context.resumption
        self._store: Store | None = None
        self._cases: Mapping[str, Case] = {}
        self._writer: Writer | None = None
        # How items ended that is not handed to the writer yet, and that is.
        self._statuses: dict[str, str] = {}
        self._handed: dict[str, str] = {}
        self._running = running_file(self._run)
        self.closed = Closed()
        self.ended_before = 0
        """How many records the run has of earlier invocations."""

    @property
    def is_open(self) -> bool:
        """Whether the run has begun and not ended."""
        return self._store is not None

    def begin(self, collected: Collected, agreed: Mapping[str, Any], workers: int) -> None:
        """Store a new run, or resume a stored one; `RunState` then knows its episodes and their expected durations.

        Args:
            collected: the items of this invocation.
            agreed: further tables for a new run's invocation.
            workers: the number of processes that run the items.
        """
        from pytest_vla.records.store import Writer, open_store

        so_far, self._cases = self._so_far, collected.cases
        self._store = store = open_store(self._settings.results, create=True)
        # A policy in this process may fork it, which is no matter for threads.
        self._writer = Writer(store, self._run.name, in_groups=workers > 1)
        self._unwatch = watch_exit(self._exited)
        self._enter(store, collected, agreed)
        so_far.episodes = frozenset(item.node for item in store.items(self._run.name) if item.episode)
        alone = collected.alone
        so_far.estimates = dict(zip(alone, self._estimated(tuple(alone.values()), store), strict=True))
        if (limit := self._context.limit) is not None:
            told = (each.seconds for each in so_far.estimates.values() if each.measured)
            suites = (case.suite for case in alone.values())
            limit.learn(longest_known(store.durations(str(self._settings.model)), suites, told))

    def write_record(self, record: Record, *, at_once: bool = False) -> None:
        """Write a record into the store, unless the run has ended.

        Args:
            record: the record of an episode that has ended.
            at_once: whether it has to be on the disk when this returns, however fast records come; see `Writer`.
        """
        if self._writer is not None:
            self._writer.put([record], at_once=at_once)

    def write_status(self, name: str, status: str) -> None:
        """Write an item's status; delayed for tests without episodes, which can be many and quick."""
        self._statuses[name] = status
        if name in self._so_far.episodes or name in self._so_far.shared:
            self._write_statuses()

    def settle(self) -> None:
        """Wait until all records are on the disk; `end` reports an error."""
        if self._writer is not None:
            self._writer.settle()

    def end(self, without_policy: bool, sample: Callable[[bool], TimeLimitSample] | None = None) -> None:
        """End the run and set `closed`. A run in which nothing ran is removed from the store.

        Args:
            without_policy: whether the policy could not be loaded, or did not fit.
            sample: returns the sample of a run that a time limit ended, given whether all of it ran in the balanced
                order; None if no time limit ended the run.
        """
        store, writer, self._store = self._store, self._writer, None
        if store is None or writer is None:
            return
        self._unwatch()
        self.mark_running(None)
        try:
            self._write_statuses()
            self._writer = None
            writer.close()
            items = store.items(self._run.name)
            nothing_left = without_policy or not any(item.is_left for item in items)
            # Searches alone, which are begun anew; one that was stopped is gone on with.
            nothing_left |= not any(item.episode for item in items) and all(item.status for item in items)
            if nothing_left and not self._so_far.tally.records and self._resumption is None:
                # Such as a policy that could not be loaded, or --setup-plan: there is nothing to go on with.
                store.discard(self._run.name)
                return
            # Also where what comes next cannot be read.
            self.closed = Closed(items)
            self.closed = Closed(items, self._repetition(store))
            if sample is not None and any(item.status is None for item in items):
                found = sample(store.run(self._run.name).invocation.get(ORDER) == BALANCED)
                store.set_in_invocation(self._run.name, SAMPLE, sample_table(found))
                self.closed = replace(self.closed, sample=found)
            store.end(self._run.name, "finished" if all(item.status for item in items) else "stopped")
        finally:
            store.close()

    def _enter(self, store: "Store", collected: Collected, agreed: Mapping[str, Any]) -> None:
        settings, so_far, given = self._settings, self._so_far, self._context.config.invocation_params
        episodes, others, shared = planned_items(collected)
        if self._resumption is None:
            store.begin(
                self._run.name,
                episodes,
                command=shlex.join(["pytest", *map(str, given.args)]),
                model=str(settings.model),
                invocation=invocation_of(settings, self._context.arguments, given.dir) | dict(agreed),
                others=others,
                shared=shared,
                picked=picking_option(self._context.config, collected.nodes, settings.results),
            )
            return
        store.resume(self._run.name)
        # Whatever ends it now says anew what it is.
        store.set_in_invocation(self._run.name, SAMPLE, None)
        self.ended_before = len(store.episodes(self._run.name))
        statuses = {item.node: item.status for item in store.items(self._run.name)}
        so_far.skipped = {node for node, status in statuses.items() if status == DECIDED}
        kept = ((record, statuses.get(record.node)) for record in store.records(self._run.name))
        so_far.resume(kept, episodes, self._retried(store))
        for node in self._killed(store):
            so_far.lose(node)
        so_far.interrupt(self._interrupts(store), len(statuses))

    def mark_running(self, node: str | None) -> None:
        """Leave an episode of this process in a file while it runs (None: none does), whatever kills the process."""
        with suppress(OSError):
            if node is None:
                self._running.unlink(missing_ok=True)
            elif self.is_open and node in self._cases:
                self._running.write_text(self._so_far.recorded_as(node), errors="replace")

    def note_interrupt(self, nodes: Iterable[str]) -> None:
        """Note the episodes that ran when the run was interrupted, by the node ids of their items."""
        running = [self._so_far.recorded_as(node) for node in nodes if node in self._cases]
        if running and self._store is not None:
            self._store.set_in_invocation(self._run.name, INTERRUPTS, [*self._interrupts(self._store), running])

    def _interrupts(self, store: "Store") -> list[list[str]]:
        """Return, for each interrupt of this run, the episodes that ran then."""
        known = store.run(self._run.name).invocation.get(INTERRUPTS)
        return (
            [[str(node) for node in nodes] for nodes in known if isinstance(nodes, list)]
            if isinstance(known, list)
            else []
        )

    def _killed(self, store: "Store") -> Iterator[str]:
        """Yield the episodes in which this run's process was killed, in order, and forget the last one's file."""
        known = store.run(self._run.name).invocation.get(KILLED)
        killed = [str(node) for node in known] if isinstance(known, list) else []
        with suppress(OSError):
            killed.append(self._running.read_text(errors="replace"))
            store.set_in_invocation(self._run.name, KILLED, killed)
            self._running.unlink()
        yield from killed

    def _estimated(self, cases: Sequence[Case], store: "Store") -> "tuple[DurationEstimate, ...]":
        from pytest_vla.plan.durations import estimate

        settings = self._settings
        measured = store.durations(str(settings.model))
        budgets = step_budgets({case.suite for case in cases}, settings)
        # The times of other suites count if one of these was never measured. What was measured once may be gone, or may
        # not load here.
        known = {suite for suite, *_ in measured}
        for suite in known.intersection(suite_names()) if budgets.keys() - known else ():
            with suppress(VlaError):
                budgets |= step_budgets((suite,), settings)
        return estimate(cases, measured, budgets)

    def _repetition(self, store: "Store") -> Repetition:
        run = store.run(self._run.name)
        mended, picked = frozenset(self._so_far.tally.mended), run.picked is not None
        retried = set(self._so_far.tally.retried)
        if picked or any("::" in argument for argument in self._context.arguments):
            # Selected by an earlier outcome, or one by one: another run's error of the policy's counts as one of this.
            retried |= {node for node, reason, tries in store.errors_elsewhere(run.name) if is_of_policy(reason, tries)}
        return Repetition(
            run.repeats,
            mended,
            run.picked,
            store.earlier(run.name) if picked else (),
            (0, 0) if picked else store.before(run.name),
            frozenset(retried),
        )

    def _retried(self, store: "Store") -> Iterator[str]:
        name = self._run.name
        if len(store.episodes(name)) == sum(item.outcome is not None for item in store.items(name)):
            # Nothing ran again: thousands of records need not be read.
            return
        records = tuple(store.attempts(name))
        yield from (records[index].node for index in retries(records, within_runs(records)))

    def _write_statuses(self) -> None:
        if self._writer is None:
            return
        # Most endings are known after the call, and once more after the teardown.
        new = [each for each in self._statuses.items() if self._handed.get(each[0]) != each[1]]
        self._handed |= self._statuses
        self._statuses.clear()
        self._writer.put(new)

    def _exited(self, code: int, place: str) -> None:
        """Store the run's end after `os._exit` was called during the run, in any thread.

        The episode that it was called in is an error: a policy must not gain by exiting where it would fail.
        """
        from pytest_vla.records.store import Writer, open_store

        code, resume = code if code % 256 else FAILED, resume_command(self._context.config, self._run.name)
        told = (
            f"\npytest-vla: os._exit was called at {place} while {self._so_far.left} of {len(self._so_far.episodes)} "
            f"episodes were not run: pytest ends with code {code}; resume with `{resume}`\n"
        )
        with suppress(OSError):
            os.write(self._context.stderr, told.encode(errors="replace"))
        self.mark_running(None)
        if self._writer is not None:
            self._writer.settle(_EXIT_LOCK_SECONDS)
        node = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
        case, name = self._cases.get(node), self._so_far.recorded_as(node)
        # A connection belongs to its thread.
        with suppress(VlaError), open_store(self._run.parent, create=False, timeout=_EXIT_LOCK_SECONDS) as store:
            if case is not None and not self._so_far.has_ended(node):
                # Whatever cannot be written, the process has to end.
                with suppress(Exception):
                    lost = lost_record(self._context, case, name, EXITED, f"os._exit was called at {place}")
                    Writer(store, self._run.name, in_groups=False).put([lost])
            store.end(self._run.name, "stopped")


def lost_record(
    context: RunContext,
    case: Case,
    node: str,
    reason: str,
    message: str,
    about: "About | None" = None,
    worker: str = "",
) -> Record:
    """Return the record of an episode whose process is gone, an error.

    Args:
        context: the run's.
        case: of the episode.
        node: as it is recorded.
        reason: of the error.
        message: the reason in words.
        about: the policy's description of itself, if it is known.
        worker: the process that ran it.

    Raises:
        VlaError: the case cannot be had any more.
    """
    from pytest_vla.episode.rollout import Conditions, lost_episode
    from pytest_vla.plan.choices import NO_LATENCY
    from pytest_vla.run.selection import task_of
    from pytest_vla.vary.registry import find_variation

    settings = context.settings
    conditions = Conditions(
        str(settings.model),
        about.digest if about else None,
        replan=settings.replan or (about.replan if about else None),
        run_seed=settings.run_seed,
        realtime=settings.latency or NO_LATENCY,
        run=context.folder.name,
        worker=worker,
    )
    task = task_of(case, settings)
    variation = find_variation(task, case.variation, case.seed)
    return lost_episode(case, task, conditions, reason=reason, message=message, variation=variation, node=node)


# How a run stands while it goes on: which episodes it has, which records count, what this invocation has done.


class RunState:
    """The progress of a run, in memory: its episodes, the records that count, and what this invocation has done."""

    def __init__(self) -> None:
        self.estimates: dict[str, DurationEstimate] = {}
        """By node id, how long each episode of this invocation is likely to take."""
        self.shared: dict[str, str] = {}
        """By the node ids of tests that share an episode, what that is recorded as."""
        self.names: dict[str, str] = {}
        """By the node ids of this invocation's items with an episode, those under which their endings are recorded."""
        self.episodes: frozenset[str] = frozenset()
        """As they are recorded, all of the run."""
        self.tally = RunTally()
        self.kept = 0
        """How many of the run's episodes came to their end in earlier invocations."""
        self.decided: set[str] = set()
        """Episodes, as they are recorded, that are not to run any more, since a sequential gate has decided them."""
        self.skipped: set[str] = set()
        """Those of them that were skipped."""
        self.reruns: Counter[str] = Counter()
        """By node id, how often an episode was run again because its worker died."""
        self.crashed: set[str] = set()
        """Episodes, as they are recorded, whose process a signal killed; without the run's first, an accident."""
        self._has_crashed = False
        self._further = 0
        # What has ended in this invocation: by node id, and as it is recorded.
        self._ended: set[str] = set()
        self._new: dict[str, None] = {}

    def expect(self, collected: Collected) -> None:
        """Add the items of this invocation."""
        self.names.update({node: node for node in collected.cases} | dict(collected.names))
        self.shared.update(collected.shared)
        own = [name for node, name in self.names.items() if node not in self.shared]
        self._further = len(own) - len(set(own))

    def expected(self, collected: Collected) -> "dict[str, ExpectedEpisode]":
        """Return the episodes of this invocation with their expected durations, by node id."""
        from pytest_vla.plan.durations import ExpectedEpisode
        from pytest_vla.vary.registry import name_of

        return {
            node: ExpectedEpisode(each.seconds, case.suite, case.variation and name_of(case.variation), case.task_key)
            for node, case in collected.alone.items()
            if (each := self.estimates.get(node)) is not None
        }

    def has_ended(self, node: str) -> bool:
        """Whether an item's episode has a record of this invocation."""
        return node in self._ended

    def recorded_as(self, node: str) -> str:
        """Return the name under which an item's outcome is recorded."""
        return self.names.get(node, node)

    @property
    def episode_names(self) -> dict[str, str]:
        """The name under which each episode is recorded, by node id of this invocation's items with an episode."""
        return self.names | self.shared

    def episodes_of(self, collected: Collected) -> dict[str, Case]:
        """Return the cases of items, each once, by the names under which their episodes are recorded."""
        return {self.shared.get(node, self.names[node]): case for node, case in collected.cases.items()}

    def resume(
        self, kept: Iterable[tuple[Record, str | None]], episodes: tuple[str, ...], retried: Iterable[str] = ()
    ) -> None:
        """Start from a resumed run.

        Args:
            kept: the run's records, with the statuses of their items.
            episodes: the episodes that this invocation runs.
            retried: as in `RunTally`.
        """
        found = list(kept)
        self.tally = RunTally(found, retried)
        self.kept = sum(record.node not in episodes for record, _ in found)
        for record, _ in found:
            # What ran more than once may have lost its worker.
            again = is_complete(record.outcome) and record.attempt > 1 and not record.retried
            if record.reason == CRASHED or again:
                self.lose(record.node)

    def lose(self, name: str) -> None:
        """Add an episode, as it is recorded, that ran when a signal killed its process.

        Nobody knows who sent the signal. The run's first is taken for an accident. By more of them, a policy that kills
        its process where it would fail must gain nothing.
        """
        if self._has_crashed:
            self.crashed.add(name)
        self._has_crashed = True

    def interrupt(self, interrupts: Sequence[Sequence[str]], episodes: int) -> None:
        """Take the run's earlier interrupts into account.

        Args:
            interrupts: for each the episodes, as they are recorded, that ran then. Who interrupted is not known. People
                do it now and then, which costs nothing: the first time, and further times while a tenth of the run's
                episodes at most was interrupted, and none twice. Beyond, they are as those whose process was killed.
            episodes: number of the run's items.
        """
        known: Counter[str] = Counter()
        for number, nodes in enumerate(interrupts):
            known.update(nodes)
            for node in nodes:
                if number and (known[node] > 1 or known.total() > episodes * _MOST_INTERRUPTED):
                    self.crashed.add(node)

    def attempt_of(self, record: Record, reruns: int) -> int:
        """Return the number of a record's attempt: after earlier errors, and after reruns that left no record."""
        before = self.tally.records.get(record.node)
        errors = before.attempt if before is not None and before.outcome == "error" else 0
        return max(record.attempt + reruns, errors + 1)

    def add(self, record: Record, node: str) -> None:
        """Add the record of an item's episode that has ended."""
        self.tally.keep(record)
        self.decided.discard(record.node)
        self.skipped.discard(record.node)
        self._ended.add(node)
        self._new[record.node] = None

    @property
    def new(self) -> tuple[Record, ...]:
        """The records that count of the episodes that ended in this invocation, each episode once."""
        return tuple(map(self.tally.records.__getitem__, self._new))

    @property
    def done(self) -> int:
        """The number of ended episodes, with those of earlier invocations; repetitions of an item count each."""
        return self.kept + len(self._ended)

    @property
    def total(self) -> int:
        """The number of episodes of the run; an episode that tests share on several workers counts several times."""
        return max(len(self.episodes) + self._further - len(self.decided), self.done)

    @property
    def left(self) -> int:
        """Episodes without a record that were not skipped as decided."""
        return sum(node not in self.tally.records and node not in self.skipped for node in self.episodes)
