"""What the policy's process costs: the latency that it adds to one question, and its throughput beside direct calls.

    python benchmarks/serving.py

The policy is a stand-in that takes so many milliseconds a batch, as a device does, without using the processor: what is
measured is the way there and back, pictures included. Clients are processes, as workers are, and ask again at once:
what real workers do between two questions would hide the way. Both sides in turn in one run.
"""

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np
from upstream import table

from pytest_vla.policies.base import Episode, Observation
from pytest_vla.policies.noise import noise_generator
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.serving.client import ServedPolicy
from pytest_vla.serving.process import PolicyAddress, start

HERE = Path(__file__).parent
CLIENTS = 8
ROUNDS = 5
SECONDS = 2.0
"""How long a round lasts."""


@dataclass(frozen=True)
class StandIn:
    """A policy that takes `fixed` milliseconds a batch and `each` a question, and looks at all pictures once.

    All numbers of a chunk are how many questions were in its batch, in hundredths.
    """

    fixed: float
    each: float = 0.0
    max_batch: int = 32
    reads: tuple[str, ...] = ("agentview_image", "robot0_eye_in_hand_image", "state")

    def begin(self, episode: Episode) -> Any:
        return episode.seed

    def act(self, states: Sequence[Any], observations: Sequence[Observation]) -> Sequence[Any]:
        until = time.perf_counter() + (self.fixed + self.each * len(states)) / 1000
        for name in self.reads:
            np.stack([observation[name] for observation in observations])
        while (rest := until - time.perf_counter()) > 0:
            time.sleep(rest)
        return list(np.full((len(states), 16, 7), len(states) / 100))


instant, cheap, quick, slow, linear = StandIn(0), StandIn(3), StandIn(10), StandIn(40), StandIn(10, 3)
POLICIES = {"cheap": cheap, "quick": quick, "slow": slow, "linear": linear}


def observation() -> dict[str, Any]:
    """Two 256x256 pictures and a state."""
    pictures = np.random.default_rng(0).integers(0, 256, (2, 256, 256, 3), dtype=np.uint8)
    return {"agentview_image": pictures[0], "robot0_eye_in_hand_image": pictures[1], "state": np.zeros(8)}


def episode(seed: int) -> Episode:
    """One that only says who asks."""
    case = f"s/t[seed{seed}]"
    return Episode(case, "s", "t", "do it", seed, noise_generator(0, case))


@contextmanager
def served(name: str) -> Iterator[PolicyAddress]:
    """A process of one of this module's policies."""
    address = PolicyAddress.new()
    process = start(ModelSpec(f"serving:{name}", HERE), CLIENTS, address)
    try:
        yield address
    finally:
        process.close()
        address.remove()


def ask_served(address: PolicyAddress, number: int, rounds: int, barrier: Barrier, told: Any) -> None:
    """A client: in each round, as many questions as it gets answered in `SECONDS`; tells their batches' sizes."""
    policy = ServedPolicy(address, 60.0)
    session, seen = policy(episode(number)), observation()
    session(seen)
    for _ in range(rounds):
        barrier.wait()
        # The first answers, when not all clients are there yet, do not count.
        counted = time.perf_counter() + 0.2
        sizes: Counter[int] = Counter()
        while (now := time.perf_counter()) < counted + SECONDS:
            size = round(session(seen).actions[0, 0] * 100)
            if now >= counted:
                sizes[size] += 1
        told.put(sizes)
    policy.close()


def ask_direct(policy: StandIn, sizes: Counter[int]) -> float:
    """Questions a second of direct calls, `sizes` saying how many questions go in batches of each size."""
    seen = observation()
    calls = [size for size, questions in sizes.items() for _ in range(max(1, round(questions / size)))]
    began = time.perf_counter()
    for size in calls:
        policy.act(range(size), [seen] * size)
    return sum(calls) / (time.perf_counter() - began)


def latency() -> tuple[float, float]:
    """Milliseconds that one question takes with an instant policy: directly, and over there."""
    direct, remote = [], []
    with served("instant") as address:
        policy = ServedPolicy(address, 10.0)
        session, seen = policy(episode(0)), observation()
        for _ in range(20):
            direct.append(1000 / ask_direct(instant, Counter({1: 50})))
            began = time.perf_counter()
            for _ in range(50):
                session(seen)
            remote.append((time.perf_counter() - began) / 50 * 1000)
        policy.close()
    return float(np.median(direct)), float(np.median(remote))


def throughput(name: str) -> tuple[float, float, float, Counter[int]]:
    """Questions a second of `CLIENTS` clients over there, directly in full batches, and directly in the same batches.

    And how many questions were in batches of each size.
    """
    spawn = multiprocessing.get_context("spawn")
    barrier, told = spawn.Barrier(CLIENTS + 1), spawn.Queue()
    remote, full, same = [], [], []
    together: Counter[int] = Counter()
    with served(name) as address:
        clients = [
            spawn.Process(target=ask_served, args=(address, number, ROUNDS, barrier, told)) for number in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        for _ in range(ROUNDS):
            barrier.wait()
            sizes = sum((told.get() for _ in clients), Counter[int]())
            together += sizes
            remote.append(sizes.total() / SECONDS)
            full.append(ask_direct(POLICIES[name], Counter({CLIENTS: sizes.total() // 2})))
            same.append(ask_direct(POLICIES[name], sizes))
        for client in clients:
            client.join()
    return *(float(np.median(rates)) for rates in (remote, full, same)), together


def main() -> None:
    direct, remote = latency()
    table(
        f"One client, an instant policy, two 256x256 pictures (load {os.getloadavg()[0]:.1f})",
        [
            ("direct calls", "policy's process", "added", "wanted"),
            (f"{direct:.2f} ms", f"{remote:.2f} ms", f"{remote - direct:.2f} ms", "<= 2 ms"),
        ],
    )
    head = ("a batch of n takes", "policy's process", f"of direct in {CLIENTS}s", "of direct in the same sizes")
    rows: list[tuple[str, ...]] = [(*head, "mean batch")]
    for name, policy in POLICIES.items():
        remote, full, same, sizes = throughput(name)
        title = f"{policy.fixed:g} ms" + (f" + n x {policy.each:g} ms" if policy.each else "")
        mean = sizes.total() / sum(questions / size for size, questions in sizes.items())
        rows.append((title, f"{remote:.0f}/s", f"{remote / full:.0%}", f"{remote / same:.0%}", f"{mean:.1f}"))
    table(f"{CLIENTS} clients that ask again at once (wanted: 90% at same sizes; load {os.getloadavg()[0]:.1f})", rows)


if __name__ == "__main__":
    main()
