"""A search's file: all that came of jobs comes back as it was, whatever was torn off; what is no search is refused."""

import errno
import fcntl
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.fuzz.amounts import Component
from pytest_vla.fuzz.campaign import drive
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.case_file import ListedCase, write_cases
from pytest_vla.fuzz.found import Found, aside_lines, failure_line, rate_text
from pytest_vla.fuzz.journal import Journal, Line, read_head, read_lines, retell
from pytest_vla.fuzz.sampler import Proposal, TriedProposal
from pytest_vla.fuzz.shrink import Boundary, Shrunk
from pytest_vla.fuzz.task_search import Job
from pytest_vla.fuzz.trial import Trial
from pytest_vla.plan.manifests import load_suite
from pytest_vla.vary.chosen import change_of
from tests.support.campaigns import TASKS as SEARCHED
from tests.support.campaigns import ManyHands, campaign

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


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(VlaError, match=r"has no file locks, .* local disk"):
        Journal(tmp_path / "search.jsonl", {})


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


# What others may have made of a search's file.

KINDS = ("camera.azimuth", "light.direction", "action.delay")


def told(file: Path) -> int:
    """Go on with a search, and tell all that its file says of it, as the command does; return its episodes."""
    tasks = {task.id: task for task in SEARCHED}
    again = campaign()
    episodes = again.go_on(read_lines(file, tasks))
    dimensions = [kind.partition(".")[0] for kind in KINDS]
    retell(read_lines(file, tasks), again.seen, SEARCHED, dimensions, guided=True)
    found = [each for seen in again.seen.values() for each in seen.found]
    for seen in again.seen.values():
        list(aside_lines(seen))
        rate_text(seen)
    for each in found:
        failure_line(each)
    write_cases(file.with_name("cases.toml"), [ListedCase(each.shrunk.candidate) for each in found])
    again.next()
    return episodes


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The lines of a search that two workers did."""
    file = tmp_path_factory.mktemp("search") / "search.jsonl"
    journal = Journal(file, {"options": {}})
    drive(campaign(), ManyHands(2), journal.add)
    journal.close()
    assert told(file) > 20
    return file.read_text().splitlines()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in a table."""
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


WRONG = st.sampled_from(
    [
        *(None, True, "", "twin", "fails", "camera.azimuth", -1, 0, 1, 7, 10**9, 2**80, 10**400, 0.5, -1e300, 1e300),
        *([], {}, [1, 0], ["steps"], {"steps": 3}, {"steps": "x"}, {"azimuth_deg": 1e9}, [[[[]]]]),
    ]
)


@given(data=st.data())
def test_whatever_is_changed_in_it_is_one_error_with_its_line(searched: list[str], data: st.DataObject) -> None:
    import tempfile

    lines = list(searched)
    at = data.draw(st.integers(1, len(lines) - 1))
    how = data.draw(st.sampled_from(["value", "value", "value", "missing", "torn", "twice", "moved", "lost", "deep"]))
    table = json.loads(lines[at])
    if how in ("value", "missing"):
        *above, last = data.draw(st.sampled_from(list(places(table))[1:]))
        inner = table
        for key in above:
            inner = inner[key]
        if how == "value":
            inner[last] = data.draw(WRONG)
        else:
            del inner[last]
        lines[at] = json.dumps(table)
    elif how == "torn":
        lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at]) - 1))]
    elif how == "twice":
        lines.insert(data.draw(st.integers(1, len(lines))), lines[at])
    elif how == "moved":
        lines.insert(data.draw(st.integers(1, len(lines) - 1)), lines.pop(at))
    elif how == "lost":
        del lines[at]
    else:
        lines[at] = json.dumps(table)[:-1] + ', "x": ' + "[" * 100_000 + "]" * 100_000 + "}"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "search.jsonl"
        file.write_text("\n".join(lines) + "\n")
        said = ""
        try:
            told(file)
        except VlaError as error:
            said = str(error)
        assert re.match(rf"({re.escape(str(file))}:\d+: .|$)", said), how
        assert len(said) < 1000
