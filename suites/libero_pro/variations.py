"""LIBERO-PRO's changes on any suite: object, position, instruction, task, environment; and displaced objects.

Where the user's LIBERO-PRO says something of a task's suite, its files are followed, else rules of ours are; the
parameter ``source`` says which.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.task import Task
from pytest_vla.scene.problem import problem_of
from pytest_vla.scene.variation import INSTRUCTION, Edits, Params
from pytest_vla.suites.libero_pro.choices import (
    BOTH,
    SECOND,
    composed,
    draw_composed,
    draw_task,
    edited,
    other_task,
    space_of_composed,
    space_of_tasks,
)
from pytest_vla.suites.libero_pro.tables import OURS, OodTable, entries_of, source_of, table_of
from pytest_vla.vary.axes.language import space_of_text, told
from pytest_vla.vary.kind import Draw, VariationKind, always
from pytest_vla.vary.space import CHOICE, LISTED, NUMBER, TEXT, Parameter, Space

DIMENSION = "pro"

ORDER = ("swap", "environment", "object", "semantic")
"""In which upstream makes changes that are made together. Another task goes with none of them."""

UPSTREAMS_ENVIRONMENT = "libero_living_room_tabletop_manipulation"
"""What upstream's code replaces every environment by; its YAML names the present ones alone. The paper draws
one of LIBERO's five."""

UPSTREAMS = "environment_upstream"
"""The kind of it."""

_SWEEP = (0.1, 0.2, 0.3, 0.4, 0.5)
"""Displacements of the levels, m."""


def draw_swap(draw: Draw) -> Params:
    """Draw objects of interest and partners.

    Raises:
        VlaError: nothing can be swapped, or the user's file is malformed here.
    """
    from pytest_vla.suites.libero_pro.choices import own_swaps, swaps

    table = table_of(draw.task, "swap")
    if table is None:
        pairs = own_swaps(draw.task, draw.generator())
    else:
        allowed = dict(entries_of(table, draw.task))
        pairs = swaps(problem_of(draw.task), allowed, draw.generator())
        if not pairs:
            raise VlaError(f"{table.file} names no two things in this scene")
    return {**source_of(table), "pairs": [list(pair) for pair in pairs]}


def swap(task: Task, params: Params) -> Edits:
    """Return edits that swap the places of objects and fixtures. Raises VlaError if they cannot be swapped."""
    from pytest_vla.suites.libero_pro.edits import swapped

    pairs = tuple((one, other) for one, other in params["pairs"])
    return edited(task, partial(swapped, pairs=pairs)) if pairs else Edits()


def space_of_swaps(task: Task) -> tuple[Parameter, ...]:
    """Return the parameter space: each object of interest with its possible partners. Raises VlaError."""
    from pytest_vla.suites.libero_pro.choices import partners_of

    table = table_of(task, "swap")
    allowed = partners_of(task) if table is None else dict(entries_of(table, task))
    pairs = tuple([one, other] for one, others in allowed.items() for other in others)
    return (Parameter("pairs", CHOICE, choices=pairs, many=True, benign=()),)


def draw_environment(draw: Draw) -> Params:
    """Draw one of LIBERO's five tables and floors, other than the task's own, on which the scene fits.

    Raises:
        VlaError: none fits, or the user's file names another environment than the task's.
    """
    from pytest_vla.suites.libero_pro.choices import own_environments

    table = _environment_table(draw.task)
    return {**source_of(table), "environment": draw.generator().choice(own_environments(draw.task))}


def _environment_table(task: Task) -> OodTable | None:
    """Return the user's file of environments. Raises VlaError if it names an environment other than the task's."""
    from pytest_vla.scene.workspaces import workspace

    problem, table = problem_of(task), table_of(task, "environment")
    here = workspace(problem.name, problem.source).name
    if table is not None and here not in (named := entries_of(table, task)):
        raise VlaError(f"{table.file} gives the environment {', '.join(named)}, but it is {here}")
    return table


def draw_upstreams_environment(draw: Draw) -> Params:
    """Return the living room's table, which upstream's code uses for every task.

    Raises:
        VlaError: it is the task's own, or the user's file names another environment than the task's.
    """
    table = _environment_table(draw.task)
    if problem_of(draw.task).name == UPSTREAMS_ENVIRONMENT:
        raise VlaError(
            "upstream's code puts living_room_table for every environment, and it is that already: nothing would "
            "change. pro.environment draws others"
        )
    return {**source_of(table), "environment": UPSTREAMS_ENVIRONMENT}


def environment(task: Task, params: Params) -> Edits:
    """Return edits that move the scene to another table or floor, in its room, with its robot base. Raises VlaError."""
    from pytest_vla.suites.libero_pro.edits import moved_to

    return edited(task, partial(moved_to, name=params["environment"]))


