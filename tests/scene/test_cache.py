"""Compiled scenes on disk: hits, misses, damage, limits, parallel workers. On one small real scene of LIBERO."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from pytest_vla.cli import main
from pytest_vla.commands.cache import ship_code
from pytest_vla.errors import SceneError, VlaError
from pytest_vla.plan.data_roots import DataRoot, data_roots
from pytest_vla.scene import cache, compose
from pytest_vla.scene.problem import Problem, parse_problem, parse_problem_text
from pytest_vla.util import files, machine_code
from tests.support.data import data_root, libero_data
from tests.support.waiting import HANG

# One of the quicker scenes to compile; 100 MB.
_TASK = "libero_90/KITCHEN_SCENE5_put_the_black_bowl_on_the_plate.bddl"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PYTEST_VLA_CACHE_LIMIT", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def problem() -> Problem:
    return parse_problem(libero_data() / "bddl_files" / _TASK)


@pytest.fixture
def roots() -> tuple[DataRoot, ...]:
    libero_data()
    return data_roots(data_root())


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by an entry at every compilation."""
    calls: list[str] = []
    original = compose.compose

    def counted(problem: Problem, roots: tuple[DataRoot, ...]) -> compose.ComposedScene:
        calls.append(problem.source)
        return original(problem, roots)

    monkeypatch.setattr(compose, "compose", counted)
    return calls


def _arrays(model: mujoco.MjModel) -> dict[str, np.ndarray]:
    names = (name for name in dir(model) if not name.startswith("_"))
    return {name: value for name in names if isinstance(value := getattr(model, name), np.ndarray)}


