"""Sheets of tasks: their scenes at the start of an episode."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pytest_vla import hook_modules
from pytest_vla.errors import VlaError
from pytest_vla.plan.case import init_state_of
from pytest_vla.plan.manifests import is_suite, load_suite, named_suites, suite_folder, suite_names
from pytest_vla.plan.select import select_tasks
from pytest_vla.plan.task import Task
from pytest_vla.show.sheet import Picture, SheetCell, blank, check_layout, in_rows, sheet
from pytest_vla.util.text import did_you_mean

if TYPE_CHECKING:
    from pytest_vla.episode.world_pool import WorldPool

TASK_SEEDS = (0, 1, 2, 3)
"""The default seeds of a sheet of one task; a sheet of several tasks shows the first."""
MAX_PICTURES = 1000

_MAX_COLUMNS = 10
_LISTED = 6


class ShownWorld(Protocol):
    """The methods of a world that a sheet uses; `pytest_vla.World` has them."""

    @property
    def init_state_count(self) -> int: ...
    def reset(self, init_state: int, scene_seed: int, settle: bool) -> Mapping[str, NDArray[Any]]: ...
    def show(self, qpos: NDArray[np.float64], step: int) -> Mapping[str, NDArray[Any]]: ...
    def predicates(self) -> Mapping[str, bool]: ...


@dataclass(frozen=True)
class Drawing:
    """The options for drawing pictures.

    Attributes:
        cameras: the cameras' names in the scene, or None for the suite's (its first, if a sheet has many tasks).
        size: height and width in pixels, or None for the suite's.
        data: the folder given by ``--data``, or None for the run's, or the default roots.
        allow_versions: allow a simulator version that is not supported.
    """

    cameras: tuple[str, ...] | None = None
    size: tuple[int, int] | None = None
    data: Path | None = None
    allow_versions: bool = False


def find_tasks(text: str, data: Path | None = None) -> tuple[Task, ...]:
    """Return the tasks that a text names: those of one or several suites, or the one task whose name contains it.

    ``SUITE/TASK`` searches one suite only, and ``SUITE/`` is the suite.

    Raises:
        VlaError: no task matches (with close matches), or several do (with their names).
    """
    names = _suites()
    advice = f"`pytest-vla show SUITE` shows the tasks of a suite: {', '.join(names)}"
    if not text.strip("/ "):
        raise VlaError(f"{text!r} names no task. {advice}")
    suite, slash, name = text.rpartition("/")
    if is_suite(text) or (slash and not name):
        meant = named_suites(text.removesuffix("/"))
        return tuple(task for each in meant for task in load_suite(each, data=data).tasks)
    suites = [load_suite(other, data=data) for other in (named_suites(suite) if slash else names)]
    if not slash:
        # A suite that varies another suite's tasks has the same pictures.
        suites = [each for each in suites if not any(task.varied for task in each.tasks)]
    try:
        found = select_tasks(suites, [name])
    except VlaError as error:
        near = "" if slash else did_you_mean(text, names)
        # A similar suite name is a better hint than the tasks in the error.
        complaint = f"no suite is {text!r}, and no task contains it.{near}" if near else error
        more = hook_modules.of_a_conftest()
        raise VlaError(f"{complaint} {advice}{f'.{more}' if more else ''}") from None
    if len(found) > 1:
        listed = ", ".join(f"{task.id}" for task in found[:_LISTED])
        more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        raise VlaError(f"{text!r} matches {len(found)} tasks: {listed}{more}. Name one of them")
    return found


def task_sheet(tasks: Sequence[Task], seeds: Sequence[int] | None, drawing: Drawing) -> Picture:
    """Draw a sheet of tasks as a policy first sees them: after the reset and the suite's settle steps.

    A sheet of one task has a picture for each seed and camera, with the instruction and the goal's literals above them;
    a sheet of several tasks has one picture for each, with its instruction.

    Raises:
        VlaError: the data is missing, there is no such camera, or there are too many pictures.
    """
    one = len(tasks) == 1
    seeds = (TASK_SEEDS if one else TASK_SEEDS[:1]) if seeds is None else seeds
    drawn = [as_drawn(task, drawing, None if one else 1) for task in tasks]
    cameras = drawn[0].protocol.cameras
    each = len(seeds) * len(cameras)
    check_number(len(tasks) * each)
    cells = [
        SheetCell(
            blank(task.protocol.image_size),
            f"seed {seed}, {camera}" if one or each > 1 else "",
            name="" if one else instruction_text(task),
        )
        for task in drawn
        for seed in seeds
        for camera in task.protocol.cameras
    ]
    if one:
        title, about = tasks[0].language, f"{tasks[0].id}"
    else:
        suites = dict.fromkeys(task.suite for task in tasks)
        title = ", ".join(load_suite(name).title for name in suites)
        shown = f"{len(tasks)} tasks, seed {', '.join(map(str, seeds))}, {', '.join(cameras)}"
        about = f"{', '.join(suites)}: {shown}"
    columns = columns_of(len(cells), len(cameras) if one else each)
    check_layout(in_rows(cells, columns), title=title, subtitle=about)
    pictures: list[Picture] = []
    with closing(open_pool(drawing)) as pool:
        for task in drawn:
            world: ShownWorld = pool(task)
            for seed in seeds:
                count = world.init_state_count
                state = init_state_of(seed, count, task.protocol.init_state)
                observation = world.reset(init_state=state, scene_seed=seed, settle=True)
                pictures += [camera_picture(observation, camera, task) for camera in task.protocol.cameras]
            if one:
                about += f"\ngoal: {'  '.join(world.predicates())}"
    cells = [dataclasses.replace(cell, picture=picture) for cell, picture in zip(cells, pictures, strict=True)]
    return sheet(in_rows(cells, columns), title=title, subtitle=about)


def instruction_text(task: Task) -> str:
    """Return a task's instruction, preceded by its level if the suite has levels."""
    return f"{task.task_level}: {task.language}" if task.task_level else task.language


