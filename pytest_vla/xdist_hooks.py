"""What the controller tells its workers. Registered only where pytest-xdist is: without it these hooks are unknown."""

from typing import Any

import pytest

from pytest_vla.results import RUN

WORKER_INPUT = "vla_run"


def pytest_configure_node(node: Any) -> None:
    """Give a worker the folder of the run."""
    node.workerinput[WORKER_INPUT] = str(node.config.stash[RUN])


def run_of_controller(config: pytest.Config) -> str | None:
    """In a worker, the folder that the controller gave; None in any other process."""
    run: str | None = getattr(config, "workerinput", {}).get(WORKER_INPUT)
    return run
