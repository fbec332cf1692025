"""``pytest-vla rescore``: computes a run's costs anew, by other cost rules, from recorded states and actions."""

import argparse
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.plan.case import PAPER, UPSTREAM
from pytest_vla.plan.choices import COSTS
from pytest_vla.plan.costs import DECLARED, Charge, accounts_of, of_account
from pytest_vla.run.arguments import declare_data, declare_results

if TYPE_CHECKING:
    from pytest_vla.episode.world_pool import WorldPool
    from pytest_vla.plan.task import Task
    from pytest_vla.records.record import Record
    from pytest_vla.records.runs import Run
    from pytest_vla.scene.variation import Variation
    from pytest_vla.sim.world import World

_SHOWN = 3


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.epilog = (
        "No policy is asked: each control step is simulated again from its recorded state with the recorded action, "
        "which reproduces the contact forces. The run is written to a new results folder, with its trajectories; "
        "nothing is overwritten. The command reports how far states drift in a step (0 if the simulator's version is "
        "the same), and how many episodes have the same ledger as before."
    )
    parser.add_argument(
        "which", metavar="RUN", help="the run to rescore: its name or the beginning of it, its folder, or last"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        required=True,
        help="new results folder, for `pytest-vla report DIR`",
    )
    parser.add_argument("--cost-file", metavar="FILE", type=Path, help="your own costs, as in pytest's --vla-cost-file")
    parser.add_argument(
        "--collision-costs", choices=COSTS, default=COSTS[0], help="as pytest's --vla-collision-costs (default: all)"
    )
    parser.add_argument(
        "--rules",
        choices=(PAPER, UPSTREAM),
        help="keep only the account by these rules of a task's own costs, which becomes the headline (default: keep "
        "both)",
    )
    declare_data(parser)
    declare_results(parser)


def run(options: argparse.Namespace) -> None:
    """Compute the run's costs anew, and print how they compare. Raises VlaError: no such run, or DIR exists already."""
    from pytest_vla.records.load import open_run
    from pytest_vla.records.store import open_store

    if options.output.exists():
        raise VlaError(f"{options.output} exists already, and is not overwritten. Name a new folder with -o")
    with open_run(options.which, options.results) as (store, runs):
        if len(runs) != 1:
            raise VlaError(f"{options.which} names {len(runs)} runs; name one")
        (known,) = runs
        records, folder = tuple(store.records(known.name)), store.results / known.name
    changed, told = _charged_anew(records, known, folder, options)
    with open_store(options.output, create=True) as store:
        invocation = {"imported": "rescore", "arguments": [], "folder": str(Path.cwd()), "of": str(folder.resolve())}
        command = f"pytest-vla rescore {known.name}"
        store.begin(known.name, [r.node for r in changed], command=command, model=known.model, invocation=invocation)
        store.add_all(changed)
        ended = {"success": "passed", "failure": "failed", "invalid": "skipped"}
        store.mark(known.name, {each.node: ended.get(each.outcome, "error") for each in changed})
        store.end(known.name, "finished")
    _copy_arrays(changed, folder, options.output / known.name)
    print("\n".join([*told, f"run {known.name} with its new costs: {options.output}"]))


_OF_CHARGING = ("costs", "ledger", "rescored", DECLARED)
"""The entries of a record's provenance that this command replaces."""


def _charged_anew(
    records: "Sequence[Record]", known: "Run", folder: Path, options: argparse.Namespace
) -> "tuple[list[Record], list[str]]":
    from pytest_vla.episode.resimulate import rescored
    from pytest_vla.episode.world_pool import WorldPool
    from pytest_vla.records.trajectory import load_trajectory, trajectory_file
    from pytest_vla.scene.cost_rules import Charging, read_costs
    from pytest_vla.show.restored import data_of, restored_task, restored_variation

    declared = None if options.cost_file is None else read_costs(options.cost_file)
    about = {} if options.collision_costs == COSTS[0] else {"costs": options.collision_costs}
    about |= {"rescored": "from recorded states and actions"}
    about |= {} if declared is None else {DECLARED: declared.digest}
    changed: list[Record] = []
    drifts: list[float] = []
    left: list[str] = []
    alike = compared = 0
    with closing(WorldPool(options.allow_versions, charging=Charging(options.collision_costs, declared))) as pool:
        for record in records:
            task = restored_task(record, data_of(known, options.data))
            variation = restored_variation(task, record)
            if task.world is not None or record.arrays is None:
                left.append(f"{record.case} is unchanged: {_why_left(record, task)}")
                changed.append(record)
                continue
            trajectory = load_trajectory(trajectory_file(folder, record.arrays))
            world = _world(pool, task, variation)
            found = rescored(world, record, trajectory, variation)
            charges = tuple(_of_rules(found.charges, options.rules))
            drifts.append(found.drift)
            same = [a for a in accounts_of(charges) if a in accounts_of(record.costs) and _is_same(record, a, declared)]
            compared += bool(same)
            alike += bool(same) and all(of_account(charges, a) == of_account(record.costs, a) for a in same)
            kept = {n: text for n, text in record.provenance.items() if n not in _OF_CHARGING}
            ledger = {name: text for name, text in world.provenance().items() if name == "ledger"}
            changed.append(replace(record, costs=charges, provenance={**kept, **ledger, **about}))
    told = [*left[:_SHOWN], *([f"and {len(left) - _SHOWN} more"] if len(left) > _SHOWN else [])]
    if drifts:
        drift = "bit for bit" if max(drifts) == 0 else f"to within {max(drifts):.2g} (m, rad) in each step"
        told.append(f"{len(drifts)} of {len(records)} episodes rescored; their states were reproduced {drift}")
    if compared:
        told.append(f"{alike} of {compared} comparable ledgers are unchanged")
    return changed, told


def _is_same(record: "Record", account: str, declared: object) -> bool:
    """Whether an account charges by the same rules as in the record."""
    return account != "declared" or getattr(declared, "digest", None) == record.provenance.get(DECLARED)


def _why_left(record: "Record", task: "Task") -> str:
    return f"{task.suite} has its own simulator" if task.world is not None else "it has no states"


def _of_rules(charges: Sequence[Charge], rules: str | None) -> Iterator[Charge]:
    for charge in charges:
        if rules is None or charge.account not in (PAPER, UPSTREAM) or charge.account == rules:
            yield charge


def _world(pool: "WorldPool", task: "Task", variation: "Variation | None") -> "World":
    world: World = pool(task, variation if variation is not None and variation.changes_world else None)
    return world


def _copy_arrays(records: "Sequence[Record]", source: Path, target: Path) -> None:
    from pytest_vla.records.trajectory import trajectory_file

    for record in records:
        if record.arrays is not None:
            file = target / record.arrays
            file.parent.mkdir(parents=True, exist_ok=True)
            try:
                shutil.copyfile(trajectory_file(source, record.arrays), file)
            except OSError as error:
                raise VlaError(f"cannot copy {record.arrays} into {target}: {error.strerror or error}") from error


COMMAND = Command(declare, run)
