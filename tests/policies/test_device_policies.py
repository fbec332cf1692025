"""The policies of benchmarks/device.py load as its runs load them, and what its tables are made of is right."""

import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.policies.base import Episode, Observations, is_batch_policy
from pytest_vla.policies.load import load_policy
from pytest_vla.policies.spec import ModelSpec
from tests.support.data import REPOSITORY

BENCHMARKS = REPOSITORY / "benchmarks"


@pytest.fixture(autouse=True)
def on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)


def an_episode(seed: int) -> Episode:
    return Episode(f"s/t[seed{seed}]", "s", "t", "do it", seed, np.random.default_rng(seed))


def test_a_stand_in_answers_a_batch_and_notes_its_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = tmp_path / "notes"
    monkeypatch.setenv("DEVICE_BENCHMARK_NOTES", str(notes))
    policy: Any = load_policy(ModelSpec("device_policies:sleeper?shape=pi0&reads=state", BENCHMARKS))
    assert is_batch_policy(policy)
    assert (policy.max_batch, policy.reads, policy.replan) == (32, ("state",), 10)
    began = time.perf_counter()
    chunks = policy.act([policy.begin(an_episode(seed)) for seed in (0, 1)], Observations([{"state": np.zeros(8)}] * 2))
    assert time.perf_counter() - began >= 0.059
    assert np.shape(chunks) == (2, 50, 7)
    assert np.abs(chunks).max() <= 1
    assert np.array_equal(chunks[1], policy.act([an_episode(1)], Observations([{"state": np.zeros(8)}]))[0])
    (first_began, first_ended, questions), (*_, then) = map(json.loads, notes.read_text().splitlines())
    assert (questions, then) == (2, 1)
    assert first_ended - first_began >= 0.059


def test_the_best_rate_is_of_batches_that_can_be_filled() -> None:
    from device import best_rate, powers
    from device_policies import TAKES
    from serving_calls import takes

    assert takes(TAKES["pi0"], 12) == pytest.approx((76 + 126) / 2)
    assert best_rate(TAKES["pi0"]) == pytest.approx(32 / 0.238)
    assert best_rate(TAKES["pi0"], 1) == pytest.approx(1 / 0.061)
    assert best_rate({1: 10.0, 2: 10.0}, 16) == 200
    assert powers(1) == [1]
    assert powers(16) == [1, 4, 16]
    assert powers(24) == [1, 4, 16, 24]
    assert math.isclose(best_rate(TAKES["smolvla"], 4), 4 / 0.049)