def space_of_environments(task: Task) -> tuple[Parameter, ...]:
    """Return the parameter space: the other environments that fit the scene. Raises VlaError."""
    from pytest_vla.suites.libero_pro.choices import own_environments

    return (Parameter("environment", LISTED, choices=tuple(own_environments(task))),)


def _has_other_environments(task: Task, params: Params) -> bool:
    from pytest_vla.suites.libero_pro.choices import own_environments

    return len(own_environments(task)) > 1


def draw_objects(draw: Draw) -> Params:
    """Other categories; of the user's file one is drawn for each that it lists.

    What cannot be had, as its category is unknown or its files are missing, is not drawn, and said in ``unavailable``.

    Raises:
        VlaError: nothing can be had, or the scene has not what is to be replaced.
    """
    from pytest_vla.suites.libero_pro.bodies import roots_of
    from pytest_vla.suites.libero_pro.choices import own_replacements, unfit

    problem, table, roots = problem_of(draw.task), table_of(draw.task, "object"), roots_of(draw.task)
    generator, why = draw.generator(), []
    categories: dict[str, str] = {}
    if table is None:
        old, new, told = generator.choice(own_replacements(draw.task))
        instruction = {} if told == draw.task.language else {INSTRUCTION: told}
        return {**source_of(table), "categories": {old: new}, **instruction}
    listed = entries_of(table, draw.task)
    there = {item.category for item in (*problem.fixtures, *problem.objects)}
    if absent := [old for old, _ in listed if old not in there]:
        raise VlaError(f"{table.file} replaces {', '.join(absent)}, which the scene does not have")
    none_of = []
    for old, news in listed:
        reasons = {new: unfit(problem, old, new, roots) for new in news}
        why += [reason for reason in reasons.values() if reason]
        if usable := [new for new, reason in reasons.items() if not reason]:
            categories[old] = generator.choice(usable)
        else:
            none_of.append(f"{old} cannot be replaced: {'; '.join(reasons.values())}")
    if none_of:
        raise VlaError(
            f"{'. '.join(none_of)}. Put its asset files into assets/objects, with a category.toml. Without "
            f"{table.file.name} a rule of ours draws others"
        )
    return {**source_of(table), "categories": categories, **({"unavailable": why} if why else {})}


def replace_objects(task: Task, params: Params) -> Edits:
    """Return edits that change categories of objects or fixtures of interest. Raises VlaError if they are missing."""
    from pytest_vla.suites.libero_pro.edits import replaced

    edits = edited(task, partial(replaced, categories=dict(params["categories"])))
    return replace(edits, instruction=params.get(INSTRUCTION))


def space_of_objects(task: Task) -> tuple[Parameter, ...]:
    """Return the parameter space: one replacement by our rule, or any that the user's file lists. Raises VlaError."""
    from pytest_vla.suites.libero_pro.choices import own_replacements

    table = table_of(task, "object")
    if table is None:
        found = tuple({old: new} for old, new, _ in own_replacements(task))
    else:
        listed = entries_of(table, task)
        names = [old for old, _ in listed]
        found = tuple(dict(zip(names, news, strict=True)) for news in product(*(news for _, news in listed)))
    return Parameter("categories", LISTED, choices=found), Parameter(INSTRUCTION, TEXT, optional=True)


def draw_semantic(draw: Draw) -> Params:
    """Draw a paraphrase from the user's file, normalised as upstream's BDDL reader does, or without a file one of ours.

    Raises:
        VlaError: the file has no task of this name, an entry of the task is malformed, the text is the task's own, or
            our grammar has none.
    """
    from pytest_vla.suites.libero_pro.choices import own_paraphrase

    table = table_of(draw.task, "semantic")
    if table is None:
        text, object_type, action_type = own_paraphrase(draw.task, draw.generator())
        about = {"object_type": object_type, "action_type": action_type, "original": draw.task.language}
        return {**source_of(table), **about, INSTRUCTION: text}
    texts = entries_of(table, draw.task)
    index = draw.generator().randrange(len(texts))
    if texts[index] == draw.task.language:
        raise VlaError(f"{texts[index]!r} is the task's own text: it changes nothing")
    return {**source_of(table), "index": index, "original": draw.task.language, INSTRUCTION: texts[index]}


