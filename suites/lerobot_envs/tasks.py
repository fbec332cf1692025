"""PushT and ALOHA by lerobot's protocol.

Facts from lerobot 0.4's ``envs/configs.py`` and ``lerobot_eval``: 300 steps at 10 Hz and pictures of 96 by 96 for
PushT, 400 steps at 50 Hz and the camera ``top`` for ALOHA; actions are passed to the environment as they are; the
first step with ``is_success`` ends the episode; fifty episodes, the first with seed 1000. lerobot's evaluation gives no
instruction. These are its data sets', with which policies that read one are trained.
"""

from typing import TYPE_CHECKING, Any

from pytest_vla import gym
from pytest_vla.plan.manifests import Suite
from pytest_vla.plan.task import MujocoScene

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SEEDS = tuple(range(1000, 1050))
ALOHA_STEPS = 400

_PUSHT_OPTIONS = {"obs_type": "pixels_agent_pos", "max_episode_steps": 300, "disable_env_checker": True}

_JOINTS = ("waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate")
# The joints' limits (rad), and the gripper from closed to open.
_ARM_BOUNDS = (
    *((-3.14158, 3.14158), (-1.85005, 1.25664), (-1.76278, 1.6057), (-3.14158, 3.14158), (-1.8675, 2.23402)),
    *((-3.14158, 3.14158), (0.0, 1.0)),
)


def pusht() -> Suite:
    """Return PushT's suite: actions are places (pixels, 0 to 512) to which the round pusher moves."""
    return gym.suite(
        "pusht",
        "gym_pusht/PushT-v0",
        instruction="Push the T-shaped block onto the T-shaped target.",
        cameras={"top": "pixels"},
        title="PushT",
        action=gym.UNSCALED,
        packages=("gym_pusht",),
        options=_PUSHT_OPTIONS,
        image_size=(96, 96),
        seeds=SEEDS,
        hold=_stay,
        spaces=gym.GymSpaces(
            2, (("agent_pos", 2),), ("pixels",), max_steps=300, control_freq=10, action_bounds=((0.0, 512.0),) * 2
        ),
        install="pytest-vla[pusht]",
    )


def aloha_transfer_cube() -> Suite:
    """Return the suite in which the right arm hands a cube to the left one."""
    return _aloha(
        "aloha_transfer_cube",
        "AlohaTransferCube-v0",
        "Pick up the cube with the right arm and transfer it to the left arm.",
        ("box",),
    )


def aloha_insertion() -> Suite:
    """Return the suite in which the right arm holds a peg and the left one the socket for it."""
    return _aloha("aloha_insertion", "AlohaInsertion-v0", "Insert the peg into the socket.", ("peg", "socket"))


def _aloha(name: str, env: str, instruction: str, objects: tuple[str, ...]) -> Suite:
    """Return a suite whose actions are the joint angles (rad) and the gripper of the left arm and of the right one."""
    scene = MujocoScene(
        camera="top",
        middle=(0.0, 0.5, 0.0),
        lights=3,
        surfaces=(("table", ("table",)),),
        objects=objects,
        arm=tuple(f"vx300s_{side}/{joint}" for side in ("left", "right") for joint in _JOINTS),
    )
    return gym.suite(
        name,
        make_aloha,
        title=f"ALOHA: {env.removesuffix('-v0')}",
        instruction=instruction,
        cameras=("top",),
        action=gym.UNSCALED,
        packages=("gymnasium", "gym_aloha"),
        options={"env": env},
        image_size=(480, 640),
        seeds=SEEDS,
        observe=joints,
        hold=_keep_angles,
        spaces=gym.GymSpaces(
            *(14, (("agent_pos", 14),)),
            max_steps=ALOHA_STEPS,
            control_freq=50,
            scene=scene,
            action_bounds=_ARM_BOUNDS * 2,
        ),
        install="pytest-vla[aloha]",
    )


def make_aloha(env: str, render_mode: str = "rgb_array") -> Any:
    """Return one of ALOHA's environments as lerobot makes it, which renders a picture when it is asked for one.

    By itself it renders three cameras in each step, of which lerobot uses one: three quarters of its time.
    """
    import gymnasium
    import mujoco

    made: Any = gymnasium.make(
        f"gym_aloha:gym_aloha/{env}",
        obs_type="pixels_agent_pos",
        render_mode=render_mode,
        max_episode_steps=ALOHA_STEPS,
        disable_env_checker=True,
    )
    inner = made.unwrapped
    task, physics = inner._env.task, inner._env.physics
    task.get_observation = lambda physics: {"qpos": task.get_qpos(physics)}
    inner._format_raw_obs = lambda raw: {"agent_pos": raw["qpos"]}
    # It aims at a body that does not move. As a fixed one it can be turned.
    model, camera = physics.model.ptr, physics.model.camera("top").id
    mujoco.mju_mat2Quat(model.cam_quat[camera], physics.data.cam_xmat[camera])
    model.cam_mode[camera] = mujoco.mjtCamLight.mjCAMLIGHT_FIXED
    return made


def joints(env: Any) -> "dict[str, NDArray[np.float64]]":
    """Return the observation of an ALOHA environment's present state."""
    inner = env.unwrapped._env
    return {"agent_pos": inner.task.get_qpos(inner.physics)}


def _keep_angles(env: Any, last: "NDArray[np.float64] | None") -> "NDArray[np.float64]":
    return joints(env)["agent_pos"] if last is None else last


def _stay(env: Any, last: "NDArray[np.float64] | None") -> "NDArray[np.float64]":
    import numpy as np

    return np.array(env.unwrapped.agent.position, dtype=np.float64) if last is None else last
