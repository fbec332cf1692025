"""How often the gate errs, what it finds, and how many episodes it saves: simulated policies whose difference is known.

``python benchmarks/gate.py [--runs 2000] [--quick] [--only TEXT]`` prints tables:

- errors: how often each claim is made that is untrue, at one end and at any time, and how often Holm's correction lets
  one of several groups be called worse;
- starts: 3 to 50 starts of 1 to 50 pairs, with false claims where both policies are alike and where a start rarely
  gains (or loses) all of its pairs while the others lose (or gain) a little, and power, beside the test that flips the
  signs of the starts' sums;
- coverage: what the paired interval holds;
- single: the exact error of the paired bound for single pairs;
- advice: false regressions where one follows advice to run more of the same pairs, and where one compares anew;
- kept: false regressions against a baseline that is kept, of a policy that draws;
- unpaired: what the tests of unpaired episodes do where tasks differ;
- power: what is found, with the pairs that the sequential gate takes, against all of them.

Tasks have effects that differ and sum to what the design says; pairs of one unit are alike or not.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import gammaln, xlogy

from pytest_vla.gate.bounded import Kinds, Way, changed_ps, no_worse_ps, paired_bounds
from pytest_vla.gate.score import CORRECTION, stratified_p, stratified_statistic, unpaired_change_p
from pytest_vla.gate.wealth import Claim, running_p
from pytest_vla.metrics.clustered import Unit
from pytest_vla.metrics.statistics import holm

ALPHA = 0.05
MARGIN = 0.05

Pairs = NDArray[np.int8]
"""Differences (runs, seeds, tasks, kinds)."""


@dataclass(frozen=True)
class Design:
    """A gate.

    Attributes:
        tasks: how many.
        seeds: of each task, and so how many rounds.
        kinds: pairs of each unit.
        discordance: the share of pairs that differ, at least; more where an effect takes it.
        effect: half of the tasks gain so much and half lose it, beside the mean.
        drift: which half gains is the other in the second half of the rounds.
        alike: the share of units whose pairs are all alike.
    """

    tasks: int
    seeds: int
    kinds: int = 1
    discordance: float = 0.2
    effect: float = 0.0
    drift: bool = False
    alike: float = 0.0

    def __str__(self) -> str:
        shape = f"{self.tasks} x {self.seeds}" + f" x {self.kinds} ({self.alike:.0%} alike)" * (self.kinds > 1)
        effects = f", effects {self.effect:.0%}{', turning' * self.drift}" * bool(self.effect)
        return f"{shape}, discordant {self.discordance:.0%}{effects}"


DESIGNS = (
    Design(10, 10, discordance=0.02),
    Design(10, 10, discordance=0.1),
    Design(10, 20, discordance=0.4),
    Design(2, 25, discordance=0.2, effect=0.15),
    Design(40, 5, discordance=0.2, effect=0.15),
    Design(10, 10, discordance=0.1, effect=0.1, drift=True),
    Design(10, 10, kinds=4, discordance=0.2, alike=0.5),
    Design(2, 12, kinds=5, discordance=0.3, alike=0.8, effect=0.1),
)


def draw(design: Design, mean: float, runs: int, generator: np.random.Generator) -> Pairs:
    """Pairs whose mean difference over tasks is `mean`, in every round."""
    side = np.where(np.arange(design.tasks) % 2, 1.0, -1.0)
    if design.tasks % 2:
        side[-1] = 0.0
    turned = np.where(design.drift & (np.arange(design.seeds) >= design.seeds / 2), -1.0, 1.0)
    effects = mean + design.effect * turned[:, None] * side
    discordance = np.maximum(design.discordance, np.abs(effects))
    lost, gained = (discordance - effects) / 2, (discordance + effects) / 2
    lot = generator.random((runs, design.seeds, design.tasks, design.kinds), dtype=np.float32)
    if design.alike:
        alike = generator.random(lot.shape[:-1]) < design.alike
        lot[alike] = lot[alike][:, :1]
    found: Pairs = (lot > 1 - gained[..., None]).astype(np.int8) - (lot < lost[..., None]).astype(np.int8)
    return found


def units_of(design: Design) -> list[Unit]:
    """In the order of one run's pairs, raveled."""
    return [(f"task {t}", s) for s in range(design.seeds) for t in range(design.tasks) for _ in range(design.kinds)]


