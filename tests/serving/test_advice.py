"""Another number of workers is advised where a simulation that agrees with the run says that it takes less time."""

from dataclasses import replace

import numpy as np
import pytest

from pytest_vla.serving.stats import ServingStats
from pytest_vla.serving.throughput import Outlook, advised, foresee, load_of, other_numbers, outlook

# Two cores, calls of 100 ms however many are in them, 60 ms between questions, 20 of them an episode.
RUN = ServingStats(
    seconds=100.0,
    busy=90.0,
    questions=1200,
    calls={1: (600, 0.1), 2: (300, 0.1), 8: (1, 0.1)},
    waited=1.0,
    thinking=(0.05, 0.06, 0.07),
    away=(0.1,),
    episodes=60,
    workers=2,
    cores=2,
)


def ran(seen: ServingStats, workers: int) -> ServingStats:
    """What such a run would have seen if it were as it is simulated."""
    rate = foresee(load_of(seen, 32), workers, np.random.default_rng(1)).questions_per_second
    return replace(seen, questions=round(100 * rate), episodes=round(100 * rate / 20))


def test_more_workers_where_the_cores_wait() -> None:
    found = outlook([ran(RUN, 2)], 32, 2, 60, (1, 4, 6))
    assert found.agrees
    assert found.seconds[6] < found.seconds[4] < found.seconds[2] < found.seconds[1]
    # A worker takes 16 of 6 cores' hundredths: with four of them the two cores are nearly busy.
    assert found.seconds[4] / found.seconds[2] == pytest.approx(0.55, abs=0.1)
    number, ratio = advised(found, 2, found.seconds[2], 0.0) or (0, 0.0)
    assert number in (4, 6)
    assert ratio == pytest.approx(found.seconds[number] / found.seconds[2])


def test_devices_share_workers_episodes_and_cores() -> None:
    half = ran(replace(RUN, cores=4), 2)
    both = outlook([half, half], 32, 4, 120, ())
    assert both.agrees
    assert both.measured == 2 * half.questions / 100
    assert both.seconds[4] == pytest.approx(outlook([replace(half, cores=2)], 32, 2, 60, ()).seconds[2])


def test_a_long_run_is_foreseen_by_its_middle() -> None:
    seen = ran(RUN, 2)
    found = outlook([seen], 32, 2, 100_000, (4,))
    assert found.seconds[2] == pytest.approx(100_000 / (found.foreseen * seen.episodes / seen.questions))


def test_none_where_the_simulation_does_not_agree() -> None:
    seen = ran(RUN, 2)
    found = outlook([replace(seen, seconds=150.0)], 32, 2, 60, (4,))
    assert not found.agrees
    assert advised(found, 2, 150.0, 0.0) is None


@pytest.mark.parametrize(
    ("seconds", "start", "expected"),
    [
        ({8: 100, 16: 60, 24: 59}, 0.0, (16, 0.6)),  # What is hardly better takes more memory.
        ({8: 100, 16: 97}, 0.0, None),
        ({8: 100, 4: 101}, 0.0, None),
        ({8: 100, 16: 60}, 5.0, None),  # Starting them takes what they save.
        ({8: 100, 16: 60}, 1.0, (16, 0.68)),
        ({8: 100, 4: 90}, 0.0, (4, 0.9)),
        ({8: 100}, 0.0, None),
    ],
)
def test_what_is_advised(seconds: dict[int, float], start: float, expected: tuple[int, float] | None) -> None:
    assert advised(Outlook(10.0, 11.0, seconds), 8, 100.0, start) == expected


def test_what_takes_no_episode_stays_as_it_is() -> None:
    # Of 200 s the episodes took half.
    assert advised(Outlook(10.0, 10.0, {8: 100.0, 16: 60.0}), 8, 200.0, 0.0) == (16, 0.8)


def test_numbers_that_are_worth_a_look() -> None:
    assert other_numbers(16, 16, 100) == (8, 24, 32, 48)
    assert other_numbers(8, 16, 20) == (4, 12, 16)
    assert other_numbers(1, 1, 1) == ()
