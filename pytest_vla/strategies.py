"""Scenes, tasks and instructions as Hypothesis strategies, for ``@given`` tests of your own with `vla_play`.

The simplest scene is the benign twin. Hypothesis shrinks a failing scene toward it: first fewer changes, then smaller
ones. The package is the extra ``fuzz``.
"""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla import hook_modules
from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.fuzz.amounts import components
from pytest_vla.fuzz.candidate import Scene, checked
from pytest_vla.fuzz.proposals import MOST_CHANGES, fuzzed_kinds
from pytest_vla.plan.case import dimension_of, levelled, parted
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.select import select_tasks
from pytest_vla.plan.task import Task, check_unvaried
from pytest_vla.scene.variation import INSTRUCTION, Params
from pytest_vla.util.extras import required
from pytest_vla.util.text import parse_seeds
from pytest_vla.vary.chosen import change_of
from pytest_vla.vary.kind import Draw, VariationKind
from pytest_vla.vary.registry import kind_named
from pytest_vla.vary.space import CHOICE, LISTED, SEED, TEXT, WHOLE, Parameter

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

__all__ = ["Scene", "instructions", "scenes", "tasks"]

INSTALL = "pip install 'pytest-vla[fuzz]'"

# So many steps from the benign value of a number to its bound: floats shrink to whole ones, and not to small ones.
_STEPS = 1000
_LAST_DRAW = 2**31 - 1
_WORDS, _PARAPHRASE = "language.words", "language.paraphrase"


def scenes(
    suite: str,
    tasks: str | Sequence[str] = (),
    dimensions: str | Sequence[str] = (),
    seeds: int | str | Sequence[int] = 0,
    *,
    min_changes: int = 0,
    max_changes: int = MOST_CHANGES,
    data: Path | None = None,
) -> "SearchStrategy[Scene]":
    """Return a strategy for scenes of a suite's tasks: up to `max_changes` changes of different dimensions.

    Args:
        suite: the suite's name.
        tasks: as for ``--vla-tasks``; empty for all tasks of the suite.
        dimensions: the dimensions that may change, such as ``camera``; empty for all that a task has.
        seeds: as for ``--vla-seeds``, or numbers.
        min_changes: the least number of changes; with 0 the benign twin is a scene too, and the simplest.
        max_changes: the largest number of changes in one scene.
        data: as for ``--vla-data``.

    Raises:
        VlaError: there is no such suite or task, or it is varied by itself. For an unknown dimension, or a task without
            any of the dimensions, it is raised when a scene is drawn.
    """
    if not 0 <= min_changes <= max_changes:
        raise VlaError(
            f"min_changes={min_changes}, max_changes={max_changes}: expected 0 <= min_changes <= max_changes"
        )
    st = _strategies()
    found = select_tasks([load_suite(suite, data=data)], _texts(tasks))
    for task in found:
        check_unvaried(task)
    wanted, of_seeds = _texts(dimensions), _numbers(seeds)
    # What a task can have is asked where it is drawn: whoever only collects tests does not wait for it.
    kinds = partial(_kinds, wanted)

    def scene(draw: "DrawFn") -> Scene:
        task, seed = draw(st.sampled_from(found)), draw(st.sampled_from(of_seeds))
        most = min(max_changes, len({kind.dimension for kind in kinds(task)}))
        change = st.sampled_from(kinds(task)).flatmap(partial(_change, task))
        sizes = {"min_size": min(min_changes, most), "max_size": most}
        drawn = draw(st.lists(change, unique_by=lambda each: dimension_of(each[0]), **sizes))
        # What changes nothing is left out: the simplest of each change is none.
        changes = {name: params for name, params in drawn if components(kind_named(name).space(task), params)}
        return _possible(Scene(task.suite, task.key, seed, changes), task, min_changes)

    composed: SearchStrategy[Scene] = st.composite(scene)()
    return composed


def tasks(suite: str, tasks: str | Sequence[str] = (), *, data: Path | None = None) -> "SearchStrategy[str]":
    """Return a strategy for the names of a suite's tasks, as `Scene` has them; the first is the simplest.

    Args:
        suite: the suite's name.
        tasks: as for ``--vla-tasks``; empty for all tasks of the suite.
        data: as for ``--vla-data``.

    Raises:
        VlaError: there is no such suite or task.
    """
    names = [task.key for task in select_tasks([load_suite(suite, data=data)], _texts(tasks))]
    found: SearchStrategy[str] = _strategies().sampled_from(names)
    return found


def instructions(task: str, *, data: Path | None = None) -> "SearchStrategy[str]":
    """Return a strategy for instructions of a task.

    They are its own words, which are the simplest, paraphrases by the grammar, and words replaced by their neighbours
    in WordNet.

    Args:
        task: ``SUITE/TASK``.
        data: as for ``--vla-data``.

    Raises:
        VlaError: there is no such suite or task.
    """
    st = _strategies()
    suite, separator, name = task.partition("/")
    if not separator:
        raise VlaError(f"instructions({task!r}): expected SUITE/TASK, such as 'tabletop/turn_on_the_stove'")
    found = load_suite(suite, data=data).task(name)

    def instruction(draw: "DrawFn") -> str:
        way = draw(st.sampled_from((None, *_ways(found))))
        if way is None:
            return found.language
        kind, label, level, part = way
        seed = draw(st.integers(0, _LAST_DRAW))
        return str(kind.sample(Draw(found, label, seed, level, part))[INSTRUCTION])

    composed: SearchStrategy[str] = st.composite(instruction)()
    return composed


