"""A run in the store, from its first item to its end."""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import Case
from pytest_vla.plan.manifests import suite_names
from pytest_vla.records.items import DECIDED, Item
from pytest_vla.records.record import Record
from pytest_vla.records.samples import BALANCED, ORDER, SAMPLE, Sample, sample_table
from pytest_vla.records.tally import Repetition
from pytest_vla.run.collected import Collected
from pytest_vla.run.context import RunContext
from pytest_vla.run.invocation import invocation_of
from pytest_vla.run.limits import longest_known
from pytest_vla.run.picked import picked_by
from pytest_vla.run.sharding import planned_items, step_budgets
from pytest_vla.run.sudden_exit import FAILED, watch_exit
from pytest_vla.run.typed import resume_command

if TYPE_CHECKING:
    from pytest_vla.plan.durations import Estimate
    from pytest_vla.records.store import Store
    from pytest_vla.records.writing import Writer

_EXIT_LOCK_SECONDS = 1.0


@dataclass(frozen=True)
class Closed:
    """A run as it stands in the store when this invocation has ended.

    Attributes:
        items: all of the run; none where no episode ran.
        repetition: what of it does not count.
        sample: what ran, where time has ended it; None: it has not.
    """

    items: tuple[Item, ...] = ()
    repetition: Repetition = field(default_factory=Repetition)
    sample: Sample | None = None


class StoredRun:
    """The run of this invocation in the store. Nothing is written before the first episode is known.

    What cannot be read or written raises VlaError.

    Args:
        context: of this process, which keeps the run.
    """

    def __init__(self, context: RunContext) -> None:
        self._context, self._so_far = context, context.so_far
        self._settings, self._run, self._resumption = context.settings, context.folder, context.resumption
        self._store: Store | None = None
        self._writer: Writer | None = None
        # How items ended that is not handed to the writer yet, and that is.
        self._statuses: dict[str, str] = {}
        self._handed: dict[str, str] = {}
        self.closed = Closed()
        self.ended_before = 0
        """How many records the run has of earlier invocations."""

    @property
    def is_open(self) -> bool:
        """Whether the run has begun and not ended."""
        return self._store is not None

    def begin(self, collected: Collected, agreed: Mapping[str, Any], workers: int) -> None:
        """Enter the run, or go on with it; `SoFar` knows then which episodes it has, and what they are to take.

        Args:
            collected: the items of this invocation.
            agreed: what a new run keeps beside its invocation.
            workers: how many processes run them.
        """
        from pytest_vla.records.store import open_store
        from pytest_vla.records.writing import Writer

        so_far = self._so_far
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
            record: of an episode that has ended.
            at_once: whether it is to be on the disk when this returns, however fast records come; see `Writer`.
        """
        if self._writer is not None:
            self._writer.put([record], at_once=at_once)

    def write_status(self, name: str, status: str) -> None:
        """Write how an item ended; later for tests without episodes, which may be many and quick."""
        self._statuses[name] = status
        if name in self._so_far.episodes or name in self._so_far.shared:
            self._write_statuses()

    def settle(self) -> None:
        """All that came so far is on the disk, or `end` says why not."""
        if self._writer is not None:
            self._writer.settle()

    def end(self, without_policy: bool, sample: Callable[[bool], Sample] | None = None) -> None:
        """The invocation has ended: `closed` says how the run stands. Where nothing ran, the run is forgotten.

        Args:
            without_policy: whether the policy could not be loaded, or did not fit.
            sample: makes what is told of the run of whether all of it ran in the balanced order; None: time has not
                ended it.
        """
        store, writer, self._store = self._store, self._writer, None
        if store is None or writer is None:
            return
        self._unwatch()
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
                picked=picked_by(self._context.config, collected.nodes),
            )
            return
        store.resume(self._run.name)
        # Whatever ends it now says anew what it is.
        store.set_in_invocation(self._run.name, SAMPLE, None)
        self.ended_before = len(store.episodes(self._run.name))
        statuses = {item.node: item.status for item in store.items(self._run.name)}
        so_far.skipped = {node for node, status in statuses.items() if status == DECIDED}
        so_far.resume(((record, statuses.get(record.node)) for record in store.records(self._run.name)), episodes)

    def _estimated(self, cases: Sequence[Case], store: "Store") -> "tuple[Estimate, ...]":
        from pytest_vla.plan.durations import estimate

        settings = self._settings
        measured = store.durations(str(settings.model))
        # A suite that was measured once may be gone.
        suites = {case.suite for case in cases} | ({suite for suite, *_ in measured} & set(suite_names()))
        return estimate(cases, measured, step_budgets(suites, settings.data))

    def _repetition(self, store: "Store") -> Repetition:
        run = store.run(self._run.name)
        mended, picked = frozenset(self._so_far.tally.mended), run.picked is not None
        return Repetition(
            run.repeats,
            mended,
            run.picked,
            store.earlier(run.name) if picked else (),
            (0, 0) if picked else store.before(run.name),
        )

    def _write_statuses(self) -> None:
        if self._writer is None:
            return
        # Most endings are known after the call, and once more after the teardown.
        new = [each for each in self._statuses.items() if self._handed.get(each[0]) != each[1]]
        self._handed |= self._statuses
        self._statuses.clear()
        self._writer.put(new)

    def _exited(self, code: int, place: str) -> None:
        """`os._exit` was called in the middle of the run, in whatever thread."""
        from pytest_vla.records.store import open_store

        code, resume = code if code % 256 else FAILED, resume_command(self._context.config, self._run.name)
        told = (
            f"\npytest-vla: os._exit was called at {place} while {self._so_far.left} of {len(self._so_far.episodes)} "
            f"episodes were not run: pytest ends with code {code}; `{resume}` goes on\n"
        )
        with suppress(OSError):
            os.write(self._context.stderr, told.encode(errors="replace"))
        if self._writer is not None:
            self._writer.settle(_EXIT_LOCK_SECONDS)
        # A connection belongs to its thread.
        with suppress(VlaError), open_store(self._run.parent, create=False, timeout=_EXIT_LOCK_SECONDS) as store:
            store.end(self._run.name, "stopped")
