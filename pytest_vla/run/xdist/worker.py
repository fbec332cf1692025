"""A worker's side of what it and the controller tell each other.

Beside xdist's own messages, which have ids alone, each worker has a channel to tell which items run which episodes, and
when a limit of wall time begins and ends, and to ask whether an item is begun where time may end the run.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from typing import Any

import pytest

from pytest_vla.run.collected import Collected, collected_of
from pytest_vla.run.far_side import BEGIN, FAR
from pytest_vla.run.preparing import CHANNEL
from pytest_vla.run.resume import Resumption
from pytest_vla.run.sharding import SHARDED
from pytest_vla.run.xdist.policy import Served

WORKER_INPUT = "vla"
"""The name in a worker's input of what it is handed, as JSON."""

CASES = "cases"
"""In a worker's message: the cases of its items, as JSON."""


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
        channel: Any = getattr(session.config, "workerinput", {}).get(CHANNEL)
        if channel is not None:
            channel.send(cases_message(collected_of(session.items)))
            if (table := session.config.stash.get(SHARDED, None)) is not None:
                channel.send(json.dumps(table))


def cases_message(found: Collected) -> dict[str, str]:
    """What a worker tells of its items' cases: as one text, which the controller reads once, however many tell it.

    Of a table execnet would unpack every name, for every worker: of 10,000 items that is a tenth of a second for each.
    """
    told = {node: (found.names[node], found.shared.get(node), astuple(case)) for node, case in found.cases.items()}
    return {CASES: json.dumps(told)}


def ask_controller(config: pytest.Config) -> bool:
    """Whether a worker is to begin its next item; the controller has the clock."""
    channel: Any = config.workerinput[CHANNEL]  # type: ignore[attr-defined]
    try:
        if (far := config.stash.get(FAR, None)) is not None:
            return far.may_begin()
        channel.send([BEGIN])
        _, answer = channel.receive()
        return bool(answer)
    except (OSError, EOFError):
        # The controller is gone, and xdist ends this worker.
        return True


@contextmanager
def told_controller(config: pytest.Config, limit: float | None) -> Iterator[None]:
    """A block with a limit of wall time, which the controller knows of: it can end a worker that is frozen.

    Args:
        config: of the process, a worker or not.
        limit: seconds; None: there is no limit.
    """
    if limit is None:
        yield
        return
    _tell_controller(config, True)
    try:
        yield
    finally:
        lift_controllers_limit(config)


def lift_controllers_limit(config: pytest.Config) -> None:
    """No limit is in force in this process any more, for the controller either."""
    _tell_controller(config, False)


def _tell_controller(config: pytest.Config, has_limit: bool) -> None:
    channel: Any = getattr(config, "workerinput", {}).get(CHANNEL)
    if channel is not None:
        # A controller that is gone needs to know nothing, and xdist ends this worker.
        with suppress(OSError):
            channel.send(has_limit)
