"""Episodes an hour before there was one: a worker alone, devices and cores at their limits."""

import pytest

from pytest_vla.serving.throughput import EpisodeDemand, WorldCosts, forecast, forecast_alone

PLAN = EpisodeDemand(300, 10, 2, WorldCosts(step=0.005, picture=0.005, reset=0.05))
"""30 questions, 60 ms of a core between two."""

CONSTANT = dict.fromkeys((1, 2, 4, 8, 16, 32), 0.06)


def test_an_episode() -> None:
    assert (PLAN.questions, PLAN.thinking, PLAN.away) == (30, pytest.approx(0.06), pytest.approx(0.11))
    assert EpisodeDemand(301, 10, 0, PLAN.costs).questions == 31
    assert EpisodeDemand(5, 50, 0, PLAN.costs).questions == 1


def test_one_worker_thinks_and_waits_in_turn() -> None:
    found = forecast(PLAN, CONSTANT, 32, 1, 16)
    assert found.episodes_per_hour == pytest.approx(3600 / (30 * 0.12 + 0.05), rel=0.03)
    assert found.device_busy == pytest.approx(0.5, abs=0.03)
    assert found.scarce == "workers"


def test_cores_are_scarce_where_calls_are_quick() -> None:
    found = forecast(PLAN, dict.fromkeys((1, 32), 0.001), 32, 16, 4)
    assert found.scarce == "cores"
    assert found.cores_busy > 0.95
    assert found.episodes_per_hour == pytest.approx(3600 * 4 / (30 * 0.06 + 0.05), rel=0.05)


def test_a_device_is_scarce_where_a_question_takes_its_time() -> None:
    found = forecast(PLAN, {size: 0.05 * size for size in (1, 8)}, 8, 32, 16)
    assert found.scarce == "device"
    assert found.episodes_per_hour == pytest.approx(3600 * 20 / 30, rel=0.05)


def test_half_full_batches_ask_for_more_workers() -> None:
    few, many = (forecast(PLAN, CONSTANT, 32, workers, 16) for workers in (8, 32))
    assert few.scarce == "workers", "the device is busy, but with small batches"
    assert many.episodes_per_hour > 1.5 * few.episodes_per_hour


def test_a_policy_of_each_worker_computes_on_its_core() -> None:
    found = forecast_alone(PLAN, 0.04, 8, 4)
    assert found.episodes_per_hour == pytest.approx(3600 * 4 / (30 * 0.1 + 0.05))
    assert (found.scarce, found.device_busy, found.cores_busy) == ("cores", 0.0, 1.0)
    assert forecast_alone(PLAN, 0.04, 2, 4).scarce == "workers"
