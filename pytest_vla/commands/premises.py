"""``pytest-vla premises``: measure, per init state, which premises hold after settling and what is thrown.

The result is printed for the installed version of MuJoCo. ``--write`` replaces this version's findings in the suites'
premises files. ``--vary`` measures varied scenes.
"""

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pytest_vla.entries import Command
from pytest_vla.errors import RedrawError, VlaError
from pytest_vla.kernels import pinned_processes
from pytest_vla.plan.choices import RELATIVE
from pytest_vla.plan.manifests import load_suite, named_suites
from pytest_vla.plan.premises import FILE, PremiseFinding, PremiseMeasurement, measured, premises_file
from pytest_vla.plan.task import Task
from pytest_vla.run.arguments import whole_number
from pytest_vla.scene.variation import Variation
from pytest_vla.util.files import whole_file
from pytest_vla.util.text import counted, printable
from pytest_vla.versions import SUPPORTED, check_versions

# The simulator is imported inside the functions, so that --help is fast.

THROWN = 0.03
"""The sideways movement in metres during settling from which on an object counts as thrown apart."""

_MOST = 10_000


@dataclass(frozen=True)
class Settled:
    """The findings from a task's init states.

    Attributes:
        task: the task's name.
        premises: all premises of the task.
        false: the premises that fail, with the init states in which they do.
        thrown: the objects that are thrown apart, with the init states in which they are.
        unsettled: the init states that a varied scene cannot have, with the reason.
    """

    task: str
    premises: tuple[str, ...]
    false: Mapping[str, frozenset[int]]
    thrown: Mapping[str, frozenset[int]]
    unsettled: Mapping[int, str]


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.epilog = (
        "A premise is a precondition in a task's file, such as a bowl on a plate. Each init state of each task is "
        "settled; the command lists the init states in which a premise fails, and objects that are thrown apart. "
        f"--write saves the findings in the suites' {FILE}. Uses all processors."
    )
    parser.add_argument("suites", nargs="+", metavar="SUITE", help="suites to measure")
    parser.add_argument("--data", metavar="DIR", type=Path, help="data folder, as for pytest's --vla-data")
    parser.add_argument(
        "--states",
        metavar="N",
        type=whole_number("a number of init states", 1, _MOST),
        help="measure the first N init states only (default: all)",
    )
    parser.add_argument(
        "--vary", metavar="KINDS", help="measure varied scenes, as for --vla-vary, drawn for seed 0 (default: unvaried)"
    )
    parser.add_argument("--write", action="store_true", help=f"write the findings into the suites' {FILE}")


def run(options: argparse.Namespace) -> None:
    """Measure and print the premises, and write them with ``--write``. Raises VlaError if a task cannot be measured."""
    if options.write and (options.vary or options.states):
        raise VlaError("--write needs complete measurements of unvaried tasks. Leave --vary and --states out")
    mujoco = check_versions()["mujoco"]
    suites = [name for text in options.suites for name in named_suites(text)]
    jobs = _jobs(suites, options.data, options.vary)
    found: dict[str, list[Settled]] = {name: [] for name in suites}
    failed = 0
    with pinned_processes(len(jobs)) as pool:
        futures = [(job, pool.submit(_measure, job, options.states)) for job in jobs]
        for (name, task, label), future in futures:
            try:
                settled = future.result()
            except VlaError as error:
                print(printable(f"{task.id} {label}: {error}"), file=sys.stderr, flush=True)
                failed += 1
                continue
            found[name].append(settled)
            _tell(f"{task.id}{f' {label}' if label else ''}", settled)
    if failed:
        nothing = ", and nothing was written" if options.write else ""
        raise VlaError(f"{failed} of {len(jobs)} could not be measured{nothing}; see above")
    for name, each in found.items() if options.write else ():
        file = premises_file(name)
        assert file is not None, "its task files are measured"
        with whole_file(file) as stream:
            stream.write(measured_text(name, with_measured(measured(name), each, mujoco)).encode())
        print(file)


