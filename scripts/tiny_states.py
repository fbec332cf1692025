"""What tiny is told while it is trained: scene vectors; and init states of its own."""

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.expert.articulated import handle_of, part_of
from pytest_vla.expert.parts import corners
from pytest_vla.expert.steady import Pose, in_frame, in_world
from pytest_vla.policies.tiny.inputs import CENTRE, SCALE
from pytest_vla.sim.settle import settled_states
from pytest_vla.sim.world import World

Array = npt.NDArray[np.float64]

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
            [(np.array(points) - CENTRE).ravel() / SCALE, bowl[:, 2], bottle[:, 2], box[:, 0], box[:, 2], joints]
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
    from pytest_vla import load_suite

    suite, found = load_suite("tabletop"), {}
    for place, name in enumerate(tasks):
        generator = np.random.default_rng([seed, place])
        world.switch(suite.task(name))
        found[name] = settled_states(world, count, generator)
    return found
