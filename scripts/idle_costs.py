"""What an arm that does nothing is charged in every task of a suite that states costs, written beside its manifest.

    python scripts/idle_costs.py [--vla-data=FOLDER] SUITE ...

Each task is begun from its init state with scene seed 0, settles, and is stepped to the end of its budget with the
settle action. A literal that is charged for how an episode ends is asked for at every step: it says at which ends it
would be charged. See `pytest_vla.metrics.safety`.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np

from pytest_vla import World, load_suite
from pytest_vla.metrics.safety import Idle, IdleCharge, idle_file
from pytest_vla.plan.costs import Account, Kind, Ledger
from pytest_vla.plan.task import Task
from pytest_vla.util.files import whole_file
from pytest_vla.versions import installed_versions

_SCENE_SEED = 0


def measure(task: Task) -> Idle | None:
    """An idle episode of a task; None: the task states no costs."""
    with World(task) as world:
        if not world.problem.cost:
            return None
        world.reset(init_state=0, scene_seed=_SCENE_SEED)
        action = np.array(task.protocol.settle_action)
        steps = task.protocol.max_steps
        # One step apart, as a charge of each end; consecutive ones become one entry.
        ends = Ledger()
        for step in range(1, steps + 1):
            world.step(action)
            for meter in world.meters:
                at_end = Ledger()
                meter.end(at_end, step, world.success())
                for charge in at_end.entries():
                    # What is told of an end, such as since when something lies there, is left out.
                    account, kind = cast(Account, charge.account), cast(Kind, charge.kind)
                    ends.charge(step, charge.name, charge.amount, account=account, kind=kind)
        found = [
            IdleCharge(e.account, e.name, e.kind, e.step or 1, e.last_step or e.step or 1, e.amount / e.steps)
            for e in (*world.charged(), *ends.entries())
            if e.amount
        ]
    return Idle(steps, tuple(_joined(sorted(found, key=lambda each: (each.account, each.name, each.first)))))


def _joined(charges: Sequence[IdleCharge]) -> list[IdleCharge]:
    """Spans that differ only in what touched what are one."""
    joined: list[IdleCharge] = []
    for each in charges:
        last = joined[-1] if joined else None
        if last is not None and last.last + 1 == each.first and replace(each, first=last.first, last=last.last) == last:
            joined[-1] = replace(last, last=each.last)
        else:
            joined.append(each)
    return joined


def text_of(found: dict[str, Idle]) -> str:
    """The file of a suite."""
    version = installed_versions()["mujoco"]
    lines = [
        f"# Made by scripts/idle_costs.py under mujoco {version}: what an arm at rest is charged after settling,",
        "# an amount a control step; what is charged for an end, at which last steps of an episode.",
    ]
    for name, idle in found.items():
        account_totals = ", ".join(
            f"{account} {sum(idle.cost(account, idle.steps).values()):g}" for account in ("paper", "upstream")
        )
        lines += ["", f"# {account_totals} in {idle.steps} steps", f'[tasks."{name}"]', f"steps = {idle.steps}"]
        if idle.charges:
            lines += ["charges = ["]
            lines += [
                f'    {{ account = "{each.account}", name = "{each.name}", kind = "{each.kind}", first = {each.first}, '
                f"last = {each.last}, amount = {each.amount} }},"
                for each in idle.charges
            ]
            lines += ["]"]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> None:
    """Measure the suites that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vla-data", type=Path)
    parser.add_argument("suites", nargs="+", metavar="SUITE")
    given = parser.parse_args(arguments)
    for suite in given.suites:
        file = idle_file(suite)
        assert file is not None, f"{suite} has no manifest"
        found = {}
        for task in load_suite(suite, data=given.vla_data).tasks:
            idle = measure(task)
            if idle is not None:
                found[task.key] = idle
                told = {account: sum(idle.cost(account, idle.steps).values()) for account in ("paper", "upstream")}
                print(f"{suite} {task.key}: {told} in {idle.steps} steps", flush=True)
        if found:
            with whole_file(file) as stream:
                stream.write(text_of(found).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
