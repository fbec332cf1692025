"""Variations of an instruction, on any suite: probes of whether the policy uses it, word replacement, paraphrases."""

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import OURS, PAPER
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.scene.problem import problem_of
from pytest_vla.scene.variation import INSTRUCTION, Edits, Params
from pytest_vla.vary.kind import LEVELS, Draw, VariationKind
from pytest_vla.vary.space import LISTED, TEXT, Parameter

if TYPE_CHECKING:
    from pytest_vla.language.scene_names import SceneNames
    from pytest_vla.language.substitution import Substituted
    from pytest_vla.scene.problem import Problem
    from pytest_vla.scene.variation import ProblemEdit

DIMENSION = "language"

WORD_LEVELS = (1, 2, 3, 4)
"""VLA-Arena's W1 to W4."""

# No English word begins so.
_BEGINNINGS = ("zv", "vl", "zl", "kv", "tl", "dv", "zm", "vr")
_ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "br", "dr", "gl", "kr", "pl", "tr")
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ou")
_ENDS = ("", "", "l", "m", "n", "p", "rk", "s", "t", "x")


def told(task: Task, params: Params) -> Edits:
    """Return edits that replace the instruction by the drawn text; the other parameters are only recorded."""
    return Edits(instruction=params[INSTRUCTION])


def space_of_text(task: Task) -> tuple[Parameter, ...]:
    """Return the parameter space: any text; the task's own instruction changes nothing."""
    return (Parameter(INSTRUCTION, TEXT, benign=task.language),)


def draw_nonsense(draw: Draw) -> Params:
    """Draw as many words as the instruction has, none of them English."""
    drawn = draw.generator()
    return {INSTRUCTION: " ".join(_nonword(drawn) for _ in draw.task.language.split())}


def draw_mate(draw: Draw) -> Params:
    """Draw another task of the same scene. Raises VlaError if the suite has none."""
    return {"other": draw.generator().choice(_mates(draw.task)).key}


def told_of_another(task: Task, params: Params) -> Edits:
    """Return edits that give the instruction of another task of the scene, while the goal stays this task's.

    Raises:
        VlaError: the scene has no such task in this suite.
    """
    other = _mate(task, params["other"])
    return Edits(instruction=other.language, asked=_goal_of(other))


def another_goal(task: Task, params: Params) -> Edits:
    """Return edits that give the instruction and the goal of another task of the scene, from this task's init states.

    Raises:
        VlaError: the scene has no such task in this suite.
    """
    other = _mate(task, params["other"])
    return Edits(instruction=other.language, problem=(_goal_of(other),))


def space_of_mates(task: Task) -> tuple[Parameter, ...]:
    """Return the parameter space: the scene's other tasks. Raises VlaError if there is none."""
    return (Parameter("other", LISTED, choices=tuple(mate.name for mate in _mates(task))),)


def draw_words(protocol: str, draw: Draw) -> Params:
    """Replace as many of the instruction's words by WordNet neighbours as the level says (VLA-Arena's W1 to W4).

    Each replacement is recorded with its position in the task's own instruction, in characters from 0, because a word
    may occur twice.

    Args:
        protocol: `OURS` allows words that name the same thing and no other in the scene; `PAPER` allows all that
            VLA-Arena's rule and its published examples allow, such as a fishbowl for a bowl.
        draw: its level is the number of words.

    Raises:
        VlaError: the instruction has fewer words that can be replaced.
    """
    from pytest_vla.language.substitution import Screened, substitute
    from pytest_vla.language.wordnet import best_wordnet

    task = draw.task
    screen = None if protocol == PAPER else Screened(names_in(task))
    return params_of_words(
        substitute(task.language, draw.level, draw.numbers(), best_wordnet(), screen=screen), protocol
    )


