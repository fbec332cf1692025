"""How often each interval that is printed holds the truth: simulated policies whose success is known.

``python benchmarks/intervals.py [--repetitions 400] [--quick] [--only TEXT]`` prints, of each interval and design, the
share of 95% intervals that hold what they are of: the mean over success rates p of .05 to .95, the worst and where, and
the mean width. Then what McNemar's exact test and the one that we print find of the same pairs, and how many paths that
are like the successes count as far.

Tasks differ (their rates are of a beta distribution; ``icc`` is the share of the variance that lies between tasks),
episodes of one task and seed have their init state in common, and varied episodes share their benign twins.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, inf, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pytest_vla.language.published import cell_counts
from pytest_vla.metrics.clustered import Interval, rate_intervals
from pytest_vla.metrics.composition import DimensionPair, composition
from pytest_vla.metrics.differences import difference_of, lead_interval, mean_difference
from pytest_vla.metrics.failure_types import Tau, failure_types
from pytest_vla.metrics.language import Scored, measure, object_gap, of_list
from pytest_vla.metrics.language_grounding import GroundingEpisode, Twins, listening
from pytest_vla.metrics.pride import ParaphraseOutcome
from pytest_vla.metrics.robustness_curves import halving
from pytest_vla.metrics.statistics import wilson_interval
from pytest_vla.suites.libero_plus.report import entry_counts

GRID = tuple(round(0.05 * step, 2) for step in range(1, 20))
"""Success rates."""

BENIGN = 0.83
"""Of the twins that varied episodes are compared with; that of the varied ones is on the grid."""

SHARED = 0.3
"""Of the latent variance, what episodes of one task and seed have in common."""

Trial = Callable[[float, np.random.Generator], Iterator[tuple[str, Interval | None, float]]]
"""Simulates an experiment at a success rate: by name, each interval and the truth that it is of."""


@dataclass(frozen=True)
class Design:
    """An experiment.

    Attributes:
        name: for the table.
        trial: runs it once.
        grid: the success rates.
    """

    name: str
    trial: Trial
    grid: Sequence[float] = GRID


# Simulated episodes


def rates_of_tasks(p: float, tasks: int, icc: float, generator: np.random.Generator) -> NDArray[np.float64]:
    """Success rates (tasks,) with mean p."""
    if not icc:
        return np.full(tasks, p)
    spread = 1 / icc - 1
    return generator.beta(p * spread, (1 - p) * spread, tasks)


def latent(shape: tuple[int, ...], common: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
    """Uniform numbers of a shape, of which those with one number in `common`, broadcast to it, have `SHARED` of it."""
    return stats.norm.cdf(sqrt(SHARED) * common + sqrt(1 - SHARED) * generator.normal(size=shape))


def units_of(tasks: int, seeds: int, times: int = 1) -> list[tuple[str, int]]:
    return [(f"task {task}", seed) for task in range(tasks) for seed in range(seeds) for _ in range(times)]


def of_rates(tasks: int, seeds: int, kinds: int = 1, icc: float = 0.3) -> Trial:
    """A success rate, over these tasks and over tasks like these."""

    def trial(p: float, generator: np.random.Generator) -> Iterator[tuple[str, Interval | None, float]]:
        rates = rates_of_tasks(p, tasks, icc, generator)
        common = generator.normal(size=(tasks, seeds, 1))
        done = latent((tasks, seeds, kinds), common, generator) < rates[:, None, None]
        these, like = rate_intervals(done.ravel().astype(float).tolist(), units_of(tasks, seeds, kinds))
        yield "rate, these tasks", these, float(rates.mean())
        yield "rate, tasks like these", like, p

    return trial


def of_copies(tasks: int, starts: int, times: int, draws: bool = False, icc: float = 0.3) -> Trial:
    """A rate of episodes that run each start several times, as if each were an observation, and with starts as such.

    Args:
        tasks, starts: how many, of which each start is run `times`.
        times: seeds that begin from one start.
        draws: whether the policy may do otherwise from one start; else all of them are copies, and are folded.
        icc: see `rates_of_tasks`.
    """

    def trial(p: float, generator: np.random.Generator) -> Iterator[tuple[str, Interval | None, float]]:
        rates = rates_of_tasks(p, tasks, icc, generator)
        shape = (tasks, starts, times if draws else 1)
        done = latent(shape, generator.normal(size=(tasks, starts, 1)), generator) < rates[:, None, None]
        ran = np.broadcast_to(done, (tasks, starts, times)).ravel().astype(float).tolist()
        truth = float(rates.mean())
        yield "copies, each taken for one", wilson_interval(round(sum(ran)), len(ran)), truth
        kept = done.ravel().astype(float).tolist()
        yield "copies, by starts", rate_intervals(kept, units_of(tasks, starts, shape[2]))[0], truth

    return trial


def pairs_of(
    p: float, tasks: int, seeds: int, kinds: int, icc: float, generator: np.random.Generator
) -> tuple[NDArray[np.int64], float]:
    """Differences (kinds, tasks, seeds) of varied episodes at rate p and their twins, and their mean over these tasks.

    Tasks that are hard as they are, are mostly hard varied.
    """
    lots = generator.random((2, tasks))
    lots[1] = np.where(generator.random(tasks) < 0.5, lots[0], lots[1])
    rates = [np.full(tasks, mean) for mean in (BENIGN, p)]
    if icc:
        spread = 1 / icc - 1
        rates = [stats.beta.ppf(lot, r * spread, (1 - r) * spread) for lot, r in zip(lots, (BENIGN, p), strict=True)]
    common = generator.normal(size=(tasks, seeds))
    twins = latent((tasks, seeds), common, generator) < rates[0][:, None]
    varied = latent((kinds, tasks, seeds), common, generator) < rates[1][:, None]
    return varied.astype(int) - twins.astype(int), float((rates[1] - rates[0]).mean())


def of_differences(tasks: int, seeds: int, kinds: int = 1, icc: float = 0.3) -> Trial:
    """Varied episodes against their twins, and two dimensions against each other."""

    def trial(p: float, generator: np.random.Generator) -> Iterator[tuple[str, Interval | None, float]]:
        found, truth = pairs_of(p, tasks, seeds, kinds, icc, generator)
        units = [unit for _ in range(kinds) for unit in units_of(tasks, seeds)]
        mean = mean_difference(found.ravel().tolist(), units)
        difference = difference_of(mean)
        yield "difference, these tasks", difference.interval, truth
        yield "difference, tasks like these", difference.tasks_interval, p - BENIGN
        other, beside = pairs_of(0.7, tasks, seeds, kinds, icc, generator)
        lead = lead_interval(mean_difference(other.ravel().tolist(), units), mean)
        yield "lead of a dimension", lead, beside - truth

    return trial


def of_gaps(tasks: int, seeds: int, first: float = 0.8, icc: float = 0.1) -> Trial:
    """Two dimensions at once: of one succeeds `first`, of the other p, of both a little less than independent ones."""

    def trial(p: float, generator: np.random.Generator) -> Iterator[tuple[str, Interval | None, float]]:
        means = (0.95, first, p, 0.8 * first * p / 0.95)
        lots = generator.random(tasks)
        spread = 1 / icc - 1
        rates = np.stack([stats.beta.ppf(lots, mean * spread, (1 - mean) * spread) for mean in means])
        common = generator.normal(size=(tasks, seeds))
        done = latent((4, tasks, seeds), common, generator) < rates[:, :, None]
        outcomes = done.reshape(4, -1).T.tolist()
        found = composition(("a", "b"), outcomes, units_of(tasks, seeds))
        yield from _gaps(found, rates.mean(axis=1), "these tasks")
        total = sum(means)
        yield "gap, tasks like these", found.tasks_gap_interval, (means[3] * means[0] - means[1] * means[2]) / total**2

    return trial


def _gaps(found: DimensionPair, rates: NDArray[np.float64], over: str) -> Iterator[tuple[str, Interval | None, float]]:
    benign, one, other, both = rates.tolist()
    expected = one * other / benign
    yield f"gap, {over}", found.gap_interval, (both * benign - one * other) / float(rates.sum()) ** 2
    yield f"both less expected, {over}", found.less_expected, both - expected
    yield f"expected, {over}", found.expected_interval, expected
    yield f"product, {over}", found.product_interval, one * other
    yield f"both less product, {over}", found.less_product, both - one * other


def of_halving(tasks: int, seeds: int, steepness: float, kinds: int = 1) -> Trial:
    """A curve over five levels that falls to half at level 5 p / .95 or so."""

    def trial(p: float, generator: np.random.Generator) -> Iterator[tuple[str, Interval | None, float]]:
        levels = np.arange(6)
        curve = 1 / (1 + np.exp(steepness * (levels - 5 * p)))
        curve *= BENIGN / curve[0]
        common = generator.normal(size=(tasks * seeds, 1, 1))
        done = latent((tasks * seeds, 6, kinds), common, generator) < curve[:, None]
        rows = [
            (unit, level, bool(done[number, level, kind]))
            for number, unit in enumerate(units_of(tasks, seeds))
            for level in range(6)
            for kind in range(kinds if level else 1)
        ]
        crossing = next((i for i in range(1, 6) if curve[i] <= curve[0] / 2), None)
        truth = inf
        if crossing is not None:
            fall = curve[crossing - 1] - curve[crossing]
            truth = crossing - 1 + float((curve[crossing - 1] - curve[0] / 2) / fall)
        yield "halves at", halving(rows, generator).interval, truth

    return trial


@dataclass(frozen=True)
class Told:
    """Paraphrases that are run: how many, under how many seeds each; 0 seeds: each once, with one of five."""

    texts: int
    seeds: int = 0
    tasks: int = 1
    text_effect: float = 1.0
    seed_effect: float = 0.0
    slope: float = 4.0


TRUTH_TEXTS = 60_000


@cache
def language_truth(told: Told, p: float) -> tuple[float, float, float, float]:
    """Log-odds at which the mean success is p, and success, PRIDE and overestimation then, in percent."""
    generator = np.random.default_rng(11)
    distance = drawn_distances(TRUTH_TEXTS, generator)
    of_texts, of_seeds = generator.normal(size=(2, TRUTH_TEXTS))
    effects = told.text_effect * of_texts + told.seed_effect * of_seeds
    low, high = -15.0, 15.0
    for _ in range(50):
        base = (low + high) / 2
        done = 1 / (1 + np.exp(-(base + effects - told.slope * (distance - 0.24))))
        low, high = (base, high) if done.mean() < p else (low, base)
    rate, pride = 100 * float(done.mean()), 100 * float((done * distance).sum() / distance.sum())
    return base, rate, pride, 100 * (rate - pride) / rate


def drawn_distances(number: int, generator: np.random.Generator) -> NDArray[np.float64]:
    return np.clip(generator.gamma(4, 0.06, number), 0.02, 0.8)


def of_language(told: Told) -> Trial:
    """Success, PRIDE and overestimation over paraphrases like these."""

    def trial(p: float, generator: np.random.Generator) -> Iterator[tuple[str, Interval | None, float]]:
        base, rate, pride, over = language_truth(told, p)
        distance = drawn_distances(told.texts, generator)
        seeds = told.seeds or 5
        odds = (
            base
            + told.text_effect * generator.normal(size=(told.texts, 1))
            + told.seed_effect * generator.normal(size=seeds)
            - told.slope * (distance[:, None] - 0.24)
        )
        done = generator.random((told.texts, seeds)) < 1 / (1 + np.exp(-odds))
        run = [(t, s) for t in range(told.texts) for s in range(seeds)]
        if not told.seeds:
            run = [(t, int(generator.integers(seeds))) for t in range(told.texts)]
        found = measure(
            Scored(
                tuple(outcome_of(bool(done[t, s]), float(distance[t])) for t, s in run),
                tuple(t for t, _ in run),
                tuple(s for _, s in run),
            ),
            0.5,
        )
        over_these = "paraphrases like these"
        yield f"SR, {over_these}", found.sr.interval, rate
        if found.pride is not None:
            yield f"PRIDE, {over_these}", found.pride.interval, pride
        if found.overestimation is not None:
            yield f"overestimation, {over_these}", found.overestimation.interval, over
        yield f"mean distance, {over_these}", found.pd.interval, MEAN_DISTANCE

    return trial


MEAN_DISTANCE = float(drawn_distances(10**6, np.random.default_rng(12)).mean())


def outcome_of(
    success: bool, distance: float, task: str = "a task", cell: tuple[str, str] = ("none", "hint")
) -> ParaphraseOutcome:
    return ParaphraseOutcome(success, 1 - distance, 1 - distance, *cell, task, "simulated 1")


def of_tasks_language(tasks: int, texts: int, icc: float = 0.2) -> Trial:
    """The same over tasks like these, of so many paraphrases each; success does not hang on the distance."""

    def trial(p: float, generator: np.random.Generator) -> Iterator[tuple[str, Interval | None, float]]:
        rates = rates_of_tasks(p, tasks, icc, generator)
        outcomes = tuple(
            outcome_of(bool(generator.random() < rate), float(distance), f"task {task}")
            for task, rate in enumerate(rates)
            for distance in drawn_distances(texts, generator)
        )
        found = measure(Scored(outcomes, tuple(range(len(outcomes))), (0,) * len(outcomes)), 0.5)
        yield "SR, tasks like these", found.sr.tasks_interval, 100 * p
        if found.pride is not None:
            yield "PRIDE, tasks like these", found.pride.tasks_interval, 100 * p
        if found.overestimation is not None:
            yield "overestimation, tasks like these", found.overestimation.tasks_interval, 0.0

    return trial


def of_object_gap(texts: int, seeds: int, icc: float = 0.2) -> Trial:
    """Success where the object is preserved less that where it is replaced, of so many texts each (Fig. 7)."""

    def trial(p: float, generator: np.random.Generator) -> Iterator[tuple[str, Interval | None, float]]:
        outcomes, names = [], []
        for kind, rate in (("none", p), ("same_polarity_habitual", 0.75 * p)):
            for text, own in enumerate(rates_of_tasks(rate, texts, icc, generator)):
                for _ in range(seeds):
                    outcomes.append(outcome_of(bool(generator.random() < own), 0.2, cell=(kind, "hint")))
                    names.append((kind, text))
        found = object_gap(Scored(tuple(outcomes), tuple(names), tuple(range(seeds)) * (2 * texts)))
        assert found is not None
        yield "object preserved less replaced", found.difference.interval, 25 * p

    return trial


def of_para_list(each: int) -> Trial:
    """LIBERO-Para's list, of which each cell was told so often; cells differ."""
    counts = cell_counts()
    cells = [cell for cell, count in counts.items() if count]
    weights = np.array([counts[cell] for cell in cells])

    def trial(p: float, generator: np.random.Generator) -> Iterator[tuple[str, Interval | None, float]]:
        rates = rates_of_tasks(p, len(cells), 0.2, np.random.default_rng(3))
        outcomes = tuple(
            outcome_of(bool(generator.random() < rate), float(distance), f"task {number % 10}", cell)
            for cell, rate in zip(cells, rates, strict=True)
            for number, distance in enumerate(drawn_distances(each, generator))
        )
        found = of_list(Scored(outcomes, tuple(range(len(outcomes))), (0,) * len(outcomes)), 0.5, counts)
        assert found is not None
        truth = 100 * float((weights * rates).sum() / weights.sum())
        yield "SR of LIBERO-Para's list", found[0].interval, truth
        if found[1] is not None:
            yield "PRIDE of LIBERO-Para's list", found[1].interval, truth

    return trial


