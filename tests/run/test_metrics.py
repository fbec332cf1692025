"""--vla-metrics: which names are metrics, what is kept beside them, and the list."""

import pytest

from pytest_vla import extensions
from pytest_vla.entries import NEEDS
from pytest_vla.errors import VlaError
from pytest_vla.run.metrics import chosen_metrics, metrics_table

TOKENS, ACTIONS = ["TB-TP", "TB-PCS", "TB-D", "TB-E"], ["A-PI", "A-VI", "A-AI", "EV"]
ECONOMY = ["hand_path", "hand_jerk", "near_joint_limits", "regrasps", "other_contacts"]
PAPERS = [*TOKENS, *ACTIONS, "TCP-PI", "TCP-VI", "TCP-AI", "TI", "OT"]


def test_all_are_the_papers_thirteen_whether_the_robot_stood_still_and_those_of_economy() -> None:
    chosen = chosen_metrics(["all"])
    entries = extensions.metrics()
    assert [alias for name in chosen for alias in entries[name].aliases] == PAPERS
    assert [name for name in chosen if not entries[name].aliases] == ["static_robot", "object_turn", *ECONOMY]
    assert {need for name in chosen for need in entries[name].needs} == {*NEEDS}
    for name in chosen:
        assert callable(extensions.load(entries[name]))


def test_a_papers_name_and_ours_are_one_in_any_case_of_letters() -> None:
    for name in ("token_entropy", "TB-E", "tb-e", "Token_Entropy"):
        assert chosen_metrics([name]) == ("token_entropy",)
    assert chosen_metrics(["EV", "TB-E", "execution_variability"]) == ("token_entropy", "execution_variability")
    assert chosen_metrics(["all", "EV"]) == chosen_metrics(["ALL"])
    assert chosen_metrics([]) == ()


def test_what_a_still_robot_makes_perfect_comes_with_whether_it_stood_still() -> None:
    assert chosen_metrics(["TI"]) == ("trajectory_instability", "static_robot")


def test_another_name_is_refused_with_those_that_are_meant() -> None:
    with pytest.raises(VlaError) as refused:
        chosen_metrics(["token_entrpy"])
    told = str(refused.value)
    assert told.startswith("--vla-metrics=token_entrpy: there is no such metric. Did you mean token_entropy")
    assert "optimal_trajectory (OT)" in told
    assert told.endswith(", or all")


def test_the_list_says_of_each_what_it_is_and_needs() -> None:
    _, _, blank, *lines = metrics_table()
    assert blank == ""
    assert len(lines) == len(extensions.metrics())
    (entropy,) = (line for line in lines if line.startswith("token_entropy (TB-E) "))
    assert entropy.endswith("; needs token probabilities")
    assert not any("always kept" in line for line in lines)
