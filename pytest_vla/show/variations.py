"""Sheets of variations: tasks beside their variations, at the start of an episode."""

import dataclasses
import fnmatch
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_vla.episode.start import NothingToMeasure, begin
from pytest_vla.episode.trace import Trace
from pytest_vla.episode.world_pool import OwnWorld, WorldPool
from pytest_vla.errors import NO_DRAW, OUT_OF_SIGHT, EpisodeError, UnfitError, VlaError
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.plan.case import UPSTREAM, Case, joint_of, parts_of
from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Variation
from pytest_vla.show.sheet import Picture, SheetCell, blank, check_layout, in_rows, sheet
from pytest_vla.show.tasks import Drawing, camera_picture, check_number, open_pool
from pytest_vla.util.text import did_you_mean
from pytest_vla.vary.chosen import remembering
from pytest_vla.vary.kind import MOST_DRAWS
from pytest_vla.vary.registry import find_variation, kinds, labels_of, parse_vary

if TYPE_CHECKING:
    from pytest_vla.sim.world import World


BENIGN = "benign"
"""The name for unvaried episodes, below pictures and in patterns of labels."""

_BESIDE = 5
_CARD_HEIGHT = 2
_CARD_GREY = 150
_LONGEST = 140
_MOST_NUMBERS = 3
_NAMED = 3
_NOT_DRAWN = {OUT_OF_SIGHT: "out of sight", NO_DRAW: "cannot be had"}
# Parameters that the label already has, or that mean nothing to a reader.
_UNTOLD = {
    *("name", "original", "source", "digest", "index", "object_type", "action_type", "protocol", "number", "cameras"),
    *("effect", "noise", "severity", "regenerated", "moved", "layout_level", "sample", "similarity_by"),
}


@dataclass(frozen=True)
class _Shown:
    """One variation on a sheet, or the reason why the task cannot have it."""

    kind: str
    label: str
    variation: Variation | None
    refusal: str = ""

    @property
    def has_picture(self) -> bool:
        """Whether its pictures may differ from those of the unvaried task."""
        it = self.variation
        # A language kind that changes the problem asks for another goal in the same scene.
        return it is not None and it.dimension != "language" and changes_picture(it)


@dataclass(frozen=True)
class _Block:
    """A task with a seed, and its variations."""

    task: Task
    seed: int
    shown: tuple[_Shown, ...]


def changes_picture(variation: Variation) -> bool:
    """Whether a variation changes more than the instruction and the actions."""
    return bool(
        variation.problem
        or variation.model
        or variation.init_states
        or variation.state
        or variation.rest_joints
        or variation.removed
        or variation.pictures
    )


def vary_sheet(tasks: Sequence[Task], vary: str, seeds: Sequence[int] | None, drawing: Drawing) -> Picture:
    """Draw a sheet with a row for each task, seed, camera and kind, with the unvaried task before the first.

    Variations are drawn as for an episode, and drawn again if the task's objects are out of sight. A variation without
    a picture of its own is described in words, and so is one that a task cannot have. Visibility is checked at the
    picture size of the sheet; if this differs from the suite's, a barely visible object may be drawn again here but not
    in the episode.

    Args:
        tasks: tasks from `pytest_vla.show.tasks.find_tasks`.
        vary: as for ``--vla-vary``; for suites with their own variations, labels with or without wildcards.
        seeds: the seeds, or None for seed 0.
        drawing: the drawing options; the suite's first camera if they name none.

    Raises:
        VlaError: there is no such variation, the data is missing, there is no such camera, or there are too many
            pictures.
    """
    seeds = (0,) if seeds is None else seeds
    blocks = [_planned(task, seed, vary) for task in tasks for seed in seeds]
    cameras = drawing.cameras or tasks[0].protocol.cameras[:1]
    check_number(sum(1 + sum(each.has_picture for each in block.shown) for block in blocks) * len(cameras))
    if len(blocks) == 1:
        title, about = tasks[0].language, f"{tasks[0].id}, seed {seeds[0]}, {', '.join(cameras)}"
    else:
        title = f"variations: {vary}"
        about = f"{len(tasks)} tasks, seed {', '.join(map(str, seeds))}, {', '.join(cameras)}"
    named = [
        (f"{block.task.id}, " if len(tasks) > 1 else "") + (f"seed {block.seed}, " if len(seeds) > 1 else "")
        for block in blocks
    ]

    def rows(of_block: "Mapping[int, Mapping[str, Sequence[SheetCell]]]") -> list[list[SheetCell | None]]:
        return list(
            chain.from_iterable(
                _rows(block, of_block[at], cameras, names)
                for at, (block, names) in enumerate(zip(blocks, named, strict=True))
            )
        )

    drawn_tasks = {task: _drawn(task, drawing) for task in tasks}
    empty = {at: _empty(block, drawn_tasks[block.task], len(cameras)) for at, block in enumerate(blocks)}
    check_layout(rows(empty), title=title, subtitle=about)
    with closing(open_pool(drawing)) as pool:
        cells = {at: _cells(pool, block, drawn_tasks[block.task], cameras) for at, block in enumerate(blocks)}
    return sheet(rows(cells), title=title, subtitle=about)