def of_plus_list(each: int, icc: float = 0.2) -> Trial:
    """LIBERO-Plus's list, of which each dimension, suite and sub-dimension was run so often; cells and tasks differ."""
    counts = entry_counts()
    weights = np.array([count / each for count in counts.values() for _ in range(each)])

    def trial(p: float, generator: np.random.Generator) -> Iterator[tuple[str, Interval | None, float]]:
        cells = rates_of_tasks(p, len(counts), icc, np.random.default_rng(4))
        shares = np.array(list(counts.values())) / sum(counts.values())
        # Each suite's ten tasks are harder or easier alike in all of its cells.
        tasks = generator.integers(10, size=(len(counts), each))
        names = [f"{suite} {task}" for (_, suite, _), some in zip(counts, tasks.tolist(), strict=True) for task in some]
        done = generator.random((len(counts), each)) < cells[:, None]
        units = [(name, number) for number, name in enumerate(names)]
        these, like = rate_intervals(done.ravel().astype(float).tolist(), units, weights.tolist())
        yield "total of LIBERO-Plus's list, these tasks", these, float((shares * cells).sum())
        yield "total of LIBERO-Plus's list, tasks like these", like, float((shares * cells).sum())

    return trial


def of_listening(tasks: int, seeds: int) -> Trial:
    """A policy of which each text takes success down to p, and whose paths are farther apart in some tasks."""

    def trial(p: float, generator: np.random.Generator) -> Iterator[tuple[str, Interval | None, float]]:
        rate = max(BENIGN, p)
        common = generator.normal(size=tasks * seeds)
        right, probe = (latent((tasks * seeds,), common, generator) < each for each in (rate, p))
        scales = generator.lognormal(0.0, 0.8, (2, tasks))
        far, near = (
            np.repeat(scale, seeds) * generator.lognormal(mean, 0.5, tasks * seeds)
            for scale, mean in zip(scales, (1.4, 0.0), strict=True)
        )
        ratio = float(scales[1].sum() / (scales[0] * exp(1.4)).sum())

        def path(metres: float) -> NDArray[np.float64]:
            return np.array([[0.0, metres / 50, 0.0], [1.0, metres / 50, 0.0]])

        twins = [
            Twins(
                GroundingEpisode(bool(right[i]), path(0.0)),
                {"other_task": GroundingEpisode(bool(probe[i]), path(far[i]), followed=bool(probe[i]))},
                GroundingEpisode(True, path(near[i])),
                unit,
            )
            for i, unit in enumerate(units_of(tasks, seeds))
        ]
        heard, _ = listening(twins)
        if heard.score is not None:
            yield "success lost without the text", heard.score.interval, 1 - p / rate
        yield "followed", heard.followed.interval, p
        if heard.path_score is not None:
            yield "path score", heard.path_score.interval, 1 - ratio if ratio < 1 else 1 / ratio - 1

    return trial


