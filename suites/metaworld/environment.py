"""Meta-World's environments with the observations, seeds and pictures that lerobot's have; imports ``metaworld``."""

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import metaworld
import mujoco
import numpy as np
from gymnasium.spaces import Box, Dict
from metaworld.policies import ENV_POLICY_MAP
from numpy.typing import NDArray

# lerobot puts it here, after arXiv 2206.14244.
_CAMERA_PLACE = (0.75, 0.075, 0.7)
_TASK_SEED = 42
_STATE = mujoco.mjtState.mjSTATE_INTEGRATION


class MetaWorld(gymnasium.Env):  # type: ignore[misc]
    """A task of Meta-World, by lerobot's protocol.

    Seed s begins as lerobot's environment does after ``numpy.random.seed(s)``: Meta-World itself ignores seeds, and
    draws where things stand from numpy's global generator. The generator is put back.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 80}  # noqa: RUF012
    render_mode = "rgb_array"

    def __init__(self, task: str, camera: str) -> None:
        benchmark = metaworld.MT1(task, seed=_TASK_SEED)
        self.task_name, self.camera_name = task, camera
        self._env: Any = benchmark.train_classes[task](render_mode="rgb_array", camera_name=camera)
        self._env.set_task(benchmark.train_tasks[0])
        self._env.model.cam_pos[self._env.model.camera(camera).id] = _CAMERA_PLACE
        self._env.reset()
        self._made = _state(self._env)
        # Otherwise nothing is drawn.
        self._env._freeze_rand_vec = False
        self.raw: NDArray[np.float64] = np.zeros(39)
        self.action_space = Box(-1.0, 1.0, (4,), np.float32)
        unbounded = {"low": -np.inf, "high": np.inf, "dtype": np.float64}
        self.observation_space = Dict(
            agent_pos=Box(shape=(4,), **unbounded), robot0_eef_pos=Box(shape=(3,), **unbounded)
        )

    @property
    def model(self) -> Any:
        """MuJoCo's model."""
        return self._env.model

    @property
    def data(self) -> Any:
        """MuJoCo's data."""
        return self._env.data

    @property
    def mujoco_renderer(self) -> Any:
        """The renderer, gymnasium's."""
        return self._env.mujoco_renderer

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Mapping[str, NDArray[np.float64]], dict[str, Any]]:
        """Begin an episode."""
        before = np.random.get_state()
        # Meta-World settles the hand from where the last episode ended, and some tasks draw the goal's marker by that.
        mujoco.mj_setState(self.model, self.data, self._made, _STATE)
        try:
            np.random.seed(seed)
            self.raw, _ = self._env.reset(seed=seed)
        finally:
            np.random.set_state(before)
        return self._seen(), {"is_success": False}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[Mapping[str, NDArray[np.float64]], float, bool, bool, dict[str, Any]]:
        """Take one step of 80 in a second."""
        self.raw, reward, terminated, truncated, info = self._env.step(action)
        return self._seen(), float(reward), terminated, truncated, {**info, "is_success": bool(info["success"])}

    def render(self) -> NDArray[np.uint8]:
        """Return the camera's picture (480, 480, 3), upright."""
        return np.ascontiguousarray(np.flip(self._env.render(), (0, 1)))

    def close(self) -> None:
        """Close the renderer."""
        self._env.close()

    def _get_obs(self) -> Mapping[str, NDArray[np.float64]]:
        """Observe the state after it was changed; as after a reset, there is no earlier observation."""
        now = self._env._get_curr_obs_combined_no_goal()
        self._env._prev_obs = now
        self.raw = self._env._get_obs()
        return self._seen()

    def _seen(self) -> Mapping[str, NDArray[np.float64]]:
        return {"agent_pos": np.array(self.raw[:4]), "robot0_eef_pos": np.array(self.raw[:3])}


def _state(env: Any) -> NDArray[np.float64]:
    """Return all that an environment's simulation goes on from."""
    state = np.empty(mujoco.mj_stateSize(env.model, _STATE))
    mujoco.mj_getState(env.model, env.data, state, _STATE)
    return state


def scripted(env: MetaWorld) -> Callable[[object], NDArray[np.float64]]:
    """Return a session of the scripted policy that Meta-World has for the environment's task."""
    policy = ENV_POLICY_MAP[env.task_name]()

    def act(observation: object) -> NDArray[np.float64]:
        return np.clip(np.asarray(policy.get_action(env.raw), dtype=np.float64), -1.0, 1.0)

    return act
