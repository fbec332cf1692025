"""What metrics cost a run: asked of the policy once, by its first process, and told at the run's end."""

from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.run.context import RunContext

if TYPE_CHECKING:
    from pytest_vla.episode.rollout import Conditions
    from pytest_vla.plan.suite import Suite
    from pytest_vla.policies.base import Policy
    from pytest_vla.policies.price import Price

WORKER_OUTPUT = "vla_prices"
"""Under which a worker sends it."""

FIRST_WORKER = "gw0"


def note_prices(context: RunContext, policy: "Policy", suite: "Suite", conditions: "Conditions") -> None:
    """Measures them before the first episode of a run that wishes for repeated samples; of several workers in one.

    A policy that cannot be asked so has no price: its episodes tell why.
    """
    config, findings = context.config, context.findings
    output = getattr(config, "workeroutput", None)
    is_other = output is not None and getattr(config, "workerinput", {}).get("workerid") != FIRST_WORKER
    if findings.prices is not None or is_other or not conditions.wishes.samples or getattr(policy, "privileged", False):
        return
    from pytest_vla.policies.price import price_of, price_table
    from pytest_vla.util.wall_limits import WallLimitReached, wall_limit

    found: tuple[Price, ...] = ()
    try:
        with wall_limit(conditions.policy_timeout or conditions.timeout):
            found = price_of(policy, suite, conditions.wishes, conditions.replan)
    except (VlaError, WallLimitReached):
        pass
    findings.prices = found
    if output is not None:
        output[WORKER_OUTPUT] = price_table(found)


def take_prices(context: RunContext, output: object) -> None:
    """Keep what a worker measured, which it sends when it is done; most measure nothing."""
    if isinstance(output, dict) and WORKER_OUTPUT in output:
        from pytest_vla.policies.price import read_prices

        context.findings.prices = read_prices(output[WORKER_OUTPUT])
