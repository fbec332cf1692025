"""Physics trouble made visible: MuJoCo goes on after NaN and writes a log file; here it ends the episode by name."""

import collections
import logging

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

_messages: collections.deque[str] = collections.deque(maxlen=20)


def redirect_warnings() -> None:
    """Sends MuJoCo's warnings of this process to the logger of this module, not to MUJOCO_LOG.TXT."""
    mujoco.set_mju_user_warning(_receive)


def _receive(message: str) -> None:
    _messages.append(message)
    logger.debug("MuJoCo: %s", message)


def check_physics(data: mujoco.MjData, time_before: float) -> None:
    """Looks at MuJoCo's warnings and at time after a control step.

    Args:
        data: after the step; its warning counters are cleared when it raises.
        time_before: `data.time` (s) before the step.

    Raises:
        EpisodeError: with a reason code, the value's index and MuJoCo's message.
    """
    numbers = data.warning.number
    if not numbers.any() and data.time > time_before:
        return
    for kind, (reason, meaning) in _REASONS.items():
        if numbers[kind]:
            index = int(data.warning.lastinfo[kind])
            numbers[:] = 0
            said = f" MuJoCo: {_messages[-1]}" if _messages else ""
            raise EpisodeError(reason, f"{meaning} (index {index}) after {time_before:.2f} s.{said}")
    if not data.time > time_before:
        raise EpisodeError("physics-time", f"time went from {time_before:.3f} s to {data.time:.3f} s in a step")
