"""The world on LIBERO's real scenes: resets without memory, exact save and restore, lazy pictures, clear errors."""

import gc
import os
import weakref
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from pytest_vla import EpisodeError, VlaError, World, load_suite
from pytest_vla.plan.task import with_protocol
from pytest_vla.sim import world as world_module
from pytest_vla.sim.cameras import Cameras
from tests.support.data import arena_data, data_root
from tests.support.worlds import libero_task, world_of

GOAL = ("libero_goal", "turn_on_the_stove")


@pytest.fixture
def world() -> World:
    return world_of(*GOAL)


def _actions(steps: int, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.clip(generator.normal([0, 0, -0.4, 0, 0, 0, 0], 0.4, (steps, 7)), -1, 1)


def _run(world: World, actions: np.ndarray) -> np.ndarray:
    rows = []
    for action in actions:
        world.step(action)
        rows.append(np.concatenate([world.data.qpos, world.data.qvel]))
    return np.array(rows)


def test_an_episode_does_not_depend_on_the_ones_before(world: World) -> None:
    actions = _actions(25)
    world.reset(init_state=3, scene_seed=7)
    first = _run(world, actions)
    world.reset(init_state=9, scene_seed=1)
    _run(world, _actions(40, seed=5))
    world.reset(init_state=3, scene_seed=7)
    assert np.array_equal(_run(world, actions), first)
    with World(world.task) as fresh:
        fresh.reset(init_state=3, scene_seed=7)
        assert np.array_equal(_run(fresh, actions), first)


def test_index_and_vector_name_the_same_init_state(world: World) -> None:
    world.reset(init_state=4, scene_seed=2, settle=False)
    by_index = world.data.qpos.copy()
    assert np.array_equal(by_index, world.init_states[4][1 : 1 + world.model.nq])
    world.reset(init_state=world.init_states[4].tolist(), scene_seed=2, settle=False)
    assert np.array_equal(world.data.qpos, by_index)


def test_scene_seed_moves_fixtures_only(world: World) -> None:
    world.reset(init_state=0, scene_seed=1, settle=False)
    qpos, poses, placed = world.data.qpos.copy(), world.model.body_pos.copy(), world.placed
    world.reset(init_state=0, scene_seed=2, settle=False)
    assert world.placed != placed
    assert np.array_equal(world.data.qpos, qpos)
    moved = np.flatnonzero((world.model.body_pos != poses).any(axis=1))
    assert {world.model.body(index).name for index in moved} == {
        "wooden_cabinet_1_main",
        "flat_stove_1_main",
        "wine_rack_1_main",
    }
    assert np.abs(world.model.body_pos - poses).max() < 0.03


def test_settling_is_the_suites_and_is_not_counted(world: World) -> None:
    protocol = world.task.protocol
    world.reset(init_state=0, scene_seed=0)
    assert world.steps == 0
    assert world.data.time == pytest.approx(protocol.settle_steps / protocol.control_freq)
    settled = world.data.qpos.copy()
    world.reset(init_state=0, scene_seed=0, settle=False)
    _run(world, np.tile(protocol.settle_action, (protocol.settle_steps, 1)))
    assert np.array_equal(world.data.qpos, settled)
    assert world.steps == protocol.settle_steps


def test_restore_continues_exactly(world: World) -> None:
    actions = _actions(30, seed=3)
    world.reset(init_state=1, scene_seed=1)
    _run(world, actions[:10])
    state = world.save()
    expected_view = world.restore(state)
    readings = {key: expected_view[key] for key in ("state", "robot0_eef_quat", "agentview_image")}
    verdicts = world.predicates()
    first = _run(world, actions[10:])
    world.reset(init_state=6, scene_seed=9)
    _run(world, actions[:4])
    for _ in range(2):
        observation = world.restore(state)
        assert world.steps == 10
        assert world.predicates() == verdicts
        for key, value in readings.items():
            assert np.array_equal(observation[key], value), key
        assert np.array_equal(_run(world, actions[10:]), first)


def test_a_state_of_another_world_is_refused(world: World) -> None:
    world.reset(init_state=0)
    state = world.save()
    with World(world.task) as other, pytest.raises(VlaError, match="another world"):
        other.restore(state)


def test_pictures_are_drawn_when_read_and_only_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    original = Cameras.picture

    def counted(self: Cameras, data: Any, camera: str) -> Any:
        drawn.append(camera)
        return original(self, data, camera)

    monkeypatch.setattr(Cameras, "picture", counted)
    observation = world.reset(init_state=0, scene_seed=0)
    _run(world, _actions(3))
    observation = world.step(np.zeros(7))
    assert "agentview_image" in observation
    assert len(observation) == 9
    assert drawn == []
    picture = observation["agentview_image"]
    assert observation["agentview_image"] is picture
    assert drawn == ["agentview"]
    assert picture.shape == (256, 256, 3)
    assert picture.dtype == np.uint8


def test_reading_late_is_an_error_and_what_was_read_stays(world: World) -> None:
    before = world.reset(init_state=0)
    state = before["state"]
    world.step(np.zeros(7))
    assert before["state"] is state
    with pytest.raises(VlaError, match="'agentview_image' of step 0 was not read before the world moved on"):
        before["agentview_image"]
    with pytest.raises(KeyError):
        before["nonsense"]


def test_pictures_stand_upright(world: World) -> None:
    """A box that is taken away changes the picture where the camera's geometry says that it was."""
    with_box = world.reset(init_state=0, settle=False)["agentview_image"].astype(int)
    box, camera = world.data.body("cream_cheese_1_main").xpos.copy(), world.data.camera("agentview")
    # Camera frame: x right, y up, looking along -z.
    x, y, z = camera.xmat.reshape(3, 3).T @ (box - camera.xpos)
    scale = 128 / np.tan(np.deg2rad(world.model.cam_fovy[world.model.camera("agentview").id]) / 2)
    column, row = 128 + scale * x / -z, 128 - scale * y / -z
    state = world.init_states[0].copy()
    state[1 + world.model.joint("cream_cheese_1_joint0").qposadr[0] + 2] = -5.0
    without = world.reset(init_state=state, settle=False)["agentview_image"].astype(int)
    rows, columns = np.nonzero(np.abs(with_box - without).max(axis=2) > 20)
    assert len(rows) > 50
    assert np.median(rows) == pytest.approx(row, abs=6)
    assert np.median(columns) == pytest.approx(column, abs=6)
    assert abs(row - 128) > 20
    assert abs(column - 128) > 20, "a box on the picture's axes would not tell a flip"


def test_state_is_position_axis_angle_and_fingers(world: World) -> None:
    observation = world.reset(init_state=0)
    for action in _actions(5):
        observation = world.step(action)
    state = observation["state"]
    assert state.shape == (8,)
    assert np.array_equal(state[:3], observation["robot0_eef_pos"])
    rotation = Rotation.from_quat(observation["robot0_eef_quat"])
    assert Rotation.from_rotvec(state[3:6]).approx_equal(rotation, atol=1e-6)
    assert np.array_equal(state[6:], observation["robot0_gripper_qpos"])


def test_reading_changes_nothing_of_physics(world: World) -> None:
    actions = _actions(10, seed=8)
    world.reset(init_state=2, scene_seed=2)
    unread = _run(world, actions)
    observation = world.reset(init_state=2, scene_seed=2)
    for number, action in enumerate(actions):
        dict(observation)
        world.success()
        observation = world.step(action)
        assert np.array_equal(np.concatenate([world.data.qpos, world.data.qvel]), unread[number])


def test_a_turned_on_stove_glows(world: World) -> None:
    burner = world.model.site("flat_stove_1_burner").id
    world.reset(init_state=0)
    assert world.model.site_rgba[burner][3] <= 0
    assert not world.success()
    state = world.init_states[0].copy()
    state[1 + world.model.joint("flat_stove_1_button").qposadr[0]] = 1.0
    observation = world.reset(init_state=state, settle=False)
    assert world.success()
    assert world.predicates() == {"(turnon flat_stove_1)": True}
    assert world.model.site_rgba[burner][3] > 0
    lit = observation["agentview_image"].astype(int)
    unlit = world.reset(init_state=0, settle=False)["agentview_image"].astype(int)
    assert np.abs(lit - unlit).max() > 50
    assert world.model.site_rgba[burner][3] <= 0


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (np.zeros(6), "action-shape"),
        (np.zeros((1, 7)), "action-shape"),
        (0.0, "action-shape"),
        (np.array([0, 0, 0, 0, np.nan, 0, 0]), "action-nan"),
        (np.array([np.inf, 0, 0, 0, 0, 0, 0]), "action-nan"),
        ("abc", "action-dtype"),
        (None, "action-dtype"),
        (np.zeros(7, dtype=complex), "action-dtype"),
        ([[0], [0, 0]], "action-dtype"),
    ],
)
def test_a_bad_action_is_named_and_leaves_the_world_usable(world: World, action: Any, reason: str) -> None:
    world.reset(init_state=0)
    with pytest.raises(EpisodeError) as caught:
        world.step(action)
    assert caught.value.reason == reason
    world.step(np.zeros(7))


