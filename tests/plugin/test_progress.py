"""The line that tells how a run goes."""

import os
import pty
import re
import subprocess
from collections.abc import Callable

import pytest

from pytest_vla.reports.terminal import about, duration_text, progress_line
from tests.support.workers import ALONE, BOTH

Run = Callable[..., pytest.RunResult]
STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove")


class Ended:
    def __init__(self, outcome: str, reason: str | None = None, kind: str = "") -> None:
        self.suite, self.outcome, self.reason = "libero_goal", outcome, reason
        self.variation = {"kind": kind} if kind else {}
        self.is_probe = self.in_no_rate = kind == "blank"
        self.is_given = False


def test_the_line() -> None:
    ended = [Ended("success")] * 7 + [Ended("failure")] * 4 + [Ended("error", "timeout"), Ended("invalid", "none")]
    assert progress_line(ended, 13, 40, 26.0, 67.4) == (
        "vla 13/40: success 7/11 = 63.6% [35.4%, 84.8%], 1 error, 1 invalid, 0.5 episodes/s, 1:07 left"
    )
    assert progress_line([], 0, 40, 0.0, None) == "vla 0/40: success 0/0"
    assert progress_line(ended, 13, 40, 26.0, 67.4, 68.0).endswith(", 1:07 left"), "it ends before its time is up"
    assert progress_line(ended, 13, 40, 26.0, 67.4, 66.0).endswith(", ends in 1:06")
    assert progress_line([], 0, 40, 0.0, None, 4323.0) == "vla 0/40: success 0/0, ends in 1:12:03"
    assert progress_line(ended, 40, 40, 26.0, 0.0, 66.0).endswith("0.5 episodes/s")
    assert progress_line(ended, 40, 40, 26.0, 0.0).endswith("0.5 episodes/s")


def test_varied_episodes_have_a_rate_of_their_own_and_probes_have_none() -> None:
    ended = [Ended("success")] * 3 + [Ended("failure")] + [Ended("failure", kind="words")] * 4
    assert progress_line(ended, 8, 40, 16.0, 67.4) == (
        "vla 8/40: benign 3/4 = 75.0%, varied 0/4 = 0.0%, 0.5 episodes/s, 1:07 left"
    )
    probes = [Ended("failure", kind="blank"), Ended("success", kind="blank"), Ended("error", "timeout", "blank")]
    assert progress_line([*ended, *probes], 11, 11, 0.0, None) == (
        "vla 11/11: benign 3/4 = 75.0%, varied 0/4 = 0.0%, 2 probed, 1 error"
    )
    assert progress_line(probes, 3, 11, 0.0, None) == "vla 3/11: 2 probed, 1 error"


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (67, "1:07"), (11100, "3:05:00")])
def test_a_time_that_is_left(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.1, "1 s"), (40, "40 s"), (180, "3 min"), (9000, "2.5 h")])
def test_an_estimate(seconds: float, text: str) -> None:
    assert about(seconds) == text


