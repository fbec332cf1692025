"""What a question to tiny costs, without the pictures' drawing: alone, in a batch, with samples; and to load it.

python benchmarks/tiny.py [tiny | tiny@early | tiny:PATH.npz]
"""

import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from pytest_vla.policies.base import Episode, Wishes
from pytest_vla.policies.load import load_policy
from pytest_vla.policies.noise import noise_generator
from pytest_vla.policies.spec import ModelSpec

QUESTIONS = 40


def main() -> None:
    before = _memory()
    begun = time.perf_counter()
    policy: Any = load_policy(ModelSpec(sys.argv[1] if len(sys.argv) > 1 else "tiny", Path.cwd()))
    print(f"loaded in {time.perf_counter() - begun:.2f} s, with {_memory() - before:.0f} MB more")
    rng = np.random.default_rng(0)
    seen = {
        "agentview_image": rng.integers(0, 256, (256, 256, 3), dtype=np.uint8),
        "robot0_eye_in_hand_image": rng.integers(0, 256, (256, 256, 3), dtype=np.uint8),
        "state": np.array([-0.2, 0.0, 1.1, 3.1, 0.0, 0.0, 0.04, -0.04]),
    }
    alone = None
    print(f"{'':32} {'a question':>10} {'of alone':>9}")
    for name, batch, wishes in (
        ("alone", 1, Wishes()),
        ("in a batch of 8", 8, Wishes()),
        ("with token probabilities", 1, Wishes(token_probabilities=True)),
        ("with 8 samples", 1, Wishes(samples=8)),
    ):
        episodes = [
            Episode(f"a[{n}]", "tabletop", "t", "put the bowl on the plate", n, noise_generator(0, f"a[{n}]"), wishes)
            for n in range(batch)
        ]
        sessions = [policy.begin(episode) for episode in episodes]
        took = []
        for _ in range(QUESTIONS):
            begun = time.perf_counter()
            policy.act(sessions, [seen] * batch)
            took.append((time.perf_counter() - begun) / batch * 1e3)
        median = statistics.median(took)
        alone = median if alone is None else alone
        print(f"{name:32} {median:7.2f} ms {median / alone:8.2f}x", flush=True)


def _memory() -> float:
    """The most that this process has had, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
