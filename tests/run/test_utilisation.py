"""What is looked at while a run goes: the last seconds, and the time in which every worker has an episode."""

from dataclasses import replace

from pytest_vla.run.utilisation import Utilisation
from pytest_vla.serving.stats import ServingStats

SEEN = ServingStats(0.0, 0.0, 0, {}, 0.0, (0.1,), (0.1,), 0, 4, 2)


def at(second: int) -> ServingStats:
    """A question a call, ten a second, an episode a second; busy for half of the time until 20 s, then always."""
    busy = second / 2 if second <= 20 else second - 10
    return replace(
        SEEN, seconds=float(second), busy=busy, questions=10 * second, episodes=second, calls={1: (10 * second, 0.1)}
    )


def looked(seconds: range, workers: int = 4, total: int = 60) -> Utilisation:
    now = [0]
    utilisation = Utilisation(lambda: (at(now[0]),), workers, 32, clock=lambda: float(now[0]))
    for now[0] in seconds:
        utilisation.look(total - now[0])
    return utilisation


def test_the_last_seconds() -> None:
    early, late = looked(range(0, 20)).recent(), looked(range(0, 31)).recent()
    assert early is not None
    assert late is not None
    assert (early.device, late.device) == (0.5, 1.0)


def test_nothing_before_there_are_two_looks() -> None:
    assert looked(range(0, 2)).recent() is None
    assert looked(range(1, 3)).recent() is not None


def test_the_time_in_which_every_worker_has_an_episode() -> None:
    (steady,) = looked(range(0, 60), workers=4, total=60).steady()
    # From the fourth episode that ended, until four were left.
    assert (steady.seconds, steady.episodes) == (52.0, 52)
    assert looked(range(0, 6), workers=4, total=6).steady() == ()
    assert looked(range(0, 1)).steady() == ()


def test_the_runs_time() -> None:
    assert looked(range(0, 31)).elapsed == 30.0
