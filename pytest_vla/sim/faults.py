"""Physics errors made visible: MuJoCo continues after NaN and writes a log file; here an error ends the episode."""

import collections
import logging
from collections.abc import Collection

import mujoco

from pytest_vla.errors import EpisodeError

logger = logging.getLogger(__name__)

# In the order in which they are reported, the cause before its consequences.
_REASONS = {
    mujoco.mjtWarning.mjWARN_BADQPOS: ("physics-nan", "NaN or a huge number in qpos"),
    mujoco.mjtWarning.mjWARN_BADQVEL: ("physics-nan", "NaN or a huge number in qvel"),
    mujoco.mjtWarning.mjWARN_BADQACC: ("physics-bad-acceleration", "NaN or a huge number in qacc"),
    mujoco.mjtWarning.mjWARN_BADCTRL: ("physics-bad-control", "NaN or a huge number in ctrl"),
    mujoco.mjtWarning.mjWARN_CONTACTFULL: ("physics-contacts-full", "the buffer of contacts is full"),
    mujoco.mjtWarning.mjWARN_CNSTRFULL: ("physics-constraints-full", "the buffer of constraints is full"),
    mujoco.mjtWarning.mjWARN_INERTIA: ("physics-bad-inertia", "the inertia matrix is singular"),
}

UNSTABLE = (mujoco.mjtWarning.mjWARN_BADQPOS, mujoco.mjtWarning.mjWARN_BADQVEL, mujoco.mjtWarning.mjWARN_BADQACC)
"""The warnings with which MuJoCo starts a simulation anew."""

_messages: collections.deque[str] = collections.deque(maxlen=20)


def redirect_warnings() -> None:
    """Send MuJoCo's warnings of this process to the logger of this module, not to MUJOCO_LOG.TXT."""
    mujoco.set_mju_user_warning(_receive)


def _receive(message: str) -> None:
    _messages.append(message)
    logger.debug("MuJoCo: %s", message)


def check_physics(data: mujoco.MjData, time_before: float) -> None:
    """Check MuJoCo's warnings and the time after a control step.

    Args:
        data: after the step; its warning counters are cleared when it raises.
        time_before: `data.time` (s) before the step.

    Raises:
        EpisodeError: with a reason code, the value's index and MuJoCo's message.
    """
    check_warnings(data, time_before)
    if not data.time > time_before:
        raise EpisodeError("physics-time", f"time went from {time_before:.3f} s to {data.time:.3f} s in a step")


def check_warnings(data: mujoco.MjData, time_before: float, kinds: Collection[int] = tuple(_REASONS)) -> None:
    """Check MuJoCo's warnings after a control step.

    Args:
        data: after the step; its warning counters are cleared when it raises.
        time_before: `data.time` (s) before the step.
        kinds: of the warnings that count, of mjtWarning; all that have a reason by default.

    Raises:
        EpisodeError: with a reason code, the value's index and MuJoCo's message.
    """
    numbers = data.warning.number
    if not numbers.any():
        return
    for kind, (reason, meaning) in _REASONS.items():
        if kind in kinds and numbers[kind]:
            index = int(data.warning.lastinfo[kind])
            numbers[:] = 0
            said = f" MuJoCo: {_messages[-1]}" if _messages else ""
            raise EpisodeError(reason, f"{meaning} (index {index}) after {time_before:.2f} s.{said}")
