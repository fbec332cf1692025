"""``--vla-resume`` on results that others may have written: what they name is named as it is, and not run unasked."""

import copy
import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.runs import run_names

Run = Callable[..., pytest.RunResult]

STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove", "--vla-seeds=0")
# Leaves `ran` beside itself when it is imported.
HOSTILE = """
import numpy as np
from pathlib import Path

Path(__file__).with_name("ran").touch()
policy = lambda episode: lambda observation: np.array([1.0, 0, 0, 0, 0, 0, 0])
"""
BREAKING = "def policy(episode): raise RuntimeError('not yet')\n"


@pytest.fixture
def run(vla: Run, project: pytest.Pytester) -> str:
    """A run with an episode left."""
    project.makepyfile(mine=BREAKING)
    vla(*STOVE, "--vla-model=mine:policy")
    (name,) = run_names(project.path / ".vla")
    return name


def tamper(project: pytest.Pytester, change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
    with closing(sqlite3.connect(project.path / ".vla" / "results.sqlite")) as store, store:
        ((text,),) = store.execute("SELECT invocation FROM runs").fetchall()
        store.execute("UPDATE runs SET invocation = ?", (json.dumps(change(json.loads(text))),))


def loads(text: str, folder: Path) -> Callable[[dict[str, Any]], Mapping[str, Any]]:
    def change(kept: dict[str, Any]) -> Mapping[str, Any]:
        kept["settings"] |= {"model_text": text, "model_folder": str(folder)}
        return kept

    return change


def test_a_module_in_the_results_is_not_loaded_unasked(vla: Run, project: pytest.Pytester, run: str) -> None:
    hidden = project.path / ".vla" / run
    (hidden / "evil").mkdir(parents=True)
    (hidden / "evil" / "inner.py").write_text(HOSTILE)
    tamper(project, loads("evil.inner:policy", hidden))
    result = vla("--vla-resume")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            f"*run {run} would load the policy mine:policy = evil.inner:policy (of {hidden}), but "
            "* lies in the results, *add --vla-model=mine:policy to run it"
        ]
    )
    # What was typed is what runs.
    project.makepyfile(mine=HOSTILE)
    vla("--vla-resume", "--vla-model=mine:policy").assert_outcomes(passed=1)
    assert not list(hidden.rglob("ran"))
    assert (project.path / "ran").exists()


def test_the_policy_that_is_loaded_is_named_before_it_is(vla: Run, project: pytest.Pytester, run: str) -> None:
    elsewhere = project.path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "other.py").write_text(HOSTILE)
    tamper(project, loads("other:policy", elsewhere))
    result = vla("--vla-resume", "-n1")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            f"vla: run {run} is resumed with the policy mine:policy = other:policy (of {elsewhere})",
            "vla: 1 episode of libero_goal with mine:policy = other:policy*",
        ]
    )


def test_results_of_another_user_need_the_policy_typed(vla: Run, project: pytest.Pytester, run: str) -> None:
    project.makepyfile(mine=HOSTILE)
    project.makeconftest("import os\n\nours = os.geteuid()\nos.geteuid = lambda: ours + 1\n")
    result = vla("--vla-resume")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*.vla* belongs to another user, *add --vla-model=mine:policy*"])
    assert not (project.path / "ran").exists()
    vla("--vla-resume", "--vla-model=mine:policy").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("subprocess:getoutput?cmd=touch ran", "*subprocess.py is not in the project *"),
        ("mine:os.system?command=touch ran", "*it is of posix, which is not in the project *"),
    ],
)
def test_what_python_has_is_not_called_unasked(
    vla: Run, project: pytest.Pytester, run: str, text: str, why: str
) -> None:
    project.makepyfile(mine=f"import os\n{HOSTILE.replace('ran', 'own')}")
    tamper(project, loads(text, project.path))
    result = vla("--vla-resume")
    assert result.ret in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERRUPTED)
    # Before anything is loaded, or when the module shows what it holds.
    assert result.stderr.lines + result.outlines
    pytest.LineMatcher([*result.errlines, *result.outlines]).fnmatch_lines([why])
    assert not (project.path / "ran").exists()
    vla("--vla-resume", "--vla-model=mine:policy").assert_outcomes(passed=1)


def test_a_policy_that_the_ini_file_names_needs_no_typing(vla: Run, project: pytest.Pytester) -> None:
    elsewhere = project.mkdir("site-packages")
    (elsewhere / "installed.py").write_text(BREAKING)
    project.makeini(f"[pytest]\npythonpath = {elsewhere}\nvla_models =\n    best = installed:policy\n")
    vla(*STOVE, "--vla-model=best")
    (elsewhere / "installed.py").write_text(HOSTILE)
    vla("--vla-resume").assert_outcomes(passed=1)
    project.makeini(f"[pytest]\npythonpath = {elsewhere}\n")
    result = vla("--vla-resume")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*installed.py is not in the project *, *add --vla-model=best to run it"])


def test_tests_in_the_results_are_not_run_unasked(vla: Run, project: pytest.Pytester, run: str) -> None:
    hidden = project.path / ".vla" / "test_evil.py"
    hidden.write_text(HOSTILE)
    tamper(project, lambda kept: kept | {"arguments": [str(hidden)]})
    result = vla("--vla-resume")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*would run the tests of {hidden}, which lies in the results*"])
    assert not (hidden.parent / "ran").exists()


def test_no_link_out_of_the_results_is_written_to(vla: Run, project: pytest.Pytester, run: str) -> None:
    victim = project.path / "victim"
    victim.write_text("mine")
    (project.path / ".vla" / run / "policy.log").symlink_to(victim)
    result = vla("--vla-resume", "--vla-model=mine:policy", "-n1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*policy.log is a link out of the results *"])
    assert victim.read_text() == "mine"


# The rest of what nobody typed is refused in tests/run/test_options.py; these are found out later, or by the system.
WRONG = {
    "arguments": ["x" * 9000, "\u202e", "-pevil", "::"],
    "tasks": ["z" * 9000, "[", "*"],
    "data": "/" + "d" * 5000,
    "model_text": "lerobot:" + "m" * 9000,
    "shake": 1,
}


def test_what_nobody_typed_is_one_error(vla: Run, project: pytest.Pytester, run: str) -> None:
    kept: dict[str, Any] = {}
    tamper(project, lambda found: kept.setdefault("as it was", found))
    for name, value in WRONG.items():
        changed = copy.deepcopy(kept["as it was"])
        (changed if name in changed else changed["settings"])[name] = value
        tamper(project, lambda _, changed=changed: changed)  # type: ignore[misc]
        result = vla("--vla-resume")
        assert result.ret == pytest.ExitCode.USAGE_ERROR, name
        assert "Traceback" not in str(result.stdout) + str(result.stderr)
        assert [line for line in result.errlines if line.startswith("ERROR: ")] == result.errlines[:1]
        assert len(result.errlines) <= 3
