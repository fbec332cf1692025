"""The script that sees the simulator's state, as a policy."""

from pytest_vla.entries import PolicyEntry


def pytest_vla_policies() -> list[PolicyEntry]:
    """Return the policy entries of the expert (``--vla-model=expert``)."""
    return [PolicyEntry("expert", "a script that sees the simulator's state", kind="pytest_vla.expert.policy:EXPERT")]
