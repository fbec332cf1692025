"""Quality of motion, from the path of the robot's hand: the five quality metrics of arXiv 2507.17049, and others.

The functions of numbers return a series, one value per control step. The others compute metrics of a recorded episode.
Smaller is better for metrics of smoothness.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_vla.errors import VlaError
from pytest_vla.metrics import instability
from pytest_vla.metrics.instability import (
    WINDOW,
    Order,
    Protocol,
    Series,
    checked_protocol,
    checked_table,
    episode_mean,
    norm_instability,
    windowed_instability,
)
from pytest_vla.records.record import MetricResult, Record
from pytest_vla.records.trajectory import Trajectory

# TCP-PI, TCP-VI, TCP-AI and TI: smoothness of the hand's motion, and a check that it moved at all.

STATIC_PATH = 0.02
"""m: a hand whose path over an episode is shorter stood still."""

# What upstream's gradient of a gradient of a gradient gives of its window, from the present position backwards: the
# third of its values from the end. Constant acceleration is no jerk, and does not give 0.
_STENCIL = np.array([0.25, -0.5, 0.0, 0.375, 0.0, -0.125])


def tcp_instability(positions: ArrayLike, order: Order, *, protocol: Protocol = "upstream") -> Series:
    """Return the series of TCP-PI (order 1), TCP-VI (2) or TCP-AI (3).

    Source: arXiv 2507.17049, VLA_UQ. ``upstream``: the mean of the axes' absolute differences in a window, see
    `windowed_instability`. ``paper``: the Euclidean norm of the nth difference.

    Args:
        positions: (T, 3), m, the tool centre point after each control step.
        order: of the difference.
        protocol: the definition to follow.

    Returns:
        In m (per step, step^2 or step^3): (max(T, 7),) for upstream, 0 in the first 7 steps; (max(T - order, 0),)
        for the paper.

    Raises:
        VlaError: the positions are no such table of finite numbers, or another argument is invalid.
    """
    checked_protocol(protocol)
    path = checked_table(positions, 3)
    return windowed_instability(path, order) if protocol == "upstream" else norm_instability(path, order)


def trajectory_instability(positions: ArrayLike, *, dt: float = 1.0, protocol: Protocol = "upstream") -> Series:
    """Return the series of TI: the norm of the jerk.

    Source: arXiv 2507.17049, VLA_UQ. ``upstream``: jerk by three `numpy.gradient`s over blocks, with its values at the
    blocks' edges, in m / step^3: the first 7 positions give 5 values, each later one another value. ``paper``: the
    third difference over dt^3.

    Args:
        positions: (T, 3), m, the tool centre point after each control step.
        dt: s, a control step; with 1, jerk is in m / step^3. Used by the paper's definition only.
        protocol: the definition to follow.

    Returns:
        (T - 2,) for upstream, and empty if T < 7; (max(T - 3, 0),) for the paper.

    Raises:
        VlaError: the positions are no such table of finite numbers, or `dt` is not above 0.
    """
    checked_protocol(protocol)
    path = checked_table(positions, 3)
    if not 0 < dt < np.inf:
        raise VlaError(f"dt {dt!r}: expected seconds above 0")
    if protocol == "paper":
        norms: Series = norm_instability(path, 3) / dt**3
        return norms
    if len(path) < WINDOW - 1:
        return np.zeros(0)
    block = path[: WINDOW - 1]
    for _ in range(3):
        block = np.gradient(block, axis=0)
    first = np.linalg.norm(block[:-2], axis=1)
    if len(path) == WINDOW - 1:
        return np.asarray(first)
    later = path[2:]
    windows = np.lib.stride_tricks.sliding_window_view(later, len(_STENCIL), axis=0)
    return np.concatenate([first, np.linalg.norm(windows @ _STENCIL[::-1], axis=1)])


def trajectory_instability_value(
    positions: ArrayLike, *, dt: float = 1.0, protocol: Protocol = "upstream"
) -> float | None:
    """Compute an episode's TI: the series' mean (upstream) or root mean square (paper), or None if it is too short.

    Args, Raises: as `trajectory_instability`.
    """
    series = trajectory_instability(positions, dt=dt, protocol=protocol)
    if not series.size:
        return None
    return float(np.sqrt(np.mean(series**2)) if protocol == "paper" else series.mean())


def path_length(positions: ArrayLike) -> float:
    """Compute the length (m) of the tool centre point's path (T, 3), m; 0 for less than two rows. Raises VlaError."""
    return float(np.linalg.norm(np.diff(checked_table(positions, 3), axis=0), axis=1).sum())


