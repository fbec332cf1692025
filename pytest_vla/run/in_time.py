"""A run that time may end, where it is kept: its order, what it learns of episodes, and what it says at its end."""

from collections.abc import Callable, Sequence

import pytest

from pytest_vla.records.record import Record
from pytest_vla.records.samples import Sample
from pytest_vla.run import limits
from pytest_vla.run.collected import Collected
from pytest_vla.run.folder import RUN
from pytest_vla.run.limits import LIMIT, BalancedOrder, in_order, is_balanced, limit_text, sample_of_run, time_line
from pytest_vla.run.selection import SELECTION
from pytest_vla.run.so_far import SoFar
from pytest_vla.run.typed import resume_command

_WHOLE = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


class InTime:
    """Of the process that keeps the run. Does nothing where the run has no limit and no order of one.

    Args:
        config: with `SELECTION`, `RUN` and `LIMIT` in its stash.
        so_far: how the run stands.
    """

    def __init__(self, config: pytest.Config, so_far: SoFar) -> None:
        self._config, self._so_far = config, so_far
        self._settings, self._limit = config.stash[SELECTION].settings, config.stash[LIMIT]
        self._order: BalancedOrder | None = None
        self._workers = 1

    @property
    def until(self) -> Callable[[], float] | None:
        """Gives the seconds until time ends the run; None: it never does."""
        limit = self._limit
        return None if limit is None else lambda: limit.left(limits.clock())

    def begin(self, collected: Collected, workers: int) -> None:
        """The run's items are known, and how many processes run them."""
        if is_balanced(self._config):
            self._order = BalancedOrder(self._so_far.episodes, self._so_far.episodes_of(collected), self._settings)
        self._workers = max(workers, 1)
        if self._limit is not None:
            self._limit.share(self._workers)

    def learn(self, record: Record) -> None:
        """An episode has ended: others may take as long."""
        if self._limit is not None and record.outcome != "error":
            self._limit.learn(record.timings.get("wall") or 0.0)

    def places(self, nodes: Sequence[str]) -> dict[str, tuple[int, int]] | None:
        """By node id, in which round an item's turn comes, and its place there; None: it has no such order."""
        if self._order is None:
            return None
        names = self._so_far.episode_names
        return {node: self._order.place(node, names.get(node)) for node in nodes}

    def put_in_order(self, session: pytest.Session) -> None:
        """Without workers, the session's items are run as they stand."""
        if self._order is not None:
            session.items[:] = in_order(session.items, self._order, self._so_far.episode_names)

    def has_ended(self, session: pytest.Session) -> bool:
        """Whether time, and nothing else, has ended the run: -x stops by an outcome, and Ctrl-C cuts what runs."""
        is_cut = bool(session.shouldstop or session.shouldfail) or session.exitstatus not in _WHOLE
        return self._limit is not None and self._limit.is_up and not is_cut

    def sample(self, is_whole: bool) -> Sample:
        """What ran of a run that time has ended.

        Args:
            is_whole: whether all of it ran in the balanced order.
        """
        assert self._limit is not None, "it has no limit"
        by, records = limit_text(self._limit, self._settings), self._so_far.tally.records
        order = self._order or BalancedOrder(self._so_far.episodes, {}, self._settings)
        return sample_of_run(by, order.balance(records), is_whole, self._workers)

    def lines(self, sample: Sample | None, by_gate: bool) -> tuple[str, ...]:
        """What is said of it at the end; nothing, where time has not ended it.

        Args:
            sample: what ran.
            by_gate: whether it was in the order of a sequential gate.
        """
        if self._limit is None or sample is None:
            return ()
        resume = resume_command(self._config, self._config.stash[RUN].name)
        return (time_line(sample, self._limit, resume, len(self._so_far.new), by_gate),)