def draw_displacement(axis: str, draw: Draw) -> Params:
    """Return a displacement along x or y by a tenth of a metre per level.

    The side belongs to the task and the axis: the one with room for most levels or, if both have as many, a drawn one.
    It is the same for all levels and seeds, so that they differ in distance only; this holds even if a camera no longer
    sees the object.

    Raises:
        VlaError: there is no room at this distance on this side, or nothing in the goal stands on the workspace.
    """
    from pytest_vla.suites.libero_pro.choices import movable, side_of

    name = movable(problem_of(draw.task))
    side, crowded_by = side_of(draw.task, axis, _SWEEP)
    metres = round(side * _SWEEP[draw.level - 1], 3)
    if why := crowded_by[draw.level - 1]:
        room = [level for level, reason in enumerate(crowded_by, 1) if not reason]
        left = f"levels {', '.join(map(str, room))} have room there" if room else "no level has room there"
        raise VlaError(f"{name} cannot be displaced along {axis} by {metres:+} m: {why}; {left}")
    shift = [metres, 0.0] if axis == "x" else [0.0, metres]
    return {"source": OURS, "object": name, "displacement": shift}


MAP = tuple(f"{x}_{y}".replace("-", "m") for x, y in product(range(-5, 6), repeat=2) if x or y)
"""Parts of `displace_map`: x and y in tenths of a metre, ``m`` for minus, such as ``2_m3``."""


def draw_place(draw: Draw) -> Params:
    """Return a displacement by the label's part: both signs along both axes, the same for all seeds.

    Raises:
        VlaError: there is no room at that place, or nothing in the goal stands on the workspace.
    """
    from pytest_vla.suites.libero_pro.bodies import crowded, roots_of
    from pytest_vla.suites.libero_pro.choices import movable
    from pytest_vla.suites.libero_pro.edits import displaced

    problem = problem_of(draw.task)
    name, (x, y) = movable(problem), (int(each.replace("m", "-")) / 10 for each in draw.part.split("_"))
    if why := crowded(displaced(problem, name, x, y), name, roots_of(draw.task)):
        # The label names the place: one reason for all places of a task is told once.
        raise VlaError(f"{name} cannot be moved there: {why}")
    return {"source": OURS, "object": name, "displacement": [x, y]}


def draw_unrelated(draw: Draw) -> Params:
    """Draw a thing of another name for what the goal moves; the instruction stays. Raises VlaError if there is none."""
    from pytest_vla.suites.libero_pro.choices import unrelated_replacements

    old, new = draw.generator().choice(unrelated_replacements(draw.task))
    return {**source_of(None), "categories": {old: new}}


def space_of_unrelated(task: Task) -> tuple[Parameter, ...]:
    """Return the parameter space: one replacement. Raises VlaError as `draw_unrelated`."""
    from pytest_vla.suites.libero_pro.choices import unrelated_replacements

    return (Parameter("categories", LISTED, choices=tuple({old: new} for old, new in unrelated_replacements(task))),)


def displace(task: Task, params: Params) -> Edits:
    """Return edits that move an object's region along x and y (m)."""
    from pytest_vla.suites.libero_pro.edits import displaced

    x, y = params["displacement"]
    return Edits(problem=(partial(displaced, name=params["object"], x=x, y=y),) if x or y else ())


def space_of_displacement(axis: str, task: Task) -> tuple[Parameter, ...]:
    """Return the parameter space: the goal's first object, and its displacement. Raises VlaError."""
    from pytest_vla.suites.libero_pro.choices import movable

    return (
        Parameter("object", CHOICE, choices=(movable(problem_of(task)),)),
        Parameter("displacement", NUMBER, -_SWEEP[-1], _SWEEP[-1], 0.0, (2,), unit="m"),
    )


def draw_combined(draw: Draw) -> Params:
    """Draw several of `ORDER` at once, each as drawn alone with this seed; the instruction is the last one's text.

    Raises:
        VlaError: one of them cannot be had.
    """
    alone = replace(draw, part="", time=0)
    found: dict[str, Any] = {}
    text: dict[str, Any] = {}
    for name in draw.part.split("-"):
        part = replace(alone, label=f"{DIMENSION}.{name}")
        params = _SINGLE[name].sample(part)
        if draw.time and _SINGLE[name].again(draw.task, params):
            # The others stay, as they do by themselves.
            params = _SINGLE[name].sample(part.again(draw.time))
        found |= {f"{name}.{each}": value for each, value in params.items() if each != INSTRUCTION}
        text |= {each: value for each, value in params.items() if each == INSTRUCTION}
    return {**found, **text}


def combined(task: Task, params: Params) -> Edits:
    """Several changes, one after the other. Raises VlaError where one of them cannot be made after the others."""
    problem, edits = problem_of(task), []
    for name in ORDER:
        own = _own(name, params)
        for edit in _SINGLE[name].apply(task, own).problem if own and _SINGLE[name].scene else ():
            problem = edit(problem)
            edits.append(edit)
    return Edits(params.get(INSTRUCTION), problem=tuple(edits))


