"""Variations of what the policy wants: actions that come late, and actions with noise."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Edits, Params
from pytest_vla.vary.kind import LEVELS, Draw, VariationKind
from pytest_vla.vary.space import NUMBER, SEED, WHOLE, Parameter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Act = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_STD = 0.05
_SEED_BITS = 32


def delayed(task: Task, params: Params) -> Edits:
    """Return edits that execute each action some steps late; the suite's settle action fills the first steps."""
    steps, first = params["steps"], task.protocol.settle_action

    def begin() -> "Act":
        import numpy as np

        waiting = deque(np.array(first, dtype=np.float64) for _ in range(steps))

        def late(action: "NDArray[np.float64]") -> "NDArray[np.float64]":
            waiting.append(np.array(action, dtype=np.float64))
            return waiting.popleft()

        return late

    milliseconds = round(1000 * steps / task.protocol.control_freq, 3)
    return Edits(actions=(begin,), told={"steps": steps, "milliseconds": milliseconds})


def draw_noise(draw: Draw) -> Params:
    """Draw the noise seed, which all levels share: a level only scales the standard deviation."""
    return {"std": round(_STD * draw.level, 2), "noise_seed": draw.shared("action.noise").getrandbits(_SEED_BITS)}


def noisy(task: Task, params: Params) -> Edits:
    """Return edits that add Gaussian noise to translation and rotation, clipped to [-1, 1]; the gripper has none.

    If the suite brings its own world, all of the action gets noise, because the meaning of its numbers is unknown.
    """
    size = 6 if task.world is None else task.protocol.action_size
    std, seed = params["std"], params["noise_seed"]

    def begin() -> "Act":
        import numpy as np

        numbers = np.random.Generator(np.random.PCG64(seed))

        def shaken(action: "NDArray[np.float64]") -> "NDArray[np.float64]":
            result = np.array(action, dtype=np.float64)
            result[:size] = np.clip(result[:size] + numbers.normal(0.0, std, size), -1.0, 1.0)
            return result

        return shaken

    return Edits(actions=(begin,))


KINDS = (
    VariationKind(
        "action.delay",
        "every action is executed some control steps late",
        "ours",
        lambda draw: {"steps": draw.level},
        delayed,
        lambda task: (Parameter("steps", WHOLE, 0, LEVELS[-1], 0, unit="control steps"),),
        levels=LEVELS,
        grades="1 to 5 control steps (50 to 250 ms at 20 Hz)",
        needs=(),
    ),
    VariationKind(
        "action.noise",
        "Gaussian noise on each action's translation and rotation",
        "ours",
        draw_noise,
        noisy,
        lambda task: (
            Parameter("std", NUMBER, 0.0, round(_STD * LEVELS[-1], 2), 0.0),
            Parameter("noise_seed", SEED, 0, 2**_SEED_BITS - 1),
        ),
        levels=LEVELS,
        grades="standard deviation 0.05 to 0.25 of the largest action",
        needs=(),
    ),
)
