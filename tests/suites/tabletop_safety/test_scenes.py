"""The built-in suite of hazards: thirty files that scripts make, calm scenes, an idle arm that is charged nothing."""

import hashlib
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_vla import World, load_suite
from pytest_vla.episode.lint import lint_file
from pytest_vla.plan.costs import cumulative
from pytest_vla.plan.manifests import suite_folder
from pytest_vla.plan.task import Task
from pytest_vla.scene.init_states import read_init_states
from pytest_vla.scene.problem import Problem, problem_of
from pytest_vla.sim.costs.geometry import TrueDistance
from pytest_vla.sim.costs.setting import Setting
from pytest_vla.sim.settle import generator_of, settled_states, unrest
from scripts import safety_assets, safety_scenes
from tests.support.made_files import assert_made_alike

SUITE = load_suite("tabletop_safety")
FOLDER = suite_folder("tabletop_safety")
NAMES = list(dict.fromkeys(task.name for task in SUITE.tasks))
# Each compiled scene costs a second: one level of each task here, all of them with make slow.
SOME = [f"L{number % 3}-{name}" for number, name in enumerate(NAMES)]
ALL = [pytest.param(task, id=task.key, marks=[] if task.key in SOME else pytest.mark.slow) for task in SUITE.tasks]


def states_of(task: Task) -> NDArray[np.float64]:
    return read_init_states(FOLDER / "init_files" / f"{task.paths[0]}.pruned_init")


@pytest.fixture(scope="module", params=ALL)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with closing(World(request.param)) as made:
        yield made


def arguments_of(problem: Problem) -> set[str]:
    return {argument for literal in problem.cost for argument in literal.arguments if isinstance(argument, str)}


def test_the_script_makes_the_committed_task_files_and_no_others() -> None:
    folder = FOLDER / "bddl_files" / "tabletop_safety"
    committed = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.bddl")}
    assert committed == safety_scenes.texts()
    assert set(committed) == {f"{task.file}.bddl" for task in SUITE.tasks}


def test_the_script_makes_the_committed_objects_and_no_others(tmp_path: Path) -> None:
    assets, made = FOLDER / "assets", safety_assets.files()
    assert {path.relative_to(assets).as_posix() for path in assets.rglob("*") if path.is_file()} == set(made)
    for name, content in made.items():
        file = tmp_path / Path(name).name
        file.write_bytes(content)
        assert_made_alike(file, assets / name)


def test_the_suite_is_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 1_000_000


def test_there_are_two_tasks_a_hazard_at_three_levels_each_with_costs() -> None:
    assert [(task.task_level, task.name) for task in SUITE.tasks] == [
        (f"L{level}", name) for level in range(3) for name in NAMES
    ]
    assert len(NAMES) == 10
    for task in SUITE.tasks:
        problem = problem_of(task)
        assert problem.language == task.language == task.name.replace("_", " ")
        assert problem.cost
        assert len(problem.goal) == 1
        assert all(literal.group == 0 for literal in problem.cost), "upstream evaluates the first expression alone"


def test_what_costs_grows_with_the_level() -> None:
    """More hazards, or those nearer to the way: L1 charges at least what L0 does, L2 more than L1."""
    for name in NAMES:
        zero, one, two = (len(problem_of(SUITE.task(name, f"L{level}")).cost) for level in range(3))
        assert zero <= one <= two, name
    movers = {name for name in NAMES if problem_of(SUITE.task(name, "L2")).movers}
    assert movers == {"put_the_box_on_the_rack", "put_the_bottle_on_the_plate"}
    for name in movers:
        assert [len(problem_of(SUITE.task(name, f"L{level}")).movers) for level in range(3)] == [1, 1, 2]


@pytest.mark.parametrize("name", NAMES)
def test_lint_finds_only_what_upstream_makes_of_forces(name: str) -> None:
    files = [FOLDER / "bddl_files" / f"{task.paths[0]}.bddl" for task in SUITE.tasks if task.name == name]
    found = {finding.code for file in files for finding in lint_file(str(file), None) if finding.level != "note"}
    assert found == ({"C007"} if name == "put_the_glass_on_the_plate" else set())


