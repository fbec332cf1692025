"""Sheets and videos of runs: episodes drawn from their recorded states."""

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.metrics.rates import interval_text, left_out_text, rate_of, share_text
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.select import select_tasks
from pytest_vla.plan.task import Task, recorded_protocol, with_protocol
from pytest_vla.records.counting import START
from pytest_vla.records.load import is_run_folder, open_runs
from pytest_vla.records.names import ALL_RUNS, LAST_RUN
from pytest_vla.records.record import Record
from pytest_vla.records.runs import Run
from pytest_vla.records.trajectory import Trajectory, load_trajectory, trajectory_file
from pytest_vla.show.restored import data_of, restored_task, restored_variation, textures_of
from pytest_vla.show.sheet import Picture, SheetCell, blank, check_layout, in_rows, sheet
from pytest_vla.show.tasks import (
    Drawing,
    ShownWorld,
    as_drawn,
    camera_picture,
    check_number,
    columns_of,
    instruction_text,
    open_pool,
)
from pytest_vla.show.video import charged_between, cost_label, headline_charges, outlined

if TYPE_CHECKING:
    from pytest_vla.episode.world_pool import WorldPool
    from pytest_vla.scene.variation import Variation


_LISTED = 6
_BLANK = 235


@dataclass(frozen=True)
class RunEpisodes:
    """A run, its folder, and for each of its items the record that counts within the run."""

    run: Run
    folder: Path
    records: tuple[Record, ...]


def is_run(text: str) -> bool:
    """Whether a text names runs: ``last``, ``all``, a run's name or its beginning, which is a time, or a folder."""
    return text in (LAST_RUN, ALL_RUNS) or text[:1].isdigit() or is_run_folder(Path(text))


def load_runs(texts: Sequence[str], results: Path) -> tuple[RunEpisodes, ...]:
    """Return the named runs with their records.

    Args:
        texts: texts for which `is_run` is true.
        results: the folder of all runs; not used for a run's own folder.

    Raises:
        VlaError: there is no such run, or it has no record.
    """
    loaded = []
    for store, runs in open_runs(texts, results):
        for run in runs:
            records = tuple(store.records(run.name))
            if not records:
                raise VlaError(f"run {run.name} has no episode yet")
            # As in the success rate: only suites' episodes, if there are any.
            of_suites = tuple(record for record in records if record.of_suite)
            loaded.append(RunEpisodes(run, store.results / run.name, of_suites or records))
    return tuple(loaded)


def run_sheet(
    runs: Sequence[RunEpisodes],
    patterns: Sequence[str],
    seeds: Sequence[int] | None,
    frames: int,
    drawing: Drawing,
    labels: Sequence[str] = (),
) -> Picture:
    """Draw a sheet of episodes, with so many moments of each for each run, from the first to the last.

    Args:
        runs: runs from `load_runs`, shown side by side.
        patterns: tasks, as in ``--vla-tasks``; empty for all.
        seeds: the seeds of each task and variation, or None for the lowest seed.
        frames: moments of an episode, evenly over its steps; 1 is the end.
        drawing: the drawing options, with one camera; the suite's first camera if they name none.
        labels: variations, as in `pytest_vla.show.variations.match_labels`; empty for all, unvaried episodes included.

    Raises:
        VlaError: there is no such episode, its data or its states are missing, or there are too many pictures.
    """
    shown = [_chosen(run, patterns, seeds, drawing, labels) for run in runs]
    tasks = {(r.suite, r.task_key): _task_of(runs, r, drawing) for records in shown for r in records}
    cases = sorted(
        {(r.suite, r.task_key, _label_of(r), r.seed) for records in shown for r in records},
        key=lambda case: (case[0], tasks[case[:2]].index, *case[2:]),
    )
    if not cases:
        asked = _asked(patterns, seeds, labels)
        raise VlaError(f"run {', '.join(run.run.name for run in runs)}: no episode with {asked}")
    check_number(len(cases) * frames * len(runs))
    by_case = [{(r.suite, r.task_key, _label_of(r), r.seed): r for r in records} for records in shown]
    together = frames * len(runs)
    columns = columns_of(len(cases) * together, together)

    def rows(moments: Callable[[Task, Record, Path], list[SheetCell | None]]) -> list[list[SheetCell | None]]:
        cells: list[SheetCell | None] = []
        for case in cases:
            task, block = tasks[case[:2]], list[SheetCell | None]()
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
    """Write the video of one episode, drawn from its recorded states; see `pytest_vla.show.video`, and `run_sheet`.

    Raises:
        VlaError: no episode or several match, or the variation or the video cannot be made.
    """
    records = _chosen(run, patterns, seeds, drawing, labels)
    if len(records) != 1:
        listed = ", ".join(record.case for record in records[:_LISTED])
        raise VlaError(
            f"a video shows one episode, but run {run.run.name} has {len(records)} with "
            f"{_asked(patterns, seeds, labels)}{': ' if listed else ''}{listed}. Name one with --tasks, --seeds and "
            "--vary"
        )
    with closing(open_pool(drawing)) as pool:
        episode_video(pool, run.run, records[0], run.folder, file, drawing)


