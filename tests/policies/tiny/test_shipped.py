"""The weights that ship: the card names them, and episodes of them repeat."""

import json
import re
from pathlib import Path

import pytest

from pytest_vla import World, load_suite
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.plan.case import Case
from pytest_vla.policies.base import one_by_one
from pytest_vla.policies.tiny.policy import TinyPolicy
from pytest_vla.policies.tiny.weights import CHECKPOINTS, load_weights, shipped
from scripts.tiny_words import KEPT_OUT
from tests.support.data import REPOSITORY

CARD = REPOSITORY / "docs" / "explanation" / "tiny.md"
EPISODES = Path(__file__).with_name("episodes.json")
"""Digests of ten episodes, and what drew their pictures. Where it is not there, the slow test writes it, and fails."""


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_the_card_names_the_weights_by_their_digest(checkpoint: str) -> None:
    digests = re.findall(r"\b[0-9a-f]{64}\b", CARD.read_text(encoding="utf-8"))
    assert load_weights(shipped(checkpoint)).digest == digests[list(CHECKPOINTS).index(checkpoint)]


def test_weights_are_small_and_say_how_they_were_made() -> None:
    assert sum(shipped(checkpoint).stat().st_size for checkpoint in CHECKPOINTS) <= 8e6
    assert shipped("early").stat().st_size <= 2.2e6
    for checkpoint in CHECKPOINTS:
        about = load_weights(shipped(checkpoint)).about
        assert about["kept_out"] == [".".join(cell) for cell in KEPT_OUT]
        assert about["labels"] > about["pictures"] > 10_000


@pytest.mark.slow
def test_ten_episodes_are_the_same_on_any_machine_that_draws_alike() -> None:
    found = episodes()
    if not EPISODES.exists():
        EPISODES.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        pytest.fail(f"{EPISODES.name} was not there; it is now")
    expected = json.loads(EPISODES.read_text(encoding="utf-8"))
    for name in ("renderer", "kernels"):
        if found[name] != expected[name]:
            pytest.skip(f"another {name} than the card's: {found[name]}, and not {expected[name]}")
    assert found == expected


def episodes() -> dict[str, object]:
    """An episode of each task: outcome, steps and digest; and what drew the pictures and computed."""
    policy = one_by_one(TinyPolicy(load_weights(shipped(""))))
    found: dict[str, object] = {}
    digests = {}
    for task in load_suite("tabletop").tasks:
        case = Case("tabletop", task.name, 0)
        record = run_episode(case, task, policy, World, Conditions("tiny", run="a-run")).record
        digests[task.name] = [record.outcome, record.steps, record.digest]
        found = {name: record.provenance[name] for name in ("renderer", "kernels")}
    return {**found, "digests": digests}