def test_actions_are_clipped(world: World) -> None:
    world.reset(init_state=0)
    world.step([5, -5, 0.5, 9, 0, 0, 3])
    clipped = world.data.qpos.copy()
    world.reset(init_state=0)
    world.step([1, -1, 0.5, 1, 0, 0, 1])
    assert np.array_equal(world.data.qpos, clipped)


def test_an_init_state_must_exist_and_fit(world: World) -> None:
    with pytest.raises(VlaError, match="init state 50: task turn_on_the_stove has 0 to 49"):
        world.reset(init_state=50)
    with pytest.raises(VlaError, match="79 finite numbers, got shape"):
        world.reset(init_state=np.zeros(5))
    for wrong in (True, "x", None.__class__, np.array(3), 3.5):
        with pytest.raises(VlaError, match="an init state is an index or"):
            world.reset(init_state=wrong)
    broken = world.init_states[0].copy()
    broken[3] = np.nan
    with pytest.raises(VlaError, match="79 finite numbers"):
        world.reset(init_state=broken)


@pytest.mark.parametrize(
    ("field", "index", "value", "reason"),
    [
        ("qpos", 20, np.nan, "physics-nan"),
        ("qvel", 3, np.nan, "physics-nan"),
        ("qvel", 12, 1e12, "physics-nan"),
        ("qfrc_applied", 15, 1e30, "physics-bad-acceleration"),
    ],
)
def test_broken_physics_ends_the_episode_by_name(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str, index: int, value: float, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    world.reset(init_state=0, scene_seed=0)
    observation = world.step(np.zeros(7))
    getattr(world.data, field)[index] = value
    with pytest.raises(EpisodeError) as caught:
        world.step(np.zeros(7))
    assert caught.value.reason == reason
    assert os.listdir(tmp_path) == [], "MuJoCo wrote its log into the working directory"
    for use in (lambda: world.step(np.zeros(7)), world.save):
        with pytest.raises(VlaError, match="reset the world"):
            use()
    # What was not read before it broke cannot be read from what it left.
    with pytest.raises(VlaError, match="before the world moved on"):
        observation["robot0_eef_pos"]
    # The next episode is none the worse for it.
    world.reset(init_state=3, scene_seed=7)
    after = _run(world, _actions(5))
    world.reset(init_state=3, scene_seed=7)
    assert np.array_equal(_run(world, _actions(5)), after)


def test_stepping_before_a_reset_is_refused() -> None:
    with World(libero_task(*GOAL)) as fresh, pytest.raises(VlaError, match="reset the world first"):
        fresh.step(np.zeros(7))


def test_a_world_that_was_never_reset_has_no_state_to_save() -> None:
    with World(libero_task(*GOAL)) as fresh, pytest.raises(VlaError, match="reset the world"):
        fresh.save()


def test_a_reset_that_fails_half_way_leaves_nothing_to_step(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.reset(init_state=0)

    def fail(*_: Any) -> None:
        raise VlaError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(world_module, "draw_placement", fail)
        with pytest.raises(VlaError, match="no room"):
            world.reset(init_state=1)
    with pytest.raises(VlaError, match="reset the world"):
        world.step(np.zeros(7))


@pytest.mark.parametrize("size", [(0, 0), (100_000, 10), 256, (256,), ("a", "b"), (25.5, 10)])
def test_a_picture_size_that_cannot_be_is_refused_at_once(size: Any) -> None:
    with pytest.raises(VlaError, match="expected height and width in pixels, 1 to 4096"):
        World(libero_task(*GOAL), image_size=size)


def test_unsupported_versions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(allow: bool = False) -> dict[str, str]:
        if not allow:
            raise VlaError("found mujoco 9; supported is 3.8.1")
        return {"mujoco": "9"}

    monkeypatch.setattr(world_module, "check_versions", refuse)
    with pytest.raises(VlaError, match="found mujoco 9"):
        World(libero_task(*GOAL))
    with World(libero_task(*GOAL), allow_versions=True) as world:
        assert world.provenance()["mujoco"] == "9"


def test_switching_to_a_task_of_the_same_scene_is_a_new_world_of_it() -> None:
    actions = _actions(10, seed=4)
    bowl = libero_task("libero_goal", "put_the_bowl_on_the_plate")
    with World(bowl) as fresh, World(libero_task(*GOAL)) as world:
        world.reset(init_state=5, scene_seed=5)
        _run(world, actions)
        model = world.model
        observation = world.reset(init_state=0)
        assert world.switch(bowl)
        with pytest.raises(VlaError, match="before the world moved on"):
            observation["state"]
        assert world.model is model
        with pytest.raises(VlaError, match="reset the world"):
            world.step(actions[0])
        for each in (fresh, world):
            each.reset(init_state=1, scene_seed=1)
        assert world.task == bowl
        assert world.predicates().keys() == {"(on akita_black_bowl_1 plate_1)"}
        assert np.array_equal(_run(world, actions), _run(fresh, actions))
        other = libero_task("libero_object", "pick_up_the_milk_and_place_it_in_the_basket")
        assert not world.switch(other)
        assert world.task == bowl


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, "x", None])
def test_a_scene_seed_has_32_bits(world: World, seed: Any) -> None:
    with pytest.raises(VlaError, match=f"scene seed {seed!r}: expected an integer from 0 to 4294967295"):
        world.reset(init_state=0, scene_seed=seed)


