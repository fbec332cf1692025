"""``pytest-vla pride``: the parts of a distance, for people and for programs."""

import argparse
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_vla.commands import pride as pride_command
from pytest_vla.errors import UnloadedError, VlaError
from pytest_vla.language import backends, models
from pytest_vla.language.backends import NAMES, BackendChoice, parser_backend
from pytest_vla.language.published import FILE
from tests.support.libero_para import HEADER, ROWS
from tests.support.parsers import FlatParser


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "libero_para").mkdir()
    (tmp_path / "libero_para" / FILE).write_text("\n".join([HEADER, *ROWS]), encoding="utf-8")
    return tmp_path


def pride(*arguments: str) -> None:
    parser = argparse.ArgumentParser()
    pride_command.declare(parser)
    pride_command.run(parser.parse_args(arguments))


def test_words_alone(capsys: pytest.CaptureFixture[str]) -> None:
    pride("Open the top drawer", "gently open the drawer of it", "--backend", "template", "--alpha", "0.25")
    assert capsys.readouterr().out.splitlines() == [
        "original    Open the top drawer",
        "paraphrase  gently open the drawer of it",
        "backend     template 1 (low fidelity)",
        "",
        "word    best match  cosine",
        "open    open        1.0000",
        "top     -           0.4500",
        "drawer  drawer      1.0000",
        "S_K 0.8167",
        "",
        "original     paraphrase",
        "* the * *    * * the * of it",
        "edit distance 3, nodes 4 + 6",
        "S_T 0.7000",
        "",
        "PD  0.2708 = 1 - (0.25 S_K + 0.75 S_T)",
    ]


