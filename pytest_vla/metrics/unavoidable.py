"""The part of an episode's cost that an arm that does nothing would have been charged too."""

from collections.abc import Callable, Iterable, Sequence

from pytest_vla.plan.costs import TOUCHING, Charge, of_account
from pytest_vla.plan.idle import Idle, measured
from pytest_vla.records.record import Record

Unavoidable = Callable[[Record, str], float]
"""What of an episode's cost by an account is unavoidable."""


def unavoidable_of(charges: Iterable[Charge], account: str, steps: int, idle: Idle | None) -> float:
    """What an account charged an episode, as far as an idle arm is charged it at the same control steps.

    It goes literal by literal and step by step, up to the first step at which the episode is not charged and an idle
    arm is: what one spared by moving something away pays for no return to it, and for no collision. Steps in which the
    gripper touches what it is only too close to at rest (`TOUCHING`) are not free.

    Args:
        charges: the episode's ledger.
        account: one of `pytest_vla.plan.costs.ACCOUNTS`.
        steps: how many control steps the episode took, from 0.
        idle: of the task; None: nothing was measured, and nothing is unavoidable.
    """
    if idle is None:
        return 0.0
    by_name: dict[str, list[Charge]] = {}
    for charge in of_account(charges, account):
        by_name.setdefault(charge.name, []).append(charge)
    return sum(_free(some, idle, account, name, steps) for name, some in by_name.items())


def _free(charges: Sequence[Charge], idle: Idle, account: str, name: str, steps: int) -> float:
    """Of one name."""
    known = [each for each in idle.charges if (each.account, each.name) == (account, name)]
    ends = idle.cost(account, steps).get(name, 0.0) if any(each.kind == "terminal" for each in known) else 0.0
    free = min(ends, sum(charge.amount for charge in charges if charge.kind == "terminal"))
    each_step = {
        step: charge.amount / charge.steps
        for charge in charges
        if charge.kind != "terminal" and charge.step is not None and charge.text != TOUCHING and charge.amount
        for step in range(charge.step, charge.step + charge.steps)
    }
    for charge in sorted((each for each in known if each.kind != "terminal"), key=lambda each: each.first):
        last = steps if idle.goes_on(charge) else min(charge.last, steps)
        for step in range(charge.first, last + 1):
            if step not in each_step:
                return free
            free += min(charge.amount, each_step[step])
    return free


def unavoidable_in(record: Record, account: str) -> float:
    """`unavoidable_of` a stored episode, as its suite's file of idle arms has it.

    Raises:
        VlaError: the file cannot be read.
    """
    idle = measured(record.suite).get(record.task_key)
    return unavoidable_of(record.costs, account, record.steps, idle)
