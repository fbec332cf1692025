"""Pictures that cross a network in fewer bytes come out as they were; what is announced is checked first."""

import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pytest_vla.errors import WireError
from pytest_vla.serving import client, wire
from pytest_vla.serving.client import PAUSE, TIMED, Link, ServedPolicy
from pytest_vla.serving.process import PolicyProcess
from pytest_vla.serving.wire import (
    CODECS,
    LAST,
    LONGEST_MESSAGE,
    ROWS,
    ImageCompressor,
    ImageDecompressor,
    known_codecs,
)
from tests.support.examples import scaled
from tests.support.policy_processes import POLICIES, episode, policy_of, seen, start
from tests.support.waiting import HANG

CODEC = known_codecs()[0]
pictures = st.lists(
    st.dictionaries(
        st.sampled_from(["a", "b"]),
        arrays.arrays(
            st.sampled_from(["u1", "<u2", "<f4", ">f8", "<i8", "?", "<f2"]),
            arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=9),
            elements={"allow_nan": False},
        ),
    ),
    max_size=5,
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "_LEAST", 1)


@pytest.mark.parametrize("codec", known_codecs())
@given(pictures, st.data())
@settings(max_examples=scaled(60))
def test_arrays_of_any_kind_and_shape_come_as_they_were(codec: str, questions: list[Any], data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire, "_LEAST", 1)
        here, there = ImageCompressor(codec), ImageDecompressor()
        for question in questions:
            found = there.read(here.squeezed(question, data.draw(st.booleans())))
            assert list(found) == list(question)
            for name, array in question.items():
                assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
                assert found[name].tobytes() == array.tobytes()


def scene(moves: int) -> dict[str, np.ndarray]:
    """A camera that stands still and sees something, and one that turns."""
    generator = np.random.default_rng(0)
    still = generator.integers(0, 256, (64, 64, 3), dtype=np.uint8)
    still[moves : moves + 8] = 7
    steps = np.random.default_rng(moves).integers(0, 2, (64, 64, 3), dtype=np.uint8)
    turning = np.cumsum(steps, axis=0, dtype=np.uint8)
    return {"still": still, "turning": turning, "state": np.arange(8.0)}


def test_differences_are_taken_to_what_makes_them_less() -> None:
    here, there = ImageCompressor(CODEC), ImageDecompressor()
    for turn in range(5):
        sent = scene(turn)
        packed = here.squeezed(sent, is_first=turn == 0)
        assert len(packed["state"]) == 3, "not worth it"
        assert packed["still"][-1] == (LAST if turn else ROWS)
        assert packed["turning"][-1] == ROWS
        found = there.read(packed)
        assert all(np.array_equal(found[name], sent[name]) for name in sent)
    assert here.squeezed(scene(9), is_first=True)["still"][-1] == ROWS


def test_a_picture_that_is_drawn_over_does_not_matter() -> None:
    here, there = ImageCompressor(CODEC), ImageDecompressor()
    picture = np.zeros((64, 64, 3), np.uint8)
    for value in range(4):
        picture[:] = value * np.arange(64, dtype=np.uint8)[:, None, None]
        assert np.array_equal(there.read(here.squeezed({"p": picture}, False))["p"], picture)
    assert np.array_equal(there.read(here.squeezed({"p": picture[::2, ::-1]}, False))["p"], picture[::2, ::-1])


def test_without_zstandard_there_is_zlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert known_codecs() == ("zlib",)


class Never:
    """What must not be looked at."""


