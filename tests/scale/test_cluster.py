"""The simulated cluster of benchmarks/scale.py: against closed forms, and against runs that were measured."""

from typing import Any

import pytest

from tests.support.data import REPOSITORY

BENCHMARKS = REPOSITORY / "benchmarks"


@pytest.fixture(autouse=True)
def on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)


def run(cluster: Any, episodes: int, wait_for: int = 1) -> Any:
    """Without numba: compiling the loop takes longer than these runs."""
    from scale_cluster import simulate

    return simulate(cluster, episodes, wait_for=wait_for, compiled=False)


def cluster(**about: Any) -> Any:
    """A host and a device on one machine, without what this test does not ask for."""
    from scale_costs import Cluster

    plain = {"hosts": 1, "devices": 1, "devices_a_host": 1, "link": 0.0, "start": 0.0, "scene_changes": 0.0}
    return Cluster(**{"model": "pi0", "record": 0.0, **plain, **about})


@pytest.mark.parametrize(
    ("model", "workers", "measured"),
    [("random", 16, 36.9), ("smolvla", 16, 88.5), ("smolvla", 24, 79.0), ("pi0", 16, 102.0), ("pi0", 32, 103.0)],
)
def test_runs_that_were_measured_take_as_long(model: str, workers: int, measured: float) -> None:
    """200 episodes of libero_spatial on 16 cores and an H100, as shared/spec/gpu_machine.md has them."""
    from scale_costs import POLICY_SECONDS, SHARED, START_SECONDS

    about = {"start": START_SECONDS, "policy": POLICY_SECONDS[model], "slower": SHARED}
    found = run(cluster(model=model, workers=workers, greedy=True, **about), 200)
    assert found.seconds == pytest.approx(measured, rel=0.15)


def test_worlds_alone_are_as_quick_as_their_cores() -> None:
    # Measured: 0.120 s an episode with 16 processes, and with 24.
    for workers in (16, 24):
        found = run(cluster(model="random", workers=workers, pair=0.0, spread=0.0), 480)
        assert 1 / found.steady == pytest.approx(1.92 / 16, rel=0.1)
    # Twice as many as cores: each has half of one.
    busy = run(cluster(model="random", workers=8, cores=4, spread=0.0), 160)
    assert busy.cores_busy == pytest.approx(1.0, abs=0.02)
    assert busy.rate == pytest.approx(4 / cluster(model="random").core_seconds, rel=0.02)


def test_one_worker_and_one_device_take_turns() -> None:
    from scale_costs import WAY_SECONDS

    lone = cluster(workers=1, spread=0.0, calls=(0.0, 0.06), most=1)
    found = run(lone, 20)
    assert found.seconds / 20 == pytest.approx(lone.core_seconds + 22 * (0.06 + WAY_SECONDS), rel=0.01)
    assert found.batch == 1
    assert found.calls == 20 * 22


def test_questions_that_come_at_random_wait_as_in_a_queue_of_one_server() -> None:
    from scale_costs import WAY_SECONDS

    # Many that seldom ask are as good as a Poisson stream: M/D/1.
    call, thinking, workers = 0.006, 1.0, 100
    about = {"steps": thinking, "pair": 0.0, "reset": 0.0, "spread": 1.0, "calls": (0.0, call), "most": 1}
    # They come one after the other, and not all at once.
    found = run(cluster(workers=workers, cores=workers, start=2.0, **about), 1000)
    load = found.devices_busy
    assert 0.5 < load < 0.65
    waited = found.waited - call - WAY_SECONDS
    assert waited == pytest.approx(load * call / (2 * (1 - load)), rel=0.12)


def test_a_device_that_is_never_idle_gives_what_it_can() -> None:
    # The machine repair model: more askers than the device can serve.
    full = cluster(hosts=4, workers=16, start=1.0)
    found = run(full, 640, wait_for=32)
    assert found.batch > 28
    assert found.rate == pytest.approx(full.devices_give, rel=0.06)
    assert found.devices_busy == pytest.approx(1.0, abs=0.06)


def test_a_link_and_a_driver_give_what_they_can() -> None:
    from scale_costs import PICTURES_BYTES

    narrow = cluster(link=PICTURES_BYTES / 0.02, calls=(0.0, 1e-4), most=1)
    assert run(narrow, 60).rate == pytest.approx(narrow.links_give, rel=0.08)
    assert run(narrow, 60).links_busy > 0.9
    slow = cluster(model="random", record=0.5)
    found = run(slow, 100)
    assert found.rate == pytest.approx(2.0, rel=0.05)
    assert found.drivers_busy == pytest.approx(1.0, abs=0.05)
    two = cluster(model="random", hosts=2, record=0.5, drivers=2)
    assert run(two, 200).rate == pytest.approx(4.0, rel=0.05)


def test_a_driver_that_is_too_slow_holds_workers_up_and_loses_none() -> None:
    found = run(cluster(hosts=2, workers=4, record=3.0), 30, wait_for=8)
    assert found.seconds == pytest.approx(90, rel=0.1)
    assert found.lag > 3.0


def test_nothing_is_lost() -> None:
    some = cluster(hosts=3, devices=2, devices_a_host=1, workers=5, cores=4, link=1e9, record=0.001)
    found = run(some, 101, wait_for=3)
    assert found.calls * found.batch == pytest.approx(101 * 22)
    worked = found.cores_busy * found.seconds * 12
    assert worked == pytest.approx(101 * some.core_seconds, rel=0.03)


@pytest.mark.slow  # Numba compiles for some seconds.
def test_the_compiled_loop_is_the_same() -> None:
    from scale_cluster import simulate

    some = cluster(hosts=2, devices=2, workers=3)
    assert simulate(some, 12, wait_for=2) == simulate(some, 12, wait_for=2, compiled=False)


def test_what_is_scarce_is_said() -> None:
    from scale import scarce

    assert scarce(cluster()) == "device"
    assert scarce(cluster(model="random")) == "cores"
    assert scarce(cluster(devices=100, hosts=200, record=1.0)) == "driver"