def test_the_second_time_comes_from_disk_and_is_the_same(
    folder: Path, problem: Problem, roots: tuple[DataRoot, ...], compiled: list[str]
) -> None:
    first = cache.compiled_scene(problem, roots)
    second = cache.compiled_scene(problem, roots)
    assert len(compiled) == 1
    assert (second.scene, second.digest, second.compiled) == (first.scene, first.digest, first.compiled)
    (file,) = folder.glob("*.mjb")
    (description,) = folder.glob("*.json")
    told = json.loads(description.read_text())
    assert told["model_sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert first.compiled == told.pop("compiled") == cache.model_digest(first.model)
    # As earlier versions described it.
    description.write_text(json.dumps(told))
    assert cache.compiled_scene(problem, roots).compiled == first.compiled
    assert len(compiled) == 1
    arrays = _arrays(first.model)
    assert len(arrays) > 200
    for name, value in arrays.items():
        assert np.array_equal(value, getattr(second.model, name), equal_nan=value.dtype.kind == "f"), name
    assert sorted(path.suffix for path in folder.iterdir()) == [".json", ".lock", ".mjb"]
    # As readable for others as any file that is made: a cache may be shared.
    (folder / "plain").touch()
    assert {path.stat().st_mode for path in folder.iterdir()} == {(folder / "plain").stat().st_mode}


def test_a_model_is_the_same_wherever_its_assets_are(tmp_path: Path) -> None:
    """Two environments have robosuite in two folders; the model's file names them."""
    tetrahedron = "v 0 0 0 v 1 0 0 v 0 1 0 v 0 0 1 f 1 3 2 f 1 2 4 f 2 3 4 f 1 4 3".replace(" v", "\nv").replace(
        " f", "\nf"
    )

    def model(folder: str, change: tuple[str, str] = ("", "")) -> mujoco.MjModel:
        assets = tmp_path / folder
        assets.mkdir(exist_ok=True)
        (assets / "a.obj").write_text(tetrahedron)
        (assets / "b.obj").write_text(tetrahedron)
        return mujoco.MjModel.from_xml_string(
            f"""<mujoco><asset><mesh file="{assets}/a.obj"/><mesh file="{assets}/b.obj"/></asset>
            <worldbody><light/><geom type="mesh" mesh="a"/><geom type="mesh" mesh="b"/><body name="ball"><freejoint/>
            <geom size=".1"/></body></worldbody></mujoco>""".replace(*change)
        )

    first, other = model("one"), model("another folder")
    assert first.npaths != other.npaths
    assert first.mesh_pathadr.tolist() != other.mesh_pathadr.tolist()
    assert cache.model_digest(first) == cache.model_digest(other)
    changes = [
        ('size=".1"', 'size=".10000000000000002"'),
        ('"ball"', '"cube"'),
        ("<worldbody>", '<option timestep="0.001"/><worldbody>'),
        ("<worldbody>", '<visual><map znear="0.02"/></visual><worldbody>'),
        ("<light/>", ""),
        ('mesh="b"', 'mesh="a"'),
    ]
    digests = {cache.model_digest(model("one", change)) for change in changes}
    assert len(digests | {cache.model_digest(first)}) == 1 + len(changes)


def test_what_others_may_have_written_is_compiled_anew(
    folder: Path, problem: Problem, roots: tuple[DataRoot, ...], compiled: list[str]
) -> None:
    """A poisoned model would run other physics under the same digest; its description can be written to fit it."""
    cache.compiled_scene(problem, roots)
    for number, (pattern, mode) in enumerate((("*.mjb", 0o666), ("*.json", 0o664)), 2):
        (file,) = folder.glob(pattern)
        file.chmod(mode)
        cache.compiled_scene(problem, roots)
        assert len(compiled) == number, pattern
        # What was made instead is trusted.
        cache.compiled_scene(problem, roots)
        assert len(compiled) == number


def test_in_a_folder_that_others_may_write_scenes_have_one_of_their_own(
    folder: Path, problem: Problem, roots: tuple[DataRoot, ...], compiled: list[str]
) -> None:
    cache.compiled_scene(problem, roots)
    (description,) = folder.glob("*.json")
    folder.chmod(0o777)
    for _ in range(2):
        cache.compiled_scene(problem, roots)
    assert len(compiled) == 2
    own = folder / f"scenes-{files.USER}"
    assert cache.scene_folder() == own
    assert [file.name for file in own.glob("*.json")] == [description.name]
    folder.chmod(0o755)
    assert cache.scene_folder() == folder
    # An own entry under another scene's name, as one with the right to rename files could have it.
    for file in [*folder.glob("*.mjb"), description]:
        file.rename(folder / f"{cache.scene_key(problem)}-{'0' * 32}{file.suffix}")
    cache.compiled_scene(problem, roots)
    assert len(compiled) == 3


def test_tasks_of_a_scene_share_it(
    folder: Path, problem: Problem, roots: tuple[DataRoot, ...], compiled: list[str]
) -> None:
    text = (
        (libero_data() / "bddl_files" / _TASK)
        .read_text()
        .replace("(And (On akita_black_bowl_1 plate_1))", "(And (Open white_cabinet_1_top_region))")
    )
    other = parse_problem_text(text)
    assert other.goal != problem.goal
    cache.compiled_scene(problem, roots)
    cache.compiled_scene(other, roots)
    assert len(compiled) == 1


def test_a_changed_asset_is_compiled_anew_and_a_touched_one_is_not(
    folder: Path, problem: Problem, roots: tuple[DataRoot, ...], compiled: list[str], tmp_path: Path
) -> None:
    first = cache.compiled_scene(problem, roots)
    copies = tmp_path / "copies" / "assets"
    shutil.copytree(
        libero_data() / "assets" / "stable_scanned_objects" / "plate", copies / "stable_scanned_objects" / "plate"
    )
    plate = copies / "stable_scanned_objects" / "plate" / "plate.xml"
    plate.chmod(0o644)
    overlaid = (DataRoot("test", assets=copies), *roots)
    os.utime(plate)
    assert cache.compiled_scene(problem, overlaid).digest == first.digest
    assert len(compiled) == 1
    plate.write_text(plate.read_text().replace('density="', 'density="1'))
    heavier = cache.compiled_scene(problem, overlaid)
    assert len(compiled) == 2
    assert heavier.digest != first.digest
    assert heavier.model.body("plate_1_main").mass > first.model.body("plate_1_main").mass
    # Both stay, each found by its own content.
    assert cache.compiled_scene(problem, roots).digest == first.digest
    assert cache.compiled_scene(problem, overlaid).digest == heavier.digest
    assert len(compiled) == 2


@pytest.mark.parametrize(
    "damage", ["truncated model", "a changed byte", "no model", "no description", "not JSON", "another shape"]
)
def test_a_damaged_entry_is_compiled_anew(
    folder: Path, problem: Problem, roots: tuple[DataRoot, ...], compiled: list[str], damage: str
) -> None:
    cache.compiled_scene(problem, roots)
    (model,) = folder.glob("*.mjb")
    (description,) = folder.glob("*.json")
    if damage == "truncated model":
        with model.open("r+b") as file:
            file.truncate(1000)
    elif damage == "a changed byte":
        # MuJoCo would load it and run other physics.
        with model.open("r+b") as file:
            file.seek(-1000, os.SEEK_END)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1]))
    elif damage == "no model":
        model.unlink()
    elif damage == "no description":
        description.unlink()
    elif damage == "not JSON":
        description.write_text("{")
    else:
        description.write_text(json.dumps(json.loads(description.read_text()) | {"scene": []}))
    assert cache.compiled_scene(problem, roots).model.nq > 0
    assert len(compiled) == 2
    cache.compiled_scene(problem, roots)
    assert len(compiled) == 2