def packed(size: int = 64 * 64, **changed: Any) -> list[Any]:
    like: dict[str, Any] = {"kind": "|u1", "shape": [64, 64], "data": zlib.compress(bytes(size)), "codec": "zlib"}
    like = {**like, "way": ROWS, **changed}
    return list(like.values())


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"shape": [LONGEST_MESSAGE, 64], "data": Never()}, "more than 67108864 bytes are announced"),
        ({"shape": [2**40, 2**40], "data": Never()}, "more than 67108864 bytes are announced"),
        ({"size": 10**7}, "the data are not 4096 bytes"),
        ({"size": 4095}, "the data are not 4096 bytes"),
        ({"data": zlib.compress(bytes(4096)) + b"more"}, "the data are not 4096 bytes"),
        ({"data": zlib.compress(bytes(4096))[:-2]}, "the data are not 4096 bytes"),
        ({"data": b"nothing of the kind"}, "no arrays"),
        ({"data": 5}, "no arrays"),
        ({"shape": [0, 64], "data": zlib.compress(b"")}, "nobody squeezes 0 bytes"),
        ({"shape": [16384, 1], "size": 16384}, "nobody squeezes 16384 bytes"),
        ({"shape": [-1, 64]}, "-1 is no length"),
        ({"kind": "|O"}, "no type of numbers"),
        ({"codec": "lzma"}, "'lzma' is no codec"),
        ({"way": "sideways"}, "'sideways' is nothing"),
        ({"way": LAST}, "KeyError"),
    ],
)
def test_what_is_no_picture_is_refused_before_there_is_room_for_it(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(WireError, match=words):
        ImageDecompressor().read({"x": packed(**wrong)})


def test_the_last_picture_has_to_be_alike() -> None:
    there = ImageDecompressor()
    assert there.read({"x": packed()})["x"].shape == (64, 64)
    with pytest.raises(WireError, match=r"the last 'x' was uint8 \(64, 64\), not uint8 \(32, 128\)"):
        there.read({"x": packed(shape=[32, 128], way=LAST)})
    all_nonsense: list[Any] = ["nothing", [1], {"x": []}, {"x": [1, 2, 3, 4]}]
    for nonsense in all_nonsense:
        with pytest.raises(WireError, match="no arrays"):
            there.read(nonsense)


def test_many_arrays_are_counted_together() -> None:
    large = ["|u1", [LONGEST_MESSAGE // 2, 1], bytes(LONGEST_MESSAGE // 2)]
    with pytest.raises(WireError, match="bytes are announced"):
        ImageDecompressor().read({"a": large, "b": large, "c": ["|u1", [1], b"1"]})


@pytest.mark.skipif(len(known_codecs()) < len(CODECS), reason="zstandard is not installed")
@pytest.mark.parametrize("size", [4095, 4097, 10**8])
def test_zstds_frames_say_how_much_they_are(size: int) -> None:
    import zstandard

    for data in (zstandard.compress(bytes(size)), zstandard.ZstdCompressor(write_content_size=False).compress(b"x")):
        with pytest.raises(WireError, match="the data are not 4096 bytes"):
            ImageDecompressor().read({"x": packed(codec="zstd", data=data)})
    lies = bytearray(zstandard.compress(bytes(range(256)) * 16))
    lies[-20:] = bytes(20)
    with pytest.raises(WireError, match="no arrays"):
        ImageDecompressor().read({"x": packed(codec="zstd", data=bytes(lies))})


def asked(link: Link, raw: float, squeezed: float) -> str:
    """What a question's pictures went as; if it is timed, it took so long."""
    went = link.packed(scene(0), is_first=False)
    is_squeezed = len(went["still"]) > 3
    if link.is_timed:
        link.took(squeezed if is_squeezed else raw)
    return "s" if is_squeezed else "r"


def test_what_is_faster_is_chosen_and_chosen_again() -> None:
    link = Link(ImageCompressor(CODEC))
    measured = 2 * TIMED
    first = "".join(asked(link, 3.0, 2.0) for _ in range(2 + measured + PAUSE))
    assert first == "ss" + "rs" * TIMED + "s" * PAUSE
    assert link.squeezes
    second = "".join(asked(link, 1.0, 2.0) for _ in range(measured + PAUSE))
    assert second == "rs" * TIMED + "r" * PAUSE
    assert not link.is_timed


def test_one_that_has_no_codec_sends_them_as_they_are() -> None:
    link = Link(None)
    assert {asked(link, 2.0, 1.0) for _ in range(20)} == {"r"}
    assert link.squeezes is False


def test_answers_are_the_same_however_pictures_go(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "served_policies.py").write_text(POLICIES.replace(".mean()", ".sum()"))
    process: PolicyProcess = start("served_policies:counting", folder, 8, listen="127.0.0.1")
    assert process.network is not None
    monkeypatch.setattr(client, "is_this_host", lambda connection: False)
    near, far = policy_of(process), ServedPolicy(process.network, HANG)
    ways = set()
    for seed in range(2):
        sessions = near(episode(seed)), far(episode(seed))
        for step in range(PAUSE // 8):
            one, other = (session(seen(step)) for session in sessions)
            assert np.array_equal(one.actions, other.actions)
            ways.add(far._link._is_squeezed)
        for session in sessions:
            session.close()
    assert ways == {True, False}
    assert far._link.squeezes is not None
    process.close()
