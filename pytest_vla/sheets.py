"""What `pytest-vla show` draws: tasks as an episode begins, and episodes of runs from their recorded states."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.pictures import Cell, Picture, blank, check_layout, in_rows, sheet
from pytest_vla.plan import init_state_of, select_tasks
from pytest_vla.records import Record, load_trajectory
from pytest_vla.reports.rates import interval_text, share_text
from pytest_vla.reports.runs import rate_of
from pytest_vla.reports.terminal import counted
from pytest_vla.store import LAST_RUN, STORE, Run, open_store
from pytest_vla.suite import Task, did_you_mean, load_suite, suite_folder, suite_names

if TYPE_CHECKING:
    from pytest_vla.fixtures.worlds import WorldPool
    from pytest_vla.variation import Variation

TASK_SEEDS = (0, 1, 2, 3)
"""What the sheet of a task shows where no seeds are asked for; that of several tasks shows the first."""
MAX_PICTURES = 1000

_MAX_COLUMNS = 10
_LISTED = 6
_BLANK = 235


class ShownWorld(Protocol):
    """What a sheet needs of a world; `pytest_vla.World` is one."""

    @property
    def init_state_count(self) -> int: ...
    def reset(self, init_state: int, scene_seed: int, settle: bool) -> Mapping[str, NDArray[Any]]: ...
    def show(self, qpos: NDArray[np.float64], step: int) -> Mapping[str, NDArray[Any]]: ...
    def predicates(self) -> Mapping[str, bool]: ...


@dataclass(frozen=True)
class Drawing:
    """How pictures are drawn.

    Attributes:
        cameras: by their names in the scene; None: the suite's (the first of them, where a sheet has many tasks).
        size: height and width in pixels; None: the suite's.
        data: the folder given by ``--data``; None: the run's, or the default roots.
        allow_versions: draw with another simulator version than the supported one.
    """

    cameras: tuple[str, ...] | None = None
    size: tuple[int, int] | None = None
    data: Path | None = None
    allow_versions: bool = False


@dataclass(frozen=True)
class RunEpisodes:
    """A run, its folder, and the last record of each of its items."""

    run: Run
    folder: Path
    records: tuple[Record, ...]


def find_tasks(text: str, data: Path | None = None) -> tuple[Task, ...]:
    """The tasks that a text names: a suite's, or the one task that it is the name of or a part of the name.

    ``SUITE/TASK`` looks in one suite only, and ``SUITE/`` is the suite.

    Raises:
        VlaError: it names nothing, with close matches, or several tasks, which are listed.
    """
    names = _suites()
    advice = f"`pytest-vla show SUITE` shows the tasks of a suite: {', '.join(names)}"
    if not text.strip("/ "):
        raise VlaError(f"{text!r} names no task. {advice}")
    suite, slash, name = text.rpartition("/")
    if text in names or (slash and not name):
        return load_suite(text.removesuffix("/"), data=data).tasks
    suites = [load_suite(suite, data=data)] if slash else [load_suite(other, data=data) for other in names]
    if not slash:
        # One that varies another's tasks has no pictures of its own.
        suites = [each for each in suites if not any(task.varied for task in each.tasks)]
    try:
        found = select_tasks(suites, [name])
    except VlaError as error:
        near = "" if slash else did_you_mean(text, names)
        # A suite is nearer than the words of tasks that the error names.
        complaint = f"no suite is {text!r}, and no task contains it.{near}" if near else error
        raise VlaError(f"{complaint} {advice}") from None
    if len(found) > 1:
        listed = ", ".join(f"{task.suite}/{task.name}" for task in found[:_LISTED])
        more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        raise VlaError(f"{text!r} is in the names of {len(found)} tasks: {listed}{more}. Write one of them")
    return found


def task_sheet(tasks: Sequence[Task], seeds: Sequence[int] | None, drawing: Drawing) -> Picture:
    """A sheet of tasks as a policy first sees them: after the reset and the suite's settle steps.

    Of one task it has a picture of each seed and camera, under the instruction and the goal's literals; of several one
    of each task, under their instructions.

    Raises:
        VlaError: the data is missing, there is no such camera, or there are too many pictures.
    """
    one = len(tasks) == 1
    seeds = (TASK_SEEDS if one else TASK_SEEDS[:1]) if seeds is None else seeds
    drawn = [_drawn(task, drawing, None if one else 1) for task in tasks]
    cameras = drawn[0].protocol.cameras
    each = len(seeds) * len(cameras)
    check_number(len(tasks) * each)
    cells = [
        Cell(
            blank(task.protocol.image_size),
            f"seed {seed}, {camera}" if one or each > 1 else "",
            name="" if one else task.language,
        )
        for task in drawn
        for seed in seeds
        for camera in task.protocol.cameras
    ]
    if one:
        title, about = tasks[0].language, f"{tasks[0].suite}/{tasks[0].name}"
    else:
        suites = dict.fromkeys(task.suite for task in tasks)
        title = ", ".join(load_suite(name).title for name in suites)
        shown = f"{len(tasks)} tasks, seed {', '.join(map(str, seeds))}, {', '.join(cameras)}"
        about = f"{', '.join(suites)}: {shown}"
    columns = _columns(len(cells), len(cameras) if one else each)
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


def is_run(text: str) -> bool:
    """Whether a text is a run's: ``last``, its name or the beginning of it, which is a time, or its folder."""
    return text == LAST_RUN or text[:1].isdigit() or _is_run_folder(Path(text))


