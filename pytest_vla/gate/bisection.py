"""Which of a list of checkpoints is the first that regressed: halving, by the verdicts of gates.

It takes checkpoints to be good up to one of them and bad from it on, as ``git bisect`` takes commits. An undecided gate
tells nothing: its checkpoint is stepped over, and stays among those that may be the first.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Literal

Finding = Literal["good", "bad", "undecided"]

FINDINGS: dict[str, Finding] = {
    "better": "good",
    "no worse": "good",
    "regression": "bad",
    "undecided": "undecided",
}
"""What a verdict of `pytest_vla.gate.choices.Verdict` says of a checkpoint; one that is not comparable says nothing."""


def in_order(names: Iterable[str]) -> list[str]:
    """Each name once, numbers in them by their size: ``step-800`` before ``step-12000``."""
    return sorted(dict.fromkeys(names), key=_by_size)


def suspects(found: Mapping[int, Finding]) -> range:
    """The checkpoints that may be the first bad one.

    Args:
        found: what is known of them, by their place; at least one is good, and a later one bad.

    Raises:
        ValueError: no good one stands before a bad one.
    """
    bad = min((place for place, finding in found.items() if finding == "bad"), default=None)
    good = max(
        (place for place, finding in found.items() if finding == "good" and (bad is None or place < bad)), default=None
    )
    if bad is None or good is None:
        raise ValueError("expected a good checkpoint before a bad one")
    return range(good + 1, bad + 1)


def next_to_try(found: Mapping[int, Finding]) -> int | None:
    """The checkpoint whose verdict halves what is left: of those not tried yet the nearest to the middle.

    Args:
        found: as `suspects`.

    Returns:
        Its place; None: all that lies between the last good one and the first bad one was tried.

    Raises:
        ValueError: as `suspects`.
    """
    left = suspects(found)
    # The last of them is known to be bad.
    open_ = [place for place in left[:-1] if place not in found]
    middle = (left.start + left.stop - 2) / 2
    return min(open_, key=lambda place: (abs(place - middle), place), default=None)


def at_most(checkpoints: int) -> int:
    """How many gates find the first bad one of so many that may be it, where none is undecided."""
    return (checkpoints - 1).bit_length()


def _by_size(name: str) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", name)
    return [(1, int(part), part) if part.isdigit() and part.isascii() else (0, 0, part) for part in parts]
