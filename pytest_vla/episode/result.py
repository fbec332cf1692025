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
                f"{said}no metric of answers or actions is called so.{guess} Expected {', '.join(self._entries)}"
            )
        if name not in self._asked:
            raise VlaError(
                f"{said}the run did not ask for it: add --vla-metrics={name} (or vla_metrics in the ini file)"
            )
        if any(there.partition(".")[0] == name for there in self):
            raise VlaError(f"{said}of {name} there are {', '.join(there for there in self if there.startswith(name))}")
        needs = self._entries[name].needs
        lacking = (
            f"it needs {', '.join(needs)}, which this policy did not give with each answer"
            if needs
            else "it had too few steps"
        )
        raise VlaError(f"{said}--vla-metrics={name} asked for it, and this episode has none: {lacking}")


@dataclass(frozen=True)
class Rollout:
    """An episode that has ended: what the `rollout` fixture gives to a test.

    Attributes:
        record: what is written to the run's records.
        trajectory: states and actions, step by step.
        answers: what the policy gave beside actions, where metrics wished for it: (control step, answer).
        variation: of the task, as it was drawn in the end; None: none.
        command: the command line that runs just this episode; may be empty.
        details: the traceback of what broke the episode; empty where nothing raised.
        frames: steps and pictures that a world kept which cannot restore a recorded state, for a video.
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
        """Whether the policy did not do it; neither where something broke nor where there was nothing to measure."""
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
        """How unsure the policy was, (n,) each, of its control steps: the series of the metrics that ``--vla-metrics``
        asked for and that are made of answers and actions, by name; also ``NAME.paper`` and ``NAME.arm``. Larger is
        less sure. What was missing is not there: asking for it by its name raises VlaError, which says what to add.
        """
        entries = {name: entry for name, entry in extensions.metrics().items() if entry.looks_back}
        found = {name: each for name, each in self.trajectory.series.items() if name.partition(".")[0] in entries}
        return _Told(found, entries, {name for name in entries if f"{METRIC_SECONDS}{name}" in self.record.timings})

    @property
    def costs(self) -> tuple[Charge, ...]:
        """The ledger: each charge with its account, steps, bodies, force and place; what is watched and was charged
        nothing has an entry of 0."""
        return self.record.costs

    def cost(self, name: str | None = None, *, account: str | None = None) -> float:
        """What the episode cost.

        Args:
            name: a literal such as ``(Fall vase_1)``, a predicate such as ``check_force``, or a rule; None: all of an
                account.
            account: ``paper``, ``upstream``, ``declared``, ``collisions``, or empty for a suite's own world; None: the
                episode's headline, and for a name that this has not, the next that has. They are never added up.

        Returns:
            The sum of the charges, 0 or more.

        Raises:
            VlaError: nothing is watched, or nothing under that name or account; says what is.
        """
        return account_cost(self.costs, account) if name is None else cost_of(self.costs, name, account)

    @property
    def explanation(self) -> str:
        """How the episode ended, in a few lines: steps, goal literals, end effector, how to run it again."""
        return explain(self.record, self.command)

    def __repr__(self) -> str:
        return f"<Rollout {self.record.case}: {headline(self.record)}>"
