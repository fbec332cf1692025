"""Runs published evaluators' loops on upstream's LIBERO, written anew from their sources. Not run in our environment.

    python evaluator_loops.py JOBS.json OUT.npz

JOBS.json: {"assets": folder, "bddl": folder, "jobs": [{"evaluator": name, "suite": suite, "task": stem, "language":
text, "states": [[...], ...], "episodes": n, "steps": n, "blind": bool, "resets": n}]}. A job runs the episodes 0 to
n - 1 of a task, with a policy that sees no pictures if it is blind; or, with `resets`, nothing but that number of an
evaluator's resets, whose fixtures it writes. Sources: see the evaluators' files in suites/libero/evaluators.
"""

import importlib.util
import json
import logging
import os
import sys
from collections import deque
from pathlib import Path

import libero.libero
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import seeing  # type: ignore[import-not-found]

logging.disable(logging.WARNING)

IDLE = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0]
SIZES = {"lerobot": 360}
SEEDED_ONCE = {"openpi": 7, "openvla": 0, "openvla-oft": 0, "groot-n1.5": 0, "vla-eval": 7}
EXECUTED = {"openpi": 5, "openvla": 1, "openvla-oft": 8, "groot-n1.5": 1, "groot-n1.7": 8}


def make(job: dict, folder: str, drawing: bool = True):  # type: ignore[no-untyped-def]
    from libero.libero.envs.env_wrapper import ControlEnv

    side = SIZES.get(job["evaluator"], 256) if drawing else 64
    return ControlEnv(
        bddl_file_name=f"{folder}/{job['suite']}/{job['task']}.bddl",
        use_camera_obs=drawing,
        has_offscreen_renderer=drawing,
        has_renderer=False,
        camera_heights=side,
        camera_widths=side,
    )


class Scenes:
    """The environments of a task's episodes, each reset as the evaluator does it."""

    def __init__(self, job: dict, folder: str, drawing: bool = True) -> None:
        self.job, self.folder, self.drawing, self.env = job, folder, drawing, None

    def begin(self, number: int) -> dict:
        name = self.job["evaluator"]
        if self.env is None or name in ("x-vla", "lerobot"):
            # lerobot has an environment for each episode of a batch, and resets it once when it is made.
            self.env = make(self.job, self.folder, self.drawing)
            if name == "lerobot":
                self.env.reset()
            if name in SEEDED_ONCE:
                self.env.seed(SEEDED_ONCE[name])
        if name == "x-vla":
            self.env.seed(42 + number + 100)
        if name == "lerobot":
            self.env.seed(1000 + number)
        if name == "groot-n1.7":
            # Upstream gives no seed; ours is the episode's number, on an environment that was just made.
            self.env = make(self.job, self.folder, self.drawing)
            self.env.seed(number)
        observation = self.env.reset()
        if name != "groot-n1.7" and self.job["states"]:
            observation = self.env.set_init_state(np.asarray(self.job["states"][number], dtype=float))
        return observation


def axis_angle(quaternion: np.ndarray) -> np.ndarray:
    from robosuite.utils.transform_utils import quat2axisangle

    return quat2axisangle(quaternion.copy())


def axis_angle_float32(quaternion: np.ndarray) -> np.ndarray:
    import torch

    given = torch.from_numpy(quaternion)[None].to(torch.float32)
    w = given[:, 3].clamp(-1.0, 1.0)
    sine = torch.sqrt(torch.clamp(1.0 - w * w, min=0.0))
    if not bool(sine > 1e-10):
        return np.zeros(3, dtype=np.float32)
    return (given[0, :3] / sine * (2.0 * torch.acos(w))).numpy()


def seen(name: str, observation: dict, env: object, blind: bool) -> tuple[list[np.ndarray], np.ndarray]:
    """What the evaluator's policy gets: pictures, none if it is blind, and state."""
    pictures = [] if blind else pictures_of(name, observation)
    if name == "x-vla":
        controller = env.env.robots[0].controller  # type: ignore[attr-defined]
        turn = controller.ee_ori_mat
        return pictures, np.concatenate([controller.ee_pos, turn[:3, 0], turn[:3, 1], [0.0]])
    turn_of = axis_angle_float32 if name == "lerobot" else axis_angle
    parts = [observation["robot0_eef_pos"], turn_of(observation["robot0_eef_quat"])]
    state = np.concatenate([*parts, observation["robot0_gripper_qpos"]])
    return pictures, state.astype(np.float32) if name == "lerobot" else state