def test_the_least_recently_used_scene_goes_first(folder: Path) -> None:
    folder.mkdir()
    stems = [f"{index:032x}-x" for index in range(4)]
    now = time.time()
    for age, stem in zip((30, 10, 40, 20), stems, strict=True):
        for suffix in (".mjb", ".json"):
            (folder / f"{stem}{suffix}").write_bytes(b"x" * 500)
            os.utime(folder / f"{stem}{suffix}", (now - age, now - age))
    stale, young = (folder / f"{stems[0]}.{name}.mjb.part" for name in ("old", "new"))
    stale.write_bytes(b"x")
    young.write_bytes(b"x")
    os.utime(stale, (now - 7200, now - 7200))
    cache.evict(folder, limit=2000, keep=stems[2])
    assert sorted({path.stem for path in folder.glob("*.mjb")}) == [stems[1], stems[2]]
    assert young.exists()
    assert not stale.exists()


def test_a_use_makes_a_scene_young(folder: Path, problem: Problem, roots: tuple[DataRoot, ...]) -> None:
    cache.compiled_scene(problem, roots)
    (description,) = folder.glob("*.json")
    os.utime(description, (1, 1))
    before = time.time()
    cache.compiled_scene(problem, roots)
    # File systems have a coarser clock.
    assert description.stat().st_mtime >= before - 2


