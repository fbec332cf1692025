"""Makes init states: draws a scene, lets it come to rest, checks it, and draws anew where something is amiss.

``python -m pytest_vla.sim.settle --data DIR [TASK ...]`` makes those of a user's own tasks, 50 a task, each at rest for
ten seconds. A task's name decides its draws, so that the same files give the same states on one machine.
"""

import argparse
import sys
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.errors import SceneError, VlaError
from pytest_vla.kernels import pinned_processes
from pytest_vla.plan.data_roots import data_base
from pytest_vla.plan.manifests import load_suite, suite_names, takes_tasks
from pytest_vla.plan.task import Task
from pytest_vla.scene.placement import Placer, plan_placement
from pytest_vla.sim.arm import ARM_JOINTS, FINGERS, REST_FINGERS, REST_JOINTS
from pytest_vla.sim.world import World
from pytest_vla.util.files import whole_file

Array = npt.NDArray[np.float64]

# Of what the command line is asked for: more init states, or longer waits (s), are a slip of the keyboard.
_MOST = 10_000
_LONGEST = 3600.0


@dataclass(frozen=True)
class Limits:
    """What counts as calm.

    Attributes:
        speed, spin: how fast anything may move at the end (m/s, rad/s).
        drift, turn: how far it may have moved since it came to rest (m, degrees).
        shift, tilt: how far it may be from where it was drawn, horizontally and from its upright (m, degrees).
        sink: how far it may have fallen from where it was drawn (m); draws of LIBERO's objects stand up to 0.06 m high.
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
    """Where the moving parts of objects and fixtures are: positions (n, 3) in metres, rotations (n, 3, 3)."""

    positions: Array
    rotations: Array


def settled_states(
    world: World,
    count: int,
    generator: np.random.Generator,
    *,
    settle_seconds: float = 2.0,
    hold_seconds: float = 2.0,
    tries: int = 40,
    limits: Limits | None = None,
) -> Array:
    """Init states of the world's task: everything at rest, the arm in its rest pose, all velocities zero.

    Fixtures that a scene seed moves stand, in each state, where one drawn seed had them: such a task's states fit only
    scenes whose fixtures stand alike.

    Args:
        world: of the task; it is reset, and must be reset before its next step.
        count: how many.
        generator: draws the scene seeds.
        settle_seconds: how long a drawn scene is left alone before it is judged.
        hold_seconds: how long the finished state must stay as it is.
        tries: draws for one state before giving up.
        limits: what counts as calm; `Limits()` where None.

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
    world: World,
    generator: np.random.Generator,
    *,
    number: int = 0,
    settle_seconds: float = 2.0,
    hold_seconds: float = 2.0,
    tries: int = 40,
    limits: Limits | None = None,
) -> tuple[Array, int]:
    """One state as of `settled_states`, and the scene seed that its fixtures stand by.

    Args:
        world, generator, settle_seconds, hold_seconds, tries, limits: as for `settled_states`.
        number: of the state, for the message.

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
                f"{world.problem.source}: no init state {number} that is calm in {tries} draws: {told}. "
                "Move the regions apart, or mend the objects' collision geoms and masses."
            )


def unrest(world: World, state: npt.ArrayLike, seconds: float, limits: Limits | None = None) -> str | None:
    """Why a state is no calm start of the world's task; None where it is.

    Args:
        world: of the task; it is reset to the state and stepped with the suite's settle action.
        state: (1+nq+nv,).
        seconds: how long it is watched.
        limits: what counts as calm; `Limits()` where None.
    """
    limits = limits or Limits()
    world.reset(state, settle=False)
    if world.success():
        return "the goal holds already"
    if depth := _too_deep(world, limits):
        return depth
    before = _poses(world)
    action = np.array(world.task.protocol.settle_action)
    for _ in range(_steps(world, seconds)):
        world.step(action)
        if moved := _moved(world, before, limits):
            return moved
    return _too_fast(world, limits)


def _drawn(world: World, scene_seed: int, seconds: float, limits: Limits) -> tuple[Array, str | None]:
    """A state that a drawn scene came to rest in, and why it is not fit."""
    world.reset(None, scene_seed=scene_seed, settle=False)
    model, data = world.model, world.data
    drawn = _poses(world)
    action = np.array(world.task.protocol.settle_action)
    for _ in range(_steps(world, seconds)):
        world.step(action)
    qpos = data.qpos.copy()
    qpos[:ARM_JOINTS] = REST_JOINTS
    qpos[ARM_JOINTS : ARM_JOINTS + FINGERS] = REST_FINGERS
    state = np.concatenate([[0.0], qpos, np.zeros(model.nv)])
    return state, _displaced(world, drawn, limits) or _outside(world, limits) or _too_fast(world, limits)


def _steps(world: World, seconds: float) -> int:
    return round(seconds * world.task.protocol.control_freq)


def _parts(world: World) -> npt.NDArray[np.int64]:
    """Bodies of objects and fixtures that can move."""
    model = world.model
    roots = [model.body(body.root_body).id for body in world.scene.bodies]
    return np.flatnonzero(np.isin(model.body_rootid, roots) & (model.body_weldid != 0))


def _poses(world: World) -> _Poses:
    parts = _parts(world)
    return _Poses(world.data.xpos[parts].copy(), world.data.xmat[parts].reshape(-1, 3, 3).copy())


def _named(world: World, part: int) -> str:
    return str(world.model.body(_parts(world)[part]).name)


def _moved(world: World, before: _Poses, limits: Limits) -> str | None:
    now = _poses(world)
    distances = np.linalg.norm(now.positions - before.positions, axis=1)
    angles = _angles(np.einsum("nij,nij->n", now.rotations, before.rotations))
    if len(distances) and distances.max() > limits.drift:
        return f"{_named(world, int(distances.argmax()))} drifts"
    if len(angles) and angles.max() > limits.turn:
        return f"{_named(world, int(angles.argmax()))} turns"
    return None


def _angles(traces: Array) -> Array:
    """Angles (degrees) of rotations by their traces."""
    return np.asarray(np.degrees(np.arccos(np.clip((traces - 1) / 2, -1, 1))))


def _displaced(world: World, drawn: _Poses, limits: Limits) -> str | None:
    now = _poses(world)
    shift = np.linalg.norm((now.positions - drawn.positions)[:, :2], axis=1)
    sink = drawn.positions[:, 2] - now.positions[:, 2]
    # The angle between the present and the drawn direction of what pointed up when drawn.
    up = drawn.rotations[:, 2, :]
    tilt = np.degrees(np.arccos(np.clip(np.einsum("nj,nj->n", now.rotations[:, 2, :], up), -1, 1)))
    for part in range(len(shift)):
        if tilt[part] > limits.tilt:
            return f"{_named(world, part)} tilts"
        if sink[part] > limits.sink:
            return f"{_named(world, part)} falls"
        if shift[part] > limits.shift:
            return f"{_named(world, part)} slides away"
    return None


def _outside(world: World, limits: Limits) -> str | None:
    """An object that left the workspace region in which it was drawn."""
    for placer in plan_placement(world.problem, world.scene).placers:
        if placer.reference is None and not placer.body.is_fixture and not _inside(world, placer, limits):
            return f"{placer.body.name} is outside its region"
    return None


def _inside(world: World, placer: Placer, limits: Limits) -> bool:
    place = world.data.body(placer.body.root_body).xpos[:2] - np.array(placer.origin[:2])
    # A body that is kept inside a region narrower than itself is drawn from what lies between the swapped bounds.
    margin = placer.body.radius if placer.keep_inside else 0.0
    for x0, y0, x1, y1 in placer.rectangles:
        bounds = np.array([[x0, y0], [x1, y1], [x0 + margin, y0 + margin], [x1 - margin, y1 - margin]])
        beyond = np.maximum(bounds.min(axis=0) - place, place - bounds.max(axis=0))
        if beyond.max() <= limits.outside:
            return True
    return False


def _too_fast(world: World, limits: Limits) -> str | None:
    model, data = world.model, world.data
    for part in _parts(world):
        for dof in range(model.body_dofadr[part], model.body_dofadr[part] + model.body_dofnum[part]):
            joint = model.dof_jntid[dof]
            kind, offset = model.jnt_type[joint], dof - model.jnt_dofadr[joint]
            turns = kind == mujoco.mjtJoint.mjJNT_HINGE or (kind == mujoco.mjtJoint.mjJNT_FREE and offset >= 3)
            if abs(data.qvel[dof]) > (limits.spin if turns else limits.speed):
                return f"{model.body(part).name} does not come to rest"
    return None


def _too_deep(world: World, limits: Limits) -> str | None:
    contacts = world.data.contact
    if not len(contacts.dist) or contacts.dist.min() >= -limits.depth:
        return None
    one, other = (_geom_named(world, int(geom)) for geom in contacts.geom[int(contacts.dist.argmin())])
    return f"{one} and {other} are in each other"


def _geom_named(world: World, geom: int) -> str:
    model = world.model
    # LIBERO's tables and a user's models have geoms without a name.
    return str(model.geom(geom).name) or f"a geom of {model.body(model.geom_bodyid[geom]).name}"


def generator_of(name: str) -> np.random.Generator:
    """The source of a task's draws: it follows from the task's name, so that further tasks change no others."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def write_init_states(task: Task, folder: Path, count: int | None = None, hold_seconds: float = 10.0) -> Path:
    """Makes a task's init states and writes them, whole or not at all, to ``TASK.pruned_init``.

    Args:
        task: whose.
        folder: where to; it is made.
        count: how many; the protocol's number where None.
        hold_seconds: how long each must stay as it is.

    Raises:
        VlaError: the scene cannot be used or does not come to rest, or the file cannot be written.
    """
    with World(task) as world:
        number = task.protocol.init_states if count is None else count
        states = settled_states(world, number, generator_of(task.name), hold_seconds=hold_seconds)
    path = folder / f"{task.name}.pruned_init"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise VlaError(f"cannot write {path}: {error.strerror or error}") from error
    with whole_file(path) as file:
        np.save(file, states)
    return path


