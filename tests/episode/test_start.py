"""How an episode begins under a variation: drawn anew where nothing could be measured, and recorded as it was drawn."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from pytest_vla.episode.result import Rollout
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.errors import RedrawError
from pytest_vla.plan.case import Case
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import ModelEdit, Variation, joined
from pytest_vla.testing import World
from pytest_vla.vary.kind import MOST_DRAWS

TASK = load_suite("tabletop").task("turn_on_the_stove")
STOP = np.array([0.0, 0, 0, 0, 0, 0, -1])


def drawn(time: int = 0, **changes: Any) -> Variation:
    made = Variation("camera.turned-L2", "camera", "turned", 2, {"angle": 10 * time}, in_sight=True, redraw=drawn)
    return dataclasses.replace(made, model=(ModelEdit((), lambda model, scene: None),), **changes)


class Blind(World):
    """Sees nothing until the camera was drawn for the `clear`-th time; cannot be reset in the first draw."""

    clear = 2

    def reset(self, init_state: int, scene_seed: int, settle: bool) -> Any:
        if self.variation.parameters["angle"] == 0:
            raise RedrawError("the arm would begin in the plate")
        return super().reset(init_state, scene_seed, settle)

    def out_of_sight(self) -> str:
        return "" if self.variation.parameters["angle"] >= 10 * self.clear else "plate_1 is not seen"


def run(variation: Variation, world: type[World] = World, **task: Any) -> Rollout:
    short = dataclasses.replace(TASK, protocol=dataclasses.replace(TASK.protocol, max_steps=6))
    case = Case("tabletop", TASK.name, 3, variation.label)

    def opened(task: Task, variation: Variation | None) -> World:
        return world(task, variation)

    return run_episode(
        case, short, lambda episode: lambda observation: STOP, opened, Conditions("mine"), variation=variation
    )


def test_a_variation_is_drawn_again_until_the_tasks_objects_are_seen() -> None:
    ended = run(drawn(), Blind)
    assert ended.record.outcome == "failure"
    assert ended.record.variation["parameters"] == {"angle": 20}
    assert ended.variation is not None
    assert ended.variation.parameters == {"angle": 20}


def test_one_that_never_shows_them_is_invalid() -> None:
    class Darker(Blind):
        clear = MOST_DRAWS

    record = run(drawn(), Darker).record
    assert (record.outcome, record.reason, record.steps) == ("invalid", "out-of-sight", 0)
    assert record.message == f"plate_1 is not seen (the last of {MOST_DRAWS} draws)"


def test_one_that_draws_nothing_is_not_drawn_again() -> None:
    looked = []

    class Dark(World):
        def out_of_sight(self) -> str:
            looked.append(self)
            return "plate_1 is not seen"

    record = run(drawn(redraw=None), Dark).record
    assert (record.outcome, record.message, len(looked)) == ("invalid", "plate_1 is not seen", 1)
    assert run(drawn(in_sight=False), Dark).record.outcome == "failure"


def test_actions_are_changed_before_they_are_executed_and_recorded_as_the_policy_gave_them() -> None:
    def late() -> Any:
        waiting = [np.zeros(7)]

        def delayed(action: Any) -> Any:
            waiting.append(action)
            return waiting.pop(0)

        return delayed

    worlds = []

    class Watched(World):
        def __init__(self, *arguments: Any, **keywords: Any) -> None:
            super().__init__(*arguments, **keywords)
            self.taken: list[float] = []
            worlds.append(self)

        def step(self, action: Any) -> Any:
            self.taken.append(float(action[6]))
            return super().step(action)

    ended = run(Variation("action.delay-L1", "action", "delay", 1, actions=(late,)), Watched)
    assert worlds[0].taken == [0.0, -1.0, -1.0, -1.0, -1.0, -1.0]
    assert (ended.trajectory.actions[:, 6] == -1.0).all()


@pytest.mark.parametrize(("speed", "asked"), [(-1.0, 1.0), (0.0, 0.0)])
def test_a_probe_tells_whether_what_was_asked_for_was_done(speed: float, asked: float) -> None:
    probe = Variation(
        "language.other_task", "language", "other_task", instruction="do it", probe=True, asked=lambda p: p
    )
    case = Case("tabletop", TASK.name, 3, probe.label)
    action = np.array([speed, 0, 0, 0, 0, 0, -1])
    ended = run_episode(
        case, TASK, lambda episode: lambda observation: action, World, Conditions("mine"), variation=probe
    )
    assert ended.record.metrics["asked_done"] == asked
    assert ended.record.is_probe
    assert (ended.success, ended.passed) == (False, True)
    assert "instruction 'do it' instead of 'turn on the stove'" in ended.explanation


@pytest.mark.parametrize(("solved", "outcome"), [(True, "failure"), (False, "invalid")])
def test_a_changed_scene_that_the_expert_cannot_do_is_invalid_where_that_is_asked(solved: bool, outcome: str) -> None:
    class Tried(World):
        def infeasible(self) -> str:
            self.step(STOP)
            return (
                ""
                if solved or self.variation is None
                else "the expert does not do it in 300 steps: (on bowl_1 plate_1)"
            )

    moved = Variation("layout.moved-L1", "layout", "moved", 1, state=(lambda model, scene, state: None,))
    case = Case("tabletop", TASK.name, 3, moved.label)
    short = dataclasses.replace(TASK, protocol=dataclasses.replace(TASK.protocol, max_steps=6))
    for feasible in (True, False):
        conditions = Conditions("mine", feasible=feasible)
        ended = run_episode(case, short, lambda e: lambda o: STOP, Tried, conditions, variation=moved)
        assert ended.record.outcome == (outcome if feasible else "failure")
        assert ended.record.reason == ("infeasible" if feasible and not solved else None)
        assert ended.steps == (0 if ended.record.outcome == "invalid" else 6)


def test_the_parts_of_a_joint_variation_are_drawn_as_they_are_alone() -> None:
    fog = Variation("noise.fog-L1", "noise", "fog", 1, {"seed": 5}, redraw=lambda time: pytest.fail("it was seen"))
    both = joined("camera.turned-L2+noise.fog-L1", (drawn(), dataclasses.replace(fog, redraw=None)))

    class Both(Blind):
        def _angle(self) -> int:
            found = self.variation.parameters
            return int(found["angle"] if "angle" in found else found["camera.turned.angle"])

        def reset(self, init_state: int, scene_seed: int, settle: bool) -> Any:
            if self._angle() == 0:
                raise RedrawError("the arm would begin in the plate")
            return World.reset(self, init_state, scene_seed, settle)

        def out_of_sight(self) -> str:
            return "" if self._angle() >= 20 else "plate_1 is not seen"

    ended = run(both, Both)
    assert ended.record.outcome == "failure"
    assert ended.record.variation["parameters"] == {"camera.turned.angle": 20, "noise.fog.seed": 5}


def test_what_the_expert_never_does_is_not_held_against_the_scene() -> None:
    class Never(World):
        def infeasible(self) -> str:
            return "the expert does not do it in 300 steps: (on bowl_1 plate_1)"

    moved = Variation("layout.moved-L1", "layout", "moved", 1, state=(lambda model, scene, state: None,))
    case = Case("tabletop", TASK.name, 3, moved.label)
    short = dataclasses.replace(TASK, protocol=dataclasses.replace(TASK.protocol, max_steps=6))
    conditions = Conditions("mine", feasible=True)
    ended = run_episode(case, short, lambda e: lambda o: STOP, Never, conditions, variation=moved)
    assert ended.record.outcome == "failure"
    assert ended.record.variation["label"] == moved.label
