"""Demonstrations from files: LIBERO's HDF5, and data sets in LeRobot's formats v2.0, v2.1 and v3.0, here or on the hub.

What a file says is data: paths are made from its templates by this module, and none leaves the data set's folder. Only
the episodes that are asked for are read, and pictures when they are.

A data set has ``meta/info.json`` with the features, their types and the templates of paths. v2.x has an episode a file
and ``meta/episodes.jsonl``; v3.0 has many in a file, and ``meta/episodes/*/*.parquet`` says where. Pictures are files
in the tables (``{bytes, path}``), or frames of videos, by time. Source: lerobot, ``datasets/utils.py`` and
``scripts/convert_dataset_v21_to_v30.py``.
"""

import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pytest_vla.doctor.demonstrations import SCENE, STATE, WRIST, RecordedDemonstration
from pytest_vla.errors import VlaError
from pytest_vla.plan.case import parse_case_id, task_key
from pytest_vla.plan.manifests import Suite
from pytest_vla.plan.task import Task, language_of
from pytest_vla.policies.base import RecordedStart
from pytest_vla.policies.demonstrations import (
    Demonstration,
    DemonstrationFile,
    demonstration_files,
    kept_rows,
    open_demonstrations,
    read_level,
)
from pytest_vla.policies.lerobot_inputs import assign_by_name
from pytest_vla.records.checks import parse_json
from pytest_vla.reports.dataset.lerobot import SOURCES, camera_key
from pytest_vla.util.arrays import MAX_BYTES
from pytest_vla.util.documents import read_json, read_plain
from pytest_vla.util.extras import required
from pytest_vla.util.files import expanded
from pytest_vla.util.text import counted, printable
from pytest_vla.util.warnings import describe

Told = Callable[[str], None]
Item = TypeVar("Item")

_MOST_FILES, _MOST_EPISODES, _MOST_ROWS, _MOST_SIDE = 1000, 1_000_000, 100_000, 4096
_MOST_GROUP = 4 * MAX_BYTES
_NO_CAMERAS: Mapping[str, str] = MappingProxyType({})


def read_demonstrations(
    path: Path,
    suite: Suite,
    count: int,
    *,
    cameras: Mapping[str, str] = _NO_CAMERAS,
    no_ops: int | None = None,
    told: Told = lambda line: None,
) -> tuple[RecordedDemonstration, ...]:
    """Return recorded demonstrations of a suite's tasks, spread evenly over tasks and over each task's episodes.

    A LeRobot data set's episodes are matched with tasks by their instruction, and have no recorded start; those of
    ``pytest-vla export`` have the seed of their case, if it had no variation. Its failures are left out.

    Args:
        path: LIBERO's HDF5 of one task; a folder with several; the folder of a LeRobot data set; or such a data set on
            the hub, ``OWNER/NAME`` or ``OWNER/NAME@REVISION``.
        suite: the suite.
        count: at most so many demonstrations.
        cameras: for a LeRobot data set, our name of an observation by the name of its picture, as `read_cameras` reads
            it; others are assigned by name.
        no_ops: leave out rows without motion, but keep so many after each change of the gripper, see
            `pytest_vla.policies.demonstrations.kept_rows`; None keeps all.
        told: called with a line about what is left out or downloaded.

    Raises:
        VlaError: a package is missing; there is no such file or data set; it is damaged, of another robot, without
            actions of the suite's size, has cameras that cannot be assigned, or none of the suite's tasks. A
            demonstration's `recorded` raises it for rows whose pictures are damaged.
    """
    found = _read(path, suite, count, cameras, told)
    if no_ops is None:
        return found
    filtered = tuple(_without_no_ops(each, no_ops) for each in found)
    before, after = (sum(len(each.actions) for each in some) for some in (found, filtered))
    told(f"{path}: {before - after} of {before} rows left out, without motion")
    return filtered


def _without_no_ops(demonstration: RecordedDemonstration, no_ops: int) -> RecordedDemonstration:
    rows = kept_rows(demonstration.actions, no_ops)
    if not len(rows):
        raise VlaError(f"{demonstration.name}: no action in it moves the arm or the gripper")
    start, qpos, recorded = demonstration.start, demonstration.qpos, demonstration.recorded
    return replace(
        demonstration,
        actions=demonstration.actions[rows],
        start=None if start is None else replace(start, states=start.states[rows]),
        qpos=None if qpos is None else qpos[rows],
        recorded=None if recorded is None else lambda row: recorded(int(rows[row])),
    )


