"""How often the 95% intervals of mean costs hold simulated truths, where few episodes are charged.

    python benchmarks/cost_intervals.py [--repetitions=1000]

Tasks differ in what a charged episode costs (uniform, 5 to 30), episodes of one in whether they are charged at all and
then exponentially. The truth over these tasks is the mean of what their episodes cost in the long run. An interval that
cannot be given, as all costs are alike, holds nothing.
"""

import argparse

import numpy as np

from pytest_vla.metrics.clustered import mean_intervals

_TASKS, _SEED = 8, 17


def coverage(free: float, seeds: int, repetitions: int) -> float:
    """The share of repetitions whose interval over these tasks holds the truth.

    Args:
        free: the share of episodes that cost nothing.
        seeds: episodes of each of eight tasks.
        repetitions: how often it is drawn.
    """
    generator = np.random.default_rng(_SEED)
    units = [(f"task {task}", seed) for task in range(_TASKS) for seed in range(seeds)]
    held = 0
    for _ in range(repetitions):
        scales = generator.uniform(5.0, 30.0, _TASKS)
        truth = float((1.0 - free) * scales.mean())
        charged = generator.random((_TASKS, seeds)) >= free
        costs = (charged * generator.exponential(scales[:, None], (_TASKS, seeds))).ravel()
        if len(set(costs.tolist())) == 1:
            continue
        interval, _ = mean_intervals(costs.tolist(), units)
        held += interval is not None and max(interval[0], 0.0) <= truth <= interval[1]
    return held / repetitions


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=1000)
    repetitions = parser.parse_args().repetitions
    print("episodes without any charge   5 seeds a task   20 seeds a task")
    for free in (0.0, 0.5, 0.7, 0.9, 0.95):
        few, many = (coverage(free, seeds, repetitions) for seeds in (5, 20))
        print(f"{free:>27.0%}   {few:>14.1%}   {many:>15.1%}")


if __name__ == "__main__":
    main()
