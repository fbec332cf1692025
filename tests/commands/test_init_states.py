"""`pytest-vla init-states --add`: further init states behind those that a task has; test_own_tasks has what is anew."""

from pathlib import Path

import numpy as np
import pytest

from pytest_vla import load_suite
from pytest_vla.cli import main
from pytest_vla.commands.init_states import write_init_states
from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import suite_folder
from pytest_vla.run.preflight import starts_of
from pytest_vla.scene.init_states import read_init_states

TASK = load_suite("tabletop").task("turn_on_the_stove")
HAS = TASK.protocol.init_states
OWN = read_init_states(suite_folder("tabletop") / "init_files" / f"{TASK.paths[0]}.pruned_init")  # type: ignore[operator]


def test_further_states_come_behind_those_that_are_there_and_are_run(tmp_path: Path) -> None:
    path = write_init_states(TASK, tmp_path / "init_files" / "tabletop", HAS + 2, 0.0, add=True)
    states = read_init_states(path)
    assert states.shape == (HAS + 2, OWN.shape[1])
    assert np.array_equal(states[:HAS], OWN)
    assert len(np.unique(states, axis=0)) == HAS + 2
    assert starts_of(load_suite("tabletop", data=tmp_path).task(TASK.name)) == HAS + 2


def test_as_many_as_there_are_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VlaError, match=rf"tabletop/turn_on_the_stove: has {HAS} init states. Give a --count above"):
        write_init_states(TASK, tmp_path, HAS, 0.0, add=True)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--add"], "--count=N"),
        (["--add", "--count=300", "turn_on"], "no task 'turn_on'"),
        (["--add", "--count=0"], "a number of init states"),
    ],
)
def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str) -> None:
    try:
        code = main(["init-states", f"--data={tmp_path}", "--suite=tabletop", *arguments])
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code != 0
    assert told in capsys.readouterr().err
