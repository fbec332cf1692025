"""Demonstrations in LIBERO's HDF5 layout, read as data: no link is followed, no other file opened, no claim allocates.

The HDF5 library loops without end, or breaks its process, on some damaged files. So it runs in a process of its own,
which has limits of time and memory.

A file has one task's demonstrations, ``data/demo_K``, each with ``actions`` (n, 7), ``states`` (n, 1+nq+nv) and the
attribute ``model_file``, the XML of the episode's compiled model. A state is [time, qpos, qvel] before its row's
action: robosuite's recorder keeps the state of the reset and one after each step, and drops the last. LIBERO's files
lack the first five rows, so their first state was recorded while the controller ran, and its time is 0.25 s. What was
observed, ``data/demo_K/obs``, is of the moment after its row's action in LIBERO's files, and before it in those of
OpenVLA's script. Sources: robosuite 1.4.0, ``wrappers/data_collection_wrapper.py``; LIBERO,
``scripts/collect_demonstration.py`` and ``scripts/create_dataset.py``; OpenVLA,
``experiments/robot/libero/regenerate_libero_dataset.py``.

VLA-Arena's files are of the same layout, in folders ``level_0`` and ``level_1``; the wrist's pictures are called
``robot0_eye_in_hand_rgb``. Those of its regenerating script, as of OpenVLA's, have neither ``model_file`` nor
``bddl_file_name``: the file's name says the task, and where fixtures stood is not known. Source: VLA-Arena at 34b8942,
``scripts/group_create_dataset.py`` and ``scripts/regenerate_dataset.py``.
"""

import json
import math
import os
import re
import resource
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any
from xml.etree.ElementTree import ParseError

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.policies.fit import ACTION_SIZE
from pytest_vla.records.checks import parse_json
from pytest_vla.util.arrays import MAX_BYTES, Unfit, unpacked_npz
from pytest_vla.util.documents import parse_xml
from pytest_vla.util.extras import required
from pytest_vla.util.text import counted, printable

SUFFIXES = (".hdf5", ".h5")
"""The ends of names of such files."""

MOST_FILES = 1000
"""Of a folder."""

Array = NDArray[np.float64]

_INSTALL = "pip install 'pytest-vla[demos]'"
_MAGIC = b"\x89HDF\r\n\x1a\n"
_MOST_DEMONSTRATIONS, _MOST_STEPS, _MOST_COLUMNS, _MOST_TEXT = 10_000, 100_000, 10_000, 16 * 1024 * 1024
# Of ``obs``: vectors, by their size, and pictures.
_VECTORS = {"ee_states": 6, "gripper_states": 2, "joint_states": 7}
_PICTURES = ("agentview_rgb", "eye_in_hand_rgb")
_OTHER_NAMES = {"eye_in_hand_rgb": "robot0_eye_in_hand_rgb"}
_OBS = "obs/"
_NAME = re.compile(r"demo_([0-9]{1,9})")
_LEVEL = re.compile(r"[/\\]level_([0-9])(?=[/\\])")
# Deflate, shuffle, Fletcher's checksum, szip, n-bit, scale-offset and lzf. For any other filter HDF5 loads code from a
# folder of plugins.
_FILTERS = frozenset((1, 2, 3, 4, 5, 6, 32000))
_TURNED = ("axisangle", "xyaxes", "zaxis", "euler")
_CONTROL = {"type": "OSC_POSE", "control_delta": True}
_CONTROL_HZ = 20


