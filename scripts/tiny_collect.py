"""Episodes to learn from: the expert and the learner drive in turn, and the expert says what it would do.

An episode is driven by the expert with bursts of noise (DART), or by the learner, whom the expert relieves again and
again wherever it has got to (DAgger). What the expert does undisturbed for a chunk's length is a label for the state
in which it begins; where the learner is asked, what the expert would do from there, tried on a copy of the world.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla import load_suite
from pytest_vla.errors import VlaError
from pytest_vla.expert.answers import Answers, Pose, in_frame, in_world
from pytest_vla.expert.articulated import handle_of, part_of
from pytest_vla.expert.heights import corners
from pytest_vla.policies.tiny import network as n
from pytest_vla.policies.view import transformed
from pytest_vla.sim.lazy_observation import Observation
from pytest_vla.sim.settle import settled_states
from pytest_vla.sim.world import World

Array = npt.NDArray[np.float64]
Chunk = npt.NDArray[np.float32]
Drive = Callable[[npt.NDArray[np.float32], npt.NDArray[np.float32], Observation], tuple[Chunk, Chunk | None]]
"""From a scene vector (40,), proprioception (17,) and the observation, a learner's chunk (8, 7), and the scene vector
that it saw; None where it was told."""

Pair = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]

LONGEST = 420
"""Control steps after which an episode is given up."""
_TRANSFORM = "rotate_180"
# A learner whose hand moved less (m) over so many questions is relieved: it would stand there for ever.
_STUCK, _STANDING = 0.003, 4

THINGS = ("bowl_1", "plate_1", "bottle_1", "box_1")
DRAWERS = ("cabinet_1_top_slide", "cabinet_1_middle_slide", "cabinet_1_bottom_slide")
KNOB = "stove_1_knob"
# Of a drawer's joint, and of the knob's, what is 1 in a scene vector: m and rad.
_DRAWER, _TURN = 0.1, 1.0


@dataclass(frozen=True)
class SceneReader:
    """Reads scene vectors (40,) off a world of tabletop.

    Attributes:
        bodies: of the things.
        handles: bodies of the drawers and the knob, and where their handles are in these.
        joints: where the joints stand in qpos.
    """

    bodies: tuple[int, ...]
    handles: tuple[tuple[int, Pose], ...]
    joints: tuple[int, ...]

    def __call__(self, data: mujoco.MjData) -> npt.NDArray[np.float32]:
        """The scene vector of a state."""
        points = [data.xpos[body] for body in self.bodies]
        points += [in_world(data, body, pose).position for body, pose in self.handles]
        bowl, _, bottle, box = (data.xmat[body].reshape(3, 3) for body in self.bodies)
        joints = data.qpos[list(self.joints)] / np.array([_DRAWER] * len(DRAWERS) + [_TURN])
        return np.concatenate(
            [(np.array(points) - n.CENTRE).ravel() / n.SCALE, bowl[:, 2], bottle[:, 2], box[:, 0], box[:, 2], joints]
        ).astype(np.float32)


def scene_reader(world: World) -> SceneReader:
    """The reader of a world that has just been reset, its drawers closed."""
    model, data = world.model, world.data
    handles: list[tuple[int, Pose]] = []
    for name in (*DRAWERS, KNOB):
        part = part_of(model, name)
        middle = corners(model, data, part.geoms).mean(0)
        if part.slides:
            way = part.direction(data, middle, 1.0)
            assert way is not None, name
            middle = handle_of(model, data, part, way).middle
        handles.append((part.body, in_frame(data, part.body, Pose(middle, np.eye(3)))))
    joints = tuple(int(model.jnt_qposadr[model.joint(name).id]) for name in (*DRAWERS, KNOB))
    bodies = tuple(int(model.body(world.scene.body(name).root_body).id) for name in THINGS)  # type: ignore[union-attr]
    return SceneReader(bodies, tuple(handles), joints)


def drawn_states(world: World, tasks: Sequence[str], count: int, seed: int) -> dict[str, Array]:
    """Init states (count, n) of each task, drawn afresh: none of those that the suite ships."""
    suite, found = load_suite("tabletop"), {}
    for place, name in enumerate(tasks):
        generator = np.random.default_rng([seed, place])
        world.switch(suite.task(name))
        found[name] = settled_states(world, count, generator)
    return found


COLUMNS: Mapping[str, tuple[type[np.generic], tuple[int, ...]]] = {
    "scenes": (np.float32, (n.SCENE,)), "arms": (np.float32, (n.PROPRIOCEPTION,)), "chunks": (np.float32, (n.CHUNK, 7)),
    "known": (np.bool_, (n.CHUNK,)), "tasks": (np.int16, ()), "episodes": (np.int32, ()),
    "views": (np.uint8, (n.VIEW, n.VIEW, 3)), "wrists": (np.uint8, (n.WRIST, n.WRIST, 3)), "rows": (np.int32, ()),
    "seen": (np.float32, (n.SCENE,)), "seen_rows": (np.int32, ()),
}  # fmt: skip
"""What is kept of labels, with the type and the shape of a row's.

