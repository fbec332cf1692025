"""Lint of task files: by their text and the data beside them, and by simulating how their scenes settle."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla.errors import SceneError, VlaError
from pytest_vla.language.prompts import check_prompt
from pytest_vla.plan.case import OURS
from pytest_vla.plan.choices import RELATIVE
from pytest_vla.plan.data_roots import DataRoot, data_roots
from pytest_vla.plan.manifests import load_suite, suite_manifest, suite_names
from pytest_vla.plan.premises import PremiseFinding as Measurement
from pytest_vla.plan.premises import measured
from pytest_vla.plan.task import Task, language_of
from pytest_vla.scene.catalog import Category, find_category
from pytest_vla.scene.init_states import read_init_states
from pytest_vla.scene.lint.checks import check_categories, check_models, check_text, read_model, state_length
from pytest_vla.scene.lint.conditions import ModelFacts, constants
from pytest_vla.scene.lint.reading import LintFinding, TaskText, catalogue_of, read_task_file
from pytest_vla.scene.literals import names_of
from pytest_vla.scene.problem import Literal, Problem
from pytest_vla.scene.sections import Declaration
from pytest_vla.util.text import counted

if TYPE_CHECKING:
    from pytest_vla.sim.meters import Meter
    from pytest_vla.sim.world import World

_BDDL, _INIT, _NPZ = "bddl_files", "init_files", "init_states.npz"
_DEFAULT_SUITE = "tabletop"
"""Whose protocol a task has that lies in no suite's folder."""

_IDLE_STEPS = 30
_THROWN = 0.03  # m, as `pytest-vla premises` has it


@dataclass(frozen=True)
class _Home:
    """The data folder that a task file lies in, and its place below ``bddl_files``, without its ending."""

    base: Path
    name: Path


def lint_file(path: str, data: Path | None = None, rules: str = OURS) -> tuple[LintFinding, ...]:
    """Return all findings on a task file, from its text and the categories, models and init states beside it.

    Args:
        path: of the file; if it cannot be read, that is a finding.
        data: the folder of ``--vla-data``, or None for the data folder that contains the file, if any, and the
            default roots.
        rules: the rules that the task runs by, as for ``--vla-protocol``.

    Raises:
        VlaError: `data` or another root cannot be used.
    """
    task = read_task_file(path, rules)
    found = list(check_text(task))
    if task.problem is not None:
        home = _home_of(path)
        roots = data_roots(home.base if data is None and home is not None else data)
        found += check_prompt(task, task.problem)
        found += _with_models(task, task.problem, home, roots)
        found += _measured(task, task.problem, home)
    return tuple(sorted(set(found)))


def _home_of(path: str) -> _Home | None:
    whole = Path(path).absolute()
    below = [parent for parent in whole.parents if parent.name == _BDDL]
    return _Home(below[0].parent, whole.relative_to(below[0]).with_suffix("")) if below else None


def _with_models(
    task: TaskText, problem: Problem, home: _Home | None, roots: tuple[DataRoot, ...]
) -> Iterator[LintFinding]:
    catalogue = catalogue_of(problem)

    def refusal(item: Declaration) -> str | None:
        try:
            find_category(item.category, "", roots, catalogue)
        except SceneError as error:
            return str(error).removeprefix(": ")
        return None

    def category_of(item: Declaration) -> Category | None:
        with suppress(SceneError):
            return find_category(item.category, "", roots, catalogue)[0]
        return None

    def facts_of(item: Declaration) -> ModelFacts | None:
        with suppress(SceneError):
            kind, _ = find_category(item.category, "", roots, catalogue)
            for root in roots:
                if root.assets is not None and (file := root.assets / kind.model).is_file():
                    return read_model(file)
        return None

    yield from check_categories(task, problem, refusal)
    yield from check_models(task, problem, facts_of, category_of)
    if home is None:
        return
    for file, member in ((home.base / _INIT / f"{home.name}.pruned_init", None), (home.base / _NPZ, str(home.name))):
        if file.is_file():
            yield from _init_states(task, file, member, state_length(problem, facts_of))
            break


