"""``pytest-vla reword``: what it refuses, what it prints of the closest rewording that breaks a task, and its file."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.cli import main
from pytest_vla.commands.reword import changes_text
from pytest_vla.fuzz.case_file import read_cases
from pytest_vla.fuzz.trial import Trials
from pytest_vla.testing import World

POLICY = """
def policy(episode):
    # It knows the stove by its name only.
    knows = "stove" in episode.instruction.replace("?", "").split()
    return lambda observation: [[1.0 if knows else 0.0, 0, 0, 0, 0, 0, 0]]
"""
DEAF = "policy = lambda episode: lambda observation: [[1.0, 0, 0, 0, 0, 0, 0]]"
IDLE = "policy = lambda episode: lambda observation: [[0.0] * 7]"

ON_STOVE = ("--vla-model=worded:policy", "--vla-tasks=turn_on_the_stove", "--backend=template")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a policy, where a point stands in for MuJoCo."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "worded", raising=False)
    monkeypatch.setattr("pytest_vla.sim.world.World", World)
    return tmp_path


def reword(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["reword", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no policy is given: add --vla-model=POLICY"),
        (("--vla-model=random", "--vla-suite=libero_plus_goal"), "is already varied; use the suite libero_goal"),
        (("--vla-model=random", "--vla-tasks=nothing_like_it"), "no task of tabletop is 'nothing_like_it'"),
        (("--vla-model=random", "-o", "."), "expected a file in an existing folder"),
        (("--vla-model=random", "--backend=templates"), "there is no backend 'templates'"),
        (("--vla-model=no_such_module:policy", "--vla-tasks=stove"), "no_such_module"),
    ],
)
def test_what_cannot_be_done_is_said(
    capsys: pytest.CaptureFixture[str], here: Path, arguments: tuple[str, ...], said: str
) -> None:
    code, _, err = reword(capsys, *arguments)
    assert code == 1
    assert said in err
    assert list(here.iterdir()) == []


def test_a_planted_word_is_found_at_its_closest_and_written(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "worded.py").write_text(POLICY)
    options = (*ON_STOVE, "--vla-seeds=0-2", "--tries=24")
    code, out, _ = reword(capsys, *options)
    assert code == 0
    assert (
        "tabletop/turn_on_the_stove: 'turn on the range' breaks 'turn on the stove', at PD 0.1375: stove -> range "
        "(object same_polarity_habitual, action none); fails under 4 of 4 run seeds, and 2 of 2 other seeds" in out
    ), out
    assert "distances by template 1 (low fidelity)" in out
    assert "reworded_cases.toml: 1 case: `pytest --vla-cases=reworded_cases.toml --vla-model=worded:policy`" in out
    (case,) = read_cases(here / "reworded_cases.toml")
    (change,) = case.candidate.changes
    assert change.kind == "language.paraphrase"
    assert change.params["instruction"] == "turn on the range"
    assert case.about.startswith(
        "does it as 'turn on the stove'; PD 0.1375 by template 1 (low fidelity); worded:policy "
    )
    first = (here / "reworded_cases.toml").read_bytes()
    code, out, _ = reword(capsys, *options, "--json")
    assert (here / "reworded_cases.toml").read_bytes() == first, "equal options give equal files"
    table = json.loads(out)
    (task,) = table["tasks"]
    assert task["closest"]["changed"] == "stove -> range"
    assert (task["closest"]["failed_other_seeds"], task["closest"]["other_seeds"]) == (2, 2)
    assert len(task["tried"]) <= 24
    assert task["nothing_nearer_than"] <= task["closest"]["distance"]
    whole = next(each for each in table["rates"] if not each["axis"])
    assert whole["tried"] == sum(each["way"] == "evenly" for each in task["tried"]) == 12


def test_where_no_words_break_it_the_distance_is_told(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "worded.py").write_text(DEAF)
    code, out, _ = reword(capsys, *ON_STOVE, "--tries=10")
    assert code == 0
    assert "no rewording closer than PD 0.0556 always fails, nor any other of 10 tried, of 721" in out
    assert "0 of 5" in out
    assert "no file was written" in out
    assert not (here / "reworded_cases.toml").exists()


def test_a_policy_that_does_nothing_is_told(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "worded.py").write_text(IDLE)
    code, out, _ = reword(capsys, *ON_STOVE, "--vla-seeds=2")
    assert code == 1
    assert "seed 2 skipped: without any change the policy fails" in out
    assert "tabletop/turn_on_the_stove: no rewording was tried" in out


def test_what_was_found_until_it_is_stopped_is_kept(
    capsys: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "worded.py").write_text(POLICY)
    real = Trials.__call__

    def interrupted(self: Trials, *rest: Any, **named: Any) -> Any:
        if self.episodes > 30:
            raise KeyboardInterrupt
        return real(self, *rest, **named)

    monkeypatch.setattr(Trials, "__call__", interrupted)
    code, out, _ = reword(capsys, *ON_STOVE, "--tries=100")
    assert code == 130
    assert "stopped; the results so far are here" in out
    assert "1 case: " in out
    assert len(read_cases(here / "reworded_cases.toml")) == 1


def test_what_changed() -> None:
    assert changes_text("put the bowl on the stove", "put the dish on the stove") == "bowl -> dish"
    assert changes_text("turn on the stove", "Could you turn on the stove please") == "+ Could you; + please"
    assert changes_text("push the plate there", "push the plate") == "- there"
