"""Planted bugs on `tabletop`, in real MuJoCo: found within so many scenes, and shrunk to what was planted."""

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from pytest_vla.episode.rollout import Conditions
from pytest_vla.episode.world_pool import WorldPool
from pytest_vla.expert.policy import expert_policy
from pytest_vla.fuzz.found import Searched
from pytest_vla.fuzz.proposals import fuzzed_kinds
from pytest_vla.fuzz.shrink import MOST_EPISODES
from pytest_vla.fuzz.task_search import search
from pytest_vla.fuzz.trial import Trials
from pytest_vla.plan.manifests import load_suite
from pytest_vla.policies.base import Episode
from pytest_vla.sim.world import World
from pytest_vla.vary.kind import VariationKind

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


def searched(policy: Any, kinds: Sequence[VariationKind], scenes: int, guided: bool = True) -> Searched:
    with closing(WorldPool(False)) as worlds:
        trials = Trials(policy, worlds, Conditions(model="planted"))
        return search(TASK, (0, 1), kinds, trials, scenes, "0", guided=guided)


def drawn(world: World, name: str) -> float:
    """A parameter of the world's variation, wherever it stands in a joint one; 0 where it has none."""
    found = {} if world.variation is None else world.variation.parameters
    return float(next((value for key, value in found.items() if key.endswith(name)), 0.0))


def test_a_camera_angle() -> None:
    seen = searched(
        with_bug(lambda world: drawn(world, "azimuth_deg") > 25), fuzzed_kinds(TASK, ("camera", "light")), 16
    )
    assert {each.cause for each in seen.found} == {(("camera.azimuth", (("azimuth_deg", 1),)),)}
    (found,) = seen.found
    (change,) = found.shrunk.candidate.changes
    assert 25 < change.params["azimuth_deg"] < 25 * 1.15
    assert not found.is_flaky
    assert found.shrunk.tried <= MOST_EPISODES


@pytest.mark.study
def test_two_at_once() -> None:
    """Neither alone breaks it, so neither is left out when it is made smaller."""
    pair = tuple(kind for kind in fuzzed_kinds(TASK) if kind.name in ("camera.azimuth", "noise.zoom"))
    bug = with_bug(lambda world: drawn(world, "azimuth_deg") > 10 and drawn(world, "zoom.factor") > 1.2)
    seen = searched(bug, pair, 12)
    (found,) = seen.found
    params = {change.kind: change.params for change in found.shrunk.candidate.changes}
    assert params.keys() == {"camera.azimuth", "noise.zoom"}
    assert 10 < params["camera.azimuth"]["azimuth_deg"] < 10 * 1.15
    assert 0.2 < params["noise.zoom"]["factor"] - 1 < 0.2 * 1.15


@pytest.mark.study
def test_what_the_light_does_to_the_scene_is_the_cause_whatever_kind_does_it() -> None:
    """The bug sees where the main light shines to; two kinds turn it, and no other is told."""

    def lit(world: World) -> bool:
        main = int(np.argmax(world.model.light_diffuse.mean(axis=1)))
        return bool(world.model.light_dir[main][1] > 0.3)

    seen = searched(with_bug(lit), fuzzed_kinds(TASK, ("light",)), 25, guided=False)
    causes = {tuple(kind for kind, _ in each.cause) for each in seen.found}
    assert causes
    assert causes <= {("light.direction",), ("light.shadow",)}


def test_without_a_bug_nothing_is_found() -> None:
    policy = with_bug(lambda world: False)
    seen = searched(policy, fuzzed_kinds(TASK, ("camera", "light", "robot")), 8)
    assert seen.found == ()
    assert seen.failed == seen.guided_failed == 0