def fixed_p(design: Design, pairs: Pairs, claim: Claim) -> NDArray[np.float64]:
    """The p (runs,) that the claim is made of after all pairs; a regression is any loss."""
    sums, kinds = pairs.reshape(len(pairs), -1, design.kinds).sum(-1), design.kinds
    return no_worse_of(sums, kinds, MARGIN) if claim == "no worse" else change_of(sums, kinds, WAYS[claim])


WAYS: dict[Claim, Way] = {"regression": "worse", "better": "better"}

Sums = NDArray[np.signedinteger]
"""Of each run and unit the sum of its pairs' differences (runs, units)."""


def change_of(sums: Sums, size: int, way: Way = "worse", beyond: float = 0.0) -> NDArray[np.float64]:
    """The gate's p (runs,) of a change, of units of so many pairs."""
    kinds, rows, which = _kinds_of(sums, size)
    return changed_ps(kinds, rows, way, beyond)[which]


def no_worse_of(sums: Sums, size: int, margin: float) -> NDArray[np.float64]:
    """Likewise of no worse."""
    kinds, rows, which = _kinds_of(sums, size)
    return no_worse_ps(kinds, rows, margin)[which]


def flip_of(sums: Sums) -> NDArray[np.float64]:
    """The p (runs,) of a loss, of the test that flips the signs of the sums: exact where they are symmetric."""
    return np.array([_flip_p(tuple(sorted(row))) for row in sums.tolist()])


@lru_cache(maxsize=100_000)
def _flip_p(sums: tuple[int, ...]) -> float:
    distribution = np.ones(1)
    for size in map(abs, sums):
        if size:
            grown = np.zeros(len(distribution) + size)
            grown[: len(distribution)] += distribution / 2
            grown[size:] += distribution / 2
            distribution = grown
    least = (len(distribution) - 1 - sum(sums)) // 2
    return float(min(1.0, distribution[least:].sum()))


def _kinds_of(sums: Sums, size: int) -> tuple[Kinds, NDArray[np.float64], NDArray[np.intp]]:
    """The kinds of units, the runs that differ as counts of these, and which of them each run is."""
    totals = np.unique(sums)
    rows, which = np.unique(np.stack([(sums == each).sum(1) for each in totals], 1), axis=0, return_inverse=True)
    return Kinds(totals.astype(float), np.full(len(totals), float(size))), rows.astype(float), which.ravel()


def different(design: Design, pairs: Pairs) -> tuple[Pairs, NDArray[np.intp]]:
    """The runs (different, pairs) that statistics over these tasks tell apart, and which of them each run is."""
    runs = pairs.reshape(len(pairs), -1)
    if design.kinds > 1:
        return runs, np.arange(len(runs))
    # Where each unit is one pair only how many were lost and gained matters.
    counts = (runs < 0).sum(1) * (runs.shape[1] + 1) + (runs > 0).sum(1)
    _, first, which = np.unique(counts, return_index=True, return_inverse=True)
    return runs[first], which


def sequential_p(pairs: Pairs, claim: Claim) -> NDArray[np.float64]:
    """The p (runs, rounds) as it stands after each round."""
    return running_p(pairs.mean(axis=-1), claim, MARGIN if claim == "no worse" else 0.0)


def null_mean(claim: Claim) -> float:
    """The mean at which the claim is just untrue."""
    return -MARGIN if claim == "no worse" else 0.0


def errors(design: Design, claim: Claim, runs: int, seed: int = 1) -> tuple[float, float]:
    """How often the claim is made that is just untrue: after all pairs, and ever while they come."""
    pairs = draw(design, null_mean(claim), runs, np.random.default_rng(seed))
    fixed, ever = fixed_p(design, pairs, claim), sequential_p(pairs, claim)[:, -1]
    return float((fixed <= ALPHA).mean()), float((ever <= ALPHA).mean())