def load_runs(texts: Sequence[str], results: Path) -> tuple[RunEpisodes, ...]:
    """Runs with their records.

    Args:
        texts: of which `is_run` says yes.
        results: the folder of all runs; a run's own folder says where it is.

    Raises:
        VlaError: there is no such run, or it left no record.
    """
    loaded = []
    for text in texts:
        path = Path(text)
        folder, name = (path.resolve().parent, path.resolve().name) if _is_run_folder(path) else (results, text)
        with open_store(folder, create=False) as store:
            run = store.run(name)
            records = tuple(store.records(run.name))
        if not records:
            raise VlaError(f"run {run.name} has no episode yet")
        # As in its success rate: of the suites, where it ran some.
        of_suites = tuple(record for record in records if record.of_suite)
        loaded.append(RunEpisodes(run, folder / run.name, of_suites or records))
    return tuple(loaded)


def run_sheet(
    runs: Sequence[RunEpisodes],
    patterns: Sequence[str],
    seeds: Sequence[int] | None,
    frames: int,
    drawing: Drawing,
    labels: Sequence[str] = (),
) -> Picture:
    """A sheet of episodes, one after the other; of each so many moments for each run, the first and the last included.

    Args:
        runs: from `load_runs`; they stand side by side.
        patterns: of tasks, as in ``--vla-tasks``; none: all.
        seeds: which episodes of each task and variation; None: the one with the lowest seed.
        frames: moments of an episode, evenly over its steps; 1 is the end.
        drawing: one camera only, the suite's first where it names none.
        labels: of variations, as for `pytest_vla.vary_sheets.match_labels`; none: all, and tasks as they are.

    Raises:
        VlaError: there is no such episode, its data or its states are missing, or there are too many pictures.
    """
    shown = [_chosen(run, patterns, seeds, drawing, labels) for run in runs]
    tasks = {(r.suite, r.task): _task_of(runs, r, drawing) for records in shown for r in records}
    cases = sorted(
        {(r.suite, r.task, _label_of(r), r.seed) for records in shown for r in records},
        key=lambda case: (case[0], tasks[case[:2]].index, *case[2:]),
    )
    if not cases:
        asked = _asked(patterns, seeds, labels)
        raise VlaError(f"run {', '.join(run.run.name for run in runs)}: no episode with {asked}")
    check_number(len(cases) * frames * len(runs))
    by_case = [{(r.suite, r.task, _label_of(r), r.seed): r for r in records} for records in shown]
    together = frames * len(runs)
    columns = _columns(len(cases) * together, together)

    def rows(moments: Callable[[Task, Record, Path], list[Cell | None]]) -> list[list[Cell | None]]:
        cells: list[Cell | None] = []
        for case in cases:
            task, block = tasks[case[:2]], list[Cell | None]()
            found = [records.get(case) for records in by_case]
            for run, record in zip(runs, found, strict=True):
                block += [None] * frames if record is None else moments(task, record, run.folder)
            cells += _named(block, task, next(filter(None, found)))
        return in_rows(cells, columns)

    planned = rows(lambda task, record, _: _moments(task, record, _steps(record.steps, frames)))
    heads = [text for name in _heads(runs) for text in (name, *[""] * (frames - 1))] * (len(planned[0]) // together)
    subtitle = "\n".join(f"{e.run.model}: {_rate(e.run)}   (run {e.run.name})" for e in runs)
    title = ", ".join(dict.fromkeys(case[0] for case in cases))
    check_layout(planned, title=title, subtitle=subtitle, heads=heads)
    with closing(open_pool(drawing)) as pool:
        drawn = rows(lambda task, record, folder: _shown(pool, task, record, folder, frames))
    return sheet(drawn, title=title, subtitle=subtitle, heads=heads)


def run_video(
    run: RunEpisodes,
    patterns: Sequence[str],
    seeds: Sequence[int] | None,
    file: Path,
    drawing: Drawing,
    labels: Sequence[str] = (),
) -> None:
    """Write the video of one episode, drawn from its recorded states; see `pytest_vla.video`, and `run_sheet`.

    Raises:
        VlaError: several episodes are asked for, or none, or its variation or the video cannot be made.
    """
    from pytest_vla.video import VIDEO_EVERY, write_video

    records = _chosen(run, patterns, seeds, drawing, labels)
    if len(records) != 1:
        listed = ", ".join(record.case for record in records[:_LISTED])
        raise VlaError(
            f"a video is of one episode, and run {run.run.name} has {len(records)} with "
            f"{_asked(patterns, seeds, labels)}{': ' if listed else ''}{listed}. Name one with --tasks, --seeds and "
            "--vary"
        )
    (record,) = records
    task = _task_of([run], record, drawing)
    if record.arrays is None:
        raise VlaError(f"{record.case} left no states to draw: {record.reason}")
    with closing(open_pool(drawing)) as pool:
        write_video(
            pool(task, _variation_of(task, record)),
            load_trajectory(run.folder / record.arrays).qpos,
            file,
            init_state=record.seeds["init_state"],
            scene_seed=record.seeds["scene"],
            ending=record.outcome,
            camera=task.protocol.cameras[0],
            control_freq=task.protocol.control_freq,
            every=VIDEO_EVERY,
        )


def _steps(last: int, frames: int) -> list[int]:
    """Moments of an episode, evenly over its steps; the last one is its end."""
    return [*(round(last * number / (frames - 1)) for number in range(frames - 1)), last]


def _moments(task: Task, record: Record, steps: Sequence[int]) -> list[Cell | None]:
    """The places of an episode's pictures after these steps; the last one says how it ended."""
    verdict = record.outcome if record.reason is None else f"{record.outcome}, {record.reason},"
    tone = {"success": "good", "invalid": "plain"}.get(record.outcome, "bad")
    ending = {"label": f"{verdict} after {record.steps} steps", "tone": tone}
    picture = blank(task.protocol.image_size, _BLANK)
    end = Cell(picture, **ending)  # type: ignore[arg-type]
    if record.arrays is None:
        return [end, *[None] * (len(steps) - 1)]
    return [*(Cell(picture, f"step {step}") for step in steps[:-1]), end]


def _shown(pool: "WorldPool", task: Task, record: Record, folder: Path, frames: int) -> list[Cell | None]:
    """An episode's pictures, drawn from its recorded states."""
    if record.arrays is None:
        return _moments(task, record, _steps(record.steps, frames))
    qpos = load_trajectory(folder / record.arrays).qpos
    steps = _steps(len(qpos) - 1, frames)
    cells = _moments(task, record, steps)
    try:
        world: ShownWorld = pool(task, _variation_of(task, record))
        world.reset(init_state=record.seeds["init_state"], scene_seed=record.seeds["scene"], settle=False)
        world.show(qpos[0], 0)
    except VlaError as error:
        # Of another version, or of files that are no longer there: the others can still be looked at.
        if not _label_of(record) or cells[-1] is None:
            raise
        why = dataclasses.replace(cells[-1], label=f"{cells[-1].label}; it cannot be drawn: {error}")
        return [why, *[None] * (frames - 1)]
    camera = task.protocol.cameras[0]
    return [
        cell and dataclasses.replace(cell, picture=camera_picture(world.show(qpos[step], step), camera, task))
        for cell, step in zip(cells, steps, strict=True)
    ]


def _label_of(record: Record) -> str:
    """Of its variation; empty: it has none."""
    return str(record.variation.get("label", ""))


def _variation_of(task: Task, record: Record) -> "Variation | None":
    """What a world has to be reset under to be drawn as in an episode. Raises VlaError where it cannot be made."""
    from pytest_vla.vary.registry import PAPER, drawn_for

    label, parameters = _label_of(record), record.variation.get("parameters", {})
    # What the robot was told is not seen, and may be from a file that is not here; upstream's code moves a camera too.
    told_only = record.variation.get("dimension") == "language" and parameters.get("protocol", PAPER) == PAPER
    if not label or told_only:
        return None
    # Not the task that is drawn: its cameras may be others.
    own = load_suite(task.suite, data=task.data).task(task.name)
    found = drawn_for(own, label, record.seed, parameters)
    return found if found is not None and found.changes_world else None


def _heads(runs: Sequence[RunEpisodes]) -> list[str]:
    """What tells the runs apart: their models, or their names where two have one model."""
    models = [run.run.model for run in runs]
    if len(runs) == 1:
        return [""]
    return models if len(set(models)) == len(models) else [run.run.name for run in runs]


def _named(block: Sequence[Cell | None], task: Task, record: Record) -> list[Cell | None]:
    """The pictures of one episode: below the first of them it says which."""
    first, cell = next((at, cell) for at, cell in enumerate(block) if cell is not None)
    label = _label_of(record)
    name = (record.instruction or "(no instruction)") if label else task.language
    which = f"{label}, seed {record.seed}" if label else f"seed {record.seed}"
    named = dataclasses.replace(cell, name=name, label=f"{which}, {cell.label}")
    return [*block[:first], named, *block[first + 1 :]]


def _chosen(
    run: RunEpisodes,
    patterns: Sequence[str],
    seeds: Sequence[int] | None,
    drawing: Drawing,
    labels: Sequence[str],
) -> list[Record]:
    data = _data_of(run, drawing)
    suites = [load_suite(name, data=data) for name in dict.fromkeys(record.suite for record in run.records)]
    names = {(task.suite, task.name) for task in select_tasks(suites, patterns)}
    records = [record for record in run.records if (record.suite, record.task) in names]
    if labels:
        from pytest_vla.vary_sheets import match_labels

        matched = match_labels(labels, dict.fromkeys(map(_label_of, records)), f"run {run.run.name}")
        records = [record for record in records if _label_of(record) in matched]
    if seeds is not None:
        return [record for record in records if record.seed in seeds]
    lowest: dict[tuple[str, str, str], Record] = {}
    for record in records:
        key = (record.suite, record.task, _label_of(record))
        if key not in lowest or record.seed < lowest[key].seed:
            lowest[key] = record
    return list(lowest.values())


def _task_of(runs: Sequence[RunEpisodes], record: Record, drawing: Drawing) -> Task:
    data = _data_of(next(run for run in runs if run.run.name == record.run), drawing)
    return _drawn(load_suite(record.suite, data=data).task(record.task), drawing, 1)


def _data_of(run: RunEpisodes, drawing: Drawing) -> Path | None:
    """The folder of the run's task files and assets: a user's own tasks are known with it only."""
    data = run.run.invocation.get("settings", {}).get("data")
    return drawing.data or (Path(data) if data else None)


def _drawn(task: Task, drawing: Drawing, cameras: int | None) -> Task:
    """The task with the cameras and the picture size that are asked for; `cameras`: so many of the suite's."""
    protocol = dataclasses.replace(
        task.protocol,
        cameras=drawing.cameras or task.protocol.cameras[:cameras],
        image_size=drawing.size or task.protocol.image_size,
    )
    return dataclasses.replace(task, protocol=protocol)


def open_pool(drawing: Drawing) -> "WorldPool":
    """The worlds that are drawn; to be closed."""
    from pytest_vla.fixtures.worlds import WorldPool

    return WorldPool(drawing.allow_versions)


def camera_picture(observation: Mapping[str, NDArray[Any]], camera: str, task: Task) -> Picture:
    """What a camera shows in an observation. Raises VlaError where there is no such camera."""
    try:
        return observation[f"{camera}_image"]
    except KeyError as error:
        raise VlaError(f"{task.suite}/{task.name} has no camera {camera}: {error.args[0]}") from error


def _columns(cells: int, together: int) -> int:
    """About twice as many columns as rows; pictures that belong together stay in one row."""
    columns = min(math.ceil(math.sqrt(2 * cells)), _MAX_COLUMNS)
    return max(columns // together * together, together)


def check_number(pictures: int) -> None:
    """Refuse more pictures than a sheet may have. Raises VlaError."""
    if pictures > MAX_PICTURES:
        raise VlaError(f"{pictures} pictures are too many for a sheet: take fewer tasks, seeds, cameras or frames")


def _is_run_folder(path: Path) -> bool:
    return path.is_dir() and (path.resolve().parent / STORE).is_file()


def _rate(run: Run) -> str:
    rate = rate_of(run)
    errors = sum(rate.errors.values())
    return f"{rate.successes}/{rate.counted} = {share_text(rate)} {interval_text(rate)}" + (
        f", {counted(errors, 'error')}" if errors else ""
    )


def _asked(patterns: Sequence[str], seeds: Sequence[int] | None, labels: Sequence[str]) -> str:
    tasks = f"tasks {', '.join(patterns)}" if patterns else "all tasks"
    varied = f", variations {', '.join(labels)}" if labels else ""
    return tasks + varied + (f", seeds {', '.join(map(str, seeds))}" if seeds is not None else "")


def _suites() -> list[str]:
    """The names of all suites; those first that bring their own data, and so can be shown anywhere."""
    return sorted(suite_names(), key=lambda name: not (suite_folder(name) / "init_files").is_dir())
