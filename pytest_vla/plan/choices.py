"""The choices for pictures, actions, control, scenes, textures, premises and latency."""

import math
import re
from typing import NamedTuple

from pytest_vla.errors import VlaError
from pytest_vla.util.text import quoted

IMAGE_TRANSFORMS = ("none", "rotate_180", "raw")
"""How a suite may turn the pictures of its policies; `pytest_vla.policies.view` does it. ``raw`` is upside down, as
MuJoCo's renderer gives them."""

OUT_OF_RANGE = ("clip", "error")
"""What a suite may do about actions outside of [-1, 1]; `pytest_vla.episode.rollout` does it."""

UNSCALED = "unscaled"
"""In their place: actions reach a suite's own world as the policy gives them, in its units and not clipped."""

RELATIVE, ABSOLUTE, EITHER = CONTROLS = ("relative", "absolute", "either")
"""What an action of LIBERO's robot is: a change of the end effector's pose, scaled by 0.05 m and 0.5 rad, or the pose
itself (m, axis-angle in rad), both in the world's frame. Settling is relative. `pytest_vla.World` does it. ``either``:
as the policy's traits say; no record has it."""

TRAINED, INSTALLED = TEXTURES = ("trained", "installed")
"""How a suite's textures are drawn: as published checkpoints saw them (by MuJoCo before 3.3.3, which knew no colour
space of textures), or as the installed version draws them, darker from 3.3.3 on. `pytest_vla.World` does it."""

CHECK, IGNORE = PREMISES = ("check", "ignore")
"""What ``--vla-premises`` may say."""

COSTS = COSTS_ALL, COSTS_NONE = "all", "none"
"""Whether collisions are charged: see ``--vla-collision-costs``."""

MOST_SHARDS = 100_000
"""Into which a selection may be shared out."""

# What published evaluators do differently, the choice of LIBERO's suites first; see `pytest_vla.plan.evaluators`.

SEED = "seed"
"""How a suite's own scenes are drawn: see `scene_draw`."""

STARTS = INIT_STATES, DRAWN = "init_states", "drawn"
"""Where objects stand at an episode's begin: as in the task's init state, or where a reset draws them."""

CONTROLLER_6D = "controller_6d"

STATES = ("axis_angle", "axis_angle_float32", "axis_angle_antipodal", CONTROLLER_6D)
"""What the state is; `pytest_vla.policies.view.state_of` makes it."""

AS_GIVEN, SIGN, ONE_OPENS, ONE_CLOSES = GRIPPER_RULES = ("as_given", "sign", "one_opens", "one_closes")
"""What becomes of an action's last value; `pytest_vla.policies.view.gripper_of` does it."""


DOUBLE, SINGLE = PRECISIONS = ("float64", "float32")
"""The type in which actions reach the simulator. Robosuite turns the rotation of a pose into a quaternion in it."""


class SceneDraw(NamedTuple):
    """How a scene is drawn: one environment is seeded once, and reset several times before the scene's own reset.

    Attributes:
        seed: of numpy's global generator, 0 to 2**32 - 1.
        earlier: resets after seeding whose placements are not used.
        unseeded: resets before seeding.
    """

    seed: int
    earlier: int = 0
    unseeded: int = 0


MOST_IN_STREAM = 10_000
"""Scenes of one stream: each is drawn after all before it."""

_SCENES = re.compile(r"stream (?P<stream>\d{1,9})|seed(\+(?P<offset>\d{1,9}))?( after (?P<unseeded>\d{1,3}) resets?)?")


