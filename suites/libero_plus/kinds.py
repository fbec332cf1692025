"""LIBERO-Plus's kinds of variation that any task may have: its noises, layouts and rewritten instructions."""

import functools
import hashlib
import itertools
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.task import Task
from pytest_vla.scene.problem import parse_problem, problem_of
from pytest_vla.scene.variation import INSTRUCTION, Edits, InitStates, Params, PictureEdit, ProblemEdit
from pytest_vla.suites.libero_plus.listing import entries_of, find_checkout, section_of
from pytest_vla.suites.libero_plus.names import PLUS_NAMES, PLUS_SEVERITIES, SUITES, PlusTask, plus_parts
from pytest_vla.suites.libero_pro.tables import as_bddl
from pytest_vla.vary.axes.language import space_of_text, told
from pytest_vla.vary.kind import Draw, VariationKind
from pytest_vla.vary.space import LISTED, SEED, Parameter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla.scene.problem import Problem
    from pytest_vla.sim.pixel_noise import Picture


# LIBERO-Plus's layouts: its own BDDL files where the user has them, made by its rules where not.

Point = tuple[float, float]

STEPS: Mapping[str, float] = {"libero_spatial": 0.01, "libero_object": 0.03, "libero_goal": 0.02, "libero_10": 0.01}
"""Of a layout's levels: the disc's radius grows by so many metres a level."""

STEPS_OF_SCENES: Mapping[str, float] = {"LIVING_ROOM_SCENE1": 0.02}

MOVED: Mapping[str, Point] = {
    "akita_black_bowl": (0.35, 0.05),
    "cream_cheese": (0.15, 0.10),
    "wine_bottle": (0.0, 0.05),
}
"""What stands elsewhere in a ``_moved`` layout of LIBERO-Goal, by category; metres."""

_SLOTS: Mapping[str, tuple[Point, ...]] = {
    "libero_spatial": ((-0.4, 0.2), (-0.4, 0.4), (0.25, -0.15), (0.25, 0.0), (0.25, 0.2)),
    "libero_goal": ((-0.3, 0.4), (0.05, 0.3), (0.25, -0.15), (0.25, 0.0), (0.25, 0.2)),
    "floor": ((-0.3, -0.25), (-0.3, 0.25), (0.3, -0.2), (0.3, 0.0), (0.3, 0.2)),
    "kitchen_table": ((-0.3, -0.25), (-0.3, 0.2), (-0.25, -0.1), (0.2, -0.15), (0.2, -0.05), (0.2, 0.15)),
    "living_room_table": (
        *((-0.45, -0.3), (-0.4, -0.2), (-0.4, 0.25), (-0.3, 0.2)),
        *((-0.25, 0.15), (0.1, -0.2), (0.2, -0.05), (0.2, 0.15)),
    ),
    "study_table": ((-0.2, 0.3), (0.0, -0.2), (0.0, 0.25), (0.2, -0.25), (0.2, 0.2)),
}
"""Where objects are added, by suite or else by workspace; metres."""

DISTRACTORS = (
    *("alphabet_soup", "bbq_sauce", "butter", "chocolate_pudding", "cookies", "cream_cheese", "ketchup", "milk"),
    *("new_salad_dressing", "orange_juice", "salad_dressing", "tomato_sauce"),
)
"""LIBERO's own groceries, which stand in for the 13 of LIBERO-Plus's that nobody else has."""

_ADDED_APART = 0.097
_FIXTURES_APART = 0.2
# What stands in its place closer than this may come no closer; LIBERO's basket and its fixtures are larger.
_APART, _LARGE_APART = 0.1, 0.17
_LARGE = ("basket", "wooden_tray", "desk_caddy")
_SIDE = 1e-6
_TRIES = 10_000


def given_layout(file: Path) -> ProblemEdit:
    """Return the edit that replaces the task's problem by the one in LIBERO-Plus's own file."""

    def changed(problem: "Problem") -> "Problem":
        return _parsed(file, file.stat().st_mtime_ns)

    return changed


