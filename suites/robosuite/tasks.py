"""robosuite's tasks as suites: a Panda under the controller OSC_POSE at 20 Hz, 500 steps, as robosuite's benchmark has.

The state is the hand's position (m), its quaternion (xyzw) and two fingers, as robomimic's policies take it, and
``object_state`` is robosuite's ``object-state``. An action has seven numbers, as LIBERO's.
"""

from typing import TYPE_CHECKING, Any

from pytest_vla import gym
from pytest_vla.plan.manifests import Suite
from pytest_vla.plan.task import MujocoScene
from pytest_vla.suites.robosuite.extension import TASKS, suite_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CAMERAS = ("agentview", "robot0_eye_in_hand")
IMAGE_SIZE = (256, 256)

_STATE = {"robot0_eef_pos": 3, "robot0_eef_quat": 4, "robot0_gripper_qpos": 2}

# The things that stand about, and the length of robosuite's object-state.
_OBJECTS: dict[str, tuple[tuple[str, ...], int]] = {
    "Lift": (("cube",), 10),
    "Stack": (("cubeA", "cubeB"), 23),
    "Door": ((), 14),
    "NutAssembly": (("SquareNut", "RoundNut"), 28),
    "PickPlace": (("Milk", "Bread", "Cereal", "Can"), 56),
    **{f"NutAssembly{each}": ((f"{each}Nut",), 14) for each in ("Square", "Round")},
    **{f"PickPlace{each}": ((each,), 14) for each in ("Milk", "Bread", "Cereal", "Can")},
}

_WALLS = ("leftcorner", "rightcorner", "left", "right", "rear", "front")


def __getattr__(name: str) -> Suite:
    """Return the suite of this name."""
    task = next((each for each in TASKS if suite_name(each) == name), None)
    if task is None:
        raise AttributeError(name)
    return _suite(task)


def _suite(task: str) -> Suite:
    objects, length = _OBJECTS[task]
    stands = task.startswith("PickPlace")
    scene = MujocoScene(
        camera=CAMERAS[0],
        middle=(0.1, -0.25, 0.8) if stands else (0.0, 0.0, 0.8),
        lights=1,
        surfaces=(
            ("table", ("bin1", "bin2") if stands else ("table",)),
            ("floor", ("floor",)),
            ("wall", tuple(f"wall_{each}_visual" for each in _WALLS)),
        ),
        objects=tuple(f"{each}_main" for each in objects),
        arm=tuple(f"robot0_joint{number}" for number in range(1, 8)),
        lags=True,
        anew=True,
    )
    vectors = {**_STATE, "object_state": length}
    pictures = tuple(f"{camera}_image" for camera in CAMERAS)
    return gym.suite(
        suite_name(task),
        make,
        instruction=TASKS[task],
        cameras=dict(zip(CAMERAS, pictures, strict=True)),
        state=tuple(_STATE),
        options={"task": task},
        packages=("robosuite",),
        max_steps=500,
        image_size=IMAGE_SIZE,
        seeds=tuple(range(10)),
        scene={"views": CAMERAS},
        hold=hold,
        spaces=gym.GymSpaces(7, tuple(vectors.items()), pictures, control_freq=20, scene=scene),
        install="pytest-vla[libero]",
    )


def make(task: str) -> Any:
    """Return an environment of one of robosuite's tasks."""
    from pytest_vla.sim.gl import select_gl

    select_gl()
    from pytest_vla.suites.robosuite.environment import Robosuite

    return Robosuite(task)


def hold(env: Any, last: "NDArray[np.float64] | None") -> "NDArray[np.float64]":
    """Return the action that moves nothing, and keeps the gripper as it was told."""
    import numpy as np

    return np.array([*[0.0] * 6, -1.0 if last is None else last[6]])
