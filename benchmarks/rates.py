"""How many questions workers ask and how many a policy answers, each alone and both together, as rates.

    python benchmarks/rates.py [--policy=lerobot:DIR] [--device=cuda] [--workers=1,2,4,8,16] [--replan=1,5,10]

Workers are processes that run whole episodes of one task with two 256x256 pictures, resets and settling included. The
policy is a stand-in that takes so many milliseconds a batch and a question, or what ``--policy`` names, on this
machine. Every episode takes all its steps, since the stand-in and an untrained policy never succeed.
"""

import argparse
import dataclasses
import functools
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from serving import HERE, StandIn, episode, observation
from upstream import table

from pytest_vla.policies.base import BatchPolicy, Episode, Observation, Session
from pytest_vla.policies.choices import AUTO
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.serving.client import ServedPolicy
from pytest_vla.serving.process import PolicyAddress, start

TASK = "turn_on_the_stove"
MOST = 32
SPAWN = multiprocessing.get_context("spawn")
MODEL, COUNTS = "PYTEST_VLA_RATES_MODEL", "PYTEST_VLA_RATES_COUNTS"
"""What the policy's process is told: the policy's spec, and the file to which `Counted` writes."""


@dataclass(frozen=True)
class Instant:
    """A policy that looks at two pictures and answers at once with a chunk."""

    steps: int

    def __call__(self, episode: Episode) -> Session:
        def session(seen: Observation) -> NDArray[Any]:
            for name in ("agentview_image", "robot0_eye_in_hand_image", "state"):
                seen[name]
            return np.zeros((self.steps, 7))

        return session


class Counted:
    """Another policy, whose time in seconds and batches of each size are in a file: numbers 0, and 1 to MOST."""

    def __init__(self, policy: BatchPolicy, counts: Path) -> None:
        self._policy, self._counts = policy, np.memmap(counts, np.float64, "r+", shape=(MOST + 1,))
        self.max_batch, self.reads = min(policy.max_batch, MOST), policy.reads

    def begin(self, episode: Episode) -> Any:
        return self._policy.begin(episode)

    def act(self, states: Sequence[Any], observations: Sequence[Observation]) -> Sequence[Any]:
        began = time.perf_counter()
        answers = self._policy.act(states, observations)
        self._counts[0] += time.perf_counter() - began
        self._counts[len(states)] += 1
        return answers


@functools.cache
def __getattr__(name: str) -> Any:
    """Policies that can be named: ``stand_in_30_3`` (milliseconds a batch and a question), ``counted_policy``."""
    if name.startswith("stand_in_"):
        return StandIn(*map(float, name.removeprefix("stand_in_").split("_")))
    if name == "counted_policy" and COUNTS in os.environ:
        model, device = os.environ[MODEL].rsplit("@", 1)
        return Counted(load(model, device), Path(os.environ[COUNTS]))
    raise AttributeError(name)


def load(model: str, device: str) -> BatchPolicy:
    """The policy that answers in batches; exits where it does not."""
    from pytest_vla.policies.base import is_batch_policy
    from pytest_vla.policies.load import load_policy

    policy = load_policy(ModelSpec(model, Path.cwd(), device))
    if not is_batch_policy(policy):
        sys.exit(f"--policy={model}: this policy does not answer in batches")
    return policy


@dataclass(frozen=True)
class Rates:
    """What workers did together, a second."""

    questions: float
    steps: float
    episodes: float