def test_a_scene_beyond_the_limit_is_used_but_not_kept(
    folder: Path,
    problem: Problem,
    roots: tuple[DataRoot, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kept = cache.compiled_scene(problem, roots).compiled
    cache.clear(folder)
    monkeypatch.setenv("PYTEST_VLA_CACHE_LIMIT", "1MB")
    assert cache.compiled_scene(problem, roots).compiled == kept
    assert not [path for path in folder.iterdir() if path.suffix != ".lock"]
    assert "MB exceed PYTEST_VLA_CACHE_LIMIT" in capsys.readouterr().err


def test_an_unwritable_cache_costs_time_only(
    problem: Problem,
    roots: tuple[DataRoot, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "file" / "cache"))
    assert cache.compiled_scene(problem, roots).model.nq > 0
    assert "compiled scene not cached" in capsys.readouterr().err


@pytest.mark.slow
def test_parallel_workers_compile_once(folder: Path, roots: tuple[DataRoot, ...]) -> None:
    code = (
        "import sys; from pytest_vla.scene import cache, compose; from pytest_vla.plan.data_roots import data_roots\n"
        "from pytest_vla.scene.problem import parse_problem\n"
        "original = compose.compose\n"
        "def loud(*a):\n    print('compiled', flush=True)\n    return original(*a)\n"
        "compose.compose = loud\n"
        "print(cache.compiled_scene(parse_problem(sys.argv[1]), data_roots(sys.argv[2])).model.nq)"
    )
    task, data = libero_data() / "bddl_files" / _TASK, data_root()
    workers = [
        subprocess.Popen([sys.executable, "-c", code, str(task), str(data)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    printed = [worker.communicate(timeout=HANG)[0].split() for worker in workers]
    assert all(worker.returncode == 0 for worker in workers)
    assert sum(words.count("compiled") for words in printed) == 1
    assert len({words[-1] for words in printed}) == 1


def test_those_who_waited_load_side_by_side(
    folder: Path, problem: Problem, roots: tuple[DataRoot, ...], monkeypatch: pytest.MonkeyPatch, compiled: list[str]
) -> None:
    held, loads = False, []
    load = cache._load

    @contextlib.contextmanager
    def after_another(path: Path) -> Iterator[None]:
        nonlocal held
        cache._compile(problem, roots, folder, cache.scene_key(problem))
        held = True
        yield
        held = False

    def loaded(*arguments: Any) -> cache.CompiledScene | None:
        loads.append(held)
        return load(*arguments)

    monkeypatch.setattr(cache, "exclusive", after_another)
    monkeypatch.setattr(cache, "_load", loaded)
    assert cache.compiled_scene(problem, roots).model.nq > 0
    assert loads == [False, False], "before it waited, and after"
    assert len(compiled) == 1


@pytest.mark.parametrize(
    ("text", "size"), [("", 5 * 10**9), ("500MB", 5 * 10**8), ("2g", 2 * 10**9), ("1.5 GB", 1_500_000_000), ("7", 7)]
)
def test_limit(monkeypatch: pytest.MonkeyPatch, text: str, size: int) -> None:
    monkeypatch.setenv("PYTEST_VLA_CACHE_LIMIT", text)
    assert cache.cache_limit() == size


@pytest.mark.parametrize("text", ["much", "-1", "5 parsecs"])
def test_a_limit_that_is_no_size_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("PYTEST_VLA_CACHE_LIMIT", text)
    with pytest.raises(VlaError, match="expected a size such as 5GB"):
        cache.cache_limit()


def test_the_command_refuses_what_is_no_limit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTEST_VLA_CACHE_LIMIT", "lots")
    assert main(["cache"]) == 1
    assert "expected a size such as 5GB" in capsys.readouterr().err


def test_the_command_shows_trims_and_clears(
    folder: Path,
    problem: Problem,
    roots: tuple[DataRoot, ...],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    cache.compiled_scene(problem, roots)
    (folder / "notes.txt").write_text("not ours")
    assert main(["cache"]) == 0
    assert f"{folder}: 1 scene, " in capfd.readouterr().out
    monkeypatch.setenv("PYTEST_VLA_CACHE_LIMIT", "1kB")
    assert main(["cache", "--trim"]) == 0
    assert f"{folder}: 0 scenes, 0 MB of at most 0 MB" in capfd.readouterr().out
    monkeypatch.delenv("PYTEST_VLA_CACHE_LIMIT")
    cache.compiled_scene(problem, roots)
    assert main(["cache", "--clear"]) == 0
    assert [path.name for path in folder.iterdir() if path.suffix != ".lock"] == ["notes.txt"]


def test_the_command_fills_it_and_what_is_there_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], compiled: list[str]
) -> None:
    ship_code(tmp_path / "shipped")
    folder = tmp_path / "cache"
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(folder))
    monkeypatch.setattr(machine_code, "SHIPPED", tmp_path / "shipped")
    for _ in range(2):
        assert main(["cache", "--compile", "tabletop"]) == 0
        code, scenes, *held = capfd.readouterr().out.splitlines()
        assert re.fullmatch(r"machine code: 8 functions in \d+\.\d s", code)
        assert re.fullmatch(r"tabletop: 1 scene in \d+\.\d s", scenes)
        assert held[0].startswith(f"{folder}: 1 scene, ")
        assert held[1] == f"{folder}: machine code of 0 functions, 0.0 MB"
    assert len(compiled) == 1
    assert not (folder / "machine_code").exists(), "it came with the package"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owner here")
def test_the_command_says_in_which_folder_the_code_is_where_the_cache_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    other = tmp_path / f"pytest-vla-machine_code-{os.geteuid()}"
    other.mkdir(mode=0o700)
    (other / "control_step-0-0.code").write_bytes(b"x" * 200_000)
    assert main(["cache"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == [f"{other}: machine code of 1 function, 0.2 MB"]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owner here")
def test_the_command_shows_and_clears_machine_code(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = folder / "machine_code"
    own.mkdir(parents=True, mode=0o755)
    (own / "control_step-0-0.code").write_bytes(b"x" * 200_000)
    assert main(["cache"]) == 0
    assert f"{own}: machine code of 1 function, 0.2 MB" in capsys.readouterr().out
    assert main(["cache", "--clear"]) == 0
    assert list(own.iterdir()) == []


def test_the_command_says_why_machine_code_cannot_be_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine_code, "SHIPPED", folder)
    monkeypatch.setattr(machine_code, "_start_compiler", lambda folder, wanted: False)
    assert main(["cache", "--compile"]) == 1
    said = capsys.readouterr().err
    assert "cannot compile pytest_vla.sim.native:control_step:0, " in said
    assert f"numba must work, and {folder}/machine_code must be writable" in said


def test_the_command_compiles_scenes_of_suites_only(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "--compile", "tabeltop"]) == 1
    assert "Did you mean tabletop" in capsys.readouterr().err
    assert not folder.exists(), "nothing was made before"


def test_what_mujoco_refuses_is_a_scene_error(
    folder: Path, problem: Problem, roots: tuple[DataRoot, ...], tmp_path: Path
) -> None:
    copies = tmp_path / "copies" / "assets"
    shutil.copytree(
        libero_data() / "assets" / "stable_scanned_objects" / "plate", copies / "stable_scanned_objects" / "plate"
    )
    plate = copies / "stable_scanned_objects" / "plate" / "plate.xml"
    plate.chmod(0o644)
    plate.write_text(plate.read_text().replace('density="', 'density="minus '))
    with pytest.raises(SceneError, match=r"KITCHEN_SCENE5.*: MuJoCo refuses the composed scene"):
        cache.compiled_scene(problem, (DataRoot("test", assets=copies), *roots))