def given_start(file: Path) -> InitStates:
    """Return the init states in LIBERO-Plus's own file."""

    def read() -> "NDArray[np.float64]":
        from pytest_vla.scene.init_states import read_init_states

        return read_init_states(file)

    return read


def unknown_categories(file: Path, known: frozenset[str]) -> tuple[str, ...]:
    """Return the unknown categories of the objects that a layout's file declares."""
    said = section_of(file, ":objects")
    if said is not None:
        found = set(re.findall(r" - ([^\s]+)", said.lower()))
    else:
        found = {item.category for item in _parsed(file, file.stat().st_mtime_ns).objects}
    return tuple(sorted(found - known))


def draw_level(task: Task, entry: PlusTask, time: int = 0) -> dict[str, Any]:
    """Draw a shift for every region with a range, independently and uniformly within a disc.

    Args:
        task: one of LIBERO's.
        entry: with a level and a sample.
        time: 0, or the number of earlier draws that could not be used.

    Returns:
        ``radius``, m, and ``shifts``: each region with its x and y, m.

    Raises:
        VlaError: the task's file is missing or invalid, or no draw keeps things apart.
    """
    assert entry.level is not None
    problem = problem_of(task)
    radius = round(entry.level * step_of(entry), 3)
    moved = _moved(problem) if entry.moved else {}
    drawn = entry.generator(time)
    starts = {region.key: _centre(region.ranges[0]) for region in problem.regions if region.ranges}
    kept = _to_keep_apart(problem, starts)
    for _ in range(_TRIES):
        shifts = {key: _in_disc(drawn, radius) for key in starts}
        placed = {key: _plus(starts[key], moved.get(key, (0.0, 0.0)), shifts[key]) for key in starts}
        if all(math.dist(placed[one], placed[other]) >= distance for one, other, distance in kept):
            break
    else:
        raise VlaError(f"{entry.name}: no draw in {_TRIES} keeps the things in {task.name} apart")
    whole = {key: _plus(moved.get(key, (0.0, 0.0)), shift) for key, shift in shifts.items()}
    return {"radius": radius, "shifts": [[key, *shift] for key, shift in whole.items()]}


def shifted(shifts: Sequence[Sequence[Any]]) -> ProblemEdit:
    """Return the edit that shifts regions, each by its x and y, m."""
    whole = {str(key): (x, y) for key, x, y in shifts}

    def changed(problem: "Problem") -> "Problem":
        regions = tuple(
            replace(region, ranges=tuple(_shifted(each, whole[region.key]) for each in region.ranges))
            if region.key in whole
            else region
            for region in problem.regions
        )
        return replace(problem, regions=regions)

    return changed


