"""What the policy's process costs: the latency that it adds to one question, and its throughput beside direct calls.

The policy is a stand-in that takes so many milliseconds a batch, as a device does, without using the processor:
what is measured is the way there and back, pictures included. Both sides in turn in one run.
"""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from upstream import table

from pytest_vla.policies.base import Episode, Observation, noise_generator
from pytest_vla.serving.client import ServedPolicy
from pytest_vla.serving.process import start

HERE = Path(__file__).parent
CLIENTS = 8
QUESTIONS = 60
ROUNDS = 5


class Busy:
    """Takes `milliseconds` a batch, whatever its size, and looks at every byte of the pictures once."""

    max_batch, reads = 32, ("agentview_image", "robot0_eye_in_hand_image", "state")

    def __init__(self, milliseconds: float) -> None:
        self.seconds = milliseconds / 1000

    def begin(self, episode: Episode) -> Any:
        return episode.seed

    def act(self, states: Sequence[Any], observations: Sequence[Observation]) -> Sequence[Any]:
        batch = np.stack([observation["agentview_image"] for observation in observations])
        until = time.perf_counter() + self.seconds
        while (rest := until - time.perf_counter()) > 0:
            time.sleep(rest)
        return list(np.zeros((len(states), 8, 7)) + batch[0, 0, 0, 0])


instant, quick, slow = Busy(0.0), Busy(10.0), Busy(40.0)


def observation() -> dict[str, Any]:
    """Two 256x256 pictures and a state."""
    pictures = np.random.default_rng(0).integers(0, 256, (2, 256, 256, 3), dtype=np.uint8)
    return {"agentview_image": pictures[0], "robot0_eye_in_hand_image": pictures[1], "state": np.zeros(8)}


def ask_served(policy: ServedPolicy, seed: int, count: int) -> float:
    """Seconds for so many questions of one episode."""
    case = f"s/t[seed{seed}]"
    session = policy(Episode(case, "s", "t", "do it", seed, noise_generator(0, case)))
    seen = observation()
    began = time.perf_counter()
    for _ in range(count):
        session(seen)
    return time.perf_counter() - began


def ask_direct(policy: Busy, size: int, count: int) -> float:
    """Seconds for so many batches of a size."""
    states, seen = list(range(size)), [observation()] * size
    began = time.perf_counter()
    for _ in range(count):
        policy.act(states, seen)
    return time.perf_counter() - began


def latency() -> tuple[float, float]:
    """Milliseconds that one question takes with an instant policy: directly, and over there."""
    process = start("serving:instant", HERE, CLIENTS)
    served = ServedPolicy(process.path, process.secret, 10.0)
    ask_served(served, 0, 20)
    direct, remote = [], []
    for _ in range(ROUNDS):
        direct.append(ask_direct(instant, 1, QUESTIONS) / QUESTIONS * 1000)
        remote.append(ask_served(served, 0, QUESTIONS) / QUESTIONS * 1000)
    served.close()
    process.close()
    return float(np.median(direct)), float(np.median(remote))


def throughput(name: str, policy: Busy) -> tuple[float, float]:
    """Questions a second of `CLIENTS` clients: directly in batches of that size, and over there."""
    process = start(f"serving:{name}", HERE, CLIENTS)
    direct, remote = [], []
    for _ in range(ROUNDS):
        direct.append(CLIENTS * QUESTIONS / ask_direct(policy, CLIENTS, QUESTIONS))
        clients = [ServedPolicy(process.path, process.secret, 10.0) for _ in range(CLIENTS)]
        threads = [
            threading.Thread(target=ask_served, args=(client, number, QUESTIONS))
            for number, client in enumerate(clients)
        ]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        remote.append(CLIENTS * QUESTIONS / (time.perf_counter() - began))
        for client in clients:
            client.close()
    process.close()
    return float(np.median(direct)), float(np.median(remote))


def main() -> None:
    direct, remote = latency()
    rows: list[tuple[str, ...]] = [("", "direct calls", "policy's process", "difference", "wanted")]
    added = remote - direct
    rows.append(("one client, instant policy", f"{direct:.2f} ms", f"{remote:.2f} ms", f"+{added:.2f} ms", "<= 2 ms"))
    for name, policy in (("quick", quick), ("slow", slow)):
        direct, remote = throughput(name, policy)
        title = f"{CLIENTS} clients, {policy.seconds * 1000:.0f} ms a batch"
        rows.append((title, f"{direct:.0f}/s", f"{remote:.0f}/s", f"{100 * remote / direct:.0f}%", ">= 90%"))
    table("The policy's process beside direct calls, two 256x256 pictures a question", rows)


if __name__ == "__main__":
    main()
