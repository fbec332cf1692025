"""Makes init states: draws a scene, lets it come to rest, checks it, and draws anew where something is amiss."""

import zlib
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.errors import SceneError
from pytest_vla.plan.choices import RELATIVE
from pytest_vla.plan.task import Task
from pytest_vla.scene.panda import ARM_JOINTS, FINGERS
from pytest_vla.scene.placement import Placer, plan_placement
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.scene import SceneSpec
from pytest_vla.scene.workspaces import workspace
from pytest_vla.sim.arm import REST_FINGERS

Array = npt.NDArray[np.float64]


class Stepped(Protocol):
    """The part of a world that settling needs; `pytest_vla.World` has it."""

    model: mujoco.MjModel
    data: mujoco.MjData
    scene: SceneSpec
    problem: Problem
    task: Task

    def reset(self, init_state: npt.ArrayLike | None = ..., scene_seed: int = ..., settle: bool = ...) -> object: ...
    def step(self, action: npt.ArrayLike, control: str | None = ...) -> object: ...
    def success(self) -> bool: ...
    def premises(self) -> dict[str, bool]: ...
    def freeze(self, names: Collection[str]) -> None: ...


@dataclass(frozen=True)
class Limits:
    """The limits of a calm scene.

    Attributes:
        speed, spin: how fast anything may move at the end (m/s, rad/s).
        drift, turn: how far it may have moved since it came to rest (m, degrees).
        shift, tilt: how far it may be from where it was drawn, horizontally and from its upright (m, degrees).
        sink: how far it may have fallen from where it was drawn (m); LIBERO draws objects up to 0.06 m above the
            surface.
        outside: how far it may be outside the region in which it was drawn (m).
        depth: how deep two things may be in each other (m).
    """

    speed: float = 0.005
    spin: float = 0.05
    drift: float = 0.001
    turn: float = 0.5
    shift: float = 0.01
    tilt: float = 5.0
    sink: float = 0.1
    outside: float = 0.005
    depth: float = 0.002


@dataclass(frozen=True)
class _Poses:
    """The poses of the moving parts of objects and fixtures: positions (n, 3) in metres, rotations (n, 3, 3)."""

    positions: Array
    rotations: Array


def settled_states(
    world: Stepped,
    count: int,
    generator: np.random.Generator,
    *,
    settle_seconds: float = 2.0,
    hold_seconds: float = 2.0,
    tries: int = 40,
    limits: Limits | None = None,
) -> Array:
    """Compute init states of the world's task: everything at rest, all velocities zero.

    The arm is in its rest pose. Movers are held where they were drawn, and are not judged.

    If a scene seed moves fixtures, they stand in each state where one drawn seed had them. Such states fit only scenes
    whose fixtures have the same poses.

    Args:
        world: of the task; it is reset, and must be reset before its next step.
        count: how many.
        generator: draws the scene seeds.
        settle_seconds: how long a drawn scene is left alone before it is judged.
        hold_seconds: how long the finished state must stay as it is.
        tries: draws for one state before giving up.
        limits: the limits of a calm scene, or None for `Limits()`.

    Returns:
        (count, 1+nq+nv): [time 0, qpos, qvel 0].

    Raises:
        SceneError: no draw in `tries` was fit; says how often each reason was met.
    """
    found = (
        settled_state(
            world,
            generator,
            number=number,
            settle_seconds=settle_seconds,
            hold_seconds=hold_seconds,
            tries=tries,
            limits=limits,
        )
        for number in range(count)
    )
    return np.array([state for state, _ in found])


def settled_state(
    world: Stepped,
    generator: np.random.Generator,
    *,
    number: int = 0,
    settle_seconds: float = 2.0,
    hold_seconds: float = 2.0,
    tries: int = 40,
    limits: Limits | None = None,
) -> tuple[Array, int]:
    """Return one state as in `settled_states`, and the scene seed that places its fixtures.

    Args:
        world, generator, settle_seconds, hold_seconds, tries, limits: as for `settled_states`.
        number: index of the state, for the message.

    Returns:
        (1+nq+nv,): [time 0, qpos, qvel 0]; and the scene seed.

    Raises:
        SceneError: as `settled_states`.
    """
    limits = limits or Limits()
    refused: Counter[str] = Counter()
    while True:
        scene_seed = int(generator.integers(2**32))
        state, reason = _drawn(world, scene_seed, settle_seconds, limits)
        reason = reason or unrest(world, state, hold_seconds, limits)
        if reason is None:
            return state, scene_seed
        refused[reason] += 1
        if refused.total() >= tries:
            told = "; ".join(f"{times}x {why}" for why, times in refused.most_common())
            raise SceneError(
                f"{world.problem.source}: no calm init state {number} in {tries} draws: {told}. "
                "Move the regions apart, or mend the objects' collision geoms and masses."
            )