``known``: which steps of a chunk are labelled; ``tasks``, ``episodes``: of which a row is; ``views``, ``wrists``:
pictures of some rows, ``rows``: of which; ``seen``: what the learner saw in some rows, ``seen_rows``: in which.
"""


class Labels:
    """What episodes left: a row a label."""

    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}

    def add(self, pair: Pair | None, seen: npt.NDArray[np.float32] | None = None, **row: Any) -> None:
        """One row more, with its pictures and what the learner saw where there are any."""
        number = len(self.columns["scenes"])
        row |= {} if pair is None else {"views": pair[0], "wrists": pair[1], "rows": number}
        row |= {} if seen is None else {"seen": seen, "seen_rows": number}
        for name, value in row.items():
            self.columns[name].append(value)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All as arrays."""
        return {name: np.array(self.columns[name], kind).reshape(-1, *shape) for name, (kind, shape) in COLUMNS.items()}


def episode(
    world: World,
    reader: SceneReader,
    task: int,
    number: int,
    init_state: Array,
    rng: np.random.Generator,
    labels: Labels,
    *,
    drive: Drive | None = None,
    pictures: float = 0.0,
) -> bool:
    """One episode; its labels are added if it was done. Says whether the task was done.

    Args:
        world: at its task.
        reader: of its scene vectors.
        task, number: for the labels.
        init_state: where it begins, MuJoCo's flat state (time, qpos, qvel).
        rng: draws who drives when, and noise.
        labels: to which it adds, where the task was done.
        drive: the learner; None: the expert alone, with bursts of noise.
        pictures: the share of labels that get pictures.
    """
    observation = world.reset(init_state)
    answers = Answers(world)
    states = [np.array(observation["state"])]
    gripper = -1.0
    begun: list[tuple[int, npt.NDArray[np.float32], npt.NDArray[np.float32], Pair | None]] = []
    asked: list[_Asked] = []
    stood: list[Array] = []
    actions: list[tuple[Array, bool]] = []
    chunk: Chunk | None = None
    at = 0
    mode, left = "expert", int(rng.integers(2, 25)) if drive is not None else int(rng.integers(5, 40))
    burst = np.zeros(7)
    for step in range(LONGEST):
        state = states[-1]
        before = states[max(0, len(states) - 1 - n.REPLAN)] if len(states) > 1 else None
        scene, arm = (
            reader(world.data),
            n.proprioception(state, before, gripper, min(n.REPLAN, max(len(states) - 1, 1))),
        )
        if left <= 0:
            mode, left = _turn(mode, rng, drive is not None)
            chunk = None
            if mode == "noise":
                burst = np.append(rng.uniform(-1, 1, 6) * rng.choice([0.3, 0.8], p=[0.5, 0.5]), gripper)
                if rng.random() < 0.08:
                    burst[6] = -gripper
            stood = []
        left -= 1
        if mode == "learner":
            assert drive is not None
            if chunk is None or at >= n.REPLAN:
                (chunk, seen), at = drive(scene, arm, observation), 0
                try:
                    asked.append(_Asked(scene, arm, *answers.ahead(n.CHUNK), seen, shown(observation, rng, pictures)))
                except VlaError:
                    break
                stood.append(state[:3])
                if len(stood) > _STANDING and np.linalg.norm(stood[-1] - stood[-1 - _STANDING]) < _STUCK:
                    left = n.REPLAN - 1
            action = np.clip(chunk[at].astype(np.float64), -1, 1)
            action[6] = 1.0 if action[6] > 0 else -1.0
            at += 1
        elif mode == "noise":
            action = burst
        else:
            try:
                action = answers()
            except VlaError:
                break
            begun.append((step, scene, arm, shown(observation, rng, pictures)))
        actions.append((action, mode == "expert"))
        gripper = float(np.sign(action[6]))
        observation = world.step(action)
        states.append(np.array(observation["state"]))
        if world.success():
            break
    if not world.success():
        return False
    for step, scene, arm, pair in begun:
        chunk_, known = np.zeros((n.CHUNK, 7), np.float32), np.zeros(n.CHUNK, bool)
        for k in range(n.CHUNK):
            if step + k < len(actions) and actions[step + k][1]:
                chunk_[k], known[k] = actions[step + k][0], True
            else:
                break
        if not known[0]:
            continue
        # After success nothing is asked for: the last action goes on.
        if known.sum() < n.CHUNK and step + int(known.sum()) == len(actions):
            chunk_[known.sum() :] = chunk_[known.sum() - 1]
            known[:] = True
        labels.add(pair, scenes=scene, arms=arm, chunks=chunk_, known=known, tasks=task, episodes=number)
    for each in asked:
        chunk_, known = np.zeros((n.CHUNK, 7), np.float32), np.arange(n.CHUNK) < len(each.actions)
        chunk_[: len(each.actions)] = each.actions
        if each.reached:
            chunk_[len(each.actions) :] = each.actions[-1]
            known[:] = True
        row = {"scenes": each.scene, "arms": each.arm, "chunks": chunk_, "known": known}
        labels.add(each.pair, each.seen, **row, tasks=task, episodes=number)
    return True


