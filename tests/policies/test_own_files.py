"""A policy's digest: its module, the project's modules that it imports, and the files that it reads as it loads."""

import contextlib
import hashlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pytest_vla.policies.load import digest_of, load_policy
from pytest_vla.policies.own_files import own_modules
from pytest_vla.policies.spec import ModelSpec

NAMES = ["brain", "brain_net", "brain_parts", "brain_parts.inner", "brain_deep", "brain_deep.low", "brain_late"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A policy of five modules, of which one lies in a folder without ``__init__.py``, and weights."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    np.save(tmp_path / "weights.npy", np.zeros(3))
    write(
        tmp_path,
        brain="import numpy as np\nimport brain_net\nfrom brain_parts import inner\nfrom pathlib import Path\n"
        "WEIGHTS = np.load(Path(__file__).with_name('weights.npy'))\n"
        "open(Path(__file__).with_name('log.txt'), 'w').write('loaded')\n"
        "def policy(episode):\n    import brain_late\n    return lambda observation: np.zeros(7)\n",
        brain_net="SCALE = 1\n",
        brain_late="LATE = 1\n",
    )
    (tmp_path / "brain_deep").mkdir()
    (tmp_path / "brain_deep" / "low.py").write_text("LOW = 1\n")
    (tmp_path / "brain_parts").mkdir()
    (tmp_path / "brain_parts" / "__init__.py").write_text("")
    (tmp_path / "brain_parts" / "inner.py").write_text("from . import inner as me\nimport brain_deep.low\n")
    yield tmp_path
    forget()


def write(folder: Path, **modules: str) -> None:
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)


def forget() -> None:
    for name in NAMES:
        sys.modules.pop(name, None)


def digest(folder: Path, text: str = "brain:policy") -> str | None:
    forget()
    spec = ModelSpec(text, folder)
    return digest_of(load_policy(spec), spec)


@pytest.mark.parametrize("changed", ["brain_net.py", "brain_parts/inner.py", "brain_deep/low.py", "brain_late.py"])
def test_each_of_the_projects_modules_is_in_the_digest(project: Path, changed: str) -> None:
    before = digest(project)
    assert digest(project) == before
    with (project / changed).open("a") as file:
        file.write("X = 2\n")
    assert digest(project) != before


def test_files_that_are_read_at_load_are_in_the_digest_and_written_ones_are_not(project: Path) -> None:
    before = digest(project)
    (project / "log.txt").write_text("other")
    (project / "notes.txt").write_text("nobody reads it")
    assert digest(project) == before
    np.save(project / "weights.npy", np.ones(3))
    assert digest(project) != before


def test_weights_count_when_the_module_is_imported_already(project: Path) -> None:
    before = digest(project)
    spec = ModelSpec("brain:policy", project)
    assert digest_of(load_policy(spec), spec) == before


def test_weights_count_whoever_imported_the_module_before(project: Path) -> None:
    """Such as a conftest: nobody listened then. Nor does anybody hear a compiled library."""
    text = "W = open('weights.pt').read()\nopen('out.pt', mode='w').write(W)\nN = 'm.safetensors'\n"
    write(project, brain_net=text)
    (project / "weights.pt").write_text("0")
    (project / "m.safetensors").write_bytes(b"1")

    def found() -> str | None:
        forget()
        importlib.import_module("brain_net")
        spec = ModelSpec("brain:policy", project)
        return digest_of(load_policy(spec), spec)

    with contextlib.chdir(project):
        before = found()
        Path("out.pt").write_text("9")
        assert found() == before, "it is written, not read"
        Path("weights.pt").write_text("2")
        changed = found()
        assert changed != before
        (project / "m.safetensors").write_bytes(b"2")
        assert found() != changed


def test_weights_of_one_name_in_two_folders_are_two(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    for place in "eye", "hand":
        (outside / place).mkdir()
        np.save(outside / place / "model.npy", np.zeros(2))
    parts = f"import numpy as np\nfor part in ('eye', 'hand'):\n    np.load(f'{outside}/{{part}}/model.npy')\n"
    write(project, brain_net=parts)
    seen = {digest(project)}
    for place in "eye", "hand":
        np.save(outside / place / "model.npy", np.full(2, 1.0 + ord(place[0])))
        seen.add(digest(project))
    eye, hand = (outside / place / "model.npy" for place in ("eye", "hand"))
    contents = eye.read_bytes(), hand.read_bytes()
    hand.write_bytes(contents[0])
    eye.write_bytes(contents[1])
    seen.add(digest(project))
    assert len(seen) == 4, "swapped, too, they are another policy"


def test_the_digest_is_the_same_from_another_folder_of_the_project(project: Path) -> None:
    (project / "pyproject.toml").write_text("")
    (project / "tests").mkdir()
    (project / "settings.txt").write_text("1")
    write(project, brain_net="from pathlib import Path\nopen(Path(__file__).with_name('settings.txt')).close()\n")
    before = digest(project)
    assert digest(project / "tests") == before
    (project / "settings.txt").write_text("2")
    assert digest(project / "tests") == digest(project) != before


def test_a_single_file_keeps_its_own_digest(project: Path) -> None:
    write(project, brain_net="import json\nimport numpy\nimport pytest_vla.errors\ndef policy(episode): ...\n")
    content = hashlib.sha256((project / "brain_net.py").read_bytes()).hexdigest()
    assert digest(project, "brain_net:policy") == content


def test_modules_are_found_without_importing_them(project: Path) -> None:
    found = own_modules("brain", project / "brain.py", project)
    assert sorted(found) == ["brain", "brain_deep.low", "brain_late", "brain_net", "brain_parts", "brain_parts.inner"]
    assert not set(NAMES) & sys.modules.keys()


def test_a_file_that_cannot_be_parsed_imports_nothing(project: Path) -> None:
    write(project, brain_net="def (")
    assert "brain_net" in own_modules("brain", project / "brain.py", project)