def work(pipe: Any, steps: int) -> None:
    """A worker: runs as many episodes as it is told to, with what it is told to; tells its questions and steps."""
    from pytest_vla import World, load_suite
    from pytest_vla.episode.rollout import Conditions, run_episode
    from pytest_vla.plan.select import plan

    suite = load_suite("tabletop")
    task = suite.task(TASK)
    task = dataclasses.replace(task, protocol=dataclasses.replace(task.protocol, max_steps=steps))
    world = World(task, image_size=(256, 256))
    cases = plan([suite], [TASK], range(10))
    while (order := pipe.recv()) is not None:
        policy, replan, count = order
        asked = taken = 0
        for case in cases[:count]:
            record = run_episode(case, task, policy, lambda *_: world, Conditions("rates", replan=replan)).record
            if record.outcome not in ("success", "failure"):
                pipe.send(f"{record.reason}: {record.message}")
                return
            taken += record.steps
            asked += -(-record.steps // replan)
        if isinstance(policy, ServedPolicy):
            policy.close()
        pipe.send((asked, taken, time.perf_counter()))


class Workers:
    """Processes that have the world loaded."""

    def __init__(self, most: int, steps: int) -> None:
        pairs = [SPAWN.Pipe() for _ in range(most)]
        self._pipes = [ours for ours, _ in pairs]
        for _, theirs in pairs:
            SPAWN.Process(target=work, args=(theirs, steps), daemon=True).start()
            theirs.close()
        self.run(Instant(10), 10, most, 1)

    def run(self, policy: Any, replan: int, workers: int, count: int) -> Rates:
        """What so many of them do together, each with so many episodes."""
        began = time.perf_counter()
        for pipe in self._pipes[:workers]:
            pipe.send((policy, replan, count))
        told = [pipe.recv() for pipe in self._pipes[:workers]]
        for answer in told:
            if isinstance(answer, str):
                sys.exit(f"an episode broke: {answer}")
        asked, taken, ended = (np.array(column) for column in zip(*told, strict=True))
        # Each by its own time: who ends first leaves the others the machine.
        seconds = ended - began
        return Rates(float((asked / seconds).sum()), float((taken / seconds).sum()), float((count / seconds).sum()))

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.send(None)


def supply(pipe: Any, model: str, device: str, seconds: float) -> None:
    """A process that tells the milliseconds of a batch of each size, until batches are full; 0 in the end."""
    policy, seen = load(model, device), {**observation(), **proprioception()}
    seen = {name: seen[name] for name in policy.reads}
    size = 1
    while size <= min(MOST, policy.max_batch):
        states = [policy.begin(episode(number)) for number in range(size)]
        policy.act(states, [seen] * size)
        times: list[float] = []
        while len(times) < 3 or sum(times) < seconds:
            began = time.perf_counter()
            policy.act(states, [seen] * size)
            times.append(time.perf_counter() - began)
        pipe.send((size, 1000 * float(np.median(times))))
        size *= 2
    pipe.send((0, 0.0))


def proprioception() -> dict[str, Any]:
    """What else a policy may read."""
    sizes = {"robot0_eef_pos": 3, "robot0_eef_quat": 4, "robot0_gripper_qpos": 2, "robot0_joint_pos": 7}
    return {name: np.zeros(size) for name, size in sizes.items()}


@contextmanager
def counted(model: str, device: str) -> Iterator[tuple[PolicyAddress, NDArray[np.float64]]]:
    """The policy's process, and the numbers of `Counted`."""
    address = PolicyAddress.new()
    with tempfile.NamedTemporaryFile() as file:
        np.zeros(MOST + 1).tofile(file.name)
        os.environ[MODEL], os.environ[COUNTS] = f"{model}@{device}", file.name
        process = start(ModelSpec("rates:counted_policy", HERE), MOST, address)
        try:
            yield address, np.memmap(file.name, np.float64, "r", shape=(MOST + 1,))
        finally:
            process.close()
            address.remove()


def show_demand(workers: Workers, options: argparse.Namespace) -> dict[tuple[int, int], Rates]:
    """Environments alone."""
    demand = {}
    head = ("workers", "replan", "questions/s", "control steps/s", "episodes/s", "of one, times n")
    rows: list[tuple[str, ...]] = [head]
    for replan in options.replan:
        for number in options.workers:
            rates = demand[number, replan] = workers.run(Instant(replan), replan, number, options.episodes)
            alone = rates.questions / demand[options.workers[0], replan].questions * options.workers[0] / number
            cells = (f"{rates.questions:.1f}", f"{rates.steps:.0f}", f"{rates.episodes:.2f}", f"{alone:.0%}")
            rows.append((str(number), str(replan), *cells))
    show(f"Environments alone, an instant policy, episodes of {options.steps} steps", rows)
    return demand


def show_supply(options: argparse.Namespace) -> dict[int, float]:
    """The policy alone."""
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=supply, args=(theirs, options.policy, options.device, options.seconds), daemon=True)
    process.start()
    theirs.close()
    times: dict[int, float] = {}
    rows: list[tuple[str, ...]] = [("batch", "ms", "questions/s", "of batches of 1")]
    while (told := ours.recv())[0]:
        size, milliseconds = told
        times[size] = milliseconds
        gain = times[1] * size / milliseconds
        rows.append((str(size), f"{milliseconds:.1f}", f"{1000 * size / milliseconds:.1f}", f"{gain:.1f}x"))
    process.join()
    show(f"{options.policy} on {options.device} alone, called directly", rows)
    return times


