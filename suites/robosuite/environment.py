"""robosuite's environments with gymnasium's interface, seeds, and pictures that are rendered when they are read."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import robosuite
from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.suites.robosuite.tasks import CAMERAS, IMAGE_SIZE

Seen = Mapping[str, NDArray[np.float64] | Callable[[], NDArray[np.uint8]]]


class Robosuite:
    """A task of robosuite.

    Seed s begins as robosuite does after ``numpy.random.seed(s)``: it draws from numpy's global generator, which is put
    back. It makes its model anew for each episode, as sizes of objects are drawn too.
    """

    metadata: Mapping[str, Any] = {}

    def __init__(self, task: str) -> None:
        if not robosuite.__version__.startswith("1.4."):
            raise VlaError(f"robosuite is {robosuite.__version__}, expected 1.4: pip install 'pytest-vla[libero]'")
        controller = robosuite.load_controller_config(default_controller="OSC_POSE")
        with _drawn_from(0):
            self._env: Any = robosuite.make(
                task,
                robots="Panda",
                controller_configs=controller,
                has_renderer=False,
                has_offscreen_renderer=True,
                use_camera_obs=False,
                ignore_done=True,
                control_freq=20,
            )
        low, high = self._env.action_spec
        self.action_space = SimpleNamespace(low=low, high=high, dtype=low.dtype)
        self.unwrapped = self

    def reset(self, *, seed: int, options: Mapping[str, Any] | None = None) -> tuple[Seen, dict[str, Any]]:
        """Begin an episode."""
        self._graphics().make_current()
        with _drawn_from(seed):
            seen = self._env.reset()
        return self._seen(seen), {"is_success": False}

    def step(self, action: NDArray[np.float64]) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
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

    def _get_obs(self) -> Seen:
        """Observe the state after it was changed; the controller takes the arm's pose for the one at rest."""
        robot = self._env.robots[0]
        robot.controller.update_initial_joints(robot._joint_positions)
        return self._seen(self._env._get_observations(force_update=True))

    def _seen(self, seen: Mapping[str, NDArray[np.float64]]) -> Seen:
        names = ("robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos")
        pictures = {f"{camera}_image": partial(self._picture, camera) for camera in CAMERAS}
        return {**{name: seen[name] for name in names}, "object_state": seen["object-state"], **pictures}

    def _graphics(self) -> Any:
        """Return the OpenGL context; of several environments in a process each has its own."""
        return self._env.sim._render_context_offscreen.gl_ctx

    def _picture(self, camera: str) -> NDArray[np.uint8]:
        """Return a camera's picture (256, 256, 3), upright."""
        height, width = IMAGE_SIZE
        self._graphics().make_current()
        upside_down = self._env.sim.render(camera_name=camera, width=width, height=height)
        return np.ascontiguousarray(upside_down[::-1])


@contextmanager
def _drawn_from(seed: int) -> Iterator[None]:
    before = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(before)