@dataclass(frozen=True)
class Demonstration:
    """A recorded episode.

    Attributes:
        name: its place in the file, ``data/demo_3``.
        actions: (n, 7), relative poses of robosuite's OSC_POSE and the gripper, as executed.
        states: (n, 1+nq+nv), [time in s, qpos, qvel] before each action.
        joints: the names of the model's joints, in the order of qpos; empty if the file has no model.
        bodies: the pose of each body in its parent (7,), position in m and quaternion wxyz, by name; without bodies
            whose pose the XML writes otherwise; empty if the file has no model.
        observed: the rows of ``obs`` that were asked for, by name, of those that it has: ``agentview_rgb`` and
            ``eye_in_hand_rgb`` (k, H, W, 3) uint8, as MuJoCo renders them, upside down; ``ee_states`` (k, 6), position
            in m and axis-angle in rad; ``gripper_states`` (k, 2) in m; ``joint_states`` (k, 7) in rad.
    """

    name: str
    actions: Array
    states: Array
    joints: tuple[str, ...]
    bodies: Mapping[str, Array]
    observed: Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class DemonstrationFile:
    """A file of demonstrations of one task.

    Attributes:
        path: the file.
        task: the name of the task's file, without its ending.
        numbers: of its demonstrations, in order.
        level: of VLA-Arena's tasks: ``L0`` for a file in a folder ``level_0``, or of a task file there; else empty.
    """

    path: Path
    task: str
    numbers: tuple[int, ...]
    level: str = ""

    def is_of(self, name: str, level: str) -> bool:
        """Whether it demonstrates a task of this name and level; names of tasks have no commas, and files' may."""
        return name == self.task.replace(",", "") and (not self.level or not level or level == self.level)

    def read(self, number: int, rows: range = range(0)) -> Demonstration:
        """Read ``data/demo_NUMBER``.

        Args:
            number: one of `numbers`.
            rows: of what was observed, as far as it has them; at most `MAX_BYTES` of each camera.

        Raises:
            VlaError: it names the file, the data set and what was expected.
        """
        name = f"data/demo_{number}"
        found = _read_apart(self.path, number, rows)
        place = f"{self.path}: {name}.model_file"
        if "xml" not in found:
            return Demonstration(name, found["actions"], found["states"], (), {}, _observed_by_name(found))
        try:
            world = parse_xml(found["xml"].tobytes()).find("worldbody")
        except (ParseError, ValueError) as error:
            raise VlaError(f"{place}: expected the XML of a MuJoCo model: {error}") from error
        elements = [] if world is None else list(world.iter())
        joints = tuple(each.get("name", "") for each in elements if each.tag in ("joint", "freejoint"))
        bodies = {}
        for body in elements:
            if body.tag == "body" and body.get("name") and not any(form in body.attrib for form in _TURNED):
                pose = _pose(body.get("pos", "0 0 0"), body.get("quat", "1 0 0 0"))
                if pose is None:
                    raise VlaError(f"{place}: body {body.get('name')!r:.80}: expected 3 numbers as pos and 4 as quat")
                bodies[body.get("name", "")] = pose
        return Demonstration(name, found["actions"], found["states"], joints, bodies, _observed_by_name(found))


def _observed_by_name(found: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {each: found[_OBS + each] for each in (*_PICTURES, *_VECTORS) if _OBS + each in found}


def open_demonstrations(path: Path) -> DemonstrationFile:
    """Read what a file says of itself.

    Raises:
        VlaError: h5py is not installed; there is no such file; or it is no HDF5 file of this layout, cut off, or of
            another robot, controller or control rate. The message names the file, the data set and what was expected.
    """
    found = _read_apart(path, None)
    place = found["task"].tobytes().decode() or path.as_posix()
    task = re.split(r"[/\\]", place)[-1].removesuffix(".bddl").removesuffix(path.suffix).removesuffix("_demo")
    level = read_level(place) or read_level(path.absolute().as_posix())
    return DemonstrationFile(path, task, tuple(map(int, found["numbers"])), level)


def demonstration_files(path: Path) -> list[Path]:
    """Return a file of demonstrations itself, or those in a folder and in the folders in it; none for anything else."""
    if path.is_dir():
        found = (
            file
            for depth in ("*", "*/*")
            for file in sorted(each for each in path.glob(depth) if each.suffix in SUFFIXES)
        )
        return list(islice(found, MOST_FILES))
    return [path] if path.suffix in SUFFIXES else []


def is_named(file: Path, task: str) -> bool:
    """Whether a file's name says that it demonstrates a task: ``TASK_demo.hdf5``; names of tasks have no commas."""
    return file.stem.removesuffix("_demo").replace(",", "") == task


def read_level(place: str) -> str:
    """Return the level in a path, ``L0`` for one in a folder ``level_0``, or an empty text."""
    found = _LEVEL.findall(place)
    return f"L{found[-1]}" if found else ""


def without_h5py() -> None:
    """Raise VlaError if h5py is not installed; the message says how to install it."""
    required("h5py", _INSTALL)


# A process that only reads: what it found, or the fault, is an npz file at its standard output.


def _read_apart(path: Path, number: int | None, rows: range = range(0)) -> dict[str, NDArray[Any]]:
    """Return the arrays of a demonstration, or of the file itself if the number is None. Raises VlaError."""
    without_h5py()
    about = json.dumps([sys.path, os.fspath(path), [number, rows.start, rows.stop]])
    command = [sys.executable, "-c", _PROGRAM, about]
    try:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False)
        found = unpacked_npz(ended.stdout, (), 3 * MAX_BYTES, also=lambda name: True)
    except subprocess.TimeoutExpired as error:
        raise VlaError(f"{path}: expected LIBERO's HDF5 of demonstrations; reading it does not end") from error
    except Unfit as error:
        told = printable(ended.stderr.decode("utf-8", "replace").strip()[-200:]) or f"code {ended.returncode}"
        raise VlaError(f"{path}: expected LIBERO's HDF5 of demonstrations; its reader broke ({told})") from error
    if "fault" in found:
        raise VlaError(f"{path}: {found['fault'].tobytes().decode()}")
    return found


