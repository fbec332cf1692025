"""``pytest-vla site``: a folder that grows from job to job, and never loses what it had."""

import dataclasses
import json
import re
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.cli import main
from pytest_vla.errors import VlaError
from pytest_vla.records.store import open_store
from pytest_vla.reports.html.gates import GateTold
from pytest_vla.reports.loaded import Loaded
from pytest_vla.reports.site.entries import read_listing
from pytest_vla.reports.site.page import Site, build_site
from tests.support.page import Parsed, two_models
from tests.support.records import record_of
from tests.support.reports import RESULTS, report, write

PUBLIC = Path("public")
INDEX, LISTING = PUBLIC / "index.html", PUBLIC / "runs.json"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror='alert(1)'>\"' {{ 7 * 7 }}"


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))


def site(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    assert main(["site", *arguments]) == code
    out, err = capsys.readouterr()
    return str(out), str(err)


def a_run(name: str, outcomes: Sequence[str] = ("success", "failure"), **changes: Any) -> None:
    policy = {"policy": "my:policy", "started": f"{name[:4]}-{name[4:6]}-{name[6:8]}T00:00:00.000+00:00"}
    write([record_of(seed, outcome, **policy | changes) for seed, outcome in enumerate(outcomes)], name)


def lost() -> None:
    """Of a job that ended its records go; the site stays."""
    shutil.rmtree(RESULTS)


def page_of(name: str) -> Path:
    return PUBLIC / "runs" / f"{name}.html"


def index() -> Parsed:
    """Whose structure is as it has to be."""
    text = INDEX.read_text()
    found = Parsed(text)
    assert found.faults == []
    assert len(found.ids) == len(set(found.ids))
    tags = {tag for tag, _ in found.elements}
    assert "script" not in tags
    assert {"header", "main", "nav", "footer", "h1", "h2"} <= tags
    for tag, about in found.elements:
        if tag == "a":
            target = about["href"]
            assert target[1:] in found.ids if target.startswith("#") else (PUBLIC / target).is_file(), target
        assert about.get("src", "data:").startswith("data:")
        assert not [name for name in about if name.startswith("on")]
    assert "default-src 'none'" in text
    assert re.findall(r"@import|url\(", text) == []
    return found


def test_numbers_are_those_of_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    two_models()
    out, err = site(capsys)
    assert (out, err) == ("public/index.html: 2 runs; pages: 2 made, 0 unchanged\n", "")
    report("-o", "report.json")
    models = {each["model"]: each for each in json.loads(Path("report.json").read_text())["models"]}
    listed = read_listing(LISTING)
    rows = [row for row in index().rows if len(row) == 9]
    assert len(listed) == len(models) == 2
    for entry in listed.values():
        benign = next(each for each in entry.results if each.group == "benign")
        told = models[benign.model]["robustness"]["curves"][0]["levels"][0]
        assert (benign.rate.counted, 100 * (benign.rate.rate or 0)) == (told["n"], pytest.approx(told["sr"]))
        assert benign.rate.interval is not None
        assert [100 * end for end in benign.rate.interval] == pytest.approx(told["interval"])
        assert benign.rate.errors == {"policy-raised": 1}
        written = [f"{told['sr']:.1f}%", "[{:.1f}%, {:.1f}%]".format(*told["interval"])]
        assert [entry.name, written] in [[row[0], row[5:7]] for row in rows]
        # And those of the run's own page, which leads back.
        page = Parsed(page_of(entry.name).read_text())
        assert [benign.model, "libero_goal", "benign", *written] in [
            [*row[:3], row[5], row[7]] for row in page.rows if len(row) > 8
        ]
        assert ("a", {"href": "../index.html"}) in page.elements


def test_a_site_grows_from_job_to_job(capsys: pytest.CaptureFixture[str]) -> None:
    a_run("20260101-first")
    site(capsys)
    before = page_of("20260101-first").read_bytes()
    lost()
    a_run("20260102-second", policy_digest="ab12cd34")
    out, _ = site(capsys, "--title=Our policies")
    assert out == "public/index.html: 2 runs; pages: 1 made, 0 unchanged, 1 of runs without records\n"
    assert page_of("20260101-first").read_bytes() == before
    text = INDEX.read_text()
    assert text.index("20260102-second") < text.index("20260101-first")
    assert "<h1>Our policies</h1>" in text
    assert {row[0][:14] for row in index().rows} >= {"20260101-first", "20260102-second"[:14]}
    # A third job without any run makes the index again of what is listed.
    lost()
    out, _ = site(capsys)
    assert "2 of runs without records" in out
    assert ".vla has no run: the index is of runs that were listed before" in INDEX.read_text()
    # A page that is gone is no dead link.
    page_of("20260101-first").unlink()
    site(capsys)
    index()
    assert "its page is not here" in INDEX.read_text()


def test_what_has_not_changed_is_not_made_again(capsys: pytest.CaptureFixture[str]) -> None:
    a_run("20260101-first")
    a_run("20260102-second")
    site(capsys)
    for name in ("20260101-first", "20260102-second"):
        page_of(name).write_text("as it was")
    with open_store(RESULTS, create=True) as store:
        store.add(record_of(7, "success", "20260102-second"))
    assert "1 made, 1 unchanged" in site(capsys)[0]
    assert page_of("20260101-first").read_text() == "as it was"
    assert "20260102-second" in page_of("20260102-second").read_text()
    page_of("20260101-first").unlink()
    assert "1 made, 1 unchanged" in site(capsys)[0]
    assert "0 made, 2 unchanged" in site(capsys)[0]
    assert "2 made, 0 unchanged" in site(capsys, "--force")[0]


def test_nothing_of_others_is_touched(capsys: pytest.CaptureFixture[str]) -> None:
    (PUBLIC / "runs").mkdir(parents=True)
    others = [PUBLIC / "CNAME", PUBLIC / "runs" / "20250101-older.html", PUBLIC / "runs" / "notes.txt"]
    for file in others:
        file.write_text("theirs")
    a_run("20260101-first")
    site(capsys)
    assert [file.read_text() for file in others] == ["theirs"] * 3
    assert "20250101-older" not in INDEX.read_text()


def test_a_bad_listing_is_refused_and_nothing_changes(capsys: pytest.CaptureFixture[str]) -> None:
    a_run("20260101-first")
    site(capsys)
    before = INDEX.read_bytes()
    LISTING.write_text(LISTING.read_text()[:-40])
    a_run("20260102-second")
    _, err = site(capsys, code=1)
    assert err.startswith("pytest-vla: public/runs.json: not the runs of a site: ")
    assert "take the file of the job before" in err
    assert INDEX.read_bytes() == before
    assert not page_of("20260102-second").exists()


def test_hostile_texts_stay_texts(capsys: pytest.CaptureFixture[str]) -> None:
    a_run("20260101-first", policy=f"x:{HOSTILE}", task=HOSTILE, suite=f"own{HOSTILE}", policy_digest=HOSTILE)
    a_run("20260102-second", policy=f"x:{HOSTILE}", protocol={"max_steps": HOSTILE}, provenance={"mujoco": HOSTILE})
    site(capsys, f"--title={HOSTILE}")
    found = index()
    assert [tag for tag, _ in found.elements if tag in ("img", "script")] == []
    text = INDEX.read_text()
    assert "&lt;/script&gt;" in text
    # No template of theirs was filled in: 49 alone may be a minute or a place on a chart.
    assert "&#39; {{ 7 * 7 }}" in text
    assert "&#39; 49" not in text


def test_runs_that_cannot_be_compared_are_not_joined(capsys: pytest.CaptureFixture[str]) -> None:
    a_run("20260101-first")
    a_run("20260102-second")
    site(capsys)
    ways = [about for tag, about in index().elements if tag == "polyline"]
    assert [about["class"] for about in ways] == ["way"]
    a_run("20260103-third", protocol={"max_steps": 400, "cameras": ["agentview"], "init_state": None})
    site(capsys)
    elements = index().elements
    (way,) = [about for tag, about in elements if tag == "polyline"]
    assert len(way["points"].split()) == 2
    assert [about["class"] for tag, about in elements if tag == "line" and about["class"] == "gap"] == ["gap"]
    told = "not joined: 20260103-third to 20260102-second: step budget (protocol.max_steps): 300 before, 400 here"
    assert told in INDEX.read_text()
    assert "1 of 10 tasks" in INDEX.read_text()


def test_a_run_of_no_episode_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with open_store(RESULTS, create=True) as store:
        store.begin("20260101-first", ["left[0]"], command="pytest", model="mine:policy")
        store.end("20260101-first", "stopped")
    site(capsys)
    index()
    text = INDEX.read_text()
    assert "No episode has ended: there are no numbers yet." in text
    assert "stopped, 0 of 1 episode" in text
    assert "No episode has ended" in page_of("20260101-first").read_text()


def test_the_newest_runs_are_shown_and_the_others_stay(capsys: pytest.CaptureFixture[str]) -> None:
    for day in range(1, 4):
        a_run(f"2026010{day}-run")
    site(capsys, "--limit=2")
    assert "1 older run not shown (--limit=2)" in INDEX.read_text()
    assert not any(row[0].startswith("20260101-run") for row in index().rows)
    assert [*read_listing(LISTING)] == ["20260103-run", "20260102-run", "20260101-run"]
    assert page_of("20260101-run").is_file()


def test_a_run_that_cannot_be_read_takes_no_other_away(capsys: pytest.CaptureFixture[str]) -> None:
    a_run("20260101-first")
    a_run("20260102-second")
    with open_store(RESULTS, create=True) as store, store._database.transaction() as connection:
        connection.execute("UPDATE records SET line = '{}' WHERE episode = 1")
    out, err = site(capsys, code=1)
    assert out == "public/index.html: 1 run; pages: 1 made, 0 unchanged\n"
    assert err.startswith("pytest-vla: run 20260101-first is left out: ")
    assert [*read_listing(LISTING)] == ["20260102-second"]


def test_runs_of_one_name_are_one_only_where_they_are_equal(capsys: pytest.CaptureFixture[str]) -> None:
    a_run("20260101-first")
    shutil.copytree(RESULTS, "copy")
    out, _ = site(capsys, str(RESULTS), "copy")
    assert "1 run; pages: 1 made" in out
    with open_store(Path("copy"), create=True) as store:
        store.add(record_of(7, "success", "20260101-first"))
    _, err = site(capsys, str(RESULTS), "copy", code=1)
    assert "run 20260101-first is left out: it is another run in " in err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "no runs in .vla yet"),
        (("20260101-none",), "no runs in .vla yet"),
        (("--limit=0",), "'0' is not a number of runs, 1 or more"),
        (("--output=",), "a value is missing"),
        (("--videos=some",), "expected none, failed, all"),
    ],
)
def test_what_cannot_be_done_is_told(arguments: Sequence[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(["site", *arguments])
    except SystemExit as left:
        code = left.code
    assert code in (1, 2)
    assert told in capsys.readouterr().err
    assert not INDEX.exists()


def test_a_file_in_the_folders_place_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    PUBLIC.write_text("a file")
    a_run("20260101-first")
    assert "-o public: public is no folder; name a folder, such as -o public" in site(capsys, code=1)[1]
    assert PUBLIC.read_text() == "a file"
    PUBLIC.unlink()
    PUBLIC.mkdir()
    (PUBLIC / "runs").write_text("a file")
    assert "-o public: public/runs is no folder" in site(capsys, code=1)[1]
    assert (PUBLIC / "runs").read_text() == "a file"


def plain_page(loaded: Loaded, run: str, results: Path, gates: Sequence[GateTold]) -> tuple[bytes, list[str]]:
    return b"a page", []


def test_what_an_interrupted_one_made_is_not_made_again() -> None:
    for day in range(1, 4):
        a_run(f"2026010{day}-run")

    def until(loaded: Loaded, run: str, results: Path, gates: Sequence[GateTold]) -> tuple[bytes, list[str]]:
        if run == "20260102-run":
            raise KeyboardInterrupt
        return b"a page", []

    with pytest.raises(KeyboardInterrupt):
        build_site(Site(PUBLIC, (), RESULTS), until, lambda text: None)
    assert [*read_listing(LISTING)] == ["20260101-run"]
    assert not INDEX.exists()
    assert not [file for file in PUBLIC.rglob("*") if file.name.endswith(".tmp")]
    built = build_site(Site(PUBLIC, (), RESULTS), plain_page, lambda text: None)
    assert (built.made, built.unchanged) == (("20260102-run", "20260103-run"), ("20260101-run",))


def test_one_at_a_time_writes() -> None:
    """The second one waits, and so has what the first one listed."""
    a_run("20260101-first")
    shutil.copytree(RESULTS, "before")
    lost()
    a_run("20260102-second")
    waiting, errors = threading.Event(), []

    def second() -> None:
        try:
            build_site(Site(PUBLIC, (), Path(".vla")), plain_page, lambda text: waiting.set())
        except VlaError as error:
            errors.append(error)

    thread = threading.Thread(target=second)

    def slow(loaded: Loaded, run: str, results: Path, gates: Sequence[GateTold]) -> tuple[bytes, list[str]]:
        thread.start()
        assert waiting.wait(30)
        return b"a page", []

    build_site(Site(PUBLIC, (), Path("before")), slow, lambda text: None)
    thread.join(30)
    assert errors == []
    assert {*read_listing(LISTING)} == {"20260101-first", "20260102-second"}
    assert "20260101-first" in INDEX.read_text()


def test_pages_of_another_version_are_made_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    a_run("20260101-first")
    site(capsys)
    monkeypatch.setattr("pytest_vla.reports.site.entries.PAGES", 99)
    assert "1 made, 0 unchanged" in site(capsys)[0]
    assert "0 made, 1 unchanged" in site(capsys)[0]


def test_a_run_of_several_suites_has_a_column_each(capsys: pytest.CaptureFixture[str]) -> None:
    first = record_of(0, "success")
    own = dataclasses.replace(first, node="test_mine.py::test_bowl[turn_on_the_stove-seed0]", digest="01")
    write([first, own], "20260101-first")
    site(capsys)
    head = next(row for row in index().rows if row[0] == "model, content")
    assert head == ["model, content", "libero_goal", "test_mine.py::test_bowl"]


def test_many_models_have_several_charts(capsys: pytest.CaptureFixture[str]) -> None:
    """No two lines of a chart have the same sign."""
    for place in range(20):
        a_run(f"202601{place + 1:02d}-run", policy=f"checkpoint{place}")
    site(capsys)
    text = INDEX.read_text()
    index()
    charts = text.split('<figure class="chart-box">')[1:]
    assert len(charts) == 3
    for chart in charts:
        signs = re.findall(r'<svg class="(key m\d)".*?(circle|polygon) class="dot"(?: points="([^"]+)")?', chart)
        assert len(signs) == len(set(signs)) == 6
    assert "2 earlier models in the table only" in text
    assert "checkpoint0<" in text


def test_fields_of_a_later_version_stay_while_nothing_changes(capsys: pytest.CaptureFixture[str]) -> None:
    """Those of a run that is made again would be of other records."""
    a_run("20260101-first")
    a_run("20260102-second")
    site(capsys)
    table = json.loads(LISTING.read_text())
    for run in table["runs"]:
        run["of_tomorrow"] = 1
    LISTING.write_text(json.dumps(table))
    with open_store(RESULTS, create=True) as store:
        store.add(record_of(7, "success", "20260102-second"))
    site(capsys)
    assert {name: entry.unknown for name, entry in read_listing(LISTING).items()} == {
        "20260101-first": {"of_tomorrow": 1},
        "20260102-second": {},
    }


def test_an_index_of_somebody_else_s_stays(capsys: pytest.CaptureFixture[str]) -> None:
    a_run("20260101-000000-aaaa")
    PUBLIC.mkdir()
    INDEX.write_text("<h1>mine</h1>")
    _, err = site(capsys, "-o", "public", code=1)
    assert "is not pytest-vla's, and would be overwritten; name another folder" in err
    assert [INDEX.read_text(), *PUBLIC.iterdir()] == ["<h1>mine</h1>", INDEX]
    INDEX.unlink()
    site(capsys, "-o", "public")
    LISTING.unlink()
    site(capsys, "-o", "public")
