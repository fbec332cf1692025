"""Files of demonstrations: what is read of them, and what is refused, by file, data set and expectation."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.policies import demonstrations
from pytest_vla.policies.demonstrations import DemonstrationFile, open_demonstrations
from tests.support.demonstration_files import Recorded, write_demonstrations
from tests.support.examples import scaled

RNG = np.random.default_rng(0)
XML = (
    '<mujoco><default><joint name="other"/></default><worldbody><body name="stove" pos="1 2 3" quat="0 0 0 1">'
    '<joint name="a"/></body><body name="rack" euler="1 2 3"><freejoint name="b"/></body></worldbody></mujoco>'
)


def a_demonstration(steps: int = 5) -> Recorded:
    return Recorded(RNG.normal(size=(steps, 7)), RNG.normal(size=(steps, 9)), XML)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_demonstrations(tmp_path / "a.hdf5", "turn_on", {0: a_demonstration(), 12: a_demonstration(3)})


def test_a_demonstration_is_read_as_it_was_written(tmp_path: Path) -> None:
    wanted = a_demonstration()
    found = open_demonstrations(write_demonstrations(tmp_path / "a.hdf5", "turn_on", {3: wanted, 0: wanted}))
    assert (found.task, found.numbers) == ("turn_on", (0, 3))
    read = found.read(3)
    assert np.array_equal(read.actions, wanted.actions)
    assert np.array_equal(read.states, wanted.states)
    assert (read.name, read.joints) == ("data/demo_3", ("a", "b"))
    assert {name: pose.tolist() for name, pose in read.bodies.items()} == {"stove": [1, 2, 3, 0, 0, 0, 1]}


def test_rows_of_what_was_observed_are_read_where_there_are_some(file: Path) -> None:
    with h5py.File(file, "a") as root:
        obs = root["data/demo_0/obs"]
        del obs["agentview_rgb"], root["data/demo_12/obs"]
        written = obs.create_dataset(
            "agentview_rgb", data=RNG.integers(0, 256, (5, 4, 6, 3), np.uint8), compression="gzip"
        )
        pictures = written[()]
        obs["ee_states"] = states = RNG.normal(size=(5, 6))
    read = open_demonstrations(file)
    found = read.read(0, range(3, 99)).observed
    assert found.keys() == {"agentview_rgb", "ee_states"}
    assert np.array_equal(found["agentview_rgb"], pictures[3:])
    assert np.array_equal(found["ee_states"], states[3:])
    assert read.read(12, range(9)).observed == {}


Change = Callable[[Any], None]


def replaced(name: str, make: Callable[[Any], object]) -> Change:
    def change(root: Any) -> None:
        del root[name]
        made = make(root)
        if made is not None:
            root[name] = made

    return change


def array(name: str, value: object, **how: Any) -> Change:
    return replaced(name, lambda root: root.create_dataset(name, data=value, **how) and None)


def attribute(name: str, value: object) -> Change:
    group, _, key = name.rpartition(".")
    return lambda root: root[group].attrs.__setitem__(key, value)


def virtual(root: Any) -> None:
    layout = h5py.VirtualLayout((5, 7), dtype="f8")
    layout[:] = h5py.VirtualSource("other.hdf5", "x", shape=(5, 7))
    root.create_virtual_dataset("data/demo_0/actions", layout)


def composite(kind: str, input_type: str) -> str:
    """What robosuite 1.5 says of its controllers, as in VLA-Arena's files."""
    arm = {"type": kind, "input_type": input_type}
    return json.dumps({"env_kwargs": {"controller_configs": {"type": "BASIC", "body_parts": {"right": arm}}}})


