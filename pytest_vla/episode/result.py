"""An episode that has ended: its record, trajectory and costs, as tests are given them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pytest_vla import extensions
from pytest_vla.entries import MetricEntry
from pytest_vla.errors import VlaError
from pytest_vla.metrics.extra_metrics import names_by_alias
from pytest_vla.plan.costs import Charge, account_cost, cost_of
from pytest_vla.policies.base import Answer
from pytest_vla.records.explain import explain, headline
from pytest_vla.records.record import METRIC_SECONDS, Record
from pytest_vla.records.trajectory import Trajectory
from pytest_vla.scene.variation import Variation
from pytest_vla.util.text import did_you_mean


class _Told(dict[str, NDArray[np.float64]]):
    """Series of metrics by name, which says why one is not there.

    Args:
        series: those that are there.
        entries: the metrics whose series may be.
        asked: names of those that the run asked for.
    """

    def __init__(
        self, series: Mapping[str, NDArray[np.float64]], entries: Mapping[str, MetricEntry], asked: Collection[str]
    ) -> None:
        super().__init__(series)
        self._entries, self._asked = entries, asked

    def __missing__(self, key: str) -> NDArray[np.float64]:
        known = names_by_alias(self._entries)
        name = known.get(str(key).lower()) or known.get(str(key).partition(".")[0].lower())
        said = f"rollout.uncertainty[{key!r}]: "
        if name is None:
            guess = did_you_mean(str(key).lower(), known)
            raise VlaError(
                f"{said}no metric of answers or actions has this name.{guess} "
                f"Expected one of {', '.join(self._entries)}"
            )
        if name not in self._asked:
            raise VlaError(
                f"{said}the run did not ask for it: add --vla-metrics={name} (or vla_metrics in the ini file)"
            )
        if any(there.partition(".")[0] == name for there in self):
            raise VlaError(
                f"{said}{name} has the series {', '.join(there for there in self if there.startswith(name))}"
            )
        needs = self._entries[name].needs
        lacking = (
            f"it needs {', '.join(needs)}, which this policy did not give with each answer"
            if needs
            else "it had too few steps"
        )
        raise VlaError(f"{said}--vla-metrics={name} was given, but this episode has no such series: {lacking}")


@dataclass(frozen=True)
class Rollout:
    """An episode that has ended: the value of the `rollout` fixture in a test.

    Attributes:
        record: the episode's entry in the run's records.
        trajectory: states and actions, step by step.
        answers: the policy's values beside actions, if metrics requested them: (control step, answer).
        variation: of the task, as it was finally drawn, or None.
        command: the command line that runs just this episode; may be empty.
        details: the traceback of the exception that broke the episode; empty if nothing raised.
        frames: for a video, steps and pictures kept by a world that cannot restore a recorded state.
    """

    record: Record
    trajectory: Trajectory = field(repr=False)
    answers: tuple[tuple[int, Answer], ...] = field(default=(), repr=False)
    variation: Variation | None = field(default=None, repr=False)
    command: str = ""
    details: str = field(default="", repr=False)
    frames: tuple[tuple[int, NDArray[np.uint8]], ...] = field(default=(), repr=False)

    @property
    def success(self) -> bool:
        """Whether the policy did the task."""
        return self.record.outcome == "success"

    @property
    def failed(self) -> bool:
        """Whether the policy did not do the task; False for errors and invalid episodes."""
        return self.record.outcome == "failure"

    @property
    def outcome(self) -> str:
        """``success``, ``failure``, ``error`` or ``invalid``."""
        return self.record.outcome

    @property
    def passed(self) -> bool:
        """Whether a suite's own test passes: the policy did the task, or was only probed."""
        return self.success or (self.record.is_probe and self.record.outcome == "failure")

    @property
    def steps(self) -> int:
        """Control steps taken, settling not counted."""
        return self.record.steps

    @property
    def uncertainty(self) -> Mapping[str, NDArray[np.float64]]:
        """The policy's uncertainty in each control step, (n,) for each metric, by name. Larger is less sure.

        These are the series of the metrics of answers and actions that ``--vla-metrics`` requested, with ``NAME.paper``
        and ``NAME.arm``. A missing series raises VlaError with the option to add.
        """
        entries = {name: entry for name, entry in extensions.metrics().items() if entry.looks_back}
        found = {name: each for name, each in self.trajectory.series.items() if name.partition(".")[0] in entries}
        return _Told(found, entries, {name for name in entries if f"{METRIC_SECONDS}{name}" in self.record.timings})

    @property
    def costs(self) -> tuple[Charge, ...]:
        """The ledger: each charge with its account, steps, bodies, force and place.

        A name that was watched and never charged has an entry of 0.
        """
        return self.record.costs

    def cost(self, name: str | None = None, *, account: str | None = None) -> float:
        """Return the episode's cost.

        Args:
            name: a literal such as ``(Fall vase_1)``, a predicate such as ``check_force``, or a rule; or None for all
                charges of an account.
            account: ``paper``, ``upstream``, ``declared``, ``collisions``, or empty for a suite's own world; or None
                for the episode's headline account. If that account lacks the name, the next one that has it is used.
                Accounts are never added up.

        Returns:
            The sum of the charges, 0 or more.

        Raises:
            VlaError: nothing is watched, or nothing under that name or account; lists the names that are.
        """
        return account_cost(self.costs, account) if name is None else cost_of(self.costs, name, account)

    @property
    def explanation(self) -> str:
        """A summary of the episode in a few lines: outcome, steps, goal literals, end effector, rerun command."""
        return explain(self.record, self.command)

    def __repr__(self) -> str:
        return f"<Rollout {self.record.case}: {headline(self.record)}>"