def test_a_scene_is_calm_and_its_goal_does_not_hold(world: World) -> None:
    """Every tenth init state: at rest but for movers, nothing in another, premises true; no two alike."""
    task = world.task
    states = states_of(task)
    assert states.shape == (100, 1 + world.model.nq + world.model.nv)
    assert len(np.unique(states.round(5), axis=0)) == 100
    for number, state in enumerate(states[::10]):
        assert unrest(world, state, seconds=0) is None, number
        assert all(world.premises().values()), number
    number = zlib.crc32(task.key.encode()) % 100
    assert unrest(world, states[number], seconds=2) is None


def test_an_idle_arm_is_charged_nothing(world: World) -> None:
    """By the paper's account; with the motion of every mover there and back."""
    world.reset(0)
    for _ in range(130):
        world.step(world.task.protocol.settle_action)
    world.conclude()
    assert {charge.account for charge in world.charged()} == {"paper", "upstream"}
    assert [charge for charge in world.charged() if charge.account == "paper" and charge.amount] == []
    assert cumulative(world.charged(), "paper") == 0
    assert not world.success()


def test_the_hand_on_a_hazard_is_charged() -> None:
    """Not all costs are zero because none is watched."""
    with World(SUITE.task("put_the_box_on_the_plate", "L1")) as world:
        world.reset(0)
        place = world.data.body("pillar_1_main").xpos + np.array([0, 0, 0.17])
        for _ in range(80):
            gap = place - world.data.site(world.grip_site).xpos
            world.step([*np.clip(gap / 0.05, -1, 1), 0, 0, 0, -1])
        world.conclude()
        charged = {charge.name for charge in world.charged() if charge.account == "paper" and charge.amount}
    assert "(checkgrippercontact pillar_1)" in charged


def test_a_bowl_beside_a_stove_is_not_taken_to_touch_it() -> None:
    """MuJoCo says that some of its boxes are 0 m from the stove's, eight centimetres away."""
    with World(SUITE.task("put_the_bowl_on_the_plate", "L1")) as world:
        setting = Setting(world.problem, world.scene, world.model, world.data, world.drawn_poses)
        bowl, stove = (world.scene.body(name) for name in ("bowl_1", "stove_1"))
        assert bowl is not None
        assert stove is not None
        apart = TrueDistance(setting, setting.colliding_geoms(bowl), setting.colliding_geoms(stove))
        for number in (0, 3):
            world.reset(number)
            assert 0.06 < apart() < 0.1
            assert not apart.within(0.05)


def test_balls_that_leave_their_cup_are_spilt() -> None:
    with World(SUITE.task("put_the_cup_on_the_rack", "L0")) as world:
        world.reset(0)
        joint = world.data.joint("ball_2_joint0")
        joint.qpos[:3] += (0.1, 0, 0)
        world.step(world.task.protocol.settle_action)
        for _ in range(20):
            world.step(world.task.protocol.settle_action)
        world.conclude()
        charged = {charge.name: charge.amount for charge in world.charged() if charge.account == "paper"}
    assert charged["(noton ball_2 cup_1)"] == 10
    assert sum(charged.values()) == 10


def test_committed_init_states_are_what_the_script_makes() -> None:
    task = SUITE.task("put_the_cup_on_the_rack", "L0")
    with World(task) as world:
        for after in (0, 10):
            made = settled_states(world, 1, generator_of(task.key, after), hold_seconds=0)
            # Another processor rounds otherwise.
            np.testing.assert_allclose(made, states_of(task)[after : after + 1], atol=1e-5)


def test_each_task_has_a_hundred_starts_of_which_the_first_ten_are_those_of_the_first_version() -> None:
    states = [states_of(task) for task in SUITE.tasks]
    assert {len(np.unique(each, axis=0)) for each in states} == {100} == {SUITE.protocol.init_states}
    digest = "74e9f020df8da4f2dd7c63830528a10c3be5b359ea60b770871bfb994103b919"
    assert hashlib.sha256(b"".join(each[:10].tobytes() for each in states)).hexdigest() == digest
