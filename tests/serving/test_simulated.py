"""Workers and device as a queue: what can be reckoned by hand comes out, and no more is given than there is."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.serving.simulated import AtLeast, Foreseen, Load, simulate
from pytest_vla.serving.stats import ServingStats, seen_of
from pytest_vla.serving.throughput import foresee, load_of
from tests.support.examples import scaled


def run(load: Load, workers: int, number: int = 1, episodes: int | None = None) -> Foreseen:
    return simulate(load, workers, AtLeast(number, workers), np.random.default_rng(0), episodes=episodes)


def constant(call: float, thinking: float, **more: float) -> Load:
    return Load(lambda size: call, 32, (thinking,), **more)  # type: ignore[arg-type]


def test_one_worker_thinks_and_waits_in_turn() -> None:
    found = run(constant(0.05, 0.15), 1)
    assert found.questions_per_second == pytest.approx(5.0)
    assert (found.busy, found.mean_batch) == (pytest.approx(0.25), 1.0)


def test_all_together_or_two_groups_in_turn() -> None:
    together = run(constant(0.1, 0.1), 8, 8)
    assert together.questions_per_second == pytest.approx(8 / 0.2)
    assert together.mean_batch == 8.0
    in_turn = run(constant(0.1, 0.1), 8, 4)
    assert in_turn.questions_per_second == pytest.approx(4 / 0.1)
    assert in_turn.busy == pytest.approx(1.0, abs=0.01)


def test_workers_share_the_cores() -> None:
    # Sixteen think 0.1 s each on 4 cores: 0.4 s, then all are answered in 0.1 s.
    found = run(constant(0.1, 0.1, cores=4), 16, 16)
    assert found.questions_per_second == pytest.approx(16 / 0.5)
    assert found.cores_busy == pytest.approx(0.8)


def test_episodes_have_a_beginning_and_a_run_an_end() -> None:
    load = Load(lambda size: 0.05, 32, (0.05,), away=(1.0,), questions=10)
    found = run(load, 4, episodes=40)
    assert found.episodes_per_second * found.seconds == pytest.approx(40)
    # Ten rounds of an episode each: 1 s of reset and ten answers, the first one at once.
    assert 10 * (1.0 + 9 * 0.1) < found.seconds < 10 * (1.0 + 14 * 0.15) + 1.0
    assert found.questions_per_second * found.seconds / 40 == pytest.approx(10, abs=1.5)


@settings(max_examples=scaled(30))
@given(
    st.integers(1, 40), st.integers(1, 40), st.floats(0.001, 1.0), st.floats(0.0, 1.0), st.integers(0, 8), st.booleans()
)
def test_neither_device_nor_cores_give_more_than_they_have(
    workers: int, number: int, call: float, thinking: float, cores: int, ends: bool
) -> None:
    load = Load(lambda size: call * (1 + size / 10), 16, (thinking, thinking / 2), (thinking,), 5, cores)
    found = simulate(
        load,
        workers,
        AtLeast(number, workers),
        np.random.default_rng(1),
        episodes=workers + 3 if ends else None,
        questions=300,
    )
    assert 0 < found.busy <= 1 + 1e-9
    assert found.cores_busy <= 1 + 1e-9
    assert 1 <= found.mean_batch <= min(workers, 16)
    assert found.questions_per_second <= 16 / (call * 2.6) * 1.0001 or math.isclose(found.mean_batch, 16) is False
    if ends:
        assert found.episodes_per_second * found.seconds == pytest.approx(workers + 3)


def test_the_same_seed_gives_the_same_run() -> None:
    load = Load(lambda size: 0.05, 8, tuple(np.linspace(0.05, 0.1, 11)), (0.3,), 10, 4)
    one, other, third = (foresee(load, 8, np.random.default_rng(seed), episodes=30) for seed in (3, 3, 4))
    assert one == other != third


def test_what_a_policys_process_saw_is_a_load() -> None:
    seen = ServingStats(10.0, 4.0, 200, {1: (10, 0.05), 8: (20, 0.1)}, 1.0, (0.06, 0.08), (0.5,), 10, 8, 16)
    assert seen_of(seen.table()) == seen
    load = load_of(seen, 16)
    assert (load.questions, load.cores, load.most, load.away) == (20.0, 16, 16, (0.5,))
    assert load.call_seconds(8) == pytest.approx(0.1)
    assert foresee(load, 8, np.random.default_rng(0)).questions_per_second > 0


def test_what_is_foreseen_is_of_the_best_number_of_questions_to_wait_for() -> None:
    # All together; each at once gives two groups that wait for each other.
    load = Load(lambda size: 0.1, 32, tuple(np.linspace(0.018, 0.022, 11)))
    found = foresee(load, 8, np.random.default_rng(0))
    assert found.questions_per_second == pytest.approx(8 / 0.12, rel=0.05)
    assert run(load, 8).questions_per_second < 0.7 * found.questions_per_second
