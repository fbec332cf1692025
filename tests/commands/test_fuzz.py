"""``pytest-vla fuzz``: what it refuses before anything is loaded, and what it prints and writes of what was found."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.cli import main
from pytest_vla.commands import fuzz as fuzz_command
from pytest_vla.fuzz import trial
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.case_file import read_cases
from pytest_vla.fuzz.trial import Trials
from pytest_vla.plan.manifests import load_suite
from pytest_vla.policies.base import Episode
from pytest_vla.testing import World

SUITE = load_suite("tabletop")

POLICY = """
import numpy as np

def policy(episode):
    # Goes, and gives up where three answers have moved nothing.
    seen = []
    def session(observation):
        seen.append(float(observation["robot0_eef_pos"][0]))
        stuck = len(seen) > 3 and len({round(each, 9) for each in seen[:4]}) == 1
        return np.array([[0.0 if stuck else 1.0, 0, 0, 0, 0, 0, 0]])

    return session
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a policy, where a point stands in for MuJoCo."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "planted", raising=False)
    monkeypatch.setattr("pytest_vla.sim.world.World", World)
    monkeypatch.setattr(trial, "expert_policy", straight)
    return tmp_path


def straight(episode: Episode) -> Callable[[Any], Any]:
    return lambda observation: np.array([[1.0, 0, 0, 0, 0, 0, 0]])


def fuzz(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["fuzz", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no policy is given: add --vla-model=POLICY"),
        (("--vla-model=nosuch:policy", "--against=random"), "--vla-model=nosuch:policy: there is no module 'nosuch'"),
        (("--vla-model=random", "--against=nosuch:policy"), "--against=nosuch:policy: there is no module 'nosuch'"),
        (("--vla-model=random", "--vla-suite=libero_plus_goal"), "is already varied; use the suite libero_goal"),
        (("--vla-model=random", "--dimensions=camra"), "no dimension 'camra' can be searched. Did you mean camera"),
        (("--vla-model=random", "--vla-tasks=nothing_like_it"), "no task of tabletop is 'nothing_like_it'"),
        (("--vla-model=random", "-o", "."), "expected a file in an existing folder"),
        (("--vla-model=random", "-o", "nowhere/cases.toml"), "expected a file in an existing folder"),
        (("--vla-model=random", "--report=search.toml"), "--report=search.toml: expected a file that ends in .html"),
        (
            ("--vla-model=random", "--report=nowhere/search.html"),
            "expected a file, such as report.html, in an existing folder",
        ),
        (("--vla-model=no_such_module:policy", "--vla-tasks=stove"), "no_such_module"),
    ],
)
def test_what_cannot_be_done_is_said(
    capsys: pytest.CaptureFixture[str], here: Path, arguments: tuple[str, ...], said: str
) -> None:
    code, _, err = fuzz(capsys, *arguments)
    assert code == 1
    assert said in err
    assert list(here.iterdir()) == [], "nothing is begun"


def test_a_planted_bug_is_found_at_its_smallest_and_written(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "planted.py").write_text(POLICY)
    options = ("--vla-model=planted:policy", "--vla-tasks=turn_on_the_stove", "--dimensions=action", "--scenes=20")
    code, out, _ = fuzz(capsys, *options)
    assert code == 0
    (case,) = read_cases(here / "fuzz_cases.toml")
    assert case.candidate.changes[0].params == {"steps": 3}
    assert case.about.startswith("action.delay steps=3 (succeeds at steps=2); planted:policy ")
    assert "fails under 4 of 4 run seeds: action.delay steps=3 (succeeds at steps=2), seed 0" in out
    assert "fuzz_cases.toml: 1 case: `pytest --vla-cases=fuzz_cases.toml --vla-model=planted:policy` runs it" in out
    first = (here / "fuzz_cases.toml").read_bytes()
    code, out, _ = fuzz(capsys, *options, "--json")
    assert (here / "fuzz_cases.toml").read_bytes() == first, "equal options give equal files"
    (task,) = json.loads(out)["tasks"]
    assert task["scenes"] == task["fails"] + task["passes"] + sum(task["aside"].values()) == 5
    assert task["guided_scenes"] == 15
    (found,) = task["found"]
    assert found["changes"] == {"action.delay": {"steps": 3}}
    assert (found["failed_run_seeds"], found["run_seeds"], found["complete"]) == (4, 4, True)


