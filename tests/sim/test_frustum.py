"""Planes around what a camera sees: nothing is said to be outside of them that is not."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from pytest_vla.sim.culling import BoundingBoxes, Frustum, behind, edges, mirrored, outline

Array = npt.NDArray[np.float64]

seeds = st.integers(0, 2**32 - 1)


def a_frustum(generator: np.random.Generator) -> Frustum:
    right, top = generator.uniform(0.1, 1.5, 2)
    axes = Rotation.random(random_state=generator.integers(2**31)).as_matrix()
    return Frustum(generator.uniform(-2, 2, 3), axes, (-right, -top, right, top), 0.05, generator.uniform(1, 8))


def some_boxes(generator: np.random.Generator, count: int = 12) -> BoundingBoxes:
    axes = Rotation.random(count, random_state=generator.integers(2**31)).as_matrix()
    return BoundingBoxes(generator.uniform(-4, 4, (count, 3)), axes, generator.uniform(0.001, 1.0, (count, 3)))


def points_of(boxes: BoundingBoxes, generator: np.random.Generator) -> Array:
    """(n, k, 3): points in each box, its corners among them."""
    corners = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, -1).T
    inside = np.concatenate([corners, generator.uniform(-1, 1, (400, 3))])
    return np.asarray(boxes.centers[:, None] + np.einsum("nij,nkj->nki", boxes.axes, inside * boxes.halves[:, None]))


def is_seen(frustum: Frustum, points: Array) -> npt.NDArray[np.bool_]:
    """Whether a camera sees points (..., 3): by their projection, without any plane."""
    x, y, z = np.moveaxis((points - frustum.eye) @ frustum.axes.T, -1, 0)
    left, bottom, right, top = frustum.slopes
    ahead = (z >= frustum.near) & (z <= frustum.far)
    with np.errstate(divide="ignore", invalid="ignore"):
        across, up = x / z, y / z
    return np.asarray(ahead & (across >= left) & (across <= right) & (up >= bottom) & (up <= top))


@given(seeds)
def test_a_box_with_a_point_that_is_seen_is_never_outside(seed: int) -> None:
    generator = np.random.default_rng(seed)
    frustum, boxes = a_frustum(generator), some_boxes(generator)
    reach, within = boxes.sides(frustum.within(frustum.slopes), frustum.eye)
    seen = is_seen(frustum, points_of(boxes, generator))
    assert reach.all(axis=1)[seen.any(axis=1)].all()
    assert seen[within.all(axis=1)].all()


def test_boxes_that_are_far_from_what_is_seen_are_told_to_be_outside() -> None:
    frustum = Frustum(np.zeros(3), np.eye(3), (-1.0, -1.0, 1.0, 1.0), 0.1, 10.0)
    centers = np.array([[0, 0, 5], [0, 0, -1], [0, 0, 12], [7, 0, 5], [0, -7, 5], [5.5, 0, 5]])
    boxes = BoundingBoxes(centers, np.repeat(np.eye(3)[None], 6, axis=0), np.full((6, 3), 0.75))
    reach, within = boxes.sides(frustum.within(frustum.slopes), frustum.eye)
    assert reach.all(axis=1).tolist() == [True, False, False, False, False, True]
    assert within.all(axis=1).tolist() == [True, False, False, False, False, False]


@given(seeds)
def test_a_part_of_the_picture_has_planes_of_its_own(seed: int) -> None:
    generator = np.random.default_rng(seed)
    frustum, boxes = a_frustum(generator), some_boxes(generator)
    x, y = (np.sort(generator.uniform(-1, 1, 2)) for _ in range(2))
    part = (float(x[0]), float(y[0]), float(x[1]), float(y[1]))
    points = points_of(boxes, generator)
    seen = is_seen(Frustum(frustum.eye, frustum.axes, part, frustum.near, frustum.far), points)
    reach, within = boxes.sides(frustum.within(part), frustum.eye)
    assert reach.all(axis=1)[seen.any(axis=1)].all()
    assert seen[within.all(axis=1)].all()
    larger, _ = boxes.sides(
        frustum.within((part[0] + 0.1, part[1] + 0.1, part[2] - 0.1, part[3] - 0.1), 0.1), frustum.eye
    )
    assert np.array_equal(larger, reach)


@given(seeds)
def test_what_a_mirror_shows_is_what_is_seen_of_the_mirror_image(seed: int) -> None:
    generator = np.random.default_rng(seed)
    frustum, boxes = a_frustum(generator), some_boxes(generator)
    point, normal = generator.uniform(-2, 2, 3), Rotation.random(random_state=seed).as_matrix()[0]
    points = points_of(boxes, generator)
    heights = (points - point) @ normal
    image = points - 2 * heights[..., None] * normal
    shown = is_seen(frustum, image) & (heights >= 0)
    reach, _ = boxes.sides(mirrored(frustum.within(frustum.slopes), point, normal), frustum.eye)
    assert reach.all(axis=1)[shown.any(axis=1)].all()


@given(seeds)
def test_the_outline_of_a_face_holds_all_of_it_that_is_seen(seed: int) -> None:
    generator = np.random.default_rng(seed)
    frustum = a_frustum(generator)
    axes = Rotation.random(random_state=seed).as_matrix()
    middle, (x, y) = generator.uniform(-2, 2, 3), generator.uniform(0.01, 2.0, 2)
    corners = middle + np.array([[-x, -y], [x, -y], [x, y], [-x, y]]) @ axes[:2]
    points = middle + (generator.uniform(-1, 1, (2000, 2)) * [x, y]) @ axes[:2]
    seen = is_seen(frustum, points)
    shown = outline(frustum, corners, 0.0)
    if shown is None:
        assert not seen.any()
        return
    around = edges(shown)
    assume(around is not None)
    assert around is not None
    turned = (points[seen] - frustum.eye) @ frustum.axes.T
    slopes = np.column_stack([turned[:, :2] / turned[:, 2:], np.ones(len(turned))])
    assert (slopes @ around.T >= -1e-6).all()
    # And no more than the face: seen from the eye, the outline's middle is on it.
    ray = np.append(shown.mean(axis=0), 1.0) @ frustum.axes
    normal = np.cross(axes[0], axes[1])
    hit = frustum.eye + ray * ((middle - frustum.eye) @ normal / (ray @ normal)) - middle
    assert np.abs(hit @ axes[:2].T / [x, y]).max() < 1 + 1e-6


@pytest.mark.parametrize("turned", [False, True])
def test_the_edges_of_a_square_are_its_four_lines_whichever_way_round(turned: bool) -> None:
    square = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 1.0], [0.0, 1.0]])
    lines = edges(square[::-1] if turned else square)
    assert lines is not None
    places = np.array([[1, 0.5, 1], [-0.4, 0.5, 1], [-0.6, 0.5, 1], [1, 1.4, 1], [1, 1.6, 1], [2.4, -0.4, 1]])
    assert (places @ lines.T).min(axis=1) == pytest.approx([0.5, -0.4, -0.6, -0.4, -0.6, -0.4])


def test_what_has_no_area_has_no_edges() -> None:
    assert edges(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])) is None
    assert edges(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 0.0]])) is None


@given(seeds)
def test_what_is_behind_a_face_is_on_a_line_from_the_eye_through_it(seed: int) -> None:
    generator = np.random.default_rng(seed)
    eye, axes = generator.uniform(-2, 2, 3), Rotation.random(4, random_state=generator.integers(2**31)).as_matrix()
    centers, sides = generator.uniform(-1, 1, (4, 3)), generator.uniform(0.1, 1, (4, 2))
    around = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    corners = (sides[:, None] * around) @ axes[:, :, :2].transpose(0, 2, 1) + centers[:, None]
    heights = ((eye - centers) * axes[:, :, 2]).sum(axis=1)
    assume((np.abs(heights) > 0.01).all())
    planes = behind(eye, corners)
    points = generator.uniform(-4, 4, (500, 3))
    inner = (points @ planes[:, :, :3].transpose(0, 2, 1) >= planes[:, None, :, 3]).all(axis=2)
    for face in range(4):
        # Where the line from the eye to a point meets the face's plane, in the face's own axes.
        along = heights[face] / ((eye - points) @ axes[face, :, 2])
        met = (eye + along[:, None] * (points - eye) - centers[face]) @ axes[face, :, :2]
        hidden = (along > 0) & (along <= 1) & (np.abs(met) <= sides[face]).all(axis=1)
        near = np.abs(points @ planes[face, :, :3].T - planes[face, :, 3]).min(axis=1) < 1e-9
        assert np.array_equal(inner[face] | near, hidden | near)
