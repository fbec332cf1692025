"""What a session may return, and the randomness that an episode gets."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pytest_vla.errors import EpisodeError
from pytest_vla.policies.base import Episode, check_actions, one_by_one
from pytest_vla.policies.generators import noise_generator, reseed
from pytest_vla.policies.random_and_replay import random_policy


@pytest.mark.parametrize(
    ("answer", "chunk"),
    [
        (np.zeros(7, dtype=np.float32), 1),
        (np.zeros((1, 7)), 1),
        (np.zeros((16, 7), dtype=np.float16), 16),
        ([0, 0, 0, 0, 0, 0, -1], 1),
        ([[0.5] * 7] * 3, 3),
    ],
)
def test_an_action_or_a_chunk_becomes_a_chunk(answer: Any, chunk: int) -> None:
    actions = check_actions(answer)
    assert actions.shape == (chunk, 7)
    assert actions.dtype == np.float64
    assert np.array_equal(actions, np.reshape(answer, (chunk, 7)))


def test_values_are_not_changed() -> None:
    wild = np.array([3.0, -0.0, 1e-300, -2.5, 0.1, 0.2, 0.3])
    assert check_actions(wild).tobytes() == wild.tobytes()


@given(hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=8)))
def test_any_array_is_a_finite_chunk_or_a_coded_error(answer: Any) -> None:
    reason = None
    try:
        actions = check_actions(answer)
    except EpisodeError as error:
        reason = error.reason
    else:
        assert actions.ndim == 2
        assert actions.shape[1] == 7
        assert len(actions) >= 1
        assert np.isfinite(actions).all()
    assert reason in (None, "policy-dtype", "policy-shape", "policy-nan")


def test_what_cannot_be_an_array_is_a_coded_error() -> None:
    class OnTheDevice:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            raise TypeError("can't convert cuda:0 device type tensor to numpy")

    with pytest.raises(EpisodeError, match=r"policy-dtype: OnTheDevice is no array: can't convert cuda:0"):
        check_actions(OnTheDevice())


def draws(run_seed: int, case_id: str, step: int | None = None, before: int = 0) -> list[float]:
    noise = noise_generator(run_seed, case_id)
    noise.random(before)
    if step is not None:
        reseed(noise, run_seed, case_id, step)
    return [float(x) for x in noise.random(4)]


@given(st.integers(min_value=0, max_value=2**40), st.text(max_size=30), st.integers(0, 600), st.integers(0, 9))
def test_the_noise_is_a_function_of_run_seed_case_and_step(run_seed: int, case_id: str, step: int, before: int) -> None:
    here = draws(run_seed, case_id, step)
    assert here == draws(run_seed, case_id, step, before), "whatever was drawn before"
    others = [draws(run_seed + 1, case_id, step), draws(run_seed, case_id + "x", step)]
    others += [draws(run_seed, case_id, step + 1), draws(run_seed, case_id)]
    assert here not in others


def test_the_generator_is_the_same_for_ever() -> None:
    """Another value here means that no recorded episode repeats any more."""
    case_id = "libero_goal/turn_on_the_stove[seed0]"
    noise = noise_generator(0, case_id)
    assert noise.integers(10**9, size=3).tolist() == [888563976, 500810319, 655344036]
    reseed(noise, 0, case_id, 8)
    assert noise.integers(10**9, size=3).tolist() == [889118992, 15045313, 574079976]


class Blind(dict[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise AssertionError(f"random looked at {key}")


def test_random_is_uniform_and_looks_at_nothing() -> None:
    def session(case_id: str) -> Any:
        return random_policy(Episode(case_id, "s", "t", "do it", 0, noise_generator(0, case_id)))

    act = session("a")
    actions = np.array([act(Blind()) for _ in range(4000)])
    assert actions.shape == (4000, 7)
    assert np.abs(actions).max() <= 1.0
    # Mean 0 and variance 1/3 in each dimension, within five standard errors.
    assert np.abs(actions.mean(axis=0)).max() < 5 * np.sqrt(1 / 3 / 4000)
    assert np.abs(actions.var(axis=0) - 1 / 3).max() < 5 * np.sqrt(4 / 45 / 4000)
    assert np.array_equal(session("a")(Blind()), actions[0])
    assert not np.array_equal(session("b")(Blind()), actions[0])


class Counting:
    """Answers in batches; each episode's state counts its own questions."""

    max_batch, reads, replan = 4, ("state",), 2

    def begin(self, episode: Episode) -> dict[str, int]:
        return {"asked": 0}

    def act(self, states: Sequence[Any], observations: Sequence[Any]) -> Sequence[Any]:
        assert all(list(observation) == ["state"] for observation in observations)
        for state in states:
            state["asked"] += 1
        return [np.full((3, 7), state["asked"] / 10) for state in states]


def test_a_policy_that_answers_in_batches_serves_one_episode_at_a_time() -> None:
    policy = one_by_one(Counting())
    assert policy.replan == 2  # type: ignore[attr-defined]
    first, second = (policy(Episode(f"c{n}", "s", "t", "do it", n, noise_generator(0, f"c{n}"))) for n in range(2))
    seen = {"state": np.zeros(8), "agentview_image": None}
    assert [first(seen)[0, 0], first(seen)[0, 0], second(seen)[0, 0]] == [0.1, 0.2, 0.1]


def test_answers_that_are_not_one_for_one_question_are_refused() -> None:
    counting = Counting()
    counting.act = lambda states, observations: []  # type: ignore[method-assign]
    session = one_by_one(counting)(Episode("c", "s", "t", "do it", 0, noise_generator(0, "c")))
    with pytest.raises(EpisodeError, match="this one gave 0 to 1"):
        session({"state": np.zeros(8)})


def test_a_function_as_an_answer_is_told_to_want_its_arguments() -> None:
    with pytest.raises(EpisodeError, match=r"a function that can be called\..*module:load\?checkpoint=PATH"):
        check_actions(lambda observation: None)
