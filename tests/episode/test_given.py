"""What a policy gave beside actions, as series: which steps are of which answer, and what was not given."""

from typing import Any

import numpy as np

from pytest_vla.episode.apply_metrics import answer_series
from pytest_vla.metrics import instability
from pytest_vla.policies.base import Answer
from pytest_vla.policies.tokens import TokenStatistics, token_statistics

CHUNK = np.zeros((4, 7))


def logits(tokens: int, choices: int = 5) -> Any:
    return np.random.default_rng(tokens).normal(size=(tokens, choices))


def an_answer(number: float, tokens: int = 2, statistics: TokenStatistics | None = None) -> Answer:
    draws = number + np.arange(4.0)[None, :, None] / 10 + np.zeros((3, 4, 7))
    return Answer(CHUNK, draws, np.full(tokens, 0.25), statistics or token_statistics(logits(tokens)))


def test_a_step_is_of_the_answer_that_it_executes() -> None:
    found = answer_series([(0, an_answer(1)), (3, an_answer(2)), (6, an_answer(3))], 8)
    samples = found[instability.SAMPLES]
    assert samples.shape == (8, 3, 7)
    # Of each chunk the first three, as the next question came then; of the last two.
    assert samples[:, 0, 0].tolist() == [1, 1.1, 1.2, 2, 2.1, 2.2, 3, 3.1]
    assert found[instability.FIRST].shape == (8, 2)
    assert (found[instability.FIRST] == token_statistics(logits(2)).first).all()
    assert found[instability.VOCABULARY].tolist() == [5.0] * 8
    assert (found[instability.PROBABILITIES] == 0.25).all()


def test_answers_of_fewer_tokens_have_none_in_their_place() -> None:
    found = answer_series([(0, an_answer(1, tokens=1)), (1, an_answer(1, tokens=3))], 2)
    assert np.isnan(found[instability.ENTROPY]).tolist() == [[False, True, True], [False] * 3]


def test_what_an_answer_lacks_is_in_none_of_its_steps() -> None:
    found = answer_series([(0, an_answer(1)), (2, Answer(CHUNK)), (4, an_answer(3))], 5)
    assert np.isnan(found[instability.SAMPLES]).all(axis=(1, 2)).tolist() == [False, False, True, True, False]
    assert np.isnan(found[instability.VOCABULARY]).tolist() == [False, False, True, True, False]


def test_what_nobody_gave_is_no_series() -> None:
    assert answer_series([], 0) == {}
    assert answer_series([(0, Answer(CHUNK))], 4) == {}
    assert answer_series([(0, Answer(CHUNK, token_probabilities=np.zeros(0)))], 4) == {}
    # An answer whose first action was never executed.
    assert answer_series([(0, an_answer(1))], 0) == {}
    alone = answer_series([(0, Answer(CHUNK, token_probabilities=np.array([0.5])))], 2)
    assert alone.keys() == {instability.PROBABILITIES}
