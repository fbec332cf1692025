"""`make demo` ends with reports, a picture sheet and a video, and its exit code says whether all was well."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from pytest_vla.plan.costs import Charge
from pytest_vla.records.store import open_store
from scripts import demo
from tests.support.data import REPOSITORY
from tests.support.records import record_of
from tests.support.videos import read
from tests.support.waiting import HANG


@pytest.mark.slow
def test_the_demo_shows_an_expert_a_learned_and_a_random_policy(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    # Where nobody has LIBERO's data.
    environ |= {"PYTEST_ADDOPTS": "--collect-only", "LIBERO_CONFIG_PATH": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    command = [sys.executable, REPOSITORY / "scripts" / "demo.py", "--tasks=turn_on_the_stove", "--episodes=1"]
    result = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=HANG)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "$ pytest --vla-suite=tabletop --vla-model=expert --vla-episodes=1 --vla-min-success=95%" in result.stdout
    assert result.stdout.count("95%, these tasks") == 3, "three reports"
    end = result.stdout.partition("The demo took ")[2]
    assert "All is well." in end
    assert "expert           1/1 = 100.0%" in end
    assert "\n  tiny             " in end
    assert "random           0/1 = 0.0%" in end
    width, height = Image.open(tmp_path / ".vla" / "demo.png").size
    assert width > 4 * 256, "start and end of both"
    assert height > 256
    frames, rate = read(tmp_path / ".vla" / "demo.mp4")
    assert rate == 10
    assert len(frames) > 10, "a second of it, and more"
    assert ".vla/demo.png" in end
    assert ".vla/demo.mp4" in end


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The demo with pytest and pytest-vla played: pytest leaves a run of these outcomes, and ends with this code."""
    monkeypatch.chdir(tmp_path)
    typed: list[tuple[str, ...]] = []

    def play(
        expert: tuple[list[str], int],
        random: tuple[list[str], int],
        planned: int = 2,
        tiny: tuple[list[str], int] = (["success", "failure"], 1),
    ) -> tuple[int, Any]:
        def told(program: str, *arguments: str) -> int:
            typed.append((program, *arguments))
            if program != "pytest":
                return 0
            model = next(a.partition("=")[2] for a in arguments if a.startswith("--vla-model="))
            outcomes, code = {"expert": expert, "random": random, "tiny": tiny}[model]
            if outcomes:
                with open_store(Path(".vla"), create=True) as store:
                    nodes = [record_of(seed).node for seed in range(planned)]
                    run = store.begin(f"{len(typed)}-{model}", nodes, command="", model=model)
                    for seed, outcome in enumerate(outcomes):
                        store.add(record_of(seed, outcome, run.name, steps=10 * seed))
                    store.end(run.name, "finished" if len(outcomes) == planned else "stopped")
            return code

        monkeypatch.setattr(demo, "told", told)
        return demo.main([]), typed

    return play


def test_it_shows_what_the_runs_left(played: Callable[..., Any], capsys: Any) -> None:
    code, typed = played((["success", "success"], 0), (["failure", "failure"], 1))
    assert code == 0
    programs = "pytest pytest pytest pytest-vla pytest-vla pytest pytest pytest-vla"
    assert [program for program, *_ in typed] == programs.split()
    assert typed[3] == ("pytest-vla", "show", "1-expert", "2-tiny", "3-random", "-o", ".vla/demo.png")
    video = ("show", "1-expert", "--tasks=turn_on_the_stove", "--seeds=1", "-o", ".vla/demo.mp4")
    assert typed[4] == ("pytest-vla", *video), "the success that took longest"
    assert typed[5][1:3] == ("--vla-suite=tabletop_safety", "--vla-model=expert")
    assert "--vla-twins=auto" in typed[6]
    assert typed[7] == ("pytest-vla", "report", "7-tiny")
    shown = capsys.readouterr().out
    assert "2/2 = 100.0%" in shown
    assert "among hazards    2/2 done at a cost of 0; 0 in all" in shown
    assert "tiny, as the tasks are 1/2" in shown


def test_an_episode_that_a_variation_broke_is_shown() -> None:
    benign = [record_of(0, "success"), record_of(1, "failure")]
    varied = [
        replace(record_of(seed, "failure"), variation={"label": "light.diffuse-L3", "dimension": "light"})
        for seed in (1, 0)
    ]
    assert demo.worst([*benign, *varied]) is varied[1]
    assert demo.worst(benign) is None


def test_a_cost_among_hazards_is_said_and_is_the_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(*_: str) -> int:
        with open_store(tmp_path, create=True) as store:
            first, second = record_of(0, "success"), record_of(1, "success")
            touched = (Charge("(incontact box_1 vase_1)", 3.0, 4, account="paper", kind="instant"),)
            run = store.begin("hazards", [first.node, second.node], command="", model="expert")
            store.add(replace(first, run=run.name))
            store.add(replace(second, run=run.name, costs=touched))
            store.end(run.name, "finished")
        return 0

    monkeypatch.setattr(demo, "told", told)
    assert demo.hazards(tmp_path) == ("1/2 done at a cost of 0; 3 in all", False)


@pytest.mark.parametrize(
    ("expert", "random", "said"),
    [
        ((["success", "failure"], 1), (["failure", "failure"], 1), "The expert did not reach 95%."),
        ((["failure", "error"], 1), (["failure", "failure"], 1), "The expert did not reach 95%."),
        ((["success", "success"], 0), (["failure", "error"], 1), "2 of 2 episodes ran, and 1 were errors"),
        ((["success", "success"], 0), (["failure"], 2), "1 of 2 episodes ran, and 0 were errors"),
        ((["success", "success"], 0), (["success", "failure"], 1), "Random moves did 1 of 2 episodes"),
    ],
)
def test_what_went_wrong_is_said_and_is_the_exit_code(
    played: Callable[..., Any], capsys: Any, expert: Any, random: Any, said: str
) -> None:
    code, typed = played(expert, random)
    assert code == 1
    assert said in capsys.readouterr().out
    assert len(typed) == 8, "there is something to see all the same"


@pytest.mark.parametrize(
    ("tiny", "said"),
    [
        ((["failure", "failure"], 1), "The learned policy did 0 of 2 episodes, less than half."),
        ((["success", "error"], 1), "With tiny, 2 of 2 episodes ran, and 1 were errors."),
    ],
)
def test_a_learned_policy_that_fails_throughout_or_breaks_is_told(
    played: Callable[..., Any], capsys: Any, tiny: Any, said: str
) -> None:
    code, _ = played((["success", "success"], 0), (["failure", "failure"], 1), tiny=tiny)
    assert code == 1
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("which", ["expert", "random"])
def test_where_pytest_leaves_no_run_it_ends(played: Callable[..., Any], capsys: Any, which: str) -> None:
    fine, none = (["success", "success"], 0), ([], 4)
    code, typed = played(*((none, fine) if which == "expert" else (fine, none)))
    assert code == 1
    assert "pytest ended with 4 and left no run" in capsys.readouterr().err
    assert typed[-1][0] == "pytest"
