"""Variations of what the policy wants: actions that come late, and actions with noise."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_vla.scene.variation import Variation
from pytest_vla.vary.kind import LEVELS, Draw, Kind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Act = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_STD = 0.05


def delay(draw: Draw) -> Variation:
    """Each action is executed `level` control steps after it was given; until then the suite's settle action."""
    steps, first = draw.level, draw.task.protocol.settle_action

    def begin() -> "Act":
        import numpy as np

        waiting = deque(np.array(first, dtype=np.float64) for _ in range(steps))

        def late(action: "NDArray[np.float64]") -> "NDArray[np.float64]":
            waiting.append(np.array(action, dtype=np.float64))
            return waiting.popleft()

        return late

    milliseconds = round(1000 * steps / draw.task.protocol.control_freq, 3)
    parameters = {"steps": steps, "milliseconds": milliseconds}
    return Variation(draw.label, "action", "delay", draw.level, parameters, actions=(begin,))


def noise(draw: Draw) -> Variation:
    """Gaussian noise on translation and rotation, clipped to [-1, 1]; the gripper does what it is told.

    What is drawn is the same for all levels, which scale it.
    """
    std = round(_STD * draw.level, 2)
    seed = draw.shared("action.noise").getrandbits(32)

    def begin() -> "Act":
        import numpy as np

        numbers = np.random.Generator(np.random.PCG64(seed))

        def shaken(action: "NDArray[np.float64]") -> "NDArray[np.float64]":
            result = np.array(action, dtype=np.float64)
            result[:6] = np.clip(result[:6] + numbers.normal(0.0, std, 6), -1.0, 1.0)
            return result

        return shaken

    parameters = {"std": std, "noise_seed": seed}
    return Variation(draw.label, "action", "noise", draw.level, parameters, actions=(begin,))


KINDS = (
    Kind(
        "action.delay",
        "every action is executed some control steps late",
        "ours",
        delay,
        levels=LEVELS,
        grades="1 to 5 control steps (50 to 250 ms at 20 Hz)",
    ),
    Kind(
        "action.noise",
        "Gaussian noise on each action's translation and rotation",
        "ours",
        noise,
        levels=LEVELS,
        grades="standard deviation 0.05 to 0.25 of the largest action",
    ),
)
