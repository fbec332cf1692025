"""The run of one invocation of pytest, in one object that every hook and fixture is given.

`pytest_vla.run.hooks.configure` makes the `RunContext` once, and puts it into pytest's stash under this package's only
key. All other code gets it by `context_of`, or as an argument. The context itself is frozen. Two objects in it change
during a run: `so_far` (the progress) and `findings` (facts that become known later).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_vla.policies.trial import Price
    from pytest_vla.run.gate import GateConfig
    from pytest_vla.run.resume import Resumption
    from pytest_vla.run.selection import Selection
    from pytest_vla.run.settings import Settings
    from pytest_vla.run.stored import RunState
    from pytest_vla.run.utilisation import Utilisation
    from pytest_vla.run.xdist.policy import AutoWorkers, PolicyPlace
    from pytest_vla.run.xdist.worker import FarSide
    from pytest_vla.scale.order import TimeLimit

STDERR = 2
"""The descriptor of this process's stderr."""


@dataclass
class RunFindings:
    """Facts about a run that become known after it has been configured. Each field is set by one module.

    Attributes:
        shard: the shard's table (`pytest_vla.scale.shards.ShardPlan.table`) for the run's store, or None without a
            shard and until the items are known. `pytest_vla.run.sharding` sets it during collection; in a controller,
            a worker's message does.
        uncollected: by node id of a collector that failed, the reason in one line. `pytest_vla.run.sharding` sets it.
        auto_workers: the number of workers of ``-n auto``, if it differs from pytest-xdist's.
        utilisation: samples from the policy's processes, if there are any.
        prices: the time that each metric costs, or None until it is measured.
        over_cost: by node id, the failure message of an item whose episode cost too much; empty if it did not. The
            `rollout` fixture sets it.
        marked_values: by keyword of the episodes' marks, their values before ``-m "vla(...)"`` selects from them.
            `pytest_vla.run.marker` sets it.
    """

    shard: Mapping[str, Any] | None = None
    uncollected: dict[str, str] = field(default_factory=dict)
    auto_workers: "AutoWorkers | None" = None
    utilisation: "Utilisation | None" = None
    prices: "tuple[Price, ...] | None" = None
    over_cost: dict[str, str] = field(default_factory=dict)
    marked_values: dict[str, set[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class RunContext:
    """The run of this invocation, as one process sees it: a worker, its controller, or the only process.

    Attributes:
        config: pytest's.
        selection: what is collected, with the settings of this invocation.
        arguments: the paths and ids that the user gave to pytest, as they were typed.
        resumption: the run that is resumed, or None for a new run.
        folder: the run's folder; it is made when the first episode has ended.
        notes: lines that are printed before anything is collected.
        so_far: the progress of the run. Only the process that keeps the run counts in it.
        limit: in the process that keeps the run, when time ends it; None if it has no limit.
        gate: in the process that keeps the run, what the run is compared with; None if there is no baseline.
        stderr: a descriptor of the terminal's stderr, open also while pytest captures. In a worker, its own stderr.
        channel: in a worker, the execnet channel to its controller (`pytest_vla.run.xdist.messages`); else None.
        served: in a worker, where the policy is; None if this process loads it.
        far_side: in a worker on another machine, its end of what it and the controller tell each other; else None.
        findings: what becomes known later.
    """

    config: pytest.Config
    selection: "Selection"
    arguments: tuple[str, ...]
    resumption: "Resumption | None"
    folder: Path
    so_far: "RunState"
    notes: tuple[str, ...] = ()
    limit: "TimeLimit | None" = None
    gate: "GateConfig | None" = None
    stderr: int = STDERR
    channel: Any = None
    served: "PolicyPlace | None" = None
    far_side: "FarSide | None" = None
    findings: RunFindings = field(default_factory=RunFindings)

    @property
    def settings(self) -> "Settings":
        """Return the settings of this invocation."""
        return self.selection.settings


RUN_CONTEXT = pytest.StashKey[RunContext]()
"""The only key of this package in pytest's stash."""


def context_of(config: pytest.Config) -> RunContext:
    """Return the run of this invocation. There is one as soon as `pytest_vla.run.hooks` is registered."""
    return config.stash[RUN_CONTEXT]
