"""Demonstrations from files: what is read of each format, and what is refused, by file and place."""

import dataclasses
import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from pytest_vla.doctor.demonstrations import SCENE, STATE, WRIST
from pytest_vla.doctor.recorded_files import read_demonstrations
from pytest_vla.errors import VlaError
from pytest_vla.plan.case import Case
from pytest_vla.plan.manifests import Suite, load_suite
from pytest_vla.plan.task import with_protocol
from pytest_vla.reports.dataset.frames import Frame, Layout
from pytest_vla.reports.dataset.lerobot import write_dataset
from pytest_vla.show.video import video_writer
from tests.support.demonstration_files import Recorded, write_demonstrations
from tests.support.records import RECORD

SUITE = load_suite("tabletop")
STOVE, BOWL = (SUITE.task(name) for name in ("turn_on_the_stove", "put_the_bowl_on_the_stove"))
CAMERAS = ("agentview", "robot0_eye_in_hand")
SIZE, ROWS = 32, 7


def shade(episode: int, row: int, camera: int = 0) -> int:
    """The grey of a picture, far enough from any other's to survive a video."""
    return (20 + 60 * episode + 8 * row + 4 * camera) % 250


def picture(*of: int) -> np.ndarray:
    return np.full((SIZE, SIZE, 3), shade(*of), np.uint8)


def state(episode: int, row: int) -> np.ndarray:
    return (np.arange(8) + 10 * episode + 100 * row).astype(np.float32)


def action(episode: int, row: int) -> np.ndarray:
    return np.linspace(-1, 1, 7).astype(np.float32) * (episode + 1) / (row + 3)


def exported(folder: Path, pictures: str, cases: list[tuple[Case, str]]) -> Path:
    """A data set as `pytest-vla export` writes it."""

    def episodes() -> Iterator[Any]:
        for number, (case, outcome) in enumerate(cases):
            task = SUITE.task(case.task)
            record = dataclasses.replace(
                *(RECORD,), case=case.id, task=task.name, instruction=task.language, outcome=outcome, seed=case.seed
            )
            frames = [
                Frame(
                    state(number, row),
                    action(number, row),
                    {camera: picture(number, row, each) for each, camera in enumerate(CAMERAS)},
                    0.0,
                )
                for row in range(ROWS)
            ]
            yield record, iter(frames)

    folder.mkdir()
    write_dataset(folder, episodes(), Layout(20, (SIZE, SIZE), CAMERAS), pictures=pictures)
    return folder


CASES = [(Case("tabletop", STOVE.name, 3), "success"), (Case("tabletop", BOWL.name, 5), "success")]


@pytest.mark.parametrize("pictures", ["image", "video", "none"])
def test_our_own_export_is_read_back(tmp_path: Path, pictures: str) -> None:
    varied = Case("tabletop", BOWL.name, 4, "camera.azimuth-L2")
    cases = [*CASES, (varied, "success"), (Case("tabletop", STOVE.name, 0), "failure")]
    found = read_demonstrations(exported(tmp_path / "set", pictures, cases), SUITE, 10)
    assert [(each.task.name, each.seed) for each in found] == [(BOWL.name, 5), (BOWL.name, None), (STOVE.name, 3)]
    for each, episode in zip(found, (1, 2, 0), strict=True):
        assert (each.start, each.qpos, each.instruction) == (None, None, each.task.language)
        assert np.array_equal(each.actions, [action(episode, row) for row in range(ROWS)])
        for row in (0, 5, ROWS - 1):
            assert each.recorded is not None
            shown = each.recorded(row)
            assert np.array_equal(shown[STATE], state(episode, row))
            for camera, name in enumerate((SCENE, WRIST) if pictures != "none" else ()):
                apart = np.abs(shown[name].astype(int) - shade(episode, row, camera))
                assert apart.max() <= (2 if pictures == "video" else 0), "grey levels"
        assert each.recorded is not None
        with pytest.raises(VlaError, match="no row 7"):
            each.recorded(ROWS)


