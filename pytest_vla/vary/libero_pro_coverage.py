"""Which of LIBERO-PRO's 200 varied tasks can be run, and what stops each of the others.

``python -m pytest_vla.vary.libero_pro_coverage --data DIR [--compile]`` prints those that cannot, and the counts.
"""

import argparse
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.suite import load_suite
from pytest_vla.vary.kind import Draw
from pytest_vla.vary.libero_pro import KINDS

SUITES = ("libero_goal", "libero_spatial", "libero_10", "libero_object")
"""In the order of LIBERO-PRO's files."""

VARIED = ("pro.object", "pro.swap", "pro.semantic", "pro.task", "pro.environment")
"""The kinds that LIBERO-PRO has tasks of: 40 each."""


@dataclass(frozen=True)
class Covered:
    """A varied task; `reason`: what stops it, as the error says it; empty: it runs."""

    suite: str
    task: str
    kind: str
    reason: str


def coverage(
    data: Path | None,
    *,
    compile: bool = False,
    suites: Iterable[str] = SUITES,
    kinds: Iterable[str] = VARIED,
    seed: int = 0,
) -> tuple[Covered, ...]:
    """Tries every varied task.

    Args:
        data: the folder given by ``--vla-data``; None: the default roots.
        compile: also compile each scene, let it come to rest, and start an episode; seconds a task, and minutes for
            those that do not come to rest.
        suites: which.
        kinds: which, by name.
        seed: what is drawn, where there is something to draw.

    Raises:
        VlaError: there is no such suite, or no such kind.
    """
    named = {kind.name: kind for kind in KINDS}
    if unknown := [name for name in kinds if name not in named]:
        raise VlaError(f"no kind is called {', '.join(unknown)}; there are {', '.join(named)}")
    return tuple(
        Covered(suite, task.name, name, _reason(Draw(task, name, seed), compile))
        for suite in suites
        for task in load_suite(suite, data=data).tasks
        for name in kinds
    )


def _reason(draw: Draw, compile: bool) -> str:
    kind = next(kind for kind in KINDS if kind.name == draw.label)
    try:
        variation = kind.make(draw)
        if compile and variation.problem:
            from pytest_vla.sim.world import World

            with World(draw.task, variation) as world:
                world.reset(0)
    except VlaError as error:
        return str(error)
    return ""


def summary(found: Iterable[Covered]) -> tuple[str, ...]:
    """Of each kind how many run, in a line, and those that do not, with why."""
    listed = list(found)
    lines = []
    for kind in dict.fromkeys(each.kind for each in listed):
        of_kind = [each for each in listed if each.kind == kind]
        lines.append(f"{kind}: {sum(not each.reason for each in of_kind)} of {len(of_kind)} run")
        lines += [f"  {each.suite}/{each.task}: {each.reason}" for each in of_kind if each.reason]
    return tuple(lines)


def main(arguments: list[str] | None = None) -> int:
    """Prints what runs; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m pytest_vla.vary.libero_pro_coverage", description="Which of LIBERO-PRO's varied tasks run."
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="your folder, as for --vla-data")
    parser.add_argument("--compile", action="store_true", help="also compile the scenes and let them come to rest")
    options = parser.parse_args(arguments)
    try:
        found = coverage(options.data, compile=options.compile)
    except VlaError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(summary(found)))
    print(f"{sum(not each.reason for each in found)} of {len(found)} run")
    return 0


if __name__ == "__main__":
    sys.exit(main())
