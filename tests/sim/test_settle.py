"""Init states are made of scenes that came to rest; what is not calm is refused, by name."""

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_vla.errors import SceneError
from pytest_vla.sim.arm import ARM_JOINTS, REST_JOINTS
from pytest_vla.sim.settle import Limits, settled_states, unrest
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
    assert {"table_collision", "box_1_carton"} == set(reason.removesuffix(" are in each other").split(" and "))


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
    expected = rf"{TASK}.bddl: no init state 0 that is calm in 4 draws: {complaint}.*\. Move the regions apart"
    with pytest.raises(SceneError, match=expected):
        settled_states(world, 1, np.random.default_rng(0), tries=4, hold_seconds=0.1, limits=limits)
