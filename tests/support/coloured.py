"""A world in the simulator's place whose pictures tell by their colour what was drawn."""

import re
import types
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from pytest_vla.errors import VlaError
from pytest_vla.scene.variation import Variation

CAMERAS = ("agentview", "robot0_eye_in_hand", "frontview")
BLUE = 250
"""Of a picture without a level; each level takes 10 from it."""


class ColouredWorld:
    """Its pictures are of one colour: red is what it was reset to (100 + init state) or shown, green the camera's
    number, blue the variation's level.

    Attributes:
        made: the tasks that worlds were made with.
        log: what all of them were asked for.
        unseen: by a variation's label, how often its task is out of sight.
        broken: by a label, what a reset under it raises.
        holds: whether the goal of a varied task holds at the start.
    """

    made: ClassVar[list[str]] = []
    log: ClassVar[list[tuple[Any, ...]]] = []
    unseen: ClassVar[dict[str, int]] = {}
    broken: ClassVar[dict[str, Exception]] = {}
    holds: ClassVar[bool] = False

    def __init__(self, task: Any, variation: Variation | None = None, *, allow_versions: bool = False) -> None:
        self.task, self.variation, self.allow_versions, self.init_state_count = task, variation, allow_versions, 3
        self.data = types.SimpleNamespace(qpos=np.zeros(1), qvel=np.zeros(1))
        self.is_reset = False
        type(self).made.append(task.name)

    @classmethod
    def forget(cls) -> None:
        """Nothing was made or asked for, and nothing is wrong."""
        cls.made, cls.log, cls.unseen, cls.broken, cls.holds = [], [], {}, {}, False

    @classmethod
    def resets(cls) -> list[tuple[str, str, int, int, bool]]:
        """Task, label of the variation, init state, scene seed and whether it settles, of each reset."""
        asked = [(entry[1], entry[5:], entry[2:5]) for entry in cls.log if entry[0] == "reset"]
        return [(task, "".join(each.label for each in under), *how) for task, under, how in asked]

    def switch(self, task: Any, variation: Variation | None = None) -> bool:
        same = bool(task.suite == self.task.suite)
        if same:
            self.task, self.variation, self.is_reset = task, variation, False
        return same

    def reset(self, init_state: int, scene_seed: int, settle: bool) -> Mapping[str, Any]:
        under = [] if self.variation is None else [self.variation]
        self.log.append(("reset", self.task.name, init_state, scene_seed, settle, *under))
        if self._label in self.broken:
            raise self.broken[self._label]
        self.is_reset = True
        self.data.qpos[:] = 100 + init_state
        return self._seen(100 + init_state)

    def save(self) -> Any:
        if not self.is_reset:
            raise VlaError("reset the world first")
        return types.SimpleNamespace(data=self.data)

    def show(self, qpos: np.ndarray, step: int = 0) -> Mapping[str, Any]:
        if len(qpos) != 1:
            raise VlaError("a recorded state is qpos")
        self.log.append(("show", self.task.name, float(qpos[0]), step))
        return self._seen(int(qpos[0]))

    def out_of_sight(self) -> str:
        left = self.unseen.get(self._label, 0)
        self.unseen[self._label] = left - 1
        return "plate_1 is hidden" if left > 0 else ""

    def success(self) -> bool:
        return all(self.predicates().values())

    def predicates(self) -> dict[str, bool]:
        return {"(on bowl_1 plate_1)": self.holds and bool(self._label)}

    def provenance(self) -> Mapping[str, str]:
        return {}

    def close(self) -> None:
        self.log.append(("close",))

    @property
    def _label(self) -> str:
        return "" if self.variation is None else self.variation.label

    def _seen(self, colour: int) -> Mapping[str, Any]:
        height, width = self.task.protocol.image_size
        level = int(found[1]) if (found := re.search(r"-L(\d)", self._label)) else 0
        level = self.variation.level if self.variation is not None and self.variation.level else level
        pictures = {
            f"{camera}_image": np.full((height, width, 3), (colour, CAMERAS.index(camera), BLUE - 10 * level), np.uint8)
            for camera in self.task.protocol.cameras
            if camera in CAMERAS
        }
        return _Seen(pictures | {"robot0_eef_pos": np.zeros(3)})


class _Seen(dict[str, Any]):
    """A camera that there is not is told as MuJoCo tells it."""

    def __missing__(self, name: str) -> Any:
        raise KeyError("Invalid name 'fly'. Valid names: ['agentview', 'frontview']")
