"""Runs in a Ray cluster of several nodes on this machine: what they cost beside one machine's, and what kills cost.

    python benchmarks/ray_runs.py overhead [--episodes=100] [--rounds=3]
    python benchmarks/ray_runs.py kills [--suite=tabletop] [--model=tiny] [--episodes=20]
    python benchmarks/ray_runs.py memory [--episodes=1000]

`--episodes` are of each task. Needs Ray: `PYTHONPATH=.venv-ray` after `make ray`, an absolute path. `overhead` and
`memory` are on the world of pytest_vla.testing, whose episodes take milliseconds, so that what is not theirs is seen.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from pytest_vla.errors import VlaError
from pytest_vla.records.store import open_store
from tests.support.ray_nodes import Nodes, descendants, ray_nodes

POINT = "libero_spatial"
_POLICIES = "import numpy as np\n\ndef mixed(episode):\n    pace = episode.rng.uniform(0, 0.04)\n"
_POLICIES += "    return lambda observation: np.array([pace, 0, 0, 0, 0, 0, -1])\n"


def main() -> None:
    """Runs what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("overhead", "kills", "memory"))
    parser.add_argument("--episodes", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--suite", default=POINT)
    parser.add_argument("--model", default="policies:mixed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("policies.py").write_text(_POLICIES)
        if options.what == "overhead":
            overhead(options.episodes or 100, options.rounds)
        elif options.what == "memory":
            memory(options.episodes or 1000)
        else:
            kills(options.suite, options.model, options.episodes or 200)


def overhead(episodes: int, rounds: int) -> None:
    """Two workers beside the controller and two in a cluster, in turn."""
    with ray_nodes([1.0, 1.0]) as (nodes, _):
        found: dict[str, list[float]] = {"beside": [], "cluster": []}
        for number in range(rounds):
            for kind, more in (("beside", []), ("cluster", [f"--vla-ray={nodes.address}"])):
                results = Path(f"{kind}{number}")
                finish(begin(POINT, "policies:mixed", episodes, results, [*more, "-n", "2"]))
                found[kind].append(1000 * seconds_an_episode(results))
                print(f"{kind:8} {found[kind][-1]:7.2f} ms an episode", flush=True)
    beside, cluster = median(found["beside"]), median(found["cluster"])
    print(f"median: {beside:.2f} and {cluster:.2f} ms: {cluster - beside:+.2f} ms an episode of the run (2 workers)")


def kills(suite: str, model: str, episodes: int) -> None:
    """Two of four nodes, a copy of the policy and the controller are killed; beside it the same run on this machine."""
    near, far = Path("near"), Path("far")
    finish(begin(suite, model, episodes, near, ["-n", "2"]))
    whole = len(digests(near))
    with ray_nodes([1.0, 1.0, 1.0, 1.0]) as (nodes, ids):
        more = [f"--vla-ray={nodes.address}", "-n", "4"]
        run = begin(suite, model, episodes, far, more)
        reach(run, far, whole // 8)
        told("a copy of the policy", kill_policy(), far)
        for share, node in zip((2, 3), ids[2:], strict=True):
            reach(run, far, share * whole // 8)
            nodes.kill(node)
            told("a node", True, far)
        reach(run, far, 4 * whole // 8)
        run.send_signal(signal.SIGKILL)
        run.wait()
        told("the controller", True, far)
        finish(begin(suite, model, None, far, [f"--vla-ray={nodes.address}", "-n", "2", "--vla-resume"]))
    with open_store(far, create=False) as store:
        name = store.run("last").name
        records = [*store.records(name)]
        attempts = Counter((record.attempt, record.outcome) for record in records)
        written = len(store.episodes(name))
    same = digests(near) == digests(far)
    print(f"{whole} episodes; written {written}, of {len(records)} items; digests equal: {same}")
    for (attempt, outcome), number in sorted(attempts.items()):
        print(f"  attempt {attempt} {outcome:8} {number}")


def memory(episodes: int) -> None:
    """The controller's memory and Ray's store as a run goes on."""
    with ray_nodes([1.0, 1.0]) as (nodes, _):
        results = Path("far")
        run = begin(POINT, "policies:mixed", episodes, results, [f"--vla-ray={nodes.address}", "-n", "2"])
        step, reached = 10 * episodes // 10, 0
        while run.poll() is None:
            time.sleep(0.5)
            if ended(results) >= reached:
                own = resident(run.pid)
                print(f"{ended(results):6} episodes: controller {own:6.1f} MB, Ray's {shared(nodes)}", flush=True)
                reached += step
        finish(run)


def begin(
    suite: str, model: str, episodes: int | None, results: Path, more: Sequence[str]
) -> "subprocess.Popen[bytes]":
    """Starts pytest; what it prints goes to ``out``."""
    what = [] if episodes is None else [f"--vla-suite={suite}", f"--vla-model={model}", f"--vla-episodes={episodes}"]
    fake = ["-p", "pytest_vla.testing"] if suite == POINT else []
    order = [sys.executable, "-m", "pytest", *fake, *what, f"--vla-results={results}", *more]
    with open("out", "ab") as out:
        return subprocess.Popen(order, stdout=out, stderr=subprocess.STDOUT)


def finish(run: "subprocess.Popen[bytes]") -> None:
    """Waits for its end, which is to be one of a run that ran."""
    if run.wait() not in (0, 1):
        sys.exit(Path("out").read_text(errors="replace")[-3000:])


def reach(run: "subprocess.Popen[bytes]", results: Path, number: int) -> None:
    """Waits until so many episodes have ended."""
    while ended(results) < number:
        if run.poll() is not None:
            finish(run)
            sys.exit("the run ended before anything was killed: give more episodes")
        time.sleep(0.1)


def ended(results: Path) -> int:
    """How many episodes have ended."""
    try:
        with open_store(results, create=False) as store:
            return len(store.episodes(store.run("last").name))
    except VlaError:
        return 0


def digests(results: Path) -> dict[str, str]:
    """Of the last run, by item."""
    with open_store(results, create=False) as store:
        return {record.node: record.digest for record in store.records(store.run("last").name)}


def seconds_an_episode(results: Path) -> float:
    """From the first end of an episode to the last, by episodes."""
    with open_store(results, create=False) as store:
        times = sorted(map(datetime.fromisoformat, store.dated(store.run("last").name).values()))
    return (times[-1] - times[0]).total_seconds() / (len(times) - 1)


def kill_policy() -> bool:
    """Kills the process that calls the policy with the actor that started it. Returns whether there is one."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path(f"/proc/{name}/cmdline").read_bytes()
            parent = int(Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()[1])
        except OSError:
            continue
        if b"computing_process" in command:
            for pid in (parent, *descendants(parent)):
                os.kill(pid, signal.SIGKILL)
            return True
    return False


def told(what: str, was: bool, results: Path) -> None:
    """Says what was killed."""
    print(f"killed {what} after {ended(results)} episodes" if was else f"there is no {what} to kill", flush=True)


def resident(pid: int) -> float:
    """Megabytes of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def shared(nodes: Nodes) -> str:
    """What lies in Ray's object stores, by their own account."""
    order = [sys.executable, "-m", "ray.scripts.scripts", "memory", f"--address={nodes.address}", "--stats-only"]
    done = subprocess.run(order, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if "Plasma" in line or "objects" in line]
    return "; ".join(lines) or done.stderr.strip()[-200:] or "not told"


if __name__ == "__main__":
    main()