DESIGNS = (
    *(Design(f"{t} tasks x {s} seeds", of_rates(t, s)) for t, s in ((1, 20), (5, 4), (10, 2), (10, 5), (10, 50))),
    *(Design(f"10 x {s} x {k} kinds", of_rates(10, s, k)) for s, k in ((2, 5), (5, 5))),
    *(Design(f"1 x 20 starts x {k} copies", of_copies(1, 20, k)) for k in (1, 2, 5, 10)),
    *(Design(f"10 x 5 starts x {k} draws", of_copies(10, 5, k, draws=True)) for k in (1, 2, 5, 10)),
    *(Design(f"{t} x {s}, icc {i}", of_rates(t, s, 1, i)) for t, s, i in ((10, 10, 0.1), (10, 10, 0.6), (40, 5, 0.3))),
    *(Design(f"{t} tasks x {s} seeds", of_differences(t, s)) for t, s in ((1, 20), (10, 2), (10, 5), (10, 20))),
    *(Design(f"10 x {s} x {k} kinds", of_differences(10, s, k)) for s, k in ((2, 5), (5, 5))),
    *(Design(f"{t} x {s}, icc {i}", of_differences(t, s, 1, i)) for t, s, i in ((10, 5, 0.0), (10, 5, 0.6))),
    *(Design(f"{t} tasks x {s} seeds", of_gaps(t, s)) for t, s in ((10, 2), (10, 5), (10, 20))),
    *(Design(f"10 x {s}, steepness {k:g}", of_halving(10, s, k)) for s in (2, 5) for k in (1.0, 3.0)),
    Design("10 x 2 x 4 kinds", of_halving(10, 2, 1.0, 4)),
    *(Design(f"each of {n} once", of_language(Told(n))) for n in (20, 60, 430)),
    Design("60 x 5 seeds", of_language(Told(60, 5))),
    Design("60 x 5, texts matter twice", of_language(Told(60, 5, text_effect=2.0))),
    Design("60 x 5, seeds matter", of_language(Told(60, 5, seed_effect=0.3))),
    *(Design(f"{t} tasks x {n} texts", of_tasks_language(t, n)) for t, n in ((6, 40), (10, 10), (10, 40))),
    *(Design(f"{n} texts x {s} seeds", of_object_gap(n, s)) for n, s in ((20, 1), (60, 1), (60, 5), (400, 1))),
    *(Design(f"{n} of each of 43 cells", of_para_list(n)) for n in (1, 10)),
    *(Design(f"{n} of each of 80 cells", of_plus_list(n)) for n in (1, 5)),
    *(Design(f"{t} tasks x {s} seeds", of_listening(t, s)) for t, s in ((10, 2), (10, 5))),
)


