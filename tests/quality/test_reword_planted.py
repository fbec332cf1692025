"""A planted word on `tabletop`, in real MuJoCo: the closest rewording without it is found, and breaks the task."""

from contextlib import closing
from random import Random
from typing import Any

import numpy as np
import pytest

from pytest_vla.episode.rollout import Conditions
from pytest_vla.episode.world_pool import WorldPool
from pytest_vla.expert.policy import expert_policy
from pytest_vla.fuzz.reword import find_closest, ranked, rewordings
from pytest_vla.fuzz.trial import Trials
from pytest_vla.language.backends import template_backend
from pytest_vla.plan.manifests import load_suite
from pytest_vla.policies.base import Episode

pytestmark = pytest.mark.slow

TASK = load_suite("tabletop").task("turn_on_the_stove")
STAND = np.zeros((20, 7))


def knows_no_other_name(episode: Episode) -> Any:
    """The expert, who stands still where the stove is called otherwise."""
    knows = "stove" in episode.instruction.lower().replace("?", "").split()
    session = expert_policy(episode)
    return lambda observation: session(observation) if knows else STAND


knows_no_other_name.privileged = True  # type: ignore[attr-defined]


def test_the_closest_other_name_breaks_it() -> None:
    order = ranked(TASK, rewordings(TASK), template_backend())
    nearest = next(each for each in order if "-stove" in each.changed)
    with closing(WorldPool(False)) as worlds:
        trials = Trials(knows_no_other_name, worlds, Conditions(model="planted"))
        seen = find_closest(TASK, (0, 1), order, trials, 8, Random(0))
    assert seen.closest is not None
    assert order[seen.closest.place].rank == nearest.rank
    assert (seen.closest.failed, seen.closest.tried) == (4, 4)
    assert (seen.closest.failed_elsewhere, seen.closest.tried_elsewhere) == (1, 1)
    assert all((each.outcome == "fails") == ("-stove" in order[each.place].changed) for each in seen.tried), (
        "only the planted word"
    )
