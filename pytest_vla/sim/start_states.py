"""What episodes start from: a task's init states as they are, with added objects, or states that are settled anew."""

import hashlib
import json
import weakref
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, Protocol

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.errors import RedrawError, SceneError, VlaError
from pytest_vla.plan.data_roots import DataRoot, find_init_states
from pytest_vla.scene.init_states import read_init_states
from pytest_vla.scene.placement import draw_placement, plan_placement
from pytest_vla.scene.problem import Problem, format_problem
from pytest_vla.scene.scene import Scene
from pytest_vla.scene.variation import Variation
from pytest_vla.sim.arguments import is_index, vector
from pytest_vla.sim.placing import site_positions
from pytest_vla.sim.settle import Limits, Stepped, settled_state
from pytest_vla.util.arrays import Unfit, array_of, parse_npy, read_bytes
from pytest_vla.util.files import whole_file
from pytest_vla.util.folders import cache_folder
from pytest_vla.versions import installed_versions

Array = npt.NDArray[np.float64]

Origin = Literal["own", "with-added", "settled"]
"""The task's own; its own, with objects that the scene has beside them; made here, since what stands where is other."""

# Raised where states come out differently, so that those on disk are made anew.
_FORMAT = 2
# Of a cached state; one has hundreds of numbers.
_MAX_BYTES = 1 << 24
# Draws of one state; the variation may be drawn again too.
_TRIES = 12


class Startable(Stepped, Protocol):
    """What the states that episodes start from need of a world; `pytest_vla.World` is one."""

    variation: Variation | None
    scene_digest: str


@dataclass(frozen=True)
class Start:
    """A state (1+nq+nv,), [time, qpos, qvel], and the scene seed that fixtures stand by; None: the episode's."""

    state: Array
    scene_seed: int | None = None


def origin_of(original: Problem, problem: Problem) -> Origin:
    """Where the init states of a changed problem come from.

    Args:
        original: the task's own.
        problem: the changed one.
    """
    if original.fixtures != problem.fixtures or original.name != problem.name:
        return "settled"
    # Of one key that stands twice the last counts.
    known, now = ({region.key: region for region in each.regions} for each in (original, problem))
    placed = {str(argument) for literal in original.init for argument in literal.arguments}
    moved = [region for region in now.values() if region.key in placed and known.get(region.key) != region]
    objects, init = len(original.objects), len(original.init)
    # What is larger or smaller stands where it stood.
    same = [replace(each, scale=1.0) for each in problem.objects[:objects]] == list(original.objects)
    if moved or not same or problem.init[:init] != original.init:
        return "settled"
    if len(problem.objects) > objects:
        return "with-added"
    return "own" if len(problem.init) == init else "settled"


class Starts:
    """The init states of a world's task under its variation; read, and where need be made, when asked for.

    Attributes:
        origin: where they come from.
    """

    def __init__(self, world: Startable, original: Problem, roots: tuple[DataRoot, ...]) -> None:
        # The world holds this: no circle, so that a world goes as soon as nobody has it.
        self._world: Startable = weakref.proxy(world)
        self._roots = roots
        given = world.variation.init_states if world.variation is not None else None
        self._given = given
        self.origin: Origin = "own" if given is not None else origin_of(original, world.problem)
        known = {item.name for item in original.objects}
        bodies = world.scene.bodies if self.origin == "with-added" else ()
        self._added = tuple(
            joint for body in bodies if not body.is_fixture and body.name not in known for joint in body.joints
        )
        self._own: Array | None = None
        self._settled: dict[int, Start] = {}

    @property
    def own(self) -> Array:
        """Those of the task as it is (n, 1+nq+nv): [time, qpos, qvel]. Raises SceneError where they cannot be used."""
        if self._own is None:
            model = self._world.model
            added = sum(sum(_joint_sizes(model, model.joint(name).id)) for name in self._added)
            size = 1 + model.nq + model.nv - added
            states, source = self._read()
            if states.shape[1] != size:
                raise SceneError(
                    f"{source}: states have {states.shape[1]} numbers, but this scene has 1+nq+nv = {size}. "
                    "Task file and init states are of different versions: take both from one place."
                )
            self._own = states
        return self._own

    def _read(self) -> tuple[Array, str]:
        """The states, and where they are from."""
        task = self._world.task
        if self._given is not None:
            return self._given(), f"init states of {self._world.problem.source}"
        path, member = find_init_states(self._roots, task)
        return read_init_states(path, member), str(path) if member is None else f"{path}: {member}"

    @property
    def count(self) -> int:
        """How many there are."""
        return self._world.task.protocol.init_states if self.origin == "settled" else len(self.own)

    def start(self, init_state: int | npt.ArrayLike, scene_seed: int) -> Start:
        """The init state with a number, as `at` has it, or the flat vector [time, qpos, qvel]. Raises VlaError."""
        if is_index(init_state):
            return self.at(int(init_state), scene_seed)
        size = 1 + self._world.model.nq + self._world.model.nv
        return Start(vector(init_state, size, "an init state is an index or [time, qpos, qvel]"))

    def at(self, index: int, scene_seed: int) -> Start:
        """An init state by its number, as it is before `changed`.

        Args:
            index: 0 and on.
            scene_seed: of the episode; it places objects that were added.

        Raises:
            VlaError: there is no such init state.
            RedrawError: what the variation has changed does not come to rest.
        """
        world = self._world
        if not 0 <= index < self.count:
            raise VlaError(f"init state {index}: task {world.task.key} has 0 to {self.count - 1}")
        if self.origin == "settled":
            if index not in self._settled:
                self._settled[index] = settled_start(world, index)
            start = self._settled[index]
        elif self.origin == "with-added":
            start = Start(with_added(world.model, world.scene, world.problem, self.own[index], self._added, scene_seed))
        else:
            start = Start(self.own[index])
        return start

    def changed(self, state: Array) -> Array:
        """An init state with what the variation changes of it; fixtures stand where the model has them.

        Raises:
            RedrawError: what was drawn for the variation cannot be had from it.
        """
        world = self._world
        edits = () if world.variation is None else world.variation.state
        if not edits:
            return state
        state = state.copy()
        for edit in edits:
            edit(world.model, world.scene, state)
        return state


