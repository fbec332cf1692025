"""The command ``pytest-vla coverage``: which of LIBERO-PRO's 200 varied tasks can be run, and why the others cannot.

It prints the tasks that cannot be made, and counts. Only ``--compile`` also checks that the scenes settle.
"""

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_vla.entries import Command
from pytest_vla.episode.world_pool import WorldPool
from pytest_vla.errors import SceneError, VlaError
from pytest_vla.plan.case import Case
from pytest_vla.plan.data_roots import data_roots, find_task_file
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Variation
from pytest_vla.suites.libero_pro.variations import KINDS
from pytest_vla.vary.kind import Draw

SUITES = ("libero_goal", "libero_spatial", "libero_10", "libero_object")
"""In the order of LIBERO-PRO's files."""

VARIED = ("pro.object", "pro.swap", "pro.semantic", "pro.task", "pro.environment_upstream")
"""The kinds that LIBERO-PRO has tasks of: 40 each."""

LOW_TABLE = (
    "upstream's code puts every scene, its coordinates as they are, on the living-room table, where things are drawn "
    "up to 0.03 m below the top, a plate of 0.024 m: bottles stick in it or fall over, a bowl tips off its ramekin. "
    "LIBERO-PRO's README says that objects may move randomly there"
)
"""Why scenes in upstream's environment come to no rest; measured here, and as upstream's README has it."""


@dataclass(frozen=True)
class Covered:
    """The result for a varied task.

    Attributes:
        suite, task, kind: identify it.
        reason: the error that stops it, or empty if none was found.
        cause: upstream's defect behind a reason that does not name it, or empty.
    """

    suite: str
    task: str
    kind: str
    reason: str
    cause: str = ""


def coverage(
    data: Path | None,
    *,
    compile: bool = False,
    suites: Iterable[str] = SUITES,
    kinds: Iterable[str] = VARIED,
    tell: Callable[[Covered], None] | None = None,
) -> tuple[Covered, ...]:
    """Try every varied task.

    Args:
        data: the folder given by ``--vla-data``, or None for the default roots.
        compile: whether to compile each scene, let it settle, and start an episode, with redraws as in a run; takes a
            second per task, and more for scenes that do not settle.
        suites: the suites to try.
        kinds: the kinds to try, by name.
        tell: called with each result as soon as it is known.

    Raises:
        VlaError: there is no such suite, kind or folder, or no data for any of these suites.
    """
    named, kinds = {kind.name: kind for kind in KINDS}, tuple(kinds)
    if unknown := [name for name in kinds if name not in named]:
        raise VlaError(f"there is no kind {', '.join(unknown)}; the kinds are {', '.join(named)}")
    tasks = [(suite, task) for suite in suites for task in load_suite(suite, data=data).tasks]
    _require_data([task for _, task in tasks], data)
    pool = WorldPool(allow_versions=False)
    found = []
    try:
        for suite, task in tasks:
            for name in kinds:
                tried = _tried(Draw(task, name, 0), pool if compile else None)
                found.append(Covered(suite, task.key, name, *tried))
                if tell is not None:
                    tell(found[-1])
    finally:
        pool.close()
    return tuple(found)


def _require_data(tasks: Sequence[Task], data: Path | None) -> None:
    """Raise SceneError if no task's file is found."""
    roots = data_roots(data)
    first: SceneError | None = None
    for task in tasks:
        try:
            find_task_file(roots, task)
        except SceneError as error:
            first = first or error
        else:
            return
    if first is not None:
        raise first


def _tried(draw: Draw, pool: WorldPool | None) -> tuple[str, str]:
    """Return the reason and the cause for `Covered`; without worlds, only whether the variation can be made."""
    kind = next(kind for kind in KINDS if kind.name == draw.label)
    try:
        variation = kind.make(draw)
        return _begun(draw, variation, pool) if pool is not None and variation.problem else ("", "")
    except VlaError as error:
        return str(error), ""


def _begun(draw: Draw, variation: Variation, pool: WorldPool) -> tuple[str, str]:
    """Start an episode under a variation as a run does, and return reason and cause as `_tried` does."""
    from pytest_vla.episode.start import NothingToMeasure, begin
    from pytest_vla.episode.trace import Trace
    from pytest_vla.errors import NO_DRAW

    task = draw.task
    try:
        case = Case(task.suite, task.name, draw.seed, draw.label, task.task_level)
        begin(Trace(variation=variation), case, task, pool)
    except NothingToMeasure as ended:
        theirs = draw.label == "pro.environment_upstream"
        return ended.message, LOW_TABLE if theirs and ended.reason == NO_DRAW else ""
    return "", ""


def summary(found: Iterable[Covered], *, compile: bool = False) -> tuple[str, ...]:
    """Format a line per kind with the number of tasks that run, and the tasks that do not, with reasons.

    Args:
        found: from `coverage`.
        compile: as given to `coverage`; without it only the number of variations that can be made is known.
    """
    listed, can = list(found), "run" if compile else "can be made"
    lines = []
    for kind in dict.fromkeys(each.kind for each in listed):
        of_kind = [each for each in listed if each.kind == kind]
        lines.append(f"{kind}: {_counted(of_kind)} {can}")
        lines += [f"  {each.suite}/{each.task}: {each.reason}" for each in of_kind if each.reason]
        causes = Counter(each.cause for each in of_kind if each.cause)
        lines += [f"  {number} of these do not settle: {cause}" for cause, number in causes.items()]
    return (*lines, f"{_counted(listed)} {can}")


def _counted(found: Sequence[Covered]) -> str:
    return f"{sum(not each.reason for each in found)} of {len(found)}"


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pytest-vla coverage``."""
    parser.epilog = (
        "LIBERO-PRO publishes 200 varied tasks in four suites. Those that cannot be made are listed with the reason; "
        "the rest is counted."
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="pytest's --vla-data")
    parser.add_argument(
        "--compile", action="store_true", help="also compile the scenes and let them settle: about a second per task"
    )


def run(options: argparse.Namespace) -> None:
    """Print what can be made, or what runs. Raises VlaError, as `coverage`."""
    counted = itertools.count(1)

    def tell(each: Covered) -> None:
        print(f"{next(counted)}: {each.kind} of {each.suite}/{each.task}", file=sys.stderr, flush=True)

    found = coverage(options.data, compile=options.compile, tell=tell if options.compile else None)
    print("\n".join(summary(found, compile=options.compile)))
    if not options.compile:
        print("Scenes were not compiled. Use --compile to check that they settle.")


COMMAND = Command(declare, run)
