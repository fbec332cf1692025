"""What pyproject.toml says is what is on disk and what the code imports."""

import ast
import importlib.util
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import Any

from pytest_vla.run.options import OPTIONS
from tests.support.data import REPOSITORY

PROJECT: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
AT_THE_TOP = ("suites", "fixtures", "reports")
MAPPED = {"pytest_vla": REPOSITORY / "pytest_vla"} | {f"pytest_vla.{name}": REPOSITORY / name for name in AT_THE_TOP}
# robosuite 1.4.0 imports termcolor without declaring it.
IMPORTED_BY_ROBOSUITE = {"termcolor"}
# Not imported by us: pytest loads xdist and calls our hooks by name; numba's linear algebra calls scipy's BLAS.
USED_WITHOUT_IMPORT = {"av", "pytest-xdist", "scipy"}
# llvmlite comes with numba, which allows one version of it only; MuJoCo's own contexts need PyOpenGL; robosuite brings
# OpenCV's other package, with the same modules.
COMES_WITH = {"llvmlite": "numba", "PyOpenGL": "mujoco", "opencv-python": "opencv-python-headless"}


@cache
def sources() -> tuple[tuple[Path, ast.Module], ...]:
    return tuple(
        (path, ast.parse(path.read_text(), str(path)))
        for folder in MAPPED.values()
        for path in sorted(folder.rglob("*.py"))
    )


