"""The parts of a page as values, and the page that Jinja2 renders of them: escaped, and whole."""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from pytest_vla.metrics.language_grounding import GroundingEstimate
from pytest_vla.reports.blocks import (
    P_VALUE,
    Block,
    Column,
    Heading,
    PageDrawing,
    Sentence,
    Table,
    cell_text,
    estimate_text,
    for_medium,
)
from pytest_vla.reports.blocks import notes as note_sentences
from pytest_vla.util.text import visible_lines


def percent_text(value: float | None, interval: tuple[float, float] | None = None) -> str:
    """Return ``63.6 [35.4, 84.8]`` for percentages, or a dash."""
    return estimate_text(None if value is None else GroundingEstimate(value, interval), ".1f")


def p_text(p: float | None) -> str:
    """Return a probability under what is tested, or a dash."""
    return cell_text(p, Column("", P_VALUE))


@dataclass(frozen=True)
class Drawings:
    """Drawings side by side.

    Attributes:
        drawn: SVG or HTML of ours, each with a text for readers who do not see it.
    """

    drawn: tuple[Markup, ...]


@dataclass(frozen=True)
class Lines:
    """Text that is shown line by line.

    Attributes:
        lines: joined by line breaks.
    """

    lines: str


@dataclass(frozen=True)
class PageBlock:
    """A part of a section with a title.

    Attributes:
        title: over it; empty for none.
        content: what is shown, in its order.
        is_open: whether it is shown at once; else behind its title.
        is_wide: on the first screen, whether it takes a whole row.
    """

    title: str = ""
    content: tuple[Sentence | Table | Drawings | Lines, ...] = ()
    is_open: bool = True
    is_wide: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the paragraphs among the content."""
        return tuple(each.text for each in self.content if isinstance(each, Sentence) and not each.is_note)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the notes among the content."""
        return tuple(each.text for each in self.content if isinstance(each, Sentence) and each.is_note)

    @property
    def drawings(self) -> tuple[Markup, ...]:
        """Return the drawings among the content."""
        return tuple(drawn for each in self.content if isinstance(each, Drawings) for drawn in each.drawn)

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return the tables among the content."""
        return tuple(each for each in self.content if isinstance(each, Table))


def block_of(
    title: str = "",
    texts: Iterable[str] = (),
    drawings: Sequence[Markup] = (),
    tables: Iterable[Table] = (),
    notes: Iterable[str] = (),
    is_open: bool = True,
    is_wide: bool = False,
) -> PageBlock:
    """Return a block of texts, then drawings, then tables, then notes.

    Args:
        title: over it; empty for none.
        texts: paragraphs.
        drawings: side by side.
        tables: in their order.
        notes: what is missing from the numbers, and why.
        is_open: as `PageBlock.is_open`.
        is_wide: as `PageBlock.is_wide`.
    """
    drawn = (Drawings(tuple(drawings)),) if drawings else ()
    return PageBlock(title, (*map(Sentence, texts), *drawn, *tables, *note_sentences(notes)), is_open, is_wide)


def page_blocks(blocks: Iterable[Block | str]) -> tuple[PageBlock, ...]:
    """Return blocks of a report as blocks of a page: each heading begins one; a text among them is a line."""
    found = [PageBlock()]
    for block in blocks:
        last = found[-1]
        if isinstance(block, str):
            before = last.content[-1:]
            if before and isinstance(before[0], Lines):
                lines = Lines(f"{before[0].lines}\n{block}")
                found[-1] = replace(last, content=(*last.content[:-1], lines))
            else:
                found[-1] = replace(last, content=(*last.content, Lines(block)))
            continue
        for each in for_medium([block], "page"):
            if isinstance(each, Heading):
                found.append(PageBlock(each.text, (), each.is_open))
            elif isinstance(each, PageDrawing):
                before = last.content[-1:]
                if before and isinstance(before[0], Drawings):
                    found[-1] = replace(last, content=(*last.content[:-1], Drawings((*before[0].drawn, each.draw()))))
                else:
                    found[-1] = replace(last, content=(*last.content, Drawings((each.draw(),))))
            else:
                found[-1] = replace(last, content=(*last.content, *_shortened(each)))
    return tuple(each for each in found if each.title or each.content)


def _shortened(block: Sentence | Table) -> tuple[Sentence | Table, ...]:
    """Return a block, and after a table that is too long a note on the rows that are not shown."""
    if isinstance(block, Sentence) or not block.most or len(block.rows) <= block.most:
        return (block,)
    more = f"{len(block.rows) - block.most} more rows: --format=csv has all"
    return replace(block, rows=block.rows[: block.most]), Sentence(more, is_note=True)


@dataclass(frozen=True)
class PageSection:
    """A section of a page.

    Attributes:
        anchor: fixed: links to it stay.
        title: over it.
        blocks: in their order.
    """

    anchor: str
    title: str
    blocks: tuple[PageBlock, ...]


@dataclass(frozen=True)
class Page:
    """A whole page.

    Attributes:
        title: of the document.
        summary: the blocks of the first screen, by heading.
        sections: below it.
        episodes: JSON for the table of episodes, safe inside a script element.
        number: of episodes.
        texts: of the notes at the end.
        made_by: the version that made it, and of what.
        index: address of the page of all runs, relative to this one, or empty if there is none.
    """

    title: str
    summary: Mapping[str, PageBlock]
    sections: tuple[PageSection, ...]
    episodes: Markup
    number: int
    texts: tuple[str, ...] = ()
    made_by: str = ""
    index: str = ""


_FOLDER = "pytest_vla.reports.html"
_UNSAFE = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&'\u2028\u2029"}


def page_html(page: Page) -> bytes:
    """Return the whole document, UTF-8; signs that UTF-8 does not have become ``?``."""
    script = _read("page.js")
    return rendered(
        "page.html.j2",
        ("style.css",),
        page=page,
        script=Markup(script),
        # Only this script runs, whatever else stands in the page.
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def page_style() -> str:
    """Return the style sheet of pages."""
    return _read("style.css")


def rendered(template: str, styles: Sequence[str], **values: Any) -> bytes:
    """Return a document of one of our templates, UTF-8.

    Args:
        template: its name.
        styles: names of the style sheets that it has inside, as `style`.
        values: what else it is given.
    """
    style = Markup("").join(Markup(_read(name)) for name in styles)
    return _environment().get_template(template).render(style=style, **values).encode("utf-8", "replace")


def script_json(value: Any) -> Markup:
    """Return JSON that can stand in a script element: no text in it ends the element, opens a comment or breaks a line.

    Raises:
        ValueError: it holds NaN or infinity, which JSON has not.
    """
    return Markup(json.dumps(value, allow_nan=False, separators=(",", ":")).translate(_UNSAFE))


@cache
def _environment() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    found.globals["cell_text"] = cell_text
    return found


def _shown(value: Any) -> Any:
    """Return a value without control characters and marks that turn the reading direction."""
    if isinstance(value, Markup):
        # Titles and texts of drawings among it.
        return value if value.isprintable() else Markup(visible_lines(value))
    return visible_lines(value) if type(value) is str else value


def _read(name: str) -> str:
    return (files(_FOLDER) / "templates" / name).read_text(encoding="utf-8")
