"""What the policy's process costs and gives: the way there and back, and batches at the right moment.

    python benchmarks/serving.py                  # the way: one client, and eight that ask again at once
    python benchmarks/serving.py --simulate       # when batches go, against the best static schedule, simulated
    python benchmarks/serving.py --clients        # the same with the real process and clients that think

The policy is a stand-in that takes so many milliseconds a batch, as a device does, without using the processor
(`serving_calls`). What asks again at once shows the way there and back, pictures included; real workers think between
two questions, which decides how large batches are. A static schedule waits for so many questions or for all that may
come; the best of all numbers is what the process's own rule is compared with, which knows neither times nor numbers
beforehand. Both sides in one run.
"""

import argparse
import math
import multiprocessing
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np
import serving_calls
from serving_calls import MOST, TABLES, StandIn, call_seconds
from upstream import side_by_side, table

from pytest_vla.policies.base import Episode, Observations
from pytest_vla.policies.generators import noise_generator
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.serving.batch_former import Dispatch
from pytest_vla.serving.client import ServedPolicy
from pytest_vla.serving.process import PolicyAddress, start
from pytest_vla.serving.simulated import AtLeast, Foreseen, Load, simulate

HERE = Path(__file__).parent
CLIENTS = 8
ROUNDS = 5
SECONDS = 2.0
"""How long a round lasts."""

WORKERS = (4, 8, 16, 32, 64)
THINKING = (20, 50, 90, 200)
SPREAD = 0.3
"""Half the width of what thinking takes, as a share of its mean; all times in between are alike."""

PROCESSES = 4
"""That clients are spread over; each client is a thread, which sleeps where a worker would simulate."""

SIMULATED = 6000
"""Questions in a simulation, a fifth of which do not count."""


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
    """A process of one of the stand-ins."""
    address = PolicyAddress.new()
    process = start(ModelSpec(f"serving_calls:{name}", HERE), MOST, address)
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
        policy.act(range(size), Observations([seen] * size))
    return sum(calls) / (time.perf_counter() - began)


