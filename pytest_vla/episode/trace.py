"""The trace of an episode: its states, actions, goal literals and costs so far, and where the time went.

A trace only records. Whether the task is done is decided by `EpisodeWorld.success`, when the episode's loop asks for it
(`pytest_vla.episode.rollout`).
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import EpisodeError
from pytest_vla.metrics.instability import GOAL, HELD, HOLDING, LIMIT_MARGIN, OTHERS_TOUCHED, SOURCE, TURN
from pytest_vla.plan.costs import MOST_CHARGES, Charge
from pytest_vla.policies.base import Answer, Observation, RecordedStart
from pytest_vla.policies.fit import ACTION_SIZE
from pytest_vla.records.counting import RECORDED, START
from pytest_vla.records.record import (
    ANSWER,
    ANSWER_P90,
    ASKED_DONE,
    CLIPPED,
    DRIFT,
    FIRST_SUCCESS,
    HELD_STEPS,
    LARGEST_ACTION,
    LARGEST_DRIFT,
    VACATED,
    Literals,
)
from pytest_vla.records.trajectory import Trajectory
from pytest_vla.scene.variation import Variation
from pytest_vla.versions import SUPPORTED, recorded_versions

if TYPE_CHECKING:
    from pytest_vla.sim.contacts import Handling
    from pytest_vla.sim.world import World


class State(Protocol):
    """MuJoCo's data, as far as a trajectory needs it."""

    @property
    def qpos(self) -> NDArray[Any]: ...
    @property
    def qvel(self) -> NDArray[Any]: ...


class EpisodeWorld(Protocol):
    """The methods of a world that an episode calls.

    There are two: `pytest_vla.sim.world.World`, and `pytest_vla.episode.world_pool.OwnWorld` for a simulator that a
    suite brings.
    """

    @property
    def data(self) -> State: ...
    @property
    def init_state_count(self) -> int: ...
    def reset(self, init_state: int, scene_seed: int, settle: bool) -> Observation: ...
    def step(self, action: NDArray[np.float64]) -> Observation: ...
    def success(self) -> bool: ...
    def predicates(self) -> Mapping[str, bool]: ...
    def provenance(self) -> Mapping[str, str]: ...
    def asked_done(self) -> bool: ...
    def premises(self) -> Mapping[str, bool]: ...
    def vacated(self) -> Mapping[str, tuple[float, float, float]]: ...


Place = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], bool]
"""Positions of the task's object and of its goal (3,), m, the object's orientation (4,), and whether it is held; see
`pytest_vla.sim.contacts`."""


def _before_and_after(before: Place, after: Place) -> dict[str, NDArray[Any]]:
    names = SOURCE, GOAL, TURN, HELD
    return {name: np.array(both) for name, both in zip(names, zip(before, after, strict=True), strict=True)}


class _Row(NamedTuple):
    qpos: NDArray[np.float64]
    qvel: NDArray[np.float64]
    eef_pos: NDArray[np.float64]
    action: NDArray[np.float64] | None
    verdicts: Mapping[str, bool]
    series: Mapping[str, NDArray[Any]]
    charges: tuple[Charge, ...]