def match_labels(patterns: Sequence[str], known: Iterable[str], whose: str) -> tuple[str, ...]:
    """Return the labels that the patterns match, in the labels' order.

    Args:
        patterns: labels or wildcards (``*``, ``?``, ``[]``), in any case; `BENIGN` is the empty label.
        known: the existing labels.
        whose: the owner of the labels, for the message.

    Raises:
        VlaError: a pattern matches nothing (with close matches).
    """
    names = {label: label or BENIGN for label in known}
    chosen: set[str] = set()
    for pattern in patterns:
        found = {label for label, name in names.items() if fnmatch.fnmatchcase(name.lower(), pattern.lower())}
        if not found:
            close = did_you_mean(pattern, names.values()) or f" It has {_some(list(names.values()))}."
            raise VlaError(f"no variation of {whose} is {pattern!r}.{close} Wildcards are * ? []")
        chosen |= found
    return tuple(label for label in names if label in chosen)


def _some(names: Sequence[str]) -> str:
    """Return all names as a text, or the first few and the number of the rest."""
    told = list(names[:_NAMED]) or ["none"]
    if len(names) > _NAMED:
        told.append(f"{len(names) - _NAMED} more")
    return " and ".join(filter(None, (", ".join(told[:-1]), *told[-1:])))


def _planned(task: Task, seed: int, vary: str) -> _Block:
    return _Block(task, seed, tuple(_planned_one(task, label, seed) for label in _labels(task, vary)))


def _labels(task: Task, vary: str) -> tuple[str, ...]:
    if not task.varied:
        return labels_of(task, parse_vary(vary))
    patterns = [part for each in vary.split(",") if (part := each.strip())]
    known = labels_of(task)
    if any(pattern.startswith(UPSTREAM) for pattern in patterns):
        known += tuple(label for label in labels_of(task, protocol=UPSTREAM) if label not in known)
    if not patterns:
        raise VlaError(f"--vary is empty; {task.suite} has labels such as {', '.join(known[:3])}")
    return match_labels(patterns, known, f"{task.id}")


def _planned_one(task: Task, label: str, seed: int) -> _Shown:
    try:
        found = find_variation(task, label, seed)
    except VlaError as error:
        return _Shown(_kind_of(label), label, None, _reason(task, label, error))
    assert found is not None
    return _Shown(f"{found.dimension}.{found.kind}" if task.varied else _kind_of(label), label, found)


@cache
def _kinds_by_label() -> Mapping[str, str]:
    return {label: kind.name for kind in kinds() for label in kind.labels()}


def _kind_of(label: str) -> str:
    return joint_of(_kinds_by_label().get(part, part) for part in parts_of(label))


def _drawn(task: Task, drawing: Drawing) -> Task:
    """Return the task with the requested cameras after the suite's, whose first one decides visibility."""
    protocol = dataclasses.replace(
        task.protocol,
        cameras=tuple(dict.fromkeys((*task.protocol.cameras, *(drawing.cameras or ())))),
        image_size=drawing.size or task.protocol.image_size,
    )
    return dataclasses.replace(task, protocol=protocol)


