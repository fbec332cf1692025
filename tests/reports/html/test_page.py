"""A report as one HTML file: its structure, what it says of hostile texts, and that its numbers are the report's."""

import dataclasses
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import Markup

from pytest_vla.errors import VlaError
from pytest_vla.records.record import Record
from pytest_vla.records.store import open_store
from pytest_vla.records.trajectory import Trajectory
from pytest_vla.reports.blocks import table_of
from pytest_vla.reports.html.gates import anchor_of
from pytest_vla.reports.html.page import Page, episodes_table
from pytest_vla.reports.html.parts import PageBlock, PageSection, block_of, page_html, script_json
from pytest_vla.reports.html.svg import interval_bar, shade
from tests.support.examples import scaled
from tests.support.page import Parsed, many, page
from tests.support.records import record_of
from tests.support.reports import RESULTS, models_of, report, write
from tests.support.safety import model_that_touches
from tests.support.varied import varied

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!-- <script>",
    "\"'><img src=x onerror=alert(1)>",
    "line\u2028separator\u2029 and \x00 nothing",
    "\u202eturned",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;&amp;",
)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))


def checked(text: str) -> Parsed:
    """Return the parsed page, whose structure must be valid."""
    found = Parsed(text)
    assert found.faults == []
    assert len(found.ids) == len(set(found.ids)), "each anchor is there once"
    links = {about["href"] for tag, about in found.elements if tag == "a" and about["href"].startswith("#")}
    assert {link[1:] for link in links if not link.startswith("#episode-")} <= set(found.ids)
    for name in ("aria-labelledby", "for"):
        assert {about[name] for _, about in found.elements if name in about} <= set(found.ids)
    assert {tag for tag, _ in found.elements} >= {"header", "main", "nav", "footer", "h1", "h2"}
    assert all(about.get("scope") for tag, about in found.elements if tag == "th")
    tables = sum(tag == "table" for tag, _ in found.elements)
    assert tables == sum(tag == "caption" for tag, _ in found.elements)
    # Nothing is loaded: addresses are inside of the page, or data.
    for tag, about in found.elements:
        for name in ("src", "href", "action", "data", "poster"):
            assert about.get(name, "#").startswith(("#", "data:")), (tag, about)
        assert not [name for name in about if name.startswith("on")]
    assert re.findall(r"@import|url\(", text) == []
    return found


def test_a_page_has_its_sections_and_every_episode(both: Path) -> None:
    found = checked((both / "report.html").read_text())
    assert {"summary", "comparison", "tasks", "section-robustness", "episodes"} <= set(found.ids)
    assert len(found.data["anchors"]) == found.data["count"] == 152
    assert len(set(found.data["anchors"])) == 152
    assert found.column("outcome").count("error") == 2
    assert "division by zero" in found.column("message")
    assert ["policy-raised", "error", "first:policy", "1"] in [row[:4] for row in found.rows]


def test_anchors_stay() -> None:
    """Check that anchors are the same if the run is reported beside others."""
    write([record_of(seed) for seed in range(3)], "a-run")
    write([record_of(seed, policy="other:policy") for seed in range(3)], "b-run")
    alone, beside = page("a-run"), page()
    assert set(alone.data["anchors"]) < set(beside.data["anchors"])
    assert len(alone.data["anchors"][0]) == 12


def test_numbers_are_those_of_the_json_report(both: Path) -> None:
    models = json.loads((both / "report.json").read_text())["models"]
    rows = Parsed((both / "report.html").read_text()).rows
    assert len(models) == 2
    for model in models:
        for each in model["robustness"]["curves"]:
            change = each["difference"]
            written = [
                "{:.1f} [{:.1f}, {:.1f}]".format(each["sr"], *each["interval"]),
                "{:+.1f} [{:+.1f}, {:+.1f}]".format(change["value"], *change["interval"]),
            ]
            assert any(row[0] == each["dimension"] and [row[3], row[4]] == written for row in rows), written
        benign = model["robustness"]["curves"][0]["levels"][0]
        share, interval = f"{benign['sr']:.1f}%", "[{:.1f}%, {:.1f}%]".format(*benign["interval"])
        assert [model["model"], "libero_goal", "benign", "26", share, interval] in [
            [*row[:4], row[5], row[7]] for row in rows if len(row) > 7
        ]


