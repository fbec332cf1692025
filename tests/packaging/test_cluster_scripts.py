"""The scripts for clusters in docs/how-to/cluster run, up to the merge, with a scheduler that runs tasks one by one."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pytest_vla.records.store import open_store
from tests.support.data import REPOSITORY

SCRIPTS = REPOSITORY / "docs" / "how-to" / "cluster"
SELECTION = ["--vla-suite=libero_goal", "--vla-tasks=turn_on,open", "--vla-model=policies:straight"]
OPTIONS = ["-p", "pytest_vla.testing", "-p", "no:hypothesispytest", *SELECTION]
POLICY = """
import os, signal
import numpy as np

def straight(episode):
    if os.environ.get("KILLED_AT") == episode.task:
        os.kill(os.getpid(), signal.SIGKILL)
    x = float(episode.task != "open_the_middle_drawer_of_the_cabinet")
    return lambda observation: np.array([x, 0, 0, 0, 0, 0, 0])
"""

SBATCH = """#!{python}
# Runs an array's tasks, or a wrapped command, at once; the task of a certain episode is killed there, and requeued.
import os, re, subprocess, sys

flags, rest = [], list(sys.argv[1:])
while rest and rest[0].startswith("-"):
    flag = rest.pop(0)
    flags.append(flag if "=" in flag or flag == "--parsable" else f"{{flag}}={{rest.pop(0)}}")
said = dict(flag.lstrip("-").partition("=")[::2] for flag in flags)
with open("submitted", "a") as file:
    print(flags, rest, file=file)
if "wrap" in said:
    sys.exit(subprocess.run(said["wrap"], shell=True).returncode)
directives = dict(re.findall(r"^#SBATCH --([a-z-]+)(?:=(.*))?$", open(rest[0]).read(), re.M))
assert {{"gpus", "cpus-per-task", "time", "requeue", "output"}} <= directives.keys()
first, last = map(int, said["array"].split("-"))
codes = []
for task in range(first, last + 1):
    environ = dict(os.environ, SLURM_ARRAY_JOB_ID="4711", SLURM_ARRAY_TASK_ID=str(task), SLURM_CPUS_PER_TASK="0")
    for killed in ({{"KILLED_AT": "open_the_top_drawer_and_put_the_bowl_inside"}}, {{}}):
        codes.append(subprocess.run(["bash", *rest], env=environ | killed, stdout=sys.stderr).returncode)
        if codes[-1] == 0:
            break
with open("codes", "w") as file:
    print(codes, file=file)
print(4711)
"""

SUBMITIT = """
from types import SimpleNamespace

class AutoExecutor:
    def __init__(self, folder):
        folder.mkdir(parents=True)

    def update_parameters(self, *, timeout_min, gpus_per_node, cpus_per_task, slurm_array_parallelism):
        pass

    def map_array(self, function, *columns):
        return [SimpleNamespace(result=lambda row=row: function(*row)) for row in zip(*columns, strict=True)]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a policy, the programs `pytest` and `pytest-vla`, and LIBERO's folders without data."""
    for name in [name for name in os.environ if name.startswith("PYTEST_")]:
        monkeypatch.delenv(name)
    project, programs, data = tmp_path / "project", tmp_path / "bin", tmp_path / "data"
    for kind in ("assets", "bddl_files", "init_files"):
        (data / kind).mkdir(parents=True)
    project.mkdir()
    programs.mkdir()
    (project / "pytest.ini").write_text("[pytest]\n")
    (project / "policies.py").write_text(POLICY)
    program(programs / "pytest", f'#!/bin/sh\nexec {sys.executable} -m pytest "$@"\n')
    program(programs / "pytest-vla", f'#!/bin/sh\nexec {sys.executable} -m pytest_vla.cli "$@"\n')
    program(programs / "sbatch", SBATCH.format(python=sys.executable))
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTEST_VLA_DATA", str(data))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(REPOSITORY), str(tmp_path / "modules")]))
    return project


def program(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o755)


def run(folder: Path, *command: str, code: int = 0) -> str:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def content(results: Path) -> tuple[object, ...]:
    with open_store(results, create=False) as store:
        merged = store.run("last")
        digests = {record.node: (record.outcome, record.digest) for record in store.records(merged.name)}
        return store.items(merged.name), digests, merged.planned, merged.status


def check_whole(folder: Path) -> None:
    """The merged run is that of one machine."""
    run(folder, "pytest", *OPTIONS, "--vla-results=one", code=1)
    assert content(folder / ".vla") == content(folder / "one")


@pytest.mark.slow
def test_the_array_job_is_one_run_in_the_end(folder: Path) -> None:
    said = run(folder, "bash", str(SCRIPTS / "submit.sh"), "2", *OPTIONS)
    assert "3 of 3 items are done" in said
    codes = (folder / "codes").read_text().strip("[]\n").split(", ")
    assert sorted(codes) == ["0", "0", "1"], "what is killed fails its task, and episodes that failed do not"
    array, last = (folder / "submitted").read_text().splitlines()
    assert "--array=1-2" in array
    assert "--dependency=afterany:4711" in last
    check_whole(folder)


@pytest.mark.slow
def test_the_submitit_script_is_one_run_in_the_end(folder: Path) -> None:
    modules = folder.parent / "modules"
    modules.mkdir()
    (modules / "submitit.py").write_text(SUBMITIT)
    run(folder, sys.executable, str(SCRIPTS / "shards.py"), "3", *OPTIONS)
    check_whole(folder)


@pytest.mark.slow
def test_the_matrix_is_one_run_in_the_end(folder: Path) -> None:
    """Each step that runs something here does, in the order of the jobs; what is uploaded is where it is looked for."""
    workflow = yaml.safe_load((SCRIPTS / "matrix.yml").read_text())
    shard, merge = workflow["jobs"]["shard"], workflow["jobs"]["merge"]
    numbers = shard["strategy"]["matrix"]["shard"]
    assert numbers == list(range(1, len(numbers) + 1))
    assert shard["strategy"]["fail-fast"] is False
    assert merge["needs"] == "shard"
    (up,) = [step for step in shard["steps"] if "upload" in step.get("uses", "")]
    (down,) = [step for step in merge["steps"] if "download" in step.get("uses", "")]
    assert (up["if"], merge["if"]) == ("always()", "always()")
    assert up["with"]["path"] == down["with"]["path"] == ".vla/shards"
    assert up["with"]["include-hidden-files"] is True
    assert re.fullmatch(down["with"]["pattern"].replace("*", ".*"), up["with"]["name"])
    ours = [
        step["run"].replace("${{ matrix.shard }}", str(number))
        for job, some in ((shard, numbers), (merge, [0]))
        for number in some
        for step in job["steps"]
        if "run" in step and not step["run"].startswith("pip ")
    ]
    assert len(ours) == len(numbers) + 2
    for command in ours:
        words = shlex.split(command.replace("my_policy:policy", "policies:straight"))
        if words[0] == "pytest":
            assert f"/{len(numbers)}" in command or "--vla-resume" in command
            words = ["pytest", *OPTIONS[:4], *(w for w in words[1:] if not w.startswith("--vla-suite"))]
            words += [] if "--vla-resume" in words else SELECTION[:2]
        # One of three fails: less than 80%.
        run(folder, *words, code=1 if "--vla-resume" in words else 0)
    assert sorted(each.name for each in (folder / ".vla" / "shards").iterdir()) == ["1-of-4", "2-of-4", "3-of-4"]
    run(folder, "pytest", *OPTIONS, "--vla-min-success=0.8", "--vla-results=one", code=1)
    assert content(folder / ".vla") == content(folder / "one")
