"""Start states of episodes: a task's init states as they are, with added objects, or states that are settled anew."""

import hashlib
import json
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Protocol, TypeGuard

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.errors import EpisodeError, RedrawError, SceneError, VlaError
from pytest_vla.plan.data_roots import DataRoot, find_init_states
from pytest_vla.records.counting import digest_number
from pytest_vla.scene.init_states import read_init_states
from pytest_vla.scene.panda import ARM_JOINTS, FINGERS
from pytest_vla.scene.placement import Placement, draw_placement, plan_placement
from pytest_vla.scene.problem import Problem, format_problem
from pytest_vla.scene.scene import SceneBody, SceneSpec
from pytest_vla.scene.variation import Variation
from pytest_vla.sim.arm import REST_FINGERS
from pytest_vla.sim.settle import Limits, Stepped, settled_state
from pytest_vla.util.arrays import read_cached, write_cached
from pytest_vla.util.files import cache_folder
from pytest_vla.versions import installed_versions

# Drawn placements written into a model and its data, as a reset of robosuite does.

Array = npt.NDArray[np.float64]
Point = tuple[float, float, float]

_AWAY = 1e5
"""m. It would take a thing more than two minutes to fall from there; the longest episode lasts 30 seconds."""


def site_positions(
    model: mujoco.MjModel, scratch: mujoco.MjData, joints: Mapping[str, float]
) -> Callable[[str], Array]:
    """Return a function from a site's name to its world position (3,), with these joints set.

    Fixtures are where the model has them. `scratch` is overwritten at the first call; most scenes make none.
    """
    moved = False

    def position(name: str) -> Array:
        nonlocal moved
        if not moved:
            moved = True
            mujoco.mj_resetData(model, scratch)
            for joint, value in joints.items():
                scratch.joint(joint).qpos[0] = value
            mujoco.mj_kinematics(model, scratch)
        return np.array(scratch.site(name).xpos)

    return position


def place_fixtures(model: mujoco.MjModel, scene: SceneSpec, placement: Placement) -> None:
    """Move fixtures; they have no joints, so their poses are written to the model."""
    for name, (position, quaternion) in placement.fixtures.items():
        identifier = model.body(_body(scene, name).root_body).id
        model.body_pos[identifier] = position
        model.body_quat[identifier] = quaternion


def place_objects(
    model: mujoco.MjModel, qpos: Array, scene: SceneSpec, placement: Placement, rest_joints: Array
) -> None:
    """Write the arm (7,) and fingers at rest, drawn joints, and free objects at their poses to `qpos` (nq,)."""
    qpos[:ARM_JOINTS] = rest_joints
    qpos[ARM_JOINTS : ARM_JOINTS + FINGERS] = REST_FINGERS
    for joint, value in placement.joints.items():
        qpos[model.joint(joint).qposadr[0]] = value
    for name, (position, quaternion) in placement.objects.items():
        address = model.joint(_body(scene, name).joints[-1]).qposadr[0]
        qpos[address : address + 7] = np.concatenate([position, quaternion])


def take_away(model: mujoco.MjModel, scene: SceneSpec, state: Array, names: Iterable[str]) -> dict[str, Point]:
    """Move objects out of the world: so far up that nothing sees or meets them, where they fall freely.

    Everything else moves as if they were still there, bit for bit, as long as it would not touch them.

    Args:
        model, scene: the world's.
        state: (1+nq+nv,), [time, qpos, qvel], written.
        names: of the objects.

    Returns:
        Where each of them was (m).
    """
    places: dict[str, Point] = {}
    for number, name in enumerate(names, 1):
        joint = model.joint(_body(scene, name).joints[-1])
        position = 1 + joint.qposadr[0]
        x, y, z = (float(value) for value in state[position : position + 3])
        places[name] = (x, y, z)
        # Apart from each other, as they fall side by side.
        state[position : position + 3] = _AWAY * number, 0.0, _AWAY
        state[1 + model.nq + joint.dofadr[0] :][:6] = 0.0
    return places


def placed_number(model: mujoco.MjModel, data: mujoco.MjData, beside: int) -> int:
    """Return a number of 48 bits that identifies a start.

    It is equal for equal starts, and almost surely different for others.

    Args:
        model: with its fixtures in place.
        data: reset to the episode's beginning.
        beside: anything else that the start depends on, such as the seed of drawn colours.
    """
    parts = (
        model.body_pos,
        model.body_quat,
        data.mocap_pos,
        data.mocap_quat,
        data.qpos,
        data.qvel,
        data.qacc_warmstart,
    )
    found = hashlib.sha256(str(beside).encode())
    for part in parts:
        # 0.0 and -0.0 differ in bits: adding 0.0 makes them equal.
        found.update(np.ascontiguousarray(part + 0.0).tobytes())
    return int.from_bytes(found.digest()[:6])


