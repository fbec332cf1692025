"""How smoothly and sparingly an episode went, for which nobody has to label anything.

Each metric is called with a record and its trajectory (`pytest_vla.entries.MetricEntry`). Less is better, of episodes
that do the task: a robot that stands still goes no way and touches nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pytest_vla.errors import VlaError
from pytest_vla.metrics import inputs
from pytest_vla.metrics.quality import motion
from pytest_vla.metrics.quality.episodes import NO_PATH, control_step, path_of
from pytest_vla.records.measured import Measured
from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import Trajectory

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


def hand_path(record: Record, trajectory: Trajectory) -> Measured:
    """m, how far the hand went, from its place after settling to its last."""
    if path_of(trajectory) is None:
        return Measured(None, missing=NO_PATH)
    return Measured(motion.path_length(trajectory.eef_pos))


def hand_jerk(record: Record, trajectory: Trajectory) -> Measured:
    """m/s^3, the root mean square of the third difference over dt^3, as `trajectory_instability.paper`."""
    path = path_of(trajectory)
    if path is None:
        return Measured(None, missing=NO_PATH)
    value = motion.trajectory_instability_value(path, dt=control_step(record), protocol="paper")
    return Measured(value, missing="" if value is not None else NO_JERK)


def near_joint_limits(record: Record, trajectory: Trajectory) -> Measured:
    """The share of steps near a limit; ``.margin``: how near it came, share of the joint's range."""
    margins = inputs.recorded(trajectory, inputs.LIMIT_MARGIN, 1)
    if margins is None:
        return Measured(None, missing=NO_HANDLING)
    near = (margins < NEAR_LIMIT).astype(np.float64)
    return Measured(float(near.mean()), {"margin": float(margins.min())}, {"": near})


def regrasps(record: Record, trajectory: Trajectory) -> Measured:
    """How often an object was taken again; ``.grasps``: how often any was taken."""
    holding = inputs.recorded(trajectory, inputs.HOLDING, 1)
    if holding is None:
        return Measured(None, missing=NO_HANDLING)
    begun = [spells(holding == thing) for thing in sorted(set(holding.tolist())) if thing >= 0]
    return Measured(float(sum(times - 1 for times in begun)), {"grasps": float(sum(begun))})


def other_contacts(record: Record, trajectory: Trajectory) -> Measured:
    """How often the robot came to touch what the goal does not name; ``.share``: in which share of steps it did.

    One more that is touched beside others counts. One in the place of another, in one control step, does not: of each
    step it is known how many are touched, and not which.
    """
    touched = inputs.recorded(trajectory, inputs.OTHERS_TOUCHED, 1)
    if touched is None:
        return Measured(None, missing=NO_HANDLING)
    there = touched > 0
    begun = sum(spells(touched >= many) for many in range(1, int(touched.max()) + 1))
    return Measured(float(begun), {"share": float(there.mean())}, {"": there.astype(np.float64)})


def spells(holds: ArrayLike, gap: int = GAP) -> int:
    """How often something that holds or does not begins to hold, of control steps.

    Args:
        holds: (n,), truths, a control step each.
        gap: 1 or more; an interruption of fewer steps is none.

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
    """The hand's path of an episode beside the expert's on the same case.

    Attributes:
        record: the policy's, which succeeded.
        path: m.
        expert: m, the path of the expert's success; None: none is stored.
    """

    record: Record
    path: float
    expert: float | None

    @property
    def ratio(self) -> float | None:
        """1: as far as the expert; None: there is none, or it went no way."""
        return self.path / self.expert if self.expert else None


def expert_paths(records: Sequence[Record], length: Callable[[Record], float | None]) -> dict[str, float]:
    """The path of each case that the scripted expert succeeded in, m, by `Record.case`; the first record counts.

    Args:
        records: of any policies.
        length: gives the path of an episode, m; None: it is not known.
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
    """Each success's path beside the expert's. A failure's says nothing: it may have gone no way at all.

    Args:
        records: of one policy and suite.
        experts: of `expert_paths`.
        length: as there.
    """
    successes = ((record, length(record)) for record in records if record.outcome == "success")
    return tuple(PathRatio(record, path, experts.get(record.case)) for record, path in successes if path is not None)