@dataclass(frozen=True)
class _Asked:
    """What a learner was asked, and what the expert would have done: see `Answers.ahead`."""

    scene: npt.NDArray[np.float32]
    arm: npt.NDArray[np.float32]
    actions: Array
    reached: bool
    seen: npt.NDArray[np.float32] | None
    pair: Pair | None


def shown(observation: Observation, rng: np.random.Generator, share: float) -> Pair | None:
    """The pictures of an observation in a share of cases."""
    return pictures_of(observation) if rng.random() < share else None


def pictures_of(observation: Observation) -> Pair:
    """What the network sees of an observation, in the form that policies get."""
    seen = [transformed(observation[f"{camera}_image"], _TRANSFORM) for camera in ("agentview", "robot0_eye_in_hand")]
    return n.small(seen[0], n.VIEW), n.small(seen[1], n.WRIST)


def _turn(mode: str, rng: np.random.Generator, learns: bool) -> tuple[str, int]:
    """Who drives next, and for how many steps."""
    if not learns:
        return ("noise", int(rng.integers(1, 5))) if mode == "expert" else ("expert", int(rng.integers(15, 60)))
    if mode == "expert":
        kind = "learner" if rng.random() < 0.85 else "noise"
        return kind, (int(rng.integers(8, 100)) if kind == "learner" else int(rng.integers(2, 6)))
    return "expert", int(rng.integers(9, 24))