@dataclass
class Coverage:
    """How often an interval held the truth at a success rate, how wide it was, and how often there was none."""

    held: int = 0
    given: int = 0
    width: float = 0.0

    def add(self, interval: Interval | None, truth: float) -> None:
        if interval is not None:
            self.held += interval[0] - 1e-9 <= truth <= interval[1] + 1e-9
            self.given += 1
            self.width += interval[1] - interval[0]


def coverage(design: Design, repetitions: int, seed: int = 1) -> dict[str, dict[float, Coverage]]:
    """By interval and success rate."""
    found: dict[str, dict[float, Coverage]] = {}
    for number, p in enumerate(design.grid):
        generator = np.random.default_rng((seed, number))
        for _ in range(repetitions):
            for name, interval, truth in design.trial(p, generator):
                found.setdefault(name, {}).setdefault(p, Coverage()).add(interval, truth)
    return found


def summary(by_rate: dict[float, Coverage], repetitions: int) -> tuple[float, float, float, float, float]:
    """Mean and worst coverage, where, mean width, and the share of experiments with an interval.

    Of rates where an interval is seldom given its coverage is too rough to be the worst.
    """
    shares = {p: each.held / each.given for p, each in by_rate.items() if each.given >= repetitions / 4}
    given = sum(each.given for each in by_rate.values())
    if not shares:
        return float("nan"), float("nan"), float("nan"), float("nan"), 0.0
    worst = min(shares, key=shares.__getitem__)
    mean, width = sum(shares.values()) / len(shares), sum(each.width for each in by_rate.values()) / given
    return mean, shares[worst], worst, width, given / repetitions / len(by_rate)


