"""Whether pytest ran what it had picked by the outcomes of an earlier run: ``--lf`` and ``--sw``.

Such a run is of what failed, so that its rate says nothing of the policy: where the same policy has tried a case
before, that record counts. With these options pytest also runs everything, where nothing is known to have failed; that
is a run as any other.
"""

from collections.abc import Sequence
from typing import Any

import pytest

LAST_FAILED, STEPWISE = "--lf", "--sw"

# Where pytest's cacheprovider and stepwise keep what failed; read before they write it anew at the end of the run.
_FAILED_KEY, _STEP_KEY = "cache/lastfailed", "cache/stepwise"


def picked_by(config: pytest.Config, nodes: Sequence[str]) -> str | None:
    """The option by which earlier outcomes say what is run; None: they do not.

    Args:
        config: of the session, or with workers of their controller.
        nodes: ids of the items that are run, in their order.
    """
    cache: Any = getattr(config, "cache", None)
    if cache is None or not nodes:
        return None
    if config.getoption("lf", False):
        # Where none of those that failed is selected, pytest runs all that are.
        failed = cache.get(_FAILED_KEY, {})
        return LAST_FAILED if all(node in failed for node in nodes) else None
    if config.getoption("stepwise", False) and not config.getoption("stepwise_reset", False):
        known = cache.get(_STEP_KEY, None)
        # Also where nothing had passed before it: whoever goes on until nothing fails picks the end of the run.
        return STEPWISE if isinstance(known, dict) and known.get("last_failed") == nodes[0] else None
    return None
