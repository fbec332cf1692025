"""What tests of a run's gate have in common: a baseline that is made once, its policies, the command afterwards."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vla.cli import main
from pytest_vla.gate.baseline import baseline_of
from pytest_vla.gate.baseline_file import write_baseline
from tests.support.runs import records_of

Run = Callable[..., pytest.RunResult]

STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove", "--vla-episodes=10")
ALL, EIGHT, FOUR = (f"--vla-model=upto:{name}" for name in ("all", "eight", "four"))
BASELINE = "--vla-baseline=base.json"
WIDE = "--vla-margin=60"
"""Ten episodes that all end as before are within it."""

POLICIES = """
import numpy as np

def moving(episode, does):
    if episode.seed == 20:
        raise RuntimeError("no more")
    return lambda observation: np.array([[float(does), 0, 0, 0, 0, 0, 0]] * 20)

def all(episode):
    return moving(episode, True)

def eight(episode):
    return moving(episode, episode.seed < 8)

def four(episode):
    return moving(episode, episode.seed < 4)
"""


def base_in(project: pytest.Pytester, vla: Run, kept: dict[str, str], *arguments: str) -> Path:
    """``base.json`` of a run that succeeds.

    Args:
        project: where it is written.
        vla: runs pytest.
        kept: the file's text, once it is known.
        arguments: of the run.
    """
    file = project.path / "base.json"
    if not kept:
        assert vla(*arguments, "--vla-results=first").ret == 0
        write_baseline(baseline_of(records_of(project.path / "first")), file)
        kept["text"] = file.read_text()
    file.write_text(kept["text"])
    return file


def afterwards(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """`pytest-vla gate` of the last run."""
    capsys.readouterr()
    code = main(["gate", "--baseline=base.json", *arguments])
    return code, capsys.readouterr().out
