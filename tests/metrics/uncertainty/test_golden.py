"""The uncertainty metrics against upstream's own numbers: every vector, series and means, to 1e-7."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_vla.metrics.instability import episode_mean, mean_instability
from pytest_vla.metrics.uncertainty import (
    HIGH,
    LOW,
    action_instability,
    normalised,
    token_deepgini,
    token_entropy,
    token_pcs,
    token_probability,
)
from pytest_vla.policies.tokens import token_statistics
from tests.support.upstream_metrics import ORDERS, near, vectors


def test_the_bounds_are_upstreams() -> None:
    given = vectors()
    near(LOW, given["box_low"])
    near(HIGH, given["box_high"])


def test_every_series_and_mean_of_actions() -> None:
    episodes = vectors()["episodes"]
    assert len(episodes) == 4
    for episode in episodes:
        for name, order in ORDERS.items():
            series = action_instability(episode["actions"], order)
            near(series, episode["series"][f"A-{name}"])
            near(episode_mean(series), episode["episode_mean"][f"A-{name}"])


def test_the_papers_values_of_actions() -> None:
    (episode,) = (each for each in vectors()["episodes"] if "paper_mode_episode_value" in each)
    values, actions = episode["paper_mode_episode_value"], episode["actions"]
    for name, order in ORDERS.items():
        near(episode_mean(action_instability(actions, order, protocol="paper")), values[f"A-{name}_raw"])
        near(episode_mean(mean_instability(normalised(actions), order)), values[f"A-{name}_norm"])


def rows(tokens: Any) -> tuple[NDArray[np.float64], ...]:
    """Each token as a step of its own: first, second, squares and entropy, (t, 1)."""
    found = token_statistics(tokens["logits"])
    return tuple(np.asarray(array)[:, None] for array in (found.first, found.second, found.squares, found.entropy))


@pytest.mark.parametrize("step", [False, True], ids=["each token", "a step of all"])
def test_every_token_metric_of_upstream(step: bool) -> None:
    for tokens in vectors()["tokens"]:
        first, second, squares, entropy = (each.T if step else each for each in rows(tokens))
        classes, expected = tokens["classes"], tokens["code_step_value" if step else "code"]
        found = {
            "TB-TP": token_probability(first, classes),
            "TB-PCS": token_pcs(first, second),
            "TB-D": token_deepgini(squares, classes),
            "TB-E": token_entropy(entropy, classes),
        }
        assert found.keys() == expected.keys()
        for name, values in found.items():
            near(values, np.atleast_1d(expected[name]))


def test_every_token_metric_of_the_paper() -> None:
    for tokens in vectors()["tokens"]:
        first, second, squares, entropy = rows(tokens)
        parts, steps = tokens["paper_components"], tokens["paper_step_value"]
        near(first[:, 0], parts["maxp"])
        near((first - second)[:, 0], parts["pcs"])
        near((1 - squares)[:, 0], parts["gini"])
        near(entropy[:, 0], parts["entropy_nats"])
        near(token_probability(first.T, protocol="paper"), [steps["TB-TP"]])
        near(token_pcs(first.T, second.T, protocol="paper"), [steps["TB-PCS"]])
        near(token_deepgini(squares.T, protocol="paper"), [steps["TB-D"]])
        near(token_entropy(entropy.T, protocol="paper"), [steps["TB-E"]])