def settle_all(task: Task, variation: Variation | None = None, count: int | None = None) -> Settled:
    """Settle a task's scene from each init state, with its number as the scene seed, and check premises and movement.

    Args:
        task: the task; its protocol sets the settle steps.
        variation: a variation of the task, or None for the unvaried task.
        count: the number of init states, counted from the first, or None for all.

    Raises:
        VlaError: the world cannot be built.
    """
    from pytest_vla.sim.world import World

    false: dict[str, set[int]] = {}
    thrown: dict[str, set[int]] = {}
    unsettled: dict[int, str] = {}
    with World(task, variation) as world:
        others = {mover.name for mover in world.problem.movers}
        # Poured material has no contact geoms, and does not stay in place.
        others |= {body.name for body in world.scene.bodies if body.is_fixture or not body.contact_geoms}
        things = [body for body in world.scene.bodies if body.name not in others]
        bodies = [world.model.body(body.root_body).id for body in things]
        for number in range(min(count or world.init_state_count, world.init_state_count)):
            try:
                world.reset(init_state=number, scene_seed=number, settle=False)
            except RedrawError as error:
                unsettled[number] = str(error)
                continue
            before = world.data.xpos[bodies]
            for _ in range(task.protocol.settle_steps):
                world.step(np.array(task.protocol.settle_action), RELATIVE)
            moved = np.linalg.norm((world.data.xpos[bodies] - before)[:, :2], axis=1)
            for premise, holds in world.premises().items():
                if not holds:
                    false.setdefault(premise, set()).add(number)
            for body, distance in zip(things, moved, strict=True):
                if distance > THROWN:
                    thrown.setdefault(body.name, set()).add(number)
        premises = tuple(world.premises())
    return Settled(task.key, premises, _frozen(false), _frozen(thrown), unsettled)


def _frozen(found: Mapping[str, set[int]]) -> dict[str, frozenset[int]]:
    return {about: frozenset(numbers) for about, numbers in found.items()}


def with_measured(before: PremiseMeasurement, found: Iterable[Settled], mujoco: str) -> PremiseMeasurement:
    """Return a suite's measurement with the findings of one MuJoCo version replaced."""

    def findings(kind: str) -> tuple[PremiseFinding, ...]:
        new = [PremiseFinding(each.task, *pair) for each in found for pair in _rows(getattr(each, kind), mujoco)]
        return (*(finding for finding in getattr(before, kind) if finding.mujoco != mujoco), *new)

    found = list(found)
    versions = [version for version in SUPPORTED["mujoco"] if version in {*before.versions, mujoco}]
    return PremiseMeasurement(tuple(versions), findings("false"), findings("thrown"))


def _rows(found: Mapping[str, frozenset[int]], mujoco: str) -> list[tuple[str, str, frozenset[int]]]:
    return [(about, mujoco, numbers) for about, numbers in found.items()]


def measured_text(suite: str, found: PremiseMeasurement) -> str:
    """Return the text of a suite's premises file; versions with the same finding share an entry."""
    lines = [
        f"# Made by `pytest-vla premises {suite} --write`, once for each version of MuJoCo.",
        "# What is not listed holds, and rests.",
        f"measured = {_texts(found.versions)}",
    ]
    for kind in ("false", "thrown"):
        together: dict[tuple[str, str, str], list[str]] = {}
        for finding in getattr(found, kind):
            together.setdefault((finding.task, finding.about, ranges(finding.init_states)), []).append(finding.mujoco)
        for (task, about, numbers), versions in sorted(together.items()):
            ordered = [version for version in found.versions if version in versions]
            lines += ["", f"[[{kind}]]", f'task = "{task}"', f'about = "{about}"']
            lines += [f"mujoco = {_texts(ordered)}", f'init_states = "{numbers}"']
    return "\n".join(lines) + "\n"


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers in the form that `pytest_vla.util.text.parse_seeds` reads: ``0-4,7``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _texts(values: Iterable[str]) -> str:
    return "[" + ", ".join(f'"{value}"' for value in values) + "]"


def _jobs(suites: Sequence[str], data: Path | None, vary: str | None) -> list[tuple[str, Task, str]]:
    """Return suite, task and variation label of every requested measurement. Raises VlaError."""
    tasks = [(name, task) for name in suites for task in load_suite(name, data=data).tasks]
    if vary is None:
        return [(name, task, "") for name, task in tasks]
    from pytest_vla.errors import UnfitError
    from pytest_vla.vary.registry import find_variation, labels_of, parse_vary

    jobs = []
    for name, task in tasks:
        for label in labels_of(task, parse_vary(vary), "paper"):
            try:
                find_variation(task, label, 0)
            except UnfitError:
                continue
            jobs.append((name, task, label))
    return jobs


def _measure(job: tuple[str, Task, str], count: int | None) -> Settled:
    from pytest_vla.vary.registry import find_variation

    _, task, label = job
    return settle_all(task, find_variation(task, label, 0) if label else None, count)


def _tell(name: str, found: Settled) -> None:
    print(f"{name}: {counted(len(found.premises), 'premise')}", flush=True)
    for premise, numbers in found.false.items():
        print(f"  fails: {premise} in init states {ranges(numbers)}", flush=True)
    for thing, numbers in found.thrown.items():
        print(f"  thrown apart: {thing} in init states {ranges(numbers)}", flush=True)
    if found.unsettled:
        first, reason = next(iter(found.unsettled.items()))
        print(f"  does not settle: init states {ranges(found.unsettled)}, such as {first}: {reason}", flush=True)


COMMAND = Command(declare, run)