def imported_modules(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def imported_names(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Each module that is imported from, and a name that is; an empty one where it is the module itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((name.name, "") for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (("." * node.level + (node.module or ""), name.name) for name in node.names)


def distributions(requirements: list[str]) -> set[str]:
    return {re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower() for requirement in requirements}


@cache
def third_party() -> dict[str, set[str]]:
    """Distributions that the packages import, each with the files that do."""
    of_module = packages_distributions()
    found: dict[str, set[str]] = {}
    for path, tree in sources():
        for module in imported_modules(tree):
            top = module.partition(".")[0]
            if top in sys.stdlib_module_names or top == "pytest_vla":
                continue
            # An extra that is not installed here has no metadata: its module's name stands for it.
            for name in of_module.get(top, [top.replace("_", "-")]):
                found.setdefault(COMES_WITH.get(name, name).lower(), set()).add(str(path.relative_to(REPOSITORY)))
    return found


def test_the_package_list_is_what_is_on_disk() -> None:
    on_disk = {
        ".".join((name, *path.parent.relative_to(folder).parts))
        for name, folder in MAPPED.items()
        for path in folder.rglob("__init__.py")
    }
    assert sorted(PROJECT["tool"]["setuptools"]["packages"]) == sorted(on_disk)


def test_the_folders_at_the_top_are_linked_into_the_package() -> None:
    for name in AT_THE_TOP:
        assert (REPOSITORY / "pytest_vla" / name).readlink() == Path("..", name)


def test_every_folder_with_modules_is_a_package() -> None:
    lost = {str(p.parent) for folder in MAPPED.values() for p in folder.rglob("*.py")}
    assert [folder for folder in sorted(lost) if not (Path(folder) / "__init__.py").exists()] == []


def test_an_init_is_a_docstring_only() -> None:
    """Suite modules are imported by pytest and by dotted name: a package that does something would do it twice."""
    busy = [
        str(path.relative_to(REPOSITORY))
        for path, tree in sources()
        if path.name == "__init__.py" and path != REPOSITORY / "pytest_vla" / "__init__.py" and len(tree.body) != 1
    ]
    assert busy == []


def test_imports_are_absolute() -> None:
    """Suite modules are reached by two paths: a relative import would follow whichever came first."""
    relative = {str(path) for path, tree in sources() for module in imported_modules(tree) if module.startswith(".")}
    assert relative == set()


def test_what_tests_share_stands_in_their_support() -> None:
    """A test module may be moved, split or removed, and no other falls. tests/conftest.py is itself tested."""
    allowed = {("tests", "conftest")}
    lent = [
        f"{path.relative_to(REPOSITORY)}: {module}.{name}"
        for folder in ("tests", "benchmarks", "scripts")
        for path in sorted((REPOSITORY / folder).rglob("*.py"))
        for module, name in imported_names(ast.parse(path.read_text(), str(path)))
        if f"{module}.{name}.".startswith("tests.") and not f"{module}.{name}.".startswith("tests.support.")
        if (module, name) not in allowed
    ]
    assert lent == []


def test_every_import_is_declared() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    declared = distributions(PROJECT["project"]["dependencies"]).union(*map(distributions, extras.values()))
    assert {name: files for name, files in third_party().items() if name not in declared} == {}


def test_every_core_dependency_is_used() -> None:
    declared = distributions(PROJECT["project"]["dependencies"])
    declared |= distributions(PROJECT["project"]["optional-dependencies"]["libero"])
    assert declared - third_party().keys() - IMPORTED_BY_ROBOSUITE - USED_WITHOUT_IMPORT == set()


def test_robosuite_still_imports_termcolor_undeclared() -> None:
    spec = importlib.util.find_spec("robosuite")
    assert spec is not None
    assert spec.origin is not None
    modules = set(imported_modules(ast.parse((Path(spec.origin).parent / "utils" / "log_utils.py").read_text())))
    assert modules >= IMPORTED_BY_ROBOSUITE
    assert distributions(requires("robosuite") or []).isdisjoint(IMPORTED_BY_ROBOSUITE)


def test_all_is_every_extra_that_resolves_together() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    named = everything.removeprefix("pytest-vla[").removesuffix("]").split(",")
    assert set(named) == extras.keys() - {"all", "lerobot", "metaworld", "pusht", "aloha", "pictures", "dev"}


def test_every_ray_that_is_allowed_asks_for_a_token() -> None:
    """Ray listens at all addresses; before 2.59 a cluster that ray.init() starts let everybody in."""
    (ray,) = (each for each in PROJECT["project"]["optional-dependencies"]["ray"] if each.startswith("ray"))
    lowest = ray.removeprefix("ray>=").split(".")
    assert [int(part) for part in lowest] >= [2, 59]


def test_torch_is_pinned_in_the_constraints_only() -> None:
    pins = dict(line.split("==") for line in (REPOSITORY / "constraints.txt").read_text().splitlines() if "==" in line)
    assert "torch" in pins
    assert "torch==" not in (REPOSITORY / "pyproject.toml").read_text()
    core = distributions(PROJECT["project"]["dependencies"])
    core |= distributions(PROJECT["project"]["optional-dependencies"]["libero"])
    assert core - {name.lower() for name in pins} == set(), "make installs these without a pin"


def test_the_changelog_names_every_kind_of_policy() -> None:
    changes = (REPOSITORY / "CHANGELOG.md").read_text()
    (listed,) = re.findall(r"^- Policies: (.*?)\.$", changes, re.MULTILINE | re.DOTALL)
    (help,) = [option.help for option in OPTIONS if option.flag == "--vla-model"]
    kinds = set(
        re.findall(r"(?:^|[ ;])(module|expert|random|replay|openpi|vla-eval|groot-n1\.5|groot|x-vla|starvla)\b", help)
    )
    assert len(kinds) == 10
    assert kinds <= {name.partition(":")[0] for name in re.findall("`([^`]+)`", listed)}


def test_the_changelog_has_this_version() -> None:
    assert f"## {PROJECT['project']['version']}" in (REPOSITORY / "CHANGELOG.md").read_text()


def test_no_run_has_left_a_file_at_the_root() -> None:
    """What tests' own projects write has no suffix, such as the number of a process."""
    plain = {path.name for path in REPOSITORY.iterdir() if path.is_file() and "." not in path.name}
    assert plain == {"LICENSE", "Makefile"}
