"""What hosts, devices, networks and the driver cost: every number of the simulation, with where it was measured.

H100 is one machine of 16 virtual cores and one H100, 22 November 2026 (docs/explanation/device.md has the tables);
*here* is two busy cores without a GPU.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from serving_calls import MOST, TABLES, takes

STEPS, REPLAN = 220, 10
QUESTIONS = -(-STEPS // REPLAN)
"""Of an episode: of `libero_spatial` that fails, which is the longest that there is."""

EPISODE_SECONDS = 1.92
"""Of a core, for an episode with a pair of pictures every ten steps. H100: 1.92 s of one process, 0.120 of 16."""

RESET_SECONDS = 0.055
"""H100: 46-63 ms, with settling."""

PAIR_SECONDS = 0.0075
"""Two 256 x 256 pictures on a graphics card. H100, one process: 6.5-8.5 ms."""

PAIR_SOFTWARE_SECONDS = 0.41
"""On hosts without one, of a core. Here: 4.9 pairs a second on two cores, libero_spatial, in the better of two runs."""

STEPS_SECONDS = (EPISODE_SECONDS - RESET_SECONDS - QUESTIONS * PAIR_SECONDS) / QUESTIONS
"""Between two questions: ten control steps."""

SPREAD = 0.19
"""Half the width of what thinking takes, as a share of its mean. H100: 65-95 ms."""

SCENE_SECONDS = 0.6
"""For a worker that changes its scene, warm. H100: 0.6 s."""

START_SECONDS = 14.0
"""Until a worker's first episode: H100, 16 at once: imports, collection, and first resets of up to 9 s."""

POLICY_SECONDS: Mapping[str, float] = {"random": 0.0, "smolvla": 10.0, "pi0": 20.0}
"""Until the policy's process can answer. Not in the notes of 22 November: guessed."""

SHARED = 1.45
"""Calls of a device that also draws the workers' pictures take so much longer than direct ones. H100: 85 ms for 62
(SmolVLA's shape), 120 for 84 and 168 for 108 (pi0's)."""

PICTURES_BYTES = 2 * 256 * 256 * 3
LINKS: Mapping[str, float] = {"10 Gb/s": 10e9 / 8, "25 Gb/s": 25e9 / 8}
LATENCY_SECONDS = 0.0004
"""There and back between two hosts. Not measured: there were no two hosts."""

WAY_SECONDS = 0.0013
"""A question and its answer through the policy's process. Here: 1.07-1.58 ms."""

RECORD_SECONDS = 0.0013
"""Of the driver's processor for each episode, with its three reports. Here: `scale.py --controller`."""


IDS_SECONDS = 2.4e-6
"""Of a driver's processor, for each id of an item that each worker tells it: pytest-xdist's workers tell all. Here."""


@dataclass(frozen=True)
class Cluster:
    """A run's machines. All times in seconds.

    Attributes:
        model: of `TABLES`.
        hosts: of environments.
        devices: each with a replica of the policy.
        cores: of a host.
        workers: of a host.
        devices_a_host: that share a link.
        link: bytes a second into a host of devices; 0: everything is on one machine.
        pair: of a core, for a pair of pictures.
        slower: what calls take, in direct ones.
        greedy: whether a batch goes as soon as its device is free.
        drivers: that each have a share of the hosts.
        record: of a driver's processor, for each episode.
        start: until a worker's first episode.
        policy: until the policy answers.
        scene_changes: of a worker, a share of its episodes.
    """

    model: str
    hosts: int
    devices: int
    cores: int = 16
    workers: int = 16
    devices_a_host: int = 8
    link: float = LINKS["25 Gb/s"]
    pair: float = PAIR_SECONDS
    slower: float = 1.0
    greedy: bool = False
    drivers: int = 1
    record: float = RECORD_SECONDS
    start: float = START_SECONDS
    policy: float = 0.0
    scene_changes: float = 0.05
    steps: float = STEPS_SECONDS
    reset: float = RESET_SECONDS
    spread: float = SPREAD
    questions: int = QUESTIONS
    most: int = MOST
    calls: tuple[float, ...] = field(default=())

    @property
    def asks(self) -> bool:
        """Whether there is a device to ask."""
        return self.model != "random"

    def call_seconds(self) -> np.ndarray:
        """Of a call by the number of its questions, from 0."""
        if self.calls:
            return np.array(self.calls)
        if not self.asks:
            return np.zeros(self.most + 1)
        return (
            np.array([0.0, *(takes(TABLES[self.model], size) / 1000 for size in range(1, self.most + 1))]) * self.slower
        )

    def ids_seconds(self, episodes: int) -> float:
        """Until a driver has the ids of all of its workers."""
        return IDS_SECONDS * (episodes / self.drivers) * (self.hosts * self.workers / self.drivers)

    @property
    def core_seconds(self) -> float:
        """Of an episode."""
        pair = self.pair if self.asks else 0.0
        return self.reset + self.questions * (self.steps + pair) + self.scene_changes * SCENE_SECONDS

    @property
    def cores_give(self) -> float:
        """Episodes a second, where nobody waits for an answer."""
        return self.hosts * min(self.cores, self.workers) / self.core_seconds

    @property
    def devices_give(self) -> float:
        """Episodes a second, where devices answer the best batches without a break."""
        if not self.asks:
            return float("inf")
        calls = self.call_seconds()
        return float(self.devices * max(size / calls[size] for size in range(1, self.most + 1)) / self.questions)

    @property
    def links_give(self) -> float:
        """Episodes a second, where the links into hosts of devices are never idle."""
        if not self.link or not self.asks:
            return float("inf")
        return -(-self.devices // self.devices_a_host) * self.link / PICTURES_BYTES / self.questions

    @property
    def drivers_give(self) -> float:
        """Episodes a second, where drivers do nothing but take records."""
        return self.drivers / self.record if self.record else float("inf")