def hide_sites(model: mujoco.MjModel, scene: SceneSpec) -> None:
    """Give the sites of robot and objects a negative alpha: robosuite's way to hide them."""
    for name in scene.hidden_sites:
        rgba = model.site(name).rgba
        if rgba[3] > 0:
            rgba[3] = -rgba[3]


def _body(scene: SceneSpec, name: str) -> SceneBody:
    body = scene.body(name)
    assert body is not None, f"{name} was placed, so it is in the scene"
    return body


# Checks of callers' values: numbers of the right shape.

ACTION_SIZE = 7
# The largest picture that every OpenGL can draw.
MAX_PICTURE_SIDE = 4096


def numbers(value: npt.ArrayLike) -> Array | None:
    """Return the value as float64, or None if it is no array of real numbers."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return None
    return array.astype(np.float64) if array.dtype.kind in "fiu" else None


def is_index(value: object) -> TypeGuard[int]:
    """Return whether the value is an integer index, and not an array or a bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def vector(value: npt.ArrayLike, size: int, what: str) -> Array:
    """Return the value as `size` finite numbers; raises VlaError, which begins with `what`."""
    values = numbers(value)
    if values is None or values.shape != (size,) or not np.isfinite(values).all():
        got = repr(value) if values is None or values.ndim == 0 else f"shape {values.shape}"
        raise VlaError(f"{what} of {size} finite numbers, got {got}")
    return values


def checked_action(action: npt.ArrayLike) -> Array:
    """Return an action (7,) of finite numbers.

    Raises EpisodeError: ``action-dtype``, ``action-shape`` or ``action-nan``.
    """
    values = numbers(action)
    if values is None:
        raise EpisodeError("action-dtype", f"expected seven real numbers, got {action!r:.200}")
    if values.shape != (ACTION_SIZE,):
        raise EpisodeError("action-shape", f"expected an action of shape (7,), got {values.shape}")
    if not np.isfinite(values).all():
        raise EpisodeError("action-nan", f"expected finite numbers, got {values.tolist()}")
    return values


def checked_seed(scene_seed: int) -> int:
    """Return the scene seed as upstream's generators take it; raises VlaError."""
    if not isinstance(scene_seed, int | np.integer) or not 0 <= scene_seed < 2**32:
        raise VlaError(f"scene seed {scene_seed!r}: expected an integer from 0 to {2**32 - 1}")
    return int(scene_seed)


def checked_size(size: tuple[int, int]) -> tuple[int, int]:
    """Return height and width in pixels; raises VlaError if no picture can have them."""
    try:
        height, width = size
    except (TypeError, ValueError):
        height = width = 0
    if not all(isinstance(side, int | np.integer) and 1 <= side <= MAX_PICTURE_SIDE for side in (height, width)):
        raise VlaError(f"image_size={size!r}: expected height and width in pixels, 1 to {MAX_PICTURE_SIDE}")
    return int(height), int(width)


Origin = Literal["own", "with-added", "settled"]
"""The task's own; its own, with objects that the scene has beside them; made here, since what stands where is other."""

# Increased when states change, so that those on disk are made again.
_FORMAT = 2
# The largest cached state in bytes; a state has hundreds of numbers.
_MAX_BYTES = 1 << 24
# The most draws of one state; the variation may be drawn again too.
_TRIES = 12


class Startable(Stepped, Protocol):
    """The part of a world that start states need; `pytest_vla.World` has it."""

    variation: Variation | None
    scene_digest: str


@dataclass(frozen=True)
class Start:
    """A state (1+nq+nv,), [time, qpos, qvel], and the scene seed that places fixtures.

    The scene seed is None if it is the episode's.
    """

    state: Array
    scene_seed: int | None = None


def origin_of(original: Problem, problem: Problem) -> Origin:
    """Return the origin of the init states of a changed problem.

    Args:
        original: the task's own problem.
        problem: the changed problem.
    """
    if original.fixtures != problem.fixtures or original.name != problem.name:
        return "settled"
    # If a key occurs twice, the last region counts.
    known, now = ({region.key: region for region in each.regions} for each in (original, problem))
    placed = {str(argument) for literal in original.init for argument in literal.arguments}
    moved = [region for region in now.values() if region.key in placed and known.get(region.key) != region]
    objects, init = len(original.objects), len(original.init)
    # A scaled object keeps its place.
    same = [replace(each, scale=1.0) for each in problem.objects[:objects]] == list(original.objects)
    if moved or not same or problem.init[:init] != original.init:
        return "settled"
    if len(problem.objects) > objects:
        return "with-added"
    return "own" if len(problem.init) == init else "settled"