def episode_video(pool: "WorldPool", run: Run, record: Record, folder: Path, file: Path, drawing: Drawing) -> None:
    """Write the video of a record, drawn from its states.

    Args:
        pool: the worlds, from `pytest_vla.show.tasks.open_pool`.
        run: the record's run.
        record: the episode's record.
        folder: the run's folder.
        file: the file to write.
        drawing: the drawing options, with one camera; the suite's first camera if they name none.

    Raises:
        VlaError: the record has no states, or the video cannot be made.
    """
    from pytest_vla.records.record import VIDEO_EVERY
    from pytest_vla.show.video import write_video

    task = as_drawn(restored_task(record, data_of(run, drawing.data)), drawing, 1)
    if record.arrays is None:
        raise VlaError(f"{record.case} has no states to draw: {record.reason}")
    trajectory = load_trajectory(trajectory_file(folder, record.arrays))
    world = pool(task, drawn_variation(task, record))
    reset_for_drawing(world, record, trajectory)
    write_video(
        world,
        trajectory.qpos,
        file,
        init_state=None,
        ending=record.outcome,
        camera=task.protocol.cameras[0],
        control_freq=task.protocol.control_freq,
        every=VIDEO_EVERY,
        charges=record.costs,
    )


def episode_pictures(
    pool: "WorldPool", run: Run, record: Record, folder: Path, drawing: Drawing
) -> list[tuple[str, Picture]]:
    """Return the first and the last picture of an episode with their labels; empty if it has no states.

    The arguments are those of `episode_video`. Raises VlaError: its data is missing, or it cannot be drawn.
    """
    if record.arrays is None:
        return []
    task = as_drawn(restored_task(record, data_of(run, drawing.data)), drawing, 1)
    cells = _shown(pool, task, record, folder, 2)
    return [(cell.label, cell.picture) for cell in cells if cell is not None]


def reset_for_drawing(world: Any, record: Record, trajectory: Trajectory) -> None:
    """Put the scene's fixtures and looks where an episode had them. Raises VlaError if its record does not tell."""
    if START in record.provenance:
        from pytest_vla.episode.resimulate import begin_again

        begin_again(world, record, trajectory, settle=False)
    else:
        world.reset(init_state=seed_of(record, "init_state"), scene_seed=seed_of(record, "scene"), settle=False)


def seed_of(record: Record, name: str) -> int:
    """Return one of a record's seeds. Raises VlaError if the record lacks it."""
    seed = record.seeds.get(name)
    if seed is None:
        raise VlaError(f"{record.case} cannot be drawn: its record has no seeds.{name}")
    return seed


def _steps(last: int, frames: int) -> list[int]:
    """Return the steps of an episode's moments, evenly spaced; the last is its end."""
    return [*(round(last * number / (frames - 1)) for number in range(frames - 1)), last]


