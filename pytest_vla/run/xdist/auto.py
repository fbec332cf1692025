"""The number of workers of ``-n auto`` if a policy's process answers them: more than there are cores.

While a worker waits for an answer its core is idle. Two workers per core keep it busy for all but the slowest policies
(docs/how-to/workers.md has the figures).
"""

import os
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_vla.run.constants import room_for_workers
from pytest_vla.run.context import RunContext

WORKERS_A_CORE = 2

EPISODES_A_WORKER = 4
"""At least, of the run: a worker that does less takes longer to start than it saves."""

_KNOWN = ("xdist.plugin", "pytest_vla.plugin")


@dataclass(frozen=True)
class AutoWorkers:
    """The number of workers of ``-n auto``, if it differs from pytest-xdist's.

    Attributes:
        cores: pytest-xdist's number.
        number: the number of workers instead.
        why: the reason for that number.
    """

    cores: int
    number: int
    why: str


def _is_auto(config: pytest.Config) -> bool:
    """Whether ``-n auto`` was given, and neither a hook of the user nor pytest-xdist's variable sets its number."""
    # In `config.option` pytest-xdist has put its number by now.
    if getattr(config.known_args_namespace, "numprocesses", None) != "auto":
        return False
    hooks = config.hook.pytest_xdist_auto_num_workers.get_hookimpls()
    is_said = any(each.function.__module__ not in _KNOWN for each in hooks)
    return not (is_said or os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"))


def widen_auto(context: RunContext) -> None:
    """Have ``-n auto`` start more workers than cores if a policy's process is likely to answer them.

    Args:
        context: the controller's context, before pytest-xdist reads the number of workers.

    Raises:
        VlaError: there is no such policy.
    """
    from pytest_vla.policies.load import may_batch

    config, selection, resumption = context.config, context.selection, context.resumption
    # A resumed run is no wider than pytest-xdist says, unless this invocation has a policy of its own.
    has_policy = bool(config.getoption("vla_model", None) or config.getini("vla_model"))
    if not has_policy or is_of_cluster(config) or not _is_auto(config):
        return
    if not selection.named or selection.settings.model is None:
        return
    searches = sum(map(len, selection.searches.values()))
    # A search is an item that is work enough for a worker.
    episodes = sum(map(len, selection.cases.values())) + EPISODES_A_WORKER * searches
    if resumption is not None:
        episodes = min(episodes, len(resumption.left))
    if may_batch(selection.settings.spec) is False:
        return
    cores = len(config.option.tx)
    workers, why = auto_workers(cores, episodes, room_for_workers())
    if config.option.maxprocesses:
        workers = min(workers, config.option.maxprocesses)
    if workers <= cores:
        return
    context.findings.auto_workers = AutoWorkers(cores, workers, why)
    config.option.tx = [*config.option.tx, *config.option.tx[:1] * (workers - cores)]
    config.option.numprocesses = workers


def is_of_cluster(config: pytest.Config) -> bool:
    """Whether the workers of this invocation are those of a Ray cluster."""
    return bool(config.getoption("vla_ray", None) or config.getini("vla_ray"))


def narrow_auto(context: RunContext, specs: list[Any]) -> None:
    """Restore pytest-xdist's number of workers, because each worker loads the policy itself."""
    auto, option = context.findings.auto_workers, context.config.option
    if auto is None:
        return
    context.findings.auto_workers = None
    del specs[auto.cores :]
    option.tx = option.tx[: auto.cores]
    option.numprocesses = auto.cores


def auto_workers(cores: int, episodes: int, room: int | None) -> tuple[int, str]:
    """Return the number of workers of ``-n auto``, never less than the cores, and the reason for it.

    Args:
        cores: the cores that pytest-xdist counts.
        episodes: the number of episodes to run.
        room: the number of workers that fit into the memory, or None if not known.
    """
    bounds = {
        "a core is idle while its worker waits for the policy": WORKERS_A_CORE * cores,
        f"{episodes} episodes do not need more": episodes // EPISODES_A_WORKER,
        "more do not fit into the memory": WORKERS_A_CORE * cores if room is None else room,
    }
    why = min(bounds, key=bounds.__getitem__)
    return max(cores, bounds[why]), why


def auto_line(auto: AutoWorkers) -> str:
    """Return the line that says how many workers there are: ``-n auto: 32 workers on 16 cores: ...``."""
    return f"-n auto: {auto.number} workers on {auto.cores} cores: {auto.why}"
