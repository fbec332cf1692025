"""Init states: LIBERO's files bit for bit, other forms, and what is refused."""

import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.scene import init_states
from pytest_vla.scene.init_states import read_init_states
from pytest_vla.scene.problem import parse_problem
from tests.support.data import data_root, libero_data, needs_data
from tests.support.init_states import STATES, archive, npy, refusal, saved, torch_zip

# --- real files ---


@needs_data
def test_all_libero_files() -> None:
    folder = libero_data()
    dims = {"libero_spatial": {92}, "libero_object": {110}, "libero_goal": {79}, "libero_10": {45, 47, 51, 71, 84, 123}}
    files = sorted(folder.glob("init_files/*/*.pruned_init"))
    assert len(files) == 130
    for file in files:
        states = read_init_states(file)
        assert states.dtype == np.float64
        assert states.flags.c_contiguous
        assert states.flags.writeable
        assert len(states) == 50
        assert states.shape[1] in dims.get(file.parent.name, {states.shape[1]})
        assert (states[:, 0] == 0.0).all()
        assert (states[:, 8:10] == [0.020833, -0.020833]).all()  # the two fingers
        assert len(np.unique(states, axis=0)) == 50
        # 7 + 6 coordinates an object, 1 + 1 a joint of a fixture, after time, arm and fingers.
        problem = parse_problem(folder / "bddl_files" / file.parent.name / f"{file.stem}.bddl")
        joints = states.shape[1] - 19 - 13 * len(problem.objects)
        articulated = {"wooden_cabinet": 3, "white_cabinet": 3, "flat_stove": 1, "microwave": 1}
        assert joints == 2 * sum(articulated.get(item.category, 0) for item in problem.fixtures)
        quaternions = states[:, 10 : 10 + 7 * len(problem.objects)].reshape(50, -1, 7)[..., 3:]
        assert np.allclose(np.linalg.norm(quaternions, axis=-1), 1.0)


@needs_data
def test_a_libero_file_bit_for_bit() -> None:
    file = libero_data() / "init_files" / "libero_goal" / "turn_on_the_stove.pruned_init"
    # The pickle holds the array's bytes as text, two bytes where one is above 127: find them without unpickling.
    with zipfile.ZipFile(file) as archive:
        data = archive.read("archive/data.pkl")
    start = next(
        index
        for index in range(len(data))
        if data[index : index + 1] == b"X" and struct.unpack_from("<I", data, index + 1)[0] > 50 * 79 * 8
    )
    length = struct.unpack_from("<I", data, start + 1)[0]
    text = data[start + 5 : start + 5 + length].decode("utf-8").encode("latin1")
    assert read_init_states(file).tobytes() == text


@needs_data
def test_the_vla_arena_archive() -> None:
    root = data_root()
    file = root / "vla_arena" / "init_states.npz" if root else Path("none")
    if not file.is_file():
        pytest.skip("needs VLA-Arena's data beside LIBERO's")
    with np.load(file) as archive:
        assert len(archive.files) == 170
        for name in archive.files:
            states = read_init_states(file, name)
            assert states.shape == (1, len(archive[name]))
            assert states.tobytes() == archive[name].tobytes()
    assert "expected one array, found 170, the first 'gen" in refusal(file)
    assert "expected the array 'none' in this zip, found 170 members" in refusal(file, "none")


# --- what is read ---


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize(
    "array",
    [STATES, np.asfortranarray(STATES), STATES.astype(">f8"), STATES[:, ::2], STATES[:1]],
    ids=["c", "fortran", "big-endian", "strided", "one"],
)
@pytest.mark.parametrize("wrap", [saved, None], ids=["torch", "npy"])
def test_arrays(write: Callable[[bytes], Path], array: Any, protocol: int, wrap: Callable[..., bytes] | None) -> None:
    states = read_init_states(write(wrap(array, protocol) if wrap else npy(array)))
    assert states.dtype == np.dtype("=f8")
    assert states.flags.c_contiguous
    assert states.flags.writeable
    np.testing.assert_array_equal(states, array)


@pytest.mark.parametrize("module", ["numpy.core.multiarray", "numpy._core.multiarray"])
def test_both_of_numpys_spellings(write: Callable[[bytes], Path], module: str) -> None:
    data = pickle.dumps(STATES, 2).replace(b"cnumpy._core.multiarray\n", f"c{module}\n".encode())
    assert module.encode() in data
    np.testing.assert_array_equal(read_init_states(write(torch_zip(data))), STATES)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (STATES[0], STATES[:1]),
        ([STATES[0]], STATES[:1]),
        ([STATES], STATES),
        (list(STATES), STATES),
        ([STATES[0], STATES[0]], STATES[[0, 0]]),
    ],
)
def test_vectors_and_lists_of_vectors(write: Callable[[bytes], Path], value: Any, expected: Any) -> None:
    np.testing.assert_array_equal(read_init_states(write(saved(value))), expected)


