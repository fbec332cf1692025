"""What a suite's own world says of a step, looked at: its costs as charges, its series as arrays."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import EpisodeError
from pytest_vla.plan.costs import DECLARED, LARGEST_AMOUNT, Charge
from pytest_vla.records.trajectory import MOST_SERIES, MOST_SERIES_BYTES, series_fault
from pytest_vla.util.text import printable
from pytest_vla.versions import RECORDED_NAMES

RESERVED = frozenset((*RECORDED_NAMES, "world", "premises", "feasible", "stop_when", "costs", "ledger", DECLARED))
"""Names of a record's provenance that pytest-vla itself gives."""


def own_charges(told: Any, step: int) -> tuple[Charge, ...]:
    """The charges of a step, of what a world's ``costs()`` gave: amounts by name, or charges.

    Raises:
        EpisodeError: it is neither, or an amount is no cost; ``world-protocol``.
    """
    if isinstance(told, Mapping):
        told = [Charge(name, amount) for name, amount in told.items()]
    if isinstance(told, str | bytes) or not isinstance(told, Iterable):
        raise _refused(f"gives {type(told).__name__}, expected amounts by name, or a list of charges")
    charges = tuple(_charge(each, step) for each in told)
    if odd := [f"{each.name}={each.amount}" for each in charges if not math.isfinite(each.amount)]:
        raise _refused(f"gives what is no finite number: {', '.join(odd)}")
    if odd := [f"{each.name}={each.amount}" for each in charges if not 0 <= each.amount <= LARGEST_AMOUNT]:
        raise _refused(f"gives what is no cost, which is 0 to {LARGEST_AMOUNT:g}: {', '.join(odd)}")
    return charges


def own_series(told: Any, steps: int) -> dict[str, NDArray[Any]]:
    """The arrays of a step by name, of what a world's ``series()`` gave.

    Args:
        told: of the world.
        steps: how many the episode may have: all of its series together are bounded.

    Raises:
        EpisodeError: they are no series of a trajectory; ``world-protocol``.
    """
    if not isinstance(told, Mapping):
        raise _refused(f"gives {type(told).__name__}, expected numbers or arrays by name", "series")
    found = {}
    for name, value in told.items():
        try:
            found[name] = array = np.array(value)
        except Exception as error:
            raise _refused(f"gives {printable(repr(name)[:100])}, which is no array: {error}", "series") from error
        if fault := series_fault(name, (steps, *array.shape), array.dtype, steps):
            raise _refused(f"does not fit: {fault}", "series")
    # Truths and small numbers may become larger ones at a later step.
    size = steps * sum(8 * array.size for array in found.values())
    if len(found) > MOST_SERIES or size > MOST_SERIES_BYTES:
        raise _refused(
            f"gives {len(found)} series of {size} bytes in {steps} steps, expected at most {MOST_SERIES} of "
            f"{MOST_SERIES_BYTES} bytes together",
            "series",
        )
    return found


def own_provenance(told: Any, ours: Mapping[str, str]) -> dict[str, str]:
    """The texts by name of what a world's ``provenance()`` gave.

    Args:
        told: of the world.
        ours: what pytest-vla says itself; a world may say the same once more.

    Raises:
        EpisodeError: it is no table of texts, or says otherwise than pytest-vla; ``world-protocol``.
    """
    if not isinstance(told, Mapping):
        raise _refused(f"gives {type(told).__name__}, expected texts by name", "provenance")
    for name, text in told.items():
        shown = printable(repr(name)[:100])
        if not isinstance(name, str) or not name:
            raise _refused(f"gives {shown} as a name, expected a text", "provenance")
        if not isinstance(text, str):
            raise _refused(f"gives {shown}={text!r:.60}, expected a text: str(...) of it", "provenance")
        if name in RESERVED and text != ours.get(name):
            known = f" ({ours[name]})" if name in ours else ""
            raise _refused(f"gives {shown}, which pytest-vla says itself{known}: give it another name", "provenance")
    return {str(name): str(text) for name, text in told.items()}


def _charge(told: Any, step: int) -> Charge:
    if not isinstance(told, Charge):
        raise _refused(f"gives {type(told).__name__} in a list, expected pytest_vla.plan.costs.Charge")
    if not isinstance(told.name, str) or not told.name:
        raise _refused(f"gives {printable(repr(told.name)[:100])} as a name, expected a text")
    if any(text is not None and not isinstance(text, str) for text in (told.by, told.text)):
        raise _refused(f"gives {told.name} with what is no text in by or text")
    if told.step is not None and (type(told.step) is not int or not 0 <= told.step <= step):
        raise _refused(f"gives {told.name} at step {told.step!r:.40}, expected none, or 0 to {step}, which is now")
    try:
        amount = float(told.amount)
    except (TypeError, ValueError, OverflowError):
        raise _refused(f"gives what is no finite number: {told.name}={told.amount!r:.60}") from None
    return replace(told, amount=amount, step=step if told.step is None else told.step, unknown={})


def _refused(what: str, method: str = "costs") -> EpisodeError:
    return EpisodeError("world-protocol", f"{method}() {what}")
