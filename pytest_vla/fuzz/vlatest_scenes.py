"""Proposals as VLATest draws its scenes (arXiv 2409.12894), on any suite's tasks and by our kinds of change.

0 to 3 objects beside those that are asked of, each number as likely; and of three scenes one each with other light,
with the camera turned, and with neither, as its research questions have them. What is otherwise: objects stand where
there is room, so that the task can still be done; what is asked of stands where the suite's init state has it; brighter
goes to the brightest that our pictures show, and not to 20 times; the camera is turned and not also moved by up to
5 cm, as a camera has one change here.
"""

import math
from collections.abc import Sequence
from random import Random

from pytest_vla.errors import VlaError
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.vlatest import MOST_CONFOUNDERS
from pytest_vla.plan.labels import levelled
from pytest_vla.plan.task import Task
from pytest_vla.vary.chosen import Change, change_of
from pytest_vla.vary.kind import SHARE, Draw, Kind
from pytest_vla.vary.registry import find_variation

OBJECTS, LIGHT, CAMERA = "layout.distractors", "light.diffuse", "camera.orientation"
"""The kinds that scenes are made of."""

DARKEST = 1 / 20
MOST_TURN = 5.0
"""Degrees, of each of pitch and yaw."""

_MOST_DRAWS = 100


def propose_as_vlatest(task: Task, seed: int, some: Sequence[Kind], generator: Random) -> Candidate:
    """A scene as VLATest draws one; in the place of `pytest_vla.fuzz.propose.propose`.

    Args:
        task: as it is.
        seed: of the case.
        some: kinds that may be taken; others than `OBJECTS`, `LIGHT` and `CAMERA` are not.
        generator: the same state gives the same scene.

    Raises:
        VlaError: none of the kinds is there, or none of many draws is a scene that the task can have.
    """
    by_name = {kind.name: kind for kind in some if kind.name in (OBJECTS, LIGHT, CAMERA)}
    if not by_name:
        raise VlaError(f"{task.id}: VLATest's scenes need a kind of {OBJECTS}, {LIGHT}, {CAMERA}")
    why = ""
    for _ in range(_MOST_DRAWS):
        try:
            candidate = Candidate(task, seed, tuple(_changes(task, by_name, generator)))
            if candidate.changes:
                find_variation(task, candidate.label, seed)
                return candidate
        except VlaError as error:
            why = str(error)
    raise VlaError(f"{task.id}: none of {_MOST_DRAWS} draws is a scene that it can have; the last one: {why}")


def _changes(task: Task, by_name: dict[str, Kind], generator: Random) -> list[Change]:
    found = []
    number, beside = generator.randint(0, MOST_CONFOUNDERS), generator.choice(("", LIGHT, CAMERA))
    if number and OBJECTS in by_name:
        kind = by_name[OBJECTS]
        draw = Draw(task, levelled(kind.name, number), generator.getrandbits(31), number)
        found.append(change_of(kind.name, kind.sample(draw)))
    if beside in by_name:
        found.append(_lit(by_name[LIGHT], task, generator) if beside == LIGHT else _turned(generator))
    return found


def _lit(kind: Kind, task: Task, generator: Random) -> Change:
    (bounds,) = (each for each in kind.space(task) if each.name == "gain_rgb")
    darker = generator.choice((True, False))
    gain = generator.uniform(max(DARKEST, bounds.low), 1.0) if darker else generator.uniform(1.0, bounds.high)
    params = {"gain_rgb": [gain] * 3, "gain_rgb_overlit": [min(gain, 1.0)] * 3, SHARE: 1.0}
    return change_of(LIGHT, params)


def _turned(generator: Random) -> Change:
    pitch, yaw = (generator.uniform(-MOST_TURN, MOST_TURN) for _ in range(2))
    # Of angles so small both turns are one about the axis between.
    angle = math.hypot(pitch, yaw)
    return change_of(CAMERA, {"angle_deg": angle, "axis_pitch_yaw_roll": [pitch / angle, yaw / angle, 0.0]})