# What the tests find


def show_power(repetitions: int) -> None:
    """Of the same pairs, what McNemar's exact test calls a difference, and what is printed does."""
    print("\nOf the same pairs, called a difference at 5%: McNemar's exact test, and the p that is printed")
    print(f"{'pairs':>6} {'benign':>7} {'drop':>5} {'McNemar':>8} {'ours':>6}")
    for n in (10, 24, 50, 100):
        for drop in (0.0, 0.1, 0.2, 0.4):
            generator, found = np.random.default_rng(n), np.zeros(2)
            for _ in range(repetitions):
                common = generator.normal(size=n)
                twins = latent((n,), common, generator) < BENIGN
                varied = latent((n,), common, generator) < BENIGN - drop
                lost, gained = int((twins & ~varied).sum()), int((~twins & varied).sum())
                units = [("a task", seed) for seed in range(n)]
                p = difference_of(mean_difference((varied.astype(int) - twins.astype(int)).tolist(), units)).p
                exact = stats.binomtest(lost, lost + gained).pvalue if lost + gained else 1.0
                found += exact < 0.05, p is not None and p < 0.05
            print(f"{n:6} {BENIGN:7.2f} {drop:5.2f} {found[0] / repetitions:8.3f} {found[1] / repetitions:6.3f}")