def test_where_nothing_is_found_nothing_is_written(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "planted.py").write_text("from tests.commands.test_fuzz import straight as policy")
    options = ("--vla-model=planted:policy", "--vla-tasks=turn_on_the_stove", "--dimensions=action", "--scenes=3")
    code, out, _ = fuzz(capsys, *options)
    assert code == 0
    assert "0 of 1 evenly drawn scenes fail = 0.0%" in out
    assert "; guided: 0 of 2 fail" in out
    assert "no file was written" in out
    assert not (here / "fuzz_cases.toml").exists()


def test_a_task_whose_twin_fails_is_told(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "planted.py").write_text("policy = lambda episode: lambda observation: [[0.0] * 7]")
    options = ("--vla-model=planted:policy", "--vla-tasks=turn_on_the_stove", "--scenes=3", "--vla-seeds=2",
               "--dimensions=action")  # fmt: skip
    code, out, _ = fuzz(capsys, *options)
    assert code == 1, "it looks like no policy that nothing breaks"
    assert "tabletop/turn_on_the_stove: no scene was tried" in out
    assert "  seed 2 skipped: without any change the policy fails" in out


def test_what_was_found_until_it_is_stopped_is_kept(
    capsys: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "planted.py").write_text(POLICY)
    real = Trials.__call__
    others: list[Candidate] = []

    def interrupted(self: Trials, candidate: Candidate, *rest: Any, **named: Any) -> Any:
        others.extend([candidate] * bool(candidate.task.name != "turn_on_the_stove" and candidate.changes))
        if len(others) > 14:
            raise KeyboardInterrupt
        return real(self, candidate, *rest, **named)

    monkeypatch.setattr(Trials, "__call__", interrupted)
    tasks = "--vla-tasks=turn_on_the_stove,put_the_bowl_on_the_stove"
    # The suite's order is not the option's.
    monkeypatch.setattr(fuzz_command, "searched_tasks", lambda options: [SUITE.task(t) for t in tasks[12:].split(",")])
    code, out, _ = fuzz(capsys, "--vla-model=planted:policy", tasks, "--dimensions=action", "--scenes=20")
    assert code == 130
    assert "stopped: results so far above" in out
    before = len(read_cases(here / "fuzz_cases.toml"))
    (name,) = (each.name for each in (here / ".vla" / "searches").iterdir())
    assert f"`pytest-vla fuzz --resume={name}` continues the search" in out
    monkeypatch.setattr(Trials, "__call__", real)
    code, out, _ = fuzz(capsys, "--resume")
    assert code == 0
    assert "continues the search" not in out
    assert len(read_cases(here / "fuzz_cases.toml")) == 2 >= before > 0


def test_a_search_that_is_gone_on_with_finds_what_one_in_a_piece_finds(
    capsys: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "planted.py").write_text(POLICY)
    options = ("--vla-model=planted:policy", "--vla-tasks=turn_on_the_stove", "--dimensions=action", "--scenes=20")
    assert fuzz(capsys, *options)[0] == 0
    whole = (here / "fuzz_cases.toml").read_bytes()
    (here / "fuzz_cases.toml").unlink()
    (folder,) = (here / ".vla" / "searches").iterdir()
    file = folder / "search.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    for kept in (1, 2, 9, len(lines) - 1):
        # As kill -9 leaves it.
        file.write_bytes(b"".join(lines[:kept]) + lines[kept][:20])
        assert fuzz(capsys, "--resume")[0] == 0, kept
        assert (here / "fuzz_cases.toml").read_bytes() == whole
    assert fuzz(capsys, f"--resume={folder.name}", "--json")[0] == 0


