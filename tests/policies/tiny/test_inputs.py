"""What tiny's network reads."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.policies.tiny.network import CENTRE, PROPRIOCEPTION, SCALE, proprioception, rotation_of, small


@given(st.tuples(*[st.floats(-3, 3)] * 3))
def test_a_rotation_is_one(vector: tuple[float, float, float]) -> None:
    found = rotation_of(np.array(vector))
    np.testing.assert_allclose(found @ found.T, np.eye(3), atol=1e-9)
    assert np.linalg.det(found) == pytest.approx(1.0)


def test_a_quarter_turn_about_z_takes_x_to_y() -> None:
    np.testing.assert_allclose(rotation_of(np.array([0, 0, np.pi / 2])) @ [1, 0, 0], [0, 1, 0], atol=1e-12)


def test_proprioception_is_told_from_the_middle_of_the_workspace_with_what_changed() -> None:
    state = np.concatenate([CENTRE + np.array([SCALE, 0, 0]), [np.pi, 0, 0], [0.04, -0.04]])
    first = proprioception(state, None, -1.0)
    assert first.shape == (PROPRIOCEPTION,)
    assert first.dtype == np.float32
    np.testing.assert_allclose(first[:3], [1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(first[3:9], [1, 0, 0, 0, -1, 0], atol=1e-6)
    np.testing.assert_allclose(first[9:], [1, -1, 0, 0, 0, 0, 0, -1], atol=1e-6)
    before = state.copy()
    before[0] -= 0.05
    then = proprioception(state, before, 1.0)
    np.testing.assert_allclose(then[11:14], [1, 0, 0], atol=1e-6)
    assert then[16] == 1.0
    # Half the way in half the steps is as fast.
    np.testing.assert_allclose(proprioception(state, state - (state - before) / 2, 1.0, 2), then, atol=1e-6)


def test_a_picture_becomes_smaller_by_means_over_blocks() -> None:
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 256, (256, 256, 3), dtype=np.uint8)
    found = small(picture, 64)
    assert found.shape == (64, 64, 3)
    assert found.dtype == np.uint8
    assert abs(float(found[3, 5, 1]) - picture[12:16, 20:24, 1].mean()) <= 0.5
    assert np.array_equal(small(picture, 256), picture)
