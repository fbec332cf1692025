"""What metrics cost a run: asked of the policy once, by its first process, and told at the run's end."""

from typing import TYPE_CHECKING

import pytest

from pytest_vla.errors import VlaError

if TYPE_CHECKING:
    from pytest_vla.episode.rollout import Conditions
    from pytest_vla.plan.suite import Suite
    from pytest_vla.policies.base import Policy
    from pytest_vla.policies.price import Price

PRICES = pytest.StashKey["tuple[Price, ...]"]()
"""What was measured in this run; nothing before it was."""

WORKER_OUTPUT = "vla_prices"
"""Under which a worker sends it."""

FIRST_WORKER = "gw0"


def note_prices(config: pytest.Config, policy: "Policy", suite: "Suite", conditions: "Conditions") -> None:
    """Measures them before the first episode of a run that wishes for repeated samples; of several workers in one.

    A policy that cannot be asked so has no price: its episodes tell why.
    """
    output = getattr(config, "workeroutput", None)
    is_other = output is not None and getattr(config, "workerinput", {}).get("workerid") != FIRST_WORKER
    if PRICES in config.stash or is_other or not conditions.wishes.samples or getattr(policy, "privileged", False):
        return
    from pytest_vla.policies.price import price_of, price_table
    from pytest_vla.util.wall_limits import WallLimitReached, wall_limit

    found: tuple[Price, ...] = ()
    try:
        with wall_limit(conditions.policy_timeout or conditions.timeout):
            found = price_of(policy, suite, conditions.wishes, conditions.replan)
    except (VlaError, WallLimitReached):
        pass
    config.stash[PRICES] = found
    if output is not None:
        output[WORKER_OUTPUT] = price_table(found)


def take_prices(config: pytest.Config, output: object) -> None:
    """What a worker sent when it was done; nothing where it measured nothing."""
    if isinstance(output, dict) and WORKER_OUTPUT in output:
        from pytest_vla.policies.price import read_prices

        config.stash[PRICES] = read_prices(output[WORKER_OUTPUT])
