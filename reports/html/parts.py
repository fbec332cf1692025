"""What a page is made of: tables, facts, drawings and texts, by section. Values; the templates say how they look."""

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

Cell = str | Markup
"""A text, which is escaped, or markup of ours."""


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        caption: what it says, and over what its intervals are.
        head: of each column.
        rows: as many cells each.
        names: so many columns, from the left, are names; numbers are to the right.
        left: further columns whose text begins at the left.
        depths: of each row, how deep it stands below others; empty: none does.
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    names: int = 1
    left: frozenset[int] = frozenset()
    depths: tuple[int, ...] = ()


@dataclass(frozen=True)
class Block:
    """A part of a section: texts, then drawings, then tables.

    Attributes:
        title: over it; empty: none.
        texts: paragraphs.
        drawings: SVG or HTML of ours, each with a text for those who do not see it.
        tables: in their order.
        notes: what is not in the numbers, and why.
        is_open: whether it is shown at once; else behind its title.
        is_wide: of the first screen, whether it takes a whole row.
    """

    title: str = ""
    texts: tuple[str, ...] = ()
    drawings: tuple[Markup, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    is_open: bool = True
    is_wide: bool = False


@dataclass(frozen=True)
class PageSection:
    """A section of a page.

    Attributes:
        anchor: fixed: links to it stay.
        title: over it.
        blocks: in their order.
        lines: the same as a terminal shows it; empty: a terminal has no such part.
    """

    anchor: str
    title: str
    blocks: tuple[Block, ...]
    lines: str = ""


@dataclass(frozen=True)
class Page:
    """A whole page.

    Attributes:
        title: of the document.
        summary: what the first screen has, by what it answers.
        sections: below it.
        episodes: JSON for the table of episodes, fit to stand in a script element.
        number: of episodes.
        texts: of the notes at the end.
        made_by: the version that made it, and of what.
        index: address of the page of all runs, as seen from this one; empty: there is none.
    """

    title: str
    summary: Mapping[str, Block]
    sections: tuple[PageSection, ...]
    episodes: Markup
    number: int
    texts: tuple[str, ...] = ()
    made_by: str = ""
    index: str = ""
