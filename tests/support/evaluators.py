"""What the two tests of published evaluators share: the tasks, a policy that keeps what it sees, and the goldens."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pytest_vla import World
from pytest_vla.plan.evaluators import load_evaluator
from pytest_vla.plan.task import Task
from pytest_vla.policies.base import Episode, Session
from pytest_vla.policies.fit import Traits
from tests.support import seeing
from tests.support.reference import run_loops
from tests.support.worlds import libero_task, world_of

TASKS = (
    ("libero_goal", "put_the_bowl_on_the_stove"),
    ("libero_10", "KITCHEN_SCENE3_turn_on_the_stove_and_put_the_moka_pot_on_it"),
    ("libero_90", "KITCHEN_SCENE8_turn_off_the_stove"),
)
EVALUATORS = ("openpi", "openvla", "openvla-oft", "lerobot", "groot-n1.5", "groot-n1.7", "x-vla", "vla-eval")
STREAMS = ("openpi", "openvla")
"""A stream of resets after ``env.seed(7)``, and one after ``env.seed(0)``."""

CONVENTION = dict.fromkeys(("openvla", "openvla-oft", "groot-n1.5", "groot-n1.7"), "open") | {"x-vla": "absolute"}
GOLDEN = Path(__file__).parents[1] / "parity" / "golden"
BLIND_STEPS = 40


class Seen:
    """A policy that answers from what it sees, and keeps it."""

    def __init__(self, evaluator: str, task: Task, *, is_blind: bool = False) -> None:
        self.evaluator, self.text, self.is_blind = evaluator, task.language, is_blind
        self.convention = CONVENTION.get(evaluator, "signs")
        own = {"action_size": 10, "action_convention": "absolute", "rotation": "rotation_6d"}
        self.traits = Traits(**own) if self.convention == "absolute" else Traits()
        self.pictures: list[np.ndarray] = []
        self.states: list[np.ndarray] = []

    def __call__(self, episode: Episode) -> Session:
        def act(observation: Any) -> np.ndarray:
            names = ("agentview_image", "robot0_eye_in_hand_image")
            pictures = [] if self.is_blind else [observation[name] for name in names]
            state = observation["state"]
            self.pictures.append(np.frombuffer(seeing.digest(*pictures), dtype=np.uint8))
            self.states.append(state)
            return seeing.chunk_of(pictures, seeing.looked_at(self.evaluator, state), self.text, self.convention)

        return act


def scenes() -> dict[str, dict[str, list[str]]]:
    """By task and evaluator, the beginnings of digests of where each episode's bodies stand, made by `scene_digests`.

    The golden has the first episodes one by one, and those up to 49 as eight hexadecimal digits each, in a row.
    """
    found: dict[str, Any] = json.loads((GOLDEN / "evaluator_scenes.json").read_text())
    merged: dict[str, dict[str, list[str]]] = {}
    for task, by_name in found.items():
        further = by_name.pop("further")
        merged[task] = {
            name: [*by_name.get(name, ()), *(row[at : at + 8] for at in range(0, len(row), 8))]
            for name, row in further.items()
        }
    return merged


def scene_digests(task: str, name: str, folder: Path, number: int = 50) -> list[str]:
    """The digests of a task's first scenes by upstream's resets (evaluator_loops.py, `resets`)."""
    suite, stem = task.split("/")
    job = {"evaluator": name, "suite": suite, "task": stem, "states": [], "resets": number}
    return [seeing.digest(row).hex()[:16] for row in run_loops([job], folder)["job0_bodies"]]


def stands(world: World) -> str:
    """The digest of where a world's bodies stand."""
    return seeing.digest(np.concatenate([world.model.body_pos.ravel(), world.model.body_quat.ravel()])).hex()[:16]


def compare_scenes(task: str, episodes: Sequence[int] = range(50)) -> None:
    """Compare each evaluator's scenes of a task; backwards, since no scene may depend on those before it."""
    for name, expected in scenes()[task].items():
        with World(load_evaluator(name).task(libero_task(*task.split("/")))) as world:
            for episode in sorted((each for each in episodes if each < len(expected)), reverse=True):
                world.reset(init_state=episode, scene_seed=episode, settle=False)
                assert stands(world).startswith(expected[episode]), (name, task, episode)


def blind_digests(name: str) -> dict[str, list[str]]:
    """By task, the digest of each blind episode that upstream's loop of an evaluator made."""
    found: dict[str, list[str]] = json.loads((GOLDEN / "evaluator_loops.json").read_text())[name]
    return found


def blind_jobs(name: str) -> list[dict[str, Any]]:
    """An evaluator's first two episodes of each task, for a policy that sees no pictures, which processors round."""
    shared = {"evaluator": name, "blind": True, "episodes": 2, "steps": BLIND_STEPS}
    return [
        {
            **shared,
            "suite": suite,
            "task": stem,
            "language": libero_task(suite, stem).language,
            "states": world_of(suite, stem).init_states[:2].tolist(),
        }
        for suite, stem in TASKS
    ]


def golden_of(jobs: list[dict[str, Any]], folder: Path) -> dict[str, list[str]]:
    """By task, the digest of each episode's executed actions and joint positions, from upstream."""
    upstream, found = run_loops(jobs, folder), {}
    for number, job in enumerate(jobs):
        digests = []
        for episode in range(job["episodes"]):
            actions = upstream[f"job{number}_{episode}_action"].astype(np.float64)
            executed = actions if job["evaluator"] == "x-vla" else np.clip(actions, -1, 1)
            digests.append(seeing.digest(executed, upstream[f"job{number}_{episode}_qpos"]).hex()[:16])
        found[f"{job['suite']}/{job['task']}"] = digests
    return found
