"""What a run with a gate can find, told before its first episode."""

from collections.abc import Mapping

from pytest_vla.gate.choices import FIXED
from pytest_vla.plan.case import Case
from pytest_vla.run.gating import Gate

SEED = 0
"""Of the simulations: the same run is told the same."""


def foreseen_line(gate: Gate, cases: Mapping[str, Case], run_seed: int) -> str:
    """The smallest drop that the run would find, by group; of a sequential gate, which groups are too small for any.

    Args:
        gate: of the run.
        cases: that it runs, by node id.
        run_seed: under which.
    """
    if gate.rule != FIXED:
        return _too_few(gate, len({case.task for case in cases.values()}))
    import numpy as np

    from pytest_vla.gate.detectable import smallest_drops
    from pytest_vla.reports.plans import drops_line

    return drops_line(smallest_drops(gate.baseline, cases, run_seed, gate.terms, np.random.default_rng(SEED)))


def _too_few(gate: Gate, tasks: int) -> str:
    """The groups in which not even a run that loses everything would be called a regression; empty: none is."""
    if gate.agreed is None:
        return ""
    import numpy as np

    from pytest_vla.gate.wealth import running_p

    rounds = gate.agreed.rounds
    # Holm's correction leaves the smallest p of all groups times their number.
    least = gate.terms.alpha / max(len(rounds), 1)
    told = [
        f"{name} has {number}"
        for name, number in rounds.items()
        if not number or float(running_p(np.full((number, tasks), -1.0), "regression", gate.terms.beyond)[-1]) > least
    ]
    if not told:
        return ""
    return (
        f"too few rounds to find a regression even if every episode is lost: {', '.join(told)}; run more episodes of "
        "each task (--vla-episodes), or say --vla-gate=fixed"
    )