def _moments(task: Task, record: Record, steps: Sequence[int]) -> list[SheetCell | None]:
    """Return blank cells for an episode's pictures after these steps; the last cell's label has the outcome."""
    verdict = record.outcome if record.reason is None else f"{record.outcome}, {record.reason},"
    tone = {"success": "good", "invalid": "plain"}.get(record.outcome, "bad")
    cost = cost_label(headline_charges(record.costs), record.steps)
    ending = {"label": f"{verdict} after {record.steps} steps{f', {cost}' if cost else ''}", "tone": tone}
    picture = blank(task.protocol.image_size, _BLANK)
    end = SheetCell(picture, **ending)  # type: ignore[arg-type]
    if record.arrays is None:
        return [end, *[None] * (len(steps) - 1)]
    charges = headline_charges(record.costs)
    told = [", ".join(filter(None, [f"step {step}", cost_label(charges, step)])) for step in steps[:-1]]
    return [*(SheetCell(picture, text) for text in told), end]


def _shown(pool: "WorldPool", task: Task, record: Record, folder: Path, frames: int) -> list[SheetCell | None]:
    """Draw an episode's pictures from its recorded states."""
    if record.arrays is None:
        return _moments(task, record, _steps(record.steps, frames))
    trajectory = load_trajectory(trajectory_file(folder, record.arrays))
    qpos = trajectory.qpos
    steps = _steps(len(qpos) - 1, frames)
    # Runs shown side by side may have different textures.
    task = with_protocol(recorded_protocol(task, record.protocol), textures=textures_of(record))
    cells = _moments(task, record, steps)
    try:
        world: ShownWorld = pool(task, drawn_variation(task, record))
        reset_for_drawing(world, record, trajectory)
        world.show(qpos[0], 0)
    except VlaError as error:
        # An episode of another version, or of missing files, must not hide the others.
        if not _label_of(record) or cells[-1] is None:
            raise
        why = dataclasses.replace(cells[-1], label=f"{cells[-1].label}; it cannot be drawn: {error}")
        return [why, *[None] * (frames - 1)]
    camera = task.protocol.cameras[0]
    charges = headline_charges(record.costs)

    def drawn(step: int) -> Picture:
        picture = camera_picture(world.show(qpos[step], step), camera, task)
        return outlined(world, picture, camera, charged_between(charges, step - 1, step))

    return [cell and dataclasses.replace(cell, picture=drawn(step)) for cell, step in zip(cells, steps, strict=True)]


def _label_of(record: Record) -> str:
    """Return the label of a record's variation, or an empty text if it is unvaried."""
    return str(record.variation.get("label", ""))


def drawn_variation(task: Task, record: Record) -> "Variation | None":
    """Return the variation to reset a world with, or None if it does not change the world. Raises VlaError."""
    found = restored_variation(task, record)
    return found if found is not None and found.changes_world else None


def _heads(runs: Sequence[RunEpisodes]) -> list[str]:
    """Return the column heads that distinguish the runs: their models, or their names if a model appears twice."""
    models = [run.run.model for run in runs]
    if len(runs) == 1:
        return [""]
    return models if len(set(models)) == len(models) else [run.run.name for run in runs]


def _named(block: Sequence[SheetCell | None], task: Task, record: Record) -> list[SheetCell | None]:
    """Return the pictures of one episode, with the episode's name below the first picture."""
    first, cell = next((at, cell) for at, cell in enumerate(block) if cell is not None)
    label = _label_of(record)
    name = (record.instruction or "(no instruction)") if label else instruction_text(task)
    which = f"{label}, seed {record.seed}" if label else f"seed {record.seed}"
    which = f"{task.task_level}, {which}" if label and task.task_level else which
    named = dataclasses.replace(cell, name=name, label=f"{which}, {cell.label}")
    return [*block[:first], named, *block[first + 1 :]]


