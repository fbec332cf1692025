"""What clients of `pytest-vla serve` may send: all of it comes from outside, and is checked before it is used."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.policies.base import Episode, Wishes
from pytest_vla.policies.msgpack_arrays import unpack
from pytest_vla.policies.noise import set_noise
from pytest_vla.policies.openpi_protocol import OBSERVATIONS, PROMPT

MAX_REQUEST = 16 * 1024 * 1024
"""Bytes of a request: two pictures of 1536 x 1536 pixels."""

MAX_SIDE = 4096
"""Pixels of a picture's height and width."""

_LONGEST_TEXT = 10_000
_MOST_NUMBERS = 100_000
_MOST_SAMPLES = 1000
_NAMES_SHOWN = 20


class BadRequest(VlaError):
    """A request that is none; the client is told the message."""


def read_request(frame: str | bytes) -> dict[Any, Any]:
    """The table of a websocket frame. Raises BadRequest."""
    if isinstance(frame, str):
        raise BadRequest("a request is a binary frame of msgpack; this one is text")
    try:
        request = unpack(frame)
    except ValueError as error:
        raise BadRequest(f"{len(frame)} bytes that are no request: {error}") from error
    if not isinstance(request, dict):
        raise BadRequest(f"a request is a dict, not {type(request).__name__}")
    return request


def read_episode(request: Mapping[Any, Any]) -> Episode:
    """The episode that a client of ours begins, with a generator of its own. Raises BadRequest."""
    names = ("case_id", "suite", "task", "instruction")
    case_id, suite, task, instruction = (_text(request.get(name), name) for name in names)
    seed, wishes = request.get("seed"), request.get("wishes")
    if type(seed) is not int:
        raise BadRequest(f"seed: expected an integer, got {_short(seed)}")
    noise = np.random.Generator(np.random.PCG64(0))
    read_noise(noise, request)
    alone = request.get("alone", False)
    if not isinstance(alone, bool):
        raise BadRequest(f"alone: expected true or false, got {_short(alone)}")
    replan = request.get("replan")
    if not (replan is None or (type(replan) is int and replan >= 1)):
        raise BadRequest(f"replan: expected a number of steps, or none, got {_short(replan)}")
    return Episode(case_id, suite, task, instruction, seed, noise, _wishes(wishes), alone, replan=replan)


def read_noise(noise: np.random.Generator, request: Mapping[Any, Any]) -> None:
    """Gives a generator the state that a client of ours sends with each question. Raises BadRequest."""
    try:
        set_noise(noise, request.get("noise"))
    except VlaError as error:
        raise BadRequest(f"noise: {error}") from error


def read_observation(request: Mapping[Any, Any], reads: Sequence[str] | None) -> dict[str, NDArray[Any]]:
    """What a client of ours observed: all that is in `reads`, or what it has where that is None. Raises BadRequest."""
    sent = request.get("observation")
    if not isinstance(sent, dict) or not all(isinstance(name, str) for name in sent):
        raise BadRequest(f"observation: expected a dict of arrays, got {_short(sent)}")
    if reads is not None and set(sent) != set(reads):
        raise BadRequest(f"observation: expected {', '.join(reads)}, got {_names(sent)}")
    return {name: _array(name, name, value) for name, value in sent.items()}


def read_libero_request(request: Mapping[Any, Any], reads: Sequence[str] | None) -> tuple[dict[str, NDArray[Any]], str]:
    """The observation and the prompt of openpi's LIBERO client. Raises BadRequest.

    Args:
        request: a picture that the policy does not read may be missing.
        reads: what the policy reads; None: what there is.
    """
    unknown = set(reads or ()) - set(OBSERVATIONS.values())
    if unknown:
        raise BadRequest(
            f"this policy reads {', '.join(sorted(unknown))}, which openpi's protocol has no place for: only "
            "pytest-vla's own client can ask it"
        )
    wanted = {
        sent: name for sent, name in OBSERVATIONS.items() if (sent in request if reads is None else name in reads)
    }
    missing = [sent for sent in (*wanted, PROMPT) if sent not in request]
    if missing:
        raise BadRequest(f"the request lacks {', '.join(missing)}; it has {_names(request)}")
    observation = {name: _array(sent, name, request[sent]) for sent, name in wanted.items()}
    return observation, _text(request[PROMPT], PROMPT)


def _array(label: str, name: str, value: object) -> NDArray[Any]:
    expected, fits = _expected(name)
    if not isinstance(value, np.ndarray) or not fits(value):
        got = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else _short(value)
        raise BadRequest(f"{label[:100]!r}: expected {expected}, got {got}")
    # A copy, which a policy may write to, in this machine's byte order.
    return value.astype(value.dtype.newbyteorder("="), order="C", copy=True)


def _expected(name: str) -> tuple[str, Callable[[NDArray[Any]], bool]]:
    if name.endswith("_image"):
        return f"a picture (H, W, 3) of uint8, sides up to {MAX_SIDE}", _is_picture
    if name == "state":
        return "8 real numbers (8,)", lambda array: array.shape == (8,) and array.dtype.kind in "fiu"
    return (
        f"an array of up to {_MOST_NUMBERS} real numbers",
        lambda array: array.size <= _MOST_NUMBERS and array.dtype.kind in "bfiu",
    )


def _is_picture(array: NDArray[Any]) -> bool:
    sides = array.shape[:2]
    return (
        array.dtype == np.uint8 and array.ndim == 3 and array.shape[2] == 3 and 0 < min(sides) <= max(sides) <= MAX_SIDE
    )


def _wishes(table: object) -> Wishes:
    if isinstance(table, dict) and set(table) == {"samples", "token_probabilities"}:
        samples, probabilities = table["samples"], table["token_probabilities"]
        if type(samples) is int and 0 <= samples <= _MOST_SAMPLES and isinstance(probabilities, bool):
            return Wishes(samples, probabilities)
    raise BadRequest(
        f"wishes: expected up to {_MOST_SAMPLES} samples, and token_probabilities or not, got {_short(table)}"
    )


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise BadRequest(f"{name}: expected a text of up to {_LONGEST_TEXT} characters, got {_short(value)}")
    return value


def _names(table: Mapping[Any, Any]) -> str:
    """The first of a table's keys, of bounded length: a key may have megabytes."""
    shown = [_short(key) for key in itertools.islice(table, _NAMES_SHOWN)]
    return f"[{', '.join(sorted(shown))}]" + f" and {len(table) - len(shown)} more" * (len(table) > len(shown))


def _short(value: object) -> str:
    # Not its whole repr: it may be large.
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} {value.shape}"
    if isinstance(value, str | bytes):
        value = value[:100]
    text = repr(value) if not isinstance(value, dict) else f"a dict of {len(value)}"
    return text if len(text) <= 100 else f"{text[:97]}..."
