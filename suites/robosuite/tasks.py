"""robosuite's tasks as suites: a Panda under the controller OSC_POSE at 20 Hz, 500 steps, as robosuite's benchmark has.

The state is the hand's position (m), its quaternion (xyzw) and two fingers, as robomimic's policies take it, and
``object_state`` is robosuite's ``object-state``. An action has seven numbers, as LIBERO's.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pytest_vla import gym
from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import Suite
from pytest_vla.plan.task import MujocoScene
from pytest_vla.scene.robosuite_import import quiet_robosuite
from pytest_vla.suites.robosuite.extension import TASKS, suite_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Seen = Mapping[str, NDArray[np.float64] | Callable[[], NDArray[np.uint8]]]

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
    has_bins = task.startswith("PickPlace")
    scene = MujocoScene(
        camera=CAMERAS[0],
        middle=(0.1, -0.25, 0.8) if has_bins else (0.0, 0.0, 0.8),
        lights=1,
        surfaces=(
            ("table", ("bin1", "bin2") if has_bins else ("table",)),
            ("floor", ("floor",)),
            ("wall", tuple(f"wall_{each}_visual" for each in _WALLS)),
        ),
        objects=tuple(f"{each}_main" for each in objects),
        arm=tuple(f"robot0_joint{number}" for number in range(1, 8)),
        lags=True,
    )
    vectors = {**_STATE, "object_state": length}
    pictures = tuple(f"{camera}_image" for camera in CAMERAS)
    return gym.suite(
        suite_name(task),
        Robosuite,
        title=f"robosuite: {task}",
        instruction=TASKS[task],
        cameras=dict(zip(CAMERAS, pictures, strict=True)),
        state=tuple(_STATE),
        options={"task": task},
        packages=("robosuite",),
        max_steps=500,
        image_size=IMAGE_SIZE,
        seeds=tuple(range(10)),
        scene={"views": CAMERAS},
        hold=_hold,
        spaces=gym.GymSpaces(7, tuple(vectors.items()), pictures, control_freq=20, scene=scene),
        install="pytest-vla[libero]",
    )


def _hold(env: Any, last: "NDArray[np.float64] | None") -> "NDArray[np.float64]":
    """Return the action that moves nothing, and keeps the gripper as it was told."""
    import numpy as np

    return np.array([*[0.0] * 6, -1.0 if last is None else last[6]])


class Robosuite:
    """A task of robosuite with gymnasium's interface, and pictures that are rendered when they are read.

    Seed s begins as robosuite does after ``numpy.random.seed(s)``: it draws from numpy's global generator, which is put
    back. It makes its model anew for each episode, as sizes of objects are drawn too.
    """

    metadata: Mapping[str, Any] = {}
    # The suite says what is in it.
    observation_space = None

    def __init__(self, task: str) -> None:
        """Make the environment. Raises VlaError if robosuite is of another version."""
        from pytest_vla.sim.gl import select_gl

        select_gl()
        with quiet_robosuite():
            import robosuite

        if not robosuite.__version__.startswith("1.4."):
            raise VlaError(f"robosuite is {robosuite.__version__}, expected 1.4: pip install 'pytest-vla[libero]'")
        with _drawn_from(0):
            self._env: Any = robosuite.make(
                task,
                robots="Panda",
                controller_configs=robosuite.load_controller_config(default_controller="OSC_POSE"),
                has_renderer=False,
                has_offscreen_renderer=True,
                use_camera_obs=False,
                ignore_done=True,
                control_freq=20,
            )
        low, high = self._env.action_spec
        self.action_space = SimpleNamespace(low=low, high=high, dtype=low.dtype)
        self.unwrapped = self

    def reset(self, *, seed: int, options: Mapping[str, Any] | None = None) -> "tuple[Seen, dict[str, Any]]":
        """Begin an episode."""
        self._graphics().make_current()
        with _drawn_from(seed):
            seen = self._env.reset()
        return self._seen(seen), {"is_success": False}

    def step(self, action: "NDArray[np.float64]") -> "tuple[Seen, float, bool, bool, dict[str, Any]]":
        """Take one step of 20 in a second."""
        seen, reward, _, info = self._env.step(action)
        return self._seen(seen), float(reward), False, False, {**info, "is_success": bool(self._env._check_success())}

    def repaint(self) -> None:
        """Send textures and shadows to the graphics side anew."""
        self._graphics().make_current()
        context = self._env.sim._render_context_offscreen
        context.con.free()
        context._set_mujoco_context_and_buffers()

    def close(self) -> None:
        """Close the simulation and the renderer."""
        self._graphics().make_current()
        self._env.close()

    def _get_obs(self) -> "Seen":
        """Observe the state after it was changed; the controller takes the arm's pose for the one at rest."""
        robot = self._env.robots[0]
        robot.controller.update_initial_joints(robot._joint_positions)
        return self._seen(self._env._get_observations(force_update=True))

    def _seen(self, seen: "Mapping[str, NDArray[np.float64]]") -> "Seen":
        pictures = {f"{camera}_image": partial(self._picture, camera) for camera in CAMERAS}
        return {**{name: seen[name] for name in _STATE}, "object_state": seen["object-state"], **pictures}

    def _graphics(self) -> Any:
        """Return the OpenGL context; of several environments in a process each has its own."""
        return self._env.sim._render_context_offscreen.gl_ctx

    def _picture(self, camera: str) -> "NDArray[np.uint8]":
        """Return a camera's picture (256, 256, 3), upright."""
        import numpy as np

        self._graphics().make_current()
        upside_down = self._env.sim.render(camera_name=camera, height=IMAGE_SIZE[0], width=IMAGE_SIZE[1])
        return np.ascontiguousarray(upside_down[::-1])


@contextmanager
def _drawn_from(seed: int) -> Iterator[None]:
    import numpy as np

    before = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(before)