ACTIONS, STATES = "data/demo_0/actions", "data/demo_0/states"
FAULTY: dict[str, tuple[Change, str]] = {
    "no actions": (replaced(ACTIONS, lambda root: None), "data/demo_0/actions: expected a data set, found nothing"),
    "no states": (replaced(STATES, lambda root: None), "data/demo_0/states: expected a data set, found nothing"),
    "no data": (replaced("data", lambda root: None), "data: expected a group, found nothing"),
    "no demonstrations": (replaced("data/demo_0", lambda root: root.__delitem__("data/demo_12")), "demo_0, demo_1"),
    "a group for actions": (replaced(ACTIONS, lambda root: root.create_group(ACTIONS) and None), "expected a data set"),
    "six numbers": (array(ACTIONS, np.zeros((5, 6))), r"expected numbers \(n, 7\), found float64 \(5, 6\)"),
    "flat": (array(ACTIONS, np.zeros(7)), r"found float64 \(7,\)"),
    "empty": (array(ACTIONS, np.zeros((0, 7))), r"found float64 \(0, 7\)"),
    "texts": (array(ACTIONS, [["a"] * 7] * 5), "found object"),
    "references": (
        replaced(ACTIONS, lambda root: root.create_dataset(ACTIONS, (5, 7), h5py.ref_dtype) and None),
        "found object",
    ),
    "compounds": (array(ACTIONS, np.zeros((5, 7), [("a", "f8")])), "expected numbers"),
    "opaque": (array(ACTIONS, np.zeros((5, 7), h5py.opaque_dtype(np.dtype("M8[s]")))), "data/demo_0/actions"),
    "complex": (array(ACTIONS, np.zeros((5, 7), complex)), "expected numbers"),
    "nan": (array(ACTIONS, np.full((5, 7), np.nan)), "expected finite numbers, found .* in row 0"),
    "fewer states": (array(STATES, np.zeros((4, 9))), "expected a state for each of 5 actions, found 4"),
    "num_samples": (attribute("data/demo_0.num_samples", 6), "num_samples"),
    "external link": (replaced(ACTIONS, lambda root: h5py.ExternalLink("b.hdf5", "/a")), "found a ExternalLink"),
    "soft link": (replaced(ACTIONS, lambda root: h5py.SoftLink("/data/demo_12/actions")), "found a SoftLink"),
    "linked group": (replaced("data/demo_0", lambda root: h5py.ExternalLink("b.hdf5", "/")), "ExternalLink"),
    "external storage": (
        replaced(
            ACTIONS,
            lambda root: root.create_dataset(ACTIONS, (5, 7), "f8", external=[("/etc/passwd", 0, 280)]) and None,
        ),
        "found a reference to other files",
    ),
    "virtual": (replaced(ACTIONS, virtual), "found a reference to other files"),
    "huge": (replaced(ACTIONS, lambda root: root.create_dataset(ACTIONS, (10**12, 7), "f8") and None), "at most"),
    "huge chunks": (
        replaced(
            ACTIONS,
            lambda root: (
                root.create_dataset(ACTIONS, (5, 7), "f8", chunks=(10**7, 7), maxshape=(None, 7), compression="gzip")
                and None
            ),
        ),
        "at most",
    ),
    "a model of bytes": (attribute("data/demo_0.model_file", np.zeros(3)), "expected one value"),
    "no xml": (attribute("data/demo_0.model_file", "no xml"), "expected the XML of a MuJoCo model"),
    "a body nowhere": (
        attribute("data/demo_0.model_file", '<m><worldbody><body name="x" pos="1 nan 3"/></worldbody></m>'),
        "body 'x': expected 3 numbers as pos",
    ),
    "no JSON": (attribute("data.env_args", "{"), r"data\.env_args: expected JSON"),
    "10 Hz": (
        attribute("data.env_args", json.dumps({"env_kwargs": {"control_freq": 10}})),
        "found 10",
    ),
    "absolute": (
        attribute("data.env_args", json.dumps({"env_kwargs": {"controller_configs": {"control_delta": False}}})),
        "control_delta True, found False",
    ),
    "absolute actions of robosuite 1.5": (attribute("data.env_args", composite("OSC_POSE", "absolute")), "found False"),
    "joints of robosuite 1.5": (attribute("data.env_args", composite("JOINT_POSITION", "delta")), "type OSC_POSE"),
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_faulty_file_is_refused(file: Path, name: str) -> None:
    change, complaint = FAULTY[name]
    (file.parent / "b.hdf5").write_bytes(file.read_bytes())
    with h5py.File(file, "a") as root:
        change(root)
    with pytest.raises(VlaError, match=complaint) as refused:
        open_demonstrations(file).read(0)
    assert str(refused.value).startswith(str(file))


SCENE = "data/demo_0/obs/agentview_rgb"
OBSERVED: dict[str, tuple[Change, str]] = {
    "floats": (array(SCENE, np.zeros((5, 4, 4, 3))), f"{SCENE}: expected pictures .* of uint8, found float64"),
    "fewer": (
        array(SCENE, np.zeros((4, 4, 4, 3), np.uint8)),
        f"{SCENE}: expected a row for each of 5 actions, found 4",
    ),
    "elsewhere": (replaced(SCENE, lambda root: h5py.ExternalLink("b.hdf5", "/a")), f"{SCENE}: .* found a ExternalLink"),
    "huge": (
        replaced(SCENE, lambda root: root.create_dataset(SCENE, (5, 10_000, 10_000, 3), "u1") and None),
        f"{SCENE}: expected at most .* bytes at once",
    ),
}


@pytest.mark.parametrize("name", OBSERVED)
def test_what_was_observed_is_refused_if_it_is_faulty(file: Path, name: str) -> None:
    change, complaint = OBSERVED[name]
    with h5py.File(file, "a") as root:
        change(root)
    read = DemonstrationFile(file, "turn_on", (0,))
    with pytest.raises(VlaError, match=complaint):
        read.read(0, range(5))


@pytest.mark.parametrize("content", [b"", b"no HDF5", b"\x89HDF\r\n\x1a\n"])
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.hdf5").write_bytes(content)
    with pytest.raises(VlaError, match=r"a\.hdf5: the file: expected "):
        open_demonstrations(tmp_path / "a.hdf5")


def test_no_plain_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.hdf5")
    for path in (tmp_path / "a.hdf5", tmp_path, tmp_path / "none.hdf5"):
        with pytest.raises(VlaError, match=f"{path}: the file: expected"):
            open_demonstrations(path)


def test_a_file_that_is_cut_off_is_refused(file: Path) -> None:
    data = file.read_bytes()
    for size in (len(data) // 4, len(data) // 2, len(data) - 1):
        file.write_bytes(data[:size])
        with pytest.raises(VlaError, match=r"a\.hdf5: "):
            open_demonstrations(file).read(0)


def test_a_reader_that_does_not_end_is_ended(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demonstrations, "_PROGRAM", "while True: pass")
    monkeypatch.setattr(demonstrations, "_SECONDS", 0.2)
    with pytest.raises(VlaError, match="does not end"):
        open_demonstrations(file)


def test_a_reader_that_breaks_is_told(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demonstrations, "_PROGRAM", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    with pytest.raises(VlaError, match=r"its reader broke \(code -11\)"):
        open_demonstrations(file)


@settings(max_examples=scaled(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(8, 6000), st.integers(0, 255)), min_size=1, max_size=8))
def test_damaged_bytes_are_read_or_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch, changes: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr(demonstrations, "_SECONDS", 5)
    data = bytearray(file.read_bytes())
    for place, value in changes:
        data[place] = value
    damaged = file.with_name("damaged.hdf5")
    damaged.write_bytes(data)
    found, told = None, ""
    try:
        found = open_demonstrations(damaged).read(0)
    except VlaError as error:
        told = str(error)
    # HDF5 may die of a signal, such as the limit of time; an exception of the reader's own is a fault of ours.
    assert "its reader broke" not in told or "(code -" in told
    if found is not None:
        assert found.actions.shape[1] == 7
        assert np.isfinite(found.states).all()


def test_the_composite_controller_of_robosuite_1_5_is_read(tmp_path: Path) -> None:
    (tmp_path / "level_0").mkdir()
    with h5py.File(file := tmp_path / "level_0" / "x_demo.hdf5", "w") as root:
        root.create_group("data/demo_1")
        root["data"].attrs["env_args"] = composite("OSC_POSE", "delta")
    opened = open_demonstrations(file)
    assert (opened.task, opened.numbers, opened.level) == ("x", (1,), "L0")