def _init_states(task: TaskText, file: Path, member: str | None, length: int | None) -> Iterator[LintFinding]:
    try:
        states = read_init_states(file, member)
    except SceneError as error:
        yield task.found("I002", None, f"the init states cannot be used: {error}")
        return
    if length is not None and states.shape[1] != length:
        yield task.found(
            "I002",
            None,
            f"{file.name}: its init states have {states.shape[1]} numbers, and [time, qpos, qvel] of this task has "
            f"{length}: make them anew with pytest-vla init-states, or take both files from one place",
        )


def _measured(task: TaskText, problem: Problem, home: _Home | None) -> Iterator[LintFinding]:
    """Yield findings on this task from the suite's file of premises."""
    if home is None:
        return
    case = _suite_task(home)
    if case is None:
        return
    known = measured(case.files)
    places, things = _premises(problem), _resting(problem)
    for about, when in _by_version(known.false, case.key).items():
        if about in places:
            yield task.found("I001", places[about], _PREMISE.format(about=about, when=when))
    for about, when in _by_version(known.thrown, case.key).items():
        if about in things:
            yield task.found("I003", things[about], _THROWN_APART.format(about=about, when=when))


def _premises(problem: Problem) -> dict[str, Literal]:
    """Return the :init literals, by their text, that can be judged; one on water balls, for example, cannot."""
    never = {str(literal) for literal, _, _ in constants(problem, problem.init)}
    return {str(literal): literal for literal in problem.init if str(literal) not in never}


def _resting(problem: Problem) -> dict[str, Declaration]:
    """Return the objects that should stay where they begin: no movers, and nothing that is poured."""
    others = {mover.name for mover in problem.movers}
    others |= {str(literal.arguments[0]) for literal, _, _ in constants(problem, problem.init)}
    return {item.name: item for item in problem.objects if item.name not in others}


_PREMISE = (
    "{about} does not hold after settling {when}, so the task does not begin as described; move the regions, or make "
    "new init states"
)
_THROWN_APART = (
    "{about} moves more than 3 cm sideways as the scene settles {when}, because it overlaps something; move the "
    "regions apart, or make new init states"
)


def _by_version(findings: Iterable[Measurement], task: str) -> Mapping[str, str]:
    """Return texts such as ``in 50 init states under mujoco 3.3.7, in 2 under 3.8.1``, by their subject."""
    found: dict[str, dict[int, list[str]]] = {}
    for each in findings:
        if each.task == task:
            found.setdefault(each.about, {}).setdefault(len(each.init_states), []).append(each.mujoco)
    return {
        about: ", ".join(
            f"in {counted(count, 'init state')} under mujoco {'/'.join(versions)}" for count, versions in by.items()
        )
        for about, by in found.items()
    }


def simulate_file(path: str, data: Path | None = None, states: int = 5) -> tuple[LintFinding, ...]:
    """Return the findings on the scene of a task file, from settling it.

    Args:
        path: of the file, in ``DIR/bddl_files/SUITE``; a file that cannot be read has no findings here.
        data: the folder of ``--vla-data``, or None for DIR.
        states: how many of its init states to settle; without init states, how many scene seeds.
    """
    task = read_task_file(path)
    if task.problem is None:
        return ()
    home = _home_of(path)
    if home is None:
        return (task.found("I004", None, "only a file in DIR/bddl_files/SUITE can be simulated; put it there"),)
    from pytest_vla.sim.world import World

    case = replace(_case_of(home), data=data or home.base)
    try:
        with World(case) as world:
            return tuple(_settled(task, task.problem, world, states))
    except VlaError as error:
        message = str(error).removeprefix(f"{path}:")
        return (task.found("I004", None, f"the scene cannot be used: {message}"),)


def _suite_task(home: _Home) -> Task | None:
    """Return the suite task that a file belongs to, or None if no suite has the file."""
    return _tasks_by_path(suite_names()).get(home.name.as_posix())


@lru_cache(4)
def _tasks_by_path(names: tuple[str, ...]) -> Mapping[str, Task]:
    """Return the tasks of suites with manifests, by their files.

    If several suites have a file, the one with the file in its own folder wins, else the first.
    """
    found: dict[str, Task] = {}
    for name in names:
        for task in load_suite(name).tasks if suite_manifest(name) is not None else ():
            for path in task.paths:
                if path not in found or task.files == task.suite:
                    found[path] = task
    return found


