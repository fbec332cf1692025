"""What holds of every series of the hand's path: lengths, what changes nothing, and what is refused."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from pytest_vla.errors import VlaError
from pytest_vla.metrics.instability import ORDERS, TURN, episode_mean
from pytest_vla.metrics.quality import (
    is_static,
    object_turn,
    optimal_trajectory,
    path_length,
    remaining_distance,
    tcp_instability,
    trajectory_instability,
    trajectory_instability_value,
)
from pytest_vla.records.trajectory import Trajectory
from tests.support.records import record_of

Array = NDArray[np.float64]
COORDINATES = st.floats(-2, 2, width=32)
PATHS = st.integers(0, 30).flatmap(lambda steps: arrays(np.float64, (steps, 3), elements=COORDINATES))
order = st.sampled_from(ORDERS)
protocol = st.sampled_from(["upstream", "paper"])


@given(PATHS, order)
def test_series_have_their_length(path: Array, order: Any) -> None:
    assert len(tcp_instability(path, order)) == max(len(path), 7)
    assert len(tcp_instability(path, order, protocol="paper")) == max(len(path) - order, 0)
    assert len(trajectory_instability(path)) == (len(path) - 2 if len(path) >= 7 else 0)
    assert len(trajectory_instability(path, protocol="paper")) == max(len(path) - 3, 0)
    assert (trajectory_instability_value(path) is None) == (len(path) < 7)


@given(PATHS, order, protocol, arrays(np.float64, 3, elements=COORDINATES), st.floats(0.1, 9))
def test_where_the_robot_stands_and_which_unit_it_is_measured_in(
    path: Array, order: Any, protocol: Any, shift: Array, scale: float
) -> None:
    for series in (
        lambda points: tcp_instability(points, order, protocol=protocol),
        lambda points: trajectory_instability(points, protocol=protocol),
    ):
        assert series(path + shift) == pytest.approx(series(path), abs=1e-8)
        assert series(scale * path) == pytest.approx(scale * series(path), abs=1e-8)


@given(PATHS, order, st.integers(0, 2**32 - 1))
def test_norms_do_not_know_the_axes(path: Array, order: Any, seed: int) -> None:
    turned = Rotation.random(rng=np.random.default_rng(seed)).apply(path) if len(path) else path
    for series in (
        lambda points: tcp_instability(points, order, protocol="paper"),
        trajectory_instability,
        lambda points: trajectory_instability(points, protocol="paper"),
    ):
        assert series(turned) == pytest.approx(series(path), abs=1e-8)


def test_constant_acceleration_is_jerk_to_upstream() -> None:
    steps = np.arange(20.0)[:, None]
    path = 0.5 * steps**2 * [[0.0, 3.0, 4.0]]
    assert trajectory_instability(path)[5:] == pytest.approx(np.full(13, 0.125 * 5))
    assert trajectory_instability(path, protocol="paper") == pytest.approx(np.zeros(17), abs=1e-9)
    assert trajectory_instability_value(path**1.5, dt=0.05, protocol="paper") == pytest.approx(
        8000 * (trajectory_instability_value(path**1.5, protocol="paper") or 0)
    )


def test_who_stands_still_looks_perfect_and_is_told() -> None:
    still = np.tile([0.1, 0.2, 1.0], (40, 1))
    assert episode_mean(tcp_instability(still, 1)) == 0
    assert trajectory_instability_value(still) == pytest.approx(0, abs=1e-12)
    assert is_static(still)
    assert is_static([])
    moving = still + np.linspace(0, 0.03, 40)[:, None] * [1, 0, 0]
    assert path_length(moving) == pytest.approx(0.03)
    assert not is_static(moving)
    assert is_static(moving, 0.04)


@given(arrays(np.float64, st.integers(0, 20), elements=st.floats(0, 3)), st.floats(0.1, 3))
def test_progress_telescopes(distances: Array, initial: float) -> None:
    series = optimal_trajectory(distances, initial)
    assert len(series) == len(distances)
    assert len(optimal_trajectory(distances, 0.0, protocol="paper")) == max(len(distances) - 1, 0)
    if len(distances):
        assert series[0] == 0.5
        net = (distances[-1] - distances[0]) / initial
        assert episode_mean(series) == pytest.approx(0.5 + net / (2 * len(distances)))


def test_what_remains() -> None:
    hand, source, goal = ([[0.0, 0.0, z]] for z in (0.0, 1.0, 3.0))
    assert remaining_distance(hand, source, goal).tolist() == [1 + 2]
    assert remaining_distance(hand, source, goal, protocol="paper").tolist() == [1 + 3]
    for protocol in ("upstream", "paper"):
        assert remaining_distance(hand, source, goal, [True], protocol=protocol).tolist() == [2]  # type: ignore[arg-type]
        # Only to be reached.
        assert remaining_distance(hand, source, protocol=protocol).tolist() == [1]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: tcp_instability(np.zeros((9, 2)), 1), r"\(T, 3\) of finite numbers.*got \(9, 2\)"),
        (lambda: tcp_instability(np.full((9, 3), np.nan), 1), "row 0 is"),
        (lambda: trajectory_instability(np.zeros((9, 3)), dt=0), "dt 0: expected seconds above 0"),
        (lambda: trajectory_instability(np.zeros((9, 3)), protocol="x"), "expected upstream or paper"),  # type: ignore[arg-type]
        (lambda: optimal_trajectory([1.0], 0.0), "expected a distance above 0 m"),
        (lambda: optimal_trajectory([np.inf], 1.0), "finite numbers, m"),
        (lambda: remaining_distance([[0, 0, 0]], [[0, 0]]), r"\(T, 3\) each"),
        (lambda: remaining_distance([[0, 0, np.nan]], [[0, 0, 0]]), "finite positions"),
        (lambda: remaining_distance([[0, 0, 0]], [[0, 0, 0]], None, [True, False]), r"grasped is \(1,\)"),
    ],
)
def test_what_is_no_input_is_refused(call: Any, complaint: str) -> None:
    with pytest.raises(VlaError, match=complaint):
        call()


@pytest.mark.parametrize(
    ("axis", "turn", "tilt"), [((0, 0, 1), 90.0, 0.0), ((1, 0, 0), 60.0, 60.0), ((0, 1, 0), 179.0, 179.0)]
)
def test_a_turn_about_the_vertical_is_no_tilt(axis: tuple[int, ...], turn: float, tilt: float) -> None:
    by = Rotation.from_rotvec(np.radians(turn) * np.array(axis))
    for start in (Rotation.identity(), Rotation.from_euler("xz", [90, 20], degrees=True)):
        first, last = (np.roll(each.as_quat(), 1) for each in (start, by * start))
        for sign in (1, -1):
            series = {TURN: np.array([[first, first], [first, sign * last]])}
            states = np.zeros((3, 1)), np.zeros((3, 1)), np.zeros((3, 3)), np.zeros((2, 7))
            found = object_turn(record_of(0), Trajectory(*states, series))
            assert found.value == pytest.approx(turn)
            assert found.further["tilt"] == pytest.approx(tilt, abs=1e-5)
    assert object_turn(record_of(0), Trajectory(*states)).value is None