def is_static(positions: ArrayLike, threshold: float = STATIC_PATH) -> bool:
    """Whether the hand stood still: its path is shorter than `threshold`, m.

    A robot that does nothing looks perfect to every metric of motion (arXiv 2507.17049, Finding 9).

    Raises:
        VlaError: as `path_length`.
    """
    return path_length(positions) < threshold


# OT: progress of the hand, and of the carried object, towards the goal.


def remaining_distance(
    hand: ArrayLike,
    source: ArrayLike,
    goal: ArrayLike | None = None,
    grasped: ArrayLike = False,
    *,
    protocol: Protocol = "upstream",
) -> Series:
    """Compute the remaining distance at each control step.

    If the object is held, the distance is the object's to the goal. If not, it is the hand's to the object, plus the
    object's to the goal (upstream) or the hand's to the goal (paper). Source: arXiv 2507.17049, VLA_UQ.

    Args:
        hand: (T, 3), m, the tool centre point.
        source: (T, 3), m, the object to be moved.
        goal: (T, 3), m, its target, or None if it is only to be reached or grasped.
        grasped: (T,), whether the object is held.
        protocol: the definition to follow.

    Returns:
        (T,), m.

    Raises:
        VlaError: shapes differ, or a number is not finite.
    """
    checked_protocol(protocol)
    tcp, thing, held = np.asarray(hand, np.float64), np.asarray(source, np.float64), np.asarray(grasped, bool)
    target = thing if goal is None else np.asarray(goal, np.float64)
    if tcp.ndim != 2 or tcp.shape[1] != 3 or not tcp.shape == thing.shape == target.shape or held.ndim > 1:
        raise VlaError(f"hand, source and goal are (T, 3) each, got {tcp.shape}, {thing.shape} and {target.shape}")
    if not np.isfinite([tcp, thing, target]).all():
        raise VlaError("hand, source and goal are finite positions")
    if held.ndim and len(held) != len(tcp):
        raise VlaError(f"grasped is ({len(tcp)},), as there are positions; got {held.shape}")
    to_source, left = _between(tcp, thing), _between(thing, target)
    beyond = left if protocol == "upstream" or goal is None else _between(tcp, target)
    return np.where(held, left, to_source + beyond)


def optimal_trajectory(distances: ArrayLike, initial: float, *, protocol: Protocol = "upstream") -> Series:
    """Return the series of OT: (1 + change of the remaining distance) / 2. Below 0.5 the distance decreases.

    Upstream's mean is 1/2 + (s_last - s_first) / (2 T), with s the distance over the initial one: it measures net
    progress and nothing in between. It is not clipped. Source: arXiv 2507.17049, VLA_UQ.

    Args:
        distances: (T,), m, remaining after each control step.
        initial: m, above 0: the distance at the start, by which upstream divides; the paper does not.
        protocol: the definition to follow.

    Returns:
        (T,) for upstream, the first 0.5; (max(T - 1, 0),) for the paper.

    Raises:
        VlaError: a distance is not finite, or upstream's `initial` is not above 0.
    """
    checked_protocol(protocol)
    left = np.asarray(distances, dtype=np.float64)
    if left.ndim != 1 or not np.isfinite(left).all():
        raise VlaError(f"distances are (T,) finite numbers, m; got {left.shape}")
    if protocol == "paper":
        return np.asarray((1.0 + np.diff(left)) / 2.0 if left.size else left)
    if not 0 < initial < np.inf:
        raise VlaError(
            f"initial {initial!r}: expected a distance above 0 m; where nothing remains there is no progress"
        )
    return np.asarray((1.0 + np.diff(left, prepend=left[:1]) / initial) / 2.0)


