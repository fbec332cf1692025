"""What wishes cost: by a policy whose clock is the test's."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.policies import trial
from pytest_vla.policies.base import NO_WISHES, Answer, Episode, Wishes
from pytest_vla.policies.trial import SAMPLES, TOKENS, price_of, price_table, read_prices


class Slow:
    """Samples cost it three units of time, token probabilities one, actions two."""

    max_batch, reads, replan = 4, ("state",), 2

    def __init__(self) -> None:
        self.now, self.open = 0.0, 0

    def begin(self, episode: Episode) -> Any:
        self.open += 1
        policy = self

        class Session:
            wishes = episode.wishes

            def close(self) -> None:
                policy.open -= 1

        return Session()

    def act(self, sessions: list[Any], observations: Any) -> list[Answer]:
        (session,) = sessions
        self.now += 2.0 + 3.0 * bool(session.wishes.samples) + session.wishes.token_probabilities
        return [Answer(np.zeros((4, 7)))]


@pytest.fixture
def slow() -> Iterator[Slow]:
    policy = Slow()
    yield policy
    assert policy.open == 0


def test_each_wish_has_its_own_price(slow: Slow) -> None:
    suite = load_suite("tabletop")
    samples, tokens = price_of(slow, suite, Wishes(4, True), rounds=3, clock=lambda: slow.now)
    assert (samples.wish, samples.without, samples.beside, samples.steps) == (SAMPLES, (2.0,) * 3, (5.0,) * 3, 2)
    assert samples.extra == (1.5,) * 3
    assert (tokens.wish, tokens.extra) == (TOKENS, (0.5,) * 3)
    (alone,) = price_of(slow, suite, Wishes(4, False), replan=99, clock=lambda: slow.now)
    assert (alone.steps, len(alone.extra)) == (4, trial.ROUNDS)
    assert read_prices(price_table((samples, tokens))) == (samples, tokens)
    assert price_of(slow, suite, NO_WISHES) == ()


def test_a_policy_that_raises_has_none_and_its_sessions_are_closed(slow: Slow) -> None:
    def act(sessions: Any, observations: Any) -> Any:
        raise ValueError("no")

    slow.act = act  # type: ignore[method-assign]
    with pytest.raises(EpisodeError, match="no"):
        price_of(slow, load_suite("tabletop"), Wishes(4, False))
    with pytest.raises(VlaError, match="2 or more"):
        price_of(slow, load_suite("tabletop"), Wishes(4, False), rounds=1)