def params_of_words(result: "Substituted", protocol: str) -> dict[str, Any]:
    """Return the recorded parameters of an instruction with replaced words."""
    replaced = [
        f"{each.original} at {each.start}: {each.substitute} ({each.relation})" for each in result.substitutions
    ]
    return {
        "replaced": "; ".join(replaced),
        "source": f"WordNet, {result.source}",
        "protocol": protocol,
        INSTRUCTION: result.text,
    }


def names_in(task: Task) -> "SceneNames":
    """Return the names of the things in a task's scene, including those that `layout.distractors` may add.

    The distractors are included so that the drawn text is the same if both are varied at once. If the task's file is
    not here (the task can be collected but not run), there are no names.
    """
    from pytest_vla.language.scene_names import SceneNames, scene_names
    from pytest_vla.vary.axes.layout_room import added_categories

    try:
        problem = problem_of(task)
    except VlaError:
        return SceneNames(())
    added: tuple[str, ...] = ()
    with suppress(VlaError):
        added = added_categories(problem, task.language, LEVELS[-1])
    return scene_names(problem, added)


def draw_paraphrase(draw: Draw) -> Params:
    """Draw a paraphrase from our grammar, with the same meaning, in one of LIBERO-Para's 43 cells.

    Raises:
        VlaError: the grammar cannot read the instruction, or every such paraphrase also names another thing in the
            scene.
    """
    from pytest_vla.language.generator import paraphrases

    task, (object_type, action_type) = draw.task, draw.part.split(".")
    found = paraphrases(
        task.language, other_instructions(task), draw.generator(), 1, object_type, action_type, names_in(task)
    )
    if not found:
        raise VlaError(f"our grammar has no such paraphrase of {task.language!r}")
    return params_of_paraphrase(task, object_type, action_type, found[0]) | {"index": draw.seed}


def params_of_paraphrase(task: Task, object_type: str, action_type: str, text: str) -> dict[str, Any]:
    """Return the recorded parameters of a paraphrase."""
    types = {"object_type": object_type, "action_type": action_type}
    return {**types, "original": task.language, INSTRUCTION: text}


def other_instructions(task: Task) -> list[str]:
    """Return the instructions of the suite's other tasks; a paraphrase must not equal one of them."""
    return [other.language for other in _tasks(task) if not other.is_asked_as(task)]


def paraphrase_cells() -> tuple[tuple[str, str], ...]:
    """Return LIBERO-Para's 43 cells: pairs of object type and action type, except (none, none)."""
    from pytest_vla.metrics.pride import ACTION_TYPES, NONE, OBJECT_TYPES

    return tuple((one, other) for one in OBJECT_TYPES for other in ACTION_TYPES if (one, other) != (NONE, NONE))


def _nonword(drawn: random.Random) -> str:
    syllables = (_BEGINNINGS, _VOWELS, _ENDS, _ONSETS, _VOWELS, _ENDS)[: drawn.choice((3, 6, 6))]
    return "".join(drawn.choice(part) for part in syllables)


def _tasks(task: Task) -> Sequence[Task]:
    return load_suite(task.suite, data=task.data).tasks


def _mates(task: Task) -> tuple[Task, ...]:
    mates = _scene_mates(task)
    if not mates:
        raise VlaError(f"{task.suite} has no other task for this scene whose goal leaves this task's goal unreached")
    return mates


def _mate(task: Task, name: str) -> Task:
    found = next((mate for mate in _mates(task) if mate.key == name), None)
    if found is None:
        raise VlaError(f"{task.suite}: {name!r} cannot be asked for in this task's scene")
    return found


def _goal_of(other: Task) -> "ProblemEdit":
    def changed(problem: "Problem") -> "Problem":
        wanted = problem_of(other)
        return replace(problem, goal=wanted.goal, objects_of_interest=wanted.objects_of_interest)

    return changed