def _between(one: Series, other: Series) -> Series:
    return np.asarray(np.linalg.norm(one - other, axis=1))


# The quality metrics of a recorded episode: upstream's number and series, and beside them the paper's.
#
# Each is called with a record and its trajectory (`pytest_vla.entries.MetricEntry`). ``.paper`` is the paper's.
# Positions are those after each control step, as upstream's.

NO_PATH = (
    "the hand's path: a world without robot0_eef_pos has none, nor has an episode in which a position of it is no "
    "finite number"
)
NO_GOAL = (
    "one object that is to be brought to one place: this task's goal is another, or its suite has a world of its own"
)
AT_GOAL = "a way to go: nothing remained of it at the start"
TOO_SHORT = "7 control steps or more"


def tcp_position_instability(record: Record, trajectory: Trajectory) -> MetricResult:
    """Compute TCP-PI."""
    return _of_hand(trajectory, 1)


def tcp_velocity_instability(record: Record, trajectory: Trajectory) -> MetricResult:
    """Compute TCP-VI."""
    return _of_hand(trajectory, 2)


def tcp_acceleration_instability(record: Record, trajectory: Trajectory) -> MetricResult:
    """Compute TCP-AI."""
    return _of_hand(trajectory, 3)


def episode_trajectory_instability(record: Record, trajectory: Trajectory) -> MetricResult:
    """Compute TI; the paper's in m/s^3, with the suite's control frequency."""
    path = path_of(trajectory)
    if path is None:
        return MetricResult(None, missing=NO_PATH)
    value = trajectory_instability_value(path)
    dt = control_step(record)
    paper = trajectory_instability_value(path, dt=dt, protocol="paper")
    series = {
        "": trajectory_instability(path),
        "paper": trajectory_instability(path, dt=dt, protocol="paper"),
    }
    return MetricResult(value, {"paper": paper}, _per_step(trajectory, series), "" if value is not None else TOO_SHORT)


def episode_optimal_trajectory(record: Record, trajectory: Trajectory) -> MetricResult:
    """Compute OT and its ``.net``: the share of the initial distance gone at the end; 1 means arrived."""
    source, goal, held = (
        instability.recorded(trajectory, name, dimensions)
        for name, dimensions in ((instability.SOURCE, 3), (instability.GOAL, 3), (instability.HELD, 2))
    )
    if source is None or goal is None or held is None:
        return MetricResult(None, missing=NO_GOAL)
    path = path_of(trajectory)
    if path is None:
        return MetricResult(None, missing=NO_PATH)
    hand = trajectory.eef_pos[:-1], path

    def left(when: int, protocol: Protocol) -> Series:
        places = hand[when], source[:, when], goal[:, when], held[:, when]
        return remaining_distance(*places, protocol=protocol)

    initial = float(left(0, "upstream")[0])
    if not initial > 0:
        return MetricResult(None, missing=AT_GOAL)
    distances = left(1, "upstream")
    upstream = optimal_trajectory(distances, initial)
    paper = optimal_trajectory(left(1, "paper"), initial, protocol="paper")
    further = {"paper": episode_mean(paper), "net": 1.0 - float(distances[-1]) / initial}
    series = {"": upstream, "paper": paper, "remaining": distances}
    return MetricResult(episode_mean(upstream), further, _per_step(trajectory, series))


