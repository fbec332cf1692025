"""A search's file: all that came of jobs comes back as it was, whatever was torn off; what is no search is refused."""

from pathlib import Path

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.fuzz.amounts import Component
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.found import Found
from pytest_vla.fuzz.journal import Journal, Line, read_head, read_lines
from pytest_vla.fuzz.sampler import Proposal, TriedProposal
from pytest_vla.fuzz.shrink import Boundary, Shrunk
from pytest_vla.fuzz.task_search import Job
from pytest_vla.fuzz.trial import Trial
from pytest_vla.plan.manifests import load_suite
from pytest_vla.vary.chosen import change_of

TASK = load_suite("tabletop").task("put_the_bowl_on_the_stove")
TASKS = {TASK.id: TASK}
AZIMUTH = change_of("camera.azimuth", {"azimuth_deg": 60.0})
JOINTS = change_of("robot.joints", {"offset": [0.4, -0.3, 0.2, 0.1, -0.4, 0.3, 0.2]})
SCENE = Proposal(3, "neighbour", Candidate(TASK, 1, (AZIMUTH, JOINTS)))
TWIN = Proposal(0, "even", Candidate(TASK, 1))
SMALLEST = SCENE.candidate.having((change_of("robot.joints", {"offset": [0.3, 0, 0, 0, 0, 0, 0]}),))
SIDES = (
    Boundary("robot.joints", None, SMALLEST.changes[0].params),
    Boundary("robot.joints", {"offset": [0.1] * 7}, SMALLEST.changes[0].params, Component("offset", (0,))),
)
LINES = (
    Line(TASK.id, Job("twin", TWIN), Trial("passes", "it does", signals={"cost": 2.5}, again=(1, 3), draws=True), 1),
    Line(
        TASK.id,
        Job("scene", SCENE),
        TriedProposal(SCENE, "fails", 'says "ü"', (("(on a)", False),), {"steps": 0.5}, 1.25),
        3,
    ),
    Line(
        TASK.id,
        Job("failure", SCENE),
        Found(SCENE.candidate, Shrunk(SMALLEST, 12, SIDES, False), 2, 4, 3, "neighbour", "passes"),
        20,
    ),
)


def written(file: Path) -> Path:
    journal = Journal(file, {"options": {"scenes": 5}})
    for line in LINES:
        journal.add(line)
    journal.close()
    return file


def test_all_comes_back_as_it_was(tmp_path: Path) -> None:
    file = written(tmp_path / "fuzz" / "one" / "search.jsonl")
    assert read_head(file)["options"] == {"scenes": 5}
    assert tuple(read_lines(file, TASKS)) == LINES


def test_what_is_torn_is_left_out_and_the_next_line_is_whole(tmp_path: Path) -> None:
    file = written(tmp_path / "search.jsonl")
    whole = file.read_bytes()
    for cut in (1, 7, 100):
        file.write_bytes(whole[:-cut])
        assert tuple(read_lines(file, TASKS)) == LINES[:2]
    journal = Journal(file, {"options": {}})
    journal.add(LINES[2])
    journal.close()
    assert file.read_bytes() == whole, "the head is the first one's"
    file.write_bytes(whole[:5])
    Journal(file, {"options": {"scenes": 6}}).close()
    assert read_head(file)["options"] == {"scenes": 6}


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "search.jsonl", {})
    with pytest.raises(VlaError, match="another process runs this search"):
        Journal(tmp_path / "search.jsonl", {})
    journal.close()
    Journal(tmp_path / "search.jsonl", {}).close()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty; start a new search"),
        ('{"schema": 99}\n', "search.jsonl:1: expected a search with schema 1, found 99"),
        ("hello\n", "search.jsonl:1: expected a line of JSON"),
        ("[1]\n", "search.jsonl:1: expected a line of JSON: no table"),
    ],
)
def test_what_is_no_search_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "search.jsonl"
    file.write_text(text)
    with pytest.raises(VlaError, match=said):
        read_head(file)


def test_a_line_of_something_else_is_named(tmp_path: Path) -> None:
    file = written(tmp_path / "search.jsonl")
    with file.open("a") as stream:
        stream.write('{"task": "no/such", "what": "scene"}\n')
    with pytest.raises(VlaError, match=r"search.jsonl:5: not a line of a search"):
        list(read_lines(file, TASKS))


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(VlaError, match="the search cannot be written"):
        Journal(tmp_path / "file" / "search.jsonl", {})
