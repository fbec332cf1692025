"""What worlds supply, what a device takes, and how much of either a run reaches: tables, with a GPU and without.

    python benchmarks/device.py [--worlds] [--direct] [--serving] [--lerobot] [--upstream]      all of them without any

worlds: processes that each run episodes of one world, pictures every k steps, and no policy.
direct: a policy's time for a batch of each size, with nothing else on the machine.
serving: pytest itself with workers and the policy's process; the floor is what the device needs for as many questions.
lerobot: the same two with lerobot's own classes and random weights.
upstream: LIBERO's own loop in as many processes, pictures every step, where .venv-ref is there (or --reference).

Where torch sees a GPU, policies are transformers of SmolVLA's and of pi0's shape with random weights. Elsewhere they
are stand-ins that sleep as long as those took on an H100, and what only a GPU can tell says that there is none. How
pictures are drawn fastest is benchmarks/drawing.py's question.
"""

import argparse
import dataclasses
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np
import upstream
from device_policies import MOST, NOTES, PICTURES, REPLAN, TAKES
from serving_calls import takes
from upstream import NO_GPU, REPOSITORY, Upstream, gpu, libero_data, machine, side_by_side, table

from pytest_vla import World, load_suite
from pytest_vla.policies.base import Episode
from pytest_vla.policies.spec import ModelSpec

HERE = Path(__file__).parent
SUITE, SIDE = "libero_spatial", 256
SIZES = (1, 2, 4, 8, 16, 32)
EVERY = (1, 2, 5, 10)
Row = tuple[str, ...]
Times = dict[int, float]
"""Milliseconds of a call by how many questions are in it."""
PARTS = ("worlds", "direct", "serving", "lerobot", "upstream")


@dataclasses.dataclass(frozen=True)
class Subject:
    """A policy to be measured.

    Attributes:
        name: in tables.
        model: of ``--vla-model``.
        needs_gpu: whether it is not measured without one.
        sizes: of batches of direct calls.
    """

    name: str
    model: str
    needs_gpu: bool = False
    sizes: tuple[int, ...] = SIZES


@dataclasses.dataclass(frozen=True)
class Ran:
    """What a run of pytest took.

    Attributes:
        seconds: from its start to its end.
        episodes: how many were run.
        sizes: how many calls of the policy there were of each size.
        call_ms: of a call, mean.
        busy: share of the time from the first call's beginning to the last one's end.
        told: what the policy says that it is.
    """

    seconds: float
    episodes: int
    sizes: Counter[int]
    call_ms: float
    busy: float
    told: tuple[str, ...]

    @property
    def questions(self) -> int:
        return sum(size * calls for size, calls in self.sizes.items())


def subjects(asked: argparse.Namespace) -> list[Subject]:
    """Networks where there is a GPU, and stand-ins elsewhere; each shape also without pictures."""
    kind = "network" if gpu() else "sleeper"
    compiled = f"&compiled={asked.compiled}" if gpu() else ""
    found = []
    for shape, title in (("smolvla", "SmolVLA's shape"), ("pi0", "pi0's shape")):
        name = title if gpu() else f"stand-in for {title}"
        model = f"device_policies:{kind}?shape={shape}{compiled}"
        found += [Subject(name, model), Subject(f"{name}, reads no picture", f"{model}&reads=state")]
    return found


def of_lerobot(asked: argparse.Namespace) -> list[Subject]:
    """lerobot's classes: real ones on a GPU; without one a tiny one, which shows that the way is sound."""
    if not gpu():
        tiny = Subject("lerobot's SmolVLA, tiny", "device_policies:lerobot?kind=smolvla&size=tiny", sizes=(1, 2, 4))
        return [tiny, *(Subject(f"lerobot's {kind}", "", needs_gpu=True) for kind in ("smolvla", "pi0", "pi05"))]
    kinds = ("smolvla", "pi05", "pi0")
    return [
        Subject(f"lerobot's {kind}", f"device_policies:lerobot?kind={kind}&compiled={asked.compiled}") for kind in kinds
    ]


def on(asked: argparse.Namespace) -> str:
    """The machine, and how busy it is, also with other things."""
    return f"{asked.machine}, load {os.getloadavg()[0]:.1f}"


# Worlds alone.


def powers(most: int) -> list[int]:
    """1, 4, 16, ... and the most."""
    return [*(number for number in (1, 4, 16, 64, 256) if number < most), most]