def show_together(
    workers: Workers, options: argparse.Namespace, demand: dict[tuple[int, int], Rates], times: dict[int, float]
) -> None:
    """Both."""
    head = ("workers", "replan", "questions/s", "control steps/s", "episodes/s", "demand", "supply")
    rows: list[tuple[str, ...]] = [(*head, "of the less", "of both in turn", "mean batch", "policy busy")]
    sizes = sorted(times)
    with counted(options.policy, options.device) as (address, counts):
        for replan in options.replan:
            for number in options.workers:
                before, began = counts.copy(), time.perf_counter()
                policy = ServedPolicy(address, 600.0)
                rates = workers.run(policy, replan, number, options.episodes)
                busy, *batches = counts - before
                share = busy / (time.perf_counter() - began)
                mean = float(np.dot(batches, range(1, MOST + 1)) / np.sum(batches))
                alone = demand[number, replan].questions
                # All questions of n workers in one batch would be the most that the policy can be given.
                most = 1000 / np.interp(number, sizes, [times[size] / size for size in sizes])
                # A worker's own time and that of a batch follow each other, since it waits for its answer.
                cycle = number / alone + np.interp(mean, sizes, [times[size] for size in sizes]) / 1000
                cells = (f"{rates.questions:.1f}", f"{rates.steps:.0f}", f"{rates.episodes:.2f}", f"{alone:.1f}")
                ratios = (f"{rates.questions / min(alone, most):.0%}", f"{rates.questions * cycle / number:.0%}")
                rows.append((str(number), str(replan), *cells, f"{most:.1f}", *ratios, f"{mean:.1f}", f"{share:.0%}"))
    show(f"Both together, {options.policy} on {options.device} in the policy's process", rows)


def show(title: str, rows: list[tuple[str, ...]]) -> None:
    """A table, with the machine's load beside its title, since rates depend on it."""
    table(f"{title} (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores)", rows)


def numbers(text: str) -> list[int]:
    """Of a list such as 1,2,4."""
    return [int(part) for part in text.split(",")]


def main() -> None:
    cores = os.cpu_count() or 1
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="rates:stand_in_30_3", help="as --vla-model; rates:stand_in_30_3")
    parser.add_argument("--device", default=AUTO)
    parser.add_argument("--workers", type=numbers, default=[n for n in (1, 2, 4, 8, 16, 32) if n <= cores])
    parser.add_argument("--replan", type=numbers, default=[1, 5, 10])
    parser.add_argument("--steps", type=int, default=100, help="of an episode")
    parser.add_argument("--episodes", type=int, default=2, help="of each worker in each row")
    parser.add_argument("--seconds", type=float, default=1.0, help="at least, for each size of batch")
    options = parser.parse_args()
    sys.path.insert(0, str(HERE))
    times = show_supply(options)
    workers = Workers(max(options.workers), options.steps)
    demand = show_demand(workers, options)
    show_together(workers, options, demand, times)
    workers.close()


if __name__ == "__main__":
    main()
