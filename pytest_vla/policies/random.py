"""``--vla-model=random``: the baseline that every policy has to beat."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.policies.base import Episode, Observation, Session


def random_policy(episode: Episode) -> Session:
    """Each action uniform in [-1, 1], gripper included, drawn anew every step; looks at nothing."""

    def act(observation: Observation) -> NDArray[Any]:
        return episode.rng.uniform(-1.0, 1.0, episode.action_size).astype(np.float64)

    return act