def pictures_of(name: str, observation: dict) -> list[np.ndarray]:
    """What the evaluator's policy sees of the scene and from the wrist.

    TensorFlow's steps of OpenVLA are left out on both sides: they are tested on their own.
    """
    scene, wrist = observation["agentview_image"], observation["robot0_eye_in_hand_image"]
    pictures = [scene[::-1, ::-1], wrist if name == "x-vla" else wrist[::-1, ::-1]]
    if name == "openpi":
        from openpi_client.image_tools import convert_to_uint8, resize_with_pad

        pictures = [convert_to_uint8(resize_with_pad(np.ascontiguousarray(each), 224, 224)) for each in pictures]
    return pictures


def action_of(name: str, row: np.ndarray) -> np.ndarray:
    """What is executed of a policy's action."""
    action = row.copy()
    if name in ("openvla", "openvla-oft", "groot-n1.7"):
        action[-1] = np.sign(2 * (action[-1] - 0.0) / (1.0 - 0.0) - 1)
        action[-1] = action[-1] * -1.0
    if name == "groot-n1.5":
        action = action.astype(np.float32)
        action[-1] = np.sign(1 - 2 * (action[-1] - 0.0) / (1.0 - 0.0))
    if name == "x-vla":
        # Position, rotation as six numbers, gripper; in single precision.
        action = np.array([*action[:3], *axis_angle_of_6d(action[3:9]), action[9]], dtype=np.float32)
        action[-1] = 1 if action[-1] > 0.5 else -1
    return action.astype(np.float32) if name == "lerobot" else action


def axis_angle_of_6d(numbers: np.ndarray) -> np.ndarray:
    from robosuite.utils.transform_utils import mat2quat, quat2axisangle

    first = numbers[:3] / (np.linalg.norm(numbers[:3]) + 1e-6)
    second = numbers[3:] - np.sum(first * numbers[3:]) * first
    second = second / (np.linalg.norm(second) + 1e-6)
    return quat2axisangle(mat2quat(np.stack([first, second, np.cross(first, second)], axis=-1)))


CONVENTION = {"openvla": "open", "openvla-oft": "open", "groot-n1.5": "open", "groot-n1.7": "open", "x-vla": "absolute"}


def run(job: dict, folder: str, out: dict, prefix: str) -> None:
    name, scenes = job["evaluator"], Scenes(job, folder, drawing=not job.get("blind"))
    for episode in range(job["episodes"]):
        observation = scenes.begin(episode)
        env = scenes.env
        data = env.sim.data._data
        for _ in range(0 if name == "groot-n1.7" else 10):
            observation, *_ = env.step(IDLE)
        if name == "x-vla":
            for robot in env.env.robots:
                robot.controller.use_delta = False
        rows: dict[str, list] = {key: [] for key in ("pictures", "state", "action", "qpos", "success")}
        plan: deque = deque()
        fed = None
        rows["qpos"].append(data.qpos.copy())
        for _ in range(job["steps"]):
            if not plan:
                pictures, state = seen(name, observation, env, bool(job.get("blind")))
                state = state if fed is None else fed
                rows["pictures"].append(np.frombuffer(seeing.digest(*pictures), dtype=np.uint8))
                rows["state"].append(state)
                chunk = seeing.chunk_of(
                    pictures, seeing.looked_at(name, state), job["language"], CONVENTION.get(name, "signs")
                )
                plan.extend(chunk[: EXECUTED.get(name, seeing.CHUNK)])
                if name == "x-vla":
                    fed = np.array([*chunk[-1][:9], 0.0])
            action = action_of(name, plan.popleft())
            observation, _, done, _ = env.step(action if name in ("x-vla", "lerobot") else action.tolist())
            rows["action"].append(action)
            rows["qpos"].append(data.qpos.copy())
            rows["success"].append(bool(done))
            if done:
                break
        out.update({f"{prefix}_{episode}_{key}": np.array(values) for key, values in rows.items()})
    scenes.env.close()


def run_vla_eval(job: dict, out: dict, prefix: str) -> None:
    """vla-eval's own class: only what its runner does around it is written here."""
    from vla_eval.benchmarks.libero.benchmark import LIBEROBenchmark
    from vla_eval.recording import NullEpisodeRecorder

    benchmark = LIBEROBenchmark(suite=job["suite"], send_wrist_image=True, send_state=True)
    # Its runner gives it a recorder at an episode's begin.
    benchmark._recorder = NullEpisodeRecorder()
    task = next(each for each in benchmark.get_tasks() if each["task_obj"].name == job["task"])
    for episode in range(job["episodes"]):
        raw = benchmark.reset({**task, "episode_idx": episode})
        data = benchmark._env.sim.data._data
        rows: dict[str, list] = {key: [] for key in ("pictures", "state", "action", "qpos", "success")}
        rows["qpos"].append(data.qpos.copy())
        plan: deque = deque()
        for _ in range(job["steps"]):
            if not plan:
                seen_now = benchmark.make_obs(raw, task)
                pictures, state = list(seen_now["images"].values()), seen_now["states"]
                rows["pictures"].append(np.frombuffer(seeing.digest(*pictures), dtype=np.uint8))
                rows["state"].append(state)
                plan.extend(seeing.chunk_of(pictures, state, seen_now["task_description"], "signs"))
            action = plan.popleft()
            result = benchmark.step({"actions": action})
            raw = result.obs
            rows["action"].append([*action[:-1], -1.0 if action[-1] < 0 else 1.0])
            rows["qpos"].append(data.qpos.copy())
            rows["success"].append(bool(result.done))
            if result.done:
                break
        out.update({f"{prefix}_{episode}_{key}": np.array(values) for key, values in rows.items()})
    benchmark.cleanup()