def scene_draw(scenes: str, scene_seed: int) -> SceneDraw:
    """Return how a scene's seed is drawn under a protocol's `scenes`.

    Args:
        scenes: ``seed``: ``env.seed(s); env.reset()`` on a new environment. ``seed+N``: the same with s + N. ``seed+N
            after 1 reset``: the environment was reset before. ``stream N``: ``env.seed(N)`` once, then a reset for each
            of the scenes 0 to s.
        scene_seed: s, 0 to 2**32 - 1.

    Raises:
        VlaError: `scenes` has another form, or no scene for this seed.
    """
    found = _SCENES.fullmatch(scenes)
    if found is None:
        raise VlaError(
            f"scenes is {quoted(scenes, 80)}, expected 'seed', 'seed+N', 'seed+N after K resets' or 'stream N'"
        )
    if found["stream"] is not None:
        if scene_seed >= MOST_IN_STREAM:
            raise VlaError(f"seed {scene_seed}: scenes are drawn in order ({scenes}); use seeds below {MOST_IN_STREAM}")
        return SceneDraw(int(found["stream"]), earlier=scene_seed)
    seed = scene_seed + int(found["offset"] or 0)
    if seed >= 2**32:
        raise VlaError(f"seed {scene_seed}: this evaluator's scenes are {scenes}, and the sum has to be below 2**32")
    return SceneDraw(seed, unseeded=int(found["unseeded"] or 0))


PICTURE_STEPS = {"pad": (1, 4096), "jpeg": (1, 100), "lanczos": (1, 4096), "crop": (0.01, 1)}
"""The steps that may follow a turn in a picture's transform, and the bounds of their numbers."""


def picture_steps(transform: str) -> tuple[tuple[str, float], ...]:
    """Return the steps of a picture's transform, such as ``rotate_180 > pad 224``, each with its number (a turn has 0).

    A turn, one of `IMAGE_TRANSFORMS`, is first. ``pad N``: resize to N x N with black borders; ``jpeg Q``: code and
    decode with quality Q; ``lanczos N``: resize to N x N; ``crop A``: the central share A of the area, resized back.

    Raises:
        VlaError: it has another form.
    """
    turn, *further = transform.split(" > ")
    if turn not in IMAGE_TRANSFORMS:
        raise VlaError(f"the turn is {quoted(turn)}, expected one of {', '.join(IMAGE_TRANSFORMS)}")
    found = [(turn, 0.0)]
    for step in further:
        name, _, text = step.partition(" ")
        number = float(text) if re.fullmatch(r"\d{1,5}(\.\d{1,5})?", text) else -1.0
        lowest, highest = PICTURE_STEPS.get(name, (0, -1))
        if not lowest <= number <= highest or (name != "crop" and number != int(number)):
            known = ", ".join(f"{each} {low:g} to {high:g}" for each, (low, high) in PICTURE_STEPS.items())
            raise VlaError(f"the step is {quoted(step)}, expected one of {known}")
        found.append((name, number))
    return tuple(found)


LONGEST = "longest"
"""``--vla-steps=longest``: the largest step budget of all evaluators."""


def viewed_size(transform: str, size: tuple[int, int]) -> tuple[int, int]:
    """Return height and width of a picture of this size, in pixels, after the steps of a transform."""
    sized = [int(number) for name, number in picture_steps(transform) if name in ("pad", "lanczos")]
    return (sized[-1], sized[-1]) if sized else size


FIRST, HELD, END = "first", "held", "end"
"""The forms of a protocol's `success`; ``held`` has a number of steps, such as ``held:20``."""


def steps_to_hold(success: str) -> int | None:
    """Return for how many steps on end a goal has to hold under a protocol's `success`; None for at the end.

    Raises:
        VlaError: it is not ``first``, ``held:K`` or ``end``.
    """
    if success == END:
        return None
    name, _, text = success.partition(":")
    if success == FIRST or (name == HELD and re.fullmatch(r"[1-9]\d{0,5}", text)):
        return 1 if success == FIRST else int(text)
    raise VlaError(f"success is {quoted(success)}, expected first, held:K (K steps on end) or end")


def success_rule(text: str) -> str:
    """Return a rule of success in its usual form, which is ``first`` for ``held:1``. Raises VlaError for no rule."""
    return FIRST if steps_to_hold(text) == 1 else text


