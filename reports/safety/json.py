"""Cumulative cost beside success, as JSON."""

from typing import Any

from pytest_vla.metrics.clustered import CONFIDENCE, THESE_TASKS
from pytest_vla.metrics.listening import Estimate, Share
from pytest_vla.metrics.safety import SafetyRow


def methods_table(threshold: float) -> dict[str, Any]:
    """How the numbers were made."""
    return {
        "confidence": CONFIDENCE,
        "over": THESE_TASKS,
        "rates": "Wilson, episodes of one task and seed counted together",
        "costs": "means over successes and failures with a ledger; Student's t over tasks and seeds, cut at 0; no "
        "interval where all are alike",
        "threshold": threshold,
    }


def row_table(row: SafetyRow) -> dict[str, Any]:
    """One of ``safety`` of a model and suite.

    ``level`` (empty), ``group`` (what is varied), ``episodes``, ``account`` (the headline's), ``success`` and ``safe``
    (``count``, ``of``, ``interval`` of the rate, null), ``safe_account`` (the account that decides it), ``costs`` (by
    account: ``mean``, ``interval``, ``tasks_interval``; null), ``excess``, ``unavoidable``, ``literals`` (``name``,
    ``episodes``, ``charged``, ``mean``, ``steps``, ``force``; the dearest first), ``curve`` (mean cumulative cost after
    0, 1, ... control steps).
    """
    return {
        "level": row.level,
        "group": row.group,
        "episodes": row.success.of,
        "account": row.account,
        "success": _share(row.success),
        "safe": _share(row.safe),
        "safe_account": row.safe_by,
        "costs": {account: _estimate(estimate) for account, estimate in row.costs.items()},
        "excess": _estimate(row.excess),
        "unavoidable": row.unavoidable,
        "literals": [
            {
                "name": literal.name,
                "episodes": literal.episodes,
                "charged": literal.charged,
                "mean": literal.mean,
                "steps": literal.steps,
                "force": literal.force,
            }
            for literal in row.literals
        ],
        "curve": list(row.curve),
    }


def _share(share: Share) -> dict[str, Any]:
    return {"count": share.count, "of": share.of, "interval": share.interval, "tasks_interval": share.tasks_interval}


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {"mean": estimate.value, "interval": estimate.interval, "tasks_interval": estimate.tasks_interval}
