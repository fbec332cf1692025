"""Wealth: beside plain products, by what a fair game leaves on average, and what it must not depend on."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from pytest_vla.gate.wealth import BETS, Claim, bets, log_wealth, running_bounds, running_p

CLAIMS: list[tuple[Claim, float]] = [("regression", 0.0), ("better", 0.0), ("no worse", 0.05), ("no worse", 0.3)]

ROUNDS = st.integers(1, 4).flatmap(
    lambda tasks: st.lists(
        st.lists(st.sampled_from([-1.0, -0.4, 0.0, 0.2, 1.0]), min_size=tasks, max_size=tasks), min_size=1, max_size=12
    )
)


@pytest.mark.parametrize(("claim", "margin"), CLAIMS)
def test_by_plain_products(claim: Claim, margin: float) -> None:
    rounds = np.random.default_rng(0).choice([-1, -0.5, 0, 0.5, 1], size=(7, 3))
    expected = []
    for last in range(1, 8):
        capitals = []
        for bet in bets(claim, margin):
            capital = 1.0
            for x in rounds[:last].ravel():
                capital *= 1 - bet * x if claim == "regression" else 1 + bet * (x + margin)
            capitals.append(capital)
        expected.append(np.mean(capitals))
    assert np.exp(log_wealth(rounds, claim, margin)) == pytest.approx(np.array(expected))


@pytest.mark.parametrize(("lost", "gained"), [(0, 0), (5, 0), (9, 3), (20, 20)])
def test_of_single_pairs_it_is_the_uniform_mixture_of_likelihood_ratios(lost: int, gained: int) -> None:
    """Of discordant pairs that are lost with probability q in 1/2..1, each as likely, against 1/2."""
    rounds = np.array([-1.0] * lost + [1.0] * gained + [0.0] * 10)[:, None]
    ratio, _ = integrate.quad(lambda q: 2 * q**lost * (1 - q) ** gained * 2 ** (lost + gained), 0.5, 1)
    assert np.exp(log_wealth(rounds, "regression")[-1]) == pytest.approx(ratio, rel=0.02)


@pytest.mark.parametrize(("claim", "margin"), CLAIMS)
def test_a_round_of_null_is_worth_no_more_than_it_costs(claim: Claim, margin: float) -> None:
    """Every outcome of two tasks whose effects differ and average to the null, weighed by how likely it is."""
    null = -margin if claim == "no worse" else 0.0
    for effect in (0.0, 0.2, 0.4):
        likely = []
        for mean in (null + effect, null - effect):
            likely.append({-1.0: (0.8 - mean) / 2, 0.0: 0.2, 1.0: (0.8 + mean) / 2})
        expected = 0.0
        for one, other in product(likely[0], likely[1]):
            wealth = np.exp(log_wealth([[one, other]], claim, margin)[-1])
            expected += likely[0][one] * likely[1][other] * wealth
        assert expected <= 1 + 1e-12
        assert expected > 0.85, "it gives no more away than effects that differ make it"
        assert expected == pytest.approx(1) or effect


def test_within_a_round_it_could_be_worth_more() -> None:
    """The task that loses first: why decisions wait for the end of a round."""
    gains = [np.exp(log_wealth([[x]], "regression")[-1]) * share for x, share in ((-1.0, 0.6), (0.0, 0.2), (1.0, 0.2))]
    assert sum(gains) > 1.1


@given(ROUNDS, st.sampled_from(CLAIMS))
def test_p_falls_and_the_order_in_a_round_does_not_matter(
    rounds: list[list[float]], chosen: tuple[Claim, float]
) -> None:
    claim, margin = chosen
    p = running_p(rounds, claim, margin)
    assert p.shape == (len(rounds),)
    assert ((p > 0) & (p <= 1)).all()
    assert (np.diff(p) <= 0).all()
    assert p == pytest.approx(np.exp(-np.maximum.accumulate(np.maximum(log_wealth(rounds, claim, margin), 0))))
    turned = [list(reversed(units)) for units in rounds]
    assert running_p(turned, claim, margin) == pytest.approx(p)


@given(ROUNDS)
def test_what_speaks_for_one_way_speaks_against_the_other(rounds: list[list[float]]) -> None:
    x = np.array(rounds)
    assert log_wealth(-x, "better") == pytest.approx(log_wealth(x, "regression"))
    assert (log_wealth(x, "no worse", 0.1) >= log_wealth(x, "no worse", 0.05) - 0.2 * x.size).all()
    better = np.minimum(x + 0.5, 1.0)
    assert (log_wealth(better, "better") >= log_wealth(x, "better") - 1e-12).all()
    assert (log_wealth(better, "regression") <= log_wealth(x, "regression") + 1e-12).all()


def test_many_runs_at_once_are_each_alone() -> None:
    rounds = np.random.default_rng(1).choice([-1, 0, 1], size=(3, 4, 10, 5))
    together = running_p(rounds, "no worse", 0.1)
    assert together.shape == (3, 4, 10)
    assert together[2, 1] == pytest.approx(running_p(rounds[2, 1], "no worse", 0.1))


def test_nothing_is_bet_where_nothing_was_measured() -> None:
    rounds = np.random.default_rng(2).choice([-1.0, 0.0, 1.0], size=(6, 3))
    without = np.where(np.arange(3) == 1, np.nan, rounds)
    for claim, margin in CLAIMS:
        assert log_wealth(without, claim, margin) == pytest.approx(log_wealth(rounds[:, [0, 2]], claim, margin))


@given(ROUNDS, st.sampled_from([0.05, 0.2]))
def test_bounds_say_what_the_p_values_say(rounds: list[list[float]], alpha: float) -> None:
    lower, upper = running_bounds(rounds, alpha)
    assert -1 <= lower <= 1
    assert -1 <= upper <= 1
    for margin in (0.05, 0.3, 0.8):
        assert (running_p(rounds, "no worse", margin)[-1] <= alpha) == (lower >= -margin)
    assert (running_p(rounds, "regression")[-1] <= alpha) == (upper <= 0)
    assert (running_p(rounds, "better")[-1] <= alpha) == (lower >= 0)
    assert running_bounds(-np.array(rounds), alpha) == pytest.approx((-upper, -lower))


def test_bounds_before_the_first_round() -> None:
    assert running_bounds(np.empty((0, 3)), 0.05) == (-1, 1)


def test_nothing_ruins() -> None:
    """A thousand rounds against the claim, then for it: wealth is small, a number, and grows again."""
    rounds = np.array([[1.0]] * 1000 + [[-1.0]] * 3000)
    wealth = log_wealth(rounds, "regression")
    assert np.isfinite(wealth).all()
    assert wealth[999] < 0 < wealth[-1]
    assert running_p(rounds, "regression")[-1] < 1e-100


def test_bets_are_spread_evenly_below_what_ruins() -> None:
    assert np.diff(bets("better")) == pytest.approx(np.full(BETS - 1, 1 / BETS))
    assert bets("better")[0] > 0
    assert bets("better")[-1] < 1
    assert bets("no worse", 0.2)[-1] * 0.8 < 1


@pytest.mark.parametrize(
    ("rounds", "claim", "margin"),
    [
        ([0.0, 1.0], "better", 0.0),
        ([[]], "better", 0.0),
        ([[1.5]], "better", 0.0),
        ([[1.0]], "better", 0.05),
        ([[1.0]], "no worse", 0.0),
        ([[1.0]], "no worse", 1.0),
    ],
)
def test_bad_input(rounds: list[list[float]], claim: Claim, margin: float) -> None:
    with pytest.raises(ValueError, match="expected"):
        running_p(rounds, claim, margin)
