"""LIBERO-PRO's changes on any suite: object, position, instruction, task, environment; and displaced objects.

Where the user's LIBERO-PRO says something of a task's suite, its files are followed, else rules of ours are; the
parameter ``source`` says which.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.scene.task_files import problem_of
from pytest_vla.scene.variation import Variation
from pytest_vla.suites.libero_pro.tables import NewTask, Table, entries_of, table_of
from pytest_vla.vary.kind import Draw, Kind

if TYPE_CHECKING:
    from pytest_vla.scene.problem import Problem

DIMENSION = "pro"

ORDER = ("swap", "environment", "object", "semantic")
"""In which upstream makes changes that are made together. Another task goes with none of them."""

OURS = "ours"
"""The parameter ``source`` where LIBERO-PRO's files say nothing."""

UPSTREAMS_ENVIRONMENT = "libero_living_room_tabletop_manipulation"
"""What upstream's code replaces every environment by; its YAML names the present ones alone."""

_SWEEP = (0.1, 0.2, 0.3, 0.4, 0.5)
"""Displacements of the levels, m."""


def swap(draw: Draw) -> Variation:
    """Objects of interest and partners stand in each other's places.

    Raises:
        VlaError: nothing can be swapped, or the user's file is malformed here.
    """
    from pytest_vla.suites.libero_pro.choices import own_swaps, swaps
    from pytest_vla.suites.libero_pro.edits import swapped

    problem, table = problem_of(draw.task), table_of(draw.task, "swap")
    if table is None:
        pairs = own_swaps(draw.task, draw.generator())
    else:
        allowed = dict(entries_of(table, draw.task))
        pairs = swaps(problem, allowed, draw.generator())
        if not pairs:
            raise VlaError(f"{table.file} names no two things that stand in this scene")
    edit = partial(swapped, pairs=pairs)
    edit(problem)
    parameters = {**_source(table), "pairs": [list(pair) for pair in pairs]}
    return Variation(
        draw.label,
        DIMENSION,
        "swap",
        parameters=parameters,
        problem=(edit,),
        redraw=lambda time: swap(draw.again(time)),
    )


def environment(draw: Draw) -> Variation:
    """The scene stands on another table or floor, in another room, before another robot base.

    Raises:
        VlaError: it would be the same one, or no other fits.
    """
    from pytest_vla.scene.workspaces import workspace
    from pytest_vla.suites.libero_pro.choices import own_environments
    from pytest_vla.suites.libero_pro.edits import moved_to

    problem, table = problem_of(draw.task), table_of(draw.task, "environment")
    others = own_environments(draw.task) if table is None else ()
    if table is None:
        name = draw.generator().choice(others)
    else:
        here = workspace(problem.name, problem.source).name
        if here not in (named := entries_of(table, draw.task)):
            raise VlaError(f"{table.file} says that the environment is {', '.join(named)}, but it is {here}")
        name = UPSTREAMS_ENVIRONMENT
        if problem.name == name:
            raise VlaError(
                f"upstream's code puts {here} for every environment, and it is that already: nothing would change. "
                f"Without {table.file.name} a rule of ours draws others"
            )
    edit = partial(moved_to, name=name)
    edit(problem)
    parameters = {**_source(table), "environment": name}
    return Variation(
        draw.label,
        DIMENSION,
        "environment",
        parameters=parameters,
        problem=(edit,),
        redraw=(lambda time: environment(draw.again(time))) if len(others) > 1 else None,
    )


def replace_objects(draw: Draw) -> Variation:
    """Objects or fixtures of interest are of other categories; of the user's file one is drawn for each that it lists.

    What cannot be had, as its category is unknown or its files are missing, is not drawn, and said in ``unavailable``.

    Raises:
        VlaError: nothing can be had, or the scene has not what is to be replaced.
    """
    from pytest_vla.suites.libero_pro.choices import own_replacements, roots_of, unfit
    from pytest_vla.suites.libero_pro.edits import replaced

    problem, table, roots = problem_of(draw.task), table_of(draw.task, "object"), roots_of(draw.task)
    generator, instruction, why = draw.generator(), None, []
    categories: dict[str, str] = {}
    if table is None:
        old, new, told = generator.choice(own_replacements(draw.task))
        categories, instruction = {old: new}, (None if told == draw.task.language else told)
    else:
        listed = entries_of(table, draw.task)
        there = {item.category for item in (*problem.fixtures, *problem.objects)}
        if absent := [old for old, _ in listed if old not in there]:
            raise VlaError(f"{table.file} replaces {', '.join(absent)}, of which the scene has none")
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
    edit = partial(replaced, categories=categories)
    edit(problem)
    parameters = {**_source(table), "categories": dict(categories), **({"unavailable": why} if why else {})}
    return Variation(draw.label, DIMENSION, "object", None, parameters, instruction, problem=(edit,))