def test_provenance_names_scene_and_versions(world: World) -> None:
    provenance = world.provenance()
    assert provenance["mujoco"] == mujoco.__version__
    assert provenance["robosuite"] == "1.4.0"
    assert len(provenance["scene"]) == len(provenance["compiled"]) == 32


def test_a_world_goes_as_soon_as_nobody_has_it() -> None:
    task = load_suite("tabletop").task("turn_on_the_stove")
    gc.disable()
    try:
        world = World(task)
        observation = world.reset(init_state=0)
        observation["agentview_image"]
        world.step(np.zeros(7))
        gone = weakref.ref(world)
        world.close()
        del world, observation
        assert gone() is None
    finally:
        gc.enable()


def _poses(world: World, seed: int = 0) -> np.ndarray:
    """Poses (20, 7) about that of the arm, which the actions of a task without absolute control cannot be."""
    observation = world.reset(init_state=1, scene_seed=1)
    generator = np.random.default_rng(seed)
    turn = Rotation.from_matrix(observation["controller_mat"])
    rows = []
    for step in range(20):
        moved = observation["controller_pos"] + [0.005 * step, -0.004 * step, -0.01 * step]
        turned = Rotation.from_rotvec(generator.normal(0, 0.05, 3)) * turn
        rows.append([*moved, *turned.as_rotvec(), 1.0 if step > 10 else -1.0])
    return np.array(rows)


