"""What packages and projects add by hooks, and what is said where it cannot be used."""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_vla import extensions, hook_modules
from pytest_vla.cli import main
from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.vary.registry import kinds

HEAD = "from pathlib import Path\nfrom pytest_vla.entries import *\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages."""
    modules = set(sys.modules)
    (tmp_path / "site").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    hook_modules.forget()
    yield tmp_path / "site"
    monkeypatch.undo()
    for name in [name for name in set(sys.modules) - modules if not name.startswith("pytest_vla")]:
        del sys.modules[name]
    hook_modules.forget()


def install(site: Path, name: str, code: str) -> None:
    module = name.replace("-", "_")
    info = site / f"{module}-2.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.1\n")
    (info / "entry_points.txt").write_text(f"[pytest_vla]\nit = {module}\n")
    (site / f"{module}.py").write_text(HEAD + code)
    hook_modules.forget()


def test_built_ins_are_found_by_the_same_hooks_in_a_fixed_order() -> None:
    assert "tabletop" in extensions.suites()
    assert list(extensions.policies())[:3] == ["expert", "random", "tiny"]
    assert [entry.name for entry in extensions.sections()] == [
        "success", "robustness", "language", "safety", "looking", "occlusion", "foretelling", "labels", "economy",
        "evaluators", "time-to-success", "paper", "metrics", "libero_pro", "libero_plus",
    ]  # fmt: skip
    dimensions = " ".join(dict.fromkeys(kind.dimension for kind in kinds()))
    assert dimensions == "pro layout background object light camera robot noise arena hazard language action"
    origin = extensions.lists()["libero_plus"].origin
    assert origin == "pytest-vla (pytest_vla.suites.libero_plus.extension)"
    assert "task_classification.json" in extensions.user_files()