def _rows(
    block: _Block, cells: Mapping[str, Sequence[SheetCell]], cameras: Sequence[str], named: str
) -> list[list[SheetCell | None]]:
    """Return the rows of a task and seed; `cells` has one cell per camera, by label, "" for the unvaried task."""
    rows: list[list[SheetCell | None]] = []
    for number, camera in enumerate(cameras):
        pictured = worded = False
        benign = cells[""][number]
        at = f"{named}{camera}, " if len(cameras) > 1 else named
        told = dataclasses.replace(benign, label=f'{at}"{block.task.language}"{_behind(benign.label)}')
        for kind in dict.fromkeys(each.kind for each in block.shown):
            beside = [cells[each.label][number] for each in block.shown if each.kind == kind]
            # Beside words it is words too.
            words = all(cell.picture.shape[0] == _CARD_HEIGHT for cell in beside)
            # Once is enough: what stands beside nothing is beside the one above.
            first: SheetCell | None = None
            if words and not worded:
                first = dataclasses.replace(told, picture=beside[0].picture)
            elif not words and not pictured:
                first = told
            pictured, worded = pictured or not words, True
            for row in in_rows(beside, _BESIDE):
                rows.append([first, *row])
                first = None
    return rows


def _behind(text: str) -> str:
    return f", {text}" if text else ""


def _empty(block: _Block, task: Task, cameras: int) -> dict[str, list[SheetCell]]:
    """Return blank cells for a block's pictures, with the texts that are known before drawing."""
    picture = blank(task.protocol.image_size)
    cells = {"": [SheetCell(picture, name=BENIGN)] * cameras}
    for each in block.shown:
        card = _card(each, task)
        assert each.variation is not None or card is not None
        cells[each.label] = [card or _cell(picture, each.variation)] * cameras
    return cells


def _cells(pool: WorldPool, block: _Block, task: Task, cameras: Sequence[str]) -> dict[str, list[SheetCell]]:
    """Return a block's cells by label, one for each camera."""
    case = Case(task.suite, task.name, block.seed, task_level=task.task_level)
    benign, _, ending = first_pictures(pool, task, case, None, cameras)
    assert benign is not None
    cells = {"": [SheetCell(picture, ending, name=BENIGN) for picture in benign]}
    for each in block.shown:
        card = _card(each, task)
        if card is not None:
            cells[each.label] = [card] * len(cameras)
            continue
        pictures, variation, ending = first_pictures(
            pool, task, dataclasses.replace(case, variation=each.label), each.variation, cameras
        )
        if pictures is None:
            refused = dataclasses.replace(each, variation=None, refusal=ending)
            cells[each.label] = [_card(refused, task)] * len(cameras)  # type: ignore[list-item]
            continue
        cells[each.label] = [
            _cell(picture, variation, ending, same=np.array_equal(picture, before))
            for picture, before in zip(pictures, benign, strict=True)
        ]
    return cells


def first_pictures(
    pool: WorldPool, task: Task, case: Case, variation: Variation | None, cameras: Sequence[str]
) -> tuple[list[Picture] | None, Variation | None, str]:
    """Return an episode's first pictures, its variation as finally drawn, and a description of what is wrong with it.

    The pictures are None if the variation cannot be had. Raises VlaError if the unvaried task cannot be drawn.
    """
    trace, wrong = Trace(variation=variation), ""
    try:
        seen: Any = begin(trace, case, task, pool)
    except NothingToMeasure as ended:
        wrong = ended.message
        if ended.reason in _NOT_DRAWN:
            draws = f"{MOST_DRAWS} draws" if variation is not None and variation.redraw is not None else "its one draw"
            wrong = f"{_NOT_DRAWN[ended.reason]} in {draws}: {wrong.partition(' (the last of')[0]}"
        seen = _present(trace.world)  # type: ignore[arg-type]
        if seen is None:
            return None, trace.variation, wrong
    except (VlaError, EpisodeError) as error:
        if variation is None:
            raise
        return None, trace.variation, _reason(task, case.variation, error)
    return [camera_picture(seen, camera, task).copy() for camera in cameras], trace.variation, wrong


