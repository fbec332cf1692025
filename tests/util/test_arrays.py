"""Arrays of files from elsewhere are read as data, within bounds; whatever else is there is one kind of error."""

import io
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pytest_vla.errors import VlaError
from pytest_vla.policies.random_and_replay import replay_policy
from pytest_vla.records.trajectory import load_trajectory, trajectory_outcome
from pytest_vla.util.arrays import MAX_MEMBERS, Unfit, read_npz
from tests.support.examples import scaled


def npz(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def header(shape: str, dtype: str = "'<f8'") -> bytes:
    text = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def zipped(content: bytes, method: int = zipfile.ZIP_DEFLATED, name: str = "actions.npy") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr(name, content)
    return stream.getvalue()


SOUND = npz(actions=np.ones((5, 7)), outcome=np.array("success"))


TYPES = st.sampled_from(["<f8", ">f4", "<i8", "|b1", "<U3", "|u1"])


@given(hnp.arrays(TYPES, hnp.array_shapes(min_dims=0, min_side=0)))
@settings(max_examples=scaled(50))
def test_what_numpy_wrote_is_read(tmp_path_factory: pytest.TempPathFactory, array: Any) -> None:
    file = tmp_path_factory.mktemp("a") / "a.npz"
    np.savez(file, a=array, b=np.asfortranarray(array))
    found = read_npz(file, ["a", "b"])
    for read in found.values():
        np.testing.assert_array_equal(read, array)
        assert read.flags.writeable
        assert read.dtype.isnative


HOSTILE = {
    "a shape that nothing can hold": zipped(header("(1000000000, 7)")),
    "a negative shape": zipped(header("(-1, 7)")),
    "a shape of 400 digits": zipped(header(f"({'9' * 400}, 7)")),
    "a shape of nested brackets": zipped(header("(" * 900 + ")" * 900)),
    "a header that ends within a text": zipped(header("'")),
    "a header of control characters": zipped(header("\0\x1b[2J")),
    "objects": zipped(header("(1,)", "'|O'") + b"\x80\x04N."),
    "a structured type": zipped(header("(1,)", "[('a', '<f8')]") + bytes(8)),
    "a version of a later numpy": zipped(b"\x93NUMPY\x09\x00" + bytes(100)),
    "no array": zipped(b"hello"),
    "another array": npz(other=np.ones((5, 7))),
    "another method": zipped(b"\x93NUMPY", zipfile.ZIP_LZMA),
    "a text": b"hello",
    "nothing": b"",
    "a later version of zip": re.sub(rb"(PK\x01\x02..)..", b"\\1\xaa\x00", SOUND, flags=re.DOTALL),
    "encrypted": SOUND.replace(b"\x00\x00\x08\x00", b"\x01\x00\x08\x00"),
    "many members": SOUND + b"PK\x01\x02" * (MAX_MEMBERS + 1),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_no_array_is_one_error(tmp_path: Path, what: str) -> None:
    file = tmp_path / "a.npz"
    file.write_bytes(HOSTILE[what])
    with pytest.raises(Unfit):
        read_npz(file, ["actions"])
    with pytest.raises(VlaError, match=r"a\.npz: expected an npz file with actions"):
        replay_policy(file)
    with pytest.raises(VlaError, match=r"a\.npz: expected an npz file with qpos"):
        load_trajectory(file)
    assert trajectory_outcome(file) in (None, "success")


def test_every_cut_and_every_flipped_byte_is_an_array_or_an_error(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    read = 0
    for at in range(len(SOUND)):
        flipped = bytearray(SOUND)
        flipped[at] ^= 0x55
        for data in (SOUND[:at], bytes(flipped)):
            file.write_bytes(data)
            try:
                read += read_npz(file, ["actions"])["actions"].shape == (5, 7)
            except Unfit:
                continue
    assert read


def test_a_bomb_takes_no_more_memory_than_the_bound(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    # Half a megabyte that inflates to half a gigabyte.
    stream = io.BytesIO()
    with (
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive,
        archive.open("actions.npy", "w", force_zip64=True) as member,
    ):
        member.write(header("(67108864, 1)"))
        for _ in range(32):
            member.write(bytes(16 << 20))
    file.write_bytes(stream.getvalue())
    assert file.stat().st_size < 1_000_000
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_DATA, (700 << 20, 700 << 20))\n"
        "from pytest_vla.util.arrays import Unfit, read_npz\n"
        "try: read_npz(sys.argv[1], ['actions'])\n"
        "except Unfit as error: print(error)"
    )
    told = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True, check=True)
    assert told.stdout == "expected up to 268435456 bytes in 'actions.npy', found more\n"


def test_what_is_no_plain_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.npz")
    with pytest.raises(Unfit, match="no plain file"):
        read_npz(tmp_path / "a.npz", ["actions"])
    with pytest.raises(Unfit, match="cannot be read: No such file"):
        read_npz(tmp_path / "b.npz", ["actions"])


def test_actions_of_texts_and_of_odd_shapes_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    for actions in (np.array("x"), np.array([["x"] * 7]), np.ones(7), np.ones((2, 0)), np.ones((1, 2, 7))):
        np.savez(file, actions=actions)
        with pytest.raises(VlaError, match=r"expected numbers \(n, 7\)"):
            replay_policy(file)