def write_all(tasks: Sequence[Task], folder: Path, count: int | None = None, hold_seconds: float = 10.0) -> bool:
    """`write_init_states` of several tasks, on all processors; says what became of each. False where any failed."""
    well = True
    with pinned_processes(len(tasks)) as pool:
        for future in [pool.submit(write_init_states, task, folder, count, hold_seconds) for task in tasks]:
            try:
                print(future.result(), flush=True)
            except VlaError as error:
                print(error, file=sys.stderr, flush=True)
                well = False
    return well


def main(arguments: list[str] | None = None) -> int:
    """Makes init states for tasks in a user's data folder; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m pytest_vla.sim.settle", description="Make the init states of tasks of your own."
    )
    parser.add_argument("--suite", default="tabletop", help="the suite that the tasks belong to (default: tabletop)")
    parser.add_argument("--data", required=True, metavar="DIR", help="your folder, as for --vla-data")
    parser.add_argument("--count", type=int, metavar="N", help="init states a task (default: the suite's number, 50)")
    parser.add_argument("--hold", type=float, default=10.0, metavar="S", help="seconds each stays still (default: 10)")
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="default: every task in DIR without init states")
    options = parser.parse_args(arguments)
    try:
        if options.count is not None and not 1 <= options.count <= _MOST:
            raise VlaError(f"--count={options.count}: expected 1 to {_MOST}")
        if not 0 <= options.hold <= _LONGEST:
            raise VlaError(f"--hold={options.hold}: expected seconds from 0 to {_LONGEST}")
        tasks, folder = _asked(options.suite, Path(options.data), options.tasks)
    except VlaError as error:
        print(error, file=sys.stderr)
        return 2
    return 0 if write_all(tasks, folder, options.count, options.hold) else 1


def _asked(name: str, data: Path, names: Sequence[str]) -> tuple[list[Task], Path]:
    """The tasks that were asked for, and the folder of their init states."""
    data = data.expanduser().absolute()
    base = data_base(data)
    suite = load_suite(name, data=data)
    if not takes_tasks(name):
        open_suites = ", ".join(other for other in suite_names() if takes_tasks(other))
        raise VlaError(f"suite {name}: its init states are upstream's, take them from there. Yours join: {open_suites}")
    if base is None or not (base / "bddl_files" / name).is_dir():
        raise VlaError(f"{data}: expected task files in bddl_files/{name}, found no such folder")
    folder = base / "init_files" / name
    if names:
        return [suite.task(task) for task in dict.fromkeys(names)], folder
    there = [task for task in suite.tasks if (base / "bddl_files" / name / f"{task.name}.bddl").is_file()]
    lacking = [task for task in there if not (folder / f"{task.name}.pruned_init").is_file()]
    if not lacking:
        raise VlaError(f"{data}: all of its {len(there)} tasks have init states; name those to make anew")
    return lacking, folder


if __name__ == "__main__":
    sys.exit(main())