def drawn_paths(number: int, generator: np.random.Generator) -> list[NDArray[np.float64]]:
    """Smooth paths (n, 3), m, about a common one, each with a length of its own."""
    found = []
    for _ in range(number):
        time = np.linspace(0, 1, int(generator.integers(80, 140)))[:, None]
        middle = np.concatenate([0.3 * time, 0.1 * np.sin(3 * time), -0.2 * time**2], axis=1)
        waves = 0.02 * generator.normal(size=(4, 3)) * generator.uniform(0.5, 1.5)
        phases = generator.uniform(0, 2 * np.pi, 4)
        found.append(middle + sum(waves[k] * np.sin((k + 1) * np.pi * time + phases[k]) for k in range(4)))
    return found


def show_far(repetitions: int) -> None:
    """Of paths that are like the successes, the share that counts as far."""
    print("\nPaths that are like the successes, and count as far: by the paper's tau, and by leave-one-out")
    print(f"{'successes':>9} {'paper':>6} {'ours':>6} {'1/(n+1)':>8}")
    for n in (2, 3, 5, 8, 10, 20, 50):
        print(f"{n:9} {far_share(n, 'paper', repetitions):6.3f} ", end="")
        print(f"{far_share(n, 'leave-one-out', repetitions, fewest=2):6.3f} {1 / (n + 1):8.3f}", flush=True)


