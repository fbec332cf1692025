"""Published evaluators run beside us: what the policy gets and what the world does is equal, step by step."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla import World
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.episode.world_pool import WorldPool
from pytest_vla.plan.case import Case
from pytest_vla.plan.choices import INSTALLED
from pytest_vla.plan.evaluators import load_evaluator
from pytest_vla.plan.task import Task, with_protocol
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
EPISODES, STEPS = 3, 60
CONVENTION = dict.fromkeys(("openvla", "openvla-oft", "groot-n1.5", "groot-n1.7"), "open") | {"x-vla": "absolute"}


class Seen:
    """A policy that answers from what it sees, and keeps it."""

    def __init__(self, evaluator: str, task: Task) -> None:
        self.convention, self.text = CONVENTION.get(evaluator, "signs"), task.language
        self.processed = task.protocol.image_transform
        own = {"action_size": 10, "action_convention": "absolute", "rotation": "rotation_6d"}
        self.traits = Traits(**own) if self.convention == "absolute" else Traits()
        self.pictures: list[np.ndarray] = []
        self.states: list[np.ndarray] = []

    def __call__(self, episode: Episode) -> Session:
        def act(observation: Any) -> np.ndarray:
            names = ("agentview_image", "robot0_eye_in_hand_image")
            pictures, state = [observation[name] for name in names], observation["state"]
            self.pictures.append(np.frombuffer(seeing.digest(*pictures), dtype=np.uint8))
            self.states.append(state)
            return seeing.chunk_of(pictures, state, self.text, self.convention)

        return act


GOLDEN = Path(__file__).with_name("golden") / "evaluator_scenes.json"


def scenes() -> dict[str, dict[str, list[str]]]:
    """By task and evaluator, the digests of where each episode's bodies stand (evaluator_loops.py, `resets`)."""
    found: dict[str, dict[str, list[str]]] = json.loads(GOLDEN.read_text())
    return found


def stands(world: World) -> str:
    """The digest of where a world's bodies stand."""
    return seeing.digest(np.concatenate([world.model.body_pos.ravel(), world.model.body_quat.ravel()])).hex()[:16]


def compare_scenes(task: str, number: int | None = None) -> None:
    """Compare an evaluator's first scenes of a task; backwards, since no scene may depend on those before it."""
    for name, expected in scenes()[task].items():
        with World(load_evaluator(name).task(libero_task(*task.split("/")))) as world:
            for episode in reversed(range(len(expected))[:number]):
                world.reset(init_state=episode, scene_seed=episode, settle=False)
                assert stands(world) == expected[episode], (name, task, episode)


def test_the_scenes_of_a_stream_are_upstreams() -> None:
    compare_scenes("libero_10/KITCHEN_SCENE3_turn_on_the_stove_and_put_the_moka_pot_on_it")


def test_one_episode_has_its_scene_without_those_before_it() -> None:
    task = "libero_goal/open_the_middle_drawer_of_the_cabinet"
    with World(load_evaluator("openpi").task(libero_task(*task.split("/")))) as world:
        world.reset(init_state=37, scene_seed=37, settle=False)
        assert stands(world) == scenes()[task]["openpi"][37]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_all_scenes_with_movable_fixtures_are_upstreams(part: int) -> None:
    """Episodes 0 to 49 of the 25 different scenes of LIBERO's 88 tasks whose cabinet, stove or rack is placed anew."""
    assert len(scenes()) == 25
    for task in sorted(scenes())[part::4]:
        compare_scenes(task)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVALUATORS)
def test_episodes_are_the_evaluators_own(name: str, tmp_path: Path) -> None:
    """Three tasks, three episodes, 60 steps: pictures, state, executed action, positions and success."""
    evaluator = load_evaluator(name)
    tasks = [with_protocol(evaluator.task(libero_task(*each)), textures=INSTALLED, max_steps=STEPS) for each in TASKS]
    if "openvla" in name:
        # What TensorFlow makes of a picture is tested elsewhere: here both policies get the turned picture.
        tasks = [with_protocol(task, image_transform="rotate_180") for task in tasks]
    jobs = [
        {
            "evaluator": name,
            "suite": suite,
            "task": stem,
            "language": task.language,
            "states": world_of(suite, stem).init_states[:EPISODES].tolist(),
            "episodes": EPISODES,
            "steps": STEPS,
        }
        for (suite, stem), task in zip(TASKS, tasks, strict=True)
    ]
    upstream = run_loops(jobs, tmp_path)
    for number, task in enumerate(tasks):
        for episode in range(EPISODES):
            theirs = {
                key: upstream[f"job{number}_{episode}_{key}"]
                for key in ("pictures", "state", "action", "qpos", "success")
            }
            policy, pool = Seen(name, task), WorldPool(allow_versions=False)
            case = Case(task.suite, task.name, episode)
            rollout = run_episode(case, task, policy, pool, Conditions("seen", replan=evaluator.replan, premises=False))
            where = (name, task.name, episode)
            assert rollout.record.outcome in ("success", "failure"), (where, rollout.record.message)
            assert rollout.trajectory is not None
            executed = theirs["action"] if name == "x-vla" else np.clip(theirs["action"], -1, 1)
            assert np.array_equal(rollout.trajectory.actions, executed), where
            assert np.array_equal(rollout.trajectory.qpos, theirs["qpos"]), where
            assert (rollout.record.outcome == "success") == bool(theirs["success"][-1]), where
            assert np.array_equal(np.array(policy.states), theirs["state"]), where
            assert np.array_equal(np.array(policy.pictures), theirs["pictures"]), where
            pool.close()