def latency() -> tuple[float, float]:
    """Milliseconds that one question takes with an instant policy: directly, and over there."""
    direct, remote = [], []
    with served("instant") as address:
        policy = ServedPolicy(address, 10.0)
        session, seen = policy(episode(0)), observation()
        for _ in range(20):
            direct.append(1000 / ask_direct(serving_calls.instant, Counter({1: 50})))
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
    policy = getattr(serving_calls, name)
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
            full.append(ask_direct(policy, Counter({CLIENTS: sizes.total() // 2})))
            same.append(ask_direct(policy, sizes))
        for client in clients:
            client.join()
    return *(float(np.median(rates)) for rates in (remote, full, same)), together


def load_of(name: str, thinking: int) -> Load:
    """Of workers that think so many milliseconds, evenly spread."""
    times = np.linspace(1 - SPREAD, 1 + SPREAD, 1001) * thinking / 1000
    return Load(call_seconds(name), MOST, tuple(times))


def best_static(load: Load, workers: int) -> tuple[int, Foreseen]:
    """The number of questions whose waiting for gives the highest rate, of all numbers, and what it gives."""
    tried = {
        number: simulate(load, workers, AtLeast(number, workers), np.random.default_rng(1), questions=SIMULATED)
        for number in range(1, min(workers, MOST) + 1)
    }
    best = max(tried, key=lambda number: tried[number].questions_per_second)
    return best, tried[best]


class Planning(Dispatch):
    """The rule as a process has it, which plans while the policy is busy."""

    def took(self, size: int, seconds: float) -> None:
        super().took(size, seconds)
        for _ in range(20):
            self.plan()


def simulated(name: str, workers: int, thinking: int) -> float:
    """Questions a second by the rule."""
    rng, load = np.random.default_rng(1), load_of(name, thinking)
    return simulate(load, workers, Planning(MOST), rng, questions=SIMULATED).questions_per_second


def think_and_ask(
    address: PolicyAddress,
    numbers: Sequence[int],
    thinking: float,
    times: tuple[float, float],
    barrier: Barrier,
    told: Any,
) -> None:
    """Clients of one process: each a thread that thinks and asks in turn; tells how many answers counted.

    Args:
        address: of the policy's process.
        numbers: of the clients.
        thinking: seconds, on the average.
        times: seconds that do not count, in which the rule learns, and that do.
        barrier: of all clients.
        told: a queue.
    """
    counts = Counter[int]()

    def client(number: int) -> None:
        rng, policy, seen = np.random.default_rng(number), ServedPolicy(address, 60.0), observation()
        session = policy(episode(number))
        barrier.wait()
        counted = time.perf_counter() + times[0]
        until = counted + times[1]
        while (now := time.perf_counter()) < until:
            if now >= counted:
                counts[number] += 1
            time.sleep(thinking * rng.uniform(1 - SPREAD, 1 + SPREAD))
            session(seen)
        session.close()
        policy.close()

    threads = [threading.Thread(target=client, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told.put(counts.total())


def real(name: str, workers: int, thinking: int) -> float:
    """Questions a second of the real process with so many clients."""
    # Until about a dozen plans, and for some hundred calls.
    call = call_seconds(name)(min(workers, MOST)) + thinking / 1000
    times = (max(2.0, 20 * call), max(3.0, 30 * call))
    with served(name) as address:
        numbers = [range(workers)[first::PROCESSES] for first in range(min(PROCESSES, workers))]
        of_each = [(address, some, thinking / 1000, times) for some in numbers]
        total = sum(side_by_side(think_and_ask, of_each, workers))
    return float(total / times[1])


def grid(title: str, rate: Callable[[str, int, int], float], options: argparse.Namespace) -> None:
    """A table of a rate against the best static schedule, over all that was chosen."""
    rows: list[tuple[str, ...]] = [("a call takes", "workers", "thinking", "best static", "waits for", "here", "of it")]
    shares = []
    for name in options.calls:
        for workers in options.workers:
            for thinking in options.thinking:
                number, best = best_static(load_of(name, thinking), workers)
                found = rate(name, workers, thinking)
                shares.append(found / best.questions_per_second)
                cells = (f"{best.questions_per_second:.0f}/s", str(number), f"{found:.0f}/s", f"{shares[-1]:.0%}")
                rows.append((name, str(workers), f"{thinking} ms", *cells))
                print(*rows[-1], flush=True)
    table(f"{title} (load {os.getloadavg()[0]:.1f})", rows)
    mean = math.exp(float(np.mean(np.log(shares))))
    below = sum(share < 0.9 for share in shares)
    print(f"\nmean {mean:.1%}, least {min(shares):.1%}, below 90%: {below} of {len(shares)}")


def the_way() -> None:
    """Two tables: one client, and clients that ask again at once."""
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
    titles = {"cheap": "3 ms", "quick": "10 ms", "slow": "40 ms", "linear": "10 ms + n x 3 ms"}
    for name, title in titles.items():
        remote, full, same, sizes = throughput(name)
        mean = sizes.total() / sum(questions / size for size, questions in sizes.items())
        rows.append((title, f"{remote:.0f}/s", f"{remote / full:.0%}", f"{remote / same:.0%}", f"{mean:.1f}"))
    table(f"{CLIENTS} clients that ask again at once (wanted: 90% at same sizes; load {os.getloadavg()[0]:.1f})", rows)


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulate", action="store_true", help="the rule in the simulator, over the grid")
    parser.add_argument("--clients", action="store_true", help="the real process, over the grid")
    parser.add_argument("--calls", type=lambda text: text.split(","), default=list(TABLES), help=", ".join(TABLES))
    parser.add_argument("--workers", type=numbers, default=list(WORKERS))
    parser.add_argument("--thinking", type=numbers, default=list(THINKING), help="milliseconds")
    options = parser.parse_args()
    if options.simulate:
        grid("The rule, simulated", simulated, options)
    if options.clients:
        grid("The real process", real, options)
    if not options.simulate and not options.clients:
        the_way()


if __name__ == "__main__":
    main()
