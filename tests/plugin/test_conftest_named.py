"""What lives in a project's conftest.py and is named by it: a policy, and a suite by ``-p conftest``."""

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from textwrap import dedent

import pytest

from pytest_vla import kernels
from pytest_vla.cli import main
from pytest_vla.gate.baseline import baseline_of
from pytest_vla.gate.baseline_file import write_baseline
from pytest_vla.scale.node_facts import data_facts
from tests.support.runs import records_of, run_names

Run = Callable[..., pytest.RunResult]

CONFTEST = """
    import signal
    import numpy as np
    from pathlib import Path
    from pytest_vla import testing
    from pytest_vla.entries import PolicyEntry, SuiteEntry

    def pytest_vla_suites():
        return [SuiteEntry("point", "a point", ":point")]

    def pytest_vla_policies():
        return [PolicyEntry("pusher", "pushes", ":pusher")]

    def point():
        return testing.point_suite()

    def right(episode, speed=1.0):
        def act(observation):
            if episode.seed == 1 and Path("stop").exists():
                signal.raise_signal(signal.SIGINT)
            return np.array([speed, 0.5])
        return act

    def needs(episode, speed, place):
        return right(episode, speed)

    def pusher(text):
        return right
"""
PUSH = ("--vla-suite=point", "--vla-tasks=push")


@pytest.fixture
def point(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs pytest in a project with a conftest.py only; no simulator's place is taken."""
    pytester.makeconftest(CONFTEST)
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_VLA_DATA", *kernels._pins()):
        monkeypatch.delenv(name, raising=False)
    return lambda *arguments: pytester.runpytest_subprocess("-p", "no:hypothesispytest", *arguments)


@pytest.mark.parametrize("more", [(), ("-n1",), ("-p", "conftest")], ids=" ".join)
def test_a_policy_of_the_project_s_conftest_is_found(point: Run, pytester: pytest.Pytester, more: list[str]) -> None:
    """pytest-vla's items lie in a checkout, whose own conftest.py is imported under the same name."""
    point(*PUSH, "--vla-model=conftest:right", *more).assert_outcomes(passed=1)
    (record,) = records_of(pytester.path / ".vla")
    assert record.policy_digest == hashlib.sha256((pytester.path / "conftest.py").read_bytes()).hexdigest()


def test_a_conftest_above_the_current_folder_counts(point: Run, pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\n")
    os.chdir(pytester.mkdir("below"))
    point(*PUSH, "--vla-model=conftest:right").assert_outcomes(passed=1)


def test_what_a_policy_lacks_is_told_once(point: Run, pytester: pytest.Pytester) -> None:
    result = point(*PUSH, "--vla-model=conftest:needs", "--vla-episodes=3")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*: needs requires the arguments speed, place; write --vla-model='conftest:needs[?]speed=...&place=...'*"]
    )
    assert run_names(pytester.path / ".vla") == [], "no episode began"


def test_the_command_that_is_shown_names_what_minus_p_named(point: Run, pytester: pytest.Pytester) -> None:
    (pytester.path / "stop").touch()
    result = point("-p", "conftest", *PUSH, "--vla-model=pusher", "--vla-seeds=0-2")
    shown = re.search(r"`(.*--vla-resume=.*)` runs just these", result.stdout.str())
    assert shown is not None
    program, *arguments = shlex.split(shown[1])
    assert (program, arguments[:2], arguments[-2:]) == ("python", ["-m", "pytest"], ["-p", "conftest"])
    (pytester.path / "stop").unlink()
    again = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    assert again.returncode == 0, again.stdout + again.stderr
    assert len(records_of(pytester.path / ".vla")) == 3


ASKS = """
    def pytest_collection_finish(session):
        import json
        from pathlib import Path
        from pytest_vla.run.context import RUN_CONTEXT
        from pytest_vla.run.xdist.ray_workers import wanted_of

        wanted = wanted_of(session.config.stash[RUN_CONTEXT].selection, session.config)
        Path("wanted.json").write_text(json.dumps([wanted.table(), wanted.digest]))

    print("this module prints")
"""


@pytest.mark.parametrize("more", [(), ("-p", "conftest"), ("-p", "suites_of_mine")], ids=" ".join)
def test_a_node_of_a_cluster_reads_the_same_modules_or_says_how_they_differ(
    point: Run, pytester: pytest.Pytester, more: list[str]
) -> None:
    """Without Ray: what the process with the session asks each node, and what plain Python there answers."""
    name = "suites_of_mine.py" if "suites_of_mine" in more else "conftest.py"
    (pytester.path / "conftest.py").write_text(dedent(ASKS))
    with (pytester.path / name).open("a") as stream:
        stream.write(dedent(CONFTEST))
    point(*more, *PUSH, "--collect-only")
    table, digest = json.loads((pytester.path / "wanted.json").read_text())
    assert data_facts(table) == digest
    (pytester.path / name).write_text((pytester.path / name).read_text() + "# another version\n")
    assert f"{name}: its content differs" in data_facts(table)["trouble"]
    (pytester.path / name).unlink()
    assert f"{name}: cannot be read" in data_facts(table)["trouble"]


@pytest.mark.skipif(not kernels._pins(), reason="this is no x86-64 processor with AVX2 under Linux")
@pytest.mark.usefixtures("own_processes")
def test_numpy_before_the_kernels_is_told_with_what_pins_them(
    point: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pytest imports what -p names before it loads any installed plugin: nothing of ours can be earlier."""

    def kernels_of(*more: str) -> tuple[set[str], str]:
        result = point("-p", "conftest", *PUSH, "--vla-model=conftest:right", *more)
        result.assert_outcomes(passed=1)
        said = [line for line in result.outlines if line.startswith("vla: kernels")]
        return {record.provenance["kernels"] for record in records_of(pytester.path / ".vla")}, "".join(said)

    found, said = kernels_of()
    assert found == {kernels.TOO_LATE}
    assert said == (
        "vla: kernels are native: numpy was imported first, by conftest; records may differ between machines. Leave "
        f"it out (-p no:conftest), put {kernels.how_to_pin()} before the command, or use workers (-n 1)"
    )
    assert kernels_of("-n1") == ({"pinned"}, ""), "workers begin with the environment"
    for setting in shlex.split(kernels.how_to_pin()):
        monkeypatch.setenv(*setting.split("=", 1))
    assert kernels_of() == ({"pinned"}, ""), "as it was told"


def test_lost_cases_of_its_suite_are_run_again_by_a_printed_command(
    point: Run, pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    options = (*PUSH, "--vla-episodes=7", "--vla-model")
    point(*options, "conftest:right").assert_outcomes(passed=7)
    write_baseline(baseline_of(records_of(pytester.path / ".vla")), pytester.path / "base.json")
    result = point(*options, "conftest:needs?speed=-1&place=x", "--vla-baseline=base.json")
    (command,) = re.findall(r"^replay: pytest (.*)$", result.stdout.str(), re.M)
    assert "@" in command
    point(*shlex.split(command)).assert_outcomes(failed=7)
    # Where nobody has read the conftest.py, the run knows that its items are of a suite.
    capsys.readouterr()
    main(["gate", "--baseline=base.json", result.stdout.str().partition(", run ")[2].split()[0]])
    command = capsys.readouterr().out.partition("  lost    pytest ")[2].splitlines()[0]
    assert "point::test_episode[push_the_point-seed0]" in command
    point(*shlex.split(command)).assert_outcomes(failed=1)
