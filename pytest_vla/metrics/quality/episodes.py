"""The quality metrics of a recorded episode: upstream's number and series, and beside them the paper's.

Each is called with a record and its trajectory (`pytest_vla.entries.MetricEntry`). ``.paper`` is the paper's. Positions
are those after each control step, as upstream's.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pytest_vla.metrics import inputs
from pytest_vla.metrics.instability import Order, Protocol, Series, episode_mean
from pytest_vla.metrics.quality import motion, progress
from pytest_vla.records.measured import Measured
from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import Trajectory

NO_PATH = (
    "the hand's path: a world without robot0_eef_pos has none, nor has an episode in which a position of it is no "
    "finite number"
)
NO_GOAL = (
    "one object that is to be brought to one place: this task's goal is another, or its suite has a world of its own"
)
AT_GOAL = "a way to go: nothing remained of it at the start"
TOO_SHORT = "7 control steps or more"


def tcp_position_instability(record: Record, trajectory: Trajectory) -> Measured:
    """TCP-PI."""
    return _of_hand(trajectory, 1)


def tcp_velocity_instability(record: Record, trajectory: Trajectory) -> Measured:
    """TCP-VI."""
    return _of_hand(trajectory, 2)


def tcp_acceleration_instability(record: Record, trajectory: Trajectory) -> Measured:
    """TCP-AI."""
    return _of_hand(trajectory, 3)


def trajectory_instability(record: Record, trajectory: Trajectory) -> Measured:
    """TI; the paper's in m/s^3, by the suite's control frequency."""
    path = path_of(trajectory)
    if path is None:
        return Measured(None, missing=NO_PATH)
    value = motion.trajectory_instability_value(path)
    dt = control_step(record)
    paper = motion.trajectory_instability_value(path, dt=dt, protocol="paper")
    series = {
        "": motion.trajectory_instability(path),
        "paper": motion.trajectory_instability(path, dt=dt, protocol="paper"),
    }
    return Measured(value, {"paper": paper}, _per_step(trajectory, series), "" if value is not None else TOO_SHORT)


def optimal_trajectory(record: Record, trajectory: Trajectory) -> Measured:
    """OT, and its ``.net``: the share of the initial distance that is gone at the end, from 1 (there) down."""
    source, goal, held = (
        inputs.recorded(trajectory, name, dimensions)
        for name, dimensions in ((inputs.SOURCE, 3), (inputs.GOAL, 3), (inputs.HELD, 2))
    )
    if source is None or goal is None or held is None:
        return Measured(None, missing=NO_GOAL)
    path = path_of(trajectory)
    if path is None:
        return Measured(None, missing=NO_PATH)
    hand = trajectory.eef_pos[:-1], path

    def left(when: int, protocol: Protocol) -> Series:
        places = hand[when], source[:, when], goal[:, when], held[:, when]
        return progress.remaining_distance(*places, protocol=protocol)

    initial = float(left(0, "upstream")[0])
    if not initial > 0:
        return Measured(None, missing=AT_GOAL)
    distances = left(1, "upstream")
    upstream = progress.optimal_trajectory(distances, initial)
    paper = progress.optimal_trajectory(left(1, "paper"), initial, protocol="paper")
    further = {"paper": episode_mean(paper), "net": 1.0 - float(distances[-1]) / initial}
    series = {"": upstream, "paper": paper, "remaining": distances}
    return Measured(episode_mean(upstream), further, _per_step(trajectory, series))


def static_robot(record: Record, trajectory: Trajectory) -> Measured:
    """1 where the hand stood still, 0 where it moved."""
    path = path_of(trajectory)
    return Measured(None, missing=NO_PATH) if path is None else Measured(float(motion.is_static(path)))


def _of_hand(trajectory: Trajectory, order: Order) -> Measured:
    path = path_of(trajectory)
    if path is None:
        return Measured(None, missing=NO_PATH)
    series = {"": motion.tcp_instability(path, order), "paper": motion.tcp_instability(path, order, protocol="paper")}
    means = {name: episode_mean(each) for name, each in series.items()}
    return Measured(means[""], {"paper": means["paper"]}, _per_step(trajectory, series))


def path_of(trajectory: Trajectory) -> NDArray[np.float64] | None:
    """The hand's positions (n, 3) after each control step; None: there are none, or some are not known."""
    path = trajectory.eef_pos
    if path.ndim != 2 or path.shape[1] != 3 or len(path) < 2 or not np.isfinite(path).all():
        return None
    return path[1:]


def control_step(record: Record) -> float:
    """s, of the suite's control frequency; 1 where it is not known."""
    freq = record.protocol.get("control_freq")
    return 1.0 / freq if isinstance(freq, int | float) and freq > 0 else 1.0


def _per_step(trajectory: Trajectory, series: Mapping[str, Series]) -> dict[str, Series]:
    return {name: inputs.per_step(each, len(trajectory.actions)) for name, each in series.items()}