# Realtime: the world moves on while the policy thinks.

WAIT, LATE, SKIP, BLEND = CLIENTS = ("wait", "late", "skip", "blend")
"""What a robot does while the policy thinks, and with an answer that comes late; see `Realtime`."""

MEASURED = "measured"
"""``--vla-realtime=measured``: each answer is as late as it took."""

_SECONDS = re.compile(r"(?P<number>[0-9]{1,5}(\.[0-9]{1,6})?|\.[0-9]{1,6})(?P<unit>ms|s)?")


class Realtime(NamedTuple):
    """How late answers are used, and how; ``--vla-realtime``.

    The policy is asked with the observation of step t. The world takes d more steps before the answer can be used, d =
    `steps_late`; they play the rest of the chunk before, and when nothing is left of it, the arm holds. Clients:

    - ``wait``: the next question is asked when the chunk (``--vla-replan`` of it) was executed. The arm holds until
      the answer is there, and the new chunk is executed from its first action. openpi's ``ActionChunkBroker`` does it,
      and any client whose loop calls the policy.
    - ``late``: the question is asked d steps before that, so that the answer is ready when the chunk was executed. The
      new chunk is executed from its first action, d steps late. VLASH's "naive async", and VLASH's own client, whose
      policy predicts for the later time.
    - ``skip``: as ``late``, but the new chunk begins at the action of the present step: as many of its first actions
      are left out as were executed since the question. lerobot's async client with ``latest_only``, and the schedule
      of real-time chunking (arXiv 2506.07339).
    - ``blend``: as ``skip``, but while the chunk before has an action for a step too, `BLENDED` of it and the rest of
      the new one are executed. lerobot's async client by default (``weighted_average``).

    Attributes:
        seconds: of every answer, or None for each answer's own wall time.
        client: one of `CLIENTS`.
    """

    seconds: float | None
    client: str = SKIP

    def __str__(self) -> str:
        """Return ``0.15 s, skip`` or ``measured, wait``, for records."""
        return f"{MEASURED if self.seconds is None else f'{_shortest(self.seconds)} s'}, {self.client}"


BLENDED = 0.3
"""The share of the chunk before in an action that is blended: lerobot's ``weighted_average``."""

NO_LATENCY = Realtime(0.0)


def steps_late(seconds: float, control_freq: int) -> int:
    """Return how many control steps pass in so many seconds, rounded up: d = ceil(seconds * control_freq)."""
    # 0.55 s at 20 Hz are 11 steps, and 0.55 * 20 is more than that.
    return math.ceil(round(seconds * control_freq, 6))


def parse_latency(text: str) -> Realtime:
    """Return the latency that ``0.15``, ``150ms``, ``measured`` or ``0.15:wait`` means.

    Raises:
        VlaError: it means none.
    """
    amount, colon, client = text.strip().partition(":")
    found = _SECONDS.fullmatch(amount)
    if (found is None and amount != MEASURED) or (colon and client not in CLIENTS):
        raise VlaError(
            f"{quoted(text)} is not a latency: expected seconds of 0 or more, such as 0.15 or 150ms, or {MEASURED}; "
            f"optionally a colon and one of {', '.join(CLIENTS)}, as in 0.15:{WAIT}"
        )
    seconds = None if found is None else float(found["number"]) / (1000 if found["unit"] == "ms" else 1)
    return Realtime(seconds, client or SKIP)


def latency_rule(text: str) -> str:
    """Return the text of a latency in its usual form, such as ``0.15`` for ``150ms:skip``. Raises VlaError for none."""
    seconds, client = parse_latency(text)
    amount = MEASURED if seconds is None else _shortest(seconds)
    return amount if client == SKIP else f"{amount}:{client}"


def _shortest(seconds: float) -> str:
    return f"{seconds:.9f}".rstrip("0").rstrip(".")
