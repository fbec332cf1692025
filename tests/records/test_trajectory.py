"""Named series in trajectories: read back as they were written, whoever wrote them, and never in the place of ours."""

import dataclasses
import io
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pytest_vla.errors import VlaError
from pytest_vla.records import trajectory as trajectories
from pytest_vla.records.trajectory import (
    ARRAYS,
    RESERVED,
    Trajectory,
    digest_of,
    load_trajectory,
    save_trajectory,
    trajectory_outcome,
)
from pytest_vla.util.arrays import read_npz

STEPS = 3
PLAIN = Trajectory(np.ones((4, 2)), np.zeros((4, 2)), np.ones((4, 3)), np.zeros((STEPS, 7)))
DTYPES = st.sampled_from(["f8", "f4", "f2", "i8", "i4", "u1", "?", ">f8"])
NAMES = st.from_regex(r"[a-z0-9_.]{1,20}", fullmatch=True).filter(lambda name: name not in RESERVED)
ROWS = hnp.arrays(DTYPES, st.lists(st.integers(0, 3), max_size=2).map(lambda more: (STEPS, *more)))


@given(st.dictionaries(NAMES, ROWS, max_size=4), st.none() | st.just("success"))
def test_series_are_read_back(series: dict[str, Any], outcome: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.npz"
        save_trajectory(file, dataclasses.replace(PLAIN, series=series), outcome)
        found = load_trajectory(file)
        assert trajectory_outcome(file) == outcome
        assert [each.name for each in Path(folder).iterdir()] == ["a.npz"]
    assert found.series.keys() == series.keys()
    for name, array in series.items():
        assert (found.series[name].shape, found.series[name].dtype.kind) == (array.shape, array.dtype.kind)
        assert np.array_equal(found.series[name], array, equal_nan=array.dtype.kind == "f")
    for name in ARRAYS:
        assert np.array_equal(getattr(found, name), getattr(PLAIN, name))


def test_series_are_in_no_digest_and_a_file_without_them_is_what_it_was(tmp_path: Path) -> None:
    more = PLAIN.with_series({"token_entropy": np.arange(3.0)})
    assert digest_of("failure", 3, {}, more) == digest_of("failure", 3, {}, PLAIN)
    save_trajectory(tmp_path / "plain.npz", PLAIN)
    with zipfile.ZipFile(tmp_path / "plain.npz") as archive:
        assert archive.namelist() == [f"{name}.npy" for name in ARRAYS]
    assert dict(load_trajectory(tmp_path / "plain.npz").series) == {}


@pytest.mark.parametrize("name", ["file", "allow_pickle", "arr_0", "self", "..", "0"])
def test_no_name_is_numpys_own(tmp_path: Path, name: str) -> None:
    save_trajectory(tmp_path / "a.npz", PLAIN.with_series({name: np.arange(3)}), "failure")
    assert load_trajectory(tmp_path / "a.npz").series[name].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "array", "complaint"),
    [
        *((name, np.zeros(3), f"a series cannot be called {name}, as the trajectory's own") for name in RESERVED),
        *(
            (name, np.zeros(3), "is no name of a series: expected a-z")
            for name in ("Entropy", "", "a/b", "a b", "é", 3)
        ),
        ("x" * 101, np.zeros(3), "is no name of a series"),
        ("x", np.zeros(4), r"series x is \(4,\), expected \(3, ...\): a row a control step"),
        ("x", np.zeros(()), r"series x is \(\), expected"),
        ("x", np.zeros((3, *[1] * 8)), "a row a control step"),
        ("x", np.array(["a", "b", "c"]), "series x is of <U1, expected numbers or truths"),
        ("x", np.array([None] * 3), "series x is of object"),
        ("x", np.zeros(3, dtype=complex), "series x is of complex128"),
    ],
)
def test_what_is_no_series_is_refused(name: Any, array: Any, complaint: str) -> None:
    with pytest.raises(VlaError, match=complaint):
        PLAIN.with_series({name: array})
    with pytest.raises(VlaError, match=complaint):
        dataclasses.replace(PLAIN, series={name: array})


def test_series_are_bounded_and_added_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(VlaError, match=r"has 201 series of .* bytes, expected at most 200"):
        PLAIN.with_series({f"s{number}": np.zeros(3) for number in range(201)})
    monkeypatch.setattr(trajectories, "MOST_SERIES_BYTES", 100)
    with pytest.raises(VlaError, match=r"1 series of 240 bytes, expected at most 200 of 100 bytes"):
        PLAIN.with_series({"x": np.zeros((3, 10))})
    more = PLAIN.with_series({"x": np.zeros(3)})
    with pytest.raises(VlaError, match="already has a series x"):
        more.with_series({"x": np.ones(3), "y": np.ones(3)})


def test_nobody_writes_into_what_is_frozen() -> None:
    more = PLAIN.with_series({"x": np.zeros(3)})
    more.freeze()
    with pytest.raises(ValueError, match="read-only"):
        more.series["x"][0] = 1
    with pytest.raises(TypeError):
        more.series["qpos"] = np.zeros(3)  # type: ignore[index]


def test_what_a_later_version_adds_is_left_where_it_is(tmp_path: Path) -> None:
    later = {
        **{name: getattr(PLAIN, name) for name in ARRAYS},
        "states": np.zeros((4, 2)),
        "note": np.array("x"),
        "Entropy": np.zeros(3),
        "energy": np.arange(3),
    }
    np.savez(tmp_path / "a.npz", **later)
    assert list(load_trajectory(tmp_path / "a.npz").series) == ["energy"]


def test_a_series_that_is_no_data_is_refused_by_name(tmp_path: Path) -> None:
    arrays = {name: getattr(PLAIN, name) for name in ARRAYS}
    np.savez(tmp_path / "a.npz", **arrays, x=np.array([print] * 3, dtype=object))
    with pytest.raises(VlaError, match=r"a\.npz: expected .*: x: .*elements of type '\|O'"):
        load_trajectory(tmp_path / "a.npz")


def test_series_that_inflate_are_bounded(tmp_path: Path) -> None:
    arrays = {name: getattr(PLAIN, name) for name in ARRAYS}
    big = np.zeros((3, 3 * 1024 * 1024))
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays, x=big)
    (tmp_path / "a.npz").write_bytes(stream.getvalue())
    assert len(stream.getvalue()) < 200_000
    with pytest.raises(VlaError, match=r"a\.npz: an episode has 1 series of 75497472 bytes"):
        load_trajectory(tmp_path / "a.npz")
    found = read_npz(tmp_path / "a.npz", ["actions"], limit=500_000)
    assert list(found) == ["actions"], "who asks for one reads one"
