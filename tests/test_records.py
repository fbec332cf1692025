"""Records on disk: whole lines, whole files, and readers that say what is wrong."""

import dataclasses
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla import records
from pytest_vla.errors import VlaError
from pytest_vla.records import (
    EPISODES,
    Record,
    Trajectory,
    append_line,
    make_run_folder,
    read_records,
    record_line,
    save_trajectory,
)

RECORD = Record(
    schema=records.SCHEMA,
    run="a-run",
    case="libero_goal/turn_on_the_stove[seed0]",
    node="libero_goal::test_episode[turn_on_the_stove-seed0]",
    suite="libero_goal",
    task="turn_on_the_stove",
    seed=0,
    instruction="turn on the stove",
    outcome="failure",
    reason=None,
    message=None,
    steps=2,
    success_step=None,
    literals={"(turnon flat_stove_1)": False},
    eef_pos=(0.1, -0.2, 1.0),
    seeds={"run": 0, "scene": 0, "init_state": 0, "init_states": 50},
    protocol={"max_steps": 300, "cameras": ["agentview"]},
    replan=None,
    policy="random",
    provenance={"mujoco": "3.8.1"},
    timings={"wall": 1.25},
    digest="00",
    arrays=None,
)
OTHER = dataclasses.replace(RECORD, seed=1, message="two\nlines and ümläuts")
TRAJECTORY = Trajectory(np.ones((3, 4)), np.zeros((3, 4)), np.ones((3, 3)), np.zeros((2, 7)))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    for record in (RECORD, OTHER):
        append_line(tmp_path / EPISODES, record_line(record))
    return tmp_path / EPISODES


def test_records_are_read_back(file: Path) -> None:
    assert read_records(file) == (RECORD, OTHER)
    assert read_records(str(file.parent)) == (RECORD, OTHER)
    assert len(file.read_bytes().splitlines()) == 2


def test_every_torn_end_of_the_last_line_is_left_out(file: Path) -> None:
    """A kill may stop the writer after any byte, also within a character."""
    whole = file.read_bytes()
    first = whole.index(b"\n") + 1
    for cut in range(first, len(whole)):
        file.write_bytes(whole[:cut])
        assert read_records(file) == (RECORD,)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not a record: Expecting"),
        ("[]", "schema is None"),
        (json.dumps({"schema": 99}), "schema is 99"),
        (
            json.dumps({"schema": records.SCHEMA, "case": "x", "extra": 1}),
            "missing or unknown: arrays, digest, eef_pos, extra",
        ),
    ],
)
def test_a_line_that_is_no_record_is_refused_by_number(file: Path, line: str, complaint: str) -> None:
    append_line(file, line)
    append_line(file, record_line(RECORD))
    with pytest.raises(VlaError) as refused:
        read_records(file)
    assert f"{file}:3: " in str(refused.value)
    assert complaint in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(VlaError, match=r"episodes.jsonl: cannot be read"):
        read_records(tmp_path)


def test_a_full_disk_leaves_no_half_line(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = file.read_bytes()

    class Full(io.FileIO):
        def write(self, data: Any, /) -> int:
            return super().write(data[:10])

    monkeypatch.setattr(Path, "open", lambda path, mode, buffering=-1: Full(path, mode))
    with pytest.raises(OSError, match="No space left"):
        append_line(file, record_line(RECORD))
    assert file.read_bytes() == before


def test_not_a_number_is_never_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        record_line(dataclasses.replace(RECORD, timings={"wall": float("nan")}))


def test_a_trajectory_is_read_back_and_nothing_else_is_left(tmp_path: Path) -> None:
    file = tmp_path / "libero_goal" / "a-seed0.npz"
    save_trajectory(file, TRAJECTORY)
    save_trajectory(file, TRAJECTORY)
    with np.load(file) as arrays:
        for field in dataclasses.fields(Trajectory):
            assert np.array_equal(arrays[field.name], getattr(TRAJECTORY, field.name))
    assert os.listdir(file.parent) == [file.name]


def test_a_trajectory_that_cannot_be_written_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a-seed0.npz"
    save_trajectory(file, TRAJECTORY)
    before = file.read_bytes()

    def full(stream: Any, **arrays: Any) -> None:
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="No space left"):
        save_trajectory(file, TRAJECTORY)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_a_new_folder_of_runs_is_kept_out_of_git(tmp_path: Path) -> None:
    make_run_folder(tmp_path / ".vla" / "run1")
    make_run_folder(tmp_path / ".vla" / "run2")
    assert (tmp_path / ".vla" / ".gitignore").read_text() == "*\n"
    make_run_folder(tmp_path / "run3")
    assert not (tmp_path / ".gitignore").exists(), "a folder that was there is the user's"