def object_turn(record: Record, trajectory: Trajectory) -> MetricResult:
    """Compute how far the task's object was turned from the first to the last state, in degrees.

    ``.tilt`` is the angle from the vertical, at the end, of the object's axis that was vertical at the start: 0 for an
    object that was turned about the vertical only. A tilt of 30 degrees is a fall to `pytest_vla.plan.costs`.
    """
    turns = instability.recorded(trajectory, instability.TURN, 3)
    if turns is None or not len(turns):
        return MetricResult(None, missing=NO_GOAL)
    (w, x, y, z), last = turns[0, 0], turns[-1, 1]
    cosine = min(abs(float(np.dot(turns[0, 0], last))), 1.0)
    # The third row of the first rotation: the vertical, in the object's frame.
    vertical = np.array([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)])
    w, x, y, z = last
    upright = float(np.dot([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], vertical))
    tilt = np.degrees(np.arccos(np.clip(upright, -1.0, 1.0)))
    return MetricResult(float(2 * np.degrees(np.arccos(cosine))), {"tilt": float(tilt)})


def static_robot(record: Record, trajectory: Trajectory) -> MetricResult:
    """Return 1 if the hand stood still, 0 if it moved."""
    path = path_of(trajectory)
    return MetricResult(None, missing=NO_PATH) if path is None else MetricResult(float(is_static(path)))


def _of_hand(trajectory: Trajectory, order: Order) -> MetricResult:
    path = path_of(trajectory)
    if path is None:
        return MetricResult(None, missing=NO_PATH)
    series = {"": tcp_instability(path, order), "paper": tcp_instability(path, order, protocol="paper")}
    means = {name: episode_mean(each) for name, each in series.items()}
    return MetricResult(means[""], {"paper": means["paper"]}, _per_step(trajectory, series))


def path_of(trajectory: Trajectory) -> NDArray[np.float64] | None:
    """Return the hand's positions (n, 3) after each control step, or None if some are unknown."""
    path = trajectory.eef_pos
    if path.ndim != 2 or path.shape[1] != 3 or len(path) < 2 or not np.isfinite(path).all():
        return None
    return path[1:]


def control_step(record: Record) -> float:
    """Return the control step (s) from the suite's control frequency; 1 if unknown."""
    freq = record.protocol.get("control_freq")
    return 1.0 / freq if isinstance(freq, int | float) and freq > 0 else 1.0


def _per_step(trajectory: Trajectory, series: Mapping[str, Series]) -> dict[str, Series]:
    return {name: instability.per_step(each, len(trajectory.actions)) for name, each in series.items()}


# Smoothness and economy of an episode, without any labels.
#
# Each metric is called with a record and its trajectory (`pytest_vla.entries.MetricEntry`). Less is better, of
# episodes that do the task: a robot that stands still goes no way and touches nothing.

NO_HANDLING = (
    "joints and contacts of the robot, which are taken down while an episode runs: its suite has a world of its own, "
    "or it ran without this metric"
)

NO_JERK = "4 control steps or more, which a third difference is of"

NEAR_LIMIT = 0.05
"""Share of a joint's range: nearer to a limit it is near."""

GAP = 3
"""Control steps: a hold or a contact that is interrupted for fewer is the same one. Fingers that slide along a rim
lose it for a step or two."""


def hand_path(record: Record, trajectory: Trajectory) -> MetricResult:
    """Compute the length (m) of the hand's path, from its place after settling to its last."""
    if path_of(trajectory) is None:
        return MetricResult(None, missing=NO_PATH)
    return MetricResult(path_length(trajectory.eef_pos))


def hand_jerk(record: Record, trajectory: Trajectory) -> MetricResult:
    """Compute the root mean square of the third difference over dt^3 (m/s^3), as `trajectory_instability.paper`."""
    path = path_of(trajectory)
    if path is None:
        return MetricResult(None, missing=NO_PATH)
    value = trajectory_instability_value(path, dt=control_step(record), protocol="paper")
    return MetricResult(value, missing="" if value is not None else NO_JERK)


