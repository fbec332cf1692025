"""A world without a simulator: a point that is pushed about, so that the plugin is tested without data.

Loaded with ``-p fake_sim`` it takes the place of `pytest_vla.sim.world`. The point's position is the end effector's;
the goal is to get x beyond 0.2 m. A task's name may ask for trouble: see `World`.
"""

import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

GOAL_X = 0.2


class LazyObservation(Mapping[str, Any]):
    """Counts the pictures that are drawn; pictures cannot be drawn later."""

    def __init__(self, world: "World") -> None:
        self._world, self._step = world, world.steps

    def __getitem__(self, key: str) -> Any:
        eef = self._world.data.qpos.copy()
        if key.endswith("_image"):
            assert self._step == self._world.steps, "a picture of the past"
            self._world.pictures += 1
            height, width = self._world.task.protocol.image_size
            return np.arange(height * width * 3, dtype=np.uint8).reshape(height, width, 3)
        return {"robot0_eef_pos": eef, "state": np.concatenate([eef, np.zeros(5)])}[key]

    def __iter__(self) -> Iterator[str]:
        return iter(["agentview_image", "robot0_eye_in_hand_image", "state", "robot0_eef_pos"])

    def __len__(self) -> int:
        return 4


class World:
    """The contract of `pytest_vla.World`, as far as an episode needs it.

    Init state 13 holds the goal at once; a step with action[6] > 0.999 turns the state into NaN and raises nothing
    of its own, one with action[5] > 0.999 raises.
    """

    made = 0

    def __init__(self, task: Any, variation: Any = None, *, allow_versions: bool = False) -> None:
        self._refuse(task)
        type(self).made += 1
        self.task, self.variation, self.init_state_count = task, variation, 50
        self.data = types.SimpleNamespace(qpos=np.zeros(3), qvel=np.zeros(3))
        self.steps = self.pictures = self.closed = 0
        self.resets: list[tuple[int, int, bool]] = []

    def reset(self, init_state: int, scene_seed: int, settle: bool) -> LazyObservation:
        self.resets.append((init_state, scene_seed, settle))
        self.steps = 0
        self.data.qpos[:] = [1.0 if init_state == 13 else -0.01 * init_state, 0.0, 1.0]
        self.data.qvel[:] = 0.0
        return LazyObservation(self)

    def step(self, action: Any) -> LazyObservation:
        from pytest_vla.errors import EpisodeError

        if action[5] > 0.999:
            raise EpisodeError("physics-nan", f"bad acceleration at step {self.steps}")
        if action[4] > 0.999:
            raise ZeroDivisionError("a defect of ours")
        self.steps += 1
        self.data.qvel[:] = action[:3]
        self.data.qpos += 0.05 * self.data.qvel
        return LazyObservation(self)

    def switch(self, task: Any, variation: Any = None) -> bool:
        """A suite is one scene here."""
        if task.suite != self.task.suite:
            return False
        self._refuse(task)
        self.task, self.variation = task, variation
        return True

    @staticmethod
    def _refuse(task: Any) -> None:
        from pytest_vla.errors import VlaError

        if task.name == "put_the_bowl_on_the_plate":
            raise VlaError("plate.xml: not found in any root")

    def show(self, qpos: Any, step: int = 0) -> dict[str, Any]:
        """A picture that gets brighter along x."""
        self.shown = getattr(self, "shown", 0) + 1
        height, width = self.task.protocol.image_size
        return {"agentview_image": np.full((height, width, 3), int(abs(qpos[0]) * 200) % 256, dtype=np.uint8)}

    def success(self) -> bool:
        return bool(self.data.qpos[0] > GOAL_X)

    def predicates(self) -> dict[str, bool]:
        return {"(beyond point_1 line_1)": self.success(), "(is point_1)": True}

    def asked_done(self) -> bool:
        return bool(self.data.qpos[0] < -GOAL_X)

    def vacated(self) -> dict[str, tuple[float, float, float]]:
        return dict.fromkeys(self.variation.removed if self.variation is not None else (), (0.1, 0.0, 1.0))

    def provenance(self) -> dict[str, str]:
        return {"scene": "a point"}

    def close(self) -> None:
        self.closed += 1


def pytest_configure(config: Any) -> None:
    """Take the simulator's place."""
    module: Any = types.ModuleType("pytest_vla.sim.world")
    module.World = World
    sys.modules["pytest_vla.sim.world"] = module