@dataclass
class Trace:
    """The recording of a running episode; complete at any time, since an episode may break at any time.

    Attributes:
        world: the episode's, once it is open.
        seeds: by name.
        variation: of the task, as it was finally drawn, or None.
        seconds: spent, by activity.
        answers: of the policy, with the control step at which each was given. Only those with more than actions,
            or all of them if metrics request more than actions.
        thinking: seconds that each answer took, if latency is measured or simulated.
        held: control steps in which the arm held, as the policy was still thinking; None if the world waits for it.
        clipped: number of executed actions that were outside of [-1, 1].
        first_success: the first step after which the goal held, or None.
        largest_action: the largest absolute value in these; 0 if there are none.
        asked_done: whether the other goal, which the variation's instruction asks for, was reached at some time.
        started: the recorded episode whose start the policy brings, or None.
        began: metrics of where that put the world.
        is_own: whether the task's world is its suite's own.
    """

    world: EpisodeWorld | None = None
    seeds: dict[str, int] = field(default_factory=dict)
    variation: Variation | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    answers: list[tuple[int, Answer]] = field(default_factory=list)
    thinking: list[float] = field(default_factory=list)
    held: int | None = None
    clipped: int = 0
    first_success: int | None = None
    largest_action: float = 0.0
    asked_done: bool = False
    started: RecordedStart | None = None
    began: Mapping[str, float] = field(default_factory=dict)
    is_own: bool = False
    _charged: set[str] = field(default_factory=set)
    _charges: int = 0
    _rows: list[_Row] = field(default_factory=list)
    _read_place: Callable[[], Place] | None = None
    _place: Place | None = None
    _read_handling: "Callable[[], Handling] | None" = None

    @property
    def steps(self) -> int:
        return max(len(self._rows) - 1, 0)

    def record_step(self, observation: Observation, action: NDArray[np.float64] | None = None) -> None:
        """Append the world's current state to the trajectory.

        Args:
            observation: of the current state.
            action: that led to the state; None for the first one, after settling.
        """
        assert self.world is not None
        if action is not None and self.variation is not None and self.variation.asked is not None:
            self.asked_done = self.asked_done or self.world.asked_done()
        state = self.world.data
        qpos, qvel = np.array(state.qpos, dtype=np.float64), np.array(state.qvel, dtype=np.float64)
        # A world without a robot has no path.
        path = observation.get("robot0_eef_pos", ())
        eef_pos = np.array(path, dtype=np.float64)
        verdicts = self.world.predicates()
        measured = getattr(self.world, "series", None)
        series = {} if action is None or measured is None else measured()
        before = place = self._place
        if before is not None and self._read_place is not None and action is not None:
            place = self._read_place()
            series = {**series, **_before_and_after(before, place)}
        if self._read_handling is not None and action is not None:
            names = LIMIT_MARGIN, HOLDING, OTHERS_TOUCHED
            series = {**series, **{k: np.array(v) for k, v in zip(names, self._read_handling(), strict=True)}}
        costs = getattr(self.world, "costs", None)
        charges = () if action is None or costs is None else self._entries(costs())
        # Whole or not at all: a wall limit may be raised between any two lines.
        self._rows.append(_Row(qpos, qvel, eef_pos, action, verdicts, series, charges))
        self._place = place

    def watch(self, remaining: bool, handling: bool) -> None:
        """Record series that metrics need from a world, from now on, as far as the world has them.

        Args:
            remaining: the positions of the task's object and its goal.
            handling: the margin to joint limits, and the things that the arm holds and touches.
        """
        if not (remaining or handling) or not (hasattr(self.world, "scene") and hasattr(self.world, "problem")):
            return
        # This imports the simulator, which suites with their own worlds do not need.
        from pytest_vla.sim.contacts import watch_handling, watch_remaining

        world = cast("World", self.world)
        if remaining:
            self._read_place = watch_remaining(world)
            self._place = None if self._read_place is None else self._read_place()
        if handling:
            self._read_handling = watch_handling(world)

    def conclude(self) -> None:
        """End the episode: a world with meters charges how it ended."""
        conclude = getattr(self.world, "conclude", None)
        if conclude is not None:
            conclude()

    def costs(self) -> tuple[Charge, ...]:
        """Return the ledger, in the order of steps, from a suite's own world or from the world's meters."""
        # Events before an episode begins, such as drawing its start, are not charged to it.
        metered = getattr(self.world, "charged", None) if self._rows else None
        charges = [charge for row in self._rows for charge in row.charges] + list(() if metered is None else metered())
        # A world may find out later what an earlier step cost.
        return tuple(sorted(charges, key=lambda charge: -1 if charge.step is None else charge.step))

    def _entries(self, charges: Iterable[Charge]) -> tuple[Charge, ...]:
        """Return the charges of a step to record; a name without costs is recorded only once."""
        found = []
        for charge in charges:
            if charge.amount or charge.name not in self._charged:
                self._charged.add(charge.name)
                found.append(charge)
        self._charges += len(found)
        if self._charges > MOST_CHARGES:
            raise EpisodeError("world-protocol", f"costs() gives more than {MOST_CHARGES} charges in an episode")
        return tuple(found)

    def record_clipped(self, wanted: NDArray[np.float64]) -> None:
        """Count an action, (7,), that was outside of [-1, 1]."""
        self.clipped += 1
        self.largest_action = max(self.largest_action, float(np.abs(wanted).max()))

    def literals(self) -> Literals:
        found: dict[str, list[tuple[int, bool]]] = {}
        for step, row in enumerate(self._rows):
            for literal, held in row.verdicts.items():
                changes = found.setdefault(literal, [])
                if not changes or changes[-1][1] != held:
                    changes.append((step, bool(held)))
        return {literal: tuple(changes) for literal, changes in found.items()}

    def metrics(self) -> dict[str, float]:
        """Return measures beside the outcome, by name."""
        metrics = {CLIPPED: float(self.clipped), **self.began}
        if self.held is not None:
            metrics[HELD_STEPS] = float(self.held)
        if (drift := self.drift()) is not None and np.isfinite(drift).any():
            metrics |= {DRIFT: float(drift[np.isfinite(drift)][-1]), LARGEST_DRIFT: float(np.nanmax(drift))}
        if self.first_success is not None and self.first_success < self.steps:
            metrics[FIRST_SUCCESS] = float(self.first_success)
        if self.clipped:
            metrics[LARGEST_ACTION] = self.largest_action
        if self.variation is not None and self.variation.asked is not None:
            metrics[ASKED_DONE] = float(self.asked_done)
        if self.variation is not None and self.variation.removed and self.world is not None:
            for name, point in self.world.vacated().items():
                metrics |= {f"{VACATED}_{name}_{axis}": value for axis, value in zip("xyz", point, strict=True)}
        return metrics

    def drift(self) -> NDArray[np.float64] | None:
        """Return the end effector's distance (n,) in mm from the recorded states after each step; None without them.

        It is NaN after the last recorded state.
        """
        if self.started is None or not self._rows:
            return None
        from pytest_vla.sim.world_state import grip_path

        world, recorded = cast("World", self.world), self.started.states[1 : len(self._rows)]
        drift = np.full(self.steps, np.nan)
        after = np.array([row.qpos for row in self._rows[1 : len(recorded) + 1]])
        if len(recorded):
            expected = grip_path(world, recorded[:, 1 : 1 + world.model.nq])
            drift[: len(recorded)] = 1000.0 * np.linalg.norm(grip_path(world, after) - expected, axis=1)
        return drift

    def last_actions(self, number: int) -> NDArray[np.float64]:
        """Return the last `number` executed actions (n, k), or all if there are fewer."""
        return np.array([row.action for row in self._rows[-number:] if row.action is not None], dtype=np.float64)

    def last_eef_pos(self) -> tuple[float, float, float] | None:
        if not self._rows or len(self._rows[-1].eef_pos) != 3 or not np.isfinite(self._rows[-1].eef_pos).all():
            return None
        x, y, z = (float(value) for value in self._rows[-1].eef_pos)
        return x, y, z

    def provenance(self) -> dict[str, str]:
        began = {} if self.started is None else {START: RECORDED}
        return {**self.versions(), **(self.world.provenance() if self.world else {}), **began}

    def versions(self) -> dict[str, str]:
        """Return `recorded_versions`; for a suite's own world without those of simulators that it does not use."""
        used = getattr(self.world, "engines", frozenset[str])() if self.is_own else SUPPORTED.keys()
        return {name: text for name, text in recorded_versions().items() if name not in SUPPORTED.keys() - used}

    def simulator(self) -> tuple[str, ...]:
        """Return the names in `provenance` that a suite's own world gave."""
        if self.world is None or not getattr(self.world, "is_own", False):
            return ()
        return tuple(sorted(self.world.provenance()))

    def trajectory(self) -> Trajectory:
        rows = self._rows
        series = {
            name: np.array([row.series[name] for row in rows if row.action is not None])
            for name in (rows[-1].series if rows else ())
        }
        if (drift := self.drift()) is not None:
            series[DRIFT] = drift
        actions = [row.action for row in rows if row.action is not None]
        return Trajectory(
            np.array([row.qpos for row in rows]).reshape(len(rows), -1 if rows else 0),
            np.array([row.qvel for row in rows]).reshape(len(rows), -1 if rows else 0),
            np.array([row.eef_pos for row in rows]).reshape(len(rows), -1 if rows else 3),
            np.array(actions).reshape(len(actions), -1 if actions else ACTION_SIZE),
            series,
        )

    def all_seconds(self) -> dict[str, float]:
        """Return `seconds`, and the distribution of `thinking` if that was measured."""
        if not self.thinking:
            return self.seconds
        median, most = (float(each) for each in np.quantile(self.thinking, (0.5, 0.9)))
        return {**self.seconds, ANSWER: median, ANSWER_P90: most}

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
