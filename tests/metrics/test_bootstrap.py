"""The cluster bootstrap: what it covers on made data, and what it says where it cannot know."""

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_vla.metrics.bootstrap import Interval, cluster_intervals

Array = NDArray[np.float64]


def rate(sums: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return sums[:, 1:2] / sums[:, :1]


def intervals(successes: Array, seed: int = 0, resamples: int = 400) -> list[Interval | None]:
    """Of the rate of successes, an array of texts x seeds."""
    texts, seeds = successes.shape
    rows = np.column_stack([np.ones(successes.size), successes.ravel()])
    first, second = np.repeat(np.arange(texts), seeds).tolist(), np.tile(np.arange(seeds), texts).tolist()
    return cluster_intervals(rows, first, second, rate, np.random.default_rng(seed), resamples=resamples)


def covered(texts: int, seeds: int, text_effect: float, seed_effect: float, repetitions: int = 200) -> float:
    """How often the interval has the true rate, of simulated policies whose success hangs on texts and seeds."""
    generator = np.random.default_rng(1)

    def simulated(texts: int, seeds: int) -> Array:
        latent = 1.0 + text_effect * generator.normal(size=(texts, 1)) + seed_effect * generator.normal(size=seeds)
        return (latent + generator.logistic(size=(texts, seeds)) > 0).astype(np.float64)

    truth = simulated(4000, 400).mean()
    found = [intervals(simulated(texts, seeds), number)[0] for number in range(repetitions)]
    return float(np.mean([each is not None and each[0] <= truth <= each[1] for each in found]))


@pytest.mark.parametrize(
    ("texts", "seeds", "text_effect", "seed_effect"),
    [(60, 1, 2.0, 0.0), (60, 5, 2.0, 0.0), (60, 5, 2.0, 0.3), (40, 10, 1.0, 0.5)],
)
def test_intervals_cover_the_truth_as_often_as_they_say(
    texts: int, seeds: int, text_effect: float, seed_effect: float
) -> None:
    assert 0.90 <= covered(texts, seeds, text_effect, seed_effect) <= 0.995


@pytest.mark.parametrize(("texts", "text_effect"), [(15, 0.0), (60, 2.0)])
def test_texts_of_one_seed_each_are_all_that_is_drawn(texts: int, text_effect: float) -> None:
    """As wide as of independent texts, and never without a number; drawing seeds too gave a third more than twice."""
    generator = np.random.default_rng(2)
    truth = (1.0 + text_effect * generator.normal(size=10**6) + generator.logistic(size=10**6) > 0).mean()
    held, widths = 0, []
    for number in range(200):
        latent = 1.0 + text_effect * generator.normal(size=texts) + generator.logistic(size=texts)
        rows = np.column_stack([np.ones(texts), latent > 0])
        seeds = generator.integers(5, size=texts).tolist()
        (found,) = cluster_intervals(rows, range(texts), seeds, rate, np.random.default_rng(number), resamples=400)
        assert found is not None
        held += found[0] <= truth <= found[1]
        widths.append(found[1] - found[0])
    assert 0.90 <= held / 200 <= 0.985
    assert np.mean(widths) == pytest.approx(3.92 * np.sqrt(truth * (1 - truth) / texts), rel=0.12)


def test_seeds_of_one_text_each_are_not_drawn_beside_the_texts() -> None:
    generator = np.random.default_rng(0)
    rows = np.column_stack([np.ones(60), generator.random(60) < 0.5])
    texts = np.repeat(np.arange(20), 3).tolist()
    alone = cluster_intervals(rows, texts, [0] * 60, rate, np.random.default_rng(1))
    assert cluster_intervals(rows, texts, range(60), rate, np.random.default_rng(1)) == alone


def test_few_clusters_have_a_wider_interval_than_their_quantiles() -> None:
    rows = np.column_stack([np.ones(6), np.arange(6)])
    (found,) = cluster_intervals(rows, range(6), [0] * 6, rate, np.random.default_rng(0), resamples=4000)
    drawn = np.random.default_rng(0).integers(6, size=(4000, 6)).mean(axis=1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    assert found is not None
    assert found[0] < low
    assert found[1] > high
    assert found[1] - found[0] < 1.6 * (high - low)


def test_episodes_of_one_text_are_no_further_evidence() -> None:
    texts = (np.random.default_rng(0).random((80, 1)) < 0.6).astype(np.float64)
    (once,), (often,) = intervals(texts), intervals(np.repeat(texts, 5, axis=1))
    assert once is not None
    assert often is not None
    assert often[1] - often[0] == pytest.approx(once[1] - once[0], rel=0.1)


def test_what_seeds_have_in_common_is_in_the_interval() -> None:
    by_seed = np.tile([1.0, 1.0, 0.0, 1.0, 0.0], (200, 1))
    (interval,) = intervals(by_seed)
    assert interval is not None
    assert interval[1] - interval[0] > 0.5, "two hundred texts say no more of five seeds"


def test_equal_generators_give_equal_intervals() -> None:
    successes = (np.random.default_rng(0).random((30, 3)) < 0.5).astype(np.float64)
    assert intervals(successes, 7) == intervals(successes, 7) != intervals(successes, 8)


def test_a_single_cluster_has_no_interval() -> None:
    assert intervals(np.ones((1, 1))) == [None]
    assert intervals(np.array([[1.0, 0.0, 1.0]])) != [None], "three seeds of one text have one"


def test_a_number_that_most_resamples_lack_has_no_interval() -> None:
    rows = np.array([[0.0, 0.0]] * 9 + [[1.0, 1.0]])
    assert cluster_intervals(rows, range(10), [0] * 10, rate, np.random.default_rng(0)) == [None]


def test_unequal_lengths_no_rows_and_no_confidence_are_refused() -> None:
    generator = np.random.default_rng(0)
    for rows, first, second in ((np.ones((2, 2)), [1], [1, 2]), (np.ones((0, 2)), [], [])):
        with pytest.raises(ValueError, match="expected as many of each, at least 1"):
            cluster_intervals(rows, first, second, rate, generator)
    with pytest.raises(ValueError, match="confidence 95: expected a number between 0 and 1"):
        cluster_intervals(np.ones((2, 2)), [1, 2], [1, 1], rate, generator, confidence=95)