def _read(
    path: Path, suite: Suite, count: int, cameras: Mapping[str, str], told: Told
) -> tuple[RecordedDemonstration, ...]:
    place = expanded(path) or path
    if (place / "meta" / "info.json").is_file():
        return _from_data_set(place, suite, count, cameras, told)
    if place.is_dir():
        files = demonstration_files(place)
        if not files:
            raise VlaError(f"{path}: {_EXPECTED}, found a folder with neither")
        return _from_hdf5(path, files, suite, count, told)
    if place.exists():
        return _from_hdf5(path, [place], suite, count, told)
    if not (on_hub := _HUB_ID.fullmatch(path.as_posix())):
        raise VlaError(f"{path}: there is no such file or folder; {_EXPECTED}")
    return _from_data_set(_Hub(on_hub["id"], on_hub["revision"]), suite, count, cameras, told)


_EXPECTED = (
    "expected LIBERO's demonstrations (*.hdf5, or their folder), or a LeRobot data set: a folder with meta/info.json, "
    "or OWNER/NAME[@REVISION] on the hub"
)


# Which tasks, and which of their episodes.


def _spread(found: Mapping[Task, Sequence[Item]], count: int) -> list[tuple[Task, Item]]:
    """Return at most `count` items: evenly from tasks, and evenly from each one's."""
    tasks = _evenly(list(found), count)
    shares, left = dict.fromkeys((task.id for task in tasks), 0), count
    while left and (open_ := [task for task in tasks if shares[task.id] < len(found[task])]):
        for task in open_[:left]:
            shares[task.id] += 1
        left -= min(left, len(open_))
    return [(task, item) for task in tasks for item in _evenly(found[task], shares[task.id])]


