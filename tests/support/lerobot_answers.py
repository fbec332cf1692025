"""What a policy of lerobot's answers, asked alone or with others."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.policies.base import Episode
from pytest_vla.policies.generators import noise_generator, reseed
from tests.support.lerobot_models import INSTRUCTIONS, observation


def episode(number: int) -> Episode:
    case = f"suite/task[seed{number}]"
    return Episode(case, "suite", "task", INSTRUCTIONS[number % 4], number, noise_generator(0, case))


def ask(policy: Any, episodes: Sequence[Episode], sessions: Sequence[Any], step: int = 0) -> list[NDArray[np.float64]]:
    """The answers at a control step; every episode sees its own picture, as the plugin asks."""
    for one in episodes:
        reseed(one.rng, 0, one.case_id, step)
    return list(policy.act(sessions, [observation(100 * one.seed + step) for one in episodes]))


def alone(policy: Any, number: int, step: int = 0) -> NDArray[np.float64]:
    one = episode(number)
    (answer,) = ask(policy, [one], [policy.begin(one)], step)
    return answer