def _chosen(
    run: RunEpisodes,
    patterns: Sequence[str],
    seeds: Sequence[int] | None,
    drawing: Drawing,
    labels: Sequence[str],
) -> list[Record]:
    data = data_of(run.run, drawing.data)
    suites = [load_suite(name, data=data) for name in dict.fromkeys(record.suite for record in run.records)]
    names = {(task.suite, task.key) for task in select_tasks(suites, patterns)}
    records = [record for record in run.records if (record.suite, record.task_key) in names]
    if labels:
        from pytest_vla.show.variations import match_labels

        matched = match_labels(labels, dict.fromkeys(map(_label_of, records)), f"run {run.run.name}")
        records = [record for record in records if _label_of(record) in matched]
    if seeds is not None:
        return [record for record in records if record.seed in seeds]
    lowest: dict[tuple[str, str, str], Record] = {}
    for record in records:
        key = (record.suite, record.task_key, _label_of(record))
        if key not in lowest or record.seed < lowest[key].seed:
            lowest[key] = record
    return list(lowest.values())


def _task_of(runs: Sequence[RunEpisodes], record: Record, drawing: Drawing) -> Task:
    run = next(run.run for run in runs if run.run.name == record.run)
    return as_drawn(restored_task(record, data_of(run, drawing.data)), drawing, 1)


def _rate(run: Run) -> str:
    rate = rate_of(run)
    apart = left_out_text(rate)
    return f"{rate.successes}/{rate.counted} = {share_text(rate)} {interval_text(rate)}" + f", {apart}" * bool(apart)


def _asked(patterns: Sequence[str], seeds: Sequence[int] | None, labels: Sequence[str]) -> str:
    tasks = f"tasks {', '.join(patterns)}" if patterns else "all tasks"
    varied = f", variations {', '.join(labels)}" if labels else ""
    return tasks + varied + (f", seeds {', '.join(map(str, seeds))}" if seeds is not None else "")


# Paths of a task's objects over an episode, from its recorded states, without physics.


def episode_objects(
    pool: "WorldPool", run: Run, record: Record, folder: Path, drawing: Drawing, rows: Sequence[int]
) -> dict[str, NDArray[np.float64]]:
    """Return the path of each object, drawer, door or knob that the goal names, (len(rows), 3) in m, world frame.

    Empty for a suite with its own world and for an episode without states.

    Args:
        pool: the worlds, from `pytest_vla.show.tasks.open_pool`.
        run: the record's run.
        record: the episode's record.
        folder: the run's folder.
        drawing: the drawing options, which name the data's folder.
        rows: the rows of the trajectory.

    Raises:
        VlaError: its data is missing, or its variation cannot be made.
    """
    task = as_drawn(restored_task(record, data_of(run, drawing.data)), drawing, 1)
    if record.arrays is None or task.world is not None:
        return {}
    trajectory = load_trajectory(trajectory_file(folder, record.arrays))
    world: Any = pool(task, drawn_variation(task, record))
    reset_for_drawing(world, record, trajectory)
    return _object_paths(world, trajectory.qpos[list(rows)])


def _object_paths(world: Any, qpos: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    import mujoco

    from pytest_vla.episode.visibility import parts
    from pytest_vla.errors import VlaError

    if qpos.shape[1] != world.model.nq:
        raise VlaError(f"a recorded state has {qpos.shape[1]} numbers, expected {world.model.nq}")
    # A static region's fixture does not move, but objects are to go there.
    bodies = {part.name: min(part.bodies) for part in parts(world) if part.recognised}
    data = mujoco.MjData(world.model)
    paths = {name: np.empty((len(qpos), 3)) for name in bodies}
    for row, pose in enumerate(qpos):
        data.qpos[:] = pose
        mujoco.mj_kinematics(world.model, data)
        for name, body in bodies.items():
            # The centre of mass: a door's frame does not move.
            paths[name][row] = data.xipos[body]
    return paths