@hook_modules.until_changed
def _ways(task: Task) -> tuple[tuple[VariationKind, str, int, str], ...]:
    """Return the kinds of rewording that a task has: kind, label, level, part."""
    words, paraphrase = kind_named(_WORDS), kind_named(_PARAPHRASE)
    ways = [(paraphrase, parted(_PARAPHRASE, part), 0, part) for part in paraphrase.parts()]
    ways += [(words, levelled(_WORDS, level), level, "") for level in words.levels]
    return tuple(way for way in ways if _can_be_said(task, *way))


def _can_be_said(task: Task, kind: VariationKind, label: str, level: int, part: str) -> bool:
    try:
        kind.sample(Draw(task, label, 0, level, part))
    except VlaError:
        return False
    return True


@hook_modules.until_changed
def _kinds(dimensions: tuple[str, ...], task: Task) -> tuple[VariationKind, ...]:
    return fuzzed_kinds(task, dimensions)


@hook_modules.until_changed
def _change(task: Task, kind: VariationKind) -> "SearchStrategy[tuple[str, Params]]":
    """Return a strategy for a kind's name with parameters that a task can have."""
    st, space = _strategies(), kind.space(task)
    drawn: SearchStrategy[Params]
    if any(each.parts or each.form == TEXT for each in space):
        # Of texts and things with places nearly none is one that a scene can have; the kind knows which.
        which = st.sampled_from(kind.levels or kind.parts())
        drawn = st.builds(partial(_sampled, task, kind), which, st.integers(0, _LAST_DRAW))
    else:
        needed = {each.name: _value(each) for each in space if not each.optional}
        drawn = st.fixed_dictionaries(needed, optional={each.name: _value(each) for each in space if each.optional})
    return drawn.map(lambda params: (kind.name, change_of(kind.name, params).params))


def _sampled(task: Task, kind: VariationKind, level: int | str, seed: int) -> Params:
    """Draw a kind's parameters at the highest level up to this one that the task has, or for a part."""
    from hypothesis import reject

    if isinstance(level, str):
        draws = [Draw(task, parted(kind.name, level), seed, 0, level)]
    else:
        levels = reversed(kind.levels[: kind.levels.index(level) + 1])
        draws = [Draw(task, levelled(kind.name, lower), seed, lower) for lower in levels]
    for draw in draws:
        try:
            return kind.sample(draw)
        except EpisodeError:
            raise
        except VlaError:
            continue
    reject()


def _value(parameter: Parameter) -> "SearchStrategy[Any]":
    """Return a strategy for a parameter that is no text and has no parts, with the benign value first."""
    st = _strategies()
    value: SearchStrategy[Any]
    if parameter.many:
        value = st.lists(st.sampled_from(parameter.choices), unique=True)
    else:
        value = _one(parameter)
        for size in reversed(parameter.shape):
            value = st.lists(value, min_size=size, max_size=size)
    return value


def _one(parameter: Parameter) -> "SearchStrategy[Any]":
    st, low, high = _strategies(), parameter.low, parameter.high
    value: SearchStrategy[Any]
    if parameter.form in (CHOICE, LISTED):
        value = st.sampled_from(parameter.choices)
        return value
    # Where nothing is benign, what is nearest to 0 is simplest.
    origin = parameter.benign if parameter.benign is not None else min(max(0, low), high)
    if parameter.form in (WHOLE, SEED):
        ends = [int(end - origin) if math.isfinite(end) else None for end in (low, high)]
        value = st.integers(*ends).map(lambda way: int(origin + way))
        return value
    down, up = ((end - origin) / _STEPS if math.isfinite(end) else math.copysign(1.0, end) for end in (low, high))
    value = st.integers(-_STEPS if down < 0 else 0, _STEPS if up > 0 else 0)
    return value.map(lambda way: float(origin + (way * up if way > 0 else -way * down)))


def _possible(scene: Scene, task: Task, min_changes: int) -> Scene:
    from hypothesis import reject

    try:
        checked(scene, task)
    except EpisodeError:
        raise
    except VlaError:
        # Such as an amount that rounds to nothing.
        reject()
    if len(scene.changes) < min_changes:
        reject()
    return scene


def _strategies() -> Any:
    return required("hypothesis.strategies", INSTALL)


def _texts(value: str | Sequence[str]) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(part.strip() for part in parts if part.strip())


def _numbers(value: int | str | Sequence[int]) -> tuple[int, ...]:
    found = (value,) if isinstance(value, int) else parse_seeds(value) if isinstance(value, str) else tuple(value)
    if not found:
        raise VlaError(f"seeds={value!r}: it has no seed")
    return found
