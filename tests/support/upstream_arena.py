"""Runs upstream's VLA-Arena and writes what it does. Runs in the environment of `make arena`, not ours.

    python upstream_arena.py JOBS.json OUT.npz

JOBS.json: {"assets": [folders, the first one wins], "folder": where they are laid over each other, "jobs": [{"task":
path of a .bddl, "seed": s, "init_state": [...] or null, "actions": [[7 numbers], ...], "cameras": side length in pixels
or 0 for no renderer, "frames": [steps], "earlier": n}]}. Where there are no frames no camera observes. Every job has
a new environment; in its first episode, which is not written, it does `earlier` of the actions.
"""

import contextlib
import io
import json
import os
import random
import sys
import time
from pathlib import Path

import numpy as np

with contextlib.redirect_stderr(io.StringIO()):
    # gym says there that it is old.
    from vla_arena.vla_arena.envs import TASK_MAPPING, bddl_base_domain, env_wrapper
    from vla_arena.vla_arena.envs.objects import (
        articulated_objects,
        google_scanned_objects,
        hope_objects,
        turbosquid_objects,
    )

# Repairs of this release: it looks into a mapping that has none of its problem classes, and an import is lost.
env_wrapper.TASK_MAPPING = TASK_MAPPING
bddl_base_domain.time = time


def lay_over(sources: list[str], target: Path) -> None:
    """Makes upstream read its assets from a folder of links: to the first source's files, then to the others' too."""
    for source in sources:
        for here, _, names in os.walk(source):
            folder = target / "assets" / os.path.relpath(here, source)
            folder.mkdir(parents=True, exist_ok=True)
            for name in names:
                if not (folder / name).is_symlink():
                    (folder / name).symlink_to(Path(here) / name)
    (target / "envs").mkdir()
    bddl_base_domain.DIR_PATH = str(target / "envs")
    for module in (articulated_objects, google_scanned_objects, hope_objects, turbosquid_objects):
        module.absolute_path = target


def run(job: dict, out: dict, prefix: str) -> None:
    side = job["cameras"]
    env = env_wrapper.ControlEnv(
        bddl_file_name=job["task"],
        use_camera_obs=bool(job["frames"]),
        has_offscreen_renderer=bool(side),
        camera_heights=side or 64,
        camera_widths=side or 64,
    )
    if job["earlier"]:
        _reset(env, job["seed"] + 1)
        for action in job["actions"][: job["earlier"]]:
            env.step(np.asarray(action))
    observation = _reset(env, job["seed"])
    data, model, domain = env.sim.data._data, env.sim.model._model, env.env
    out[f"{prefix}_reset_qpos"] = data.qpos.copy()
    if job["init_state"] is not None:
        observation = env.set_init_state(np.asarray(job["init_state"], dtype=float))
    for name in ("body_pos", "body_quat", "site_rgba"):
        out[f"{prefix}_{name}"] = getattr(model, name).copy()
    goals, costs = (domain.parsed_problem[name] for name in ("goal_state", "cost_state"))
    movers = [mover["name"] for mover in domain.parsed_problem["moving_objects"]]
    rows: dict[str, list] = {}
    for step, action in enumerate([None, *job["actions"]]):
        cost = np.nan
        if action is not None:
            observation, _, _, info = env.step(np.asarray(action))
            cost = info["cost"]
        if step in job["frames"]:
            for name, camera in (("agentview", "agentview"), ("wrist", "robot0_eye_in_hand")):
                out[f"{prefix}_{name}_{step}"] = observation[f"{camera}_image"]
        row = {name: getattr(data, name).copy() for name in ("qpos", "qvel", "ctrl", "mocap_pos", "mocap_quat")}
        row |= {name: np.array(observation[f"robot0_{name}"]) for name in ("eef_pos", "eef_quat", "gripper_qpos")}
        row |= {"success": bool(env.check_success()), "cost": cost}
        row["movers"] = [name in domain.mocap_motion_generators for name in movers]
        row["goal_verdicts"] = [bool(domain._eval_predicate(literal)) for literal in goals]
        row["cost_verdicts"] = (
            [bool(domain._eval_predicate(literal)) for literal in costs] if step else [False] * len(costs)
        )
        for name, value in row.items():
            rows.setdefault(name, []).append(value)
    out.update({f"{prefix}_{name}": np.array(values) for name, values in rows.items()})
    env.close()


def _reset(env: env_wrapper.ControlEnv, seed: int) -> dict:
    # Its seed() fails on robosuite 1.5.1, and its own reset() goes on for ever where one fails.
    np.random.seed(seed)
    random.seed(seed)
    return env.env.reset()


def main() -> None:
    with open(sys.argv[1]) as file:
        work = json.load(file)
    out: dict = {}
    lay_over(work["assets"], Path(work["folder"]))
    with contextlib.redirect_stdout(io.StringIO()):
        for number, job in enumerate(work["jobs"]):
            run(job, out, f"job{number}")
    np.savez_compressed(sys.argv[2], **out)
    # EGL's destructors print harmless errors at a normal exit.
    os._exit(0)


if __name__ == "__main__":
    main()
