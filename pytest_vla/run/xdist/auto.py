"""How many workers ``-n auto`` is where a policy's process answers them: more than there are cores.

While a worker waits for an answer its core has nothing to do. Two workers a core keep it busy for all but the slowest
policies (docs/how-to/workers.md has the figures).
"""

import os
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vla.run.worker_costs import room_for_workers

if TYPE_CHECKING:
    from pytest_vla.run.selection import Selection

WORKERS_A_CORE = 2

EPISODES_A_WORKER = 4
"""At least, of the run: a worker that does less takes longer to start than it saves."""

AUTO_CORES = pytest.StashKey[int]()
"""What pytest-xdist made of ``-n auto``; nothing where something else was asked for."""

AUTO_WORKERS = pytest.StashKey[tuple[int, str]]()
"""How many workers it is instead, and why; nothing where it is as many as pytest-xdist says."""

_KNOWN = ("xdist.plugin", "pytest_vla.plugin")


def note_auto(config: pytest.Config, cores: int) -> None:
    """Note what ``-n auto`` came to, unless the user's own hook or pytest-xdist's variable says how many that is to be.

    Args:
        config: pytest's.
        cores: what pytest-xdist made of it.
    """
    hooks = config.hook.pytest_xdist_auto_num_workers.get_hookimpls()
    is_said = any(each.function.__module__ not in _KNOWN for each in hooks)
    is_said = is_said or bool(os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"))
    if config.getoption("numprocesses", None) == "auto" and cores > 0 and not is_said:
        config.stash[AUTO_CORES] = cores


def widen_auto(config: pytest.Config, selection: "Selection", left: int | None) -> None:
    """Have ``-n auto`` start more workers than cores, where a policy's process is likely to answer them.

    Args:
        config: pytest's, before pytest-xdist reads how many workers are to be.
        selection: of this invocation.
        left: how many items are left of a run that is gone on with; None: it is a new one.

    Raises:
        VlaError: there is no such policy.
    """
    from pytest_vla.policies.load import may_batch

    if AUTO_CORES not in config.stash or not selection.named or selection.settings.model is None:
        return
    searches = sum(map(len, selection.searches.values()))
    # A search is an item that is work enough for a worker.
    episodes = sum(map(len, selection.cases.values())) + EPISODES_A_WORKER * searches
    if left is not None:
        episodes = min(episodes, left)
    if may_batch(selection.settings.spec) is False:
        return
    cores = len(config.option.tx)
    workers, why = auto_workers(cores, episodes, room_for_workers())
    if config.option.maxprocesses:
        workers = min(workers, config.option.maxprocesses)
    if workers <= cores:
        return
    config.stash[AUTO_WORKERS] = (workers, why)
    config.option.tx = [*config.option.tx, *config.option.tx[:1] * (workers - cores)]
    config.option.numprocesses = workers


def narrow_auto(config: pytest.Config, specs: list[Any]) -> None:
    """The policy turned out to be each worker's own: as many workers as pytest-xdist says, after all."""
    if config.stash.get(AUTO_WORKERS, None) is None:
        return
    cores = config.stash[AUTO_CORES]
    del config.stash[AUTO_WORKERS]
    del specs[cores:]
    config.option.tx = config.option.tx[:cores]
    config.option.numprocesses = cores


def auto_workers(cores: int, episodes: int, room: int | None) -> tuple[int, str]:
    """How many workers ``-n auto`` is, never fewer than cores, and what that number is for.

    Args:
        cores: that pytest-xdist counts.
        episodes: that are to run.
        room: workers that the memory holds; None: not known.
    """
    bounds = {
        "a core has nothing to do while its worker waits for the policy": WORKERS_A_CORE * cores,
        f"{episodes} episodes are no work for more": episodes // EPISODES_A_WORKER,
        "the memory holds no more": WORKERS_A_CORE * cores if room is None else room,
    }
    why = min(bounds, key=bounds.__getitem__)
    return max(cores, bounds[why]), why


def auto_line(config: pytest.Config) -> str | None:
    """``-n auto: 32 workers on 16 cores, as ...``; None where it is as pytest-xdist has it."""
    if AUTO_WORKERS not in config.stash:
        return None
    workers, why = config.stash[AUTO_WORKERS]
    return f"-n auto: {workers} workers on {config.stash[AUTO_CORES]} cores: {why}"
