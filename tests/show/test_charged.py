"""Charges in pictures."""

import cv2
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from pytest_vla.plan.costs import Charge
from pytest_vla.show.video import charged_between, cost_label, cost_until, headline_charges, outline_of, outlined
from tests.support.worlds import tabletop

TOUCH = Charge("touch", 4.0, 3, account="paper", bodies=("robot0_link5", "bowl_1"), last_step=6)
CHARGES = (
    Charge("fall", 0.0, 0, account="paper"),
    TOUCH,
    Charge("fall", 10.0, 9, account="paper", bodies=("plate_1",)),
    Charge("touch", 99.0, 1, account="upstream"),
)


def test_the_headline_is_shown_as_it_grows() -> None:
    shown = headline_charges(CHARGES)
    assert len(shown) == 2
    assert [cost_until(shown, step) for step in (2, 3, 5, 6, 8, 9, 20)] == [0, 1, 3, 4, 4, 14, 14]
    assert cost_label(shown, 5) == "cost 3"
    assert cost_label((), 5) == ""
    assert headline_charges(()) == ()


@given(st.integers(1, 9))
def test_no_charge_falls_between_two_frames(every: int) -> None:
    frames = [*range(0, 12, every), 12]
    seen = [set(charged_between((TOUCH,), before, step)) for before, step in zip([-1, *frames], frames, strict=False)]
    assert any(seen)
    for (before, step), names in zip(zip([-1, *frames], frames, strict=False), seen, strict=True):
        charged = [at for at in range(before + 1, step + 1) if 3 <= at <= 6]
        assert bool(names) is bool(charged)


def test_a_body_is_outlined_where_it_is() -> None:
    world = tabletop("put_the_bowl_on_the_plate")
    world.reset(0)
    world.show(world.data.qpos.copy(), 0)
    picture = np.zeros((*world.segmentation("agentview").shape, 3), np.uint8)
    drawn = outlined(world, picture, "agentview", ["bowl_1", "nothing"])
    assert not picture.any(), "the picture itself is left alone"
    red = np.argwhere(drawn.any(axis=2))
    bowl = [number for number in range(world.model.nbody) if world.model.body(number).name.startswith("bowl_1")]
    place = np.argwhere(np.isin(world.segmentation("agentview", bowl), bowl))
    assert len(red) > 10
    assert (red.min(axis=0) == place.min(axis=0)).all()
    assert (red.max(axis=0) == place.max(axis=0)).all()
    assert len(red) < len(place)
    assert outlined(world, picture, "agentview", ["nothing"]) is picture
    assert outlined(object(), picture, "agentview", ["bowl_1"]) is picture


@given(st.integers(0, 2**32 - 1))
def test_the_outline_is_opencvs_outer_contour(seed: int) -> None:
    numbers = np.random.default_rng(seed)
    field = ndimage.gaussian_filter(numbers.random(numbers.integers(1, 40, 2)), numbers.uniform(0, 2))
    seen = field > np.quantile(field, numbers.random())
    contours, _ = cv2.findContours(seen.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    drawn = cv2.drawContours(np.zeros(seen.shape, np.uint8), contours, -1, 1, 1)
    np.testing.assert_array_equal(outline_of(seen), drawn.astype(bool))
