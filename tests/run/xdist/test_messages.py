"""Messages between workers and controller: what comes over the channel is read by name, or refused with the place."""

from types import SimpleNamespace
from typing import Any, cast

import execnet
import pytest

from pytest_vla.errors import VlaError
from pytest_vla.run.xdist import messages
from pytest_vla.run.xdist.hooks import Controller
from pytest_vla.run.xdist.messages import (
    Begin,
    CasesCollected,
    FilePart,
    MayBegin,
    Message,
    PolicyPlaces,
    Preparing,
    ShardPlanned,
    WallLimitChange,
    WhereIsPolicy,
    read_message,
    wire,
)

ONE_OF_EACH = [
    CasesCollected('{"suite::test": ["suite::test", null, []]}'),
    ShardPlanned("{}"),
    WallLimitChange(in_force=True),
    Preparing("the world", ended=False),
    MayBegin(),
    Begin(allowed=False),
    FilePart("suite/one.npz", b"\x00\xff", is_last=True),
    WhereIsPolicy(),
    PolicyPlaces({"path": "a/socket", "network": None, "near": True}),
]


@pytest.mark.parametrize("message", ONE_OF_EACH, ids=lambda message: message.NAME)
def test_a_message_is_the_same_on_the_other_side(message: Message) -> None:
    assert read_message(execnet.loads(execnet.dumps(wire(message)))) == message


def test_every_message_has_a_name_of_its_own() -> None:
    names = [kind.NAME for kind in Message.__subclasses__()]
    assert len(names) == len(set(names))
    assert {message.NAME for message in ONE_OF_EACH} == set(names)
    assert all(f"``{name}``" in str(messages.__doc__) for name in names)


@pytest.mark.parametrize("sent", [None, True, "text", ["vla", "begin", True], {"vla": 1}, (), ("other", "begin", True)])
def test_what_is_not_ours_is_passed_over(sent: object) -> None:
    assert read_message(sent) is None


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (("vla",), r"message None is not known; expected one of cases, shard, "),
        (("vla", "bye"), r"message 'bye' is not known"),
        (("vla", "begin"), r"message begin has 0 fields; expected 1: allowed"),
        (("vla", "may_begin", 1), r"message may_begin has 1 fields; expected 0: none"),
        (("vla", "begin", "yes"), r"message begin: allowed is str; expected bool"),
        (("vla", "policy_places", []), r"message policy_places: table is list; expected dict"),
    ],
)
def test_a_message_that_cannot_be_read_says_which_and_what_was_expected(sent: object, error: str) -> None:
    with pytest.raises(VlaError, match=error):
        read_message(sent)


def test_the_controller_finds_handlers_by_name_and_tells_what_it_cannot_read() -> None:
    said, took = list[str](), list[tuple[str, Message]]()
    handlers: dict[str, Any] = {Preparing.NAME: lambda worker, message: took.append((worker, message))}
    controller = cast(Controller, SimpleNamespace(_results=SimpleNamespace(say_once=said.append), _handlers=handlers))
    for sent in (wire(Preparing("a world", ended=True)), ("vla", "bye"), ["of", "others"], wire(Begin(allowed=True))):
        Controller._hear(controller, "gw3", sent)
    assert took == [("gw3", Preparing("a world", ended=True))]
    (line,) = said
    assert line.startswith("worker gw3: message 'bye' is not known; expected one of cases, shard, ")