_SECONDS, _MOST_MEMORY = 60, 4 * 1024**3
_PROGRAM = (
    "import json, sys; path, file, asked = json.loads(sys.argv[1]); sys.path[:] = path; "
    "from pytest_vla.policies.demonstrations import write_contents; write_contents(file, sys.stdout.buffer, *asked)"
)


def write_contents(path: str, stream: IO[bytes], number: int | None, *rows: int) -> None:
    """Write an npz file of what a file has, or of ``fault``, within limits of time and memory of this whole process."""
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with _opened(Path(path)) as root:
            found = _contents(root) if number is None else _demonstration(root, number, *rows)
    except _Faulty as error:
        found = {"fault": _bytes(str(error))}
    np.savez(stream, allow_pickle=False, **found)


def _contents(root: Any) -> dict[str, NDArray[Any]]:
    data = _linked(root, "data", "Group", "")
    if len(data) > _MOST_DEMONSTRATIONS:
        raise _Faulty("data", f"at most {_MOST_DEMONSTRATIONS} demonstrations", len(data))
    numbers = sorted(int(found[1]) for name in data if (found := _NAME.fullmatch(str(name))))
    if not numbers:
        raise _Faulty("data", "groups demo_0, demo_1, ...", "none")
    is_told = _attribute(data, "data", "bddl_file_name") is not None
    task = _text(data, "data", "bddl_file_name") if is_told else ""
    if _attribute(data, "data", "env_args") is not None:
        _check_control(_text(data, "data", "env_args"))
    return {"task": _bytes(task), "numbers": np.array(numbers)}


def _demonstration(root: Any, number: int, first: int, last: int) -> dict[str, NDArray[Any]]:
    name = f"data/demo_{number}"
    group = _linked(_linked(root, "data", "Group", ""), f"demo_{number}", "Group", "data/")
    actions = _numbers(group, name, "actions", ACTION_SIZE)
    states = _numbers(group, name, "states", None)
    if len(actions) != len(states):
        raise _Faulty(f"{name}/states", f"a state for each of {len(actions)} actions", len(states))
    if (samples := _attribute(group, name, "num_samples")) is not None and samples != len(actions):
        raise _Faulty(f"{name}/actions", f"num_samples, {samples!r:.40}, of them", len(actions))
    found: dict[str, NDArray[Any]] = {"actions": actions, "states": states}
    if _attribute(group, name, "model_file") is not None:
        found["xml"] = _bytes(_text(group, name, "model_file"))
    if first < last and group.get("obs", getlink=True) is not None:
        found |= _observed(_linked(group, "obs", "Group", f"{name}/"), f"{name}/obs", len(actions), first, last)
    return found


def _observed(obs: Any, within: str, rows: int, first: int, last: int) -> dict[str, NDArray[Any]]:
    found = {}
    for name in (*_PICTURES, *_VECTORS):
        names = (each for each in (name, _OTHER_NAMES.get(name, name)) if obs.get(each, getlink=True) is not None)
        if (theirs := next(names, None)) is not None:
            is_picture = name in _PICTURES
            array = _pictures(obs, within, theirs) if is_picture else _numbers(obs, within, theirs, _VECTORS[name])
            if len(array) != rows:
                raise _Faulty(f"{within}/{theirs}", f"a row for each of {rows} actions", len(array))
            if (size := (min(last, rows) - first) * math.prod(array.shape[1:])) > MAX_BYTES:
                raise _Faulty(f"{within}/{theirs}", f"at most {MAX_BYTES} bytes at once", size)
            found[_OBS + name] = array[first:last]
    return found


