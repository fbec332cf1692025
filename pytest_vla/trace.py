"""What has been seen of an episode so far: states, actions, literals over time, and where the time went."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pytest_vla.policies.base import ACTION_SIZE, Observation
from pytest_vla.records import Literals, Trajectory
from pytest_vla.versions import installed_versions


class State(Protocol):
    """MuJoCo's data, as far as a trajectory needs it."""

    @property
    def qpos(self) -> NDArray[Any]: ...
    @property
    def qvel(self) -> NDArray[Any]: ...


class EpisodeWorld(Protocol):
    """What an episode needs of a world; `pytest_vla.World` is one."""

    @property
    def data(self) -> State: ...
    @property
    def init_state_count(self) -> int: ...
    def reset(self, init_state: int, scene_seed: int, settle: bool) -> Observation: ...
    def step(self, action: NDArray[np.float64]) -> Observation: ...
    def predicates(self) -> Mapping[str, bool]: ...
    def provenance(self) -> Mapping[str, str]: ...


@cache
def _versions() -> dict[str, str]:
    return installed_versions()


@dataclass
class Trace:
    """Complete at any time, since an episode may break at any time."""

    world: EpisodeWorld | None = None
    seeds: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    _qpos: list[NDArray[np.float64]] = field(default_factory=list)
    _qvel: list[NDArray[np.float64]] = field(default_factory=list)
    _eef_pos: list[NDArray[np.float64]] = field(default_factory=list)
    _actions: list[NDArray[np.float64]] = field(default_factory=list)
    _literals: dict[str, list[tuple[int, bool]]] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        return len(self._actions)

    def note(self, observation: Observation, action: NDArray[np.float64] | None = None) -> bool:
        """Take down the present state, after `action` or after settling. Returns whether the goal holds."""
        assert self.world is not None
        self._qpos.append(np.array(self.world.data.qpos, dtype=np.float64))
        self._qvel.append(np.array(self.world.data.qvel, dtype=np.float64))
        self._eef_pos.append(np.array(observation["robot0_eef_pos"], dtype=np.float64))
        if action is not None:
            self._actions.append(action)
        verdicts = self.world.predicates()
        for literal, held in verdicts.items():
            changes = self._literals.setdefault(literal, [])
            if not changes or changes[-1][1] != held:
                changes.append((self.steps, bool(held)))
        return all(verdicts.values())

    def literals(self) -> Literals:
        return {literal: tuple(changes) for literal, changes in self._literals.items()}

    def last_eef_pos(self) -> tuple[float, float, float] | None:
        if not self._eef_pos or not np.isfinite(self._eef_pos[-1]).all():
            return None
        x, y, z = (float(value) for value in self._eef_pos[-1])
        return x, y, z

    def provenance(self) -> dict[str, str]:
        return {**_versions(), **(self.world.provenance() if self.world else {})}

    def trajectory(self) -> Trajectory:
        rows, none = len(self._qpos), np.empty(0)
        return Trajectory(
            np.array(self._qpos or none).reshape(rows, -1 if rows else 0),
            np.array(self._qvel or none).reshape(rows, -1 if rows else 0),
            np.array(self._eef_pos or none).reshape(rows, 3),
            np.array(self._actions or none).reshape(self.steps, ACTION_SIZE),
        )

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
