"""Difficulty from one's own models: simulated parameters are recovered, and counts are the paper's."""

import numpy as np
import pytest
from scipy import optimize, stats

from pytest_vla.errors import VlaError
from pytest_vla.metrics.item_response import (
    ABILITY_SPREAD,
    DIFFICULTY_SPREAD,
    item_response,
    own_level,
)


def simulated(
    models: int, cases: int, seed: int, spread: float = 0.0, mean: float = 0.0
) -> tuple[dict[tuple[str, object], list[float]], dict[tuple[str, object], float]]:
    """Outcomes by model and case, and the abilities, difficulties and discriminations they are drawn from."""
    generator = np.random.default_rng(seed)
    ability, difficulty = generator.normal(size=models), mean + generator.normal(size=cases)
    slope = np.exp(spread * generator.normal(size=cases))
    chance = 1 / (1 + np.exp(-slope * (ability[:, None] - difficulty)))
    done = generator.random((models, cases)) < chance
    outcomes = {(f"m{row}", column): [float(done[row, column])] for row in range(models) for column in range(cases)}
    truth = {("ability", row): float(each) for row, each in enumerate(ability)}
    truth |= {("difficulty", column): float(each) for column, each in enumerate(difficulty)}
    truth |= {("slope", column): float(each) for column, each in enumerate(slope)}
    return outcomes, truth  # type: ignore[return-value]


def of(truth: dict[tuple[str, object], float], name: str) -> list[float]:
    return [value for (what, _), value in truth.items() if what == name]


def test_simulated_abilities_and_difficulties_are_recovered() -> None:
    outcomes, truth = simulated(40, 400, seed=1)
    found = item_response(outcomes)
    abilities = np.array([value for value, _ in found.abilities.values()])
    true = np.array(of(truth, "ability"))
    assert np.abs(abilities - (true - true.mean())).max() < 0.4
    difficulties = np.array([value for value, _ in found.difficulties.values()])
    errors = np.array([error for _, error in found.difficulties.values()])
    off = difficulties - (np.array(of(truth, "difficulty")) - true.mean())
    assert np.corrcoef(difficulties, of(truth, "difficulty"))[0, 1] > 0.9
    assert 0.9 < (np.abs(off) < 1.96 * errors).mean() <= 0.99, "standard errors are what they say"
    assert set(found.discriminations.values()) == {1.0}


def test_simulated_discriminations_are_recovered() -> None:
    outcomes, truth = simulated(200, 60, seed=2, spread=0.5)
    found = item_response(outcomes, with_discrimination=True)
    slopes = np.log(list(found.discriminations.values()))
    assert np.corrcoef(slopes, np.log(of(truth, "slope")))[0, 1] > 0.8
    assert found.log_likelihood > item_response(outcomes).log_likelihood


def test_it_is_the_largest_posterior_density_by_another_optimiser() -> None:
    outcomes, _ = simulated(4, 12, seed=3)
    outcomes = {key: value for number, (key, value) in enumerate(outcomes.items()) if number % 7}
    found = item_response(outcomes)
    rows = [int(model[1:]) for model, _ in outcomes]
    columns = [int(str(case)) for _, case in outcomes]
    done = np.array([each for (each,) in outcomes.values()])

    def less(parameters: np.ndarray) -> float:  # type: ignore[type-arg]
        ability, difficulty = parameters[:4], parameters[4:]
        apart = ability[rows] - difficulty[columns]
        likelihood = (done * apart - np.logaddexp(0, apart)).sum()
        prior = (ability**2).sum() / ABILITY_SPREAD**2 + (difficulty**2).sum() / DIFFICULTY_SPREAD**2
        return float(prior / 2 - likelihood)

    best = optimize.minimize(less, np.zeros(16), tol=1e-10).x
    best -= best[:4].mean()
    order = [f"m{number}" for number in range(4)]
    assert [found.abilities[name][0] for name in order] == pytest.approx(best[:4], abs=1e-4)
    assert [found.difficulties[number][0] for number in range(12)] == pytest.approx(best[4:], abs=1e-4)


def test_easy_cases_are_as_easy_as_they_are_to_the_mean_model() -> None:
    outcomes, truth = simulated(6, 400, seed=4, mean=-2.0)
    found = item_response(outcomes)
    mean = np.mean([value for value, _ in found.difficulties.values()])
    true = np.mean(of(truth, "difficulty")) - np.mean(of(truth, "ability"))
    assert mean == pytest.approx(true, abs=0.3), "held at a mean ability of 0 it was half of that"


def test_episodes_of_a_case_are_summed() -> None:
    outcomes: dict[tuple[str, object], list[float]] = {("a", 0): [1.0, 1.0, 0.0, 1.0], ("b", 0): [0.0], ("a", 1): [1.0]}
    found = item_response(outcomes | {("b", 1): [1.0]})
    assert found.responses == 7
    one = item_response(outcomes | {("a", 0): [1.0], ("b", 1): [1.0]})
    assert found.difficulties[0][1] < one.difficulties[0][1], "more episodes tell more"
    again = item_response(outcomes | {("a", 0): [0.0, 1.0, 1.0, 1.0], ("b", 1): [1.0]})
    assert again.difficulties == found.difficulties, "in any order"


def test_a_case_that_nobody_solves_is_finite_and_hardest() -> None:
    outcomes = {(model, case): [float(case != "hard")] for model in "abcd" for case in ("easy", "hard")}
    outcomes["a", "middle"] = outcomes["b", "middle"] = [1.0]
    outcomes["c", "middle"] = outcomes["d", "middle"] = [0.0]
    found = item_response(outcomes)
    order = [name for name, _ in sorted(found.difficulties.items(), key=lambda each: each[1])]
    assert order == ["easy", "middle", "hard"]
    assert np.isfinite([value for value, _ in found.difficulties.values()]).all()
    assert stats.rankdata([found.abilities[name][0] for name in "abcd"]).tolist() == [3.5, 3.5, 1.5, 1.5]


def test_levels_count_failures_as_the_paper_does_with_four_models() -> None:
    assert [own_level(failed, 4) for failed in range(5)] == [1, 2, 3, 4, 5]
    assert [own_level(failed, 2) for failed in range(3)] == [1, 3, 5]
    assert [own_level(failed, 12) for failed in (0, 1, 2, 6, 12)] == [1, 1, 2, 3, 5]


def test_one_model_tells_nothing_of_difficulty() -> None:
    with pytest.raises(VlaError, match="2 models or more, found 1"):
        item_response({("a", "x"): [1.0]})
