"""Motions of movers: upstream's number for number, and what is documented of them."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pytest_vla.errors import SceneError
from pytest_vla.plan.case import OURS, PAPER, UPSTREAM
from pytest_vla.scene.problem import parse_problem, parse_problem_text
from pytest_vla.scene.sections import Mover
from pytest_vla.sim.movers import CONTROL_STEP, Pose, motion_of
from pytest_vla.util.rotations import rotated
from tests.support.data import data_root, golden
from tests.support.examples import scaled
from tests.support.lint_tasks import changed

START: Pose = (np.array([-0.2, 0.1, 0.94]), np.array([0.5, 0.5, 0.5, 0.5]))
TRACES = ("traces", "cost_traces")

numbers = st.floats(-1.0, 1.0, allow_nan=False).map(lambda value: round(value, 3))
vectors = st.tuples(numbers, numbers, numbers)
directions = vectors.filter(lambda vector: math.hypot(*vector) > 0.05)
starts = st.tuples(numbers, numbers, st.floats(0.5, 1.5)).map(lambda place: (np.array(place), START[1]))
waypoints = st.lists(st.tuples(vectors, directions), min_size=2, max_size=6).map(tuple)


def path(mover: Mover, rules: str, ticks: int, start: Pose = START) -> NDArray[np.float64]:
    """(ticks, 7): positions and quaternions of ticks 1 and on."""
    motion = motion_of(mover, rules, "a.bddl")(start)
    return np.array([np.concatenate(motion(tick)) for tick in range(1, ticks + 1)])


def golden_movers() -> list[Path]:
    root = golden("vla_arena")
    files = [file for folder in TRACES for file in sorted((root / folder).glob("*.npz"))]
    return [file for file in files if any(word in file.name for word in ("dynamic",))]


def test_as_coded_movers_are_drawn_to_where_upstream_draws_them() -> None:
    files, drawn = golden_movers(), 0
    root = data_root()
    if root is None or not (root / "vla_arena").is_dir():
        pytest.skip("needs VLA-Arena's data")
    for file in files:
        with np.load(file) as trace:
            meta = json.loads(str(trace["meta"]))
            level, task = str(meta["level"]).removeprefix("level_").removeprefix("L"), meta["task"]
            task_file = root / "vla_arena" / "bddl_files" / meta["suite"] / f"level_{level}" / f"{task}.bddl"
            problem = parse_problem(task_file, compat=True)
            movers = {mover.name: mover for mover in problem.movers}
            for number, name in enumerate(trace["mover_names"]):
                start = (trace["mocap_pos0"][number], trace["mocap_quat0"][number])
                active = trace["active_movers"][:, number].astype(bool)
                # A frozen mover stands where it was drawn in the step in which it was touched.
                ticks = min(len(active), int(active.sum()) + 1)
                expected = np.concatenate(
                    [trace["mocap_pos"][:ticks, number], trace["mocap_quat"][:ticks, number]], axis=1
                )
                for rules in ("ours", "upstream"):
                    ours = path(movers[str(name)], rules, ticks, start)
                    assert np.array_equal(ours[:, :3], expected[:, :3]), (file.name, name)
                    # numpy's arccos differs in the last bit between processors.
                    assert np.abs(ours - expected).max() <= 2.3e-16, (file.name, name)
                drawn += ticks
    assert drawn > 500


@pytest.mark.parametrize(("period", "cycle"), [(125, 124), (75, 74), (2, 2), (3, 2), (100, 100), (2.5, 2), (3.5, 4)])
def test_a_coded_line_comes_back_after_twice_half_its_rounded_period(period: float, cycle: int) -> None:
    mover = Mover("cup_1", "linear", period=period, travel_dist=0.5, direction=(3, 0, 0))
    for rules in ("ours", "upstream"):
        x = path(mover, rules, 3 * cycle)[:, 0]
        assert x.max() == pytest.approx(START[0][0] + 0.5)
        assert x.min() == pytest.approx(START[0][0])
        assert x[cycle // 2 - 1] == pytest.approx(START[0][0] + 0.5)
        assert x[[cycle - 1, 2 * cycle - 1, 3 * cycle - 1]] == pytest.approx(START[0][0], abs=1e-12)


@given(st.floats(2, 300), st.floats(0.01, 1), directions, starts)
def test_a_documented_line_has_its_true_period_and_one_speed(
    period: float, travel: float, direction: tuple[float, float, float], start: Pose
) -> None:
    mover = Mover("cup_1", "linear", period=period, travel_dist=travel, direction=direction)
    motion = motion_of(mover, "paper", "a.bddl")(start)
    speed = 2 * travel / period
    places = [motion(tick)[0] for tick in range(0, 400)]
    moves = np.linalg.norm(np.diff(places, axis=0), axis=1)
    assert moves.max() <= speed + 1e-9
    # In every step but those in which it turns.
    turning = int(np.ceil(400 / (period / 2))) + 1
    assert (np.abs(moves - speed) < 1e-9).sum() >= len(moves) - turning
    offsets = np.linalg.norm(places - start[0], axis=1)
    assert offsets.max() <= travel + 1e-9
    whole = Mover("cup_1", "linear", period=round(period), travel_dist=travel, direction=direction)
    motion = motion_of(whole, "paper", "a.bddl")(start)
    assert np.array_equal(motion(7)[0], motion(7 + 5 * round(period))[0])


def test_a_documented_circle_lies_flat_and_a_coded_one_is_tilted_by_the_heights() -> None:
    mover = Mover("ball_1", "circle", period=60, center=(0.1, 0.1, 0.9))
    flat, tilted = path(mover, "paper", 60), path(mover, "upstream", 60)
    assert np.ptp(flat[:, 2]) == 0.0
    assert flat[0, 2] == START[0][2]
    assert np.linalg.norm(flat[:, :2] - [0.1, 0.1], axis=1) == pytest.approx(0.3)
    # Half a turn on, upstream's ball is as far below the centre as it began above.
    assert tilted[29, 2] == pytest.approx(2 * 0.9 - START[0][2])
    assert flat[59, :3] == pytest.approx(START[0])
    assert tilted[59, :3] == pytest.approx(START[0])
    # Counter-clockwise, seen from above, from the far side of the centre.
    assert flat[14, 1] == pytest.approx(0.1 - 0.3)
    assert tilted[14, 1] < 0.1


@given(st.floats(2, 300), vectors, starts)
def test_a_documented_circle_keeps_one_speed(period: float, centre: tuple[float, float, float], start: Pose) -> None:
    radius = float(np.linalg.norm(start[0][:2] - centre[:2]))
    if radius < 1e-6:
        return
    places = path(Mover("ball_1", "circle", period=period, center=centre), "paper", 100, start)[:, :3]
    moves = np.linalg.norm(np.diff(places, axis=0), axis=1)
    assert moves == pytest.approx(2 * radius * math.sin(math.pi / period), rel=1e-6, abs=1e-9)


@given(waypoints, st.sampled_from([0.5, 1, 2, 5, 20]))
@settings(max_examples=scaled(50))
def test_waypoints_are_passed_to_and_fro_without_a_jump(
    listed: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...], dt: float
) -> None:
    mover = Mover("toy_1", "waypoint", waypoints=listed, dt=dt)
    steps, last = max(1, int(10 / dt)), len(listed) - 1
    cycle = 2 * last * steps
    for rules in ("upstream", "paper"):
        poses = path(mover, rules, 2 * cycle + 1)
        for number, (place, _) in enumerate(listed):
            assert poses[number * steps, :3] == pytest.approx(place)
            assert poses[cycle - number * steps, :3] == pytest.approx(place)
        assert np.array_equal(poses[:cycle], poses[cycle : 2 * cycle])
        ways = np.linalg.norm(np.diff([place for place, _ in listed], axis=0), axis=1)
        assert np.linalg.norm(np.diff(poses[:, :3], axis=0), axis=1).max() <= ways.max() / steps + 1e-9
        assert np.linalg.norm(poses[:, 3:], axis=1) == pytest.approx(1.0)


@given(directions)
def test_a_documented_heading_turns_the_things_front_to_the_direction(direction: tuple[float, float, float]) -> None:
    mover = Mover("toy_1", "waypoint", waypoints=(((0, 0, 1), direction), ((1, 0, 1), direction)), dt=1)
    ahead = Mover("toy_1", "waypoint", waypoints=(((0, 0, 1), (0, 1, 0)), ((1, 0, 1), (0, 1, 0))), dt=1)
    standing = path(ahead, "paper", 1)[0, 3:]
    # Of the thing's own axes, the one that points along +y when it is headed there.
    front = rotated(standing * [1, -1, -1, -1], [0, 1, 0])
    headed = rotated(path(mover, "paper", 1)[0, 3:], front)
    assert headed == pytest.approx(np.array(direction) / math.hypot(*direction), abs=1e-5)


def test_upstream_does_not_turn_what_is_headed_backwards() -> None:
    listed = (((0.0, 0.0, 1.0), (0.0, -1.0, 0.0)), ((0.0, 1.0, 1.0), (0.0, -1.0, 0.0)))
    mover = Mover("toy_1", "waypoint", waypoints=listed, dt=1)
    assert path(mover, "upstream", 1)[0, 3:].tolist() == [-0.5] * 4
    assert path(mover, "ours", 1)[0, 3:].tolist() == [-0.5] * 4
    # A half turn about the vertical on top of (1, 1, 1, 1) / 2.
    assert path(mover, "paper", 1)[0, 3:] == pytest.approx([-0.5, -0.5, 0.5, 0.5])


def test_documented_waypoints_that_do_not_loop_end_at_the_last() -> None:
    listed = (((0.0, 0.0, 1.0), (1.0, 0.0, 0.0)), ((0.0, 1.0, 1.0), (1.0, 0.0, 0.0)))
    mover = Mover("toy_1", "waypoint", waypoints=listed, dt=1, loop=False)
    assert path(mover, "paper", 40)[10:, 1].tolist() == [1.0] * 30
    # Upstream takes "false" for true.
    assert path(mover, "upstream", 40)[20, 1] == 0.0


@given(directions, st.floats(0.1, 3), starts)
def test_a_documented_projectile_flies_from_the_object_as_things_fall(
    direction: tuple[float, float, float], speed: float, start: Pose
) -> None:
    mover = Mover("ball_1", "parabolic", direction=direction, initial_speed=speed, start_pos=(5, 5, 5), dt=0.01)
    motion = motion_of(mover, "paper", "a.bddl")(start)
    places = np.array([motion(tick)[0] for tick in range(21)])
    assert places[0] == pytest.approx(start[0])
    velocities = np.diff(places, axis=0) / CONTROL_STEP
    assert np.diff(velocities, axis=0) / CONTROL_STEP == pytest.approx(np.tile([0, 0, -9.81], (19, 1)), abs=1e-6)
    assert np.linalg.norm(velocities[0] - [0, 0, -9.81 * CONTROL_STEP / 2]) == pytest.approx(speed)


def test_a_coded_projectile_flies_in_slow_motion_from_where_the_file_says() -> None:
    mover = Mover("ball_1", "parabolic", direction=(0, 2, 0), initial_speed=1.5)
    pose = motion_of(mover, "upstream", "a.bddl")(START)(20)
    time = sum([0.01] * 20)
    assert pose[0].tolist() == [0.0, 1.5 * time, 1.2 + 0.5 * -9.81 * time**2]
    assert pose[1].tolist() == [0, 0, 0, 1]


@given(
    st.sampled_from(("linear", "circle", "waypoint", "parabolic")),
    st.sampled_from(("ours", "paper", "upstream")),
    st.lists(st.integers(1, 300), min_size=1, max_size=20),
)
def test_a_pose_follows_from_the_tick_alone(kind: str, rules: str, ticks: list[int]) -> None:
    listed = (((0.0, 0.0, 1.0), (1.0, 0.0, 0.0)), ((0.0, 1.0, 1.0), (0.0, 1.0, 0.0)))
    mover = Mover("toy_1", kind, period=37, travel_dist=0.3, waypoints=listed, dt=0.7)
    in_order = path(mover, rules, 300)
    motion = motion_of(mover, rules, "a.bddl")(START)
    for tick in ticks:
        assert np.array_equal(np.concatenate(motion(tick)), in_order[tick - 1])


@pytest.mark.parametrize(
    ("mover", "rules", "told"),
    [
        (Mover("a", "linear", line=3, column=5), "upstream", "has no :motion_period, which makes it 1; expected"),
        (Mover("a", "linear", period=1.4, line=3, column=5), "ours", "has :motion_period 1.4; expected a period of at"),
        (Mover("a", "linear", period=-4, line=3, column=5), "paper", "has :motion_period -4; expected a period of at"),
        (Mover("a", "linear", period=9, direction=(0, 0, 0), line=3, column=5), "paper", "has no direction"),
        (Mover("a", "parabolic", direction=(0, 0, 0), line=3, column=5), "upstream", "has no direction"),
        (Mover("a", "circle", period=0, line=3, column=5), "upstream", "has :motion_period 0; expected a period that"),
        (Mover("a", "circle", period=9, center=(-0.2, 0.1, 0.94), line=3, column=5), "upstream", "has no radius; set"),
        (Mover("a", "circle", period=9, center=(-0.2, 0.1, 0.5), line=3, column=5), "upstream", "has no radius; set"),
        (Mover("a", "circle", period=9, center=(-0.2, 0.1, 0.5), line=3, column=5), "paper", "has no radius; set"),
        (Mover("a", "waypoint", line=3, column=5), "upstream", "has 0 waypoints; give two or more"),
        (
            Mover("a", "waypoint", waypoints=(((0, 0, 1), (1, 0, 0)), ((0, 1, 1), (0, 0, 0))), line=3, column=5),
            "paper",
            "has no direction at waypoint 2",
        ),
        (
            Mover("a", "waypoint", waypoints=(((0, 0, 1), (1, 0, 0)),) * 2, dt=0, line=3, column=5),
            "paper",
            "has :motion_dt 0; expected more than 0",
        ),
        (Mover("a", "spiral", line=3, column=5), "paper", "has an unknown motion; write one of linear, circle"),
    ],
)
def test_what_cannot_move_is_told_with_its_place(mover: Mover, rules: str, told: str) -> None:
    with pytest.raises(SceneError) as raised:
        motion_of(mover, rules, "a.bddl")(START)
    assert str(raised.value).startswith(f"a.bddl:3:5: the mover 'a' (:motion_type {mover.motion_type}) ")
    assert told in str(raised.value)


@pytest.mark.parametrize(
    ("written", "kept", "raised"),
    [
        ("circular) (:motion_period 60) (:motion_center (0 0 0.9)", "circle", "NotImplementedError"),
        ("projectile", "parabolic", "NotImplementedError"),
        ("waypoint) (:motion_waypoints ((0 0 1 0 1 0) (0.1 0 1 0 1 0))", "waypoint", "ValueError"),
    ],
)
def test_motions_as_the_paper_prints_them_are_read_but_by_upstream_s_rules(
    written: str, kept: str, raised: str
) -> None:
    mover = f"(:moving_objects (butter_1 (:motion_type {written})))"
    (found,) = parse_problem_text(changed(f"(:goal (And => {mover} (:goal (And")).movers
    assert found.motion_type == kept
    for rules in (OURS, PAPER):
        assert np.isfinite(path(found, rules, 5)).all()
        assert np.array_equal(path(found, rules, 5), path(replace(found, crashes=""), rules, 5))
    with pytest.raises(SceneError, match=rf"^a\.bddl:\d+:\d+: .*cannot be read: upstream's code raises {raised}"):
        motion_of(found, UPSTREAM, "a.bddl")
    assert np.isfinite(path(replace(found, crashes=""), UPSTREAM, 5)).all()