def run_world(every: int, steps: int, episodes: int, barrier: Barrier, told: Any) -> None:
    """A process: episodes of one world, pictures every so many steps; tells when they began and ended."""
    with World(load_suite(SUITE).tasks[0], image_size=(SIDE, SIDE)) as world:
        generator = np.random.default_rng(0)

        def run(steps: int) -> None:
            observation = world.reset(0)
            for step in range(steps):
                if step % every == 0:
                    for name in PICTURES:
                        observation[name]
                observation = world.step(np.append(generator.uniform(-0.5, 0.5, 6), -1.0))

        run(2)
        barrier.wait()
        began = time.time()
        for _ in range(episodes):
            run(steps)
        told.put((began, time.time()))


def worlds_alone(processes: int, every: int, steps: int, episodes: int) -> float:
    """Seconds an episode, of all processes together: from the first one's start to the last one's end."""
    times = side_by_side(run_world, [(every, steps, episodes)] * processes)
    taken = max(end for _, end in times) - min(begin for begin, _ in times)
    return float(taken / (processes * episodes))


def worlds_table(asked: argparse.Namespace) -> None:
    rows: list[Row] = [("processes", "pictures every", "s an episode", "steps/s", "pairs/s")]
    for processes in asked.processes:
        for every in EVERY:
            taken = worlds_alone(processes, every, asked.steps, asked.repeats)
            pairs = -(-asked.steps // every) / taken
            rows.append(
                (str(processes), f"{every} steps", f"{taken:.3f}", f"{asked.steps / taken:.0f}", f"{pairs:.0f}")
            )
    title = f"worlds alone, {SUITE}/0: episodes of {asked.steps} steps and a reset, two {SIDE}x{SIDE} pictures"
    table(f"{title}; {on(asked)}", rows)


# A policy alone.


def direct(model: str, sizes: Sequence[int] = SIZES, calls: int = 7) -> Times:
    """Milliseconds of a call by the batch's size: medians, after calls that make it ready."""
    from pytest_vla.policies.load import load_policy

    policy: Any = load_policy(ModelSpec(model, HERE))
    drawn = np.random.default_rng(0)
    seen: dict[str, Any] = {name: drawn.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8) for name in PICTURES}
    seen["state"] = np.zeros(8)
    found = {}
    for size in sizes:
        if size > policy.max_batch:
            continue
        generators = [np.random.default_rng(number) for number in range(size)]
        states = [policy.begin(Episode("s/t[0]", "s", "t", "do it", 0, generator)) for generator in generators]
        taken = []
        for number in range(calls + 3):
            began = time.perf_counter()
            policy.act(states, [{name: seen[name] for name in policy.reads}] * size)
            if number >= 3:
                taken.append(1000 * (time.perf_counter() - began))
        found[size] = statistics.median(taken)
    return found


