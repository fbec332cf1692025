"""Texts for people: suggestions, plurals, safe printing, and ranges of numbers."""

import re
from collections.abc import Iterable

from pytest_vla.errors import VlaError


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return `` Did you mean a, b?`` for the closest known names, or an empty text if none is close.

    Args:
        name: the given name.
        known: the known names.
        prefix: a prefix of all names, ignored in the comparison.
    """
    import difflib

    name, known = name.removeprefix(prefix), [other.removeprefix(prefix) for other in known]
    inside = [other for other in known if name and name.lower() in other.lower()]
    close = list(dict.fromkeys(inside[:3] + difflib.get_close_matches(name, known, n=3)))[:3]
    return f" Did you mean {', '.join(prefix + other for other in close)}?" if close else ""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 episode``, ``2 episodes``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


# Logs of CI services obey lines such as ``::stop-commands::x`` (GitHub, also indented), ``##[command]`` (GitHub) and
# ``##vso[...]`` (Azure), the latter two anywhere.
_COMMAND = re.compile(r"^(\s*:):|(#)#(?=\w*\[)")


def digest_text(digest: str | None) -> str:
    """Return the beginning of a digest, which is enough to tell two apart, or that there is none."""
    return "of unknown content" if digest is None else digest[:12]


def visible(text: str) -> str:
    """Return a text in one line, with ``?`` for each character that a terminal or a log would obey or cannot write."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def visible_lines(text: str) -> str:
    """Return a text with each line made `visible`."""
    return "\n".join(visible(line.expandtabs()) for line in text.split("\n"))


def printable(text: str) -> str:
    """Return a `visible` text that no log takes for a command: a blank replaces a character that would begin one."""
    shown = visible(text)
    if "::" not in shown and "##" not in shown:
        return shown
    return _COMMAND.sub(lambda found: f"{found[1] or found[2]} ", shown)


def quoted(value: object, length: int = 60) -> str:
    """Return a value from outside as Python writes it, cut to a length and made `printable`, for an error message."""
    return printable(repr(value)[:length])


def printable_lines(text: str) -> str:
    """Return a text with each line made `printable`."""
    return "\n".join(printable(line.expandtabs()) for line in text.split("\n"))


# Ranges of numbers as texts: seeds.

MAX_SEEDS = 1_000_000

LAST_SEED = 2**32 - 1
"""Scene seeds are numpy's, which have 32 bits."""


def numbers_in_order(text: str) -> list[tuple[int, int, str]]:
    """Return the key that sorts texts with their numbers by size, such as ``seed2`` before ``seed10``."""
    # Texts are at even places, numbers at odd ones; of two numbers the longer one is larger.
    parts = enumerate(re.split(r"([0-9]+)", text))
    key = ((place % 2, part.lstrip("0") if place % 2 else part) for place, part in parts)
    return [(is_number, len(part) * is_number, part) for is_number, part in key]


def parse_seeds(text: str) -> tuple[int, ...]:
    """Parse seeds from ``0-9``, ``0,3,7`` or ``0-4,10``: in the order written, each once. Raises VlaError."""
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
    """Return whole numbers as a text such as ``1-3,7``, in ascending order, each once."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in found)
