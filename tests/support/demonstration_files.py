"""Files of demonstrations in LIBERO's HDF5 layout, made from episodes of our own world."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from pytest_vla import World
from pytest_vla.episode.result import Rollout
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.plan.case import Case
from pytest_vla.plan.task import Task, with_protocol
from pytest_vla.policies.load import load_policy

ENV_ARGS = {"env_kwargs": {"control_freq": 20, "controller_configs": {"type": "OSC_POSE", "control_delta": True}}}


@dataclass(frozen=True)
class Recorded:
    """A demonstration as it is written: states [time, qpos, qvel] before each action, and the model's XML."""

    actions: np.ndarray
    states: np.ndarray
    xml: str
    ended: Rollout | None = None


def model_xml(world: World, digits: int = 17) -> str:
    """The bodies and joints of a world's model, as far as a reader looks at them. MuJoCo itself writes six digits."""
    model = world.model
    parts = []
    for number in range(1, model.nbody):
        body = model.body(number)
        pos, quat = (" ".join(f"{value:.{digits}g}" for value in each) for each in (body.pos, body.quat))
        first, count = model.body_jntadr[number], model.body_jntnum[number]
        joints = "".join(f'<joint name="{model.joint(each).name}"/>' for each in range(first, first + count))
        parts.append(f'<body name="{body.name}" pos="{pos}" quat="{quat}">{joints}</body>')
    return f"<mujoco><worldbody>{''.join(parts)}</worldbody></mujoco>"


def recorded(task: Task, seed: int, *, policy: Any = None, settle: int = 0, cut: int = 0, digits: int = 17) -> Recorded:
    """An episode of a policy, by default the expert, as a demonstration.

    Args:
        task, seed: of the episode.
        policy: of the episode.
        settle: steps of the world before the policy begins; they are not recorded, and time has passed.
        cut: rows left out at the begin, as LIBERO's script leaves out five.
        digits: of the numbers in the XML.
    """
    world = World(with_protocol(task, settle_steps=settle))
    try:
        case = Case(task.suite, task.name, seed, task_level=task.task_level)
        ended = run_episode(
            case, world.task, policy or load_policy("expert"), lambda _, __: world, Conditions("any", run="a-run")
        )
        assert ended.record.outcome in ("success", "failure"), ended.explanation
        path = ended.trajectory
        time = 0.05 * (settle + np.arange(len(path.actions)))
        states = np.column_stack([time, path.qpos[:-1], path.qvel[:-1]])
        return Recorded(path.actions[cut:], states[cut:], model_xml(world, digits), ended)
    finally:
        world.close()


def write_demonstrations(file: Path, task: str, found: Mapping[int, Recorded] | Sequence[Recorded]) -> Path:
    """Write ``data/demo_K`` of a task."""
    numbered = found if isinstance(found, Mapping) else dict(enumerate(found))
    with h5py.File(file, "w") as root:
        data = root.create_group("data")
        data.attrs["bddl_file_name"] = f"libero/libero/bddl_files/a_suite/{task}.bddl"
        data.attrs["env_args"] = json.dumps(ENV_ARGS)
        data.attrs["problem_info"] = json.dumps({"language_instruction": task.replace("_", " ")})
        for number, each in numbered.items():
            group = data.create_group(f"demo_{number}")
            group.attrs["num_samples"], group.attrs["model_file"] = len(each.actions), each.xml
            group.attrs["init_state"] = each.states[0]
            group.create_dataset("actions", data=each.actions)
            group.create_dataset("states", data=each.states)
            group.create_dataset("obs/agentview_rgb", data=np.zeros((len(each.actions), 4, 4, 3), np.uint8))
    return file
