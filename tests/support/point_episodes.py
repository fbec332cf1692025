"""Episodes on the world without a simulator."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from pytest_vla.episode.result import Rollout
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.plan.case import Case
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.testing import World

CASE = Case("libero_goal", "turn_on_the_stove", 0)
SLOW = np.array([0.5, 0.1, 0, 0, 0, 0, -1.0])


def a_task(max_steps: int = 20, image_transform: str = "rotate_180") -> Task:
    task = load_suite("libero_goal").task("turn_on_the_stove")
    protocol = dataclasses.replace(task.protocol, max_steps=max_steps, image_transform=image_transform)
    return dataclasses.replace(task, protocol=protocol)


def a_policy(answer: Callable[..., Any]) -> Any:
    """A policy whose sessions answer with `answer(observation)`."""
    return lambda episode: answer


def run(policy: Any, world: World | None = None, *, case: Case = CASE, max_steps: int = 20, **options: Any) -> Rollout:
    task = a_task(max_steps)
    conditions = Conditions("mine", **options)
    return run_episode(case, task, policy, lambda task, variation: world or World(task, variation), conditions)