def near_joint_limits(record: Record, trajectory: Trajectory) -> MetricResult:
    """Compute the share of steps near a joint limit; ``.margin`` is the smallest margin, a share of the range."""
    margins = instability.recorded(trajectory, instability.LIMIT_MARGIN, 1)
    if margins is None:
        return MetricResult(None, missing=NO_HANDLING)
    near = (margins < NEAR_LIMIT).astype(np.float64)
    return MetricResult(float(near.mean()), {"margin": float(margins.min())}, {"": near})


def regrasps(record: Record, trajectory: Trajectory) -> MetricResult:
    """Count repeated grasps of an object; ``.grasps`` counts all grasps."""
    holding = instability.recorded(trajectory, instability.HOLDING, 1)
    if holding is None:
        return MetricResult(None, missing=NO_HANDLING)
    begun = [spells(holding == thing) for thing in sorted(set(holding.tolist())) if thing >= 0]
    return MetricResult(float(sum(times - 1 for times in begun)), {"grasps": float(sum(begun))})


def other_contacts(record: Record, trajectory: Trajectory) -> MetricResult:
    """Count new contacts with things not in the goal; ``.share`` is the share of steps with contact.

    An additional thing that is touched counts. One that replaces another within one control step does not: a step
    records how many things are touched, not which.
    """
    touched = instability.recorded(trajectory, instability.OTHERS_TOUCHED, 1)
    if touched is None:
        return MetricResult(None, missing=NO_HANDLING)
    there = touched > 0
    begun = sum(spells(touched >= many) for many in range(1, int(touched.max()) + 1))
    return MetricResult(float(begun), {"share": float(there.mean())}, {"": there.astype(np.float64)})


def spells(holds: ArrayLike, gap: int = GAP) -> int:
    """Count how often a condition begins to hold, over control steps.

    Args:
        holds: (n,), bool, one per control step.
        gap: 1 or more; shorter interruptions are ignored.

    Raises:
        VlaError: `holds` is no such array, or `gap` is below 1.
    """
    truths = np.asarray(holds, dtype=bool)
    if truths.ndim != 1 or gap < 1:
        raise VlaError(f"holds {truths.shape} and gap {gap}: expected (n,) truths, and 1 step or more")
    steps = np.flatnonzero(truths)
    return int(len(steps) > 0) + int((np.diff(steps) > gap).sum())


@dataclass(frozen=True)
class PathRatio:
    """The hand's path in an episode, compared with the expert's on the same case.

    Attributes:
        record: the policy's, a success.
        path: m.
        expert: m, the path of the expert's success, or None if none is stored.
    """

    record: Record
    path: float
    expert: float | None

    @property
    def ratio(self) -> float | None:
        """The path relative to the expert's: 1 for equal length; None if the expert's is missing or has length 0."""
        return self.path / self.expert if self.expert else None


def expert_paths(records: Sequence[Record], length: Callable[[Record], float | None]) -> dict[str, float]:
    """Return the expert's path length (m) by solved case (`Record.case`); the first record counts.

    Args:
        records: any policies'.
        length: returns an episode's path length (m), or None if unknown.
    """
    found: dict[str, float] = {}
    for record in records:
        is_twin = record.policy.partition("?")[0] == "expert" and record.outcome == "success"
        if is_twin and record.case not in found and (path := length(record)) is not None:
            found[record.case] = path
    return found


def path_ratios(
    records: Sequence[Record], experts: Mapping[str, float], length: Callable[[Record], float | None]
) -> tuple[PathRatio, ...]:
    """Compare each success's path with the expert's. Failures are left out: they may not have moved at all.

    Args:
        records: one policy's, in one suite.
        experts: from `expert_paths`.
        length: returns an episode's path length (m), or None if unknown.
    """
    successes = ((record, length(record)) for record in records if record.outcome == "success")
    return tuple(PathRatio(record, path, experts.get(record.case)) for record, path in successes if path is not None)