def _pictures(group: Any, within: str, name: str) -> Any:
    """Return a data set of pictures (n, H, W, 3), not yet read."""
    expected = "pictures (n, height, width, 3) of uint8"
    found = _plain_dataset(group, within, name, expected)
    if found.dtype != np.uint8 or len(found.shape or ()) != 4 or found.shape[3] != 3 or not all(found.shape):
        raise _Faulty(f"{within}/{name}", expected, f"{found.dtype} {found.shape}")
    if math.prod(found.chunks or ()) > MAX_BYTES or len(found) > _MOST_STEPS:
        raise _Faulty(f"{within}/{name}", f"at most {_MOST_STEPS} pictures, {MAX_BYTES} bytes a chunk", found.shape)
    return found


def _bytes(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode("utf-8", "replace"), dtype=np.uint8)


class _Faulty(Exception):
    """A part of the file is not as expected."""

    def __init__(self, where: str, expected: str, found: object) -> None:
        super().__init__(f"{where}: expected {expected}, found {printable(str(found))[:200]}")


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a file's root. Raises _Faulty for anything that is wrong with it within the block."""
    import h5py

    try:
        # A pipe would block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise _Faulty("the file", "a plain file", "another one")
            if (begin := file.read(len(_MAGIC))) != _MAGIC:
                raise _Faulty("the file", "an HDF5 file", f"one that starts with {begin!r}")
        # Without a lock it can be read from a folder that is read-only.
        with h5py.File(path, "r", locking=False) as root:
            yield root
    except _Faulty:
        raise
    except Exception as error:
        # What HDF5 raises on files that are cut off or damaged is of a dozen types.
        told = " ".join(str(error).split())
        raise _Faulty(
            "the file", "LIBERO's HDF5 of demonstrations", f"one that is cut off or damaged: {told}"
        ) from error


def _linked(group: Any, name: str, kind: str, within: str) -> Any:
    """Return a group or data set that is in this group itself. Raises _Faulty, and never follows a link elsewhere."""
    import h5py

    link = group.get(name, getlink=True)
    expected = "a group" if kind == "Group" else "a data set"
    if link is None:
        raise _Faulty(f"{within}{name}", expected, "nothing")
    if not isinstance(link, h5py.HardLink):
        raise _Faulty(f"{within}{name}", f"{expected} in the file itself", f"a {type(link).__name__}")
    found = group[name]
    if not isinstance(found, getattr(h5py, kind)):
        raise _Faulty(f"{within}{name}", expected, type(found).__name__)
    return found


def _numbers(group: Any, within: str, name: str, columns: int | None) -> Array:
    """Return a data set (n, columns) as float64. Raises _Faulty before anything is allocated for it."""
    where, expected = f"{within}/{name}", f"numbers (n, {columns or '1+nq+nv'})"
    found = _plain_dataset(group, within, name, expected)
    if found.dtype.kind not in "fiu" or found.dtype.itemsize > 8 or len(found.shape or ()) != 2:
        raise _Faulty(where, expected, f"{found.dtype} {found.shape}")
    rows, width = found.shape
    if columns not in (None, width) or not rows or not width:
        raise _Faulty(where, expected, f"{found.dtype} {found.shape}")
    sizes = [math.prod(shape) * found.dtype.itemsize for shape in (found.shape, found.chunks or ())]
    if rows > _MOST_STEPS or width > _MOST_COLUMNS or max(sizes) > MAX_BYTES:
        raise _Faulty(where, f"at most {_MOST_STEPS} rows of {_MOST_COLUMNS}, {MAX_BYTES} bytes", found.shape)
    values = np.asarray(found[()], dtype=np.float64)
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values).all(axis=1)))
        raise _Faulty(where, "finite numbers", f"{values[row].tolist()} in row {row}")
    return values


def _plain_dataset(group: Any, within: str, name: str, expected: str) -> Any:
    """Return a data set whose content is in the file itself, under filters that HDF5 brings. Raises _Faulty."""
    where, found = f"{within}/{name}", _linked(group, name, "Dataset", f"{within}/")
    plist = found.id.get_create_plist()
    if found.external or found.is_virtual:
        raise _Faulty(where, f"{expected} in the file itself", "a reference to other files")
    if any(plist.get_filter(index)[0] not in _FILTERS for index in range(plist.get_nfilters())):
        raise _Faulty(where, "no compression, gzip or lzf", "another filter")
    return found


