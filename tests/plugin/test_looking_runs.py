"""Probes of whether a policy looks, in real runs: of one that looks, and of one that goes where it went before."""

import json
import sys
from pathlib import Path

import pytest

POLICIES = """
import numpy as np
from pytest_vla import World, load_suite
from pytest_vla.expert.rehearsal import Expert

STILL = np.tile([0.0, 0, 0, 0, 0, 0, -1], (20, 1))

# Acts on pictures of which any is black as if it saw nothing, and only where the bowl is on the table.
def looker(episode):
    expert, bowl = Expert(episode.world), episode.world.data.body("bowl_1_main").xpos[2] < 2

    def session(observation):
        dark = observation["agentview_image"].max() == 0
        return STILL if dark or not bowl else expert(observation)

    return session

looker.privileged = True

# Does what is right in the scene as it knows it, whatever there is.
def blind(episode):
    known = World(load_suite("tabletop").task(episode.task), image_size=(32, 32))
    known.reset(episode.seed, scene_seed=episode.seed)
    expert = Expert(known)

    def session(observation):
        action = np.asarray(expert(observation)).reshape(-1)
        known.step(action)
        return action[None]

    return session
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["looker", "blind"])
def test_a_policy_that_looks_and_one_that_does_not(pytester: pytest.Pytester, name: str) -> None:
    pytester.makepyfile(policies=POLICIES)
    result = pytester.runpytest_subprocess(
        "--vla-suite=tabletop", "--vla-tasks=put_the_bowl_on_the_plate", "--vla-twins=auto", "--vla-seeds=0-1",
        f"--vla-model=policies:{name}", "--vla-vary=layout.removed,camera.blackout.third_person",
    )  # fmt: skip
    result.assert_outcomes(passed=6)
    # No PATH: CI runs pytest out of a virtual environment that nobody activated.
    shown = pytester.run(Path(sys.executable).with_name("pytest-vla"), "report", "--format=json")
    (model,) = json.loads(shown.stdout.str())["models"]
    dark, gone = model["looking"]
    looks = name == "looker"
    assert (dark["probe"], dark["right"]["count"], dark["blind"]["count"]) == (
        "blackout, third person", 2, 0 if looks else 2,
    )  # fmt: skip
    assert (gone["went"]["count"], gone["went"]["of"]) == (0 if looks else 2, 2)
    assert gone["same"]["count"] == (0 if looks else 2)
    assert (gone["apart"]["value"] < 0.005) == (not looks)
