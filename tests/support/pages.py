"""The project's pages, README.md and docs/, as tests read them: their blocks of code, links and anchors.

A comment on the line above a block says what a test does with it: ``<!-- run -->`` or ``<!-- run: exit 1 -->`` runs a
``bash`` block's commands in the page's own folder, ``<!-- output -->`` compares a ``text`` block with what the last of
them printed (``...`` stands for anything). A block whose title is a file's name is written into that folder; one whose
title ends in "(at its end)" is appended to it. Other ``python`` blocks are run. Other ``bash`` blocks are understood
only: they need data, a GPU or minutes. A ``text`` block that is no output has ``<!-- drawing -->``.
"""

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.reference_pages import PAGES as GENERATED
from tests.support.data import REPOSITORY

DOCS = REPOSITORY / "docs"
REFERENCE = DOCS / "reference"

# Within a list a block is indented.
_BLOCK = re.compile(
    r"^(?:<!-- (?P<told>.+?) -->\n)?^(?P<indent> *)```(?P<language>\w*)(?P<more>[^\n]*)\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
_APPENDED = " (at its end)"


@dataclass(frozen=True)
class Block:
    """A block of code. `line` is where it begins, `told` the comment above it, `title` a file's name or empty."""

    page: Path
    line: int
    language: str
    title: str
    told: str
    text: str

    @property
    def file(self) -> str:
        """The file that it is, or is a part of; empty: none."""
        return self.title.removesuffix(_APPENDED)

    @property
    def appended(self) -> bool:
        """Whether it goes at its file's end."""
        return self.title.endswith(_APPENDED)

    @property
    def where(self) -> str:
        """For messages."""
        return f"{self.page.relative_to(REPOSITORY)}:{self.line}"

    @property
    def commands(self) -> list[list[str]]:
        """Of a ``bash`` block, each command's words, without comments."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [words for line in lines if (words := shlex.split(line, comments=True))]

    @property
    def exit_code(self) -> int | None:
        """What its last command exits with; None: it is not run."""
        match = re.fullmatch(r"run(?:: exit (\d+))?", self.told)
        return None if match is None else int(match[1] or 0)


def pages() -> list[Path]:
    """Every page that is written by hand."""
    made = {REFERENCE / name for name in GENERATED}
    return [REPOSITORY / "README.md", *sorted(page for page in DOCS.rglob("*.md") if page not in made)]


def blocks(page: Path) -> Iterator[Block]:
    """A page's blocks, in order."""
    text = page.read_text()
    for match in _BLOCK.finditer(text):
        title = re.search(r'title="([^"]+)"', match["more"])
        line = text.count("\n", 0, match.start("language")) + 1
        told = match["told"] or ""
        yield Block(page, line, match["language"], title[1] if title else "", told, textwrap.dedent(match["text"]))


def prose(page: Path) -> str:
    """A page without its blocks."""
    return _BLOCK.sub("", page.read_text())


def anchors(text: str) -> set[str]:
    """What `#anchor` may be in a page."""
    titles = re.findall(r"^#{1,6} (.+)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def output_pattern(expected: str) -> str:
    """A regular expression of what a ``text`` block shows; runs of blanks are as one."""
    return r"[\s\S]*?".join(map(re.escape, re.split(r"\s*\.\.\.\s*", one_blank(expected).strip())))


def one_blank(text: str) -> str:
    """A text whose runs of blanks, and whose ends of lines, do not count."""
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())