def space_of_combined(task: Task) -> tuple[Parameter, ...]:
    """Return the parameter space: the parameters of all parts that the task can have, each optional."""
    found = []
    for name in ORDER:
        with suppress(VlaError):
            own = (each for each in _SINGLE[name].space(task) if each.name != INSTRUCTION)
            found += [replace(each, name=f"{name}.{each.name}", optional=True) for each in own]
    return *found, Parameter(INSTRUCTION, TEXT, optional=True)


def _again_combined(task: Task, params: Params) -> bool:
    return any(_SINGLE[name].again(task, own) for name in ORDER if (own := _own(name, params)))


def _own(name: str, params: Params) -> dict[str, Any]:
    """Return a part's own parameters among those of several."""
    return {each.removeprefix(f"{name}."): value for each, value in params.items() if each.startswith(f"{name}.")}


def combinations_of() -> tuple[str, ...]:
    """Return the parts of `combined`: every two, three and four of `ORDER`, such as ``swap-object``."""
    return tuple("-".join(names) for count in (2, 3, 4) for names in combinations(ORDER, count))


def _kind(
    name: str,
    about: str,
    sample: Callable[[Draw], Params],
    apply: Callable[[Task, Params], Edits],
    space: Space,
    scene: bool = True,
    **more: Any,
) -> VariationKind:
    source = "LIBERO-PRO"
    return VariationKind(
        f"{DIMENSION}.{name}", about, source, sample, apply, space, scene=scene, published=True, **more
    )


def _displacing(axis: str, about: str) -> VariationKind:
    return _kind(
        f"displace_{axis}",
        about,
        partial(draw_displacement, axis),
        displace,
        partial(space_of_displacement, axis),
        levels=(1, 2, 3, 4, 5),
        grades="0.1 to 0.5 m",
        again=always,
    )


_OBJECT = _kind(
    "object",
    "objects or fixtures of interest replaced by other categories",
    draw_objects,
    replace_objects,
    space_of_objects,
)
_SWAP = _kind(
    "swap",
    "objects of interest exchange places with others",
    draw_swap,
    swap,
    space_of_swaps,
    again=always,
)
_SEMANTIC = _kind(
    "semantic",
    "a paraphrase from LIBERO-PRO's ood_language.yaml (path from --vla-data), or from our grammar",
    draw_semantic,
    told,
    space_of_text,
    scene=False,
)
_ENVIRONMENT = _kind(
    "environment",
    "the same scene on another of LIBERO's tables or on the floor",
    draw_environment,
    environment,
    space_of_environments,
    again=_has_other_environments,
    as_upstream=f"{DIMENSION}.{UPSTREAMS}",
)
_UPSTREAMS_ENVIRONMENT = _kind(
    UPSTREAMS,
    "the same scene on the living room's table, as in upstream's code",
    draw_upstreams_environment,
    environment,
    lambda task: (Parameter("environment", LISTED, choices=(UPSTREAMS_ENVIRONMENT,)),),
)
_SINGLE = {"swap": _SWAP, "environment": _ENVIRONMENT, "object": _OBJECT, "semantic": _SEMANTIC}

KINDS = (
    _OBJECT,
    _SWAP,
    _SEMANTIC,
    _kind(
        "task",
        "another goal in the same scene, with its instruction",
        draw_task,
        other_task,
        space_of_tasks,
        alone=True,
    ),
    _ENVIRONMENT,
    _UPSTREAMS_ENVIRONMENT,
    _displacing("x", "the goal's first object moved farther or nearer"),
    _displacing("y", "the goal's first object moved to a side"),
    _kind(
        "displace_map",
        "the goal's first object moved to a place of a grid, in tenths of a metre along x and y: 2_m3",
        draw_place,
        displace,
        partial(space_of_displacement, "xy"),
        parts=lambda: MAP,
        again=always,
        by_name=True,
    ),
    _kind(
        "unrelated",
        "an unrelated thing in place of what the goal moves, under the old instruction: does the policy look?",
        draw_unrelated,
        replace_objects,
        space_of_unrelated,
        probe=True,
        by_name=True,
    ),
    _kind(
        "composed",
        "another task's goal in the same scene (second), or both goals, with both instructions (both)",
        draw_composed,
        composed,
        space_of_composed,
        parts=lambda: (SECOND, BOTH),
        recorded="composed_{part}",
        alone=True,
        by_name=True,
    ),
    _kind(
        "combined",
        "two or more of swap, environment, object and semantic at once",
        draw_combined,
        combined,
        space_of_combined,
        parts=combinations_of,
        again=_again_combined,
    ),
)
