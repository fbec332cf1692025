"""What holds of every series of uncertainty: bounds, lengths, what changes nothing, and what is refused."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.metrics.instability import ORDERS, episode_mean, mean_instability, windowed_instability
from pytest_vla.metrics.uncertainty import (
    action_instability,
    execution_variability,
    normalised,
    token_deepgini,
    token_entropy,
    token_pcs,
    token_probability,
)
from pytest_vla.policies.tokens import check_token_statistics, token_statistics

Array = NDArray[np.float64]
ACTIONS = st.integers(0, 30).flatmap(lambda steps: arrays(np.float64, (steps, 7), elements=st.floats(-1, 1, width=32)))
LOGITS = arrays(
    np.float64, array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=9), elements=st.floats(-30, 30, width=32)
)
order = st.sampled_from(ORDERS)


@given(ACTIONS, order)
def test_series_of_actions_have_their_length_and_bounds(actions: Array, order: Any) -> None:
    upstream, paper = action_instability(actions, order), action_instability(actions, order, protocol="paper")
    assert len(upstream) == max(len(actions), 7)
    assert len(paper) == max(len(actions) - order, 0)
    assert not upstream[:7].any()
    # A range of 0..1, and the nth difference of it is at most 2^(n-1).
    assert (upstream >= 0).all()
    assert (upstream <= 1 + 1e-9).all()
    assert (paper <= 2**order + 1e-6).all()
    assert (episode_mean(paper) is None) == (len(actions) <= order)


@given(ACTIONS, order, st.floats(-0.5, 0.5))
def test_a_shift_changes_no_difference(actions: Array, order: Any, shift: float) -> None:
    for series in (windowed_instability, mean_instability):
        assert series(actions + shift, order) == pytest.approx(series(actions, order), abs=1e-9)
        assert series(-2 * actions, order) == pytest.approx(2 * series(actions, order), abs=1e-9)
        # The order of dimensions, and which way time goes in the paper's mean.
        assert series(actions[:, ::-1], order) == pytest.approx(series(actions, order), abs=1e-9)


@given(ACTIONS, order, arrays(np.float64, 30, elements=st.floats(-1, 1)))
def test_the_arm_alone_does_not_see_the_gripper(actions: Array, order: Any, gripper: Array) -> None:
    other = actions.copy()
    other[:, 6] = gripper[: len(actions)]
    for protocol in ("upstream", "paper"):
        first, second = (
            action_instability(each, order, protocol=protocol, dims="arm")  # type: ignore[arg-type]
            for each in (actions, other)
        )
        assert np.array_equal(first, second)


def test_a_gripper_that_toggles_dwarfs_the_arm() -> None:
    actions = np.zeros((20, 7))
    actions[::2, 6] = 1.0
    assert action_instability(actions, 1).max() == pytest.approx(0.5 / 7)
    assert not action_instability(actions, 1, dims="arm").any()


@given(st.integers(0, 12), st.integers(2, 5), st.data())
def test_repeats_in_any_order_spread_alike(steps: int, number: int, data: st.DataObject) -> None:
    draws = data.draw(arrays(np.float64, (steps, number, 7), elements=st.floats(-2, 2, width=32)))
    turned = draws[:, data.draw(st.permutations(range(number)))]
    for protocol in ("upstream", "paper"):
        found = execution_variability(draws, protocol=protocol)  # type: ignore[arg-type]
        assert found.shape == (steps,)
        assert found == pytest.approx(execution_variability(turned, protocol=protocol))  # type: ignore[arg-type]
        # Of numbers in a range of w the deviation is at most w / 2.
        assert (found <= {"upstream": 0.5, "paper": 2.0}[protocol] + 1e-9).all()
    same = np.repeat(draws[:, :1], number, axis=1)
    assert execution_variability(same) == pytest.approx(np.zeros(steps), abs=1e-12)


def test_repeats_by_hand() -> None:
    draws = np.zeros((1, 4, 7))
    draws[0, :, 0] = [-1, -1, 1, 1]
    assert execution_variability(draws) == pytest.approx([0.5 / 7])
    assert execution_variability(draws, protocol="paper") == pytest.approx([1 / 7])
    assert execution_variability(draws, dims="arm") == pytest.approx([0.5 / 6])
    assert execution_variability(np.zeros((0, 4, 7))).shape == (0,)


@given(LOGITS)
def test_token_metrics_keep_their_bounds(logits: Array) -> None:
    found, size = check_token_statistics(token_statistics(logits)), logits.shape[1]
    first, second, squares, entropy = (
        np.asarray(each)[None] for each in (found.first, found.second, found.squares, found.entropy)
    )
    for series in (
        token_probability(first, size),
        token_pcs(first, second),
        token_deepgini(squares, size),
        token_entropy(entropy, size),
    ):
        assert series.shape == (1,)
        assert -1e-9 <= series[0] <= 1 + 1e-4
    # The paper's are upstream's but for the scale and the rounding.
    scaled = {
        token_probability: (first, size / (size - 1)),
        token_deepgini: (squares, size / (size - 1)),
        token_entropy: (entropy, 1 / np.log(size)),
    }
    for metric, (values, factor) in scaled.items():
        paper = metric(values, protocol="paper")
        assert metric(values, size) == pytest.approx(paper * factor, abs=1e-5)
    assert token_pcs(first, second, protocol="paper") == pytest.approx(token_pcs(first, second), abs=1e-5)


@given(LOGITS, st.floats(-50, 50), st.randoms())
def test_a_shift_of_logits_and_the_order_of_choices_change_nothing(logits: Array, shift: float, random: Any) -> None:
    places = list(range(logits.shape[1]))
    random.shuffle(places)
    found, other = token_statistics(logits), token_statistics(logits[:, places] + shift)
    for name in ("first", "second", "squares", "entropy"):
        assert getattr(found, name) == pytest.approx(getattr(other, name), abs=1e-9)


def test_tokens_that_a_step_lacks_are_in_no_mean() -> None:
    nan = np.nan
    assert token_probability([[0.5, nan], [0.5, 1.0]], protocol="paper").tolist() == [0.5, 0.25]
    assert np.isnan(token_probability([[nan, nan]], 2)).all()
    assert token_entropy(np.zeros((0, 7)), np.zeros(0) + 2).shape == (0,)
    # A vocabulary for each step.
    assert token_probability([[0.5], [0.5]], [2, 3]).tolist() == [1.0, 0.75]


def test_logits_that_rule_choices_out() -> None:
    found = token_statistics([[0.0, -np.inf, 0.0]])
    assert (found.first.tolist(), found.second.tolist(), found.squares.tolist()) == ([0.5], [0.5], [0.5])
    assert found.entropy == pytest.approx([np.log(2)])
    assert found.vocabulary == 3
    for logits in ([[0.0]], [0.0, 1.0], [[np.nan, 1.0]], [[-np.inf, -np.inf]], [[np.inf, 0.0]]):
        with pytest.raises(EpisodeError, match="logits"):
            token_statistics(logits)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: action_instability(np.zeros(7), 1), r"expected a table \(T, D\) of finite numbers.*got \(7,\)"),
        (lambda: action_instability([[1.0, np.nan]], 1), r"row 0 is \[1\.0, nan\]"),
        (lambda: action_instability([["a"]], 1), "expected a table"),
        (lambda: action_instability(np.zeros((9, 7)), 4), "order 4: expected 1"),
        (
            lambda: action_instability(np.zeros((9, 7)), 1, protocol="ours"),
            "protocol 'ours': expected upstream or paper",
        ),
        (lambda: action_instability(np.zeros((9, 7)), 1, dims="hand"), "dims 'hand': expected all or arm"),
        (lambda: action_instability(np.zeros((9, 4)), 1, dims="arm"), "actions of 7 numbers"),
        (lambda: execution_variability(np.zeros((3, 7))), r"\(T, N, D\)"),
        (lambda: execution_variability(np.zeros((3, 0, 7))), r"\(T, N, D\)"),
        (lambda: execution_variability(np.zeros((3, 1, 7))), "1 sample of each action has no spread"),
        (lambda: execution_variability(np.full((3, 2, 7), np.inf)), "finite"),
        (lambda: token_probability([[0.5]]), "need the vocabulary's size"),
        (lambda: token_probability([[1.5]], 9), "from 0 to 1"),
        (lambda: token_probability([0.5], 9), r"\(T, t\)"),
        (lambda: token_pcs([[0.5]], [[0.5, 0.1]]), "of the second"),
        (lambda: token_deepgini([[0.5]], [2, 3]), "one per step"),
        (lambda: token_entropy([[-1.0]], 9), "0 or more nats"),
    ],
)
def test_what_is_no_input_is_refused(call: Any, complaint: str) -> None:
    with pytest.raises(VlaError, match=complaint):
        call()


def test_actions_of_another_size_have_bounds_of_one() -> None:
    assert normalised([[-1.0, 0.0, 3.0]]).tolist() == [[0.0, 0.5, 1.0]]
    assert normalised([]).shape == (0, 1)
