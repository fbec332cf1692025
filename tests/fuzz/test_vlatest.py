"""VLATest's published scene files, from their seeds, and what its scenes have."""

import json
import math
from itertools import combinations, islice

import numpy as np
import pytest

from pytest_vla.errors import VlaError
from pytest_vla.fuzz.vlatest import OBJECTS, RULES, STANDING, alike, scene_file, scenes

FILES = "t-grasp_n-1000_o-m3_s-2498586606", "t-move_n-1000_o-m3_s-2263834374", \
    "t-put-in_n-1000_o-m3_s-2905191776", "t-put-on_n-1000_o-m3_s-2593734741"  # fmt: skip


def test_a_file_with_as_many_confounders_in_each_scene_is_drawn_without_their_number() -> None:
    # Of ma-labo/VLATest's data/t-put-on_n-100_o-1_s-4192256783.json.
    first = json.loads(scene_file("put-on", 4192256783, 1, 1, exactly=True))["0"]
    assert first["model_ids"] == ["opened_coke_can", "table_cloth_generated_shorter", "opened_fanta_can"]
    assert first["obj_init_options"]["opened_coke_can"]["init_xy"] == [-0.2700603997812625, 0.06680258454045715]


@pytest.mark.parametrize("task", RULES)
def test_what_scenes_have(task: str) -> None:
    rules = RULES[task]
    found = list(islice(scenes(task, np.random.RandomState(7)), 200))
    assert {each.confounders for each in found} == {0, 1, 2, 3}
    for scene in found:
        drawn = [each for each in scene.things if each.model in OBJECTS]
        assert len({alike(each.model) for each in drawn}) == len(drawn)
        assert all(rules.x[0] <= each.at[0] <= rules.x[1] and rules.y[0] <= each.at[1] <= rules.y[1] for each in drawn)
        assert all(math.dist(one.at, other.at) >= rules.apart for one, other in combinations(scene.things, 2))
        assert scene.source != scene.target
    assert {each.turned == STANDING for scene in found for each in scene.things} == {True, False}


def test_what_is_called_alike() -> None:
    assert alike("opened_coke_can") == alike("coke_can") == "coke can"
    assert alike("bridge_carrot_generated_modified") == "carrot"
    assert alike("green_cube_3cm") != alike("yellow_cube_3cm")


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: scene_file("gasp", 1, 1), "no task 'gasp'. Did you mean grasp"),
        (lambda: scene_file("grasp", 0, 1), "seed 0: expected a whole number from 1"),
        (lambda: scene_file("move", 1, 1, 20), "20 confounders with 15 different objects: expected 0 to 13"),
        (lambda: scene_file("move", 1, 1, -1), "-1 confounders"),
    ],
)
def test_what_there_is_not_is_said(ask: object, said: str) -> None:
    assert callable(ask)
    with pytest.raises(VlaError, match=said):
        ask()
