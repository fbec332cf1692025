"""MLflow, TensorBoard and Weights & Biases themselves, on this machine: what they have when a run has ended.

Where a package is missing (`make trackers` has them all) its tests are skipped.
"""

import importlib.util
import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.runs import run_names

Run = Callable[..., pytest.RunResult]

STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove", "--vla-model=half:policy", "--vla-seeds=0-3")
# Seed 3 breaks until there is a file `mended`.
POLICY = """
import numpy as np
from pathlib import Path

def policy(episode):
    if episode.seed == 3 and not Path("mended").exists():
        raise ValueError("broken")
    return lambda observation: np.array([float(episode.seed != 1), 0, 0, 0, 0, 0, 0])
"""
RATES = [1.0, 0.5, 2 / 3, 2 / 3, 0.75]
"""Of the five episodes, in the order of seeds and then the mended one."""


def needs(module: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=f"needs {module}: make trackers")


@pytest.fixture(autouse=True)
def _alone(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    project.makepyfile(half=POLICY)
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID", "MLFLOW_RUN_ID",
                 "WANDB_PROJECT", "WANDB_RUN_ID", "WANDB_NAME", "WANDB_API_KEY"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    # Whoever would go out to the network finds nobody there.
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")


def run_twice(vla: Run, project: pytest.Pytester, tracker: str, *arguments: str) -> str:
    """A run with an error, and the run gone on with. Returns its name."""
    result = vla(*STOVE, f"--vla-track={tracker}", *arguments)
    result.assert_outcomes(passed=2, failed=1, errors=1)
    assert "does not track" not in result.stdout.str()
    assert "lacks part of this run" not in result.stdout.str()
    (project.path / "mended").touch()
    result = vla("--vla-resume", *arguments)
    result.assert_outcomes(passed=1)
    assert "lacks part of this run" not in result.stdout.str()
    (name,) = run_names(project.path / ".vla")
    return name


# In a process of its own: pytester forgets what a test imported, and mlflow cannot be imported twice.
READS = """
import json, sys
from mlflow.tracking import MlflowClient

client, found = MlflowClient(), []
for experiment in client.search_experiments():
    for run in client.search_runs([experiment.experiment_id]):
        history = {name: sorted((each.step, each.value) for each in client.get_metric_history(run.info.run_id, name))
                   for name in run.data.metrics}
        files = sorted(each.path for each in client.list_artifacts(run.info.run_id))
        found.append({"experiment": experiment.name, "name": run.info.run_name, "status": run.info.status,
                      "params": run.data.params, "tags": run.data.tags, "history": history, "files": files})
print(json.dumps(found))
"""


def mlflow_runs(uri: str) -> list[dict[str, Any]]:
    environ = {**os.environ, "MLFLOW_TRACKING_URI": uri, "MLFLOW_DISABLE_TELEMETRY": "true"}
    done = subprocess.run([sys.executable, "-c", READS], env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of MLflow's, which takes seconds to make."""
    file = tmp_path_factory.mktemp("mlflow") / "runs.db"
    assert mlflow_runs(f"sqlite:///{file}") == []
    return file


@pytest.fixture
def uri(empty: Path, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> str:
    shutil.copy(empty, project.path / "runs.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{project.path}/runs.db")
    return f"sqlite:///{project.path}/runs.db"


@needs("mlflow")
@needs("sqlalchemy")
def test_mlflow_has_the_run(vla: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, uri: str) -> None:
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "stoves")
    name = run_twice(vla, project, "mlflow")
    (run,) = mlflow_runs(uri)
    assert (run["experiment"], run["name"], run["status"]) == ("stoves", name, "FINISHED")
    assert run["params"]["model"] == "half:policy"
    assert run["params"]["option.seeds"] == "0,1,2,3"
    assert run["params"]["protocol.libero_goal.max_steps"] == "300"
    assert run["params"]["provenance.pytest-vla"]
    history = run["history"]
    assert [step for step, _ in history["success_rate"]] == [1, 2, 3, 4, 5]
    assert [value for _, value in history["success_rate"]] == pytest.approx(RATES)
    assert [step for step, _ in history["episode/steps"]] == [1, 2, 3, 4, 5]
    assert history["final/success_rate/libero_goal"][-1] == [0, 0.75]
    assert history["final/success_rate/libero_goal/low"][-1][1] == pytest.approx(0.300642, abs=1e-6)
    assert (history["count/errors"][-1], history["count/episodes"][-1]) == ([5, 0], [5, 4])
    assert run["tags"]["exit_code"] == "1"
    assert run["files"] == ["episodes.csv", "run.json"]


@needs("mlflow")
@needs("sqlalchemy")
def test_mlflow_with_workers_and_a_gate_has_one_run(vla: Run, project: pytest.Pytester, uri: str) -> None:
    (project.path / "mended").touch()
    vla(*STOVE)
    gate = ("--vla-baseline=last", "--vla-margin=50", "--vla-report=page.html")
    # What mlflow's packages warn of is no error of the run.
    result = vla(*STOVE, "--vla-track=mlflow", *gate, "-n2", "-W", "error")
    result.stdout.fnmatch_lines(["mlflow: run * in sqlite:///*/runs.db"])
    (run,) = mlflow_runs(uri)
    assert run["experiment"] == "pytest-vla"
    assert [step for step, _ in run["history"]["success_rate"]] == [1, 2, 3, 4]
    assert run["history"]["success_rate"][-1] == [4, 0.75]
    assert run["tags"]["gate"] == "undecided"
    assert run["files"] == ["episodes.csv", "page.html", "run.json"]


@needs("mlflow")
def test_an_mlflow_server_that_is_not_there_is_told_before_the_first_episode(
    vla: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    result = vla(*STOVE, "--vla-track=mlflow")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --vla-track=mlflow: tracking could not start: MlflowException: *127.0.0.1*"])
    assert "secret" not in result.stderr.str()
    assert run_names(project.path / ".vla") == []


@needs("tensorboard")
def test_tensorboard_has_the_run(vla: Run, project: pytest.Pytester) -> None:
    name = run_twice(vla, project, "tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(project.path / ".vla" / name))
    found.Reload()
    assert [(each.step, each.value) for each in found.Scalars("success_rate")] == [
        (step, pytest.approx(rate)) for step, rate in enumerate(RATES, 1)
    ]
    assert [each.step for each in found.Scalars("episode/steps")] == [1, 2, 3, 4, 5]
    assert [each.value for each in found.Scalars("final/success_rate/libero_goal")] == [pytest.approx(2 / 3), 0.75]
    texts = {tag: [each.tensor_proto.string_val[0].decode() for each in found.Tensors(tag)]
             for tag in ("run", "ending", "episode/outcome", "episode/case")}  # fmt: skip
    assert texts["episode/outcome"] == ["success", "failure", "success", "error", "success"]
    assert texts["episode/case"][1] == "libero_goal/turn_on_the_stove[seed1]"
    assert "| model | half:policy |" in texts["run"][-1]
    assert "| exit_code | 1 |" in texts["ending"][-1]


@needs("tensorboard")
def test_tensorboard_writes_nothing_where_no_episode_ran(vla: Run, project: pytest.Pytester) -> None:
    result = vla(*STOVE, "--vla-track=tensorboard", "--setup-plan")
    assert "Traceback" not in result.stdout.str()
    assert [*project.path.rglob("events.out*")] == []


@needs("wandb")
def test_wandb_offline_has_the_run_in_a_folder(
    vla: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    name = run_twice(vla, project, "wandb")
    folders = sorted((project.path / "wandb").glob("offline-run-*"))
    assert [folder.name.endswith(name) for folder in folders] == [True, True], "the same id: `wandb sync` makes it one"
    rows, config, summary = read_wandb(folders[0] / f"run-{name}.wandb")
    assert [row["success_rate"] for row in rows] == pytest.approx(RATES[:4])
    assert [row["episode/outcome"] for row in rows] == ["success", "failure", "success", "error"]
    assert [row["_step"] for row in rows] == [1, 2, 3, 4]
    assert config["model"] == "half:policy"
    assert config["protocol.libero_goal.max_steps"] == "300"
    assert summary["final/success_rate/libero_goal"] == pytest.approx(2 / 3)
    assert {"run.json", "episodes.csv"} <= {file.name for file in (folders[0] / "files").iterdir()}
    (row,), _, summary = read_wandb(folders[1] / f"run-{name}.wandb")
    assert (row["_step"], row["success_rate"]) == (5, 0.75)
    assert summary["final/success_rate/libero_goal"] == 0.75


def read_wandb(file: Path) -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any]]:
    """Rows, config and summary of what wandb keeps offline."""
    from wandb.proto.wandb_internal_pb2 import Record

    rows: list[dict[str, Any]] = []
    config: dict[str, Any] = {}
    summary: dict[str, Any] = {}

    def table(items: Any) -> dict[str, Any]:
        return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}

    for data in logged(file.read_bytes()):
        record = Record()
        record.ParseFromString(data)
        kind = record.WhichOneof("record_type")
        if kind == "history":
            rows.append(table(record.history.item))
        elif kind in ("run", "config"):
            config |= table((record.run if kind == "run" else record).config.update)
        elif kind == "summary":
            summary |= table(record.summary.update)
    return rows, config, summary


def logged(data: bytes, block: int = 32768) -> Iterator[bytes]:
    """The records of a log as LevelDB writes it: blocks of pieces, each with checksum, length and what piece it is."""
    at, found = 7, b""
    while at + 7 <= len(data):
        if block - at % block < 7:
            at += block - at % block
            continue
        _, length, piece = struct.unpack_from("<IHB", data, at)
        found += data[at + 7 : at + 7 + length]
        at += 7 + length
        if piece in (1, 4):
            yield found
            found = b""
