"""Init states are made of scenes that came to rest; what is not calm is refused, by name."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_vla.cli import main
from pytest_vla.commands.init_states import write_init_states
from pytest_vla.errors import SceneError, VlaError
from pytest_vla.plan.manifests import load_suite, suite_folder
from pytest_vla.scene.init_states import read_init_states
from pytest_vla.scene.panda import ARM_JOINTS
from pytest_vla.sim.arm import REST_JOINTS
from pytest_vla.sim.settle import Limits, generator_of, settled_states, unrest
from pytest_vla.sim.world import World
from tests.support.worlds import tabletop, world_of

TASK = "put_the_bowl_on_the_plate"


@pytest.fixture
def world() -> World:
    return tabletop(TASK)


@pytest.fixture
def state(world: World) -> NDArray[np.float64]:
    """A calm state."""
    return np.array(world.init_states[0])


def address(world: World, thing: str) -> int:
    """Where an object's position stands in a state."""
    return 1 + int(world.model.joint(f"{thing}_joint0").qposadr[0])


def test_states_are_at_rest_at_time_zero_and_differ(world: World) -> None:
    states = settled_states(world, 3, np.random.default_rng(1), hold_seconds=0.5)
    assert states.shape == (3, 1 + world.model.nq + world.model.nv)
    assert not states[:, 0].any()
    assert not states[:, 1 + world.model.nq :].any()
    assert (states[:, 1 : 1 + ARM_JOINTS] == REST_JOINTS).all()
    assert len(np.unique(states[:, address(world, "bowl_1")])) == 3
    assert [unrest(world, state, seconds=0.5) for state in states] == [None] * 3


def test_the_same_generator_makes_the_same_states(world: World) -> None:
    one, other = (settled_states(world, 2, np.random.default_rng(7), hold_seconds=0) for _ in range(2))
    assert (one == other).all()


def test_a_state_is_a_start_of_the_task(world: World, state: NDArray[np.float64]) -> None:
    world.reset(state, settle=False)
    assert (world.data.qpos == state[1 : 1 + world.model.nq]).all()


def test_liberos_scenes_can_be_settled_too() -> None:
    world = world_of("libero_goal", "turn_on_the_stove")
    (state,) = settled_states(world, 1, np.random.default_rng(0), hold_seconds=0.5)
    world.reset(state, settle=False)
    assert not world.success()
    shipped = world.init_states[:, address(world, "plate_1")]
    assert abs(state[address(world, "plate_1")] - shipped.mean()) < 0.03


def test_a_goal_that_holds_already_is_no_start(world: World, state: NDArray[np.float64]) -> None:
    bowl, plate = address(world, "bowl_1"), address(world, "plate_1")
    state[bowl : bowl + 3] = state[plate : plate + 3] + np.array([0, 0, 0.0074])
    assert unrest(world, state, seconds=1) == "the goal holds already"


def test_what_falls_drifts(world: World, state: NDArray[np.float64]) -> None:
    state[address(world, "bottle_1") + 2] += 0.05
    assert unrest(world, state, seconds=1) == "bottle_1_main drifts"


def test_what_spins_turns(world: World, state: NDArray[np.float64]) -> None:
    dof = 1 + world.model.nq + int(world.model.joint("plate_1_joint0").dofadr[0])
    state[dof + 5] = 2.0
    assert unrest(world, state, seconds=1) == "plate_1_main turns"


def test_what_still_moves_is_not_at_rest(world: World, state: NDArray[np.float64]) -> None:
    dof = 1 + world.model.nq + int(world.model.joint("cabinet_1_top_slide").dofadr[0])
    state[dof] = 0.2
    assert unrest(world, state, seconds=0) == "cabinet_1_top_drawer does not come to rest"


def test_things_in_each_other_are_named(world: World, state: NDArray[np.float64]) -> None:
    state[address(world, "box_1") + 2] -= 0.01
    reason = unrest(world, state, seconds=0)
    assert reason is not None
    assert {"table_collision", "box_1_carton"} == set(reason.removesuffix(" overlap").split(" and "))


def test_a_geom_without_a_name_is_told_by_its_body() -> None:
    name = "LIVING_ROOM_SCENE1_put_both_the_alphabet_soup_and_the_cream_cheese_box_in_the_basket"
    world = world_of("libero_10", name)
    world.reset(0)
    state = np.concatenate([[0.0], world.data.qpos, world.data.qvel])
    state[address(world, "alphabet_soup_1") + 2] -= 0.01
    reason = unrest(world, state, seconds=0)
    assert reason is not None
    one, other = sorted(reason.removesuffix(" overlap").split(" and "))
    assert (one, other[:15]) == ("a geom of living_room_table_col", "alphabet_soup_1")