def on_a_terminal(project: pytest.Pytester, *arguments: str) -> str:
    """What pytest writes to a terminal of 100 columns."""
    controller, terminal = pty.openpty()
    path = os.pathsep.join([str(project.path), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [*project._getpytestargs(), "-p", "pytest_vla.testing", "-p", "no:hypothesispytest", *arguments],
        cwd=project.path,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "PYTHONPATH": path, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(terminal)
    written = b""
    while True:
        try:
            part = os.read(controller, 65536)
        except OSError:
            # Linux's way to say that the other side is closed.
            break
        if not part:
            break
        written += part
    process.wait()
    os.close(controller)
    return re.sub(r"\x1b\[[0-9;]*[mK]", "", written.decode())


@BOTH
def test_on_a_terminal_one_line_is_rewritten(vla: Run, project: pytest.Pytester, workers: str) -> None:
    vla("--version")
    text = on_a_terminal(project, *STOVE, "--vla-model=policies:straight", "--vla-seeds=0-9", workers)
    lines = re.findall(r"\rvla (\d+)/10: success (\d+)/\d+", text)
    assert lines[0] == ("0", "0")
    assert lines[-1] == ("10", "10")
    assert "[100%]" not in text
    assert not re.search(r"libero_goal \.", text), "no dots of pytest's"
    # What comes next has a line of its own.
    assert re.search(r"episodes/s[^\n]*\r\n", text)
    assert re.search(r"\nlibero_goal +10 +10/10 ", text)


def test_on_a_terminal_other_tests_keep_their_dots(vla: Run, project: pytest.Pytester) -> None:
    vla("--version")
    text = on_a_terminal(project, "test_mine.py", *STOVE, "--vla-model=policies:straight")
    assert ".." in text
    assert "3 passed" in text


def test_verbose_output_is_pytests_own(vla: Run, project: pytest.Pytester) -> None:
    vla("--version")
    text = on_a_terminal(project, *STOVE, "--vla-model=policies:straight", "-v")
    assert "PASSED" in text
    assert "\rvla " not in text


def test_in_a_log_there_is_a_line_now_and_then(vla: Run, project: pytest.Pytester) -> None:
    arguments = (*STOVE, "--vla-model=policies:straight", "--vla-seeds=0-9")
    project.makeconftest("import pytest_vla.run.progress\n\npytest_vla.run.progress.LOG_EVERY *= 100\n")
    assert "vla 3/10" not in vla(*arguments).stdout.str()
    project.makeconftest("import pytest_vla.run.progress\n\npytest_vla.run.progress.LOG_EVERY = 0.0\n")
    text = vla(*arguments).stdout.str()
    assert re.findall(r"^vla (\d+)/10: ", text, re.MULTILINE) == [str(number) for number in range(1, 10)]
    assert "vla 3/10" not in vla(*arguments, "-q").stdout.str()


# The fake world takes no time: it says that it does.
PREPARED = """
from pytest_vla.util.live_line import preparing

import pytest_vla.testing as fake

class World(fake.World):
    def __init__(self, task, variation=None, *, allow_versions=False):
        with preparing(f"compiling the scene of {task.name}"):
            super().__init__(task, variation, allow_versions=allow_versions)

fake.World = World
"""
TWO = ("--vla-suite=libero_goal,libero_object", "--vla-tasks=turn_on_the_stove,milk", "--vla-model=policies:straight")
STOVE_SCENE, MILK_SCENE = (
    f"compiling the scene of {task}" for task in ("turn_on_the_stove", "pick_up_the_milk_and_place_it_in_the_basket")
)


@ALONE
def test_what_is_prepared_is_shown_in_the_line(vla: Run, project: pytest.Pytester, workers: str) -> None:
    vla("--version")
    project.makeconftest(PREPARED)
    text = on_a_terminal(project, *TWO, workers)
    for scene in STOVE_SCENE, MILK_SCENE:
        # A narrow terminal cuts the line.
        assert re.search(rf"\rvla [01]/2: success [^\n]*; {scene[:28]}", text), text
    assert text.rpartition("\rvla ")[2].startswith("2/2: success 2/2")
    assert "compiling" not in text.rpartition("\rvla ")[2], "it has ended"


@ALONE
def test_what_is_prepared_is_told_in_a_log_now_and_then(vla: Run, project: pytest.Pytester, workers: str) -> None:
    project.makeconftest(PREPARED + "\nimport pytest_vla.run.progress\npytest_vla.run.progress.PREPARING_EVERY = 0.0\n")
    lines = vla(*TWO, "--vla-seeds=0-1", workers).outlines
    told = sorted(line for line in lines if "compiling" in line)
    assert told == [f"vla: {MILK_SCENE}", f"vla: {STOVE_SCENE}"], "each once"
    project.makeconftest(PREPARED)
    text = vla(*TWO, workers).stdout.str()
    assert text.count("compiling") == 1, "there is not a line for each of hundreds"
    assert "compiling" not in vla(*TWO, workers, "-q").stdout.str()


def test_it_is_in_pytests_own_log_too(vla: Run, project: pytest.Pytester) -> None:
    project.makeconftest(PREPARED)
    project.makeini("[pytest]\nlog_file = told.log\nlog_file_level = INFO\n")
    vla(*TWO).assert_outcomes(passed=2)
    text = (project.path / "told.log").read_text()
    assert re.search(rf"INFO +pytest_vla.preparing:\S+ {STOVE_SCENE}$", text, re.MULTILINE)
    assert re.search(rf"{STOVE_SCENE}: \d+\.\d s$", text, re.MULTILINE)
