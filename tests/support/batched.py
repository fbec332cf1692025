"""A policy that answers in batches, as the module of a user's project."""

from pathlib import Path

import pytest

# Walks to the goal line with noise of its own, and keeps a count in each session. Troubles come by the seed.
BATCHED = """
import os, signal, time
from pathlib import Path
import numpy as np
from run_out import run_out

HERE = Path(__file__).parent

class Batched:
    max_batch, reads, replan = 16, ("agentview_image", "state"), 3

    def __init__(self):
        with (HERE / "loaded.txt").open("a") as log:
            print(os.getpid(), os.environ.get("PYTEST_XDIST_WORKER", "-"), file=log)

    def begin(self, episode):
        return {"rng": episode.rng, "asked": 0, "seed": episode.seed}

    def act(self, states, observations):
        answers = []
        for state, observation in zip(states, observations):
            self.trouble(state)
            state["asked"] += 1
            chunk = np.zeros((5, 7))
            chunk[:, 0] = 0.2
            chunk[:, 1] = 0.1 * state["rng"].normal()
            chunk[:, 2] = 0.001 * state["asked"] + 1e-6 * observation["agentview_image"].mean()
            answers.append(chunk)
        with (HERE / "batches.txt").open("a") as log:
            print(len(states), file=log)
        return answers

    def trouble(self, state):
        pass

policy = Batched()
"""


def troubled(project: pytest.Pytester, trouble: str) -> None:
    project.makepyfile(
        batched=BATCHED.replace(
            "    def trouble(self, state):\n        pass\n", f"    def trouble(self, state):\n{trouble}"
        )
    )


def loaded(folder: Path) -> list[str]:
    """For each time that the policy was loaded, the worker that did, or ``-``."""
    return [line.split()[1] for line in (folder / "loaded.txt").read_text().splitlines()]
