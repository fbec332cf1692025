"""How often the intervals of LIBERO-Para's row hold the truth: simulated models whose success is known.

``python benchmarks/intervals.py [--repetitions 200]``. Texts and seeds have effects on success, and texts that are
farther away fail more often. Of each design episodes are drawn again and again, and the share of 95% intervals that
hold the truth is counted, of SR, PRIDE(.5) and the overestimation.
"""

import argparse
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_vla.metrics.language import Scored, measure
from pytest_vla.metrics.pride import ParaphraseOutcome

ALPHA = 0.5
TRUTH_TEXTS, TRUTH_SEEDS = 6000, 300


@dataclass(frozen=True)
class Design:
    """A way to run episodes, and the model that is run.

    Attributes:
        name: for the table.
        texts, seeds: how many.
        episodes: how many of all combinations are drawn; None: all; 0: each text once, with a drawn seed.
        text_effect, seed_effect: standard deviations, log-odds.
        base: log-odds of success.
    """

    name: str
    texts: int
    seeds: int = 5
    episodes: int | None = None
    text_effect: float = 1.0
    seed_effect: float = 0.0
    base: float = 1.2


DESIGNS = (
    *(Design(f"each of {texts} texts once", texts, episodes=0) for texts in (4, 10, 20, 60, 430)),
    Design("each of 60 once, success high", 60, episodes=0, base=3.5),
    Design("each of 60 once, seeds matter", 60, episodes=0, seed_effect=0.3),
    *(Design(f"{texts} texts x 5 seeds", texts) for texts in (4, 20, 60)),
    Design("60 texts x 5 seeds, texts matter twice", 60, text_effect=2.0),
    Design("60 texts x 5 seeds, seeds matter", 60, seed_effect=0.3),
    *(Design(f"{episodes} of 60 texts x 5 seeds", 60, episodes=episodes) for episodes in (90, 150)),
    Design("430 of 400 texts x 5 seeds", 400, episodes=430),
)


def simulated(
    design: Design, texts: int, seeds: int, generator: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Paraphrase distances (texts,) and successes (texts, seeds)."""
    distance = np.clip(generator.gamma(4, 0.06, texts), 0.02, 0.8)
    of_text = design.base + design.text_effect * generator.normal(size=texts) - 4 * (distance - 0.24)
    odds = of_text[:, None] + design.seed_effect * generator.normal(size=seeds)
    return distance, generator.random((texts, seeds)) < 1 / (1 + np.exp(-odds))


def chosen(design: Design, generator: np.random.Generator) -> list[tuple[int, int]]:
    """The texts and seeds that are run."""
    whole = [(text, seed) for text in range(design.texts) for seed in range(design.seeds)]
    if design.episodes is None:
        return whole
    if not design.episodes:
        return [(text, int(generator.integers(design.seeds))) for text in range(design.texts)]
    return [whole[index] for index in generator.choice(len(whole), size=design.episodes, replace=False)]


def held(design: Design, repetitions: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Whether intervals of SR, PRIDE and overestimation hold the truth (repetitions, 3); nan: there is none."""
    distance, success = simulated(design, TRUTH_TEXTS, TRUTH_SEEDS, generator)
    rate, pride = 100 * success.mean(), 100 * (distance[:, None] * success).sum() / distance.sum() / success.shape[1]
    truth = rate, pride, 100 * (rate - pride) / rate
    found = np.full((repetitions, 3), np.nan)
    for row in found:
        distance, success = simulated(design, design.texts, design.seeds, generator)
        run, near = chosen(design, generator), 1 - distance
        outcomes = tuple(
            ParaphraseOutcome(bool(success[text, seed]), near[text], near[text], "none", "hint", "x", "f 1")
            for text, seed in run
        )
        scored = Scored(outcomes, tuple(text for text, _ in run), tuple(seed for _, seed in run))
        measured = measure(scored, ALPHA, generator)
        for column, estimate in enumerate((measured.sr, measured.pride, measured.overestimation)):
            if estimate is not None and estimate.interval is not None:
                row[column] = estimate.interval[0] <= truth[column] <= estimate.interval[1]
    return found


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=200)
    options = parser.parse_args()
    print(f"{'design':40} {'SR':>6} {'PRIDE':>6} {'over.':>6}  of {options.repetitions}; without an interval")
    for design in DESIGNS:
        found = held(design, options.repetitions, np.random.default_rng(1))
        shares = " ".join(f"{share:6.3f}" for share in np.nanmean(found, axis=0))
        print(f"{design.name:40} {shares}  {int(np.isnan(found).any(axis=1).sum())}", flush=True)


if __name__ == "__main__":
    main()
