"""How near things of a scene stand to each other, by their collision geoms."""

from collections.abc import Collection

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.scene.scene import Scene

Array = npt.NDArray[np.float64]

ROBOT = "robot0_base"
"""The body that all of the robot hangs from."""

_STEP, _STEPS = 0.02, 4
"""How finely (m) and how often it is asked what is below and above an object."""
_TOUCHES = 0.0005


class Clearance:
    """A scratch copy of a model's poses, in which things are tried out. Fixtures stand where the model has them."""

    def __init__(self, model: mujoco.MjModel, scene: Scene) -> None:
        self._model, self._data = model, mujoco.MjData(model)
        self._names = {model.body(body.root_body).id: body.name for body in scene.bodies}
        self._heights = {
            body.name: int(model.joint(body.joints[-1]).qposadr[0]) + 2 for body in scene.bodies if not body.is_fixture
        }
        self._robot = model.body(ROBOT).id
        self._root = model.body_rootid[model.geom_bodyid]
        self._solid = (model.geom_contype != 0) | (model.geom_conaffinity != 0)

    def in_the_way(self, qpos: Array, things: Collection[str], nearest: float) -> str:
        """What some objects come too near to, other things of the scene or the robot; an empty text: nothing.

        Init states have objects that are still to fall, so it is also asked what is below and above them.

        Args:
            qpos: (nq,).
            things: names of objects; what they stand on, if it is the workspace, does not count.
            nearest: m, above 0.
        """
        named = {name: identifier for identifier, name in self._names.items()}
        own = self._geoms([named[name] for name in things])
        around = [identifier for identifier, name in self._names.items() if name not in things]
        if found := self._near(qpos, own, self._geoms([*around, self._robot]), nearest):
            return found
        workspace = self._geoms(set(self._root.tolist()) - {*self._names, self._robot})
        objects = [named[name] for name in self._heights if name not in things]
        heights = [self._heights[name] for name in things]
        for others, step in ((around, -_STEP), (objects, _STEP)):
            moved = qpos.copy()
            for _ in range(_STEPS):
                moved[heights] += step
                if step < 0 and self._near(moved, own, workspace, _TOUCHES):
                    break
                if found := self._near(moved, own, self._geoms(others), nearest):
                    return found
        return ""

    def depth(self, qpos: Array, thing: str) -> float:
        """How deep (m) an object is in the workspace; 0: not at all."""
        named = {name: identifier for identifier, name in self._names.items()}
        own = self._geoms([named[thing]])
        workspace = self._geoms(set(self._root.tolist()) - {*self._names, self._robot})
        return max(-self._distance(qpos, own, workspace), 0.0)

    def in_robots_way(self, qpos: Array, nearest: float) -> str:
        """As `in_the_way`, of the robot's moving parts; the workspace counts too."""
        moves = self._model.body_weldid[self._model.geom_bodyid] != 0
        robot = self._root == self._robot
        return self._near(
            qpos, np.flatnonzero(self._solid & robot & moves), np.flatnonzero(self._solid & ~robot), nearest
        )

    def _geoms(self, roots: Collection[int]) -> npt.NDArray[np.int64]:
        """The solid geoms of bodies that others hang from."""
        return np.flatnonzero(self._solid & np.isin(self._root, list(roots)))

    def _near(self, qpos: Array, own: npt.NDArray[np.int64], others: npt.NDArray[np.int64], nearest: float) -> str:
        for first, second in self._pairs(qpos, own, others, nearest):
            if mujoco.mj_geomDistance(self._model, self._data, first, second, nearest, None) < nearest:
                root = int(self._root[second])
                return self._names.get(root) or str(self._model.body(root).name)
        return ""

    def _distance(self, qpos: Array, own: npt.NDArray[np.int64], others: npt.NDArray[np.int64]) -> float:
        distances = [
            mujoco.mj_geomDistance(self._model, self._data, first, second, _TOUCHES, None)
            for first, second in self._pairs(qpos, own, others, _TOUCHES)
        ]
        return min(distances, default=_TOUCHES)

    def _pairs(
        self, qpos: Array, own: npt.NDArray[np.int64], others: npt.NDArray[np.int64], nearest: float
    ) -> list[tuple[int, int]]:
        """Pairs of geoms that may be so near, by their bounding spheres; the poses are computed."""
        model, data = self._model, self._data
        data.qpos[:] = qpos
        mujoco.mj_kinematics(model, data)
        # Planes have no bounding sphere: their radius is 0.
        plane = model.geom_type[others] == mujoco.mjtGeom.mjGEOM_PLANE
        apart = np.linalg.norm(data.geom_xpos[own][:, None] - data.geom_xpos[others][None], axis=2)
        reach = model.geom_rbound[own][:, None] + model.geom_rbound[others][None] + nearest
        return [(int(own[one]), int(others[other])) for one, other in np.argwhere((apart <= reach) | plane[None])]
