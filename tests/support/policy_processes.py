"""Processes that serve a policy with troubles on demand, and the questions of one worker."""

from pathlib import Path
from typing import Any

import numpy as np

from pytest_vla.policies.base import Episode
from pytest_vla.policies.generators import noise_generator, reseed
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.serving.client import ServedPolicy
from pytest_vla.serving.process import PolicyAddress, PolicyProcess
from pytest_vla.serving.process import start as start_at
from tests.support.waiting import HANG

# Counts its own steps, adds noise and what it sees; has troubles on demand.
POLICIES = """
import os, signal, time
from pathlib import Path
import numpy as np
from run_out import run_out, run_out_for_good
from pytest_vla.policies.base import Answer
from pytest_vla.policies.tokens import token_statistics

class Telling:
    def close(self):
        Path(__file__).with_name("closed.txt").touch()

class Counting:
    max_batch, reads = 8, ("agentview_image", "state")

    def begin(self, episode):
        if episode.instruction == "refuse":
            raise ValueError("no such task")
        if episode.instruction == "tell":
            return Telling()
        return {"rng": episode.rng, "steps": 0, "seed": episode.seed, "told": episode.instruction,
                "wishes": episode.wishes, "replan": episode.replan}

    def act(self, states, observations):
        if any(state["told"] == "die" for state in states):
            os._exit(3)
        if any(state["told"] == "hang" for state in states):
            Path(__file__).with_name("hangs").touch()
            run_out()
            time.sleep(7200)
        if any(state["told"] == "slow" for state in states):
            # Who asked is interrupted while it waits.
            os.kill(os.getppid(), signal.SIGALRM)
            time.sleep(0.5)
        answers = []
        for state, observation in zip(states, observations):
            if state["told"] == "doubt":
                drawn = state["rng"].normal(size=(state["wishes"].samples, 2, 7))
                told = token_statistics([[0.0, 1.0, 2.0]])
                answers.append(Answer(drawn[0], drawn, np.array([0.25]), told))
                continue
            if state["told"] == "raise":
                raise KeyError("nothing here")
            if state["told"] == "nan":
                answers.append(np.full((2, 7), np.nan))
                continue
            state["steps"] += 1
            chunk = np.zeros((2, 7))
            chunk[:, 0] = state["steps"]
            chunk[:, 1] = state["rng"].normal()
            chunk[:, 2] = observation["agentview_image"].mean()
            chunk[:, 3] = observation["state"][0]
            chunk[:, 4] = state["seed"]
            chunk[:, 5] = state["replan"] or 0
            answers.append(chunk)
        return answers

counting = Counting()
plain = lambda episode: None

class Loud(Counting):
    def __init__(self):
        print("this goes to standard error")

def broken():
    raise RuntimeError("weights are missing")
"""

ADDRESSES: list[PolicyAddress] = []


def start(model: str, folder: Path, most: int, timeout: float = HANG, **more: Any) -> PolicyProcess:
    ADDRESSES.append(PolicyAddress.new())
    return start_at(ModelSpec(model, folder, timeout=timeout), most, ADDRESSES[-1], **more)


def policy_of(process: PolicyProcess, timeout: float = HANG) -> ServedPolicy:
    return ServedPolicy(process.address, timeout)


def episode(seed: int, instruction: str = "do it") -> Episode:
    case = f"s/t[seed{seed}]"
    return Episode(case, "s", "t", instruction, seed, noise_generator(0, case))


def seen(value: int) -> dict[str, Any]:
    return {"agentview_image": np.full((64, 64, 3), value, np.uint8), "state": np.full(8, 0.5 * value), "other": None}


def run(policy: ServedPolicy, seed: int, steps: int) -> np.ndarray:
    """The answers of one whole episode, seeded before every question as rollouts do."""
    begun = episode(seed)
    session = policy(begun)
    answers = []
    for step in range(steps):
        reseed(begun.rng, 0, begun.case_id, step)
        answers.append(session(seen(seed + step)).actions)
    session.close()
    return np.array(answers)