class Starts:
    """The init states of a world's task under its variation; read, or made if necessary, on demand.

    Attributes:
        origin: their origin, see `origin_of`.
    """

    def __init__(self, world: Startable, original: Problem, roots: tuple[DataRoot, ...]) -> None:
        # The world owns this object: a weak reference, so that a world is freed as soon as it is unused.
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
        """The init states of the unvaried task (n, 1+nq+nv): [time, qpos, qvel].

        Raises SceneError if they cannot be used.
        """
        if self._own is None:
            model = self._world.model
            added = sum(sum(_joint_sizes(model, model.joint(name).id)) for name in self._added)
            size = 1 + model.nq + model.nv - added
            states, source = self._read()
            if states.shape[1] != size:
                raise SceneError(
                    f"{source}: states have {states.shape[1]} numbers, but this scene has 1+nq+nv = {size}. "
                    "Task file and init states come from different versions: take both from one source."
                )
            self._own = states
        return self._own

    def _read(self) -> tuple[Array, str]:
        """Return the states and their source."""
        task = self._world.task
        if self._given is not None:
            return self._given(), f"init states of {self._world.problem.source}"
        path, member = find_init_states(self._roots, task)
        return read_init_states(path, member), str(path) if member is None else f"{path}: {member}"

    @property
    def count(self) -> int:
        """The number of init states."""
        return self._world.task.protocol.init_states if self.origin == "settled" else len(self.own)

    def start(self, init_state: int | npt.ArrayLike, scene_seed: int) -> Start:
        """Return the init state with an index, as `at` does, or the given flat vector [time, qpos, qvel].

        Raises VlaError.
        """
        if is_index(init_state):
            return self.at(int(init_state), scene_seed)
        size = 1 + self._world.model.nq + self._world.model.nv
        return Start(vector(init_state, size, "an init state is an index or [time, qpos, qvel]"))

    def digest(self, init_state: object) -> int | None:
        """Return a number of 48 bits that identifies the content of an init state in the task's file.

        None if it is not read from a file: a vector, or a state that the changed scene makes anew.
        """
        if self.origin == "settled" or not is_index(init_state) or not 0 <= init_state < len(self.own):
            return None
        return digest_number(self.own[init_state] + 0.0)

    def at(self, index: int, scene_seed: int) -> Start:
        """Return an init state by its index, before `changed` is applied.

        Args:
            index: 0 and up.
            scene_seed: of the episode; it places objects that were added.

        Raises:
            VlaError: there is no such init state.
            RedrawError: the variation's changes do not come to rest.
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
        """Return an init state with the variation's changes applied; fixtures stand where the model has them.

        Raises:
            RedrawError: the variation's draw is impossible in this init state.
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
    scene: SceneSpec,
    problem: Problem,
    state: Array,
    added: tuple[str, ...],
    scene_seed: int,
) -> Array:
    """Return a task's init state with the added objects, placed by the scene seed, at rest.

    Args:
        model: of the changed scene.
        scene, problem: the changed ones.
        state: [time, qpos, qvel] of the scene without the added objects.
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
    """Return a state of the world's problem that has come to rest, read from disk or made now.

    The state is the same on any machine.

    Args:
        world: is reset if the state has to be made.
        index: 0 and up.

    Raises:
        RedrawError: the scene does not come to rest.
    """
    drawn_for = [_FORMAT, world.scene_digest, format_problem(world.problem), index]
    # The draws are the same on any machine; the results may be rounded differently.
    digest, made_of = _digest_of(drawn_for), _digest_of([*drawn_for, installed_versions()])
    file = cache_folder() / "starts" / f"{made_of[:32]}.npy"
    # Others could let episodes begin elsewhere.
    found = read_cached(file, 1 << 24)
    if found is None or found.shape != (2 + world.model.nq + world.model.nv,):
        generator = np.random.default_rng([int(digest[:8], 16), index])
        # LIBERO's own scenes let bowls drop 0.16 m, and slide 0.04 m off a ramekin.
        limits = Limits(sink=0.2, shift=0.05, outside=0.05)
        try:
            state, scene_seed = settled_state(world, generator, number=index, tries=_TRIES, limits=limits)
        except SceneError as error:
            raise RedrawError(str(error)) from error
        found = np.concatenate([[float(scene_seed)], state])
        write_cached(file, found)
    return Start(found[1:], int(found[0]))


def _digest_of(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _joint_sizes(model: mujoco.MjModel, joint: int) -> tuple[int, int]:
    """Return how many numbers of a joint are in qpos and in qvel."""
    kind = model.jnt_type[joint]
    if kind == mujoco.mjtJoint.mjJNT_FREE:
        return 7, 6
    return (4, 3) if kind == mujoco.mjtJoint.mjJNT_BALL else (1, 1)