def draw_added(task: Task, entry: PlusTask, available: Sequence[str], time: int = 0) -> dict[str, Any]:
    """Draw one to five objects to be added, each in a slot of its own.

    Args:
        task: one of LIBERO's.
        entry: with the number of a sample; six samples for each count.
        available: the members of `DISTRACTORS` whose assets are available.
        time: as in `draw_level`.

    Returns:
        ``count``, and ``added``: each category with its x and y, m.

    Raises:
        VlaError: the task's file is missing or invalid, or it leaves no slot or no category.
    """
    assert entry.add is not None
    problem = problem_of(task)
    count = 1 + (entry.add - 1) // 6
    # Two dressings, an old and a new one, have one name in instructions.
    used = {item.category.removeprefix("new_") for item in problem.objects}
    categories = [name for name in available if name.removeprefix("new_") not in used]
    slots = _free_slots(task, problem, count)
    if len(slots) < count or not categories:
        raise VlaError(f"{entry.name}: {task.name} has no room for {count} more objects, or none are available")
    drawn = entry.generator(time)
    places = drawn.sample(slots, count)
    # One of a kind while there are enough kinds.
    rounds = [drawn.sample(categories, len(categories)) for _ in range(-(-count // len(categories)))]
    order = itertools.chain.from_iterable(rounds)
    return {"count": count, "added": [[category, *place] for category, place in zip(order, places, strict=False)]}


def with_objects(problem: "Problem", added: Sequence[Sequence[Any]]) -> "Problem":
    """Return the problem with added objects, each with a category and a place (m) on its workspace."""
    from pytest_vla.scene.problem import Literal
    from pytest_vla.scene.sections import Declaration, Region
    from pytest_vla.scene.workspaces import workspace

    table = workspace(problem.name, problem.source).name
    names = {item.name for item in (*problem.objects, *problem.fixtures)}
    objects, regions, init = list(problem.objects), list(problem.regions), list(problem.init)
    for number, (category, x, y) in enumerate(added):
        name = next(text for n in range(1, len(names) + 2) if (text := f"{category}_{n}") not in names)
        names.add(name)
        half = _SIDE / 2
        region = Region(f"add_object_region_{number}", table, ((x - half, y - half, x + half, y + half),))
        objects.append(Declaration(name, category))
        regions.append(region)
        init.append(Literal("on", (name, region.key), group=len(init)))
    return replace(problem, objects=tuple(objects), regions=tuple(regions), init=tuple(init))


def step_of(entry: PlusTask) -> float:
    """Return the growth (m) of a layout's disc per level."""
    scene = next((scene for scene in STEPS_OF_SCENES if entry.base.startswith(f"{scene}_")), "")
    return STEPS_OF_SCENES[scene] if scene else STEPS[entry.suite]


def _free_slots(task: Task, problem: "Problem", count: int) -> list[Point]:
    from pytest_vla.scene.workspaces import workspace

    table = workspace(problem.name, problem.source).name
    slots = _SLOTS[task.files] if task.files in _SLOTS else _SLOTS[table]
    fixtures = {item.name for item in problem.fixtures}
    placed = [(name in fixtures, _centre(region.ranges[0])) for name, region in _placed(problem)]
    free = [slot for slot in slots if all(math.dist(slot, place) >= _ADDED_APART for _, place in placed)]
    roomy = [
        slot for slot in free if all(math.dist(slot, place) >= _FIXTURES_APART for fixed, place in placed if fixed)
    ]
    return roomy if len(roomy) >= count else free


def _placed(problem: "Problem") -> list[tuple[str, Any]]:
    """Return the things in regions with a range, each with its region."""
    regions = {region.key: region for region in problem.regions if region.ranges}
    pairs = [(str(lit.arguments[0]), str(lit.arguments[1])) for lit in problem.init if len(lit.arguments) == 2]
    return [(name, regions[key]) for name, key in pairs if key in regions]


def _moved(problem: "Problem") -> dict[str, Point]:
    categories = {item.name: item.category for item in problem.objects}
    return {region.key: MOVED[kind] for name, region in _placed(problem) if (kind := categories.get(name, "")) in MOVED}


def _to_keep_apart(problem: "Problem", starts: Mapping[str, Point]) -> list[tuple[str, str, float]]:
    """Pairs of regions in which things stand, and how far apart they have to stay."""
    categories = {item.name: item.category for item in (*problem.objects, *problem.fixtures)}
    fixtures = {item.name for item in problem.fixtures}
    placed = [(region.key, name in fixtures or categories[name] in _LARGE) for name, region in _placed(problem)]
    pairs = []
    for index, (one, large) in enumerate(placed):
        for other, other_large in placed[index + 1 :]:
            wanted = _LARGE_APART if large or other_large else _APART
            pairs.append((one, other, min(wanted, math.dist(starts[one], starts[other]))))
    return pairs


def _in_disc(drawn: random.Random, radius: float) -> Point:
    length, angle = radius * math.sqrt(drawn.random()), drawn.uniform(0.0, math.tau)
    return round(length * math.cos(angle), 4), round(length * math.sin(angle), 4)


def _centre(rectangle: Sequence[float]) -> Point:
    x0, y0, x1, y1 = rectangle
    return (x0 + x1) / 2, (y0 + y1) / 2


def _plus(*points: Point) -> Point:
    return round(sum(x for x, _ in points), 6), round(sum(y for _, y in points), 6)


def _shifted(rectangle: Sequence[float], shift: Point) -> tuple[float, float, float, float]:
    x0, y0, x1, y1 = rectangle
    return x0 + shift[0], y0 + shift[1], x1 + shift[0], y1 + shift[1]


@cache
def _parsed(file: Path, changed: int) -> "Problem":
    from pytest_vla.scene.problem import parse_problem

    return parse_problem(file)


# LIBERO-Plus's rewritten instructions as variations of LIBERO's tasks, from the BDDL files of the user's checkout.

# What a language model said before its list: it stands in two of upstream's files in place of a rewrite.
_PREAMBLE = re.compile(r"\bhere (are|is)\b.*\b(variation|rewrite|version|paraphrase)s?\b|\bthe given instruction\b")


def draw_rewrite(draw: Draw) -> Params:
    """Draw a rewrite of a task from LIBERO-Plus's list.

    A text that is no instruction, or is the task's own, is replaced by the next one drawn, which the parameters record.

    Raises:
        VlaError: the checkout is missing or incomplete, or has no usable rewrite of this task.
    """
    task, label = draw.task, draw.label
    given = find_checkout(task.data)
    listed = {entry.language: entry for entry in entries_of(given, task) if entry.language is not None}
    passed_over: list[int] = []
    for index in draw.generator().sample(sorted(listed), len(listed)):
        bddl, name = given.bddl(listed[index]), f"{listed[index].file}.bddl"
        if bddl is None:
            raise VlaError(f"{label}: {given.file} lists {name}, which is missing. Use a complete checkout")
        text, digest = read_rewrite(bddl)
        if text == task.language or is_preamble(text):
            passed_over.append(index)
            continue
        difficulty = listed[index].difficulty
        return {
            "file": name,
            "digest": digest,
            "index": index,
            **({} if difficulty is None else {"difficulty": difficulty}),
            **({"passed_over": ", ".join(map(str, passed_over))} if passed_over else {}),
            "original": task.language,
            INSTRUCTION: text,
        }
    if passed_over:
        raise VlaError(
            f"{label}: all rewrites of {task.files}/{task.name} in {given.file} are unusable (no instruction, or the "
            f"task's own): {', '.join(map(str, passed_over))}"
        )
    why = "a checkout's list has some" if task.files in SUITES else f"it has rewrites only for {', '.join(SUITES)}"
    raise VlaError(f"{label}: {given.file} has no rewrite of {task.files}/{task.name}; {why}")


def read_rewrite(bddl: Path) -> tuple[str, str]:
    """Return a BDDL file's instruction as upstream reads it, and the file's digest. Raises VlaError."""
    return _read(bddl, bddl.stat().st_mtime_ns)


def is_preamble(text: str) -> bool:
    """Whether it is no instruction, but what a language model said before its list."""
    return _PREAMBLE.search(text) is not None


@cache
def _read(bddl: Path, changed: int) -> tuple[str, str]:
    text = section_of(bddl, ":language") or parse_problem(bddl).language
    return as_bddl(text), hashlib.sha256(bddl.read_bytes()).hexdigest()[:16]


DIMENSION = "noise"


PLUS_CAMERAS = ("agentview",)
"""Whose pictures LIBERO-Plus changes."""

WRIST_CAMERAS = (*PLUS_CAMERAS, "robot0_eye_in_hand")

# Exact in every JSON reader.
_SEED_BITS = 48


def plus_noise(number: int, seed: int, cameras: Sequence[str] = PLUS_CAMERAS) -> PictureEdit:
    """Return LIBERO-Plus's noise with a number, as ``noise_NUMBER`` in its tasks' names.

    The module's docstring lists the differences from upstream.

    Args:
        number: 1 to 50: ten severities of each of `PLUS_NAMES`.
        seed: determines, with the camera's name and the step, all that is drawn for a frame.
        cameras: the cameras whose pictures are changed.

    Raises:
        VlaError: there is no such number.
    """
    name, severity = plus_parts(number)
    chosen = frozenset(cameras)

    def begin() -> "Callable[[NDArray[np.uint8], str, int], NDArray[np.uint8]]":
        from pytest_vla.sim.pixel_noise import frame_generator

        def change(picture: "NDArray[np.uint8]", camera: str, step: int) -> "NDArray[np.uint8]":
            if camera not in chosen:
                return picture
            # LIBERO-Plus changes pictures as OpenGL has them, the lowest row first.
            noisy = plus_picture(picture[::-1], name, severity, frame_generator(seed, camera, step))
            return noisy[::-1].copy()

        return change

    return begin


def _sample_plus(draw: Draw) -> Params:
    number = _plus_labels().index(draw.part) + 1
    return {"number": number, "seed": draw.generator().getrandbits(_SEED_BITS)}


def _apply_plus(cameras: Sequence[str], task: Task, params: Params) -> Edits:
    number, seed, seen = params["number"], params["seed"], _seen(cameras, task)
    name, severity = plus_parts(number)
    told = {"number": number, "noise": name, "severity": severity, "cameras": seen, "seed": seed}
    return Edits(pictures=(plus_noise(number, seed, seen),), told=told)


def _seen(cameras: Sequence[str], task: Task) -> list[str]:
    seen = [camera for camera in cameras if camera in task.protocol.cameras]
    if not seen:
        raise VlaError(
            f"it changes pictures from {' and '.join(cameras)}, but {task.suite} has {', '.join(task.protocol.cameras)}"
        )
    return seen


def _space_plus(cameras: Sequence[str], task: Task) -> tuple[Parameter, ...]:
    """Return the parameter space: numbers in LIBERO-Plus's list (ten severities per kind), and a seed."""
    _seen(cameras, task)
    numbers = tuple(range(1, len(PLUS_NAMES) * len(PLUS_SEVERITIES) + 1))
    return Parameter("number", LISTED, choices=numbers), Parameter("seed", SEED, 0, 2**_SEED_BITS - 1)


def _plus_labels() -> tuple[str, ...]:
    return tuple(f"{name}-{severity}" for name in PLUS_NAMES for severity in PLUS_SEVERITIES)


def _plus_kind(kind: str, about: str, cameras: Sequence[str]) -> VariationKind:
    return VariationKind(
        f"{DIMENSION}.{kind}",
        about,
        "LIBERO-Plus",
        _sample_plus,
        functools.partial(_apply_plus, cameras),
        functools.partial(_space_plus, cameras),
        parts=_plus_labels,
        published=True,
        anywhere=True,
    )


NOISE = (
    _plus_kind("plus", "LIBERO-Plus's five kinds at ten severities, on agentview", PLUS_CAMERAS),
    _plus_kind("plus_wrist", "as noise.plus, also on the wrist camera", WRIST_CAMERAS),
)
"""The kinds of noise."""

LANGUAGE = (
    VariationKind(
        "language.plus",
        "a rewritten instruction from LIBERO-Plus's BDDL files (path from --vla-data)",
        "LIBERO-Plus",
        draw_rewrite,
        told,
        space_of_text,
        needs_files=True,
        recorded="libero-plus",
        anywhere=True,
    ),
)
"""Of the dimension `language`."""


# LIBERO-Plus's five kinds of picture noise at its ten severities, after its code. Pure functions of a generator.
#
# As published but for this: each frame has a generator of its own instead of numpy's global one; a picture may have
# any size and shape, for which fog's field is of the next power of two from 256 on; motion blur is ImageMagick's
# formula without ImageMagick; sums are in 32 bit, so that here and there a value is one grey level off. Lengths are
# in pixels at whatever resolution is rendered, and glass copies pixels where it was meant to swap them, both as
# published.

MOTION = ((5, 2), (8, 3), (10, 4), (12, 5), (15, 6), (18, 8), (20, 10), (25, 12), (30, 15), (35, 20))
"""ImageMagick's radius and sigma, pixels."""

MOTION_ANGLE = 45.0
"""Degrees: the angle is drawn between minus and plus this."""

GAUSSIAN = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
"""Sigma, pixels."""

ZOOM = (
    *((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
    *((1.36, 0.01), (1.41, 0.01), (1.46, 0.02), (1.51, 0.02), (1.56, 0.03)),
)
"""Stop and step of the factors, which `numpy.arange` makes from 1 on, without the stop."""

FOG = ((0.5, 3), (1, 2.8), (1.5, 2.5), (2, 2.2), (2.5, 2), (3, 1.8), (3.5, 1.6), (4, 1.5), (4.5, 1.4), (5, 1.3))
"""Amount, and decay of the field."""

GLASS = (
    *((0.5, 1, 3), (0.7, 1, 3), (0.9, 2, 3), (1.0, 2, 2), (1.1, 3, 2)),
    *((1.3, 3, 2), (1.5, 4, 2), (1.8, 4, 2), (2.2, 5, 1), (2.5, 5, 1)),
)
"""Sigma and delta, pixels, and iterations."""


def plus_picture(picture: "Picture", name: str, severity: int, generator: "np.random.Generator") -> "Picture":
    """Apply LIBERO-Plus's noise to a picture.

    Args:
        picture: (H, W, 3) uint8, as in LIBERO-Plus: the lowest row first.
        name: one of `PLUS_NAMES`.
        severity: one of `PLUS_SEVERITIES`.
        generator: for this frame.

    Raises:
        VlaError: there is no such kind or severity.
    """
    # The kinds are listed without the packages that change pictures.
    from pytest_vla.vary.effects.pictures import copied_glass, fog, gaussian_blur, plasma, plasma_side, zoom_blur

    if name not in PLUS_NAMES or severity not in PLUS_SEVERITIES:
        raise VlaError(
            f"LIBERO-Plus's noise is {', '.join(PLUS_NAMES)} with severity 1 to {len(PLUS_SEVERITIES)}, "
            f"not {name} with {severity}"
        )
    at = severity - 1
    if name == "motion":
        return imagemagick_motion_blur(picture, *MOTION[at], generator.uniform(-MOTION_ANGLE, MOTION_ANGLE))
    if name == "gaussian":
        return gaussian_blur(picture, GAUSSIAN[at])
    if name == "zoom":
        return zoom_blur(picture, zoom_factors(severity))
    if name == "fog":
        amount, decay = FOG[at]
        return fog(picture, amount, plasma(plasma_side(picture), decay, generator))
    sigma, delta, iterations = GLASS[at]
    return copied_glass(picture, sigma, delta, iterations, generator)


def zoom_factors(severity: int) -> tuple[float, ...]:
    """Return the zoom factors for a severity; because of rounding, the last one is sometimes the stop itself."""
    import numpy as np

    stop, step = ZOOM[severity - 1]
    return tuple(np.arange(1.0, stop, step).tolist())


def imagemagick_motion_blur(picture: "Picture", radius: float, sigma: float, angle: float) -> "Picture":
    """Apply ImageMagick's MotionBlurImage: half a Gaussian to one side, so that the picture moves too.

    Args:
        picture: (H, W, 3) uint8; its edge is repeated.
        radius: the kernel's radius in pixels.
        sigma: pixels.
        angle: degrees.
    """
    import numpy as np

    from pytest_vla.vary.effects.pictures import moved_copies

    along = np.arange(2 * math.ceil(radius) + 1)
    weights = np.exp(-(along**2) / (2.0 * sigma**2))
    rows = np.ceil(along * math.sin(math.radians(angle)) - 0.5).astype(int)
    columns = np.ceil(along * math.cos(math.radians(angle)) - 0.5).astype(int)
    return moved_copies(picture, list(zip(rows.tolist(), columns.tolist(), strict=True)), weights / weights.sum())
