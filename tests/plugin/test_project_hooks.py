"""The hooks of a project's own conftest.py, for items that lie outside of the project."""

from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., pytest.RunResult]

STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove", "--vla-model=policies:straight")
ITEM = "libero_goal::test_episode[turn_on_the_stove-seed0]"

TELLING = """
import pathlib

import pytest

LOG = pathlib.Path(__file__).with_name("told.txt")

def tell(hook, node):
    with LOG.open("a") as stream:
        stream.write(f"{hook} {node}\\n")

def pytest_itemcollected(item):
    tell("collected", item.nodeid)

def pytest_runtest_setup(item):
    tell("setup", item.nodeid)

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    report.sections.append(("mine", f"of {item.name}"))
    tell(f"makereport-{call.when}", item.nodeid)
    return report

def pytest_runtest_logreport(report):
    tell(f"logreport-{report.when}", report.nodeid)
"""

WHENS = ("setup", "call")
HOOKS = ["collected", "setup", *(f"{hook}-{when}" for hook in ("makereport", "logreport") for when in WHENS)]


def told(folder: Path, node: str = ITEM) -> list[str]:
    """The hooks that were called for an item, in order of their names."""
    lines = [line.partition(" ") for line in (folder / "told.txt").read_text().splitlines()]
    return sorted(hook for hook, _, of in lines if of == node)


def test_a_projects_hooks_run_for_the_items_of_suites(vla: Run, project: pytest.Pytester) -> None:
    project.makeconftest(TELLING)
    vla("test_mine.py", *STOVE).assert_outcomes(passed=3)
    hooks = told(project.path)
    assert set(HOOKS) <= set(hooks)
    # As often as for the project's own tests.
    assert hooks == told(project.path, "test_mine.py::test_one")


def test_on_workers_too_and_from_a_folder_below(
    vla: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.makeini("[pytest]")
    project.makeconftest(TELLING)
    # Where pytest collects in the folder alone, it loads what lies above all the same.
    monkeypatch.chdir(project.mkdir("below"))
    for module in ("policies.py",):
        (project.path / "below" / module).write_text((project.path / module).read_text())
    vla(*STOVE, "-n1").assert_outcomes(passed=1)
    hooks = told(project.path)
    assert hooks.count("setup") == 1
    # In the worker and in the controller.
    assert hooks.count("logreport-call") == 2


def test_hooks_of_a_folder_of_tests_are_for_that_folder(vla: Run, project: pytest.Pytester) -> None:
    folder = project.mkdir("checks")
    (folder / "conftest.py").write_text(TELLING)
    (folder / "test_theirs.py").write_text("def test_theirs(): pass\n")
    vla("checks", *STOVE).assert_outcomes(passed=2)
    assert told(folder, "checks/test_theirs.py::test_theirs")
    assert told(folder) == []