def test_absolute_control_is_the_protocols_and_settling_stays_relative(world: World) -> None:
    poses = _poses(world)
    world.reset(init_state=1, scene_seed=1)
    settled = world.data.qpos.copy()
    for pose in poses:
        world.step(pose, "absolute")
    expected = world.data.qpos.copy()
    with World(with_protocol(world.task, control="absolute")) as other:
        other.reset(init_state=1, scene_seed=1)
        assert np.array_equal(other.data.qpos, settled)
        _run(other, poses)
        assert np.array_equal(other.data.qpos, expected)
        # Each is on its way to the pose before.
        assert np.abs(other.data.site_xpos[other.grip_site] - poses[-2, :3]).max() < 0.03
        other.reset(init_state=1, scene_seed=1)
        assert other.switch(world.task)
        other.reset(init_state=1, scene_seed=1)
        assert np.array_equal(other.data.qpos, settled)
        _run(other, _actions(5))
        relative = other.data.qpos.copy()
    world.reset(init_state=1, scene_seed=1)
    _run(world, _actions(5))
    assert np.array_equal(world.data.qpos, relative)


def test_restore_continues_exactly_under_absolute_control(world: World) -> None:
    poses = _poses(world)
    assert world.switch(with_protocol(world.task, control="absolute"))
    try:
        world.reset(init_state=1, scene_seed=1)
        _run(world, poses[:8])
        state = world.save()
        names = ("controller_pos", "controller_mat")
        seen = [np.array(world.restore(state)[name]) for name in names]
        first = _run(world, poses[8:])
        world.reset(init_state=6, scene_seed=9)
        observation = world.restore(state)
        assert all(np.array_equal(observation[name], value) for name, value in zip(names, seen, strict=True))
        assert np.array_equal(_run(world, poses[8:]), first)
    finally:
        assert world.switch(with_protocol(world.task, control="relative"))


def test_the_controllers_pose_is_of_the_last_substep_and_after_a_reset_of_the_rest_pose(world: World) -> None:
    observation = world.reset(init_state=3, scene_seed=0, settle=False)
    rest = observation["controller_pos"]
    assert not np.array_equal(rest, observation["robot0_eef_pos"]), "the init state has the arm elsewhere"
    assert np.allclose(np.linalg.det(observation["controller_mat"]), 1.0)
    for action in _actions(3):
        observation = world.step(action)
    # A substep later than the rest of the observation.
    apart = np.abs(observation["controller_pos"] - observation["robot0_eef_pos"]).max()
    assert 0 < apart < 0.002
    shown = world.show(world.data.qpos)
    assert shown["controller_mat"].shape == (3, 3)
    assert np.array_equal(shown["controller_pos"], shown["robot0_eef_pos"])


def test_absolute_control_needs_robosuite_1_4(world: World) -> None:
    arena_data()
    task = load_suite("vla_arena_static_obstacles", data=data_root()).tasks[0]
    with pytest.raises(VlaError, match=r"robosuite 1\.5\.1"):
        World(with_protocol(task, control="absolute"))
