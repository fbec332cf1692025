"""Picture noise beside its formulas written out plainly, and what holds of any picture."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import ndimage

from pytest_vla.errors import VlaError
from pytest_vla.sim.pixel_noise import Picture, gaussian_noise
from pytest_vla.suites.libero_plus.kinds import (
    FOG,
    GAUSSIAN,
    GLASS,
    MOTION,
    imagemagick_motion_blur,
    plus_picture,
    zoom_factors,
)
from pytest_vla.suites.libero_plus.names import PLUS_NAMES, PLUS_SEVERITIES
from pytest_vla.vary.effects.pictures import (
    copied_glass,
    fog,
    frosted_glass,
    gaussian_blur,
    jpeg,
    motion_blur,
    plasma,
    plasma_side,
    salt_and_pepper,
    scramble,
    zoom_blur,
)
from tests.support.examples import scaled

PICTURES = st.tuples(st.integers(1, 40), st.integers(1, 40)).flatmap(lambda size: arrays(np.uint8, (*size, 3)))
SEEDS = st.integers(0, 2**32)


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def natural(height: int = 96, width: int = 96) -> Picture:
    """Smooth patches with edges between them, as rendered scenes have."""
    noise = ndimage.gaussian_filter(generator(5).standard_normal((height, width, 3)), (6, 6, 0))
    noise[height // 4 : height // 2, width // 3 : width // 2] += 0.1
    noise[height // 2 :, : width // 5] -= 0.1
    return np.uint8(255 * (noise - noise.min()) / np.ptp(noise))


def distance(one: Picture, other: Picture) -> float:
    return float(np.abs(one.astype(int) - other).mean())


def assert_within_a_level(ours: Picture, expected: Picture) -> None:
    difference = np.abs(ours.astype(int) - expected)
    assert difference.max() <= 1
    assert difference.mean() < 0.02


def truncated(values: np.ndarray) -> Picture:
    return np.asarray(np.clip(values, 0, 1) * 255, dtype=np.uint8)


@pytest.mark.parametrize("sigma", [0.5, 1, 2.5, 10])
def test_gaussian_blur_is_scikit_images(sigma: float) -> None:
    picture = natural(80, 120)
    filtered = ndimage.gaussian_filter(picture / 255.0, (sigma, sigma, 0), mode="nearest", truncate=4.0)
    assert_within_a_level(gaussian_blur(picture, sigma), truncated(filtered))


def scipy_zoom_blur(picture: Picture, factors: tuple[float, ...]) -> Picture:
    """The published code, which is for square pictures."""
    values = np.asarray(picture / 255.0, dtype=np.float32)
    height = len(values)
    total = np.zeros_like(values)
    for factor in factors:
        taken = math.ceil(height / factor)
        top = (height - taken) // 2
        enlarged = ndimage.zoom(values[top : top + taken, top : top + taken], (factor, factor, 1), order=1)
        trim = (len(enlarged) - height) // 2
        total += enlarged[trim : trim + height, trim : trim + height]
    return truncated((values + total) / (len(factors) + 1))


@pytest.mark.parametrize("severity", PLUS_SEVERITIES)
@pytest.mark.parametrize("side", [96, 128])
def test_zoom_blur_is_the_sum_of_scipys_zooms(side: int, severity: int) -> None:
    picture = natural(side, side)
    factors = zoom_factors(severity)
    assert_within_a_level(zoom_blur(picture, factors), scipy_zoom_blur(picture, factors))


@pytest.mark.parametrize("wide", [True, False])
def test_zoom_blur_of_an_oblong_keeps_its_middle(wide: bool) -> None:
    """A cross through the middle is enlarged into itself."""
    picture = np.zeros((61, 101, 3), dtype=np.uint8)
    picture[29:32], picture[:, 49:52] = 250, 250
    if not wide:
        picture = np.ascontiguousarray(picture.transpose(1, 0, 2))
    middle = picture.shape[0] // 2, picture.shape[1] // 2
    noisy = zoom_blur(picture, (1.0, 1.1, 1.2, 1.3))
    assert noisy[middle].min() >= 249
    assert noisy[middle[0]].min() >= 200
    assert noisy[:, middle[1]].min() >= 200
    assert noisy[0, 0].max() == 0


def plain_plasma(side: int, decay: float, numbers: np.random.Generator) -> np.ndarray:
    """Diamond and square, point by point."""
    field = np.zeros((side, side))
    rough, step = 100.0, side
    while step >= 2:
        half = step // 2
        at = range(0, side, step)

        def new(row: int, column: int, reach: list[tuple[int, int]], rough: float = rough) -> None:
            around = sum(field[(row + i) % side, (column + j) % side] for i, j in reach)
            field[row, column] = around / 4 + rough * numbers.uniform(-rough, rough)

        for row, column in itertools.product(at, at):
            new(row + half, column + half, [(i, j) for i in (-half, half) for j in (-half, half)])
        cross = [(-half, 0), (half, 0), (0, -half), (0, half)]
        for row, column in itertools.product(at, at):
            new(row, column + half, cross)
        for row, column in itertools.product(at, at):
            new(row + half, column, cross)
        step, rough = half, rough / decay
    field -= field.min()
    return np.asarray(field / field.max())


@pytest.mark.parametrize("decay", [3, 1.3])
def test_plasma_is_diamond_and_square_point_by_point(decay: float) -> None:
    field = plasma(32, decay, generator(3))
    assert field == pytest.approx(plain_plasma(32, decay, generator(3)), abs=1e-6)
    assert (field.min(), field.max()) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("size", "side"), [((1, 1), 256), ((256, 256), 256), ((128, 200), 256), ((257, 10), 512), ((480, 640), 1024)]
)
def test_fogs_field_is_256_as_published_or_what_a_larger_picture_needs(size: tuple[int, int], side: int) -> None:
    assert plasma_side(np.zeros((*size, 3), dtype=np.uint8)) == side


@pytest.mark.parametrize("amount", [0.5, 5])
def test_fog_is_the_published_formula(amount: float) -> None:
    picture, field = natural(), plasma(128, 2.0, generator())
    values = picture / 255.0
    brightest = values.max()
    values += amount * field[:96, :96, None]
    assert_within_a_level(fog(picture, amount, field), truncated(values * brightest / (brightest + amount)))
    assert not fog(np.zeros_like(picture), amount, field).any()


def published_scramble(picture: Picture, offsets: np.ndarray, delta: int) -> Picture:
    """The published loop: the rows of an array are views, so that what looks like a swap is a copy."""
    x = picture.copy()
    height, width, _ = x.shape
    for iteration in offsets:
        for i, h in enumerate(range(height - delta, delta, -1)):
            for j, w in enumerate(range(width - delta, delta, -1)):
                dx, dy = map(int, iteration[i, j])
                x[h, w], x[h + dy, w + dx] = x[h + dy, w + dx], x[h, w]
    return x


@settings(max_examples=scaled(25))
@given(PICTURES, st.integers(1, 5), st.integers(1, 3), SEEDS)
def test_scrambling_is_the_published_loop_bit_for_bit(picture: Picture, delta: int, times: int, seed: int) -> None:
    height, width, _ = picture.shape
    shape = (times, max(height - 2 * delta, 0), max(width - 2 * delta, 0), 2)
    offsets = generator(seed).integers(-delta, delta, shape, dtype=np.int8)
    ours = picture.copy()
    scramble(ours, offsets, delta)
    assert np.array_equal(ours, published_scramble(picture, offsets, delta))


def test_glass_is_blurred_scrambled_and_blurred() -> None:
    picture = natural(40, 50)
    offsets = generator(4).integers(-3, 3, (2, 34, 44, 2), dtype=np.int8)
    expected = gaussian_blur(published_scramble(gaussian_blur(picture, 1.1), offsets, 3), 1.1)
    assert np.array_equal(copied_glass(picture, 1.1, 3, 2, generator(4)), expected)


@pytest.mark.parametrize(("radius", "sigma"), [MOTION[0], MOTION[-1]])
@pytest.mark.parametrize("angle", [0.0, 30.0, -44.0])
def test_published_motion_blur_is_imagemagicks_formula(radius: float, sigma: float, angle: float) -> None:
    picture = natural(24, 30)
    count = 2 * math.ceil(radius) + 1
    weights = [math.exp(-(i**2) / (2 * sigma**2)) for i in range(count)]
    y = [math.ceil(i * math.sin(math.radians(angle)) - 0.5) for i in range(count)]
    x = [math.ceil(i * math.cos(math.radians(angle)) - 0.5) for i in range(count)]
    expected = np.zeros(picture.shape)
    for row, column in np.ndindex(24, 30):
        for i, weight in enumerate(weights):
            taken = picture[min(max(row + y[i], 0), 23), min(max(column + x[i], 0), 29)]
            expected[row, column] += weight / sum(weights) * taken
    assert_within_a_level(imagemagick_motion_blur(picture, radius, sigma, angle), np.uint8(np.rint(expected)))


@pytest.mark.parametrize("angle", [0.0, 90.0, 37.0])
def test_our_motion_blur_spreads_a_point_evenly_about_its_place(angle: float) -> None:
    picture = np.zeros((81, 81, 3), dtype=np.uint8)
    picture[38:43, 38:43] = 255
    noisy = motion_blur(picture, 24.0, angle)[..., 0].astype(float)
    rows, columns = np.indices(noisy.shape) - 40
    share = noisy / noisy.sum()
    assert noisy.sum() == pytest.approx(25 * 255, rel=0.05)
    assert ((share * rows).sum(), (share * columns).sum()) == pytest.approx((0, 0), abs=0.2)
    along = columns * math.cos(math.radians(angle)) + rows * math.sin(math.radians(angle))
    across = rows * math.cos(math.radians(angle)) - columns * math.sin(math.radians(angle))
    # Variances: of an even path, L^2 / 12; of the point, (5^2 - 1) / 12.
    assert (share * along**2).sum() == pytest.approx(24**2 / 12 + 2, rel=0.06)
    assert (share * across**2).sum() == pytest.approx(2, rel=0.2)


@settings(max_examples=scaled(30))
@given(PICTURES, st.floats(0, 360))
def test_nothing_is_left_as_it_was(picture: Picture, angle: float) -> None:
    for same in (
        motion_blur(picture, 0.0, angle),
        gaussian_blur(picture, 0.0),
        frosted_glass(picture, 0.0, generator()),
        salt_and_pepper(picture, 0.0, generator()),
    ):
        assert np.array_equal(same, picture)
    assert distance(gaussian_noise(picture, 0.0, 0.0, generator()), picture) <= 1


@pytest.mark.parametrize("variance", [0.085, 0.05])
def test_gaussian_noise_is_vla_arenas_formula(variance: float) -> None:
    picture = natural()
    added = generator(8).standard_normal(picture.shape, dtype=np.float32) * math.sqrt(variance) + 0.02
    assert_within_a_level(gaussian_noise(picture, 0.02, variance, generator(8)), truncated(picture / 255 + added))
    grey = np.full((256, 256, 3), 128, dtype=np.uint8)
    noisy = gaussian_noise(grey, 0.0, 0.0004, generator()) / 255.0
    assert noisy.var() == pytest.approx(0.0004, rel=0.02)
    assert noisy.mean() == pytest.approx(127.5 / 255, abs=1e-3)


@pytest.mark.parametrize("amount", [0.0, 0.05, 0.25, 0.5])
def test_salt_and_pepper_have_the_probability_each(amount: float) -> None:
    grey = np.full((256, 256, 3), 128, dtype=np.uint8)
    noisy = salt_and_pepper(grey, amount, generator(2))
    assert (noisy == 255).mean() == pytest.approx(amount, abs=0.003)
    assert (noisy == 0).mean() == pytest.approx(amount, abs=0.003)
    assert np.isin(noisy, (0, 128, 255)).all()
    if amount == 0.25:
        # Coloured: a pixel's channels are drawn apart.
        assert (noisy[..., 0] == noisy[..., 1]).mean() == pytest.approx(0.25**2 * 2 + 0.5**2, abs=0.01)


def test_compression_keeps_colours_and_costs_more_at_lower_quality() -> None:
    red = np.full((40, 40, 3), (200, 30, 90), dtype=np.uint8)
    assert distance(jpeg(red, 80), red) < 4
    losses = [distance(jpeg(natural(), quality), natural()) for quality in (95, 50, 20, 5)]
    assert losses == sorted(losses)
    assert losses[0] > 0


def test_the_published_parameters() -> None:
    """Golden: the tables of LIBERO-Plus's code."""
    assert MOTION == ((5, 2), (8, 3), (10, 4), (12, 5), (15, 6), (18, 8), (20, 10), (25, 12), (30, 15), (35, 20))
    assert tuple(range(1, 11)) == GAUSSIAN
    assert [len(zoom_factors(severity)) for severity in PLUS_SEVERITIES] == [12, 16, 11, 13, 11, 37, 41, 23, 26, 19]
    lasts = [round(zoom_factors(severity)[-1], 9) for severity in PLUS_SEVERITIES]
    assert lasts == [1.11, 1.15, 1.20, 1.24, 1.30, 1.36, 1.40, 1.44, 1.50, 1.54]
    assert [amount for amount, _ in FOG] == [0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5]
    assert [decay for _, decay in FOG] == [3, 2.8, 2.5, 2.2, 2, 1.8, 1.6, 1.5, 1.4, 1.3]
    assert [sigma for sigma, _, _ in GLASS] == [0.5, 0.7, 0.9, 1, 1.1, 1.3, 1.5, 1.8, 2.2, 2.5]
    assert [delta for _, delta, _ in GLASS] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert [iterations for _, _, iterations in GLASS] == [3, 3, 3, 2, 2, 2, 2, 2, 1, 1]