def familywise(groups: int, runs: int, seed: int = 1, shared: float = 0.0) -> tuple[float, float]:
    """How often any of several groups, none of which is worse, is called so: after all pairs, and ever.

    Args:
        groups: how many.
        runs: how many.
        seed: of the generator.
        shared: the share of pairs that every group has in common with the first.
    """
    design, generator = Design(2, 30, discordance=0.4, effect=0.1), np.random.default_rng(seed)
    wrong = np.zeros(2)
    # Not all at once: 20,000 runs of 20 groups are 24 million pairs.
    for some in (len(part) for part in np.array_split(np.arange(runs), max(1, runs * groups // 20_000))):
        pairs = draw(design, 0.0, some * groups, generator).reshape(some, groups, design.seeds, design.tasks, 1)
        same = generator.random((some, 1, design.seeds, design.tasks, 1)) < shared
        pairs = np.where(same, pairs[:, :1], pairs).reshape(-1, design.seeds, design.tasks, 1)
        for number, p in enumerate((fixed_p(design, pairs, "regression"), sequential_p(pairs, "regression")[:, -1])):
            wrong[number] += sum(min(holm(each)) <= ALPHA for each in p.reshape(some, groups).tolist())
    return float(wrong[0] / runs), float(wrong[1] / runs)


def coverage(design: Design, mean: float, runs: int, seed: int = 1) -> tuple[float, float]:
    """The share of paired 95% intervals that hold the mean, and their mean width."""
    rows, which = different(design, draw(design, mean, runs, np.random.default_rng(seed)))
    units, times = units_of(design), np.bincount(which)
    bounds = [paired_bounds(row, units, 0.025) for row in rows.tolist()]
    held = np.array([each.lower - 1e-9 <= mean <= each.upper + 1e-9 for each in bounds])
    width = np.array([each.upper - each.lower for each in bounds])
    return float(np.average(held, weights=times)), float(np.average(width, weights=times))


# Without pairs


@dataclass(frozen=True)
class Sides:
    """Two policies that share no seeds.

    Attributes:
        new: success rates by task.
        baseline: likewise.
        n: episodes of each task of the new policy.
        m: of the baseline.
    """

    new: tuple[float, ...]
    baseline: tuple[float, ...]
    n: int
    m: int

    def __str__(self) -> str:
        tasks = " ".join(f"{100 * b:g}>{100 * a:g}" for a, b in zip(self.new[:4], self.baseline[:4], strict=True))
        return f"{len(self.new)} tasks, {self.n} against {self.m}: {tasks}" + " ..." * (len(self.new) > 4)


SIDES = (
    Sides((0.5, 0.5), (0.5, 0.5), 15, 15),
    Sides((0.95, 0.95), (1.0, 1.0), 40, 40),
    Sides((0.9, 0.0), (1.0, 0.0), 50, 50),
    Sides((0.95, 0.95), (1.0, 1.0), 100, 20),
    Sides((0.9, 0.9), (0.9, 0.9), 40, 10),
    Sides((0.8, 0.6), (0.45, 0.95), 20, 20),
    Sides((0.5, 0.5), (0.9, 0.1), 10, 60),
    Sides((0.9, 0.4, 0.45, 0.0, 0.95), (1.0, 0.3, 0.7, 0.0, 0.95), 10, 10),
    Sides((0.9, 0.9, 0.9, 0.0, 0.0, 1.0) * 3, (1.0, 1.0, 1.0, 0.0, 0.0, 1.0) * 3, 10, 10),
)


def unpaired_errors(sides: Sides, runs: int, seed: int = 1) -> tuple[float, float, float] | tuple[float]:
    """How often what is just untrue is said: no worse by the mean drop that there is; worse, where it is 0.

    Returns:
        Of the score test; where the mean drop is 0, of both tests that the new policy is worse, and of the exact one.
    """
    generator, tasks = np.random.default_rng(seed), len(sides.new)
    new = generator.binomial(sides.n, sides.new, (runs, tasks))
    baseline = generator.binomial(sides.m, sides.baseline, (runs, tasks))
    drop = float(np.mean(sides.baseline) - np.mean(sides.new))
    n, m = np.full(tasks, float(sides.n)), np.full(tasks, float(sides.m))
    quantile = stats.norm.isf(ALPHA)
    no_worse = stratified_statistic(new, n, baseline, m, -drop, CORRECTION) >= quantile
    if abs(drop) > 1e-9:
        return (float(no_worse.mean()),)
    rows, times = np.unique(np.hstack([new, baseline]), axis=0, return_counts=True)
    p = [counts_p(row[:tasks], sides.n, row[tasks:], sides.m) for row in rows.tolist()]
    both, exact = np.average(np.array(p) <= ALPHA, weights=times, axis=0)
    return float(no_worse.mean()), float(both), float(exact)


def counts_p(new: Sequence[int], n: int, baseline: Sequence[int], m: int) -> tuple[float, float]:
    """`unpaired_change_p` and `stratified_p` of counts by task, that the new policy is worse."""
    sides: list[tuple[list[int], list[Unit]]] = []
    for counts, number, first in ((new, n, 0), (baseline, m, n)):
        done = [int(seed < count) for count in counts for seed in range(number)]
        sides.append((done, [(f"task {t}", first + seed) for t in range(len(counts)) for seed in range(number)]))
    return unpaired_change_p(*sides[0], *sides[1]), stratified_p(*sides[0], *sides[1])


# What it finds


@dataclass(frozen=True)
class Found:
    """What a gate says of a difference.

    Attributes:
        fixed: the share of runs of which the claim is made after all pairs.
        sequential: while they come, before the other one is (a drop below the margin is a regression, and no worse).
        pairs: that the sequential gate takes on average; it stops at this claim, or at that against it.
        of: all pairs.
    """

    fixed: float
    sequential: float
    pairs: float
    of: int


def against(claim: Claim) -> Claim:
    """The other claim that a sequential gate stops at."""
    return "no worse" if claim == "regression" else "regression"


def power(design: Design, mean: float, claim: Claim, runs: int, seed: int = 1) -> Found:
    """How often a claim that is true is made, and of how many pairs."""
    pairs = draw(design, mean, runs, np.random.default_rng(seed))
    fixed = float((fixed_p(design, pairs, claim) <= ALPHA).mean())
    made, other = sequential_p(pairs, claim) <= ALPHA, sequential_p(pairs, against(claim)) <= ALPHA
    stopped = made | other
    rounds = np.where(stopped[:, -1], stopped.argmax(axis=1) + 1, design.seeds)
    said = made[np.arange(runs), rounds - 1]
    each = design.tasks * design.kinds
    return Found(fixed, float(said.mean()), float(rounds.mean()) * each, design.seeds * each)


def single_errors(n: int, margin: float, discordance: float, alpha: float = ALPHA) -> tuple[float, float]:
    """How often single pairs that lose `margin` are called no worse, and a loss beyond it; exactly, over all tables."""
    gained, lost = np.indices((n + 1, n + 1)).reshape(2, -1)
    gained, lost = gained[gained + lost <= n], lost[gained + lost <= n]
    rest = n - gained - lost
    kinds, counts = Kinds(np.array([1.0, -1, 0]), np.ones(3)), np.stack([gained, lost, rest], 1).astype(float)
    ways = gammaln(n + 1) - gammaln(gained + 1) - gammaln(lost + 1) - gammaln(rest + 1)
    likely = xlogy(gained, (discordance - margin) / 2) + xlogy(lost, (discordance + margin) / 2)
    share = np.exp(ways + likely + xlogy(rest, 1 - discordance))
    no_worse = no_worse_ps(kinds, counts, margin) <= alpha
    return float(share[no_worse].sum()), float(share[changed_ps(kinds, counts, "worse", margin) <= alpha].sum())


# Few starts of many pairs


STARTS = (3, 5, 8, 10, 15, 20, 30, 50)
PAIRS = (1, 5, 10, 25, 50)
RARE = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
"""Of starts, the shares that gain all of their pairs, or most of them."""


Flips = tuple[NDArray[np.signedinteger], NDArray[np.signedinteger]]
"""Of each run and start the pairs that are gained, and that are lost (runs, starts) each."""


def flips_between(
    before: float | NDArray[np.float64],
    after: float | NDArray[np.float64],
    size: int,
    shape: tuple[int, int],
    generator: np.random.Generator,
) -> Flips:
    """So many pairs of each start, of which either side does its share, independently."""
    drop = np.broadcast_to(np.asarray(before * (1 - after)), shape)
    rise = np.broadcast_to(np.asarray((1 - before) * after), shape)
    lost = generator.binomial(size, drop)
    return generator.binomial(size - lost, np.clip(rise / np.maximum(1 - drop, 1e-12), 0.0, 1.0)), lost


def equal_flips(starts: int, size: int, runs: int, generator: np.random.Generator) -> Flips:
    """Two policies that are alike, and do as well under all variations of a start as they do that start, or do not."""
    rate = generator.beta(4.5, 0.5, (runs, starts))
    return flips_between(rate, rate, size, (runs, starts), generator)


def rare_flips(starts: int, size: int, runs: int, generator: np.random.Generator) -> Iterator[tuple[float, Flips]]:
    """Means of 0: starts that rarely gain all or .7 of their pairs, and otherwise lose a little; with what is lost."""
    for gain in {size, -int(-0.7 * size // 1)}:
        for share in RARE:
            lost = share * gain / (1 - share)
            if lost > size:
                continue
            whole = max(int(np.ceil(lost)), 1)
            is_rare = generator.random((runs, starts)) < share
            for losses in (
                whole * (generator.random((runs, starts)) < lost / whole),
                generator.binomial(size, lost / size, (runs, starts)),
            ):
                yield lost / size, (gain * is_rare, np.where(is_rare, 0, losses))


TESTS: dict[str, Callable[[Flips, int], NDArray[np.float64]]] = {
    "now": lambda flips, size: change_of(flips[0] - flips[1], size),
    "flips": lambda flips, size: flip_of(flips[0] - flips[1]),
}
"""Of any loss, the p by the gate's test and by the one that flips signs."""


def wrong_by(flips: Flips, size: int) -> NDArray[np.float64]:
    """The share of runs in which each of `TESTS` shows a loss."""
    return np.array([(p_of(flips, size) <= ALPHA).mean() for p_of in TESTS.values()])


@dataclass(frozen=True)
class Erring:
    """How often claims are made that are just untrue: the largest share over designs.

    Attributes:
        equal: any loss, of two policies that are alike, by each of `TESTS`.
        small: likewise, where starts that rarely gain are made up for by losses of at most 10% of the others' pairs.
        rare: likewise, by losses of any size.
        no_worse: no worse, where starts are lost whole as often as makes up the margin.
    """

    equal: NDArray[np.float64]
    small: NDArray[np.float64]
    rare: NDArray[np.float64]
    no_worse: float


def start_errors(starts: int, size: int, runs: int, seed: int = 1) -> Erring:
    """Of so many starts of so many pairs."""
    generator = np.random.default_rng(seed)
    equal = wrong_by(equal_flips(starts, size, runs, generator), size)
    small, rare = np.zeros(len(TESTS)), np.zeros(len(TESTS))
    for lost, flips in rare_flips(starts, size, runs, generator):
        found = wrong_by(flips, size)
        rare = np.maximum(rare, found)
        small = np.maximum(small, found) if lost <= 0.1 else small
    no_worse = 0.0
    for margin in (0.05, 0.2):
        sums = -size * (generator.random((runs, starts)) < margin).astype(int)
        no_worse = max(no_worse, float((no_worse_of(sums, size, margin) <= ALPHA).mean()))
    return Erring(equal, small, rare, no_worse)


def start_power(starts: int, size: int, before: float, after: float, runs: int, seed: int = 1) -> tuple[float, ...]:
    """How often a loss is found: any by each of `TESTS`, and by the gate's one beyond the margin.

    All pairs are independent, as they are where a start matters less than its variation.
    """
    flips = flips_between(before, after, size, (runs, starts), np.random.default_rng(seed))
    beyond = change_of(flips[0] - flips[1], size, beyond=MARGIN)
    return (*map(float, wrong_by(flips, size)), float((beyond <= ALPHA).mean()))


# What follows advice


def advised_errors(pairs: int, discordance: float, looks: int, runs: int, seed: int = 1) -> tuple[float, float]:
    """How often equal policies end as a regression (any loss): if one runs more of the same pairs, or compares anew.

    As long as nothing is shown one runs as many pairs as those that there are would take if they went on like that.
    """
    generator, wrong = np.random.default_rng(seed), [0, 0]
    kinds = Kinds(np.array([-1.0, 0, 1]), np.ones(3))
    chances = [discordance / 2, 1 - discordance, discordance / 2]
    times = np.geomspace(1.05, 40, 60)
    for _ in range(runs):
        more = generator.multinomial(pairs, chances)
        anew = more.copy()
        for way, counts in enumerate((more, anew)):
            for look in range(looks + 1):
                if _is_shown(kinds, counts[None, :])[0]:
                    wrong[way] += int(changed_ps(kinds, counts[None, :], "worse")[0] <= ALPHA)
                    break
                settled = np.flatnonzero(_is_shown(kinds, times[:, None] * counts))
                if look == looks or not len(settled):
                    break
                total = int(np.ceil(times[settled[0]] * counts.sum()))
                if way:
                    # Once, of a size that four of five runs are decided by, and then no more.
                    counts = generator.multinomial(round(2.28 * total), chances)
                    wrong[way] += int(changed_ps(kinds, counts[None, :], "worse")[0] <= ALPHA)
                    break
                counts = counts + generator.multinomial(total - counts.sum(), chances)
    return wrong[0] / runs, wrong[1] / runs


def kept_errors(starts: int, run_seeds: int, beyond: float, runs: int, seed: int = 1) -> tuple[float, float, float]:
    """How often a policy that draws is called a regression against a baseline of its own that is kept.

    Args:
        starts: of the run, each with its own chance of success, .9 on average.
        run_seeds: episodes of each start, on both sides.
        beyond: of the claim.
        runs: against each of 200 baselines.
        seed: of the simulation.

    Returns:
        On average; with the unluckiest 2.5% of baselines at least; and in run 20 against the best run so far.
    """
    generator = np.random.default_rng(seed)
    rates = generator.beta(2.7, 0.3, starts)

    def drawn(number: int) -> Sums:
        found: Sums = generator.binomial(run_seeds, rates, (number, starts))
        return found

    shares = []
    for _ in range(200):
        sums = drawn(runs) - drawn(1)
        shares.append(float((change_of(sums, run_seeds, beyond=beyond) <= ALPHA).mean()))
    best = []
    for _ in range(400):
        before = drawn(19)
        best.append((drawn(1) - before[before.sum(1).argmax()])[0])
    last = float((change_of(np.array(best), run_seeds, beyond=beyond) <= ALPHA).mean())
    return float(np.mean(shares)), float(np.quantile(shares, 0.975)), last


def _is_shown(kinds: Kinds, counts: NDArray[np.float64]) -> NDArray[np.bool_]:
    ps = changed_ps(kinds, counts, "worse"), changed_ps(kinds, counts, "better"), no_worse_ps(kinds, counts, MARGIN)
    found: NDArray[np.bool_] = np.minimum.reduce(ps) <= ALPHA
    return found


def show_errors(runs: int) -> None:
    allowed = ALPHA + 3 * sqrt(ALPHA * (1 - ALPHA) / runs)
    print(f"Claims made that are just untrue, of {runs} runs; at most {ALPHA} is promised (! above {allowed:.4f})")
    print(f"{'design':58} {'claim':12} {'fixed':>7} {'ever':>7}")
    for design in DESIGNS:
        for claim in ("regression", "no worse", "better"):
            found = errors(design, claim, runs)
            texts = [f"{each:.4f}" + " !"[each > allowed] for each in found]
            print(f"{design!s:58} {claim:12} {texts[0]:>7} {texts[1]:>7}", flush=True)
    print("\nAny of several groups called worse, none of which is, with Holm's correction")
    print(f"{'groups':>7} {'in common':>10} {'fixed':>7} {'ever':>7}")
    for groups, shared in ((2, 0.0), (5, 0.0), (20, 0.0), (20, 0.5)):
        found = familywise(groups, max(runs // groups, 100), shared=shared)
        print(f"{groups:7} {shared:10.0%} {found[0]:7.4f} {found[1]:7.4f}", flush=True)


def show_coverage(runs: int) -> None:
    print(f"\nPaired 95% intervals that hold the mean, of {runs} runs, and their mean width")
    for design in DESIGNS:
        for mean in (0.0, -0.1):
            held, width = coverage(design, mean, runs)
            print(f"{design!s:58} {mean:5.2f} {held:7.4f}{' !'[held < 0.94]} {width:6.3f}", flush=True)


def show_unpaired(runs: int) -> None:
    print(
        "\nUnpaired: no worse, though it is by just so much; worse, though it is not (both tests, the exact one alone)"
    )
    for sides in SIDES:
        found = [f"{each:7.4f}" for each in unpaired_errors(sides, runs)]
        print(f"{sides!s:58} {' '.join(found)}", flush=True)


def show_power(runs: int, both: float) -> None:
    print(f"\nWhat is found, of {runs} runs; pairs that go against the drop: {both / 2:.0%} of all")
    print(f"{'drop':>5} {'claim':12} {'pairs':>6} {'fixed':>6} {'sequential':>10} {'takes':>6} {'saved':>6}")
    for drop in (0.0, 0.03, 0.05, 0.1, 0.2):
        for seeds in (10, 20, 50):
            claim: Claim = "regression" if drop else "no worse"
            found = power(Design(10, seeds, discordance=drop + both), -drop, claim, runs)
            print(f"{drop:5.2f} {claim:12} {found.of:6} {found.fixed:6.2f} {found.sequential:10.2f}", end=" ")
            print(f"{found.pairs:6.0f} {1 - found.pairs / found.of:6.0%}", flush=True)


def show_single() -> None:
    print("\nThe largest exact error of the paired bound at 5% for single pairs, each way, and where")
    for way, name in enumerate(("no worse", "a loss beyond the margin")):
        worst = max(
            (single_errors(n, margin, discordance)[way], n, margin, discordance)
            for n in (10, 23, 40, 52, 70, 105, 150)
            for margin in (0.02, 0.05, 0.1, 0.2, 0.3)
            for discordance in (margin, margin + 0.03, 0.4, 0.6)
        )
        print(f"{name}: {worst[0]:.4f} at {worst[1]} pairs, margin {worst[2]}, discordant {worst[3]:.2f}", flush=True)


def show_starts(runs: int) -> None:
    print(f"\nStarts of several pairs, of {runs} runs: false claims at {ALPHA:.0%} (the largest share over designs)")
    print("any loss: now / by flips of signs")
    print(f"{'starts x pairs':>15} {'alike':>20} {'small':>20} {'rare':>20} {'no worse':>9}")
    for starts in STARTS:
        for size in PAIRS:
            found = start_errors(starts, size, runs)
            texts = (" / ".join(f"{each:.3f}" for each in some) for some in (found.equal, found.small, found.rare))
            row = " ".join(f"{text:>20}" for text in texts)
            print(f"{starts:7} x {size:5} {row} {found.no_worse:9.3f}", flush=True)
    print("\nWhat is found: any loss now / by flips of signs / now beyond the margin")
    drops = ((0.9, 0.0), (0.9, 0.3), (0.9, 0.6), (0.9, 0.7), (0.9, 0.8))
    print(f"{'starts x pairs':>15} " + " ".join(f"{f'{before:g} > {after:g}':>25}" for before, after in drops))
    for starts in STARTS:
        for size in PAIRS:
            cells = [start_power(starts, size, *drop, runs) for drop in drops]
            texts = (" / ".join(f"{each:.2f}" for each in cell) for cell in cells)
            print(f"{starts:7} x {size:5} " + " ".join(f"{text:>25}" for text in texts), flush=True)


def show_advice(runs: int) -> None:
    print("\nFalse regressions (any loss) of equal policies: more of the same pairs, up to three times; compared anew")
    for pairs, discordance in ((20, 0.1), (40, 0.1), (40, 0.3), (100, 0.2)):
        more, anew = advised_errors(pairs, discordance, 3, runs)
        print(f"{pairs:4} pairs, discordant {discordance:.0%}: {more:.3f} {anew:.3f}", flush=True)


def show_kept(runs: int) -> None:
    print(
        "\nFalse regressions against a kept baseline of a policy that draws (.9): on average, with the unluckiest 2.5%"
    )
    print("of baselines at least, and in run 20 where the baseline is the best run so far")
    print(f"{'starts':>7} {'run seeds':>10} {'any loss':>22} {'beyond the margin':>22}")
    for starts in (50, 100, 500):
        for run_seeds in (1, 3, 10):
            cells = [kept_errors(starts, run_seeds, beyond, min(runs, 200)) for beyond in (0.0, MARGIN)]
            texts = [" ".join(f"{each:6.3f}" for each in cell) for cell in cells]
            print(f"{starts:7} {run_seeds:10} {texts[0]:>22} {texts[1]:>22}", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--both", type=float, default=0.1, help="discordance where nothing differs, 0..1")
    parser.add_argument("--only", default="", help="errors, starts, coverage, single, advice, kept, unpaired or power")
    parser.add_argument("--quick", action="store_true", help="200 runs of each, and not --runs")
    options = parser.parse_args()
    runs = 200 if options.quick else options.runs
    tables = {
        "errors": lambda: show_errors(runs),
        "coverage": lambda: show_coverage(runs),
        "unpaired": lambda: show_unpaired(runs),
        "power": lambda: show_power(runs, options.both),
        "starts": lambda: show_starts(runs),
        "single": show_single,
        "advice": lambda: show_advice(runs),
        "kept": lambda: show_kept(runs),
    }
    for name, show in tables.items():
        if options.only in name:
            show()


if __name__ == "__main__":
    main()