def _present(world: "World | OwnWorld") -> Mapping[str, Any] | None:
    """Return the world's current observation, or None if its last reset failed."""
    if isinstance(world, OwnWorld):
        return world.seen
    try:
        return world.show(world.save().data.qpos)
    except VlaError:
        return None


def _cell(picture: Picture, variation: Variation | None, wrong: str = "", same: bool = False) -> SheetCell:
    assert variation is not None
    told = [f'"{variation.instruction}"'] if variation.instruction is not None else []
    noted = ["the same picture as benign"] if same else []
    label = "; ".join(filter(None, (in_short(variation.parameters), *told, *noted, wrong)))
    return SheetCell(picture, label, "bad" if wrong else "plain", variation.label)


def _card(shown: _Shown, task: Task) -> SheetCell | None:
    """Return the cell of words that replaces a picture, or None if the variation has a picture."""
    if shown.has_picture:
        return None
    line = blank((_CARD_HEIGHT, task.protocol.image_size[1]), _CARD_GREY)
    variation = shown.variation
    if variation is None:
        return SheetCell(line, shown.refusal, "bad", shown.label)
    told = (
        []
        if variation.instruction is None
        else [f'"{variation.instruction}"' if variation.instruction else '"", no instruction']
    )
    if variation.changes_control:
        told.append(f"no picture, it changes actions: {in_short(variation.parameters)}")
    return SheetCell(line, "; ".join(told), name=shown.label)


def in_short(parameters: Mapping[str, Any]) -> str:
    """Return those parameters of a variation that a picture can show, as a text: ``factor 1.6``."""
    texts = []
    for name, value in parameters.items():
        last = name.rpartition(".")[2]
        if last in _UNTOLD or last.endswith("seed") or _is_untold(value):
            continue
        text = _value(value)
        if last.endswith("_deg"):
            last, text = last.removesuffix("_deg"), f"{text} deg"
        texts.append(f"{last.replace('_', ' ')} {text}")
    return textwrap.shorten(", ".join(texts), _LONGEST, placeholder=" ...")


def _is_untold(value: object) -> bool:
    """Whether a value is left out of the label: an empty one, or many numbers such as seven joint angles."""
    if isinstance(value, list | tuple) and len(value) > _MOST_NUMBERS:
        return all(isinstance(each, int | float) for each in value)
    return value is None or (isinstance(value, list | tuple | Mapping) and not value)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_value(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return " ".join(map(_value, value))
    return str(value)


def _reason(task: Task, label: str, error: Exception) -> str:
    """Return why the task cannot have a variation, without the task's and the label's names."""
    text = error.reason if isinstance(error, UnfitError) else str(error).removeprefix(f"{label}: ")
    text = text.replace(f"{task.id}", "this task")
    return textwrap.shorten(text, _LONGEST, placeholder=" ...")


# Pictures of scenes that a search tried, as their episodes begin.


@dataclass(frozen=True)
class SceneView:
    """The picture of a scene, or the reason why there is none.

    Attributes:
        picture: the picture of the suite's first camera, or None.
        why: why there is no picture, or what is wrong with it; empty if nothing is.
    """

    picture: Picture | None
    why: str = ""


def scene_pictures(candidates: Sequence[Candidate]) -> list[SceneView]:
    """Return a picture of each candidate, in order; equal candidates are drawn once, and failures have a reason."""
    drawn: dict[tuple[str, int, tuple[str, ...]], SceneView] = {}
    found = []
    with closing(open_pool(Drawing())) as pool:
        for candidate in candidates:
            key = candidate.task.id, candidate.seed, tuple(change.label for change in candidate.changes)
            if key not in drawn:
                with remembering(candidate.changes):
                    drawn[key] = _changes_drawn(candidate, pool)
            found.append(drawn[key])
    return found


def _changes_drawn(candidate: Candidate, pool: WorldPool) -> SceneView:
    task, case = candidate.task, candidate.case
    try:
        variation = find_variation(task, case.variation, case.seed)
        if variation is not None and not changes_picture(variation):
            return SceneView(None, "the change is not visible")
        pictures, _, wrong = first_pictures(pool, task, case, variation, task.protocol.cameras[:1])
    except VlaError as error:
        return SceneView(None, str(error))
    return SceneView(None if pictures is None else pictures[0], wrong)