def published(
    folder: Path, version: str, *, video: bool = False, names: tuple[str, str] = ("image", "wrist_image"), **info: Any
) -> Path:
    """A data set of four episodes of two tasks, as lerobot writes it in one of its versions."""
    prefix = "" if names == ("image", "wrist_image") and version == "v2.0" else "observation.images."
    keys = [f"{prefix}{name}" for name in names]
    act, proprio = ("action", "observation.state") if prefix else ("actions", "state")
    texts = [BOWL.language, "Turn_on  the stove.", BOWL.language, "Dance"]
    is_v3 = version == "v3.0"
    place = "chunk-{chunk_index:03d}/file-{file_index:03d}"
    old = "episode_{episode_index:06d}"
    kind = "video" if video else "image"
    about = {
        "codebase_version": version,
        "robot_type": "panda",
        "fps": 10,
        "chunks_size": 2,
        "data_path": f"data/{place}.parquet" if is_v3 else f"data/chunk-{{episode_chunk:03d}}/{old}.parquet",
        "video_path": f"videos/{{video_key}}/{place}.mp4"
        if is_v3
        else f"videos/chunk-{{episode_chunk:03d}}/{{video_key}}/{old}.mp4",
        "features": {
            **{key: {"dtype": kind, "shape": [SIZE, SIZE, 3]} for key in keys},
            proprio: {"dtype": "float32", "shape": [8]},
            act: {"dtype": "float32", "shape": [7]},
        },
    }
    (folder / "meta").mkdir(parents=True)
    (folder / "meta" / "info.json").write_text(json.dumps(about | info))
    tables, places = [], []
    for episode, text in enumerate(texts):
        columns: dict[str, Any] = {
            proprio: [state(episode, row).tolist() for row in range(ROWS)],
            act: [action(episode, row).tolist() for row in range(ROWS)],
            "timestamp": pa.array(np.arange(ROWS) / 10, pa.float32()),
            "episode_index": [episode] * ROWS,
        }
        for camera, key in enumerate(keys):
            frames = [picture(episode, row, camera) for row in range(ROWS)]
            if video:
                file = folder / (
                    f"videos/{key}/chunk-000/file-{episode:03d}.mp4"
                    if is_v3
                    else f"videos/chunk-{episode // 2:03d}/{key}/episode_{episode:06d}.mp4"
                )
                file.parent.mkdir(parents=True, exist_ok=True)
                # Others' episodes stand before it in the file.
                before = [np.zeros((SIZE, SIZE, 3), np.uint8)] * 3 * is_v3
                with video_writer(file, 10, {"g": "50"}) as write:
                    for frame in [*before, *frames]:
                        write(frame)
            else:
                columns[key] = [{"bytes": png(frame), "path": "x.png"} for frame in frames]
        tables.append(pa.table(columns))
        places.append({"episode_index": episode, "tasks": [text], "length": ROWS})
        if is_v3:
            places[-1] |= {"data/chunk_index": 0, "data/file_index": episode // 2}
            for key in keys if video else ():
                where = {"chunk_index": 0, "file_index": episode, "from_timestamp": 0.3}
                places[-1] |= {f"videos/{key}/{name}": value for name, value in where.items()}
    if is_v3:
        (folder / "data" / "chunk-000").mkdir(parents=True)
        for number in (0, 1):
            both = pa.concat_tables(tables[2 * number : 2 * number + 2])
            pq.write_table(both, folder / "data" / "chunk-000" / f"file-{number:03d}.parquet", row_group_size=5)
        (folder / "meta" / "episodes" / "chunk-000").mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(places), folder / "meta" / "episodes" / "chunk-000" / "file-000.parquet")
        return folder
    for episode, table in enumerate(tables):
        file = folder / f"data/chunk-{episode // 2:03d}/episode_{episode:06d}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, file)
    (folder / "meta" / "episodes.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in places))
    return folder


def png(frame: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(frame).save(stream, "PNG")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("version", "video", "names", "robot"),
    [
        ("v2.0", False, ("image", "wrist_image"), "panda"),
        ("v2.1", True, ("image", "wrist_image"), "Franka"),
        ("v2.1", False, ("front", "wrist"), None),
        ("v3.0", True, ("image", "image2"), "panda"),
        ("v3.0", False, ("image", "image2"), "panda"),
    ],
)
def test_published_data_sets_are_read(
    tmp_path: Path, version: str, video: bool, names: tuple[str, str], robot: str | None
) -> None:
    folder = published(tmp_path / "set", version, video=video, names=names, robot_type=robot)
    found = read_demonstrations(folder, SUITE, 10)
    assert [(each.task, each.instruction) for each in found] == [
        (BOWL, BOWL.language),
        (BOWL, BOWL.language),
        (STOVE, "Turn_on  the stove."),
    ]
    for each, episode in zip(found, (0, 2, 1), strict=True):
        assert (each.seed, each.start, each.qpos) == (None, None, None)
        assert np.array_equal(each.actions, [action(episode, row) for row in range(ROWS)])
        for row in (6, 0, 3):
            assert each.recorded is not None
            shown = each.recorded(row)
            assert set(shown) == {SCENE, WRIST, STATE}
            assert np.array_equal(shown[STATE], state(episode, row))
            for camera, name in enumerate((SCENE, WRIST)):
                assert shown[name].shape == (SIZE, SIZE, 3)
                assert np.abs(shown[name].astype(int) - shade(episode, row, camera)).max() <= 2 * video


def test_few_are_spread_over_tasks_and_episodes(tmp_path: Path) -> None:
    cases = [(Case("tabletop", task.name, seed), "success") for seed in range(6) for task in (STOVE, BOWL)]
    folder = exported(tmp_path / "set", "none", cases)
    for count, seeds in ((1, [0]), (2, [0, 0]), (3, [0, 3, 0]), (4, [0, 3, 0, 3]), (99, [*range(6), *range(6)])):
        found = read_demonstrations(folder, SUITE, count)
        assert [each.seed for each in found] == seeds
        assert found[0].task == BOWL, "in the suite's order"


def test_cameras_are_chosen_by_name(tmp_path: Path) -> None:
    folder = published(tmp_path / "set", "v3.0", names=("left", "right"))
    with pytest.raises(VlaError, match=r"left, right .*--cameras=left:agentview"):
        read_demonstrations(folder, SUITE, 1)
    (found,) = read_demonstrations(folder, SUITE, 1, cameras={"right": SCENE, "left": WRIST})
    assert found.recorded is not None
    shown = found.recorded(2)
    assert [shown[name][0, 0, 0] for name in (SCENE, WRIST)] == [shade(0, 2, 1), shade(0, 2, 0)]
    with pytest.raises(VlaError, match=r"has no picture 'lift'\. Did you mean left"):
        read_demonstrations(folder, SUITE, 1, cameras={"lift": SCENE})
    with pytest.raises(VlaError, match="tabletop has no observation 'side_image'"):
        read_demonstrations(folder, SUITE, 1, cameras={"left": "side_image"})


def test_instructions_of_several_tasks_are_left_out(tmp_path: Path) -> None:
    alike = tuple(dataclasses.replace(task, language="Put the bowl!") for task in (STOVE, BOWL))
    suite = dataclasses.replace(SUITE, tasks=(*alike, SUITE.tasks[0]))
    folder = published(tmp_path / "set", "v2.1")
    places = [json.loads(line) for line in (folder / "meta" / "episodes.jsonl").read_text().splitlines()]
    texts = ["put the bowl", SUITE.tasks[0].language, "put the bowl", "dance"]
    lines = (json.dumps(each | {"tasks": [text]}) for each, text in zip(places, texts, strict=True))
    (folder / "meta" / "episodes.jsonl").write_text("\n".join(lines))
    told: list[str] = []
    (found,) = read_demonstrations(folder, suite, 9, told=told.append)
    assert found.task == SUITE.tasks[0]
    assert "several tasks of that instruction: Put the bowl!" in told[0]


def levels_of(*names: str) -> Suite:
    """Tasks of one instruction, at these levels."""
    tasks = tuple(dataclasses.replace(STOVE, task_level=name, file=f"level_{name[1:]}/{STOVE.name}") for name in names)
    return dataclasses.replace(SUITE, tasks=tasks)


@pytest.mark.parametrize(("name", "level"), [("VLA_Arena_L1_S_lerobot_openpi", "L1"), ("set", "L0")])
def test_a_data_sets_name_says_its_level(tmp_path: Path, name: str, level: str) -> None:
    folder = published(tmp_path / name, "v2.1")
    told: list[str] = []
    found = read_demonstrations(folder, levels_of("L0", "L1", "L2"), 1, told=told.append)
    assert {each.task.task_level for each in found} == {level}
    assert any("taken for L0" in line for line in told) == (name == "set")


# LIBERO's HDF5.

XML = '<m><worldbody><body name="r">{}</body><body name="b"><joint name="free" type="free"/></body></worldbody></m>'
JOINTS = tuple(f"robot0_joint{number}" for number in range(1, 8))
NQ, NV = 14, 13


def libero(file: Path, task: str, *, late: bool | None, demos: int = 2, rows: int = 5) -> Path:
    """LIBERO's file of a robot of seven joints and a thing; what was observed is of after the action, or before it."""
    xml = XML.format("".join(f'<joint name="{name}"/>' for name in JOINTS))
    paths = [np.random.default_rng(demo).normal(size=(rows + 1, 1 + NQ + NV)) for demo in range(demos)]
    found = [
        Recorded(np.array([action(demo, row) for row in range(rows)]), paths[demo][:-1], xml) for demo in range(demos)
    ]
    write_demonstrations(file, task, found)
    with h5py.File(file, "a") as root:
        for demo, path in enumerate(paths):
            del root[f"data/demo_{demo}/obs"]
            if late is None:
                continue
            obs = root.create_group(f"data/demo_{demo}/obs")
            obs["joint_states"] = path[int(late) :][:rows, 1:8]
            obs["agentview_rgb"] = np.stack([picture(demo, row) for row in range(rows)])
            obs["eye_in_hand_rgb"] = np.stack([picture(demo, row, 1) for row in range(rows)])
            obs["ee_states"] = np.stack([state(demo, row)[:6] for row in range(rows)])
            obs["gripper_states"] = np.stack([state(demo, row)[6:] for row in range(rows)])
    return file


@pytest.mark.parametrize("late", [True, False])
def test_liberos_files_are_read(tmp_path: Path, late: bool) -> None:
    file = libero(tmp_path / "stove_demo.hdf5", STOVE.name, late=late)
    found = read_demonstrations(file, SUITE, 9)
    assert [each.name for each in found] == [f"{file}: data/demo_0", f"{file}: data/demo_1"]
    for demo, each in enumerate(found):
        with h5py.File(file) as root:
            states = root[f"data/demo_{demo}/states"][late:]
        # The first row's action came before anything was observed.
        assert np.array_equal(each.actions, [action(demo, row) for row in range(int(late), 5)])
        assert each.start is not None
        assert np.array_equal(each.start.states, states)
        assert (each.start.joints, each.start.gripper) == ((*JOINTS, "free"), each.actions[0, -1])
        assert each.qpos is not None
        assert np.array_equal(each.qpos, states[:, 1 : 1 + NQ])
        assert each.recorded is not None
        for row in range(len(each.actions)):
            shown = each.recorded(row)
            assert np.array_equal(shown[SCENE], picture(demo, row))
            assert np.array_equal(shown[WRIST], picture(demo, row, 1))
            assert np.array_equal(shown[STATE], state(demo, row))


def test_a_folder_of_files_is_read_by_task(tmp_path: Path) -> None:
    libero(tmp_path / f"{STOVE.name}_demo.hdf5", STOVE.name, late=None)
    libero(tmp_path / f"{BOWL.name}_demo.hdf5", BOWL.name, late=None, demos=2)
    (tmp_path / "other.hdf5").write_bytes(b"is not opened, as enough have the names of tasks")
    found = read_demonstrations(tmp_path, SUITE, 2)
    assert [(each.task, each.name.rpartition("_")[2], each.recorded) for each in found] == [
        (BOWL, "0", None),
        (STOVE, "0", None),
    ]


def test_vla_arenas_files_are_read(tmp_path: Path) -> None:
    """Regenerated ones: in folders of levels, with robosuite's names of cameras, and without their model and task."""
    (tmp_path / "level_1").mkdir()
    file = libero(tmp_path / "level_1" / f"{STOVE.name}_demo.hdf5", STOVE.name, late=False, demos=1)
    with h5py.File(file, "a") as root:
        obs = root["data/demo_0/obs"]
        obs.move("eye_in_hand_rgb", "robot0_eye_in_hand_rgb")
        del root["data/demo_0"].attrs["model_file"], root["data"].attrs["bddl_file_name"]
        root["data/demo_0/actions"][1:3, :6] = 0.0
        root["data/demo_0/actions"][:, 6] = -1.0
        states, actions = root["data/demo_0/states"][()], root["data/demo_0/actions"][()]
    told: list[str] = []
    for no_ops, rows in ((None, [0, 1, 2, 3, 4]), (4, [0, 3, 4])):
        (found,) = read_demonstrations(tmp_path, levels_of("L0", "L1"), 9, no_ops=no_ops, told=told.append)
        assert (found.task.task_level, found.qpos) == ("L1", None)
        assert found.start is not None
        assert found.recorded is not None
        assert np.array_equal(found.actions, actions[rows])
        assert np.array_equal(found.start.states, states[rows])
        for number, row in enumerate(rows):
            assert np.array_equal(found.recorded(number)[WRIST], picture(0, row, 1))
    assert "2 of 5 rows left out" in told[-1]


def test_states_of_another_model_are_refused(tmp_path: Path) -> None:
    file = libero(tmp_path / "a.hdf5", STOVE.name, late=None, demos=1)
    with h5py.File(file, "a") as root:
        root["data/demo_0"].attrs["model_file"] = XML.format("")
    with pytest.raises(VlaError, match=r"a\.hdf5: data/demo_0: its states have 28 numbers, which 1 joint"):
        read_demonstrations(file, SUITE, 1)


def test_a_cut_hdf5_and_other_tasks_are_refused(tmp_path: Path) -> None:
    file = libero(tmp_path / "a.hdf5", "dance", late=None)
    with pytest.raises(
        VlaError, match=r"a\.hdf5: none of its tasks is one of tabletop's. It has 'dance'; tabletop has o"
    ):
        read_demonstrations(file, SUITE, 1)
    file.write_bytes(file.read_bytes()[:3000])
    with pytest.raises(VlaError, match=r"a\.hdf5: the file: expected LIBERO's HDF5"):
        read_demonstrations(file, SUITE, 1)


# Bad input.


Change = Callable[[Path], object]


def info(**changes: Any) -> Change:
    def change(folder: Path) -> None:
        file = folder / "meta" / "info.json"
        about = json.loads(file.read_text())
        for name, value in changes.items():
            target = about["features"] if name.startswith("f_") else about
            target[{"f_action": "action"}.get(name, name)] = value
        about["features"] = {name: each for name, each in about["features"].items() if each is not None}
        file.write_text(json.dumps(about))

    return change


def cut(name: str, share: float = 0.5) -> Change:
    def change(folder: Path) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: int(len(data) * share)])

    return change