def direct_apart(subject: Subject) -> Times:
    """`direct` in a process of its own, which gives the device's memory back.

    Raises:
        RuntimeError: the last line that it said, where it failed.
    """
    code = "import json, sys; from device import direct; print('\\n' + json.dumps(direct(*json.loads(sys.argv[1]))))"
    wanted = json.dumps([subject.model, subject.sizes])
    ended = subprocess.run(
        [sys.executable, "-c", code, wanted], cwd=HERE, env=environment(), capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise RuntimeError(ended.stderr.strip().splitlines()[-1] if ended.stderr.strip() else "it said nothing")
    return {int(size): taken for size, taken in json.loads(ended.stdout.strip().splitlines()[-1]).items()}


def environment(notes: Path | None = None) -> dict[str, str]:
    """Of processes that find the policies, and ask no network for a model.

    Without a GPU torch gets one thread: workers have the other cores.
    """
    path = os.pathsep.join(filter(None, (str(HERE), str(REPOSITORY), os.environ.get("PYTHONPATH"))))
    told = {NOTES: str(notes)} if notes else {}
    threads = {} if gpu() else {"OMP_NUM_THREADS": "1"}
    return {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", **threads, **told}


def measured(all_subjects: Sequence[Subject]) -> dict[str, Times | str]:
    """The time of direct calls by the batch's size, or why there is none; by the subject's name."""
    found: dict[str, Times | str] = {}
    for subject in all_subjects:
        if subject.needs_gpu:
            found[subject.name] = NO_GPU
            continue
        try:
            found[subject.name] = direct_apart(subject)
        except RuntimeError as error:
            found[subject.name] = f"not here: {error}"
    return found


def best_rate(times: Times, most: int = MOST) -> float:
    """Questions a second in batches of the best size, of `most` at most."""
    return max(1000 * size / takes(times, size) for size in range(1, min(most, max(times)) + 1))


def direct_table(found: dict[str, Times | str], asked: argparse.Namespace) -> None:
    rows: list[Row] = [("policy", *(f"{size}, ms" for size in SIZES), "best, questions/s")]
    for name, times in found.items():
        if isinstance(times, str):
            rows.append((name, *("" for _ in SIZES), times))
        else:
            cells = (f"{times[size]:.0f}" if size in times else "-" for size in SIZES)
            rows.append((name, *cells, f"{best_rate(times):.0f}"))
    for shape in TAKES:
        recorded = TAKES[shape]
        cells = (f"{recorded[size]:.0f}" for size in SIZES)
        rows.append((f"{shape}'s shape on an H100, 2026-11-22", *cells, f"{best_rate(recorded):.0f}"))
    table(f"direct calls, by how many questions are in a batch; {on(asked)}", rows)


# Runs.


def run(model: str, workers: int, asked: argparse.Namespace) -> Ran:
    """pytest itself: workers, the policy's process, records; on a suite's ten tasks.

    Raises:
        RuntimeError: what pytest said at its end, where not all episodes were run.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        notes = folder / "notes"
        what = ["-q", "-p", "no:cacheprovider", f"--vla-suite={SUITE}", f"--vla-episodes={asked.episodes}"]
        began = time.perf_counter()
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", *what, f"--vla-model={model}", f"-n{workers}"],
            cwd=folder,
            env=environment(notes),
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.perf_counter() - began
        lines = [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []
    calls = [line for line in lines if isinstance(line, list)]
    # Episodes that fail are what is wanted: 1. None can be done, and none may break.
    if ended.returncode not in (0, 1) or (not calls and "random" not in model):
        raise RuntimeError((ended.stdout + ended.stderr).strip().splitlines()[-1])
    taken = [end - begin for begin, end, _ in calls]
    whole = max((end for _, end, _ in calls), default=0.0) - min((begin for begin, _, _ in calls), default=0.0)
    return Ran(
        seconds,
        10 * asked.episodes,
        Counter(size for _, _, size in calls),
        1000 * statistics.fmean(taken or [0.0]),
        sum(taken) / whole if whole else 0.0,
        tuple(line for line in lines if isinstance(line, str)),
    )


RUN_HEAD = (
    "policy", "workers", "s, start included", "s an episode", "floor", "of the floor's rate", "device busy",
    "mean batch", "a call, ms", "directly, ms",
)  # fmt: skip


def run_row(subject: Subject, times: Times | str, workers: int, asked: argparse.Namespace) -> Row:
    """A row of `RUN_HEAD`.

    The floor is what the device needs for a run's questions in its best batches, of as many as there are workers at
    most; `directly` is what the run's own batches take where nothing else is on the machine.
    """
    blank = ("",) * (len(RUN_HEAD) - 3)
    if isinstance(times, str):
        return (subject.name, str(workers), times, *blank)
    try:
        ran = run(subject.model, workers, asked)
    except RuntimeError as error:
        return (subject.name, str(workers), f"not here: {error}", *blank)
    for told in ran.told:
        print(f"{subject.name}: {told}")
    calls = ran.sizes.total()
    floor = ran.questions / best_rate(times, workers) / ran.episodes
    alone = sum(number * takes(times, size) for size, number in ran.sizes.items()) / calls
    each = ran.seconds / ran.episodes
    cells = (f"{ran.seconds:.1f}", f"{each:.3f}", f"{floor:.3f}", f"{floor / each:.0%}", f"{ran.busy:.0%}")
    return (
        subject.name, str(workers), *cells, f"{ran.questions / calls:.1f}", f"{ran.call_ms:.0f}", f"{alone:.0f}"
    )  # fmt: skip


def random_row(workers: int, asked: argparse.Namespace) -> Row:
    ran = run("random", workers, asked)
    blank = ("",) * (len(RUN_HEAD) - 4)
    return ("random (no device)", str(workers), f"{ran.seconds:.1f}", f"{ran.seconds / ran.episodes:.3f}", *blank)


def runs_table(what: Sequence[Subject], found: dict[str, Times | str], asked: argparse.Namespace, title: str) -> None:
    rows: list[Row] = [RUN_HEAD]
    for workers in asked.workers:
        if title == "serving":
            rows.append(random_row(workers, asked))
        rows += [run_row(subject, found[subject.name], workers, asked) for subject in what]
    if title == "serving" and not gpu():
        rows.append(("networks on a device", "", NO_GPU, *("",) * (len(RUN_HEAD) - 3)))
    told = f"{title}: {10 * asked.episodes} episodes of {SUITE}, replan {REPLAN}, at most {MOST} questions a batch"
    table(f"{told}; {on(asked)}", rows)


# Upstream's.


def upstreams_loop(processes: int, steps: int) -> float:
    """Seconds an episode of LIBERO's own loop, in so many processes at once."""
    data = libero_data()
    task = load_suite(SUITE).tasks[0]
    with World(task) as world:
        state = world.init_states[0].tolist()
    file = str(data / "bddl_files" / SUITE / f"{task.name}.bddl")
    opened = [Upstream() for _ in range(processes)]
    try:
        with ThreadPoolExecutor(processes) as threads:

            def of_all(do: str, **arguments: Any) -> None:
                list(threads.map(lambda one: one(do, **arguments), opened))

            of_all("open", task=file, assets=str(data / "assets"), cameras=SIDE, init_state=state)
            of_all("episode", n=1)
            began = time.perf_counter()
            of_all("episode", n=steps)
            return (time.perf_counter() - began) / processes
    finally:
        for one in opened:
            one.__exit__(None, None, None)


def upstream_table(asked: argparse.Namespace) -> None:
    rows: list[Row] = [("processes", "upstream, s an episode", "ours, every step", "ours, every 10 steps")]
    for processes in asked.processes:
        ours = (f"{worlds_alone(processes, every, asked.steps, 1):.3f}" for every in (1, 10))
        theirs = (
            f"{upstreams_loop(processes, asked.steps):.3f}" if upstream.PYTHON.exists() else f"no {upstream.PYTHON}"
        )
        rows.append((str(processes), theirs, *ours))
    table(f"upstream's loop, pictures every step, {SUITE}/0, {asked.steps} steps; {on(asked)}", rows)


def arguments() -> argparse.Namespace:
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def numbers(text: str) -> list[int]:
        return [int(number) for number in text.split(",")]

    for part in PARTS:
        parser.add_argument(f"--{part}", action="store_true")
    parser.add_argument("--processes", type=numbers, default=powers(cores), help="of worlds alone, such as 1,4,16")
    parser.add_argument("--workers", type=numbers, default=[cores], help="of runs, such as 16,24,32")
    parser.add_argument("--episodes", type=int, default=20 if gpu() else 2, help="of each of ten tasks in a run")
    parser.add_argument("--steps", type=int, default=220, help="of worlds alone and of upstream")
    parser.add_argument("--repeats", type=int, default=3 if gpu() else 1, help="episodes of a process of worlds alone")
    parser.add_argument("--compiled", default="none", help="none, compile, reduce-overhead or graphs (GPU only)")
    parser.add_argument("--reference", type=Path, help="an environment with LIBERO's own code instead of .venv-ref")
    asked = parser.parse_args()
    if not any(getattr(asked, part) for part in PARTS):
        vars(asked).update(dict.fromkeys(PARTS, True))
    if asked.reference:
        upstream.PYTHON = asked.reference / "bin" / "python"
    return asked


def main() -> None:
    asked = arguments()
    libero_data()
    asked.machine = machine()
    print(on(asked))
    if asked.worlds:
        worlds_table(asked)
    if asked.direct or asked.serving:
        what = subjects(asked)
        found = measured(what)
        direct_table(found, asked)
        if asked.serving:
            runs_table(what, found, asked, "serving")
    if asked.lerobot:
        if importlib.util.find_spec("lerobot") is None:
            print("\nlerobot: not installed here; run this by the python of `make lerobot`'s environment")
        else:
            what = of_lerobot(asked)
            found = measured(what)
            direct_table(found, asked)
            runs_table(what, found, asked, "lerobot")
    if asked.upstream:
        upstream_table(asked)


if __name__ == "__main__":
    main()