def test_costs_are_those_of_the_json_report(capsys: pytest.CaptureFixture[str]) -> None:
    write(model_that_touches())
    (model,) = models_of(capsys)
    found = page()
    checked(Path("report.html").read_text())
    for each in model["safety"]:
        cost = each["costs"]["paper"]
        text = f"{cost['mean']:.4g}" + (
            "" if cost["interval"] is None else " [{:.4g}, {:.4g}]".format(*cost["interval"])
        )
        assert any(row[1] == each["level"] and row[4] == text for row in found.rows if len(row) > 4), text
    assert len(found.data["costs"]) == sum(any(c.amount for c in r.costs) for r in model_that_touches())


def test_flipped_cases_come_first_with_links_to_both(both: Path) -> None:
    text = (both / "report.html").read_text()
    section = text.partition('id="comparison"')[2].partition("</section>")[0]
    assert "second:policy against first:policy" in section
    assert "Cases that flipped" in section.partition("</table>")[0]
    anchors = set(Parsed(text).data["anchors"])
    linked = re.findall(r"#episode-(\w+)", section)
    assert linked
    assert set(linked) <= anchors


def test_what_cannot_be_compared_is_said() -> None:
    write([record_of(0, policy="one:policy")], "a-run")
    write([varied("camera.distance-L1", True, "another_task", policy="other:policy")], "b-run")
    page()
    assert "These two cannot be compared" in Path("report.html").read_text()


def test_a_run_of_no_episode_is_said() -> None:
    with open_store(RESULTS, create=True) as store:
        store.begin("a-run", ["left[0]"], command="pytest", model="mine:policy")
        store.end("a-run", "stopped")
    page()
    text = Path("report.html").read_text()
    checked(text)
    assert "No episode has ended" in text
    assert "run a-run has 0 of 1 episodes" in text


def test_labels_that_say_of_no_episode_are_refused_and_an_older_page_stands() -> None:
    write([record_of(0, "success", metrics={"hand_path": 1.0})])
    Path("labels.csv").write_text("case,label,by\nlibero_goal/no_such_task[seed0],high,me\n")
    Path("report.html").write_text("before")
    with pytest.raises(VlaError, match="has no column digest"):
        page("--labels=labels.csv")
    assert Path("report.html").read_text() == "before"


def test_series_of_other_lengths_are_no_drawing() -> None:
    """Whoever wrote the file; the episode and its number stay."""
    rows = np.zeros((11, 3))
    episodes = [
        (
            varied("", seed % 2 == 0, seed=seed, metrics={"token_entropy": 0.5}),
            Trajectory(rows, rows, rows, rows[1:, :1]),
        )
        for seed in range(8)
    ]
    write(episodes)
    for file in RESULTS.rglob("*.npz"):
        with zipfile.ZipFile(file, "a") as archive, archive.open("token_entropy.npy", "w") as member:
            np.lib.format.write_array(member, np.ones(3))
    found = page("--pictures=0")
    text = Path("report.html").read_text()
    checked(text)
    assert found.data["count"] == 8
    assert "values by outcome" not in text
    assert [each["label"] for each in found.data["columns"] if each["name"].startswith("metric-")] == ["token_entropy"]


def test_hostile_texts_stay_texts() -> None:
    write([record_of(seed, instruction=text, policy=f"x:{text}") for seed, text in enumerate(HOSTILE)])
    found = page()
    assert found.column("instruction") == list(HOSTILE)
    text = Path("report.html").read_text()
    scripts = [tag for tag, _ in checked(text).elements if tag == "script"]
    assert len(scripts) == 2
    assert [tag for tag, _ in found.elements if tag == "img"] == []
    assert "49" not in found.scripts["ours"]


