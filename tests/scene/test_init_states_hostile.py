"""Nothing that a file of init states says is ever run or believed."""

import importlib
import os
import pickle
import random
import struct
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.errors import SceneError
from pytest_vla.scene.init_states import read_init_states
from tests.support.examples import scaled
from tests.support.init_states import STATES, archive, npy, refusal, saved, torch_zip


class Call:
    """Pickles as a call of `function`; `protocol` 4 spells the name on the stack, 0 and 2 in a line."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.function, self.arguments


def attacks(marker: Path) -> dict[str, Any]:
    touch = f"open({str(marker)!r}, 'w')"
    return {
        "posix.system": Call(os.system, f"touch {marker}"),
        "builtins.eval": Call(eval, touch),
        "builtins.exec": Call(exec, touch),
        # io.open, from Python 3.12 on _io.open.
        f"{open.__module__}.open": Call(open, str(marker), "w"),
        "builtins.getattr": Call(getattr, Call(importlib.import_module, "os"), "system"),
        "numpy.load": Call(np.load, str(marker)),
        "numpy.fromfile": Call(np.fromfile, str(marker)),
        "numpy.array": Call(np.array, [1.0]),
        "_pickle.loads": Call(pickle.loads, b"cposix\nsystem\n."),
        "_codecs.decode": Call(__import__("codecs").decode, b"a", "rot13"),
    }


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("name", attacks(Path("x")))
@pytest.mark.parametrize("hide", ["alone", "list", "state"])
def test_calls_are_refused_by_name_and_not_run(
    write: Callable[[bytes], Path], tmp_path: Path, name: str, protocol: int, hide: str
) -> None:
    marker = tmp_path / "ran"
    attack = attacks(marker)[name]
    if hide == "list":
        data = pickle.dumps([STATES[0], attack], min(protocol, 4))
    elif hide == "state":
        # Where an element type has its name.
        data = pickle.dumps(Call(np.dtype, attack), protocol)
    else:
        data = pickle.dumps(attack, protocol)
    # Up to protocol 2, pickle writes Python 2's names.
    spelled = name.replace("builtins.", "__builtin__.").replace("_pickle.", "pickle.") if protocol == 2 else name
    message = refusal(write(torch_zip(data)))
    assert f"names {spelled!r}, which init states do not need; it is refused and was not run" in message
    assert not marker.exists()


def test_the_attacks_would_work(tmp_path: Path) -> None:
    """Else the test above could not fail."""
    for name in ("posix.system", "builtins.eval"):
        marker = tmp_path / name
        pickle.loads(pickle.dumps(attacks(marker)[name], 2))
        assert marker.exists()


def test_no_named_module_is_imported(
    write: Callable[[bytes], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil_module.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    message = refusal(write(torch_zip(b"\x80\x02cevil_module\nrun\n.")))
    assert "'evil_module.run'" in message
    assert "evil_module" not in sys.modules


def test_tensors_are_refused_by_name(write: Callable[[bytes], Path]) -> None:
    data = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nq\x00((X\x07\x00\x00\x00storageq\x01ctorch\nDoubleStorage\n."
    assert "'torch._utils._rebuild_tensor_v2'" in refusal(write(torch_zip(data)))


ARRAY = b"cnumpy.core.multiarray\n_reconstruct\n"
NDARRAY = b"cnumpy\nndarray\n"
DTYPE = b"cnumpy\ndtype\n"
ENCODE = b"c_codecs\nencode\n"
F8 = DTYPE + b"X\x02\x00\x00\x00f8\x85R(K\x03X\x01\x00\x00\x00<tb"
EMPTY = ARRAY + NDARRAY + b"K\x00\x85U\x01b\x87R"
NEW = ARRAY + b")R"  # an array of no content
BYTES16 = b"C\x10" + struct.pack("<dd", 1.0, 2.0)


def integer(value: int) -> bytes:
    data = value.to_bytes((value.bit_length() + 8) // 8, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def filled(shape: bytes, dtype: bytes = F8, fortran: bytes = b"\x89", content: bytes = BYTES16) -> bytes:
    return b"\x80\x03" + NEW + b"(K\x01" + shape + dtype + fortran + content + b"tb."


def test_the_hand_made_pickle_is_an_array(write: Callable[[bytes], Path]) -> None:
    """Else those below would be refused for the wrong reason."""
    np.testing.assert_array_equal(read_init_states(write(torch_zip(filled(b"K\x01K\x02\x86")))), [[1.0, 2.0]])


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"", "damaged or cut off"),
        (b"\x80\x02.", "damaged or cut off (IndexError"),
        (b"\x80\x02K\x01.", "expected an array or a list of vectors, found int"),
        (b"\x80\x02].", "expected an array or a list of vectors, found list"),
        (b"\x80\x02" + NEW + b".", "expected an array or a list of vectors, found Array"),
        (b"\x80\x02" + F8 + b".", "expected an array or a list of vectors, found Dtype"),
        (b"\x80\x02" + NDARRAY + b".", "expected an array or a list of vectors, found Name"),
        (b"\x80\x02" + NDARRAY + b"K\x05\x85R.", "calls numpy's reconstructors only"),
        (b"\x80\x02K\x05K\x05\x85R.", "calls numpy's reconstructors only"),
        (b"\x80\x02" + ARRAY + b"K\x05R.", "calls numpy's reconstructors only"),
        (b"\x80\x02" + ENCODE + b"X\x01\x00\x00\x00aX\x05\x00\x00\x00rot13\x86R.", "bytes written as latin1 text"),
        (b"\x80\x02" + ENCODE + b"K\x01X\x06\x00\x00\x00latin1\x86R.", "bytes written as latin1 text"),
        (b"\x80\x02" + ARRAY + b"K\x01\x85b.", "fills arrays only"),
        (b"\x80\x02" + NEW + b"K\x01b.", "fills arrays only"),
        (b"\x80\x02" + NEW + b"K\x01\x85b.", "damaged or cut off (ValueError"),
        (b"\x80\x02" + NEW + b"K\x01a.", "appends to lists only"),
        (b"\x80\x02" + NEW + b"(K\x01e.", "appends to lists only"),
        (b"\x80\x02}.", "uses the instruction EMPTY_DICT, which no array of numbers needs"),
        (b"\x80\x02" + NDARRAY + b")\x81.", "uses the instruction NEWOBJ"),
        (b"\x80\x02X\x01\x00\x00\x00aQ.", "uses the instruction BINPERSID"),
        (b"\x80\x02(ios\nsystem\n.", "uses the instruction INST"),
        (b"\x80\x02\x82\x01.", "uses the instruction EXT1"),
        (b"\x80\x04K\x01K\x02\x93.", "spells the names"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "names 'os.system'"),
        (b"\x80\x02h\x05.", "damaged or cut off (KeyError"),
        (b"\x80\x02\x8e\xff\xff\xff\xff\xff\xff\xff\x7fabc", "damaged or cut off"),
        (b"\x80\x02" + b"K\x01" * 200_000 + b".", "up to 100000 instructions"),
        (b"\x80\x02K\x01r\xff\xff\xff\xff.", "found int"),
        (b"\x80\x02" + b"\x86".join([b"))"] + [b"q\x00h\x00"] * 60) + b"\x86.", "found tuple"),
        (filled(b"K\x01K\x02\x86", dtype=b"K\x08"), "expected an array with an element type"),
        (
            filled(
                b"K\x01K\x02\x86", dtype=DTYPE + b"X\x02\x00\x00\x00O8\x85R(K\x03X\x01\x00\x00\x00|tb", content=b"]"
            ),
            "found elements of type 'O8' kept in list",
        ),
        (filled(b"K\x01K\x02\x86", dtype=DTYPE + b"X\x02\x00\x00\x00f8\x85R"), ""),
        (filled(b"K\x01K\x04\x86", dtype=F8.replace(b"f8", b"f4")), "expected float64 (<f8), found elements of type"),
        (filled(b"K\x01K\x02\x86", dtype=F8.replace(b"f8", b"i8")), "found elements of type '<i8'"),
        (filled(b"K\x01K\x02\x86", dtype=F8.replace(b"f8", b"c8")), "found elements of type '<c8'"),
        (filled(b"K\x01K\x02\x86", fortran=b"K\x07"), "expected plain numbers"),
        (filled(b"K\x01K\x02\x86", content=b"X\x02\x00\x00\x00ab"), "kept in 'ab'"),
        (filled(b"K\x02"), "expected a shape of integers"),
        (filled(b"K\x02\x88\x86"), "expected a shape of integers"),
        (filled(b")"), "found 0 dimensions"),
        (filled(b"K\x01K\x01K\x02\x87"), "found 3 dimensions"),
        (filled(b"K\x00K\x02\x86", content=b"C\x00"), "found an empty one or one that cannot be"),
        (filled(b"J\xff\xff\xff\xffJ\xfe\xff\xff\xff\x86"), "found an empty one or one that cannot be"),
        (filled(b"K\x02K\x02\x86"), "expected 32 bytes for the shape (2, 2), found 16"),
        (filled(b"K\x01K\x01\x86"), "expected 8 bytes for the shape (1, 1), found 16"),
        (filled(integer(10**6) + integer(10**6) + b"\x86"), "expected 8000000000000 bytes for the shape"),
        (filled(integer(2**61) + integer(8) + b"\x86"), "one that cannot be"),
        (filled(integer(10**500) + integer(10**500) + b"\x86"), "one that cannot be"),
        (filled(b"K\x01K\x02\x86", content=b"C\x10" + struct.pack("<dd", 1, np.nan)), "found nan in state 0, column 1"),
        (filled(b"K\x02K\x01\x86", content=b"C\x10" + struct.pack("<dd", 1, np.inf)), "found inf in state 1, column 0"),
    ],
)
def test_hostile_and_broken_pickles(write: Callable[[bytes], Path], data: bytes, part: str) -> None:
    file = write(torch_zip(data))
    if not part:
        assert read_init_states(file).shape == (1, 2)  # numpy's native order, as written without a state
        return
    assert part in refusal(file)


def header(text: str, version: int = 1) -> bytes:
    data = text.encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(data)) + data


GOOD = "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2), }"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_hand_made_npy_is_an_array(write: Callable[[bytes], Path], version: int) -> None:
    file = write(header(GOOD, version) + struct.pack("<dd", 1.0, 2.0))
    np.testing.assert_array_equal(read_init_states(file), [[1.0, 2.0]])


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"\x93NUMPY", "header of version 1 to 3"),
        (header(GOOD, 4), "header of version 1 to 3"),
        (b"\x93NUMPY\x02\x00\x00", "header of version 1 to 3"),
        (header(GOOD)[:40], "cut off or too long"),
        (header(GOOD + " " * 20_000), "cut off or too long"),
        (header(GOOD), "expected 16 bytes for the shape (1, 2), found 0"),
        (header(GOOD) + b"a" * 17, "expected 16 bytes for the shape (1, 2), found 17"),
        (header(GOOD.replace("(1, 2)", "(1000000, 60000000)")), "expected 480000000000000 bytes"),
        (header(GOOD.replace("(1, 2)", f"(0x{'f' * 5000}, 2)")), "one that cannot be"),
        (header(GOOD.replace("(1, 2)", "(True, 2)")), "expected a shape of integers"),
        (header(GOOD.replace("(1, 2)", "[1, 2]")), "expected a shape of integers"),
        (header(GOOD.replace("'<f8'", "'|O'")), "found elements of type '|O'"),
        (header(GOOD.replace("'<f8'", "[('a', '<f8')]")), "found elements of type list"),
        (header("[]"), "not the dictionary that numpy writes"),
        (header("{}"), "not the dictionary that numpy writes"),
        (header("__import__('os').system('false')"), "not the dictionary that numpy writes"),
        (header("(" * 9000), "not the dictionary that numpy writes"),
        (header("-" * 9000 + "1"), "not the dictionary that numpy writes"),
        (header("\0"), "not the dictionary that numpy writes"),
    ],
)
def test_hostile_and_broken_npy_files(write: Callable[[bytes], Path], data: bytes, part: str) -> None:
    assert part in refusal(write(data))


def test_claims_allocate_nothing(write: Callable[[bytes], Path]) -> None:
    """A little file that says much: peak memory stays that of a little file."""
    text = b"X" + struct.pack("<I", 1 << 20) + b"a" * (1 << 20) + b"q\x00"
    encode = ENCODE + b"q\x01h\x00X\x06\x00\x00\x00latin1q\x02\x86R"
    again = b"h\x01h\x00h\x02\x86R"
    block = b"(K\x01" + integer(1 << 17) + b"\x85" + F8 + b"\x89h\x03tb"
    claims = {
        "shape": torch_zip(filled(integer(1 << 24) + integer(1 << 24) + b"\x86")),
        "npy": header(GOOD.replace("(1, 2)", f"({1 << 25}, 1)")),
        "memo": torch_zip(b"\x80\x02K\x01r\xff\xff\xff\x7f."),
        "bytes": torch_zip(b"\x80\x02B\xff\xff\xff\x7fabc."),
        "bytearray": torch_zip(b"\x80\x05\x96\xff\xff\xff\xff\x0f\x00\x00\x00abc."),
    }
    for name, data in claims.items():
        file = write(data)
        tracemalloc.start()
        try:
            refusal(file)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 1 << 22, name
    # One text, encoded again and again; one block of bytes, in array after array.
    assert "of init states, found more" in refusal(write(torch_zip(b"\x80\x02" + text + encode + again * 100 + b".")))
    rows = NEW + block
    shared = b"\x80\x02" + text + encode + b"q\x03]" + (rows + b"a") * 100 + b"."
    assert "of init states, found more" in refusal(write(torch_zip(shared)))


# --- any input ---


def check_any(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    message = ""
    try:
        states = read_init_states(file)
    except SceneError as error:
        message = str(error)
    if message:
        assert message.startswith(f"{file}: ")
        return
    assert states.ndim == 2
    assert states.dtype == np.float64
    assert np.isfinite(states).all()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "any.pruned_init"


@given(prefix=st.sampled_from([b"", b"PK\x03\x04", b"PK\x05\x06", b"\x93NUMPY\x01\x00"]), data=st.binary())
def test_any_bytes_are_states_or_an_error(scratch: Path, prefix: bytes, data: bytes) -> None:
    check_any(scratch, prefix + data)


@given(data=st.binary())
def test_any_pickle_is_states_or_an_error(scratch: Path, data: bytes) -> None:
    check_any(scratch, torch_zip(b"\x80\x04" + data))


OPERATIONS = [
    ARRAY,
    NDARRAY,
    DTYPE,
    ENCODE,
    F8,
    EMPTY,
    NEW,
    BYTES16,
    b"cos\nsystem\n",
    b"X\x06\x00\x00\x00latin1",
    b"(",
    b"t",
    b"\x85",
    b"\x86",
    b"\x87",
    b")",
    b"]",
    b"a",
    b"e",
    b"b",
    b"R",
    b"N",
    b"\x88",
    b"\x89",
    b"K\x01",
    b"K\x02",
    b"q\x00",
    b"h\x00",
    b"\x94",
    b"\x93",
    b"0",
    b"2",
    b"}",
]


@given(parts=st.lists(st.sampled_from(OPERATIONS), max_size=30))
@settings(max_examples=scaled(300))
def test_any_program_is_states_or_an_error(scratch: Path, parts: list[bytes]) -> None:
    check_any(scratch, torch_zip(b"\x80\x04" + b"".join(parts) + b"."))


@pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning:pickletools")
@pytest.mark.parametrize("source", ["zip", "pickle2", "pickle4", "npy", "npz", "list"])
def test_a_changed_file_is_states_or_an_error(scratch: Path, source: str) -> None:
    rng = random.Random(source)
    wrap: Callable[[bytes], bytes] = torch_zip if source in ("pickle2", "pickle4", "list") else bytes
    data = {
        "zip": saved(STATES),
        "pickle2": pickle.dumps(STATES, 2),
        "pickle4": pickle.dumps(STATES, 4),
        "list": pickle.dumps(list(STATES[:2]), 2),
        "npy": npy(STATES),
        "npz": archive(**{"a.npy": npy(STATES)}),
    }[source]
    for _ in range(400):
        changed = bytearray(data)
        for _ in range(rng.choice([1, 1, 2, 8])):
            # Half of the changes near the start, where the structure is.
            place = rng.randrange(len(changed) if rng.random() < 0.5 else min(len(changed), 120))
            match rng.randrange(4):
                case 0:
                    changed[place] = rng.randrange(256)
                case 1:
                    changed[place] ^= 1 << rng.randrange(8)
                case 2:
                    del changed[place : place + rng.randrange(1, 9)]
                case _:
                    changed[place:place] = rng.randbytes(rng.randrange(1, 9))
        check_any(scratch, wrap(bytes(changed)))