def _case_of(home: _Home) -> Task:
    """Return the suite task of a file; if there is none, a task with the protocol of its folder's suite."""
    if (known := _suite_task(home)) is not None:
        return known
    suite = home.name.parts[0]
    owner = suite if suite in suite_names() else _DEFAULT_SUITE
    protocol = load_suite(owner).protocol
    name = home.name.name
    return Task(owner, name, 0, language_of(name), protocol, files=suite, file="/".join(home.name.parts[1:]))


def _idle_meters(world: "World") -> "Sequence[Meter]":
    """Return upstream's account, with the charges for a success made at each step."""
    from pytest_vla.sim.costs.setting import Setting
    from pytest_vla.sim.costs.upstream import UpstreamMeter

    setting = Setting(world.problem, world.scene, world.model, world.data, world.drawn_poses)
    return (UpstreamMeter(setting, freezes=True, goal=lambda: True),) if world.problem.cost else ()


def _charged(task: TaskText, problem: Problem, world: "World") -> Iterator[LintFinding]:
    """Yield findings on costs of an arm that does nothing, from the world's present state."""
    for _ in range(_IDLE_STEPS):
        world.step(np.array(world.task.protocol.settle_action), RELATIVE)
    places = {str(literal): literal for literal in problem.cost}
    always = {str(literal) for literal, _, _ in constants(problem, problem.cost)}
    movers = {mover.name for mover in problem.movers}
    steps: Counter[str] = Counter()
    kinds: dict[str, str] = {}
    for charge in world.charged():
        # A policy may have removed a thing before a mover runs into it.
        moving = movers.intersection(names_of(places[charge.name])) if charge.name in places else ()
        if charge.amount > 0 and charge.name not in always and (charge.step == 1 or not moving):
            steps[charge.name] += charge.steps
            kinds[charge.name] = charge.kind
    for name, number in steps.items():
        when = f"in {number} of the first {counted(_IDLE_STEPS, 'control step')} with an idle arm"
        told = "is charged" if kinds[name] == "instant" else "holds, and would be charged for any success,"
        # Seen from 3.3.7 to 3.8.1, and upstream believes it.
        wrong = " (MuJoCo returns 0 for some pairs of meshes that are apart)" if "distance" in name else ""
        yield task.found(
            "C004",
            places.get(name),
            f"{name} {told} {when}: it measures how things are placed and settle{wrong}, not the policy; "
            "move them, change the distance, or judge the excess over an idle arm",
        )


def _settled(task: TaskText, problem: Problem, world: "World", states: int) -> Iterator[LintFinding]:
    world.meter(_idle_meters)
    own: int | None = None
    with suppress(SceneError):
        own = world.init_state_count
    began = "init state" if own is not None else "scene seed"
    count = states if own is None else min(states, own)
    places, resting = _premises(problem), _resting(problem)
    things = [body for body in world.scene.bodies if body.name in resting]
    bodies = [world.model.body(body.root_body).id for body in things]
    false: dict[str, int] = {}
    thrown: dict[str, int] = {}
    held = 0
    for number in range(count):
        world.reset(init_state=None if own is None else number, scene_seed=number, settle=False)
        before = world.data.xpos[bodies]
        for _ in range(world.task.protocol.settle_steps):
            world.step(np.array(world.task.protocol.settle_action), RELATIVE)
        moved = np.linalg.norm((world.data.xpos[bodies] - before)[:, :2], axis=1)
        for premise, holds in world.premises().items():
            false[premise] = false.get(premise, 0) + (not holds)
        for body, distance in zip(things, moved, strict=True):
            thrown[body.name] = thrown.get(body.name, 0) + bool(distance > _THROWN)
        held += world.success()
    of_all = f"of {counted(count, began)} here"
    for premise, times in false.items():
        if times and premise in places:
            yield task.found("I001", places[premise], _PREMISE.format(about=premise, when=f"in {times} {of_all}"))
    for name, times in thrown.items():
        if times:
            yield task.found("I003", resting[name], _THROWN_APART.format(about=name, when=f"in {times} {of_all}"))
    if count:
        world.reset(init_state=None if own is None else 0, scene_seed=0)
        yield from _charged(task, problem, world)
    if held:
        yield task.found(
            "G003",
            problem.goal[0],
            f"the goal holds after settling in {held} {of_all}: there is nothing left to do; move the regions, or "
            "change the goal",
        )
