"""A worker's side of what it and the controller tell each other.

xdist's own messages have ids alone. So each worker has a channel of its own, and `pytest_vla.run.xdist.messages` lists
what goes over it.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from typing import Any

import pytest

from pytest_vla.run.collected import Collected, collected_of
from pytest_vla.run.context import RunContext, context_of
from pytest_vla.run.resume import Resumption
from pytest_vla.run.xdist.messages import (
    Begin,
    CasesCollected,
    MayBegin,
    Message,
    ShardPlanned,
    WallLimit,
    read_message,
    wire,
)
from pytest_vla.run.xdist.policy import Served

WORKER_INPUT = "vla"
"""The name in a worker's input of what it is handed, as JSON."""

CHANNEL = "vla_channel"
"""The name in a worker's input of its channel to the controller."""


@dataclass(frozen=True)
class Handed:
    """What a worker is given.

    Attributes:
        run: the run's folder, where the controller is.
        resumption: what is left of a run that is gone on with.
        served: where the policy is.
        ahead: of a worker on another machine, seconds by which its clock is ahead; None: it is on this one.
    """

    run: str
    resumption: Resumption | None
    served: Served | None
    ahead: float | None = None


def handed_over(config: pytest.Config) -> Handed | None:
    """What this worker was given; None in any other process."""
    text = getattr(config, "workerinput", {}).get(WORKER_INPUT)
    if text is None:
        return None
    table = json.loads(text)
    resumption = table["resumption"]
    if resumption is not None:
        resumption = Resumption(**{**resumption, "left": tuple(resumption["left"])})
    return Handed(table["run"], resumption, table["served"] and Served(**table["served"]), table["ahead"])


class Worker:
    """The worker's hooks."""

    # Before xdist tells that this worker has collected.
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Tell the controller which items run an episode."""
        context = context_of(session.config)
        if context.channel is not None:
            context.channel.send(wire(cases_message(collected_of(session.items))))
            if (table := context.findings.shard) is not None:
                context.channel.send(wire(ShardPlanned(json.dumps(table))))


def channel_of(config: pytest.Config) -> Any:
    """Return the channel of this worker to its controller; None in any other process."""
    return getattr(config, "workerinput", {}).get(CHANNEL)


def cases_message(found: Collected) -> CasesCollected:
    """Return the message that says which episodes a worker has collected."""
    told = {node: (found.names[node], found.shared.get(node), astuple(case)) for node, case in found.cases.items()}
    return CasesCollected(json.dumps(told))


def ask_controller(context: RunContext) -> bool:
    """Whether a worker is to begin its next item; the controller has the clock."""
    channel = context.channel
    try:
        if context.far_side is not None:
            return context.far_side.may_begin()
        channel.send(wire(MayBegin()))
        while True:
            answer = read_message(channel.receive())
            if isinstance(answer, Begin):
                return answer.allowed
    except (OSError, EOFError):
        # The controller is gone, and xdist ends this worker.
        return True


@contextmanager
def told_controller(context: RunContext, limit: float | None) -> Iterator[None]:
    """Tell the controller that the block has a limit of wall time: it can end a worker that is frozen.

    Args:
        context: of the process, a worker or not.
        limit: seconds; None: there is no limit.
    """
    if limit is None:
        yield
        return
    _tell_controller(context, WallLimit(in_force=True))
    try:
        yield
    finally:
        lift_controllers_limit(context)


def lift_controllers_limit(context: RunContext) -> None:
    """Tell the controller that no limit is in force in this process any more."""
    _tell_controller(context, WallLimit(in_force=False))


def _tell_controller(context: RunContext, message: Message) -> None:
    if context.channel is not None:
        # A controller that is gone needs to know nothing, and xdist ends this worker.
        with suppress(OSError):
            context.channel.send(wire(message))