def far_share(n: int, tau: Tau, repetitions: int, fewest: int = 5) -> float:
    """The share of four paths like n successes that count as far."""
    generator, found = np.random.default_rng(n), []
    for _ in range(max(repetitions // 4, 1)):
        paths = drawn_paths(n + 4, generator)
        judgement = failure_types(paths[:n], paths[n:], "exact", tau=tau, fewest=fewest).judgement
        assert judgement is not None
        found.append(judgement.levels["max"].count("far") / 4)
    return float(np.mean(found))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=400)
    parser.add_argument("--quick", action="store_true", help="40 repetitions, and not --repetitions")
    parser.add_argument("--only", default="", help="intervals with this text in their name")
    options = parser.parse_args()
    repetitions = 40 if options.quick else options.repetitions
    print(f"{'interval':46} {'design':26} {'mean':>5} {'worst':>5} {'at p':>4} {'width':>6} {'given':>5}")
    for design in DESIGNS:
        names = [name for name, *_ in design.trial(0.5, np.random.default_rng(0))]
        if not any(options.only in name for name in names):
            continue
        for name, by_rate in coverage(design, repetitions).items():
            if options.only in name:
                mean, worst, where, width, given = summary(by_rate, repetitions)
                mark = " " if mean >= 0.94 else "!"
                print(
                    f"{name:46} {design.name:26} {mean:.3f}{mark} {worst:.2f} {where:4.2f} {width:6.2f} {given:5.0%}",
                    flush=True,
                )
    if not options.only:
        show_power(4 * repetitions)
        show_far(repetitions)


if __name__ == "__main__":
    main()