def _attribute(group: Any, within: str, name: str) -> Any:
    """Return a scalar attribute, or None if there is none. Raises _Faulty for an array."""
    if name not in group.attrs:
        return None
    about = group.attrs.get_id(name)
    if about.shape != () or about.get_storage_size() > _MOST_TEXT:
        raise _Faulty(f"{within}.{name}", "one value", f"an array {about.shape}")
    value = group.attrs[name]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _text(group: Any, within: str, name: str) -> str:
    value = _attribute(group, within, name)
    if not isinstance(value, str) or len(value) > _MOST_TEXT:
        raise _Faulty(f"{within}.{name}", "an attribute with a text", "none" if value is None else type(value).__name__)
    return value


def _pose(position: str, quaternion: str) -> Array | None:
    try:
        pose = np.array([float(each) for each in (*position.split(), *quaternion.split())])
    except ValueError:
        return None
    right = len(position.split()) == 3 and len(pose) == 7 and np.isfinite(pose).all() and np.linalg.norm(pose[3:]) > 0
    return pose if right else None


def _check_control(text: str) -> None:
    """Refuse what ``env_args`` says of another controller or rate, as far as it says it."""
    try:
        said = parse_json(text)
    except VlaError as error:
        raise _Faulty("data.env_args", "JSON", error) from error
    settings = said.get("env_kwargs") if isinstance(said, dict) else None
    settings = settings if isinstance(settings, dict) else {}
    rate, control = settings.get("control_freq", _CONTROL_HZ), settings.get("controller_configs")
    control = control if isinstance(control, dict) else {}
    if isinstance(parts := control.get("body_parts"), dict):
        # robosuite 1.5's, as in VLA-Arena's files: a controller for each part of the body.
        arms = parts["arms"] if isinstance(parts.get("arms"), dict) else parts
        arm = arms["right"] if isinstance(arms.get("right"), dict) else {}
        is_relative = arm.get("input_type", "delta") == "delta"
        control = {"type": arm.get("type", _CONTROL["type"]), "control_delta": is_relative}
    if rate != _CONTROL_HZ:
        raise _Faulty("data.env_args", f"control_freq {_CONTROL_HZ}", rate)
    for name, value in _CONTROL.items():
        if control.get(name, value) != value:
            raise _Faulty("data.env_args", f"controller_configs with {name} {value}", control[name])


def missing_text(file: DemonstrationFile) -> str:
    """Return which demonstrations a file has, for messages: ``50 demonstrations, demo_0 to demo_49``."""
    return f"{counted(len(file.numbers), 'demonstration')}, demo_{file.numbers[0]} to demo_{file.numbers[-1]}"


# Rows in which nothing is done, as VLA-Arena leaves them out of its training data.

STILL = 1e-4
"""The norm of an action without the gripper, below which the arm is told to stand still."""

_OPEN, _CLOSED = -1.0, 1.0


def kept_rows(actions: Array, after_change: int) -> NDArray[np.intp]:
    """Return the rows of a demonstration that VLA-Arena's no-op filter keeps.

    A row is left out if its action without the gripper has a norm below `STILL`, and the gripper is told what it was
    told in the row before it; of the first row, if the norm is so small. But the `after_change` rows that follow a
    change of the gripper from -1 to 1, or back, are kept: the fingers take time. VLA-Arena tries 4, 8, 12 and 16 and
    takes the first with which the demonstration succeeds again. Source: ``scripts/regenerate_dataset.py`` at 34b8942,
    ``is_noop`` and ``preprocess_actions_with_progressive_noops``.

    Args:
        actions: (n, 7).
        after_change: from 0.
    """
    gripper = actions[:, -1]
    same = np.concatenate([[True], np.isclose(gripper[1:], gripper[:-1])])
    is_still = (np.linalg.norm(actions[:, :-1], axis=1) < STILL) & same
    ends = [np.isclose(gripper, end) for end in (_OPEN, _CLOSED)]
    changes = np.flatnonzero((ends[0][:-1] & ends[1][1:]) | (ends[1][:-1] & ends[0][1:])) + 1
    keeps = np.zeros(len(actions), bool)
    for row in changes:
        keeps[row + 1 : row + 1 + after_change] = True
    return np.flatnonzero(~is_still | keeps)


def no_op_rows(text: str, what: str) -> int:
    """Parse how many rows `kept_rows` keeps after a change of the gripper. Raises VlaError if it is no number."""
    if not re.fullmatch(r"[0-9]{1,4}", text):
        raise VlaError(
            f"{what}={printable(text)[:80]}: expected how many rows without motion to keep after a change of the "
            "gripper, such as 4, 8, 12 or 16"
        )
    return int(text)