def unrest(world: Stepped, state: npt.ArrayLike, seconds: float, limits: Limits | None = None) -> str | None:
    """Return why a state is no calm start of the world's task, or None if it is.

    Args:
        world: of the task; it is reset to the state and stepped with the suite's settle action.
        state: (1+nq+nv,).
        seconds: how long it is watched.
        limits: the limits of a calm scene, or None for `Limits()`.
    """
    limits = limits or Limits()
    world.reset(state, settle=False)
    world.freeze(_movers(world))
    if world.success():
        return "the goal holds already"
    if depth := _too_deep(world, limits):
        return depth
    before = _poses(world)
    action = np.array(world.task.protocol.settle_action)
    for _ in range(_steps(world, seconds)):
        world.step(action, RELATIVE)
        if moved := _moved(world, before, limits):
            return moved
    return _too_fast(world, limits)


def _drawn(world: Stepped, scene_seed: int, seconds: float, limits: Limits) -> tuple[Array, str | None]:
    """Return the state in which a drawn scene came to rest, and why it is not fit, or None."""
    world.reset(None, scene_seed=scene_seed, settle=False)
    world.freeze(_movers(world))
    model, data = world.model, world.data
    drawn = _poses(world)
    action = np.array(world.task.protocol.settle_action)
    for _ in range(_steps(world, seconds)):
        world.step(action, RELATIVE)
    qpos = data.qpos.copy()
    qpos[:ARM_JOINTS] = workspace(world.problem.name, world.problem.source).rest_joints
    qpos[ARM_JOINTS : ARM_JOINTS + FINGERS] = REST_FINGERS
    state = np.concatenate([[0.0], qpos, np.zeros(model.nv)])
    unfit = _displaced(world, drawn, limits) or _outside(world, limits) or _too_fast(world, limits)
    return state, unfit or _spilt(world)


def _steps(world: Stepped, seconds: float) -> int:
    return round(seconds * world.task.protocol.control_freq)


def _spilt(world: Stepped) -> str | None:
    """Return why a round thing is no longer in or on its initial support, or None; it may lie anywhere there."""
    held = world.premises()
    bodies = {body.name: int(world.model.body(body.root_body).id) for body in world.scene.bodies}
    for literal in world.problem.init:
        name = str(literal.arguments[0])
        if not held.get(str(literal), True) and name in bodies and _rolls(world, bodies[name]):
            return f"{name} rolls away"
    return None


def _parts(world: Stepped) -> npt.NDArray[np.int64]:
    """Return the bodies of objects and fixtures that can move, without movers."""
    model, movers = world.model, _movers(world)
    roots = [model.body(body.root_body).id for body in world.scene.bodies if body.name not in movers]
    return np.flatnonzero(np.isin(model.body_rootid, roots) & (model.body_weldid != 0))


def _movers(world: Stepped) -> frozenset[str]:
    return frozenset(mover.name for mover in world.problem.movers)


def _poses(world: Stepped) -> _Poses:
    parts = _parts(world)
    return _Poses(world.data.xpos[parts].copy(), world.data.xmat[parts].reshape(-1, 3, 3).copy())


def _named(world: Stepped, part: int) -> str:
    return str(world.model.body(_parts(world)[part]).name)


def _moved(world: Stepped, before: _Poses, limits: Limits) -> str | None:
    now = _poses(world)
    distances = np.linalg.norm(now.positions - before.positions, axis=1)
    angles = _angles(np.einsum("nij,nij->n", now.rotations, before.rotations))
    angles[_rolling(world)] = 0.0
    if len(distances) and distances.max() > limits.drift:
        return f"{_named(world, int(distances.argmax()))} drifts"
    if len(angles) and angles.max() > limits.turn:
        return f"{_named(world, int(angles.argmax()))} turns"
    return None


