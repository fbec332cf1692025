"""Pages of made records, and what a parser finds in them."""

import dataclasses
import json
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from pytest_vla.records.record import Record
from pytest_vla.reports.loaded import load
from pytest_vla.run.html_report import write_html
from tests.support.records import record_of
from tests.support.reports import RESULTS, report, write
from tests.support.varied import varied

VOID = {"meta", "link", "input", "br", "img", "hr"}


class Parsed(HTMLParser):
    """A document's elements, taken apart: what is open, what has an id, the texts of rows and scripts.

    Args:
        text: the document's.
    """

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.faults: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.scripts: dict[str, str] = {}
        self.rows: list[list[str]] = []
        self._script = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.elements.append((tag, found))
        if tag == "script":
            self._script = found.get("id", "ours")
            self.scripts[self._script] = ""
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")
        if tag not in VOID and self.open[-1:] != ["svg"]:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            while self.open.pop() != tag:
                self.faults.append(f"something in {tag} is not closed")
        elif tag not in ("text", "title", "circle", "polygon", "g"):
            self.faults.append(f"{tag} is closed and was not open")

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.scripts[self._script] += data
        elif self.rows and self.rows[-1] and ({"td", "th"} & set(self.open)):
            self.rows[-1][-1] += data

    @property
    def ids(self) -> list[str]:
        """All ids, in their order."""
        return [found["id"] for _, found in self.elements if "id" in found]

    @property
    def data(self) -> dict[str, Any]:
        """Of the episodes."""
        found: dict[str, Any] = json.loads(self.scripts["episode-data"])
        return found

    def column(self, name: str) -> list[Any]:
        """The episodes' values of a column."""
        (found,) = (each for each in self.data["columns"] if each["name"] == name)
        return [found["values"][place] for place in found["rows"]] if "values" in found else found["rows"]


def page(*arguments: str | Path) -> Parsed:
    """Of the current folder's runs, as the command writes it."""
    report("-o", "report.html", *arguments)
    return Parsed(Path("report.html").read_text(encoding="utf-8"))


def two_models(seeds: int = 25) -> None:
    """A run of each of two models: benign episodes, and cameras of two levels."""
    for run, model, lost in (("20260101-000000-aaaa", "first:policy", 8), ("20260102-000000-bbbb", "second:policy", 3)):
        records = [
            varied(label, seed >= lost * (level + (label != "")), "a_task", seed, policy=model)
            for level, label in enumerate(("", "camera.distance-L1", "camera.distance-L2"))
            for seed in range(seeds)
        ]
        write([*records, broken(model)], run)


def broken(model: str) -> Record:
    """An episode in which the policy raised."""
    return record_of(99, "error", policy=model, message="division by zero")


def many(number: int) -> Sequence[Record]:
    """So many episodes of ten tasks, as a sweep leaves them."""
    return [
        varied(
            ("", *(f"camera.distance-L{level}" for level in range(1, 5)))[place % 5],
            place % 3 > 0,
            f"task_{place % 50 // 5}",
            place // 50,
            steps=50 + place * 7919 % 250,
            instruction=f"put the {place % 97}th thing on the plate",
        )
        for place in range(number)
    ]


def page_of(records: Sequence[Record]) -> None:
    """``report.html`` of records that need not stand in a store, without parts of the report: both take their time."""
    write(records[:1])
    loaded = dataclasses.replace(load([], RESULTS), records=tuple(records))
    write_html(loaded, [], [], RESULTS, Path("report.html"))