def _evenly(items: Sequence[Item], count: int) -> list[Item]:
    count = min(count, len(items))
    return [items[number * len(items) // count] for number in range(count)]


def _folded(instruction: str) -> str:
    """Return a text without what files write differently: capitals, underscores, punctuation, spaces."""
    return " ".join(re.sub(r"[\W_]+", " ", instruction.casefold()).split())


def _by_instruction(suite: Suite) -> dict[str, list[Task]]:
    found: dict[str, list[Task]] = {}
    for task in suite.tasks:
        found.setdefault(_folded(task.language), []).append(task)
    return found


def _no_task(where: object, suite: Suite, there: Iterable[str]) -> VlaError:
    names = [printable(repr(name)[:120]) for name in dict.fromkeys(there)]
    ours = [task.language for task in suite.tasks]
    return VlaError(
        f"{where}: none of its tasks is one of {suite.name}'s. It has {_some(names)}; {suite.name} has {_some(ours)}. "
        "Choose the suite that was demonstrated with --vla-suite"
    )


def _some(names: Sequence[str]) -> str:
    rest = f" and {len(names) - 10} others" if len(names) > 10 else ""
    return f"{'; '.join(names[:10]) or 'none'}{rest}"


# LIBERO's HDF5.

_ROWS_AT_ONCE = 128


def _from_hdf5(
    path: Path, files: Sequence[Path], suite: Suite, count: int, told: Told
) -> tuple[RecordedDemonstration, ...]:
    found: dict[Task, list[tuple[DemonstrationFile, int]]] = {}
    others: list[str] = []
    texts = _by_instruction(suite)
    named: dict[str, list[Task]] = {}
    for each in suite.tasks:
        for name in {each.name, each.file or each.name}:
            named.setdefault(name.replace(",", ""), []).append(each)

    def named_in(text: str, level: str) -> Task | None:
        alike = named.get(text.replace(",", ""), ())
        return next((each for each in alike if not level or each.task_level in ("", level)), None)

    # A file's name usually says its task, and opening one takes long.
    tasks = {
        file: task
        for file in files
        if (task := named_in(file.stem.removesuffix("_demo"), read_level(file.absolute().as_posix())))
    }
    few = {task.id for task in _evenly([task for task in suite.tasks if task in tasks.values()], count)}
    for file in [file for file, task in tasks.items() if task.id in few] or files:
        opened = open_demonstrations(file)
        same = texts.get(_folded(language_of(opened.task)), [])
        task = named_in(opened.task, opened.level) or (same[0] if len(same) == 1 else None)
        if task is None:
            others.append(opened.task)
        else:
            found.setdefault(task, []).extend((opened, number) for number in opened.numbers)
    if not found:
        raise _no_task(path, suite, others)
    ordered = {task: found[task] for task in suite.tasks if task in found}
    chosen = _spread(ordered, count)
    demonstrations = []
    for number, (task, (opened, episode)) in enumerate(chosen):
        told(f"demonstration {number + 1} of {len(chosen)}: {opened.path.name}, demo_{episode}")
        demonstrations.append(_hdf5_demonstration(opened, episode, task))
    return tuple(demonstrations)


def _hdf5_demonstration(file: DemonstrationFile, number: int, task: Task) -> RecordedDemonstration:
    read = _block(file, number, 0)
    name = f"{file.path}: {read.name}"
    actions, states = read.actions, read.states
    # A free joint has 7 + 6 numbers, any other of these worlds 1 + 1. Without a model the joints are not known.
    free, rest = divmod(states.shape[1] - 1 - 2 * len(read.joints), 11) if read.joints else (0, 0)
    if rest or not 0 <= free <= len(read.joints):
        raise VlaError(
            f"{name}: its states have {states.shape[1]} numbers, which {counted(len(read.joints), 'joint')} of its "
            "model_file do not explain: they are of another model. Write it again with LIBERO's create_dataset.py"
        )
    if _is_late(read) and len(actions) > 1:
        # Before the first action nothing was observed, and the others' rows are those that follow.
        actions, states = actions[1:], states[1:]

    def recorded(row: int) -> Mapping[str, NDArray[Any]]:
        if not 0 <= row < len(actions):
            raise VlaError(f"{name}: it has {len(actions)} rows, and no row {row}")
        block, within = divmod(row, _ROWS_AT_ONCE)
        rows = _block(file, number, block).observed
        ours = {SCENE: "agentview_rgb", WRIST: "eye_in_hand_rgb"}
        shown = {ours_: rows[theirs][within].copy() for ours_, theirs in ours.items() if theirs in rows}
        if "ee_states" in rows and "gripper_states" in rows:
            shown[STATE] = np.concatenate([rows["ee_states"][within], rows["gripper_states"][within]])
        return shown

    start = RecordedStart(name, states, read.joints, read.bodies, float(actions[0, -1]))
    qpos = states[:, 1 : 1 + len(read.joints) + 6 * free] if read.joints else None
    return RecordedDemonstration(
        name, task, task.language, actions, start=start, qpos=qpos, recorded=recorded if read.observed else None
    )


@lru_cache(maxsize=8)
def _block(file: DemonstrationFile, number: int, block: int) -> Demonstration:
    return file.read(number, range(block * _ROWS_AT_ONCE, (block + 1) * _ROWS_AT_ONCE))


def _is_late(read: Demonstration) -> bool:
    """Whether what was observed is of the moment after its row's action, as in LIBERO's own files."""
    arm, states = read.observed.get("joint_states"), read.states
    places = [place for place, joint in enumerate(read.joints) if re.fullmatch(r"robot0_joint\d", joint)]
    # The robot's joints are first, before those with more than one number.
    if not read.joints and arm is not None:
        places = list(range(arm.shape[1]))
    if arm is None or places != list(range(arm.shape[1])) or len(arm) < 2:
        return True
    rows = len(arm) - 1
    before, after = (np.abs(arm[:rows] - states[late : late + rows, 1 : 1 + arm.shape[1]]).mean() for late in (0, 1))
    return bool(after <= before)


# LeRobot data sets.

_HUB_ID = re.compile(r"(?P<id>[\w-][\w.-]*/[\w-][\w.-]*)(@(?P<revision>[\w./-]+))?")
_VERSIONS = ("v2.0", "v2.1", "v3.0")
_KEY = re.compile(r"[\w-][\w. -]*")
_FIELD = re.compile(r"\{(\w+)(?::0?([0-9])d)?\}")
_ROBOTS = re.compile(r"panda|franka|unknown|^$")
_META = ("meta/info.json", "meta/episodes.jsonl", "meta/episodes/*", SOURCES)


@dataclass(frozen=True)
class _Hub:
    """A data set of the hub: its name, and a revision or None for the newest."""

    name: str
    revision: str | None


@dataclass(frozen=True)
class _Layout:
    """What ``meta/info.json`` says.

    Attributes:
        is_v3: whether files have many episodes.
        fps: frames a second of its videos.
        paths: the templates of data and videos.
        episodes_a_chunk: of v2.x.
        action, state: the names of these columns; there may be no state.
        pictures: for each name of ours, the feature, and whether it is a video.
    """

    is_v3: bool
    fps: float
    paths: Mapping[str, str]
    episodes_a_chunk: int
    action: str
    state: str | None
    pictures: Mapping[str, tuple[str, bool]]


@dataclass(frozen=True)
class _Episode:
    """An episode of a data set: its texts, its rows, its file, and by feature its video with the time of its begin."""

    index: int
    texts: tuple[str, ...]
    length: int
    data: str
    videos: Mapping[str, tuple[str, float]]

    @property
    def files(self) -> tuple[str, ...]:
        return (self.data, *(file for file, _ in self.videos.values()))


def _from_data_set(
    where: Path | _Hub, suite: Suite, count: int, cameras: Mapping[str, str], told: Told
) -> tuple[RecordedDemonstration, ...]:
    required("pyarrow.parquet", "pip install 'pytest-vla[parquet]'")
    folder = where if isinstance(where, Path) else _downloaded(where, _META)
    layout = _read_layout(folder / "meta" / "info.json", suite, cameras)
    episodes = _read_episodes(folder, layout)
    sources = _read_sources(folder / SOURCES)
    name = where.name if isinstance(where, _Hub) else folder.absolute().as_posix()
    found = _matched(folder, name, suite, episodes, sources, told)
    if isinstance(where, _Hub):
        found = _in_few_files(found)
        chosen = _spread(found, count)
        files = sorted({file for _, episode in chosen for file in episode.files})
        told(f"{where.name}: {counted(len(files), 'file')} of its episodes from the hub, unless they are here already")
        # The snapshot's folder is named after its commit, so that all files are of the same one.
        folder = _downloaded(_Hub(where.name, folder.name), (*_META, *files))
    else:
        chosen = _spread(found, count)
    demonstrations = []
    for number, (task, episode) in enumerate(chosen):
        told(f"demonstration {number + 1} of {len(chosen)}: episode {episode.index}")
        demonstrations.append(_episode_demonstration(folder, layout, episode, task, suite, sources))
    return tuple(demonstrations)


def _downloaded(hub: _Hub, patterns: Sequence[str]) -> Path:
    """Return the folder of the hub's cache with files of a data set, downloaded if they are not there. Raises VlaError.

    As for checkpoints (`pytest_vla.policies.lerobot`), typing the name is consent.
    """
    cure = f"there is no folder {hub.name}. If it is on the hub, pip install 'pytest-vla[fetch]'"
    client = required("huggingface_hub", cure)
    try:
        return Path(
            client.snapshot_download(
                hub.name, repo_type="dataset", revision=hub.revision, allow_patterns=list(patterns)
            )
        )
    except Exception as error:
        raise VlaError(
            f"there is no folder {hub.name}, and https://huggingface.co/datasets/{hub.name} could not be downloaded: "
            f"{describe(error)[:600]}. Without a network, run `hf download --repo-type=dataset {hub.name} --local-dir "
            "DIR` on a machine that has one, then use --demos=DIR"
        ) from error


def _read_layout(file: Path, suite: Suite, cameras: Mapping[str, str]) -> _Layout:
    """Read ``meta/info.json``. Raises VlaError that names the field, what was expected and how to mend it."""
    try:
        info = read_json(file)
    except FileNotFoundError as error:
        raise VlaError(f"{file}: there is no such file; {_EXPECTED}") from error
    except (OSError, ValueError) as error:
        raise VlaError(f"{file}: {_told_damage(file, str(error))}") from error
    info = info if isinstance(info, dict) else {}
    version, features, robot = info.get("codebase_version"), info.get("features"), info.get("robot_type") or ""
    if version not in _VERSIONS:
        raise _unexpected(
            f"{file}: codebase_version", " or ".join(_VERSIONS), version, "lerobot's scripts convert older data sets"
        )
    if not isinstance(features, dict) or not all(isinstance(each, dict) for each in features.values()):
        raise _unexpected(f"{file}: features", "a table of tables", features, "download it again")
    if not (isinstance(robot, str) and _ROBOTS.search(robot.casefold())) and not any(t.world for t in suite.tasks):
        raise _unexpected(
            f"{file}: robot_type",
            "panda, franka or null",
            robot,
            "write panda there if it is the wrong name of a Panda",
        )
    fps, chunk = info.get("fps"), info.get("chunks_size", _MOST_FILES)
    if not isinstance(fps, int | float) or not 0 < fps <= 1000 or not isinstance(chunk, int) or chunk < 1:
        raise _unexpected(f"{file}: fps, chunks_size", "positive numbers", (fps, chunk), "download it again")
    paths = {name: _template(f"{file}: {name}", info.get(name)) for name in ("data_path", "video_path")}
    action = _first(("action", "actions"), features)
    if action is None:
        raise VlaError(
            f"{file}: features: expected action, found {_some([printable(each[:60]) for each in features])}: a data "
            "set without actions demonstrates nothing. Give another one with --demos"
        )
    if features[action].get("shape") != [suite.protocol.action_size]:
        raise _unexpected(
            f"{file}: features.{action}.shape",
            f"[{suite.protocol.action_size}], as {suite.name} takes",
            features[action].get("shape"),
            "it is of another robot or another control",
        )
    state = _first(("observation.state", "state"), features)
    pictures = _assigned(file, features, suite, cameras)
    return _Layout(version == _VERSIONS[-1], float(fps), paths, chunk, action, state, pictures)


def _assigned(
    file: Path, features: Mapping[str, Mapping[str, Any]], suite: Suite, chosen: Mapping[str, str]
) -> dict[str, tuple[str, bool]]:
    """Return the feature of each of our pictures, and whether it is a video. Raises VlaError."""
    keys = [key for key, each in features.items() if each.get("dtype") in ("image", "video") and not _is_depth(each)]
    if wrong := [key for key in keys if not _KEY.fullmatch(key)]:
        raise _unexpected(f"{file}: features", "names of letters, digits, . _ and -", wrong[0], "rename it")
    ours = [f"{camera}_image" for camera in suite.protocol.cameras]
    if wrong := [name for name in chosen.values() if name not in ours]:
        raise VlaError(f"--cameras: {suite.name} has no observation {wrong[0]!r}: it has {', '.join(ours)}")
    exact = {
        key: f"{camera}_image"
        for camera in suite.protocol.cameras
        for key in keys
        if key in (camera_key(camera), f"observation.images.{camera}") and f"{camera}_image" not in chosen.values()
    }
    assigned = assign_by_name(keys, {**exact, **chosen}, str(file))
    found = {picture: (key, features[key]["dtype"] == "video") for key, picture in assigned.items() if picture in ours}
    rest = [key.rpartition(".")[2] for key in keys if key not in assigned]
    if rest and len(found) < len(ours):
        lacking = [name for name in ours if name not in found]
        example = f"{rest[0]}:{lacking[0].removesuffix('_image')}"
        raise VlaError(
            f"{file}: the names of its cameras {', '.join(rest)} do not say which is {suite.name}'s "
            f"{', '.join(lacking)}: choose with --cameras=NAME:CAMERA,..., such as --cameras={example}"
        )
    return found


def _is_depth(feature: Mapping[str, Any]) -> bool:
    about = [feature.get(name) for name in ("info", "video_info")]
    return any(
        isinstance(each, dict) and (each.get("video.is_depth_map") or each.get("is_depth_map")) for each in about
    )


def _template(where: str, text: object) -> str:
    """Return a template of paths within the data set's folder; empty if there is none. Raises VlaError."""
    if text is None:
        return ""
    known = ("episode_chunk", "episode_index", "chunk_index", "file_index", "video_key")
    plain = _FIELD.sub(lambda found: "x" if found[1] in known else "{", text) if isinstance(text, str) else "{"
    if not re.fullmatch(r"[\w./ -]+", plain) or plain.startswith("/") or ".." in plain.split("/"):
        raise _unexpected(
            where, f"a path in the data set's folder, with fields {', '.join(known)}", text, "download it again"
        )
    return str(text)


def _path_of(where: str, template: str, **fields: object) -> str:
    """Return a path from a template that `_template` has checked; a number is filled with zeros. Raises VlaError."""
    if missing := [found[1] for found in _FIELD.finditer(template) if found[1] not in fields]:
        raise VlaError(f"{where}: the path {template} has {missing[0]}, which this version does not have")
    return _FIELD.sub(lambda found: str(fields[found[1]]).zfill(int(found[2] or 0)), template)


def _read_episodes(folder: Path, layout: _Layout) -> list[_Episode]:
    """Return all episodes, as the data set's tables tell of them. Raises VlaError."""
    if not layout.is_v3:
        file = folder / "meta" / "episodes.jsonl"
        return [_episode(f"{file}:{line}", layout, row) for line, row in _json_lines(file)]
    videos = [key for key, is_video in layout.pictures.values() if is_video]
    names = ["episode_index", "tasks", "length", "data/chunk_index", "data/file_index"]
    names += [f"videos/{key}/{name}" for key in videos for name in ("chunk_index", "file_index", "from_timestamp")]
    files = sorted((folder / "meta" / "episodes").glob("*/*.parquet"))[:_MOST_FILES]
    if not files:
        raise VlaError(f"{folder}: expected meta/episodes/chunk-000/file-000.parquet: download it again")
    return [
        _episode(f"{file}: row {number}", layout, row)
        for file in files
        for number, row in enumerate(_guarded(file, _columns(file, names)[0].to_pylist))
    ]


def _episode(where: str, layout: _Layout, row: Any) -> _Episode:
    row = row if isinstance(row, dict) else {}
    index, length = _whole(where, row, "episode_index"), _whole(where, row, "length")
    texts = row.get("tasks")
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts) or not length:
        raise _unexpected(where, "tasks, a list of instructions, and a length", texts, "download it again")
    if length > _MOST_ROWS:
        raise _unexpected(f"{where}: length", f"at most {_MOST_ROWS} rows", length, "is it a number of milliseconds?")
    videos: dict[str, tuple[str, float]] = {}
    fields: dict[str, object] = {"episode_index": index, "episode_chunk": index // layout.episodes_a_chunk}
    for key in (key for key, is_video in layout.pictures.values() if is_video):
        begin = 0.0
        if layout.is_v3:
            fields = {name: _whole(where, row, f"videos/{key}/{name}") for name in ("chunk_index", "file_index")}
            begin = row.get(f"videos/{key}/from_timestamp")
            if not isinstance(begin, int | float) or not 0 <= begin < 1e9:
                raise _unexpected(f"{where}: videos/{key}/from_timestamp", "seconds", begin, "download it again")
        videos[key] = _path_of(where, layout.paths["video_path"], video_key=key, **fields), float(begin)
    if layout.is_v3:
        fields = {name: _whole(where, row, f"data/{name}") for name in ("chunk_index", "file_index")}
    return _Episode(index, tuple(texts), length, _path_of(where, layout.paths["data_path"], **fields), videos)


def _read_sources(file: Path) -> dict[int, tuple[str, Any]]:
    """Return for each episode of `pytest-vla export` its outcome and the parts of its case's id; empty for others'."""
    found = {}
    for line, row in _json_lines(file) if file.is_file() else ():
        row = row if isinstance(row, dict) else {}
        case = row.get("case")
        if isinstance(case, str) and (parts := parse_case_id(case)):
            found[_whole(f"{file}:{line}", row, "episode_index")] = str(row.get("outcome")), parts
    return found


def _matched(
    folder: Path,
    name: str,
    suite: Suite,
    episodes: Sequence[_Episode],
    sources: Mapping[int, tuple[str, Any]],
    told: Told,
) -> dict[Task, Sequence[_Episode]]:
    """Return the episodes of each of the suite's tasks that has some, in the suite's order. Raises VlaError."""
    texts = _by_instruction(suite)
    found: dict[str, list[_Episode]] = {}
    failed, unclear = 0, set()
    keys = {task.key: task for task in suite.tasks}
    named = re.findall(r"(?:^|[_/-])(L[0-9])(?=[_/-]|$)", name)
    level = named[-1] if named else min(task.task_level for task in suite.tasks)
    is_guessed = False
    for episode in episodes:
        outcome, case = sources.get(episode.index, ("success", None))
        if outcome != "success":
            failed += 1
            continue
        task = keys.get(task_key(case.task, case.task_level)) if case and case.suite == suite.name else None
        alike = [task] if task else [each for text in episode.texts for each in texts.get(_folded(text), ())]
        if len({each.task_level for each in alike}) == len(alike) > 1:
            # The same instruction at several levels: the data set's name has its level, as VLA_Arena_L0_S.
            alike, is_guessed = [each for each in alike if each.task_level == level], not named
        if len(alike) == 1:
            found.setdefault(alike[0].id, []).append(episode)
        elif alike:
            unclear.add(alike[0].language)
    if is_guessed:
        told(f"{folder}: taken for {level}, as its name has no level; upstream's data sets are of L0")
    if failed:
        told(f"{folder}: {counted(failed, 'episode')} left out that did not succeed")
    if unclear:
        told(f"{folder}: left out, as {suite.name} has several tasks of that instruction: {_some(sorted(unclear))}")
    if not found:
        raise _no_task(folder, suite, (text for episode in episodes for text in episode.texts))
    return {task: found[task.id] for task in suite.tasks if task.id in found}


def _in_few_files(found: Mapping[Task, Sequence[_Episode]]) -> dict[Task, Sequence[_Episode]]:
    """Return of each task the episodes of one file, such that few files have all: each is up to 0.5 GB to download."""
    left = {task: {episode.data for episode in episodes} for task, episodes in found.items()}
    chosen: dict[str, str] = {}
    while left:
        count = Counter(file for files in left.values() for file in files)
        most = min(count, key=lambda file: (-count[file], file))
        for task in [task for task, files in left.items() if most in files]:
            chosen[task.id] = most
            del left[task]
    return {
        task: [episode for episode in episodes if episode.data == chosen[task.id]] for task, episodes in found.items()
    }


def _episode_demonstration(
    folder: Path, layout: _Layout, episode: _Episode, task: Task, suite: Suite, sources: Mapping[int, tuple[str, Any]]
) -> RecordedDemonstration:
    file = folder / episode.data
    names = [layout.action, *([layout.state] if layout.state else []), "timestamp"]
    table, first, sizes = _episode_rows(file, episode, names)
    actions = _array(file, table, layout.action, suite.protocol.action_size)
    states = _array(file, table, layout.state, None) if layout.state else None
    times = _array(file, table, "timestamp", 1)[:, 0]
    for key, (video, begin) in episode.videos.items():
        # A video that ends too early is found before anything else is done.
        _frame(folder / video, key, begin + float(times[-1]), layout.fps)

    @lru_cache(maxsize=32)
    def cached(row: int) -> Mapping[str, NDArray[Any]]:
        if not 0 <= row < episode.length:
            raise VlaError(f"{file}: episode {episode.index} has {episode.length} rows, and no row {row}")
        shown: dict[str, NDArray[Any]] = {} if states is None else {STATE: states[row]}
        for ours, (key, is_video) in layout.pictures.items():
            if is_video:
                video, begin = episode.videos[key]
                shown[ours] = _frame(folder / video, key, begin + float(times[row]), layout.fps)
            else:
                shown[ours] = _picture(file, sizes, key, first + row)
        return shown

    def recorded(row: int) -> Mapping[str, NDArray[Any]]:
        return {name: array.copy() for name, array in cached(row).items()}

    _, case = sources.get(episode.index, ("", None))
    is_ours = case is not None and case.suite == suite.name and not case.variation
    return RecordedDemonstration(
        f"{file}: episode {episode.index}",
        task,
        next((text for text in episode.texts if _folded(text) == _folded(task.language)), episode.texts[0]),
        actions,
        seed=case.seed if is_ours and case is not None else None,
        recorded=recorded if layout.pictures or states is not None else None,
    )


# Tables. Arrow's accessors of a column's metadata end the process for some damaged files, so sizes are seen in reading.


def _columns(file: Path, names: Sequence[str]) -> tuple[Any, tuple[int, ...]]:
    """Return columns of numbers and texts of a Parquet file, and the sizes of its groups of rows. Raises VlaError."""
    import pyarrow as pa

    opened, there = _opened(file)
    if missing := [name for name in names if name not in there]:
        found = ", ".join(printable(name[:60]) for name in there[:20])
        raise VlaError(f"{file}: expected a column {missing[0]}, found {found}: the table and meta/info.json differ")
    batches: list[Any] = []
    sizes = []
    for group in range(opened.num_row_groups):
        read = _read_group(file, opened, group, names, MAX_BYTES - sum(batch.nbytes for batch in batches))
        sizes.append(sum(map(len, read)))
        batches += read
    if not batches:
        raise VlaError(f"{file}: expected rows, found none: download it again")
    return _guarded(file, lambda: pa.Table.from_batches(batches)), tuple(sizes)


def _opened(file: Path) -> tuple[Any, list[str]]:
    """Return an open Parquet file, and the names of its columns. Raises VlaError."""
    import pyarrow.parquet as pq

    if not file.is_file():
        raise VlaError(f"{file}: there is no such file, and the data set says that there is: download it again")
    opened, names = _guarded(file, lambda: ((read := pq.ParquetFile(file)), list(read.schema_arrow.names)))
    if opened.num_row_groups > _MOST_ROWS:
        raise _unexpected(file, f"at most {_MOST_ROWS} groups of rows", opened.num_row_groups, "write larger groups")
    return opened, names


def _read_group(file: Path, opened: Any, group: int, names: Sequence[str], most: int) -> list[Any]:
    """Return the batches of a group of rows. Raises VlaError if they are damaged, or more than `most` bytes."""
    batches: list[Any] = []

    def read() -> list[Any]:
        left = most
        for batch in opened.iter_batches(batch_size=1024, row_groups=[group], columns=list(names)):
            left -= batch.nbytes
            if left < 0:
                raise _unexpected(
                    f"{file}: {names[-1]}", f"at most {most} bytes at once", "more", "write smaller files"
                )
            batches.append(batch)
        return batches

    found: list[Any] = _guarded(file, read)
    return found


def _guarded(file: Path, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except VlaError:
        raise
    except Exception as error:
        # Arrow raises a dozen types for files that are cut off or damaged.
        raise VlaError(f"{file}: {_told_damage(file, f'{type(error).__name__}: {error}')}") from error


def _told_damage(file: Path, said: str) -> str:
    with open(file, "rb") if file.is_file() else io.BytesIO() as opened:
        begin = opened.read(20)
    if begin == b"version https://git-":
        return "it is only a pointer of Git LFS: `git lfs pull` in its folder brings the file"
    return f"it is damaged or cut off, download or copy it again ({printable(' '.join(said.split()))[:200]})"


@lru_cache(maxsize=2)
def _numbers_of(file: Path, names: tuple[str, ...]) -> tuple[Any, tuple[int, ...]]:
    return _columns(file, names)


def _episode_rows(file: Path, episode: _Episode, names: Sequence[str]) -> tuple[Any, int, tuple[int, ...]]:
    """Return an episode's rows of some columns, its first row in the file, and the sizes of the file's groups of rows.

    Raises:
        VlaError: the file is damaged, or the episode is not in it as the data set says.
    """
    table, sizes = _numbers_of(file, ("episode_index", *names))
    rows = np.flatnonzero(np.asarray(table["episode_index"]) == episode.index)
    if len(rows) != episode.length or rows[-1] - rows[0] + 1 != len(rows):
        raise VlaError(
            f"{file}: episode_index: expected {episode.length} rows of episode {episode.index}, one after the other, "
            f"found {len(rows)}: it is cut off, or meta/episodes is of another version; download it again"
        )
    return table.slice(int(rows[0]), episode.length), int(rows[0]), sizes


def _array(file: Path, table: Any, name: str, columns: int | None) -> NDArray[np.float64]:
    """Return a column of numbers (n, columns). Raises VlaError that names the row if they are not finite."""
    column = table[name].combine_chunks()
    values = column.flatten() if hasattr(column, "flatten") and "list" in str(column.type) else column
    try:
        numbers = np.asarray(values, dtype=np.float64)
        array = numbers.reshape(len(table), columns or -1)
    except (TypeError, ValueError) as error:
        flat = hasattr(values, "__len__") and len(values) % max(len(table), 1) == 0
        raise _unexpected(
            f"{file}: {name}",
            f"{columns or 'equally many'} numbers a row",
            f"{len(values) // len(table)}" if flat else column.type,
            "choose a data set of this suite's robot, or download it again",
        ) from error
    if not np.isfinite(array).all():
        row = int(np.argmin(np.isfinite(array).all(axis=1)))
        raise _unexpected(
            f"{file}: {name}", "finite numbers", f"{array[row].tolist()} in row {row}", "leave the episode out"
        )
    return array


# Pictures.


@lru_cache(maxsize=4)
def _pictures_of(file: Path, key: str, group: int) -> list[Any]:
    opened, names = _opened(file)
    if key not in names:
        raise VlaError(f"{file}: expected a column {key}, found none: the table and meta/info.json differ")
    batches = _read_group(file, opened, group, [key], _MOST_GROUP)
    return [value for batch in batches for value in batch.column(0)]


def _picture(file: Path, sizes: Sequence[int], key: str, row: int) -> NDArray[np.uint8]:
    """Return a picture (H, W, 3) in a table, whose groups of rows have some sizes. Raises VlaError."""
    from PIL import Image

    ends = np.cumsum(sizes)
    group = int(np.searchsorted(ends, row, side="right"))
    values = _pictures_of(file, key, group)
    if len(values) != sizes[group]:
        raise _unexpected(f"{file}: {key}", f"{sizes[group]} rows in group {group}", len(values), "download it again")
    held = _guarded(file, values[sizes[group] + row - int(ends[group])].as_py)
    content = held.get("bytes") if isinstance(held, dict) else held
    if not isinstance(content, bytes):
        raise _unexpected(f"{file}: {key}: row {row}", "a picture's bytes", held, "embed the pictures in the table")
    try:
        # No other formats: some of Pillow's readers run programs.
        with Image.open(io.BytesIO(content), formats=("PNG", "JPEG", "WEBP")) as picture:
            if max(picture.size) > _MOST_SIDE:
                raise ValueError(f"{picture.size} pixels")
            return np.array(picture.convert("RGB"))
    except Exception as error:
        # Pillow raises a dozen types for damaged pictures.
        raise _unexpected(
            f"{file}: {key}: row {row}", "a PNG, JPEG or WebP picture", error, "download it again"
        ) from error


def _video(file: Path) -> Any:
    """Open a video. Raises VlaError."""
    import av

    if not file.is_file():
        raise VlaError(f"{file}: there is no such video, and the data set says that there is: download it again")
    # Of this format only, since others name files and addresses to open; FFmpeg takes what stands before a colon for a
    # protocol, unless the name begins with a slash.
    return _guarded(file, lambda: av.open(str(file.absolute()), format="mp4"))


def _frame(file: Path, key: str, time: float, fps: float) -> NDArray[np.uint8]:
    """Return the frame (H, W, 3) of a time in s, the nearest one. Raises VlaError."""

    def read() -> NDArray[np.uint8]:
        ends = 0.0
        with _video(file) as container:
            stream = next(iter(container.streams.video), None)
            if stream is None or max(stream.width, stream.height) > _MOST_SIDE:
                raise VlaError(f"{file}: expected a video of at most {_MOST_SIDE} pixels a side: download it again")
            container.seek(int(max(time - 0.5 / fps, 0) / stream.time_base), stream=stream)
            for frame in container.decode(stream):
                ends = float(frame.time or 0.0)
                if ends > time - 0.5 / fps:
                    return np.asarray(frame.to_ndarray(format="rgb24"))
        raise VlaError(
            f"{file}: {key}: expected a frame at {time:.3f} s, as its rows have, found the last at {ends:.3f} s: it is "
            "cut off, download or encode it again"
        )

    found: NDArray[np.uint8] = _guarded(file, read)
    return found


# Small parts.


def _json_lines(file: Path) -> Iterable[tuple[int, Any]]:
    try:
        lines = read_plain(file).splitlines()
    except (OSError, ValueError) as error:
        raise VlaError(f"{file}: {error}: download it again") from error
    if len(lines) > _MOST_EPISODES:
        raise _unexpected(file, f"at most {_MOST_EPISODES} lines", len(lines), "split the data set")
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield number, parse_json(line)
            except VlaError as error:
                raise VlaError(f"{file}:{number}: {_told_damage(file, str(error))}") from error


def _whole(where: str, row: Mapping[str, Any], name: str) -> int:
    value = row.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 10**9:
        raise _unexpected(f"{where}: {name}", "a whole number", value, "download it again")
    return value


def _first(names: Iterable[str], there: Mapping[str, Any]) -> str | None:
    return next((name for name in names if name in there), None)


def _unexpected(where: object, expected: str, found: object, cure: str) -> VlaError:
    return VlaError(f"{where}: expected {expected}, found {printable(str(found))[:200]}: {cure}")
