"""Lint refuses what a run refuses, and says that upstream raises where upstream's account cannot judge."""

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_vla import World, load_suite
from pytest_vla.episode.lint import lint_file
from pytest_vla.errors import SceneError
from pytest_vla.plan.case import PROTOCOLS, UPSTREAM
from pytest_vla.plan.manifests import suite_names
from pytest_vla.plan.task import Task
from pytest_vla.scene.literals import GRIPPER, SIGNATURES, Literal
from pytest_vla.scene.problem import Problem, format_problem, parse_problem_text
from pytest_vla.sim.costs.paper import PaperMeter, leaves
from pytest_vla.sim.costs.setting import Setting
from pytest_vla.sim.costs.upstream import UpstreamMeter, judged_as_coded
from pytest_vla.sim.verdicts import compile_goal
from tests.support.costs import begun, problem_with
from tests.support.data import arena_data, data_root, libero_data
from tests.support.examples import scaled

REFUSED = {"S002", "S003", "S004", "R005", "C008", "C009"}
"""Codes of costs that no run judges."""

NAMES = (
    *("bottle_1", "box_1", "bowl_1", "cabinet_1", "stove_1", "rack_1", "main_table", GRIPPER),
    *("main_table_box_region", "rack_1_top_region", "cabinet_1_top_region", "cabinet_1_top_side"),
    "stove_1_cook_region",
)
PARTS = ("0", "1", "2", "5", "33", "77")


def refused(problem: Problem, setting: Setting) -> bool:
    """Whether a world with these costs cannot be made."""
    setting = Setting(problem, setting.scene, setting.model, setting.data, setting.drawn)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            UpstreamMeter(setting, freezes=False)
        PaperMeter(setting, freezes=False)
    except SceneError:
        return True
    return False


def raised(problem: Problem, setting: Setting) -> set[tuple[int, int]]:
    """Where the costs stand that upstream's code raises at, in all states or where things touch."""
    setting = Setting(problem, setting.scene, setting.model, setting.data, setting.drawn)
    kept = [literal for literal in problem.cost if literal.group == 0]
    return {
        (each.line, each.column) for each in kept if judged_as_coded(each, setting).crashes or in_a_body(each, setting)
    }


def in_a_body(literal: Literal, setting: Setting) -> bool:
    return literal.predicate in ("in", "notin") and setting.scene.body(str(literal.arguments[1])) is not None


@st.composite
def literals(draw: st.DrawFn, names: tuple[str, ...] = NAMES, parts: tuple[str, ...] = PARTS) -> str:
    predicate = draw(st.sampled_from(sorted(SIGNATURES)))
    words = []
    for kind in draw(st.sampled_from(SIGNATURES[predicate])):
        if kind == "name":
            words.append(draw(st.sampled_from(names)))
        elif kind == "number":
            words.append("0.05")
        else:
            words.append(f"({' '.join(draw(st.lists(st.sampled_from(parts), min_size=1, max_size=3)))})")
    return f"({predicate} {' '.join(words)})"


@st.composite
def costs(draw: st.DrawFn) -> str:
    one, other, third = draw(literals()), draw(literals()), draw(literals())
    return draw(
        st.sampled_from((one, f"(And {one} {other})", f"(Not {one})", f"(Or {one} (And {other} {third}))", one + other))
    )


def linted(problem: Problem, rules: str = UPSTREAM) -> tuple[Problem, set[str], set[tuple[int, int]]]:
    """The problem as a file has it, and what lint says: its codes, and where it says that upstream raises."""
    text = format_problem(problem)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "put_the_bottle_on_the_rack.bddl")
        file.write_text(text)
        found = lint_file(str(file), rules=rules)
    errors = {each.code for each in found if each.level == "error"}
    places = {(each.line, each.column) for each in found if each.code == "C002"}
    return parse_problem_text(text, source="costs.bddl"), errors, places


@given(costs())
@settings(max_examples=scaled(300))
@example("(CheckGripperContactPart bowl_1 (33))")
@example("(CheckGripperContactPart bowl_1 (0))")
@example("(InContactPart bowl_1 box_1 (0) (77))")
@example("(Fall main_table_box_region)")
@example("(Turnon stove_1_cook_region)")
@example("(Open cabinet_1_top_side)")
@example("(Collide main_table)")
@example("(NotIn box_1 rack_1_top_region)")
@example("(CheckForce gripper0 box_1 8)")
@example("(CheckGripperDist box_1 0.05)")
def test_constructed_costs_are_refused_by_both_or_by_none(cost: str) -> None:
    world = begun()
    setting = Setting(problem_with(""), world.scene, world.model, world.data, world.drawn_poses)
    problem, errors, places = linted(problem_with(cost))
    is_refused = refused(problem, setting)
    assert bool(errors & REFUSED) == is_refused, errors
    if not is_refused:
        assert places == raised(problem, setting)


def test_geoms_by_number_go_by_their_names() -> None:
    """A bowl whose walls have names: of 30 geoms none is called by its place in the file."""
    for number, sound in (("0", True), ("7", True), ("33", False)):
        _, errors, _ = linted(problem_with(f"(CheckGripperContactPart bowl_1 ({number}))"))
        assert ("C008" not in errors) == sound, number


@pytest.mark.parametrize("rules", PROTOCOLS)
def test_what_upstream_raises_at_is_an_error_by_its_rules_alone(rules: str) -> None:
    for cost in ("(Collide box_1)", "(Or (Fall box_1) (Fall bowl_1))", "(CheckForce box_1 8)", "(In box_1 bowl_1)"):
        _, errors, places = linted(problem_with(cost), rules)
        assert ("C002" in errors) == (rules == UPSTREAM), cost
        assert len(places) == 1
    _, errors, _ = linted(problem_with("(Open box_1)"), rules)
    assert "C009" in errors, "no rules judge it"