def run_lerobot(job: dict, out: dict, prefix: str) -> None:
    """lerobot's own environments and processor; the loop of ``lerobot-eval`` around them, for one batch."""
    import gymnasium
    from lerobot.envs.libero import _get_suite, create_libero_envs
    from lerobot.envs.utils import preprocess_observation
    from lerobot.processor.env_processor import LiberoProcessorStep

    names = [task.name for task in _get_suite(job["suite"]).tasks]
    number, count = names.index(job["task"]), job["episodes"]
    sides = {"observation_height": 360, "observation_width": 360}
    environments = create_libero_envs(
        task=job["suite"],
        n_envs=count,
        gym_kwargs={"obs_type": "pixels_agent_pos", "render_mode": "rgb_array", "task_ids": [number], **sides},
        camera_name="agentview_image,robot0_eye_in_hand_image",
        env_cls=gymnasium.vector.SyncVectorEnv,
    )
    batch = environments[job["suite"]][number]
    observation, _ = batch.reset(seed=[1000 + each for each in range(count)])
    process = LiberoProcessorStep()
    data = [each.unwrapped._env.sim.data._data for each in batch.envs]
    rows: list[dict[str, list]] = [
        {"pictures": [], "state": [], "action": [], "qpos": [each.qpos.copy()], "success": []} for each in data
    ]
    plans: list[deque] = [deque() for _ in range(count)]
    for _ in range(job["steps"]):
        actions = np.zeros((count, 7), dtype=np.float32)
        shown = process.observation(preprocess_observation(observation))
        for each, (plan, row) in enumerate(zip(plans, rows, strict=True)):
            if not plan:
                images = [shown[f"observation.images.{key}"][each].permute(1, 2, 0) for key in ("image", "image2")]
                pictures = [(255 * image).round().numpy().astype(np.uint8) for image in images]
                state = shown["observation.state"][each].numpy()
                row["pictures"].append(np.frombuffer(seeing.digest(*pictures), dtype=np.uint8))
                row["state"].append(state)
                plan.extend(seeing.chunk_of(pictures, seeing.looked_at("lerobot", state), job["language"], "signs"))
            actions[each] = plan.popleft()
        observation, _, done, _, _ = batch.step(actions)
        for each, row in enumerate(rows):
            if row["success"] and row["success"][-1]:
                continue
            row["action"].append(actions[each])
            row["success"].append(bool(done[each]))
            row["qpos"].append(data[each].qpos.copy())
    for episode, row in enumerate(rows):
        out.update({f"{prefix}_{episode}_{key}": np.array(values) for key, values in row.items()})
    batch.close()


def resets(job: dict, folder: str, out: dict, prefix: str) -> None:
    """Nothing but resets: where an evaluator's scenes have their bodies."""
    scenes = Scenes({**job, "states": []}, folder, drawing=False)
    found = []
    for number in range(job["resets"]):
        scenes.begin(number)
        model = scenes.env.sim.model._model
        found.append(np.concatenate([model.body_pos.ravel(), model.body_quat.ravel()]))
    out[f"{prefix}_bodies"] = np.array(found)


def main() -> None:
    with open(sys.argv[1]) as file:
        work = json.load(file)
    libero.libero._assets_path_cache = work["assets"]
    out: dict = {}
    for number, job in enumerate(work["jobs"]):
        if job.get("resets"):
            resets(job, work["bddl"], out, f"job{number}")
        elif job["evaluator"] == "vla-eval" and not job.get("blind"):
            run_vla_eval(job, out, f"job{number}")
        elif job["evaluator"] == "lerobot" and not job.get("blind") and importlib.util.find_spec("lerobot"):
            run_lerobot(job, out, f"job{number}")
        else:
            run(job, work["bddl"], out, f"job{number}")
    np.savez_compressed(sys.argv[2], **out)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
