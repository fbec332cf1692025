"""What one driver sustains, and what a cluster behind it would give.

    python benchmarks/scale.py --store                      # records a second into the store, one by one and in batches
    python benchmarks/scale.py --controller                 # the whole way of a report, with workers that take no time
    python benchmarks/scale.py --controller --before=FOLDER # beside another checkout of this repository, in turn
    python benchmarks/scale.py --memory                     # what the controller keeps of each record
    python benchmarks/scale.py --simulate                   # hosts, devices, network and driver as queues

All but the last measure this machine. The last one is arithmetic on costs that were measured elsewhere; what they are,
and what was never measured, is in docs/explanation/scale.md.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import scale_records
from scale_cluster import simulate
from scale_costs import (
    PAIR_SECONDS,
    PAIR_SOFTWARE_SECONDS,
    POLICY_SECONDS,
    SHARED,
    START_SECONDS,
    Cluster,
)
from scale_records import FULL, PLAIN
from upstream import REPOSITORY, table

from pytest_vla.records.record import Record, record_line
from pytest_vla.records.store import open_store

HERE = Path(__file__).parent
BATCHES = (1, 10, 100, 256, 1000)
WANTED = 2000
"""Records a second."""

MOST_ALONE = 500
"""Records that are written one by one: the rate is known by then."""


def store_rates(kind: str, count: int, folder: Path) -> Iterator[tuple[str, ...]]:
    """A row for each size of a batch: each batch is a transaction, of records with their endings."""
    made = [scale_records.record(case, kind) for case in scale_records.cases(count)]
    size = statistics.fmean(len(record_line(record)) for record in made)
    for batch in BATCHES:
        records = scale_records.fresh(made[: MOST_ALONE if batch == 1 else count])
        with tempfile.TemporaryDirectory(dir=folder) as name, open_store(Path(name), create=True) as store:
            store.begin("scale", [record.node for record in records], command="pytest", model="random")
            began, processor = time.perf_counter(), time.process_time()
            for start in range(0, len(records), batch):
                some = records[start : start + batch]
                changes: list[Record | tuple[str, str]] = [*some, *((record.node, "passed") for record in some)]
                store.write("scale", changes)
            seconds, processor = time.perf_counter() - began, time.process_time() - processor
        rate = len(records) / seconds
        each = 1000 * processor / len(records)
        yield (
            f"{kind}, {size / 1000:.1f} kB",
            str(batch),
            f"{rate:.0f}",
            f"{each:.2f}",
            "yes" if rate >= WANTED else "no",
        )


def store_table(options: argparse.Namespace) -> None:
    rows: list[tuple[str, ...]] = [("records", "in a transaction", "records/s", "processor, ms each", f">= {WANTED}/s")]
    for kind in (PLAIN, FULL):
        rows += store_rates(kind, options.records, options.folder)
    table(f"records with their endings into the store, on the disk of {options.folder} (load {load()})", rows)


def controller(code: Path, count: int, kind: str, workers: int, profile: Path | None = None) -> dict[str, float]:
    """A run of pytest with nodes that take no time; what `scale_nodes` measured.

    Args:
        code: the repository whose package is measured.
        count: of episodes.
        kind: of records.
        workers: how many nodes.
        profile: the file for cProfile's account.
    """
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "out.json"
        told = {"SCALE_EPISODES": str(count), "SCALE_KIND": kind, "SCALE_OUT": str(out)}
        if profile is not None:
            told["SCALE_PROFILE"] = str(profile)
        environment = {**os.environ, **told, "PYTHONPATH": os.pathsep.join((str(HERE), str(code)))}
        what = ("-q", "--tb=no", "-p", "scale_nodes", "-p", "no:cacheprovider", f"--vla-suite={scale_records.SUITE}")
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", *what, "--vla-model=random", "--vla-episodes=1", f"-n{workers}"],
            cwd=name,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode not in (0, 1) or not out.exists():
            sys.exit((ended.stdout + ended.stderr)[-2000:])
        found: dict[str, float] = json.loads(out.read_text())
    return found


def controller_table(options: argparse.Namespace) -> None:
    rows: list[tuple[str, ...]] = [
        ("code", "records", "records/s", "processor, ms each", "kB kept of each", "whole, s")
    ]
    sides = {"here": REPOSITORY, **({"before": options.before.resolve()} if options.before else {})}
    found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for _ in range(options.repeats):
        # In turn: the machine has other things to do, now more and now less.
        for side, code in sides.items():
            found[side].append(controller(code, options.records, options.kind, options.workers, options.profile))
    for side, runs in found.items():
        rows.append(
            (
                side,
                f"{options.records} {options.kind}",
                f"{statistics.median(each['episodes'] / each['seconds'] for each in runs):.0f}",
                f"{statistics.median(1000 * each['cpu'] / each['episodes'] for each in runs):.2f}",
                f"{statistics.median(each['bytes'] / each['episodes'] for each in runs) / 1000:.1f}",
                f"{statistics.median(each['whole'] for each in runs):.1f}",
            )
        )
    table(f"the controller's whole way of a report, {options.workers} nodes that take no time (load {load()})", rows)
    if options.before:
        pairs = zip(found["before"], found["here"], strict=True)
        ratios = [(before["seconds"] / here["seconds"], before["cpu"] / here["cpu"]) for before, here in pairs]
        times, processors = zip(*ratios, strict=True)
        of_time, of_processor = statistics.median(times), statistics.median(processors)
        print(f"\nbefore / here, in turn: {of_time:.1f} of time, {of_processor:.1f} of processor")


def memory_table(options: argparse.Namespace) -> None:
    rows: list[tuple[str, ...]] = [("records", "kB kept of each", "a million, GB")]
    for kind in (PLAIN, FULL):
        few, many = (
            controller(REPOSITORY, count, kind, options.workers) for count in (options.records, 3 * options.records)
        )
        # What a run has anyway is in both.
        each = (many["bytes"] - few["bytes"]) / (many["episodes"] - few["episodes"])
        rows.append((kind, f"{each / 1000:.1f}", f"{each / 1000:.1f}"))
    table("memory of the controller by the end of a run", rows)


def scarce(cluster: Cluster) -> str:
    """What gives the fewest episodes a second."""
    gives = {
        "cores": cluster.cores_give,
        "device": cluster.devices_give,
        "network": cluster.links_give,
        "driver": cluster.drivers_give,
    }
    return min(gives, key=lambda name: gives[name])


def clusters(model: str) -> Iterator[tuple[str, Cluster, int]]:
    """What is looked at: its name, the machines, and how many episodes."""
    whole = {"start": START_SECONDS, "policy": POLICY_SECONDS[model]}
    # A card that draws for its host's workers, too: as it was measured.
    beside = {"devices_a_host": 1, "link": 0.0, "slower": SHARED, **whole}
    yield "a laptop", Cluster(model, 1, 1, workers=24, **beside), 2_000
    yield "8 hosts with a card each", Cluster(model, 8, 8, workers=24, **beside), 20_000
    for hosts, devices, drivers, episodes in (
        (100, 16, 1, 100_000),
        (1000, 64, 1, 1_000_000),
        (1000, 64, 64, 1_000_000),
    ):
        for name, pair in (("cards draw", PAIR_SECONDS), ("software draws", PAIR_SOFTWARE_SECONDS)):
            far = Cluster(model, hosts, devices, workers=24, pair=pair, drivers=drivers, **whole)
            plural = "drivers" if drivers > 1 else "driver"
            yield f"{hosts} + {devices}, {drivers} {plural}, {name}", far, episodes


def simulated_table(options: argparse.Namespace) -> None:
    for model in options.models:
        rows: list[tuple[str, ...]] = [
            (
                "hosts + devices", "episodes", "whole run, min", "episodes/s", "scarce", "of it", "of devices",
                "of cores", "links busy", "driver busy", "batch", "ids, s",
            )
        ]  # fmt: skip
        for name, cluster, episodes in clusters(model):
            began = time.process_time()
            count = max(1, round(episodes * options.part))
            ran = simulate(cluster, count)
            gives = min(cluster.cores_give, cluster.devices_give, cluster.links_give, cluster.drivers_give)
            rows.append(
                (
                    name, f"{count:,}", f"{ran.seconds / 60:.1f}", f"{ran.steady:.1f}", scarce(cluster),
                    f"{ran.steady / gives:.0%}", f"{ran.steady / cluster.devices_give:.0%}",
                    f"{ran.steady / cluster.cores_give:.0%}", f"{ran.links_busy:.0%}", f"{ran.drivers_busy:.0%}",
                    f"{ran.batch:.0f}", f"{cluster.ids_seconds(count):.0f}",
                )
            )  # fmt: skip
            print(*rows[-1], f"({time.process_time() - began:.0f} s of processor)", flush=True)
        table(f"simulated, {model}'s shape: 16 cores and 24 workers a host, links of 25 Gb/s", rows)


def load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for part in ("store", "controller", "memory", "simulate"):
        parser.add_argument(f"--{part}", action="store_true")
    parser.add_argument("--records", type=int, default=4000, help="of a measurement")
    parser.add_argument("--kind", choices=(PLAIN, FULL), default=FULL, help="of records, of --controller")
    parser.add_argument("--workers", type=int, default=64, help="nodes, of --controller")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--before", type=Path, help="another checkout, of --controller")
    parser.add_argument("--profile", type=Path, help="a file for cProfile's account, of --controller")
    parser.add_argument("--models", type=lambda text: text.split(","), default=["smolvla", "pi0"], help="of --simulate")
    parser.add_argument("--part", type=float, default=1.0, help="of the episodes that are simulated")
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="whose disk the store is on, of --store")
    options: Any = parser.parse_args()
    if options.store:
        store_table(options)
    if options.controller:
        controller_table(options)
    if options.memory:
        memory_table(options)
    if options.simulate:
        simulated_table(options)


if __name__ == "__main__":
    main()
