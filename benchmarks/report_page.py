"""How large an HTML report of many episodes is, how long it takes to make, and how long to open in Chromium.

    python benchmarks/report_page.py [--episodes=10000] [--runs=2] [--paths] [--folder=DIR]

The records are made up, and stand in a store as a sweep leaves them: ten tasks, six dimensions at five levels beside
benign twins, paraphrases of every kind, costs, metrics, and two models, the second judged by a gate against the first.
With ``--paths`` each has a trajectory with series, of which failure types and what foretells failure are made. The page
is what ``pytest-vla report --format=html`` makes of them. The last line says the machine's load: times go by it.
"""

import argparse
import dataclasses
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from pytest_vla.gate.baseline import baseline_of  # noqa: E402
from pytest_vla.gate.baseline_file import read_baseline, write_baseline  # noqa: E402
from pytest_vla.gate.manifest import MANIFEST, Manifest, baseline_digest, cases_digest, manifest_table  # noqa: E402
from pytest_vla.metrics.pride import ACTION_TYPES, OBJECT_TYPES  # noqa: E402
from pytest_vla.plan.costs import Charge  # noqa: E402
from pytest_vla.records.record import Record  # noqa: E402
from pytest_vla.records.store import open_store  # noqa: E402
from pytest_vla.records.trajectory import Trajectory, save_trajectory  # noqa: E402
from tests.support.chromium import chromium, chromium_program  # noqa: E402
from tests.support.varied import variation_of, varied  # noqa: E402

TASKS = tuple(f"task_{number}" for number in range(10))
KINDS = ("camera.distance", "light.specular", "layout.objects", "background.table", "robot.joints", "noise.fog")
STEPS = 200
METRICS = ("token_entropy", "trajectory_instability", "hand_path")