def as_drawn(task: Task, drawing: Drawing, cameras: int | None) -> Task:
    """Return the task with the requested cameras and picture size.

    Args:
        task: the task.
        drawing: the drawing options.
        cameras: how many of the suite's cameras to take if the options name none; None for all.
    """
    protocol = dataclasses.replace(
        task.protocol,
        cameras=drawing.cameras or task.protocol.cameras[:cameras],
        image_size=drawing.size or task.protocol.image_size,
    )
    return dataclasses.replace(task, protocol=protocol)


def open_pool(drawing: Drawing) -> "WorldPool":
    """Open the pool of worlds for drawing; the caller closes it."""
    from pytest_vla.episode.world_pool import WorldPool

    return WorldPool(drawing.allow_versions)


def camera_picture(observation: Mapping[str, NDArray[Any]], camera: str, task: Task) -> Picture:
    """Return a camera's picture in an observation. Raises VlaError if there is no such camera."""
    try:
        return observation[f"{camera}_image"]
    except KeyError as error:
        raise VlaError(f"{task.id} has no camera {camera}: {error.args[0]}") from error


def columns_of(cells: int, together: int) -> int:
    """Return a number of columns, about twice the number of rows, that keeps `together` cells in one row."""
    columns = min(math.ceil(math.sqrt(2 * cells)), _MAX_COLUMNS)
    return max(columns // together * together, together)


def check_number(pictures: int) -> None:
    """Raise VlaError if there are more pictures than a sheet may have."""
    if pictures > MAX_PICTURES:
        raise VlaError(f"{pictures} pictures are too many for a sheet. Use fewer tasks, seeds, cameras or frames")


def _suites() -> list[str]:
    """Return the names of all suites; suites that ship their data come first, since they can be shown anywhere."""

    def wants_data(name: str) -> bool:
        folder = suite_folder(name)
        return folder is None or not (folder / "init_files").is_dir()

    return sorted(suite_names(), key=wants_data)