# Of two neighbouring severities glass and zoom are not always the milder one first, as published.
@pytest.mark.parametrize("name", PLUS_NAMES)
def test_published_noise_is_worse_at_severity_10_than_at_5_and_1(name: str) -> None:
    picture = natural(256, 256)
    far = [distance(plus_picture(picture, name, severity, generator(1)), picture) for severity in (1, 5, 10)]
    assert far[0] < far[1] < far[2]


@pytest.mark.parametrize(("name", "severity"), [("rain", 1), ("fog", 0), ("fog", 11)])
def test_what_is_not_published_is_refused(name: str, severity: int) -> None:
    with pytest.raises(VlaError, match=rf"motion, .* with severity 1 to 10, not {name} with {severity}"):
        plus_picture(natural(), name, severity, generator())


EFFECTS: dict[str, Callable[[Picture, int], Picture]] = {
    "motion": lambda picture, seed: motion_blur(picture, 10.0, 33.0),
    "gaussian blur": lambda picture, seed: gaussian_blur(picture, 2.0),
    "zoom": lambda picture, seed: zoom_blur(picture, (1.0, 1.1, 1.5)),
    "fog": lambda picture, seed: fog(picture, 2.0, plasma(64, 2.0, generator(seed))),
    "glass": lambda picture, seed: frosted_glass(picture, 3.0, generator(seed)),
    "gaussian": lambda picture, seed: gaussian_noise(picture, 0.0, 0.085, generator(seed)),
    "salt and pepper": lambda picture, seed: salt_and_pepper(picture, 0.1, generator(seed)),
    "compression": lambda picture, seed: jpeg(picture, 10),
    **{
        f"published {name} {severity}": lambda picture, seed, name=name, severity=severity: plus_picture(
            picture, name, severity, generator(seed)
        )
        for name in PLUS_NAMES
        for severity in (1, 10)
    },
}


@pytest.mark.parametrize("effect", EFFECTS)
@settings(max_examples=scaled(15))
@given(picture=PICTURES, seed=SEEDS)
def test_any_picture_gets_a_new_one_of_its_size_and_stays(effect: str, picture: Picture, seed: int) -> None:
    before = picture.copy()
    picture.flags.writeable = False
    noisy = EFFECTS[effect](picture, seed)
    assert (noisy.dtype, noisy.shape) == (np.dtype(np.uint8), picture.shape)
    assert not np.shares_memory(noisy, picture)
    assert np.array_equal(EFFECTS[effect](picture, seed), noisy)
    assert np.array_equal(EFFECTS[effect](picture[::-1][::-1], seed), noisy)
    assert np.array_equal(picture, before)
    if effect in ("motion", "gaussian blur", "zoom", "glass", "published motion 10", "published glass 10"):
        # A mean of what was there; truncated.
        for channel in range(3):
            assert noisy[..., channel].min() >= max(int(before[..., channel].min()) - 2, 0)
            assert noisy[..., channel].max() <= before[..., channel].max()
