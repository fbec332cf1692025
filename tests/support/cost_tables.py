"""Where the time of the tests goes: processor and wall time by folder, by module and by test, and of the processes.

    python -m tests.support.cost_tables [--top=N] [--by=folder|module] COMMAND ...   (such as: make test)
    python -m tests.support.cost_tables [--top=N] [--by=folder|module] FOLDER        what a command wrote there earlier

The command runs with ``VLA_TEST_TIMES`` naming a folder, in which every process of pytest that loads tests/conftest.py
writes what its tests cost (tests/support/times.py). Processor time counts the children and forks that a test waited
for; wall time is what the test took with everything that ran beside it.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class TestCost:
    """Seconds that a test, or a group of tests, took."""

    tests: int = 0
    cpu: float = 0.0
    wall: float = 0.0

    def add(self, cpu: float, wall: float) -> None:
        """Count a part of a test; forks have no wall time of their own, and are no tests of their own."""
        self.tests += wall > 0
        self.cpu += cpu
        self.wall += wall


def read_lines(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield what all processes wrote; a line that a killed process left half-written is skipped."""
    for file in sorted(folder.glob("*.jsonl")):
        for text in file.read_text().splitlines():
            try:
                yield {**json.loads(text), "process": file.stem}
            except json.JSONDecodeError:
                continue


def grouped(lines: Iterable[dict[str, Any]], by: str) -> dict[str, TestCost]:
    """Return the cost of each folder, module or test, the dearest first."""
    found: dict[str, TestCost] = collections.defaultdict(TestCost)
    for line in lines:
        if "test" in line:
            path = line["test"].partition("::")[0]
            name = {"folder": str(Path(path).parent), "module": path, "test": line["test"]}[by]
            found[name or "(none)"].add(line["cpu"], line["wall"])
    return dict(sorted(found.items(), key=lambda each: -each[1].cpu))


def table(costs: dict[str, TestCost], top: int, heading: str) -> Iterator[str]:
    """Yield the lines of a table, with the share of the processor time up to each row."""
    total = sum(cost.cpu for cost in costs.values())
    yield f"{heading:<100} {'tests':>6} {'cpu s':>8} {'wall s':>8} {'up to here':>10}"
    seen = 0.0
    for name, cost in list(costs.items())[:top]:
        seen += cost.cpu
        yield f"{name[-100:]:<100} {cost.tests:>6} {cost.cpu:>8.1f} {cost.wall:>8.1f} {seen / (total or 1):>10.1%}"
    tests, wall = sum(cost.tests for cost in costs.values()), sum(cost.wall for cost in costs.values())
    yield f"{'all':<100} {tests:>6} {total:>8.1f} {wall:>8.1f}"


def process_lines(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each process of pytest: what its start and its collection cost, and how long it lived."""
    yield f"{'process':<60} {'start: cpu s':>12} {'collection: cpu s':>18} {'wall s':>8} {'session: wall s':>16}"
    stages: dict[str, dict[str, dict[str, Any]]] = collections.defaultdict(dict)
    for line in lines:
        if "stage" in line:
            stages[line["process"]][line["stage"]] = line
    for _, found in sorted(
        stages.items(), key=lambda each: float(each[1]["start"]["at"]) if "start" in each[1] else 0.0
    ):
        start, collected, end = found.get("start"), found.get("collected"), found.get("end")
        if start is None:
            continue
        name = start["worker"] or " ".join(start["command"])
        collection = f"{collected['cpu'] - start['cpu']:.1f}" if collected else "-"
        wall = f"{collected['wall']:.1f}" if collected else "-"
        session = f"{end['wall']:.1f}" if end else "-"
        yield f"{name[:60]:<60} {start['cpu']:>12.1f} {collection:>18} {wall:>8} {session:>16}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, or read the folder, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--top", type=int, default=40, metavar="N", help="rows of the table of tests (default: 40)")
    parser.add_argument("--by", choices=("folder", "module"), default="folder", help="groups (default: folder)")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND | FOLDER")
    options = parser.parse_args(arguments)
    command: list[str] = options.command
    if not command:
        parser.error("expected a command to run, or a folder that VLA_TEST_TIMES named")
    if len(command) == 1 and Path(command[0]).is_dir():
        return _print(Path(command[0]), options.top, options.by)
    folder = Path(tempfile.mkdtemp(prefix="test-times-"))
    began = time.perf_counter()
    code = subprocess.run(command, env=os.environ | {"VLA_TEST_TIMES": str(folder)}, check=False).returncode
    print(f"\n{' '.join(command)}: exit code {code}, {time.perf_counter() - began:.0f} s of wall time; see {folder}\n")
    return _print(folder, options.top, options.by) or code


def _print(folder: Path, top: int, by: str) -> int:
    lines = list(read_lines(folder))
    if not lines:
        print(f"{folder}: no process wrote what its tests cost", file=sys.stderr)
        return 1
    groups = grouped(lines, by)
    print("\n".join((*table(groups, len(groups), by), "", *table(grouped(lines, "test"), top, "test"), "")))
    print("\n".join(process_lines(lines)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
