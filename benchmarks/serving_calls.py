"""How long a policy's calls take, by how many questions are in them: tables of real policies, and what sleeps them."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pytest_vla.policies.base import Episode, Observations

MOST = 32
"""Questions in a call."""

TABLES: Mapping[str, Mapping[int, float]] = {
    # Milliseconds on an H100, as measured directly (shared/spec/gpu_machine.md).
    "pi0": {1: 61, 2: 59, 4: 59, 8: 76, 16: 126, 32: 238},
    "smolvla": {1: 69, 2: 68, 4: 49, 8: 64, 16: 53, 32: 50},
    "launches_50": {1: 50, 32: 50},
    "launches_100": {1: 100, 32: 100},
    # As much for each question: nothing is gained by a batch.
    "each_10": {1: 10, 32: 320},
}


def takes(table: Mapping[int, float], size: int) -> float:
    """Milliseconds of a call of `size` questions: by the table, and straight lines between its sizes."""
    return float(np.interp(size, list(table), list(table.values())))


def call_seconds(name: str) -> Callable[[int], float]:
    """The times of a table, in seconds."""
    return lambda size: takes(TABLES[name], size) / 1000


@dataclass(frozen=True)
class StandIn:
    """A policy that takes as long as its table says, as a device does, without using the processor.

    All numbers of a chunk are how many questions were in its batch, in hundredths.

    Attributes:
        seconds: of a call with so many questions.
    """

    seconds: Callable[[int], float]
    max_batch: int = MOST
    reads: tuple[str, ...] = ("agentview_image", "robot0_eye_in_hand_image", "state")

    def begin(self, episode: Episode) -> Any:
        return episode.seed

    def act(self, states: Sequence[Any], observations: Observations) -> Sequence[Any]:
        until = time.perf_counter() + self.seconds(len(states))
        for name in self.reads:
            observations.stacked(name)
        while (rest := until - time.perf_counter()) > 0:
            time.sleep(rest)
        return list(np.full((len(states), 16, 7), len(states) / 100))


pi0, smolvla, launches_50, launches_100, each_10 = (StandIn(call_seconds(name)) for name in TABLES)
instant, quick, slow = StandIn(lambda size: 0.0), StandIn(lambda size: 0.010), StandIn(lambda size: 0.040)
cheap, linear = StandIn(lambda size: 0.003), StandIn(lambda size: 0.010 + 0.003 * size)
