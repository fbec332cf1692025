"""The wheel, installed in a fresh environment far from the checkout, runs a real episode."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from pytest_vla.commands.cache import WITH_CODE
from pytest_vla.util.machine_code import SUFFIX, codes_of
from tests.support.data import REPOSITORY, libero_data
from tests.support.waiting import HANG

SOURCES = ("pytest_vla", "suites", "fixtures", "reports", "pyproject.toml", "setup.py", "README.md", "LICENSE")
CODE = "pytest_vla/compiled/"
LEFT_BEHIND = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info", "*.code")
SUITES_PICTURE = "suites/tabletop/tabletop.png"
# What Python and numba compiled of other packages comes along: to do that again takes longer than all that is tested.
EDITABLE_INSTALL = shutil.ignore_patterns("*pytest_vla*", "*.pth")


def run(*command: str | Path, folder: Path, **environ: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHON"))}
    result = subprocess.run(
        list(map(str, command)), cwd=folder, env=inherited | environ, capture_output=True, text=True, timeout=HANG
    )
    assert result.returncode in (0, 1), result.stdout + result.stderr
    return result.stdout + result.stderr


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sdist, and the wheel that was built from it."""
    checkout, out = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("dist")
    for name in SOURCES:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, checkout / name, symlinks=True, ignore=LEFT_BEHIND)
        else:
            shutil.copy(source, checkout)
    said = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ".", folder=checkout)
    built = {path.suffix: path for path in out.iterdir()}
    assert built.keys() == {".whl", ".gz"}, said
    return built


@pytest.fixture(scope="module")
def fresh(distribution: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with the wheel, and the packages of this one, but for the editable install."""
    home = tmp_path_factory.mktemp("fresh")
    venv.create(home / "venv", with_pip=False)
    python = home / "venv" / "bin" / "python"
    theirs = Path(sysconfig.get_path("purelib", vars={"base": str(home / "venv")}))
    ours = Path(sysconfig.get_path("purelib"))
    shutil.copytree(ours, theirs, ignore=EDITABLE_INSTALL, copy_function=link_or_copy, dirs_exist_ok=True)
    install = ("install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check")
    said = run(sys.executable, "-m", "pip", "--python", python, *install, distribution[".whl"], folder=home)
    assert (theirs / "pytest_vla" / "plugin.py").is_file(), said
    return python.parent


@pytest.mark.slow
def test_the_wheel_has_every_package_its_data_and_nothing_else(distribution: dict[str, Path]) -> None:
    names = zipfile.ZipFile(distribution[".whl"]).namelist()
    folders = {"pytest_vla": "pytest_vla", "suites": "pytest_vla/suites", "fixtures": "pytest_vla/fixtures"}
    folders["reports"] = "pytest_vla/reports"
    expected = {
        f"{target}/{path.relative_to(REPOSITORY / folder).as_posix()}"
        for folder, target in folders.items()
        for path in (REPOSITORY / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != SUFFIX
        if path != REPOSITORY / SUITES_PICTURE
    }
    assert {name for name in names if ".dist-info/" not in name and not name.startswith(CODE)} == expected
    tabletop = "pytest_vla/suites/tabletop"
    assert f"{tabletop}/init_files/tabletop/turn_on_the_stove.pruned_init" in names
    assert {Path(name).suffix for name in names if name.startswith(tabletop)} == {
        *(".py", ".toml", ".xml", ".obj", ".png", ".bddl", ".pruned_init")
    }
    assert "pytest_vla/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.slow
def test_the_wheel_has_machine_code_of_all_functions_and_the_sdist_none(distribution: dict[str, Path]) -> None:
    names = [name for name in zipfile.ZipFile(distribution[".whl"]).namelist() if name.startswith(CODE)]
    expected = {code.file for module in WITH_CODE for code in codes_of(module)}
    assert {name.removeprefix(CODE) for name in names} == expected
    with tarfile.open(distribution[".gz"]) as archive:
        assert [name for name in archive.getnames() if name.endswith(SUFFIX)] == []


def test_a_wheel_is_built_without_machine_code_where_nothing_of_what_makes_it_is_installed(
    distribution: dict[str, Path], tmp_path: Path
) -> None:
    """As pip does it: in an environment that has setuptools alone."""
    with tarfile.open(distribution[".gz"]) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    home = Path(sysconfig.get_path("purelib"))
    theirs = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path / "venv")}))
    for folder in (home / "_distutils_hack", *home.glob("setuptools*")):
        shutil.copytree(folder, theirs / folder.name)
    build = "from setuptools.build_meta import build_wheel; build_wheel('..')"
    said = run(python, "-c", build, folder=source)
    assert "a wheel without machine code, which machines then make: ModuleNotFoundError: " in said
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "pytest_vla/plugin.py" in names
    assert not any(name.startswith(CODE) for name in names)


def test_the_sdist_has_what_the_wheel_is_built_from(distribution: dict[str, Path]) -> None:
    with tarfile.open(distribution[".gz"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= {"pyproject.toml", "README.md", "LICENSE", "pytest_vla/suites/libero.toml", "pytest_vla/plugin.py"}


@pytest.mark.slow
def test_the_wheel_runs_the_built_in_suite_without_any_data(fresh: Path, tmp_path: Path) -> None:
    said = run(
        *(fresh / "python", "-m", "pytest", "-p", "no:cacheprovider", "--vla-suite=tabletop"),
        *("--vla-tasks=turn_on_the_stove", "--vla-model=random", "--vla-seeds=0"),
        folder=tmp_path,
        LIBERO_CONFIG_PATH=str(tmp_path),
        PYTEST_VLA_CACHE=str(tmp_path / "cache"),
    )
    record = json.loads(run(fresh / "pytest-vla", "export", "--format=jsonl", folder=tmp_path))
    assert (record["outcome"], record["suite"]) == ("failure", "tabletop"), said
    # Whatever was made on this machine would be there.
    assert {path.suffix for path in (tmp_path / "cache").iterdir()} == {".json", ".lock", ".mjb"}


@pytest.mark.slow
def test_the_wheel_runs_a_real_episode_in_an_empty_folder(fresh: Path, tmp_path: Path) -> None:
    data = libero_data()
    where = "import pytest_vla.plugin, pytest_vla.suites; print(pytest_vla.plugin.__file__)"
    assert Path(run(fresh / "python", "-c", where, folder=tmp_path).strip()).is_relative_to(fresh.parent)
    said = run(
        *(fresh / "python", "-m", "pytest", "-p", "no:cacheprovider", f"--vla-data={data}", "--vla-suite=libero_goal"),
        *("--vla-tasks=turn_on_the_stove", "--vla-model=random", "--vla-seeds=0"),
        folder=tmp_path,
    )
    record = json.loads(run(fresh / "pytest-vla", "export", "--format=jsonl", folder=tmp_path))
    assert record["outcome"] in ("success", "failure"), said