def episodes(number: int, model: str, skill: float, seed: int) -> Iterator[Record]:
    """So many episodes of a model: a third benign and in other words, the others varied."""
    rng = np.random.default_rng(seed)
    labels = ["", *(f"{kind}-L{level}" for kind in KINDS for level in range(1, 6))]
    words = [(kind, action) for kind in OBJECT_TYPES for action in ACTION_TYPES][1:]
    each = -(-number // len(TASKS))
    for place in range(number):
        task, rest = TASKS[place % len(TASKS)], place // len(TASKS)
        label = labels[rest % len(labels)]
        harm = 0.0 if not label else 0.05 * int(label[-1]) * (1 + KINDS.index(label.partition("-")[0]) / 4)
        done = bool(rng.random() < skill - harm)
        outcome = "error" if rng.random() < 0.005 else "success" if done else "failure"
        record = varied(label, outcome, task, rest // len(labels), policy=model)
        steps = int(rng.integers(60, STEPS)) if done else STEPS
        record = dataclasses.replace(
            record,
            steps=steps,
            success_step=steps if outcome == "success" else None,
            protocol={**record.protocol, "max_steps": STEPS, "control_freq": 20},
            instruction=f"{task.replace('_', ' ')} with the {rest % 97}th thing",
            costs=charges(rng, done),
            metrics={name: float(rng.random()) for name in METRICS},
            timings={"wall": float(rng.random() * 20)},
            digest=f"{model}{place}",
        )
        if not label and rest % 2 and words:
            kind, action = words[rest // 2 % len(words)]
            record = reworded(record, kind, action, rest % each)
        yield record


def reworded(record: Record, kind: str, action: str, index: int) -> Record:
    """The same under a paraphrase."""
    label = f"{kind}.{action}.{index}"
    parameters = {"object_type": kind, "action_type": action, "index": index, "original": record.task.replace("_", " ")}
    variation = {**variation_of(""), "label": label, "dimension": "language", "kind": "paraphrase", "level": None}
    again = varied("", record.outcome, record.task, record.seed, policy=record.policy)
    case = again.case.replace(f"{record.task}[", f"{record.task}[{label}-")
    text = f"would you {'kindly ' * (index % 5)}do the {index}th thing of {record.task.replace('_', ' ')}"
    return dataclasses.replace(
        record,
        case=case,
        node=record.node.replace("-seed", f"-{label}-seed"),
        variation=variation | {"parameters": parameters},
        instruction=text,
    )


def charges(rng: np.random.Generator, done: bool) -> tuple[Charge, ...]:
    """Half of the episodes touch something."""
    name, bodies = "(incontact bowl_1 vase_1)", ("bowl_1", "vase_1")
    if rng.random() < 0.5:
        return (Charge(name, 0.0, account="paper", kind="instant"),)
    amount = float(rng.integers(1, 9)) * (1 + (not done))
    return (Charge(name, amount, 20, None, None, "paper", "instant", 30, bodies, 4.5),)


def trajectory(record: Record, rng: np.random.Generator) -> Trajectory:
    """A path that goes astray where it failed, and series that say so more or less."""
    failed = record.outcome == "failure"
    task = int(record.task.rpartition("_")[2])
    end = [0.3 * np.cos(task), 0.3 * np.sin(task) + 0.2 * (failed and record.seed % 2), 1.2]
    path = np.linspace([0, 0, 1.0], end, record.steps + 1) + rng.normal(scale=0.002, size=(record.steps + 1, 3))
    series = {name: rng.random(record.steps) + 0.2 * failed for name in METRICS}
    none = np.zeros((record.steps + 1, 0))
    return Trajectory(none, none, path, np.zeros((record.steps, 7)), series)


def stored(folder: Path, number: int, models: int, paths: bool) -> None:
    """A run of each model, in a store of the folder; the later ones have the first as their baseline."""
    rng, baseline = np.random.default_rng(0), folder.parent / "first.vla.json"
    for run in range(models):
        name, model = f"2026010{run + 1}-000000-aaaa", f"policy_{run}:policy"
        records = [dataclasses.replace(r, run=name) for r in episodes(number // models, model, 0.9 - 0.06 * run, run)]
        kept = {} if not run else {MANIFEST: manifest_table(agreed(baseline, records))}
        if not run:
            write_baseline(baseline_of(records), baseline)
        with open_store(folder, create=True) as store:
            nodes = [record.node for record in records]
            store.begin(name, nodes, command="pytest", model=model, invocation=kept)
            if paths:
                records = [dataclasses.replace(r, arrays=f"{r.suite}/{place}.npz") for place, r in enumerate(records)]
                for record in records:
                    save_trajectory(folder / name / str(record.arrays), trajectory(record, rng))
            store.add_all(records)
            store.end(name, "finished")


def agreed(file: Path, records: Sequence[Record]) -> Manifest:
    """What a run's gate agrees on."""
    baseline, by = read_baseline(file), ("suite", "dimension")
    nodes = [record.node for record in records]
    terms = (5.0, 0.05, by, "no-regression", len(nodes), cases_digest(nodes), True, {}, ("steps=10", "cost.paper"))
    return Manifest(str(file), baseline_digest(baseline), "fixed", *terms)


def made(folder: Path, *arguments: str) -> tuple[float, float]:
    """The command's seconds and its largest memory, MB."""
    began = time.perf_counter()
    program = "import sys; from pytest_vla.cli import main; sys.exit(main(sys.argv[1:]))"
    subprocess.run([sys.executable, "-c", program, *arguments], check=True, cwd=folder)
    return time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def opened(file: Path) -> Iterator[dict[str, float]]:
    """Five times: the load event, the first paint and the table, ms after the address was asked for."""
    timing = (
        "(() => { const [n] = performance.getEntriesByType('navigation');"
        "return { load: n.loadEventEnd, ready: n.domContentLoadedEventEnd,"
        "paint: performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN }; })()"
    )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, chromium(Path(profile)) as browser:
        for _ in range(5):
            seconds = browser.open(file.as_uri())
            yield {**browser.run(timing), "drawn": 1000 * seconds}


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--paths", action="store_true")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        began = time.perf_counter()
        stored(folder / ".vla", options.episodes, options.runs, options.paths)
        print(f"store of {options.episodes} episodes: {time.perf_counter() - began:.1f} s")
        seconds, memory = made(folder, "report", "-o", "report.html", "--pictures=0")
        size = (folder / "report.html").stat().st_size / 1e6
        print(f"page: {size:.2f} MB, made in {seconds:.1f} s with {memory:.0f} MB at most")
        if chromium_program() is not None:
            times = [*opened(folder / "report.html")]
            for name in times[0]:
                found = sorted(each[name] for each in times)
                print(f"{name}: {found[0]:.0f} ms at best, {found[len(found) // 2]:.0f} at the median of {len(found)}")
    print(f"load of the machine, 1 and 5 minutes: {os.getloadavg()[0]:.1f}, {os.getloadavg()[1]:.1f}")


if __name__ == "__main__":
    main()
