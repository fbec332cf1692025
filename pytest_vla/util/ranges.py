"""Ranges of numbers as texts: seeds."""

import re
from collections.abc import Iterable

from pytest_vla.errors import VlaError

MAX_SEEDS = 1_000_000

LAST_SEED = 2**32 - 1
"""Scene seeds are numpy's, which have 32 bits."""


def parse_seeds(text: str) -> tuple[int, ...]:
    """Seeds from ``0-9``, ``0,3,7`` or ``0-4,10``: in the order written, each once. Raises VlaError."""
    seeds: dict[int, None] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,20})\s*(?:-\s*(\d{1,20})\s*)?", part, re.ASCII)
        if match is None:
            raise VlaError(f"seeds {text!r}: {part.strip()!r} is no seed and no range; write 0-9, 0,3,7 or 0-4,10")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise VlaError(f"seeds {text!r}: {part.strip()} runs backwards; write {last}-{first}")
        if last > LAST_SEED:
            raise VlaError(f"seeds {text!r}: {last} is beyond {LAST_SEED}, the last seed of a scene")
        if len(seeds) + last - first >= MAX_SEEDS:
            raise VlaError(f"seeds {text!r}: more than {MAX_SEEDS} seeds")
        seeds.update(dict.fromkeys(range(first, last + 1)))
    return tuple(seeds)


def ranges_text(numbers: Iterable[int]) -> str:
    """Whole numbers as a text such as ``1-3,7``, in ascending order, each once."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in found)