def test_other_archives(write: Callable[[bytes], Path], tmp_path: Path) -> None:
    data = pickle.dumps(STATES, 2)
    deflated = torch_zip(data, zipfile.ZIP_DEFLATED)
    for content in (deflated, torch_zip(data, prefix="task_7/"), torch_zip(data, prefix="")):
        np.testing.assert_array_equal(read_init_states(str(write(content))), STATES)
    np.savez(tmp_path / "one.npz", STATES)
    np.testing.assert_array_equal(read_init_states(tmp_path / "one.npz"), STATES)
    np.savez_compressed(tmp_path / "two.npz", a=STATES, b=STATES + 1)
    np.testing.assert_array_equal(read_init_states(tmp_path / "two.npz", "b"), STATES + 1)
    assert "expected one array, found 2, the first 'a'" in refusal(tmp_path / "two.npz")


# --- what is refused ---


@pytest.mark.parametrize("value", [
    STATES.astype(np.float32), np.arange(6).reshape(2, 3), np.array([[None, 1.0]]), np.array(["a"]), STATES > 0,
    STATES + 0j, np.zeros(2, dtype=[("a", "<f8")]), np.zeros((0, 5)), np.zeros((2, 2, 2)), np.float64(1.0),
    np.array(1.0), [STATES[0], STATES[1, :5]], [STATES, STATES], [1.0, 2.0], {"states": STATES}, {1.0}, "text",
    b"bytes", None, STATES[0].tolist(), (STATES,),
    np.datetime64("2020"), np.ma.masked_array(STATES), [[STATES[0]]],
], ids=lambda value: f"{type(value).__name__}-{getattr(value, 'dtype', '')}")  # fmt: skip
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_other_values_are_refused(write: Callable[[bytes], Path], value: Any, protocol: int) -> None:
    message = refusal(write(saved(value, protocol)))
    assert message.endswith("; give a .pruned_init of LIBERO, or a float64 array saved by numpy.save")


@pytest.mark.parametrize("array", [
    STATES.astype(np.float32), np.arange(3), np.array([None]), np.zeros((2, 2, 2)), np.zeros(0), np.array(1.0),
    np.zeros(2, dtype=[("a", "<f8")]), np.full((1, 3), np.nan), np.full((1, 3), -np.inf),
], ids=str)  # fmt: skip
def test_other_arrays_are_refused(write: Callable[[bytes], Path], array: Any) -> None:
    refusal(write(npy(array, allow_pickle=True)))


# --- archives ---


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"", "expected a zip or .npy file, found one that starts with b''"),
        (b"\x80\x02K\x01.", "expected a zip or .npy file, found one that starts with b'\\x80\\x02K\\x01.'"),
        (b"\x1f\x8b\x08gzip", "expected a zip or .npy file"),
        (b"PK", "damaged or cut off"),
        (b"PK\x05\x06" + b"\0" * 18, "expected one data.pkl in this zip, found 0 members"),
        (archive(archive__version=b"3\n"), "expected one data.pkl in this zip, found 1 members: 'archive/version'"),
        (archive(a__data=b""), "expected one data.pkl"),
        (archive(**{"a__data.pkl": b"", "b__data.pkl": b""}), "expected one data.pkl in this zip, found 2 members"),
        (archive(**{"a.npy": b"no array"}), "expected an .npy array"),
    ],
)
def test_other_files(write: Callable[[bytes], Path], data: bytes, part: str) -> None:
    assert part in refusal(write(data))


def test_a_member_of_a_file_without_members(write: Callable[[bytes], Path]) -> None:
    assert "expected the array 'a' in this zip" in refusal(write(saved(STATES)), "a")
    assert "expected an .npz with the array 'a'" in refusal(write(npy(STATES)), "a")


@pytest.mark.parametrize("path", ["missing.pruned_init", ".", "nul\0.pruned_init"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, path: str) -> None:
    assert "it cannot be read: " in refusal(tmp_path / path)


def test_every_cut_is_refused(write: Callable[[bytes], Path]) -> None:
    for data in (saved(STATES), npy(STATES)):
        for length in range(0, len(data), 7):
            refusal(write(data[:length]))


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_bomb_is_refused(write: Callable[[bytes], Path], monkeypatch: pytest.MonkeyPatch, compression: int) -> None:
    monkeypatch.setattr(init_states, "MAX_BYTES", 1 << 16)
    data = torch_zip(b"\x80\x02" + b"\0" * (1 << 22), compression)
    assert len(data) < 1 << 16
    # The other methods may make room for gigabytes before a byte is there.
    why = "expected up to 65536 bytes in 'archive/data.pkl', found more"
    told = why if compression == zipfile.ZIP_DEFLATED else "packed by another method than deflate"
    assert told in refusal(write(data))


def test_a_false_size_in_the_directory_is_refused(write: Callable[[bytes], Path]) -> None:
    data = saved(STATES)
    size = struct.pack("<I", len(pickle.dumps(STATES, 2)))
    assert data.count(size) == 4  # packed and unpacked, in the header and in the directory
    for claim in (0, 1, 0x7FFFFFFF):
        assert "damaged or cut off" in refusal(write(data.replace(size, struct.pack("<I", claim))))


def test_a_file_of_any_size_is_refused_without_reading_all(tmp_path: Path) -> None:
    file = tmp_path / "huge.npy"
    with file.open("wb") as stream:
        stream.write(b"PK\x03\x04")
        stream.truncate(1 << 40)
    assert "expected up to 67108864 bytes, found more" in refusal(file)
