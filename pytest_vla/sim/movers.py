"""A task's movers in its world: before each control step the bodies that draw them go on in their motions.

As upstream does it, an object that moves keeps its free joint and is welded, softly, to a body without mass that is put
where the motion says. How far an episode's movers are is a value, `Movement`, so that a saved one goes on exactly.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.errors import SceneError
from pytest_vla.plan.labels import PAPER
from pytest_vla.scene.compose import MOVER_TARGET
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.scene import Scene
from pytest_vla.scene.sections import Mover
from pytest_vla.sim.motions import Begun, Motion, Pose, motion_of

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Moving:
    """One mover that goes on: its object's name, the number of the mocap body that draws it, and its motion."""

    name: str
    mocap: int
    motion: Motion


@dataclass(frozen=True)
class Movement:
    """How far an episode's movers are.

    Attributes:
        moving: those that go on; the others stand where they were drawn last.
        tick: control steps since the reset, settling included.
    """

    moving: tuple[Moving, ...] = ()
    tick: int = 0

    def advanced(self, data: mujoco.MjData) -> "Movement":
        """Draws the movers to where the next control step has them; returns how far they are then."""
        if not self.moving:
            return self
        tick = self.tick + 1
        for each in self.moving:
            data.mocap_pos[each.mocap], data.mocap_quat[each.mocap] = each.motion(tick)
        return Movement(self.moving, tick)

    def without(self, names: Collection[str]) -> "Movement":
        """These movers, by their objects' names, stand still from now on; names of what does not move do not count."""
        if not names or not any(each.name in names for each in self.moving):
            return self
        return replace(self, moving=tuple(each for each in self.moving if each.name not in names))


@dataclass(frozen=True)
class _Planned:
    mover: Mover
    mocap: int
    weld: int
    joint: int
    """Where in qpos the object's free joint is."""
    begun: Begun


@dataclass(frozen=True)
class Movers:
    """The movers of a task in its compiled model, to be begun at each reset."""

    source: str
    starts_in_place: bool
    planned: tuple[_Planned, ...] = ()

    def begin(
        self, data: mujoco.MjData, placed: Mapping[str, Pose], stands: Array, removed: Collection[str] = ()
    ) -> Movement:
        """Puts what draws the movers to where an episode begins, before anything is forwarded.

        Args:
            data: reset; where the movers are drawn to is written.
            placed: where the reset drew each object. As coded, motions begin there, whatever init state is set
                after it.
            stands: qpos (nq,) that the episode begins with. As documented, motions begin there.
            removed: objects that are out of the world, which nothing draws.

        Raises:
            SceneError: a mover that nothing places, or that cannot move from where it was placed (located).
        """
        moving = []
        for each in self.planned:
            name = each.mover.name
            if name in removed:
                data.eq_active[each.weld] = 0
                continue
            if name not in placed:
                raise SceneError(
                    f"{self.source}:{each.mover.line}:{each.mover.column}: the mover {name!r} is placed nowhere; "
                    f"add a literal such as (On {name} REGION) to :init"
                )
            if self.starts_in_place:
                pose = np.array(stands[each.joint : each.joint + 7])
                start: Pose = (pose[:3], pose[3:])
            else:
                start = (np.array(placed[name][0], dtype=np.float64), np.array(placed[name][1], dtype=np.float64))
            data.mocap_pos[each.mocap], data.mocap_quat[each.mocap] = start
            moving.append(Moving(name, each.mocap, each.begun(start)))
        return Movement(tuple(moving))


def plan_movers(problem: Problem, rules: str, scene: Scene, model: mujoco.MjModel) -> Movers:
    """Reads a problem's ``:moving_objects``.

    Args:
        problem: with or without movers.
        rules: whose motions they are, one of `pytest_vla.plan.labels.PROTOCOLS`.
        scene, model: compiled of the problem.

    Raises:
        SceneError: a mover that cannot move as its file says (located).
    """
    planned = []
    for mover in problem.movers:
        body = scene.body(mover.name)
        assert body is not None, f"{mover.name} is in the compiled scene"
        begun = motion_of(mover, rules, problem.source)
        identifier = model.body(body.root_body).id
        target = model.body(f"{body.root_body}{MOVER_TARGET}").id
        (weld,) = np.flatnonzero((model.eq_obj1id == identifier) & (model.eq_obj2id == target))
        joint = int(model.joint(body.joints[-1]).qposadr[0])
        planned.append(_Planned(mover, int(model.body_mocapid[target]), int(weld), joint, begun))
    return Movers(problem.source, rules == PAPER, tuple(planned))
