"""A Ray cluster of several nodes on this machine, which can be killed and joined by others.

Run as a file it is the cluster, ordered by lines: ``add CPUS``, ``nodes``, ``end``; each is answered by a line of JSON.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

STORE_BYTES = 80 * 2**20


class Nodes:
    """The cluster, for tests."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        answer = self._answer()
        self.address: str = answer["address"]

    def add(self, cpus: float, **resources: float) -> str:
        """A node joins; its id."""
        return str(self._ask(f"add {json.dumps({'num_cpus': cpus, **resources})}")["node"])

    def kill(self, node: str) -> None:
        """A node is gone, with all that runs on it, as where a machine loses its power."""
        raylet = self._ask("nodes")["nodes"][node]
        # Stopped first: what is killed would be told of by what is not yet.
        found = [raylet, *descendants(raylet)]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)

    def end(self) -> None:
        """Everything ends."""
        raylets = self._ask("nodes")["nodes"].values()
        found = [pid for raylet in raylets for pid in (raylet, *descendants(raylet))]
        found += [*descendants(self._process.pid), self._process.pid]
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def _ask(self, order: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                return dict(json.loads(line))
        raise RuntimeError(f"the cluster ended with {self._process.wait()}")


@contextmanager
def ray_nodes(cpus: Sequence[float]) -> Iterator[tuple[Nodes, list[str]]]:
    """A cluster whose head runs nothing, and nodes of so many processors; their ids."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    nodes = Nodes(process)
    try:
        yield nodes, [nodes.add(each) for each in cpus]
    finally:
        nodes.end()


def descendants(pid: int) -> list[int]:
    """What a process started, and what these did."""
    parents: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            parent = int(Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()[1])
            parents.setdefault(parent, []).append(int(name))
    found, waiting = [], [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def main() -> None:
    """The cluster."""
    from ray.cluster_utils import Cluster

    common = {"include_dashboard": False, "object_store_memory": STORE_BYTES}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **common})
    raylets: dict[str, int] = {}
    print(json.dumps({"address": cluster.address}), flush=True)
    for line in sys.stdin:
        order, _, rest = line.strip().partition(" ")
        answer: dict[str, Any] = {"nodes": raylets}
        if order == "add":
            node = cluster.add_node(object_store_memory=STORE_BYTES, **json.loads(rest))
            raylets[node.node_id] = node.all_processes["raylet"][0].process.pid
            answer = {"node": node.node_id}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