@pytest.mark.parametrize("rules", PROTOCOLS)
@pytest.mark.parametrize(
    ("mover", "raised"),
    [
        ("(:motion_type circular) (:motion_period 8) (:motion_center (0 0 0.9))", "'circle'"),
        ("(:motion_type projectile)", "'parabolic'"),
        ("(:motion_type waypoint) (:motion_waypoints ((0 0 1 0 1 0) (0.1 0 1 0 1 0)))", "((X Y Z) (DX DY DZ))"),
        ("(:motion_type waypoint) (:motion_waypoints (((0 0 1) (0 1 0)) ((0.1 0 1) (0 1 0))))", ""),
    ],
)
def test_motions_as_the_paper_prints_them(rules: str, mover: str, raised: str, tmp_path: Path) -> None:
    text = format_problem(problem_with("")).rstrip().removesuffix(")") + f"(:moving_objects (bowl_1 {mover})))"
    file = tmp_path / "put_the_bottle_on_the_rack.bddl"
    file.write_text(text)
    found = [each for each in lint_file(str(file), rules=rules) if each.code == "M008"]
    assert [raised in each.message for each in found] == [True] * bool(raised)
    assert all((each.level == "error") == (rules == UPSTREAM) for each in found)


def arena_tasks() -> list[object]:
    if data_root() is None or not (data_root() / "vla_arena").is_dir():  # type: ignore[operator]
        return [pytest.param(None, marks=pytest.mark.skip(reason="needs VLA-Arena's data"))]
    suites = [name for name in suite_names() if name.startswith("vla_arena_")]
    tasks = [task for name in suites for task in load_suite(name, data=data_root()).tasks]
    # A scene each: two suites' first levels often, some of each suite with make slow, all 170 with make studies.
    often = ("vla_arena_cautious_grasp", "vla_arena_static_obstacles")
    return [
        pytest.param(
            task,
            id=f"{task.suite}-{task.key}"[:90],
            marks=()
            if task.suite in often and task.key.startswith("L0")
            else (pytest.mark.slow, *[pytest.mark.study] * (number % 5 > 0)),
        )
        for number, task in enumerate(tasks)
    ]


@pytest.fixture(scope="module")
def arena() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_VLA_DATA", os.pathsep.join(map(str, (arena_data(), libero_data()))))
        yield


@pytest.fixture(scope="module")
def knife(arena: None) -> Iterator[World]:
    """A task whose geoms have no names, and a cabinet that is LIBERO's."""
    tasks = load_suite("vla_arena_cautious_grasp", data=data_root()).tasks
    with closing(World(next(task for task in tasks if "cabinet" in task.name))) as world:
        yield world


@given(st.data(), st.sampled_from(("cost", "goal")), st.sampled_from(PROTOCOLS))
@settings(max_examples=scaled(300))
def test_constructed_conditions_of_vla_arena_too(knife: World, data: st.DataObject, section: str, rules: str) -> None:
    own = replace(knife.problem, cost=())
    things = [item.name for item in (*own.objects, *own.fixtures)]
    names = (*things, *(region.key for region in own.regions), GRIPPER)
    drawn = data.draw(literals(names, tuple(map(str, range(0, 40, 3)))))
    read = parse_problem_text(f"{format_problem(own).rstrip().removesuffix(')')} (:cost {drawn}))").cost
    text = format_problem(replace(own, **{section: read}))
    problem = parse_problem_text(text, source="costs.bddl")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "put_the_knife_there.bddl")
        file.write_text(text)
        found = lint_file(str(file), rules=rules)
    setting = Setting(problem, knife.scene, knife.model, knife.data, knife.drawn_poses)
    if section == "cost":
        assert bool({each.code for each in found} & REFUSED) == refused(problem, setting), found
        return
    (goal,) = problem.goal
    told = {each.code for each in found if each.code != "G005" or "no joint with such a state" in each.message}
    try:
        ((_, verdict),) = compile_goal(problem, knife.scene, knife.model, knife.data, rules)
    except SceneError:
        assert told & {"G005", "G007", "C008", "R005"}, found
        return
    # As coded: what is judged as LIBERO's states, such as a thing in a region, is not.
    as_coded = rules == UPSTREAM and isinstance(verdict, partial)
    if as_coded and judged_as_coded(goal, setting).crashes:
        # An error in every episode, whatever it names.
        assert {each.code for each in found if each.level == "error"} & {"G002", "G007"}, found
        return
    assert not told & {"G005", "G007", "C008"}, found


@pytest.mark.parametrize("task", arena_tasks())
def test_shipped_tasks_are_judged_by_both(task: Task, arena: None) -> None:
    """All 170: none is refused, and lint's crashes are upstream's own."""
    with closing(World(task)) as world:
        setting = Setting(world.problem, world.scene, world.model, world.data, world.drawn_poses)
        assert not refused(world.problem, setting)
        for rules in PROTOCOLS:
            compile_goal(world.problem, world.scene, world.model, world.data, rules, setting.drawn)
        found = lint_file(world.problem.source, rules=UPSTREAM)
        assert not {each.code for each in found} & (REFUSED | {"G007"})
        assert {(each.line, each.column) for each in found if each.code == "C002"} == raised(world.problem, setting)
        numbered = [leaf for literal in world.problem.cost for leaf in leaves(literal) if "part" in leaf.predicate]
        for leaf in numbered:
            body = setting.body(leaf)
            assert len(setting.parts(leaf, body)) == len(leaf.arguments[1])  # type: ignore[arg-type]