@cache
def _scene_mates(task: Task) -> tuple[Task, ...]:
    """Return the tasks that can be asked for in a task's scene.

    The scene has all they need, and reaching their goal does not reach this task's goal.
    """
    own = problem_of(task)

    def can_be_asked(other: Task) -> bool:
        if other.language == task.language:
            return False
        try:
            problem = problem_of(other)
        except VlaError:
            return False
        needed = _needed(problem)
        there = problem.name == own.name and _facts(problem, needed) == _facts(own, needed)
        return there and _zones(problem) <= _zones(own, everywhere=True) and not set(own.goal) <= set(problem.goal)

    return tuple(other for other in _tasks(task) if can_be_asked(other))


def _zones(problem: "Problem", everywhere: bool = False) -> "set[tuple[str, Any]]":
    """Return the regions that the goal names, or all regions."""
    named = {str(argument) for literal in problem.goal for argument in literal.arguments}
    return {(each.key, each.ranges[:1]) for each in problem.regions if everywhere or each.key in named}


def _needed(problem: "Problem") -> set[str]:
    """Return the objects and fixtures that the goal is about."""
    targets = {region.key: region.target for region in problem.regions}
    names = {str(argument) for literal in problem.goal for argument in literal.arguments}
    return {targets.get(name, name) for name in names}


def _facts(problem: "Problem", names: set[str]) -> "dict[str, object]":
    """Return a problem's facts about things: category, states (open, on), and the places of things that look alike.

    Places count for alike things only, because an instruction distinguishes them by place.
    """
    declared = {item.name: item.category for item in (*problem.fixtures, *problem.objects)}
    regions = {region.key: region for region in problem.regions}
    alike = Counter(declared.values())
    facts: dict[str, object] = {}
    for name in names:
        category = declared.get(name)
        states, places = set(), set()
        for literal in problem.init:
            subject, *rest = (str(argument) for argument in literal.arguments)
            region = regions.get(subject)
            if not rest and (region.target if region is not None else subject) == name:
                states.add(str(literal))
            elif rest and subject == name and category is not None and alike[category] > 1:
                places.add((str(literal), tuple(regions[place].ranges for place in rest if place in regions)))
        facts[name] = (category, frozenset(states), frozenset(places))
    return facts


_ANYWHERE = partial(VariationKind, needs=())

KINDS = (
    _ANYWHERE(
        "language.blank",
        "no instruction",
        "ours (probe)",
        lambda draw: {},
        lambda task, params: Edits(instruction=""),
        probe=True,
    ),
    _ANYWHERE(
        "language.nonsense",
        "nonsense words, as many as the instruction has",
        "ours (probe)",
        draw_nonsense,
        told,
        space_of_text,
        probe=True,
    ),
    _ANYWHERE(
        "language.other_task",
        "the instruction of another task in the scene, with this task's goal",
        "ours (probe)",
        draw_mate,
        told_of_another,
        space_of_mates,
        probe=True,
    ),
    _ANYWHERE(
        "language.other_goal",
        "the instruction and the goal of another task in the scene",
        "ours",
        draw_mate,
        another_goal,
        space_of_mates,
        alone=True,
    ),
    _ANYWHERE(
        "language.words",
        "words (1 per level) replaced by WordNet neighbours that name the same thing and no other in the scene",
        "after VLA-Arena's W1-W4",
        partial(draw_words, OURS),
        told,
        space_of_text,
        levels=WORD_LEVELS,
        as_published="language.words_paper",
    ),
    _ANYWHERE(
        "language.words_paper",
        "as language.words, with any neighbour of a noun in its sense (fishbowl for bowl)",
        "VLA-Arena, W1-W4",
        partial(draw_words, PAPER),
        told,
        space_of_text,
        levels=WORD_LEVELS,
        published=True,
    ),
    _ANYWHERE(
        "language.paraphrase",
        "a paraphrase with the same meaning, in each of LIBERO-Para's 43 cells",
        "our grammar",
        draw_paraphrase,
        told,
        space_of_text,
        parts=lambda: tuple(".".join(cell) for cell in paraphrase_cells()),
    ),
)