def with_added(
    model: mujoco.MjModel,
    scene: Scene,
    problem: Problem,
    state: Array,
    added: tuple[str, ...],
    scene_seed: int,
) -> Array:
    """A task's init state with the objects that were added, where the scene seed draws them; at rest.

    Args:
        model: of the changed scene.
        scene, problem: the changed ones.
        state: [time, qpos, qvel] of the scene without them.
        added: their joints.
        scene_seed: of the episode.
    """
    placement = draw_placement(
        plan_placement(problem, scene), scene_seed, partial(site_positions, model, mujoco.MjData(model))
    )
    poses = {
        body.joints[-1]: np.concatenate(placement.objects[body.name])
        for body in scene.bodies
        if body.joints and body.name in placement.objects
    }
    qpos, qvel = np.zeros(model.nq), np.zeros(model.nv)
    own = model.nq - sum(_joint_sizes(model, model.joint(name).id)[0] for name in added)
    taken_positions, taken_velocities = 1, 1 + own
    for joint in range(model.njnt):
        count, freedom = _joint_sizes(model, joint)
        at, speed = model.jnt_qposadr[joint], model.jnt_dofadr[joint]
        name = model.joint(joint).name
        if name in added:
            qpos[at : at + count] = poses[name]
            continue
        qpos[at : at + count] = state[taken_positions : taken_positions + count]
        qvel[speed : speed + freedom] = state[taken_velocities : taken_velocities + freedom]
        taken_positions, taken_velocities = taken_positions + count, taken_velocities + freedom
    return np.concatenate([state[:1], qpos, qvel])


def settled_start(world: Startable, index: int) -> Start:
    """A state of the world's problem that has come to rest, from disk or made now; the same on any machine.

    Args:
        world: is reset, where it is made.
        index: 0 and on.

    Raises:
        RedrawError: the scene does not come to rest.
    """
    drawn_for = [_FORMAT, world.scene_digest, format_problem(world.problem), index]
    # What is drawn is the same on any machine; what comes of it may be rounded otherwise.
    digest, made_of = _digest_of(drawn_for), _digest_of([*drawn_for, installed_versions()])
    file = cache_folder() / "starts" / f"{made_of[:32]}.npy"
    found = _read(file, 2 + world.model.nq + world.model.nv)
    if found is None:
        generator = np.random.default_rng([int(digest[:8], 16), index])
        # LIBERO's own scenes let bowls drop 0.16 m, and slide 0.04 m off a ramekin.
        limits = Limits(sink=0.2, shift=0.05, outside=0.05)
        try:
            state, scene_seed = settled_state(world, generator, number=index, tries=_TRIES, limits=limits)
        except SceneError as error:
            raise RedrawError(str(error)) from error
        found = np.concatenate([[float(scene_seed)], state])
        _write(file, found)
    return Start(found[1:], int(found[0]))


def _digest_of(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _joint_sizes(model: mujoco.MjModel, joint: int) -> tuple[int, int]:
    """Numbers of a joint in qpos and in qvel."""
    kind = model.jnt_type[joint]
    if kind == mujoco.mjtJoint.mjJNT_FREE:
        return 7, 6
    return (4, 3) if kind == mujoco.mjtJoint.mjJNT_BALL else (1, 1)


def _read(file: Path, size: int) -> Array | None:
    try:
        values = array_of(parse_npy(read_bytes(file, _MAX_BYTES)))
    except Unfit:
        return None
    if values.dtype.kind != "f":
        return None
    return np.asarray(values, dtype=np.float64) if values.shape == (size,) and np.isfinite(values).all() else None


def _write(file: Path, values: Array) -> None:
    """Whole or not at all; where it cannot be written, it is made again the next time."""
    with suppress(OSError, VlaError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(file) as stream:
            np.save(stream, values)
