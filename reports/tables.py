"""Tables of text, and text that a terminal can be given."""

from collections.abc import Iterable, Iterator, Sequence

Rows = Sequence[Sequence[str]]


def aligned(rows: Rows, names: int, left: set[int] | frozenset[int] = frozenset()) -> Iterator[str]:
    """Columns as wide as they have to be: names, the first so many, to the left, numbers to the right.

    Args:
        rows: the head's among them; as many cells each.
        names: how many columns of names there are.
        left: further columns whose text begins at the left.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(
            text.ljust(width) if index < names or index in left else text.rjust(width)
            for index, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()


def printable(lines: Iterable[str]) -> Iterator[str]:
    """The lines without control characters, which a terminal would obey."""
    for line in lines:
        yield "".join(c if c.isprintable() else "?" for c in line).rstrip()