def _angles(traces: Array) -> Array:
    """Compute angles (degrees) of rotations from their traces."""
    return np.asarray(np.degrees(np.arccos(np.clip((traces - 1) / 2, -1, 1))))


def _displaced(world: Stepped, drawn: _Poses, limits: Limits) -> str | None:
    now = _poses(world)
    shift = np.linalg.norm((now.positions - drawn.positions)[:, :2], axis=1)
    sink = drawn.positions[:, 2] - now.positions[:, 2]
    # The angle between the present and the drawn direction of the axis that pointed up when drawn.
    up = drawn.rotations[:, 2, :]
    tilt = np.degrees(np.arccos(np.clip(np.einsum("nj,nj->n", now.rotations[:, 2, :], up), -1, 1)))
    rolls = _rolling(world)
    for part in range(len(shift)):
        if tilt[part] > limits.tilt and not rolls[part]:
            return f"{_named(world, part)} tilts"
        if sink[part] > limits.sink:
            return f"{_named(world, part)} falls"
        if shift[part] > limits.shift and not rolls[part]:
            return f"{_named(world, part)} slides away"
    return None


def _rolling(world: Stepped) -> npt.NDArray[np.bool_]:
    """Return the mask of parts that have no upright (balls) and creep in place for long."""
    return np.array([_rolls(world, int(part)) for part in _parts(world)], dtype=bool)


def _rolls(world: Stepped, body: int) -> bool:
    """Whether all that a body touches with is round."""
    model = world.model
    geoms = [geom for geom in np.flatnonzero(model.geom_bodyid == body) if model.geom_contype[geom]]
    return bool(geoms) and all(model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_SPHERE for geom in geoms)


def _outside(world: Stepped, limits: Limits) -> str | None:
    """Return which object left the workspace region in which it was drawn, or None."""
    for placer in plan_placement(world.problem, world.scene).placers:
        if placer.reference is None and not placer.body.is_fixture and not _inside(world, placer, limits):
            return f"{placer.body.name} is outside its region"
    return None


def _inside(world: Stepped, placer: Placer, limits: Limits) -> bool:
    place = world.data.body(placer.body.root_body).xpos[:2] - np.array(placer.origin[:2])
    # A body that is kept inside a region narrower than itself is drawn between the swapped bounds.
    margin = placer.body.radius if placer.keep_inside else 0.0
    for x0, y0, x1, y1 in placer.rectangles:
        bounds = np.array([[x0, y0], [x1, y1], [x0 + margin, y0 + margin], [x1 - margin, y1 - margin]])
        beyond = np.maximum(bounds.min(axis=0) - place, place - bounds.max(axis=0))
        if beyond.max() <= limits.outside:
            return True
    return False


def _too_fast(world: Stepped, limits: Limits) -> str | None:
    model, data = world.model, world.data
    for part in _parts(world):
        for dof in range(model.body_dofadr[part], model.body_dofadr[part] + model.body_dofnum[part]):
            joint = model.dof_jntid[dof]
            kind, offset = model.jnt_type[joint], dof - model.jnt_dofadr[joint]
            turns = kind == mujoco.mjtJoint.mjJNT_HINGE or (kind == mujoco.mjtJoint.mjJNT_FREE and offset >= 3)
            if abs(data.qvel[dof]) > (limits.spin if turns else limits.speed):
                return f"{model.body(part).name} does not come to rest"
    return None


def _too_deep(world: Stepped, limits: Limits) -> str | None:
    contacts = world.data.contact
    if not len(contacts.dist) or contacts.dist.min() >= -limits.depth:
        return None
    one, other = (_geom_named(world, int(geom)) for geom in contacts.geom[int(contacts.dist.argmin())])
    return f"{one} and {other} overlap"


def _geom_named(world: Stepped, geom: int) -> str:
    model = world.model
    # LIBERO's tables and a user's models have geoms without a name.
    return str(model.geom(geom).name) or f"a geom of {model.body(model.geom_bodyid[geom]).name}"


def generator_of(name: str, after: int = 0) -> np.random.Generator:
    """Return the generator of a task's draws.

    It depends only on the task's name, so that further tasks change no others.

    Args:
        name: the task's key.
        after: how many init states the task has already; states added to these have a generator of their own, so
            that none of these has to be simulated again.
    """
    seed = zlib.crc32(name.encode())
    return np.random.default_rng([seed, after] if after else seed)
