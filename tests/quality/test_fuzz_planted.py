"""Planted bugs on `tabletop`, in real MuJoCo: found within so many scenes, and shrunk to what was planted."""

from collections.abc import Callable
from contextlib import closing
from random import Random
from typing import Any

import numpy as np
import pytest

from pytest_vla.episode.rollout import Conditions
from pytest_vla.episode.world_pool import WorldPool
from pytest_vla.expert.policy import expert_policy
from pytest_vla.fuzz.propose import fuzzed_kinds
from pytest_vla.fuzz.search import Searched, search
from pytest_vla.fuzz.trial import Trials
from pytest_vla.plan.manifests import load_suite
from pytest_vla.policies.base import Episode
from pytest_vla.sim.world import World

pytestmark = pytest.mark.slow

TASK = load_suite("tabletop").task("turn_on_the_stove")
STAND = np.zeros((20, 7))


def with_bug(is_blind: Callable[[World], bool]) -> Any:
    """The expert, who stands still where something of the scene at its beginning is so."""

    def policy(episode: Episode) -> Any:
        blind = is_blind(episode.world)
        session = expert_policy(episode)
        return lambda observation: STAND if blind else session(observation)

    policy.privileged = True  # type: ignore[attr-defined]
    return policy


def searched(policy: Any, dimensions: tuple[str, ...], scenes: int) -> Searched:
    with closing(WorldPool(False)) as worlds:
        trials = Trials(policy, worlds, Conditions(model="planted"))
        return search(TASK, (0, 1), fuzzed_kinds(TASK, dimensions), trials, scenes, Random(0))


def bearing(world: World) -> float:
    """Degrees about the vertical from which the outer camera looks."""
    x, y, _ = world.model.cam_pos[world.model.camera("agentview").id]
    return float(np.degrees(np.arctan2(y, x)))


def test_a_camera_angle(capsys: pytest.CaptureFixture[str]) -> None:
    seen = searched(with_bug(lambda world: bearing(world) > 25), ("camera", "light"), 40)
    causes = {each.cause for each in seen.found}
    assert (("camera.azimuth", 1),) in causes
    found = next(each for each in seen.found if each.cause == (("camera.azimuth", 1),))
    (change,) = found.shrunk.candidate.changes
    assert 25 < change.params["azimuth_deg"] < 25 * 1.15
    assert not found.is_flaky
    with capsys.disabled():
        print(f"\n{seen.proposed} scenes, {seen.failed} failed, {[each.shrunk.tried for each in seen.found]} episodes")


def test_an_arm_that_begins_elsewhere() -> None:
    def turned(world: World) -> bool:
        return bool(world.data.qpos[world.model.joint("robot0_joint4").qposadr[0]] > -2.1)

    seen = searched(with_bug(turned), ("robot", "light"), 30)
    robot = [each for each in seen.found if {kind for kind, _ in each.cause} == {"robot.joints"}]
    assert robot
    for each in robot:
        (change,) = each.shrunk.candidate.changes
        # Joint 4 rests at -2.4: 0.3 rad is the boundary, whatever the others did when it was found.
        assert [place for place, value in enumerate(change.params["offset"]) if value] == [3]
        assert 0.25 < change.params["offset"][3] < 0.3 * 1.2


def test_light_from_one_side() -> None:
    def lit(world: World) -> bool:
        main = int(np.argmax(world.model.light_diffuse.mean(axis=1)))
        return bool(world.model.light_dir[main][1] > 0.3)

    seen = searched(with_bug(lit), ("light", "camera"), 40)
    assert {each.cause for each in seen.found} == {(("light.direction", 1),)}


def test_without_a_bug_nothing_is_found() -> None:
    policy = with_bug(lambda world: False)
    seen = searched(policy, ("camera", "light", "robot"), 12)
    assert seen.found == ()
    assert seen.failed == 0
