"""What Allure's results say of episodes, with allure-pytest itself: skipped where it is missing (`make trackers`)."""

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.runs import records_of
from tests.support.workers import BOTH

pytestmark = pytest.mark.skipif(importlib.util.find_spec("allure") is None, reason="needs allure-pytest: make trackers")

Run = Callable[..., pytest.RunResult]

STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove", "--vla-model=mixed:policy")
POLICY = """
import numpy as np
import os
import signal

def policy(episode):
    if episode.seed == 2:
        raise ValueError("broken")
    if episode.seed == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return lambda observation: np.array([float(episode.seed != 1), 0, 0, 0, 0, 0, 0])
"""


@pytest.fixture(autouse=True)
def _policy(project: pytest.Pytester) -> None:
    project.makepyfile(mixed=POLICY)


def results(project: pytest.Pytester) -> dict[str, dict[str, Any]]:
    """By name, all of Allure's results."""
    found = [json.loads(file.read_text()) for file in (project.path / "out").glob("*-result.json")]
    assert len({each["name"] for each in found}) == len(found)
    return {each["name"]: each for each in found}


def table(entries: list[dict[str, Any]]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in entries}


def labels(result: dict[str, Any], name: str) -> list[str]:
    return [each["value"] for each in result["labels"] if each["name"] == name]


def attached(project: pytest.Pytester, result: dict[str, Any]) -> dict[str, bytes]:
    return {each["name"]: (project.path / "out" / each["source"]).read_bytes() for each in result["attachments"]}


@BOTH
def test_results_have_what_is_known_of_their_episodes(vla: Run, project: pytest.Pytester, workers: str) -> None:
    (project.path / "out").mkdir()
    (project.path / "out" / "categories.json").write_text('[{"name": "theirs"}, {"name": "error: timeout"}]')
    (project.path / "out" / "environment.properties").write_text("theirs=1\nvla.model=old\n")
    words = ("--vla-vary=language.words:1", "--vla-twins=auto")
    vla(*STOVE, "--vla-seeds=0-2", *words, "--alluredir=out", workers, "--vla-video=failed")
    found = results(project)
    records = {record.case: record for record in records_of(project.path / ".vla")}
    assert len(found) == len(records) == 6
    done, undone, broken = (found[f"turn_on_the_stove, seed {seed}"] for seed in range(3))
    assert [each["status"] for each in (done, undone, broken)] == ["passed", "failed", "broken"]
    assert "not done after 300 of 300 steps" in undone["statusDetails"]["message"]
    assert "error policy-raised after 0 of 300 steps" in broken["statusDetails"]["message"]
    said = table(done["parameters"])
    assert (said["suite"], said["task"], said["seed"]) == ("libero_goal", "turn_on_the_stove", "0")
    assert (said["model"], said["steps"]) == ("mixed:policy", "5 of 300")
    assert not {"vla_case", "variation"} & said.keys()
    # A case has its history over checkpoints.
    assert {each["name"] for each in done["parameters"] if each.get("excluded")} >= {"model", "run", "policy digest"}
    assert {name: labels(done, name) for name in ("parentSuite", "suite", "subSuite", "feature")} == {
        "parentSuite": ["libero_goal"], "suite": ["turn_on_the_stove"], "subSuite": ["benign"], "feature": ["benign"]
    }  # fmt: skip
    assert labels(done, "host")
    assert labels(done, "framework") == ["pytest"]
    assert "policy-raised" in labels(broken, "tag")
    reset, rollout = done["steps"]
    assert (reset["name"], rollout["name"]) == ("reset and settle", "roll out")
    assert reset["start"] <= reset["stop"] == rollout["start"] <= rollout["stop"]
    assert table(rollout["parameters"])["control steps"] == "5"
    assert [each["status"] for each in broken["steps"]] == ["broken"]
    (varied,) = (each for name, each in found.items() if name.startswith("turn_on_the_stove, seed 0, language"))
    assert labels(varied, "feature") == ["language"]
    assert labels(varied, "subSuite") == ["language.words"]
    texts = attached(project, varied)
    record = json.loads(texts["record"])
    assert records[record["case"]].digest == record["digest"]
    assert texts["instruction"].decode() == f"task: turn on the stove\ntold: {record['instruction']}\n"
    assert record["instruction"] != "turn on the stove"
    texts = attached(project, undone)
    assert texts["goal"].decode().startswith("does not hold  (beyond point_1 line_1): does not hold from step 0\n")
    assert texts["video"][4:8] == b"ftyp"
    assert texts["start"][:4] == texts["end"][:4] == b"\x89PNG"
    assert not {"video", "start"} & attached(project, done).keys()
    categories = json.loads((project.path / "out" / "categories.json").read_text())
    names = [each["name"] for each in categories]
    assert names[:2] == ["theirs", "not done by the policy"]
    assert len(names) == len({*names})
    environment = (project.path / "out" / "environment.properties").read_text().splitlines()
    assert environment[0] == "theirs=1"
    assert [line for line in environment if line.startswith("vla.model=")] == ["vla.model=mixed:policy"]
    assert any(line.startswith("vla.numpy=") for line in environment)


def test_an_episode_whose_worker_died_is_broken_too(vla: Run, project: pytest.Pytester) -> None:
    vla(*STOVE, "--vla-seeds=0,3", "--alluredir=out", "-n1")
    found = results(project)
    lost = found["turn_on_the_stove, seed 3"]
    assert (lost["status"], found["turn_on_the_stove, seed 0"]["status"]) == ("broken", "passed")
    assert "error worker-crashed" in lost["statusDetails"]["message"]
    assert lost["fullName"] == found["turn_on_the_stove, seed 0"]["fullName"] == "libero_goal#test_episode"
    assert labels(lost, "parentSuite") == ["libero_goal"]
    assert "worker-crashed" in labels(lost, "tag")
    assert json.loads(attached(project, lost)["record"])["reason"] == "worker-crashed"


def test_own_tests_keep_their_names_and_suites(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(
        test_mine="""
        import pytest

        @pytest.mark.vla(suite="libero_goal", tasks="turn_on_the_stove", seeds=[0, 2])
        def test_it(rollout):
            assert rollout.steps > 100

        def test_plain(): pass
        """
    )
    vla("test_mine.py", "--vla-model=mixed:policy", "--alluredir=out", "--vla-metrics=hand_path")
    found = results(project)
    failed, broken = (found[f"test_it[turn_on_the_stove-seed{seed}]"] for seed in (0, 2))
    assert (failed["status"], broken["status"], found["test_plain"]["status"]) == ("failed", "broken", "passed")
    assert labels(failed, "suite") == ["test_mine"]
    assert labels(failed, "parentSuite") == []
    assert table(failed["parameters"])["seed"] == "0"
    assert [each["name"] for each in failed["steps"]] == ["reset and settle", "roll out", "metric hand_path"]
    assert "record" in attached(project, failed)
    assert "parameters" not in found["test_plain"]


def test_collecting_and_projects_without_episodes_leave_no_trace(vla: Run, project: pytest.Pytester) -> None:
    vla("--alluredir=out").assert_outcomes(passed=2)
    files = {file.name for file in Path(project.path / "out").iterdir()}
    assert not files & {"categories.json", "environment.properties"}
