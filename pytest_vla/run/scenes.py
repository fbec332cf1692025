"""Which cases share a compiled scene, so that they can be run on one worker. Reads task files; needs no simulator."""

from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from pytest_vla import hook_modules
from pytest_vla.errors import SceneError, VlaError
from pytest_vla.plan.case import Case
from pytest_vla.plan.data_roots import DataRoot, data_roots, find_file, find_task_file
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.scene.cache import scene_key
from pytest_vla.scene.problem import parse_problem


def scene_names(cases: Iterable[Case], data: Path | None = None) -> dict[Case, str]:
    """A name for each case's scene: equal where one compiled model serves both. Each task file is read once.

    A task whose file is missing or invalid shares a name with others such of its suite: its episode will say what is
    wrong.

    Args:
        cases: of any suites.
        data: the folder given by ``--vla-data``; None: the default roots.
    """
    try:
        roots = data_roots(data)
    except (SceneError, OSError):
        roots = ()
    by_task: dict[tuple[str, str], str] = {}
    names = {}
    for case in cases:
        task = (case.suite, case.task_key)
        if task not in by_task:
            of_file = _own_world_of(case, data) or _scene_of(case, data, roots)
            by_task[task] = of_file or case.suite
        names[case] = by_task[task]
        if case.variation and _is_changed(case, data):
            names[case] += f"/{case.task_key}/{case.variation}/{case.seed}"
    return names


def _own_world_of(case: Case, data: Path | None) -> str | None:
    """A name for the world that the suite brings for this task; None: it is MuJoCo's."""
    try:
        task = _tasks_of(case.suite, data).get(case.task_key)
    except VlaError:
        return None
    return f"{case.suite}/{case.task_key}" if task is not None and task.world is not None else None


def _is_changed(case: Case, data: Path | None) -> bool:
    """Whether a case's variation makes another scene of its task's."""
    from pytest_vla.vary.registry import compiles_anew

    try:
        return compiles_anew(_tasks_of(case.suite, data)[case.task_key], case.variation, case.seed)
    except (VlaError, KeyError):
        return False


@hook_modules.until_changed
def _tasks_of(suite: str, data: Path | None) -> Mapping[str, Task]:
    return {task.key: task for task in load_suite(suite, data=data).tasks}


def _scene_of(case: Case, data: Path | None, roots: tuple[DataRoot, ...]) -> str | None:
    try:
        task = _tasks_of(case.suite, data).get(case.task_key)
    except VlaError:
        task = None
    try:
        if task is None:
            # Of a suite that cannot be used here, where it would be as a rule.
            path = find_file(roots, "bddl_files", f"{case.suite}/{case.task}.bddl", f"task {case.task}")
        else:
            path = find_task_file(roots, task)
        return scene_key(parse_problem(path))
    except (SceneError, OSError, PackageNotFoundError):
        return None