def test_a_project_that_runs_no_episode_looks_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_one(): pass\n")
    (tmp_path / "conftest.py").write_text(
        "import sys\n"
        "def pytest_unconfigure(config):\n"
        "    from pytest_vla import extensions, hook_modules\n"
        "    heavy = [name for name in sys.modules if 'vla.suites' in name or name == 'numpy']\n"
        "    print('looked', bool(hook_modules._installed), heavy)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:hypothesispytest", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "looked False []" in done.stdout, done.stdout + done.stderr


def test_an_installed_package_adds_what_it_says(site: Path) -> None:
    goal = extensions.suites()["libero_goal"].folder
    install(
        site,
        "my-lab",
        f"""
def pytest_vla_suites():
    return [SuiteEntry("lab_goal", "LIBERO-Goal, ours", folder=Path({str(goal)!r}), manifest="libero_goal.toml")]
def pytest_vla_variations():
    return [VariationEntry("lab", "ours", "my_lab:KINDS", files=("lab.json",))]
def pytest_other_hook():
    "Not ours: a plugin of pytest may be the same module."
def __getattr__(name):
    if name != "KINDS":
        raise AttributeError(name)
    from pytest_vla.vary.kind import VariationKind
    glove = lambda task, params: None
    return (VariationKind("lab.glove", "the gripper wears a glove", "my lab", lambda draw: dict(), glove),)
""",
    )
    assert load_suite("lab_goal").tasks[0].name == load_suite("libero_goal").tasks[0].name
    assert kinds()[-1].name == "lab.glove"
    assert "lab.json" in extensions.user_files()
    assert extensions.suites()["lab_goal"].origin == "my-lab 2.1 (my_lab)"


OWN_TASKS = """
title = "Mine"
extends = "{}"

[tasks]
CELL_0_0 = "turn on the stove"
CELL_0_1 = "put the bowl on the plate"

[protocol]
max_steps = 250
"""


@pytest.fixture
def own_tasks(site: Path) -> Path:
    """The manifest of a suite of task files in LIBERO's form."""
    folder = site / "mine"
    folder.mkdir()
    install(site, "my-lab", f"def pytest_vla_suites(): return [SuiteEntry('mine', '', folder=Path({str(folder)!r}))]")
    return folder / "suite.toml"


def test_own_tasks_extend_a_shipped_manifest_and_have_instructions(own_tasks: Path) -> None:
    own_tasks.write_text(OWN_TASKS.format("libero.toml"))
    suite, goal = load_suite("mine"), load_suite("libero_goal")
    assert [task.language for task in suite.tasks] == ["turn on the stove", "put the bowl on the plate"]
    assert suite.protocol == replace(goal.protocol, max_steps=250)


def test_a_manifest_extends_a_file_of_its_own_before_a_shipped_one(own_tasks: Path) -> None:
    own_tasks.write_text(OWN_TASKS.format("libero.toml"))
    (own_tasks.parent.parent / "libero.toml").write_text("[protocol]\nsettle_steps = 3\n")
    with pytest.raises(VlaError, match=r"no cameras, control_freq, .*extends = \"libero.toml\""):
        load_suite("mine")


@pytest.mark.parametrize(
    ("base", "complaint"),
    [
        ("liberoo.toml", "pytest-vla has libero.toml, vla_arena.toml. Did you mean libero.toml?"),
        ("../libero.toml", "extends: expected the name of a file"),
        ("loop.toml", "a file that another one extends cannot extend a third one"),
    ],
)
def test_what_a_manifest_cannot_extend_is_told(own_tasks: Path, base: str, complaint: str) -> None:
    own_tasks.write_text(OWN_TASKS.format(base))
    (own_tasks.parent.parent / "loop.toml").write_text('extends = "loop.toml"\n')
    with pytest.raises(VlaError, match=re.escape(f"{own_tasks.parent.parent}") + ".*" + re.escape(complaint)):
        load_suite("mine")


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("import not_there_at_all", "my-lab 2.1 (my_lab): importing it raised ModuleNotFoundError"),
        ("def pytest_vla_suites(): 1 / 0", "my-lab 2.1 (my_lab): pytest_vla_suites raised ZeroDivisionError"),
        (
            "def pytest_vla_suites(): return ['x']",
            "(my_lab): pytest_vla_suites gives str, expected a list of SuiteEntry",
        ),
        ("def pytest_vla_suites(): return [SuiteEntry('a b', '')]", "'a b' is no name: expected letters"),
        ("def pytest_vla_sutes(): return []", "my-lab 2.1 (my_lab): unknown hook 'pytest_vla_sutes'"),
        ("def pytest_vla_sutes(): return []", "Did you mean pytest_vla_suites? The hooks are in"),
        ("def pytest_vla_suites(config): return []", "my-lab 2.1 (my_lab): Plugin '"),
        (
            "def pytest_vla_suites(): return [SuiteEntry('tabletop', '', 'x:y')]",
            "two packages have a suite 'tabletop': pytest-vla (pytest_vla.suites.extension) and my-lab 2.1 (my_lab)",
        ),
        (
            "def pytest_vla_suites(): return [SuiteEntry('lab', '', 'my_lab:X')]",
            "loading my_lab:X raised AttributeError",
        ),
        ("X = 3\ndef pytest_vla_suites(): return [SuiteEntry('lab', '', 'my_lab:X')]", "my_lab:X is int, expected"),
    ],
)
def test_a_package_that_cannot_be_used_is_named(site: Path, code: str, complaint: str) -> None:
    install(site, "my-lab", code)
    with pytest.raises(VlaError) as refused:
        load_suite("lab" if "lab'" in code else "tabletop")
    assert complaint in str(refused.value)


def test_two_packages_with_the_same_kind_of_variation_are_both_named(site: Path) -> None:
    code = "def pytest_vla_variations(): return [VariationEntry({!r}, '', 'pytest_vla.vary.axes.robot:KINDS')]"
    install(site, "my-lab", code.format("lab"))
    with pytest.raises(
        VlaError, match=re.escape("two packages define the variation 'robot.joints': pytest-vla (pytest_vla")
    ):
        kinds()


def test_the_command_line_takes_a_conftest_only_where_it_is_named(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hook_modules, "_consented", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "my_conftest.py").write_text(
        HEAD + "def pytest_vla_importers(): return [ImporterEntry('lab', 'our logs', 'my_conftest:IMPORTER')]\n"
        "from pytest_vla.records.load import Importer\n"
        "IMPORTER = Importer(lambda options: 1 / 0)\n"
    )
    with pytest.raises(SystemExit):
        main(["import", "--help"])
    assert "our logs" not in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["-p", "my_conftest", "import", "--help"])
    assert "our logs" in capsys.readouterr().out
    assert main(["-p", "no_such_module", "runs"]) == 1
    assert "-p no_such_module: importing it raised ModuleNotFoundError" in capsys.readouterr().err


def test_an_entry_says_where_it_is_from() -> None:
    entry = extensions.policies()["random"]
    assert entry == replace(entry, origin="pytest-vla (pytest_vla.policies.extension)")