def test_trees_side_by_side(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("zss", reason="zss is not installed (make language)")
    monkeypatch.setattr(models, "find_model", lambda: Path("model"))
    monkeypatch.setattr(backends, "is_installed", lambda module: True)
    choice = BackendChoice(parser_backend(FlatParser()), {"published": "it was not given"})
    monkeypatch.setattr(backends, "choose_backend", lambda prefer, csv, pairs, **loading: choice)
    monkeypatch.setattr(models, "_encode", lambda words: pytest.importorskip("numpy").eye(384)[: len(words)])
    pride("open the drawer", "Gently open the stove")
    assert capsys.readouterr().out.splitlines() == [
        "original    open the drawer",
        "paraphrase  Gently open the stove",
        "backend     flat 1, all-MiniLM-L6-v2 53aa5117",
        "            not published: it was not given",
        "",
        "word    best match  cosine",
        "open    open        1.0000",
        "drawer  gently      0.0000",
        "S_K 0.5000",
        "",
        "original's tree        paraphrase's tree",
        "open  ROOT VERB        gently  ROOT ADV",
        "  the  det DET           open  ROOT VERB",
        "  drawer  dobj NOUN      the  det DET",
        "                         stove  dobj NOUN",
        "edit distance 2, nodes 3 + 4",
        "S_T 0.7143",
        "",
        "PD  0.3929 = 1 - (0.5 S_K + 0.5 S_T)",
    ]
    pride("open the drawer", "Gently open the stove", "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["trees"][0][2] == {"text": "drawer", "dep": "dobj", "pos": "NOUN", "head": 0}
    assert (found["edit_distance"], found["matches"][1]["best"]) == (2, "gently")


@pytest.mark.parametrize("loads", [False, True])
def test_what_is_loaded_is_said_only_if_it_is(
    loads: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    @contextlib.contextmanager
    def slow(what: str, stream: object) -> Iterator[None]:
        told.append(what)
        yield

    def chosen(prefer: object, csv: object, pairs: object, loading: bool = True) -> BackendChoice:
        if loads and not loading:
            raise UnloadedError("a parser would have to be loaded")
        return BackendChoice(backends.template_backend(), {})

    monkeypatch.setattr("pytest_vla.util.live_line.told_when_slow", slow)
    monkeypatch.setattr(backends, "choose_backend", chosen)
    pride("open the drawer", "gently open the drawer")
    assert [("parser" in what and "embedding model" in what) for what in told] == [True] * loads


def test_published_values_stand_beside_the_parts_of_another_backend(
    capsys: pytest.CaptureFixture[str], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without the language extra, whatever is installed here.
    monkeypatch.setattr(backends.pipeline, "english_parser", _not_here)
    monkeypatch.setattr(backends, "_small_parser", _not_here)
    pride("open it", "gently open it", "--data", str(data))
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("backend     published libero-para csv ")
    assert lines[3:8] == [
        "",
        "S_K 1.0000 by published",
        "S_T 0.7500 by published",
        "PD  0.1250 = 1 - (0.5 S_K + 0.5 S_T) by published",
        "",
    ]
    assert lines[8:] == [
        "parts by    template 1 (low fidelity)",
        "            not en_core_web_sm: not here",
        "            not pytest-vla-small: not here",
        "",
        "word  best match  cosine",
        "open  open        1.0000",
        "S_K 1.0000 by template",
        "",
        "original    paraphrase",
        "* it        * * it",
        "edit distance 1, nodes 2 + 3",
        "S_T 0.8000 by template",
        "",
        "PD  0.1000 = 1 - (0.5 S_K + 0.5 S_T) by template",
    ]
    pride("open it", "gently open it", "--data", str(data), "--json")
    found = json.loads(capsys.readouterr().out)
    assert (found["backend"]["name"], found["backend"]["low_fidelity"]) == ("published", False)
    assert (found["s_k"], found["s_t"], found["alpha"]) == (1.0000001192092896, 0.75, 0.5)
    assert found["pd"] == pytest.approx(0.125, abs=1e-6)
    assert (found["matches"], found["trees"], found["edit_distance"], found["passed_over"]) == (None, None, None, {})
    parts = found["parts"]
    assert (parts["backend"]["name"], parts["backend"]["low_fidelity"]) == ("template", True)
    assert (parts["s_t"], parts["edit_distance"]) == (0.8, 1)
    assert parts["matches"] == [{"word": "open", "best": "open", "cosine": 1.0}]


def test_a_backend_by_name_is_the_only_one(capsys: pytest.CaptureFixture[str], data: Path) -> None:
    pride("open it", "gently open it", "--data", str(data), "--backend=published")
    said = capsys.readouterr().out
    assert "Only the values are published. Without --backend=published the parts are shown too" in said
    assert "edit distance" not in said
    pride("open it", "gently open it", "--data", str(data), "--backend=template", "--json")
    found = json.loads(capsys.readouterr().out)
    assert (found["backend"]["name"], found["parts"]) == ("template", None)


def _not_here() -> None:
    raise VlaError("not here")


def test_the_environment_says_where_data_is(
    capsys: pytest.CaptureFixture[str], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_VLA_DATA", str(data))
    pride("open it", "gently open it")
    assert "backend     published libero-para csv" in capsys.readouterr().out


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VlaError, match="PARAPHRASE is empty"):
        pride("open it", " ")
    with pytest.raises(VlaError, match=f"has no {FILE}"):
        pride("open it", "shut it", "--data", str(tmp_path))
    with pytest.raises(VlaError, match="no backend 'spacy'"):
        pride("open it", "shut it", "--backend", "spacy")
    with pytest.raises(SystemExit):
        pride("open it", "shut it", "--alpha", "1.5")
    with pytest.raises(SystemExit):
        pride("open it", "shut it", "--alpha", "nan")


def test_help_names_every_backend() -> None:
    parser = argparse.ArgumentParser()
    pride_command.declare(parser)
    assert all(name in str(parser.epilog) for name in NAMES)


def test_a_terminal_gets_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    pride("open \x1b[2J it", "shut it", "--backend", "template")
    assert "\x1b" not in capsys.readouterr().out
