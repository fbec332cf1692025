"""Records as lines and trajectories as files: whole, exact, and readers that say what is wrong."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.records.checks import OUTCOMES
from pytest_vla.records.record import SCHEMA, parse_record, record_line
from pytest_vla.records.trajectory import Trajectory, digest_of, load_trajectory, save_trajectory
from tests.support.records import RECORD

TABLE = json.loads(record_line(RECORD))
TRAJECTORY = Trajectory(np.ones((3, 4)), np.zeros((3, 4)), np.ones((3, 3)), np.zeros((2, 7)))


@given(
    message=st.none() | st.text(),
    outcome=st.sampled_from(OUTCOMES),
    eef_pos=st.none() | st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 3),
    literals=st.dictionaries(st.text(), st.lists(st.tuples(st.integers(0, 600), st.booleans()), min_size=1).map(tuple)),
    metrics=st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False)),
)
def test_a_record_is_read_back_from_one_line(**fields: Any) -> None:
    record = dataclasses.replace(RECORD, **fields)
    line = record_line(record)
    assert len(line.splitlines()) == 1
    assert parse_record(line) == parse_record(line.encode()) == record


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not a record: Expecting"),
        ("[]", "schema is None"),
        (json.dumps({"schema": 1}), "schema is 1; read it with the version that wrote it"),
        (json.dumps({"schema": SCHEMA, "task": "x", "extra": 1}), "fields missing: arrays, attempt, case"),
        (json.dumps({**TABLE, "literals": {"(on a b)": True}}), "not a record"),
        (json.dumps({**TABLE, "literals": ["(on a b)"]}), "not a record"),
        (json.dumps({**TABLE, "eef_pos": 1.0}), "not a record"),
    ],
)
def test_a_line_that_is_no_record_is_refused(line: str, complaint: str) -> None:
    with pytest.raises(VlaError, match=complaint):
        parse_record(line)


def test_not_a_number_is_never_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        record_line(dataclasses.replace(RECORD, timings={"wall": float("nan")}))


def test_a_literal_is_held_as_it_was_last() -> None:
    literals = {"(open drawer)": ((0, False), (7, True)), "(on a b)": ((0, True), (3, False)), "(in a b)": ((0, True),)}
    record = dataclasses.replace(RECORD, literals=literals)
    assert record.held == {"(open drawer)": True, "(on a b)": False, "(in a b)": True}


def test_the_digest_knows_when_a_literal_held() -> None:
    once = digest_of("failure", 2, {"(on a b)": ((0, False), (1, True))}, TRAJECTORY)
    assert once == digest_of("failure", 2, {"(on a b)": ((0, False), (1, True))}, TRAJECTORY)
    assert once != digest_of("failure", 2, {"(on a b)": ((0, False), (2, True))}, TRAJECTORY)
    later = dataclasses.replace(TRAJECTORY, qpos=np.nextafter(TRAJECTORY.qpos, 2))
    assert once != digest_of("failure", 2, {"(on a b)": ((0, False), (1, True))}, later)


def test_a_record_of_a_suite_s_own_item_is_told_from_others() -> None:
    assert RECORD.of_suite
    assert not dataclasses.replace(RECORD, node="test_mine.py::test_bowl[turn_on_the_stove-seed0]").of_suite


def test_a_trajectory_is_read_back_and_nothing_else_is_left(tmp_path: Path) -> None:
    file = tmp_path / "libero_goal" / "a-seed0.npz"
    save_trajectory(file, TRAJECTORY)
    save_trajectory(file, TRAJECTORY)
    loaded = load_trajectory(file)
    for field in dataclasses.fields(Trajectory):
        assert np.array_equal(getattr(loaded, field.name), getattr(TRAJECTORY, field.name))
    assert os.listdir(file.parent) == [file.name]


def test_a_file_that_is_no_trajectory_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "a-seed0.npz"
    with pytest.raises(
        VlaError, match=r"a-seed0\.npz: expected an npz file with qpos, qvel, eef_pos, actions: .*No such"
    ):
        load_trajectory(file)
    save_trajectory(file, TRAJECTORY)
    whole = file.read_bytes()
    for broken in (b"", whole[: len(whole) // 2], b"PK\3\4" + b"?" * 100):
        file.write_bytes(broken)
        with pytest.raises(VlaError, match=r"a-seed0\.npz: expected an npz file"):
            load_trajectory(file)
    np.savez(file, qpos=TRAJECTORY.qpos)
    with pytest.raises(VlaError, match="qvel"):
        load_trajectory(file)
    pickled = np.array([print], dtype=object)
    np.savez(file, qpos=pickled, qvel=pickled, eef_pos=pickled, actions=pickled)
    with pytest.raises(VlaError, match=r"elements of type '\|O'"):
        load_trajectory(file)


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
