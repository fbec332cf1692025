"""Variations of what the policy wants: actions or whole answers that come late, and actions with noise."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import LATENCY
from pytest_vla.plan.choices import UNSCALED, steps_late
from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Edits, Params
from pytest_vla.vary.kind import AMOUNT, LEVELS, PICTURE, Draw, VariationKind
from pytest_vla.vary.space import NUMBER, SEED, WHOLE, Parameter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Act = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_STD = 0.05
_SEED_BITS = 32
_MILLISECONDS = (50.0, 100.0, 200.0, 400.0, 800.0)
"""The latency of an answer by level: from a small network beside the robot to a large one behind a network."""


def delayed(task: Task, params: Params) -> Edits:
    """Return edits that execute each action some steps late.

    The suite's settle action fills the first steps, or the policy's first action, if actions are not scaled: a target
    of 0 may be far away.
    """
    steps, protocol = params["steps"], task.protocol

    def begin() -> "Act":
        import numpy as np

        waiting: deque[NDArray[np.float64]] = deque()

        def late(action: "NDArray[np.float64]") -> "NDArray[np.float64]":
            if not waiting:
                first = action if protocol.out_of_range == UNSCALED else protocol.settle_action
                waiting.extend(np.array(first, dtype=np.float64) for _ in range(steps))
            waiting.append(np.array(action, dtype=np.float64))
            return waiting.popleft()

        return late

    milliseconds = round(1000 * steps / task.protocol.control_freq, 3)
    return Edits(actions=(begin,), told={"steps": steps, "milliseconds": milliseconds})


def slow(task: Task, params: Params) -> Edits:
    """Return edits that let each answer come later while the world moves on (`pytest_vla.plan.choices.Realtime`).

    Raises VlaError if an episode is over before the first answer.
    """
    seconds, protocol = params["milliseconds"] / 1000, task.protocol
    steps = steps_late(seconds, protocol.control_freq)
    if steps >= protocol.max_steps:
        raise VlaError(f"the first answer comes after {steps} steps, and an episode has {protocol.max_steps}")
    return Edits(latency=seconds or None, told={**params, "steps": steps})


def draw_noise(draw: Draw) -> Params:
    """Draw the noise seed, which all levels share: a level only scales the standard deviation."""
    return {"std": round(_STD * draw.level, 2), "noise_seed": draw.shared("action.noise").getrandbits(_SEED_BITS)}


def noisy(task: Task, params: Params) -> Edits:
    """Return edits that add Gaussian noise to translation and rotation, clipped to [-1, 1]; the gripper has none.

    If the suite brings its own world, all of the action gets noise, because the meaning of its numbers is unknown. If
    its actions are not scaled, 1 is half of their range, and they are not clipped.
    """
    size = 6 if task.world is None else task.protocol.action_size
    clips, half = task.protocol.out_of_range != UNSCALED, [(b - a) / 2 for a, b in task.protocol.action_bounds] or 1.0
    std, seed = params["std"], params["noise_seed"]

    def begin() -> "Act":
        import numpy as np

        numbers = np.random.Generator(np.random.PCG64(seed))

        def shaken(action: "NDArray[np.float64]") -> "NDArray[np.float64]":
            result = np.array(action, dtype=np.float64)
            moved = result[:size] + np.multiply(numbers.normal(0.0, std, size), half)
            result[:size] = np.clip(moved, -1.0, 1.0) if clips else moved
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
    VariationKind(
        LATENCY,
        "every answer of the policy comes late, and the world moves on meanwhile",
        "ours",
        lambda draw: {"milliseconds": _MILLISECONDS[draw.level - 1]},
        slow,
        lambda task: (Parameter("milliseconds", NUMBER, 0.0, _MILLISECONDS[-1], 0.0, unit="ms"),),
        levels=LEVELS,
        grades="50, 100, 200, 400 and 800 ms, in whole control steps, rounded up",
        by_name=True,
        uneven=(AMOUNT, PICTURE),
        needs=(),
    ),
)
