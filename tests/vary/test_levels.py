"""What kinds say of how evenly their levels grow: of amounts by their numbers, of pictures by measuring."""

import numpy as np
import pytest

from pytest_vla.plan.manifests import load_suite
from pytest_vla.vary.axes.noise import _GRADES
from pytest_vla.vary.kind import AMOUNT, PICTURE
from pytest_vla.vary.registry import evenness_of, kinds, kinds_table, known_kind
from tests.support import levels

NONE = {"factor": 1.0, "quality": 100.0}
"""Magnitudes that change nothing, where that is not 0."""


def test_noise_whose_magnitudes_do_not_grow_evenly_says_so() -> None:
    named = {kind.name for kind in kinds() if AMOUNT in kind.uneven}
    for grade in _GRADES:
        amounts = np.abs(np.array(grade.magnitudes) - NONE.get(grade.name, 0.0))
        assert (f"noise.{grade.effect}" in named) == (not levels.is_even(amounts)), grade.effect
    noises = ("motion", "gaussian_blur", "zoom", "glass", "compression")
    assert named == {"action.latency", *(f"noise.{name}" for name in noises)}


@pytest.mark.slow
def test_pictures_differ_evenly_by_all_that_do_not_say_otherwise() -> None:
    """On one task here; tabletop and LIBERO's suites were measured whole at b9989a3."""
    chosen = [kind for kind in kinds() if levels.is_measured(kind) and PICTURE not in kind.uneven]
    assert {kind.dimension for kind in chosen} == {"background", "light", "noise"}
    found = levels.measured([load_suite("tabletop").task("put_the_bowl_on_the_plate")], range(1), chosen)
    for kind in chosen:
        if found[kind.name]:
            means = np.mean(found[kind.name], axis=0)
            assert (np.diff(means, prepend=0.0) > 0).all(), kind.name
            assert levels.is_even(means) or levels.steps_of(means)[1] < 1.6, (kind.name, means)


@pytest.mark.slow
def test_a_view_that_moves_far_is_as_different_as_one_that_moves_farther() -> None:
    (kind,) = (kind for kind in kinds() if kind.name == "camera.azimuth")
    found = levels.measured([load_suite("tabletop").task("put_the_bowl_on_the_plate")], range(1), [kind])
    assert not levels.is_even(found[kind.name][0])
    assert PICTURE in kind.uneven


def test_the_list_and_reports_name_them() -> None:
    assert evenness_of(["action.latency-L2"]) == (
        "level steps are not even: action.latency (50, 100, 200, 400 and 800 ms, in whole control steps, rounded up)",
    )
    told = evenness_of(["noise.zoom-L2", "light.shadow-L1+camera.wider-L3", "noise.fog-L1", "language.blank"])
    assert told == (
        "level steps are even in the amount, not in the picture: camera.wider, light.shadow",
        f"level steps are even in the picture, not in the amount: noise.zoom ({known_kind('noise.zoom-L1').grades})",
    )
    text = " ".join(" ".join(kinds_table()).split())
    assert text.count("level steps are even in the picture, not in the amount") == 5