def test_what_cannot_be_gone_on_with_is_said(
    capsys: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "--resume: there is no search in" in fuzz(capsys, "--resume")[2]
    (here / "planted.py").write_text(POLICY)
    options = ("--vla-model=planted:policy", "--vla-tasks=turn_on_the_stove", "--dimensions=action", "--scenes=2")
    assert fuzz(capsys, *options)[0] == 0
    (folder,) = (here / ".vla" / "searches").iterdir()
    assert "there is no such search in .vla/searches" in fuzz(capsys, "--resume=no_such")[2].replace(
        str(here) + "/", ""
    )
    code, _, err = fuzz(capsys, "--resume", "--vla-model=random")
    assert code == 1
    assert f"--resume={folder.name}: that search has --vla-model 'planted:policy'. Leave the option out" in err
    (here / "planted.py").write_text(POLICY + "# another one")
    monkeypatch.delitem(sys.modules, "planted", raising=False)
    assert "the policy changed since the search began" in fuzz(capsys, "--resume")[2]


def test_which_of_two_policies_has_a_failure_is_told(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "planted.py").write_text(POLICY)
    (here / "better.py").write_text("from tests.commands.test_fuzz import straight as policy")
    options = ("--vla-model=planted:policy", "--vla-tasks=turn_on_the_stove", "--dimensions=action", "--scenes=20")
    _, out, _ = fuzz(capsys, *options, "--against=better:policy")
    assert "(succeeds at steps=2), seed 0; better:policy succeeds" in out
    _, out, _ = fuzz(capsys, *options, "--against=planted:policy")
    assert "; planted:policy fails too" in out


def test_a_refused_rival_leaves_no_search_to_resume(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "planted.py").write_text(POLICY)
    (here / "broken.py").write_text("def policy(episode, weights): ...\nraise OSError('no weights')")
    options = ("--vla-model=planted:policy", "--vla-tasks=turn_on_the_stove", "--dimensions=action", "--scenes=2")
    code, _, err = fuzz(capsys, *options, "--against=broken:policy")
    assert code == 1
    assert "no weights" in err
    assert list((here / ".vla" / "searches").iterdir()) == []
    assert "--resume: there is no search in" in fuzz(capsys, "--resume")[2]
    assert fuzz(capsys, *options)[0] == 0
    (folder,) = (here / ".vla" / "searches").iterdir()
    # What has results stays, whatever goes wrong later.
    assert fuzz(capsys, "--resume", "--against=broken:policy")[0] == 1
    assert (folder / "search.jsonl").exists()


def test_time_that_is_over_ends_a_search_that_can_be_gone_on_with(
    capsys: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "planted.py").write_text(POLICY)
    passed = iter(range(10**6))
    monkeypatch.setattr(fuzz_command.time, "monotonic", lambda: float(next(passed)))
    options = ("--vla-model=planted:policy", "--vla-tasks=turn_on_the_stove", "--dimensions=action")
    code, out, _ = fuzz(capsys, *options, "--hours=0.01")
    assert code == 0
    assert "time limit reached: results so far above" in out
    assert "--resume=" in out


def test_a_page_is_written_also_of_a_search_that_is_over(
    capsys: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "planted.py").write_text(POLICY)
    options = ("--vla-model=planted:policy", "--vla-tasks=turn_on_the_stove", "--dimensions=action", "--scenes=12")
    code, _, _ = fuzz(capsys, *options, "--report=search.html")
    assert code == 0
    page = (here / "search.html").read_text()
    assert "action.delay steps=3" in page
    assert "What matters" in page
    monkeypatch.setattr(Trials, "__call__", lambda *given, **named: pytest.fail("nothing is tried any more"))
    kept = next((here / ".vla" / "searches").glob("*/search.jsonl"))
    lines = kept.read_bytes()
    code, out, _ = fuzz(capsys, "--resume", "--report=again.html", "--json")
    assert code == 0
    assert kept.read_bytes() == lines
    assert (here / "again.html").read_text() == page
    (task,) = json.loads(out)["tasks"]
    assert task["coverage"]["kinds"]["action.delay"]["amount"] == "steps"
    assert "at least 30 are needed" in task["shares"]["why"]


# A search's file that others may have written.


def foreign(here: Path, **options: Any) -> Path:
    """A search in a folder from elsewhere, whose start has these options."""
    file = here / "theirs" / "searches" / "20260101-000000-aaaa" / "search.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    begun = {
        "vla_model": "random",
        "vla_tasks": ["turn_on_the_stove"],
        "scenes": 1,
        "dimensions": ["action"],
        **options,
    }
    file.write_text(json.dumps({"schema": 1, "options": begun}) + "\n")
    return file


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"vla_model": "subprocess:getoutput?cmd=touch ran"}, "that search would load the policy subprocess:getoutput"),
        (
            {"against": "subprocess:getoutput?cmd=touch ran"},
            "add --against='subprocess:getoutput?cmd=touch ran' to run",
        ),
        ({"vla_model": "their_policy:policy"}, "their_policy.py lies in the results"),
        ({"output": "precious.txt"}, "that search would write precious.txt"),
        ({"output": "../cases.toml"}, "that search would write ../cases.toml"),
        ({"output": "new.toml"}, "Add -o new.toml to write it"),
        ({"report": "precious.txt"}, "search.jsonl:1: its option 'report' is 'precious.txt', which"),
        ({"results": "/"}, "search.jsonl:1: its option 'results' is '/', which"),
        ({"json": True}, "search.jsonl:1: its option 'json' is True, which"),
        ({"scenes": 10**400}, "search.jsonl:1: expected a line of JSON"),
        ({"scenes": True}, "search.jsonl:1: its option 'scenes' is True, which"),
        ({"vla_seeds": [[1]]}, "search.jsonl:1: its option 'vla_seeds' is [[1]], which"),
        ({"vla_seeds": [1, 1]}, "search.jsonl:1: its option 'vla_seeds' is [1, 1], which"),
        ({"vla_model": ["x"]}, "search.jsonl:1: its option 'vla_model' is ['x'], which"),
        ({"vla_data": "a\0b"}, "search.jsonl:1: its option 'vla_data' is"),
        ({"even": "yes"}, "search.jsonl:1: its option 'even' is 'yes', which"),
    ],
)
def test_what_others_may_have_written_is_neither_loaded_nor_written(
    capsys: pytest.CaptureFixture[str], here: Path, options: dict[str, Any], said: str
) -> None:
    (here.parent / "cases.toml").write_text("# Cases of pytest-vla: pytest --vla-cases=cases.toml")
    (here / "precious.txt").write_text("mine")
    foreign(here, **options)
    (here / "theirs" / "their_policy.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    sys.path.append(str(here / "theirs"))
    try:
        code, _, err = fuzz(capsys, "--resume", "--results=theirs", "--report=page.html")
    finally:
        sys.path.remove(str(here / "theirs"))
    assert (code, err.count("\n")) == (1, 1)
    assert said in err
    assert (here / "precious.txt").read_text() == "mine"
    assert {each.name for each in here.iterdir()} == {"precious.txt", "theirs"}, "nothing ran, and nothing was written"


def test_what_is_typed_or_of_the_project_is_gone_on_with(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "planted.py").write_text(POLICY)
    options = ("--vla-model=planted:policy", "--vla-tasks=turn_on_the_stove", "--dimensions=action", "--scenes=2")
    assert fuzz(capsys, *options, "-o", "own.toml")[0] == 0
    assert fuzz(capsys, "--resume")[0] == 0, "its cases are in this project"
    (here / "own.toml").write_text("[project]")
    assert "Add -o own.toml to write it" in fuzz(capsys, "--resume")[2]
    assert fuzz(capsys, "--resume", "-o", "own.toml")[0] == 0
    (here / ".vla").chmod(0o777)
    assert "Add -o own.toml to write it" in fuzz(capsys, "--resume")[2]
    assert "can be written by other users" in fuzz(capsys, "--resume", "-o", "own.toml")[2]
    assert fuzz(capsys, "--resume", "-o", "own.toml", "--vla-model=planted:policy")[0] == 0


@pytest.mark.parametrize("name", ["search.jsonl", ".search.jsonl.lock", "further"])
def test_no_link_of_a_search_is_followed(capsys: pytest.CaptureFixture[str], here: Path, name: str) -> None:
    file = foreign(here)
    victim = here / "victim"
    victim.write_bytes(file.read_bytes())
    file.with_name(name).unlink(missing_ok=True)
    file.with_name(name).symlink_to(victim)
    code, _, err = fuzz(capsys, "--resume", "--results=theirs")
    assert code == 1
    assert f"{name} is a link out of the results theirs, so nothing is written there" in err
    assert victim.read_bytes().endswith(b"}}\n")