def semantic(draw: Draw) -> Variation:
    """One of the task's paraphrases in the user's file, as upstream's BDDL reader gives it; without it one of ours.

    Raises:
        VlaError: the file has no task of this name, one of the task's entries is malformed, the text is the task's own,
            or our grammar has none.
    """
    from pytest_vla.suites.libero_pro.choices import own_paraphrase

    table = table_of(draw.task, "semantic")
    if table is None:
        text, object_type, action_type = own_paraphrase(draw.task, draw.generator())
        about = {"object_type": object_type, "action_type": action_type, "original": draw.task.language}
        return Variation(draw.label, DIMENSION, "semantic", None, {**_source(table), **about}, text)
    texts = entries_of(table, draw.task)
    index = draw.generator().randrange(len(texts))
    if texts[index] == draw.task.language:
        raise VlaError(f"{texts[index]!r} is the task's own text: it changes nothing")
    parameters = {**_source(table), "index": index, "original": draw.task.language}
    return Variation(draw.label, DIMENSION, "semantic", None, parameters, texts[index])


def other_task(draw: Draw) -> Variation:
    """Another task in the same scene: another instruction, goal and objects of interest.

    Raises:
        VlaError: the scene has none, or none of those in the user's file can be read.
    """
    from pytest_vla.suites.libero_pro.choices import other_tasks
    from pytest_vla.suites.libero_pro.edits import tasked

    problem, table = problem_of(draw.task), table_of(draw.task, "task")
    left_out: list[str] = []
    if table is None:
        other, theirs = draw.generator().choice(other_tasks(draw.task))
        edit = partial(
            tasked,
            instruction=other.language,
            goal=theirs.goal,
            objects_of_interest=theirs.objects_of_interest,
        )
        edit(problem)
    else:
        found, left_out = _readable(table, draw, problem)
        edit = draw.generator().choice(found)
    told = str(edit.keywords["instruction"])
    goal = [str(literal) for literal in edit.keywords["goal"]]
    parameters = {**_source(table), "goal": goal, "original": draw.task.language}
    if left_out:
        parameters["left_out"] = left_out
    return Variation(draw.label, DIMENSION, "task", None, parameters, told, problem=(edit,))


def displace(draw: Draw, axis: str) -> Variation:
    """The region of the goal's first object, moved by so many tenths of a metre along x or y.

    The side is a task's and an axis's: it is the one on which most levels have room, or, where both have as many, one
    that is drawn. It is the same for all levels and seeds, so that they differ in how far only; also where a camera
    no longer sees the object.

    Raises:
        VlaError: there is no room so far on this side, or nothing of the goal stands on the workspace.
    """
    from pytest_vla.suites.libero_pro.choices import movable, side_of
    from pytest_vla.suites.libero_pro.edits import displaced

    problem = problem_of(draw.task)
    name = movable(problem)
    side, crowded_by = side_of(draw.task, axis, _SWEEP)
    metres = round(side * _SWEEP[draw.level - 1], 3)
    if why := crowded_by[draw.level - 1]:
        room = [level for level, reason in enumerate(crowded_by, 1) if not reason]
        left = f"levels {', '.join(map(str, room))} have room there" if room else "no level has room there"
        raise VlaError(f"{name} cannot be displaced along {axis} by {metres:+} m: {why}; {left}")
    shift = (metres, 0.0) if axis == "x" else (0.0, metres)
    edit = partial(displaced, name=name, x=shift[0], y=shift[1])
    parameters = {"source": OURS, "object": name, "displacement": list(shift)}
    return Variation(
        draw.label,
        DIMENSION,
        f"displace_{axis}",
        draw.level,
        parameters,
        problem=(edit,),
        redraw=lambda time: displace(draw.again(time), axis),
    )