def column(name: str, values: Callable[[Any], Any]) -> Change:
    def change(folder: Path) -> None:
        file = folder / DATA
        table = pq.read_table(file)
        place = table.schema.get_field_index(name)
        pq.write_table(table.set_column(place, name, values(table[name].to_pylist())), file)

    return change


def nan(rows: Any) -> Any:
    rows[3][2] = float("nan")
    return pa.array(rows)


DATA = "data/chunk-000/episode_000000.parquet"
INFO = r"meta/info\.json: "
FAULTY: dict[str, tuple[Change, str]] = {
    "no actions": (info(f_action=None), INFO + "features: expected action, found observation.images.image"),
    "six numbers": (info(f_action={"shape": [6]}), INFO + r"features\.action\.shape: expected \[7\].*found \[6\]"),
    "another robot": (info(robot_type="so100"), INFO + "robot_type: expected panda.*found so100"),
    "another version": (info(codebase_version="v1.6"), INFO + "codebase_version: expected v2.0 or.*found v1.6"),
    "features of texts": (info(features={"action": "x"}), INFO + "features: expected a table of tables"),
    "no fps": (info(fps=0), INFO + "fps"),
    "absolute path": (info(data_path="/etc/{episode_index}"), INFO + "data_path: expected a path in"),
    "path above": (info(data_path="data/../../{episode_index}"), INFO + "data_path: expected a path in"),
    "unknown field": (info(data_path="data/{other}.parquet"), INFO + "data_path: expected a path in"),
    "field's attribute": (info(data_path="{video_key.__class__}"), INFO + "data_path: expected a path in"),
    "wide field": (info(data_path="data/{episode_index:0999999999d}"), INFO + "data_path: expected a path in"),
    "field of another version": (info(data_path="data/{file_index}"), r"episodes\.jsonl:1: the path .* has file_index"),
    "key above": (
        info(features={"action": {"shape": [7]}, "../../x": {"dtype": "video"}}),
        INFO + "features: expected names of letters.*found ../../x",
    ),
    "cut info": (cut("meta/info.json"), INFO + "it is damaged or cut off"),
    "cut episodes": (cut("meta/episodes.jsonl", 0.95), r"episodes\.jsonl:4: it is damaged or cut off"),
    "no episodes": (lambda folder: (folder / "meta/episodes.jsonl").unlink(), r"episodes\.jsonl: .*No such file"),
    "huge episode": (
        lambda folder: (
            (folder / "meta/episodes.jsonl").write_text(
                f'{{"episode_index": 0, "tasks": ["{BOWL.language}"], "length": 99999999}}'
            )
            and None
        ),
        r"episodes\.jsonl:1: length: expected at most",
    ),
    "cut parquet": (cut(DATA), r"episode_000000\.parquet: it is damaged or cut off"),
    "no parquet": (lambda folder: (folder / DATA).unlink(), r"episode_000000\.parquet: there is no such file"),
    "a pointer": (
        lambda folder: (folder / DATA).write_text("version https://git-lfs.github.com/spec/v1\noid"),
        "only a pointer of Git LFS",
    ),
    "not finite": (column("action", nan), r"000000\.parquet: action: expected finite numbers, found .*nan.* in row 3"),
    "state not finite": (column("observation.state", nan), r"observation\.state: expected finite.* in row 3"),
    "texts": (column("action", lambda rows: pa.array(["a"] * len(rows))), "action: expected 7 numbers a row"),
    "nulls": (column("action", lambda rows: pa.array([None, *rows[1:]])), "action: expected 7 numbers a row"),
    "fewer rows": (
        lambda folder: pq.write_table(pq.read_table(folder / DATA).slice(2), folder / DATA),
        "episode_index: expected 7 rows of episode 0, one after the other, found 5",
    ),
    "no column": (
        lambda folder: pq.write_table(pq.read_table(folder / DATA).drop_columns(["action"]), folder / DATA),
        "expected a column action, found observation.state",
    ),
    "no task": (
        lambda folder: (
            (folder / "meta/episodes.jsonl").write_text('{"episode_index": 0, "tasks": ["dance"], "length": 7}')
            and None
        ),
        "none of its tasks is one of tabletop's. It has 'dance'; tabletop has open the middle drawer",
    ),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published(tmp_path_factory.mktemp("published") / "set", "v2.1")


@pytest.mark.parametrize("name", FAULTY)
def test_a_faulty_data_set_is_refused(whole: Path, tmp_path: Path, name: str) -> None:
    change, complaint = FAULTY[name]
    folder = shutil.copytree(whole, tmp_path / "set")
    change(folder)
    with pytest.raises(VlaError, match=complaint) as refused:
        read_demonstrations(folder, SUITE, 9)
    assert str(refused.value).startswith(str(folder))


@pytest.mark.parametrize(
    ("held", "complaint"),
    [
        ({"bytes": b"no picture", "path": None}, "expected a PNG, JPEG or WebP picture"),
        ({"bytes": None, "path": "/etc/passwd"}, "expected a picture's bytes"),
    ],
)
def test_a_damaged_picture_is_told_with_its_row(whole: Path, tmp_path: Path, held: Any, complaint: str) -> None:
    folder, key = shutil.copytree(whole, tmp_path / "set"), "observation.images.wrist_image"
    column(
        key, lambda rows: pa.array([*rows[:4], held, *rows[5:]], pa.struct({"bytes": pa.binary(), "path": pa.string()}))
    )(folder)
    found = read_demonstrations(folder, SUITE, 9)[0]
    assert found.recorded is not None
    found.recorded(3)
    with pytest.raises(VlaError, match=rf"episode_000000\.parquet: {key}: row 4: {complaint}"):
        found.recorded(4)


def test_videos_that_end_early_are_refused(tmp_path: Path) -> None:
    folder = published(tmp_path / "set", "v2.1", video=True)
    video = folder / "videos" / "chunk-000" / "observation.images.wrist_image" / "episode_000000.mp4"
    whole = video.read_bytes()
    video.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(VlaError, match=r"episode_000000\.mp4: .*wrist_image: expected a frame at 0.600 s.* cut off"):
        read_demonstrations(folder, SUITE, 1)
    video.unlink()
    with pytest.raises(VlaError, match=r"episode_000000\.mp4: there is no such video"):
        read_demonstrations(folder, SUITE, 1)
    with video_writer(video, 10) as write:
        for row in range(ROWS - 2):
            write(picture(0, row))
    with pytest.raises(VlaError, match=r"episode_000000\.mp4: .*expected a frame at 0.600 s.* last at 0.400 s"):
        read_demonstrations(folder, SUITE, 1)
    # A list of files to play, which FFmpeg would open.
    video.write_text("#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n")
    with pytest.raises(VlaError, match=r"episode_000000\.mp4: it is damaged"):
        read_demonstrations(folder, SUITE, 1)


def test_what_is_no_demonstration_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("hello")
    with pytest.raises(VlaError, match=r"text\.txt: the file: expected an HDF5 file"):
        read_demonstrations(tmp_path / "text.txt", SUITE, 1)
    with pytest.raises(VlaError, match=r"expected LIBERO's demonstrations .* found a folder with neither"):
        read_demonstrations(tmp_path, SUITE, 1)
    with pytest.raises(VlaError, match="there is no such file or folder; expected LIBERO's"):
        read_demonstrations(tmp_path / "none", SUITE, 1)


def test_another_action_size_is_the_suites(whole: Path) -> None:
    task = with_protocol(BOWL, action_size=4)
    suite = dataclasses.replace(SUITE, tasks=(task,), protocol=task.protocol)
    with pytest.raises(VlaError, match=r"shape: expected \[4\], as tabletop takes, found \[7\]"):
        read_demonstrations(whole, suite, 1)


# The hub.


def test_of_the_hub_only_what_is_needed_is_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    there = published(tmp_path / "there", "v3.0")
    here, asked = tmp_path / "snapshots" / ("1" * 40), []

    def snapshot_download(name: str, *, repo_type: str, revision: str | None, allow_patterns: list[str]) -> str:
        asked.append((name, repo_type, revision))
        for pattern in allow_patterns:
            for file in there.glob(f"{pattern}/*" if pattern.endswith("/*") else pattern):
                copy = here / file.relative_to(there)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, copy)
        return str(here)

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=snapshot_download))
    monkeypatch.chdir(tmp_path)
    told: list[str] = []
    found = read_demonstrations(Path("some/set@v3.0"), SUITE, 9, told=told.append)
    assert asked == [("some/set", "dataset", "v3.0"), ("some/set", "dataset", "1" * 40)]
    assert [(each.task, each.recorded is not None) for each in found] == [(BOWL, True), (STOVE, True)]
    assert [path.name for path in (here / "data" / "chunk-000").iterdir()] == ["file-000.parquet"], "has both tasks"
    assert "some/set: 1 file" in told[0]


def test_without_the_hub_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)

    def offline(*_: object, **__: object) -> str:
        raise OSError("no network")

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=offline))
    with pytest.raises(
        VlaError, match=r"datasets/some/set could not .*no network.*`hf download --repo-type=dataset some"
    ):
        read_demonstrations(Path("some/set"), SUITE, 1)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(VlaError, match=r"no folder some/set.*pip install 'pytest-vla\[fetch\]'"):
        read_demonstrations(Path("some/set"), SUITE, 1)
