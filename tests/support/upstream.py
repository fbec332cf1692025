"""Runs upstream's LIBERO (hf-libero on robosuite) and writes what it does. Runs in the reference environment, not ours.

    python upstream.py JOBS.json OUT.npz

JOBS.json: {"assets": folder, "jobs": [{"task": path of a .bddl, "seed": s, "init_state": [...] or null,
"actions": [[7 numbers], ...], "cameras": side length in pixels or 0, "frames": [steps], "earlier": n,
"absolute_from": n or null, "dtype": of actions}]}. Every job
makes a new environment, so that its random draws do not depend on the jobs before it; in its first episode, which is
not written, it does `earlier` of the actions. From the action of the number `absolute_from` on they are poses.
"""

import json
import logging
import os
import sys

import libero.libero
import numpy as np

logging.disable(logging.WARNING)


def run(job: dict, out: dict, prefix: str) -> None:
    from libero.libero.envs.env_wrapper import ControlEnv

    side = job["cameras"]
    env = ControlEnv(
        bddl_file_name=job["task"],
        use_camera_obs=bool(side),
        has_offscreen_renderer=bool(side),
        has_renderer=False,
        camera_heights=side or 64,
        camera_widths=side or 64,
    )
    if job["earlier"]:
        env.seed(job["seed"] + 1)
        env.reset()
        for action in job["actions"][: job["earlier"]]:
            env.step(np.asarray(action))
    env.seed(job["seed"])
    observation = env.reset()
    data, model = env.sim.data._data, env.sim.model._model
    out[f"{prefix}_reset_qpos"] = data.qpos.copy()
    if job["init_state"] is not None:
        observation = env.set_init_state(np.asarray(job["init_state"], dtype=float))
    for name in ("body_pos", "body_quat", "site_rgba"):
        out[f"{prefix}_{name}"] = getattr(model, name).copy()
    fields = ("qpos", "qvel", "eef_pos", "eef_quat", "gripper_qpos", "success", "controller_pos", "controller_mat")
    rows: dict[str, list] = {name: [] for name in fields}
    (robot,) = env.robots
    for step, action in enumerate([None, *job["actions"]]):
        if job["absolute_from"] is not None and step == job["absolute_from"] + 1:
            robot.controller.use_delta = False
        if action is not None:
            observation, *_ = env.step(np.asarray(action, dtype=job["dtype"]))
        rows["qpos"].append(data.qpos.copy())
        rows["qvel"].append(data.qvel.copy())
        for name in ("eef_pos", "eef_quat", "gripper_qpos"):
            rows[name].append(observation[f"robot0_{name}"])
        rows["success"].append(bool(env.check_success()))
        rows["controller_pos"].append(np.array(robot.controller.ee_pos))
        rows["controller_mat"].append(np.array(robot.controller.ee_ori_mat))
        if step in job["frames"]:
            out[f"{prefix}_agentview_{step}"] = observation["agentview_image"]
            out[f"{prefix}_wrist_{step}"] = observation["robot0_eye_in_hand_image"]
    out.update({f"{prefix}_{name}": np.array(values) for name, values in rows.items()})
    env.close()


def main() -> None:
    with open(sys.argv[1]) as file:
        work = json.load(file)
    libero.libero._assets_path_cache = work["assets"]
    out: dict = {}
    for number, job in enumerate(work["jobs"]):
        run(job, out, f"job{number}")
    np.savez_compressed(sys.argv[2], **out)
    sys.stdout.flush()
    # EGL's destructors print harmless errors at a normal exit.
    os._exit(0)


if __name__ == "__main__":
    main()