def combined(draw: Draw) -> Variation:
    """Several of `ORDER` at once, each as it is drawn by itself with this seed.

    Raises:
        VlaError: one of them cannot be had, or not after the others.
    """
    makers: dict[str, Callable[[Draw], Variation]] = {
        "swap": swap,
        "environment": environment,
        "object": replace_objects,
        "semantic": semantic,
    }
    alone = replace(draw, part="", time=0)
    parts = [makers[name](replace(alone, label=f"{DIMENSION}.{name}")) for name in draw.part.split("-")]
    again = any(part.redraw for part in parts)
    if draw.time:
        # The others stay, as they do by themselves.
        parts = [part if part.redraw is None else part.redraw(draw.time) for part in parts]
    edits = tuple(edit for part in parts for edit in part.problem)
    problem = problem_of(draw.task)
    for edit in edits:
        problem = edit(problem)
    parameters = {f"{part.kind}.{name}": value for part in parts for name, value in part.parameters.items()}
    told = [part.instruction for part in parts if part.instruction is not None]
    return Variation(
        draw.label,
        DIMENSION,
        "combined",
        None,
        parameters,
        told[-1] if told else None,
        problem=edits,
        redraw=(lambda time: combined(draw.again(time))) if again else None,
    )


def combinations_of() -> tuple[str, ...]:
    """The parts of `combined`: every two, three and four of `ORDER`, such as ``swap-object``."""
    return tuple("-".join(names) for count in (2, 3, 4) for names in combinations(ORDER, count))


def _source(table: Table | None) -> dict[str, Any]:
    return {"source": OURS} if table is None else {"source": table.source, "digest": table.digest}


def _readable(table: Table, draw: Draw, problem: "Problem") -> tuple[list[Any], list[str]]:
    """The edits of a task's entries whose goals can be read, and what was left out, and why."""
    from pytest_vla.suites.libero_pro.edits import goal_of, tasked

    known = {item.name for item in (*problem.fixtures, *problem.objects)} | {region.key for region in problem.regions}
    entries: tuple[NewTask, ...] = entries_of(table, draw.task)
    found, wrong, left_out = [], [], []
    for entry in entries:
        where = f"{table.file}: {draw.task.files}/{draw.task.name}: {entry.instruction!r}: goal"
        interest = tuple(dict.fromkeys(name for name in entry.objects_of_interest if name in known))
        try:
            goal = goal_of(entry.goal, problem, where)
            edit = partial(tasked, instruction=entry.instruction, goal=goal, objects_of_interest=interest)
            edit(problem)
        except VlaError as error:
            wrong.append(str(error))
            continue
        found.append(edit)
        strangers = [name for name in entry.objects_of_interest if name not in known]
        left_out += [f"{name}, of interest to {entry.instruction!r}, is not in the scene" for name in strangers]
    if not found:
        raise VlaError(f"{'; '.join(wrong)}. Mend it in a copy of the file, or select other tasks by --vla-tasks")
    return found, [*left_out, *wrong]


def _kind(name: str, about: str, make: Callable[[Draw], Variation], **more: Any) -> Kind:
    return Kind(f"{DIMENSION}.{name}", about, "LIBERO-PRO", make, scene=True, published=True, **more)


KINDS = (
    _kind("object", "objects or fixtures of interest are of other categories", replace_objects),
    _kind("swap", "objects of interest and others stand in each other's places", swap),
    Kind(
        f"{DIMENSION}.semantic",
        "a paraphrase of your LIBERO-PRO's ood_language.yaml, or of our grammar",
        "LIBERO-PRO",
        semantic,
        published=True,
    ),
    _kind("task", "another goal in the same scene, with its instruction", other_task, alone=True),
    _kind("environment", "the same scene on another table or the floor", environment),
    _kind(
        "displace_x",
        "the goal's first object stands farther or nearer",
        partial(displace, axis="x"),
        levels=(1, 2, 3, 4, 5),
        grades="0.1 to 0.5 m",
    ),
    _kind(
        "displace_y",
        "the goal's first object stands farther to a side",
        partial(displace, axis="y"),
        levels=(1, 2, 3, 4, 5),
        grades="0.1 to 0.5 m",
    ),
    _kind("combined", "swap, environment, object and semantic, of them at once", combined, parts=combinations_of),
)