def test_limits_decide(world: World, state: NDArray[np.float64]) -> None:
    state[address(world, "box_1") + 2] -= 0.01
    assert unrest(world, state, seconds=0, limits=Limits(depth=0.02)) is None


@pytest.mark.parametrize(
    ("limits", "complaint"),
    [
        (Limits(sink=0.001), "4x (bowl|plate|bottle|box)_1_main falls"),
        (Limits(tilt=-1), "4x bowl_1_main tilts"),
        (Limits(shift=-1), "4x bowl_1_main slides away"),
        (Limits(speed=-1), "4x bowl_1_main does not come to rest"),
        (Limits(outside=-0.5), "4x (bowl|plate|bottle|box)_1 is outside its region"),
        (Limits(drift=-1), "4x .*_1_(main|drawer|knob) drifts"),
    ],
)
def test_what_is_never_fit_is_given_up_with_the_reasons(world: World, limits: Limits, complaint: str) -> None:
    expected = rf"{TASK}.bddl: no calm init state 0 in 4 draws: {complaint}.*\. Move the regions apart"
    with pytest.raises(SceneError, match=expected):
        settled_states(world, 1, np.random.default_rng(0), tries=4, hold_seconds=0.1, limits=limits)


SHORT = ("--count=2", "--hold=0.1")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A user's folder with two tasks, one of which has init states."""
    tasks, states = (tmp_path / kind / "tabletop" for kind in ("bddl_files", "init_files"))
    for folder in (tasks, states):
        folder.mkdir(parents=True)
    for name in ("mine", "yours"):
        shutil.copy(suite_folder("tabletop") / "bddl_files" / "tabletop" / f"{TASK}.bddl", tasks / f"{name}.bddl")
    (states / "yours.pruned_init").write_bytes(b"made before")
    return tmp_path


def test_the_command_makes_what_is_lacking(data: Path, capfd: pytest.CaptureFixture[str], world: World) -> None:
    assert main(["init-states", f"--data={data}", *SHORT]) == 0
    made = data / "init_files" / "tabletop" / "mine.pruned_init"
    assert capfd.readouterr().out.split() == [str(made)]
    assert made.with_name("yours.pruned_init").read_bytes() == b"made before"
    expected = settled_states(world, 2, generator_of("mine"), hold_seconds=0.1)
    assert (read_init_states(made) == expected).all(), "the name decides, not the process"
    assert {path.name for path in made.parent.iterdir()} == {"mine.pruned_init", "yours.pruned_init"}
    assert main(["init-states", f"--data={data}", *SHORT]) == 1
    assert "all 2 tasks have init states. Name the tasks to make them anew" in capfd.readouterr().err
    assert main(["init-states", f"--data={data}", *SHORT, "yours"]) == 0
    assert read_init_states(made.with_name("yours.pruned_init")).shape == expected.shape


@pytest.mark.slow
def test_a_task_that_fails_leaves_what_was_there(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (data / "bddl_files" / "tabletop" / "yours.bddl").write_text("(define")
    assert main(["init-states", f"--data={data}", *SHORT, "yours", "mine"]) == 1
    told = capfd.readouterr()
    assert "mine.pruned_init" in told.out, "the other one is made"
    assert f"{data / 'bddl_files' / 'tabletop' / 'yours.bddl'}:" in told.err
    assert (data / "init_files" / "tabletop" / "yours.pruned_init").read_bytes() == b"made before"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["theirs"], "suite tabletop has no task 'theirs'"),
        (["--suite=libero_goal"], "suite libero_goal uses upstream's init states. Put your tasks into: tabletop"),
        (["--suite=tabeltop"], "there is no suite 'tabeltop'. Did you mean tabletop"),
    ],
)
def test_the_command_refuses_what_it_cannot_make(
    data: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    assert main(["init-states", f"--data={data}", *arguments]) == 1
    captured = capfd.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert re.search(complaint, captured.err)


@pytest.mark.parametrize(
    ("argument", "complaint"),
    [("--count=0", "'0' is not a number of init states, 1 to"), ("--hold=nan", "'nan' is not a time, 0 to 3600 sec")],
)
def test_slips_of_the_keyboard(argument: str, complaint: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["init-states", "--data=DIR", argument])
    assert left.value.code == 2
    assert complaint in capfd.readouterr().err


def test_the_command_needs_a_folder_with_task_files(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["init-states", f"--data={tmp_path}"]) == 1
    assert f"{tmp_path}: expected task files in bddl_files/tabletop" in capfd.readouterr().err


def test_init_states_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    task = load_suite("tabletop").task(TASK)
    with pytest.raises(VlaError, match=r"cannot write .*: "):
        write_init_states(task, tmp_path / "file", 1, hold_seconds=0)
