"""``runs.json``: what is written is read again, later versions' fields stay, and damage is refused and never read."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.reports.site.entries import Entry, EntryVerdict, check_listed, read_listing, text_of, write_listing
from pytest_vla.reports.site.page import index_html
from tests.support.examples import scaled
from tests.support.sites import entry_of, part_of, rate_of, result_of

VERDICT = EntryVerdict("no worse", True, "gate: no worse (margin 5 points): passed, no-regression is required")
ENTRIES = (
    entry_of(1, result_of(rate=rate_of(3, 7, {"timeout": 2})), part_of(3, group="varied")),
    entry_of(2, verdict=VERDICT, status="stopped", done=3, ended="2026-01-02T05:00:00+00:00", picked="--lf"),
    entry_of(3, result_of(0, 0, policies=(), of_tasks=None), planned=0, done=0),
)


def read(text: str, folder: Path) -> dict[str, Entry]:
    file = folder / "runs.json"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    return read_listing(file)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "runs.json"
    assert read_listing(file) == {}
    write_listing(file, ENTRIES)
    assert [*read_listing(file).values()] == [*reversed(ENTRIES)]
    # A line a run, so that two branches' additions can be merged, and a run can be taken off.
    assert len(file.read_text().splitlines()) == 4 + len(ENTRIES) + 2
    assert text_of(read_listing(file).values()) == file.read_text() == text_of(reversed(ENTRIES))
    assert read(text_of([]), tmp_path) == {}


def test_fields_of_a_later_version_stay(tmp_path: Path) -> None:
    table = json.loads(text_of(ENTRIES[:1]))
    table["runs"][0]["cost"] = {"energy": 1.5}
    table["runs"][0]["results"][0]["pride"] = [1, 2]
    (found,) = read(json.dumps(table), tmp_path).values()
    assert (found.unknown, found.results[0].unknown) == ({"cost": {"energy": 1.5}}, {"pride": [1, 2]})
    assert json.loads(text_of([found]))["runs"] == table["runs"]
    assert replace(found, unknown={}, results=ENTRIES[0].results) == ENTRIES[0]


DAMAGES: list[tuple[tuple[str | int, ...], Any, str]] = [
    (("schema",), 0, "expected schema 1 and a list of runs, found schema 0"),
    (("schema",), True, "found schema True"),
    (("schema",), 2, "found 2, of pytest-vla 9.9: upgrade pytest-vla"),
    (("runs",), {}, "expected schema 1 and a list of runs"),
    (("runs", 0), [], "run 1 of the list: expected a table, found list"),
    (("runs", 1, "name"), "run-03", "run run-03 is there twice"),
    (("runs", 0, "name"), "../index", "run ../index: name: expected the name of a run, found '../index'"),
    (("runs", 0, "started"), "yesterday", "run run-03: started: expected a time, ISO 8601, found 'yesterday'"),
    (("runs", 0, "started"), "0001-01-01T00:00:00+09:00", "started: expected a time"),
    (("runs", 0, "done"), -1, "done: expected an integer from 0, found -1"),
    (("runs", 1, "verdict"), {"word": "no worse"}, "verdict: fields missing: passed, line"),
    (("runs", 1, "verdict", "passed"), 1, "verdict: passed: expected true or false, found 1"),
    (("runs", 2, "results", 0, "group"), "both", "run-01: results, 1: group: expected benign or varied, found 'both'"),
    (("runs", 2, "results", 1, "group"), "benign", "results: expected one of each model, suite and group, found two"),
    (("runs", 2, "results", 0, "of_tasks"), 9, "of_tasks: expected tasks, 10, or more, found 9"),
    (("runs", 2, "results", 0, "rate", "interval"), [0.9, 0.1], "rate: interval: expected two shares, the lower first"),
    (("runs", 2, "results", 0, "rate", "interval"), [0, 2], "rate: interval: expected two shares, the lower first"),
    (("runs", 2, "results", 0, "rate", "successes"), 8, "successes: expected up to counted, 7, found 8"),
    (("runs", 2, "results", 0, "rate", "errors"), {"timeout": 3}, "episodes: expected 10, as there are, found 9"),
    (("runs", 2, "results", 0, "conditions"), {"replan": 4}, "conditions: expected a table of texts"),
    (("runs", 2, "cost"), float("1e400"), "Infinity is no number"),
]


@pytest.mark.parametrize(("place", "value", "told"), DAMAGES)
def test_damage_is_refused(place: tuple[str | int, ...], value: Any, told: str, tmp_path: Path) -> None:
    with pytest.raises(VlaError) as caught:
        read(json.dumps(changed(place, value)), tmp_path)
    said = str(caught.value)
    assert said.startswith(f"{tmp_path / 'runs.json'}: not the runs of a site: ")
    assert told in said
    assert "take the file of the job before" in said


def changed(place: tuple[str | int, ...], value: Any) -> Any:
    table = json.loads(text_of(ENTRIES)) | {"made_by": "pytest-vla 9.9"}
    found: Any = table
    for name in place[:-1]:
        found = found[name]
    found[place[-1]] = value
    return table


def test_what_is_said_twice_is_refused(tmp_path: Path) -> None:
    """Check a run listed twice, as a merge leaves it."""
    with pytest.raises(VlaError, match="'picked' is said twice"):
        read(text_of(ENTRIES).replace('"picked":null', '"picked":null,"picked":"--lf"', 1), tmp_path)


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "runs.json"
    file.write_bytes(b'{"schema": \xff')
    with pytest.raises(VlaError, match=r"it is no text \(byte 11\)"):
        read_listing(file)
    file.unlink()
    file.mkdir()
    with pytest.raises(VlaError, match=r"cannot read .*runs\.json: Is a directory"):
        read_listing(file)


def places(value: Any, place: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the places of all values in a table."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place] * bool(place) + [each for name, below in inner for each in places(below, (*place, name))]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 30) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=3,
)


@settings(max_examples=scaled(80))
@given(data=st.data())
def test_what_is_read_can_be_shown(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever stands in a place: it is refused, or an index can be made of it, and nothing of it is lost."""
    place = data.draw(st.sampled_from(places(json.loads(text_of(ENTRIES)))))
    table = changed(place, data.draw(VALUES))
    folder = tmp_path_factory.getbasetemp()
    try:
        found = read(json.dumps(table), folder)
    except VlaError:
        return
    assert b"</html>" in index_html("A title", [*found.values()], {*found})
    again = read(text_of(found.values()), folder)
    assert again == found


@settings(max_examples=scaled(40))
@given(data=st.data())
def test_a_file_that_is_cut_off_is_refused(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    text = text_of(ENTRIES).rstrip()
    end = data.draw(st.integers(0, len(text) - 1))
    with pytest.raises(VlaError, match="not the runs of a site"):
        read(text[:end], tmp_path_factory.getbasetemp())


def test_what_could_not_be_read_again_is_not_written() -> None:
    for entry in ENTRIES:
        check_listed(entry)
    with pytest.raises(VlaError, match="name: expected the name of a run"):
        check_listed(replace(ENTRIES[0], name="of/another"))