def test_drawings_have_no_marks_that_turn_their_texts() -> None:
    drawing = Markup("<svg><title>{}</title></svg>").format("<a>\u202egnp\x1b")
    section = PageSection("a", "a", (block_of("a", drawings=(drawing,)),))
    made = Page("a", {"a": PageBlock()}, (section,), script_json(episodes_table([], lambda record: "", {})), 1, ())
    text = page_html(made).decode()
    assert "<title>&lt;a&gt;?gnp?</title>" in text


TEXTS = st.text(max_size=40) | st.sampled_from(HOSTILE) | st.text("<>/!-'\"&script\u2028\u2029\ud800", max_size=40)


@settings(max_examples=scaled(40))
@given(TEXTS, TEXTS)
def test_no_text_becomes_markup(one: str, other: str) -> None:
    record = dataclasses.replace(record_of(0), instruction=one, message=other, policy=other)
    table = table_of(one, (other, "n"), ((one, other),))
    section = PageSection("a", one, (block_of(other, (one,), tables=(table,), notes=(other,)),))
    episodes = episodes_table([record], lambda record: f"pytest {record.node} {one}", {})
    made = Page(other, {one: PageBlock()}, (section,), script_json(episodes), 1, (one, other))
    found = checked(page_html(made).decode())
    assert [tag for tag, _ in found.elements if tag == "script"] == ["script"] * 2
    assert not one or found.column("instruction") == [one]
    (before, after), (place, node) = found.data["recipes"][0], found.data["commands"][0]
    assert (before + node + after, place) == (f"pytest {record.node} {one}", 0)


@given(st.recursive(st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS, st.lists))
def test_json_in_a_script_is_what_it_was(value: Any) -> None:
    text = script_json(value)
    assert json.loads(text) == value
    assert not set(text) & set("<>&'\u2028\u2029")


def test_json_refuses_what_it_has_not() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        script_json([float("nan")])


def test_numbers_that_are_none_do_not_break_a_page() -> None:
    record = record_of(0, metrics={"odd": float("inf"), "fine": 1.5}, timings={"wall": None})
    found = episodes_table([record], lambda record: "", {})
    columns = {each["label"]: each["rows"] for each in found["columns"]}
    assert (columns["odd"], columns["fine"]) == ([None], [1.5])
    script_json(found)


def test_ten_thousand_episodes_are_less_than_five_megabytes() -> None:
    records = many(10_000)

    def command_of(record: Record) -> str:
        return f"cd /home/somebody/project && pytest '{record.node}' --vla-model=mine:policy --vla-video=all"

    data = script_json(episodes_table(records, command_of, {}))
    assert len(data) < 3_000_000
    assert len({anchor_of(record) for record in records}) == 10_000


def test_a_file_is_written_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    write([record_of(0)])
    Path("report.html").write_text("before")

    def raises(*_: object) -> bytes:
        raise VlaError("no page")

    monkeypatch.setattr("pytest_vla.reports.html.parts.page_html", raises)
    with pytest.raises(VlaError, match="no page"):
        report("-o", "report.html")
    assert Path("report.html").read_text() == "before"
    with pytest.raises(VlaError, match="there is no folder nowhere"):
        report("--format=html", "-o", "nowhere/report.html")


def test_a_page_goes_to_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write([record_of(0)])
    report("--format=html")
    assert capfdbinary.readouterr().out.startswith(b"<!DOCTYPE html>")


def test_drawings_are_markup_of_ours() -> None:
    assert interval_bar(None, None) == Markup()
    assert "<rect" in interval_bar(0.5, (0.25, 0.75))
    assert interval_bar(0.5, (0.25, 0.75)).count("<line") == 3
    assert "color:#fff" in shade(1)
    assert "color:#111" in shade(0)
