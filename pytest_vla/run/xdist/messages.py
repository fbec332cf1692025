"""All messages between a worker and its controller, beside those of pytest-xdist itself.

Each worker has one execnet channel to its controller. A message is a frozen dataclass with a name. On the wire it is a
tuple of builtin types: `MARK`, the message's name, its fields in their order. The receiver reads it by `read_message`
and looks the handler up by the message's name: `pytest_vla.run.xdist.hooks.Controller` has the handlers of the
controller, `pytest_vla.run.xdist.worker.FarSide` those of a worker on another machine.

==================  ======================  ===============================================================
name                from, to                is sent
==================  ======================  ===============================================================
``cases``           worker, controller      once, after the worker has collected
``shard``           worker, controller      once, after ``cases``, with ``--vla-shard``
``wall_limit``      worker, controller      when an episode's limit of wall time begins, and when it ends
``preparing``       worker, controller      when something that takes long begins, and when it ends
``may_begin``       worker, controller      before each item, if time may end the run; a question
``begin``           controller, worker      as the answer to ``may_begin``
``file``            far worker, controller  for each part of a file of the run's folder
``where_is_policy`` far worker, controller  when the worker has lost the policy's process; a question
``policy_places``   controller, far worker  as the answer to ``where_is_policy``
==================  ======================  ===============================================================

A far worker is one on another machine (``--vla-ray``).

Some things travel with pytest-xdist's own messages: what a worker is given at its start (`worker.Handed`, in its
``workerinput``), what metrics cost (`pytest_vla.run.metrics`, in its ``workeroutput``), and with the reports of an item
its record (`pytest_vla.run.record_transport`) or its search (`pytest_vla.run.searches`).
"""

from dataclasses import dataclass, fields
from typing import Any, ClassVar, get_origin

from pytest_vla.errors import VlaError
from pytest_vla.util.text import quoted

MARK = "vla"
"""The first part of each message: what else comes over the channel is not ours."""


@dataclass(frozen=True)
class Message:
    """A message. By `NAME` the receiver finds its handler."""

    NAME: ClassVar[str] = ""


@dataclass(frozen=True)
class CasesCollected(Message):
    """The worker has collected these episodes.

    Attributes:
        text: JSON of a table. By node id: what the item is recorded as; what its episode is recorded as, if several
            tests share it, or null; the fields of its `Case`. It is one text, which the controller reads once, however
            many workers send it. Of a table execnet would unpack every name, for every worker: of 10,000 items that
            takes a tenth of a second for each.
    """

    NAME = "cases"
    text: str


@dataclass(frozen=True)
class ShardPlanned(Message):
    """The worker has collected this shard.

    Attributes:
        text: JSON of `pytest_vla.scale.shards.ShardPlan.table`.
    """

    NAME = "shard"
    text: str


@dataclass(frozen=True)
class WallLimitChange(Message):
    """A wall-time limit begins or ends in the worker: the controller kills a worker that is frozen.

    Attributes:
        in_force: whether the limit is in force.
    """

    NAME = "wall_limit"
    in_force: bool


@dataclass(frozen=True)
class Preparing(Message):
    """The worker prepares something that takes long before an episode can begin.

    Attributes:
        what: a short description.
        ended: whether the preparation has ended.
    """

    NAME = "preparing"
    what: str
    ended: bool


@dataclass(frozen=True)
class MayBegin(Message):
    """The worker asks whether it may begin its next item: the controller has the clock."""

    NAME = "may_begin"


@dataclass(frozen=True)
class Begin(Message):
    """The controller answers `MayBegin`.

    Attributes:
        allowed: whether the worker may begin its next item.
    """

    NAME = "begin"
    allowed: bool


@dataclass(frozen=True)
class FilePart(Message):
    """A worker on another machine sends a part of a file.

    Attributes:
        file: the file's name in the run's folder.
        content: the part.
        is_last: whether the file is complete with it.
    """

    NAME = "file"
    file: str
    content: bytes
    is_last: bool


@dataclass(frozen=True)
class WhereIsPolicy(Message):
    """A worker on another machine asks where the policy's process is by now."""

    NAME = "where_is_policy"


@dataclass(frozen=True)
class PolicyPlaces(Message):
    """The controller answers `WhereIsPolicy`.

    Attributes:
        table: as `pytest_vla.run.xdist.policy.places_of` reads it.
    """

    NAME = "policy_places"
    table: dict[str, Any]


_MESSAGES: dict[str, type[Any]] = {
    each.NAME: each
    for each in (
        CasesCollected,
        ShardPlanned,
        WallLimitChange,
        Preparing,
        MayBegin,
        Begin,
        FilePart,
        WhereIsPolicy,
        PolicyPlaces,
    )
}


def wire(message: Message) -> tuple[Any, ...]:
    """Return a message as it is sent over a channel: a tuple of builtin types."""
    return MARK, message.NAME, *(getattr(message, each.name) for each in fields(message))


def read_message(sent: object) -> Message | None:
    """Return the message that came over a channel, or None if it is not one of ours.

    Raises:
        VlaError: it is marked as ours and cannot be read, as from a worker with another version of pytest-vla.
    """
    if not isinstance(sent, tuple) or sent[:1] != (MARK,):
        return None
    name, values = sent[1] if len(sent) > 1 else None, sent[2:]
    if not isinstance(name, str) or name not in _MESSAGES:
        raise VlaError(f"message {quoted(name, 80)} is not known; expected one of {', '.join(_MESSAGES)}")
    kind = _MESSAGES[name]
    types = {each.name: each.type for each in fields(kind)}
    if len(values) != len(types):
        raise VlaError(f"message {name} has {len(values)} fields; expected {len(types)}: {', '.join(types) or 'none'}")
    for (field, type_), value in zip(types.items(), values, strict=True):
        expected: Any = get_origin(type_) or type_
        if not isinstance(value, expected):
            raise VlaError(f"message {name}: {field} is {type(value).__name__}; expected {expected.__name__}")
    message: Message = kind(*values)
    return message
