"""Texts for people, those from outside included: how they may be shown."""

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """`` Did you mean a, b?`` for the closest of the known names; empty where none is close.

    Args:
        name: what stands there.
        known: what may stand there.
        prefix: with which all begin, and which makes none of them alike.
    """
    import difflib

    name, known = name.removeprefix(prefix), [other.removeprefix(prefix) for other in known]
    inside = [other for other in known if name and name.lower() in other.lower()]
    close = list(dict.fromkeys(inside[:3] + difflib.get_close_matches(name, known, n=3)))[:3]
    return f" Did you mean {', '.join(prefix + other for other in close)}?" if close else ""


def counted(number: int, noun: str) -> str:
    """``1 episode``, ``2 episodes``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def printable(text: str) -> str:
    """One line with ``?`` in the place of each character that a terminal or a log would obey or cannot write."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def printable_lines(text: str) -> str:
    """As `printable`, line by line: line feeds stay."""
    return "\n".join(printable(line.expandtabs()) for line in text.split("\n"))
