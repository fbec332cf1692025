"""Tables of normalisation are read from what checkpoints have, and the one that was taken for another is named."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.doctor.action_tables import ActionTable, action_tables_in, read_action_tables
from pytest_vla.doctor.answers import ask
from pytest_vla.doctor.diagnosis import diagnose_windows
from pytest_vla.doctor.fits import mendings
from pytest_vla.doctor.wirings import composed
from pytest_vla.errors import VlaError
from tests.support.knowing import STRIDE, KnowingPolicy, made_windows

LOW, HIGH = [-0.8, -0.9, -0.7, -0.1, -0.2, -0.3, 0.0], [0.8, 0.7, 0.9, 0.2, 0.1, 0.3, 1.0]
MOMENTS = {"mean": [0.1, 0, 0.1, 0, 0, 0.02, 0.5], "std": [0.3, 0.4, 0.5, 0.05, 0.06, 0.07, 0.5]}
OPENVLA = {
    name: {
        "action": {**MOMENTS, "q01": [each * by for each in LOW], "q99": HIGH, "mask": [True] * 7},
        "proprio": MOMENTS,
    }
    for name, by in (("libero_goal", 1.0), ("libero_object", 0.5))
}
OPENPI = {"norm_stats": {"actions": {**MOMENTS, "q01": [*LOW] * 5, "q99": [*HIGH] * 5}, "state": MOMENTS}}
LEROBOT = {"action": {**MOMENTS, "min": LOW, "max": HIGH}, "observation.state": MOMENTS}


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (
            OPENVLA,
            ["libero_goal (mean and std)", "libero_goal (q01 and q99)", "libero_object (q01 and q99)"],
        ),
        (OPENPI, ["norm_stats (mean and std)", "norm_stats (q01 and q99)"]),
        (LEROBOT, ["action (mean and std)", "action (min and max)"]),
    ],
)
def test_tables_of_each_project_are_read(content: Any, names: list[str], tmp_path: Path) -> None:
    """Equal ones once."""
    file = tmp_path / "checkpoint" / "assets" / "norm_stats.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(content))
    for place in (file, tmp_path):
        found = read_action_tables(place)
        assert [each.name for each in found] == names
        assert found[0].centre.tolist() == MOMENTS["mean"][:6]
        assert np.allclose(found[1].centre + found[1].scale, HIGH[:6])


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"action": {"mean": [1, 2]}}', '{"action": {"mean": "abcdefg", "std": [1, 1, 1, 1, 1, 1]}}']
)
def test_what_has_no_table_is_named(content: str, tmp_path: Path) -> None:
    (file := tmp_path / "stats.json").write_text(content)
    for place in (file, tmp_path / "nowhere", tmp_path):
        with pytest.raises(VlaError, match=str(place if place != tmp_path else tmp_path)):
            read_action_tables(place)


def test_tables_of_a_data_set_and_of_a_checkpoint_of_lerobot_are_told_apart(tmp_path: Path) -> None:
    """Its tensors are named "action.mean", and equal tables are one."""
    numpy = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed here: make lerobot")
    checkpoint, data_set = tmp_path / "pretrained_model", tmp_path / "stats.json"
    checkpoint.mkdir()
    tensors = {f"action.{key}": np.array(row, dtype=np.float64) for key, row in LEROBOT["action"].items()}
    tensors["observation.images.front.mean"] = np.zeros((3, 1, 1))
    file = checkpoint / "policy_postprocessor_step_0_unnormalizer_processor.safetensors"
    numpy.save_file(tensors, file)
    data_set.write_text(json.dumps({"action": {**MOMENTS, "std": [0.2] * 7}}))
    names = [each.name for each in action_tables_in([data_set, checkpoint])]
    assert names == ["stats.json: action (mean and std)"] + [
        f"pretrained_model: action ({kind})" for kind in ("mean and std", "min and max")
    ]
    data_set.write_text(json.dumps(LEROBOT))
    assert len(action_tables_in([data_set, checkpoint])) == 2
    assert [each.name for each in read_action_tables(file)] == ["action (mean and std)", "action (min and max)"]
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(VlaError, match=file.name):
        action_tables_in([checkpoint])


WINDOWS = made_windows()
TABLES = (
    ActionTable("right", np.array(MOMENTS["mean"][:6]), np.array(MOMENTS["std"][:6])),
    ActionTable("taken", np.array([0.0, 0.1, 0.0, 0.01, 0.0, 0.0]), np.array([0.2, 0.25, 0.6, 0.1, 0.02, 0.2])),
    ActionTable("still", np.zeros(6), np.array([0.3, 0.3, 0.3, 0.0, 0.0, 0.0])),
)


@pytest.mark.parametrize("taken", ["taken", "none"])
def test_the_table_that_was_taken_for_another_is_named(taken: str) -> None:
    used = next((each for each in TABLES if each.name == taken), ActionTable("none", np.zeros(6), np.ones(6)))

    class Policy(KnowingPolicy):
        def act(self, sessions: Any, observations: Any) -> list[Any]:
            return [self._changed(each) for each in super().act(sessions, observations)]

        def _changed(self, chunk: Any) -> Any:
            normalised = (chunk[:, :6] - TABLES[0].centre) / TABLES[0].scale
            return np.hstack([used.centre + used.scale * normalised, chunk[:, 6:]])

    policy = Policy(WINDOWS)
    settings: Any = {"reads": policy.reads, "has_language": True, "generator": np.random.default_rng(0)}
    found = diagnose_windows(policy, WINDOWS, STRIDE, tables=TABLES, **settings)
    assert [each.code for each in found.findings] == ["VLA-D044"]
    assert f"right, where it is {taken} now" in found.findings[0].cause
    assert found.explained[1] > 0.8


def test_right_actions_are_not_mended_by_a_table() -> None:
    pairs = ask(KnowingPolicy(WINDOWS), WINDOWS, composed([])).pairs(STRIDE)
    (mending,) = (each for each in mendings(pairs, TABLES) if "right" in each.name or "taken" in each.name)
    assert mending.cost > 0
    still = replace(pairs, shown=np.zeros_like(pairs.shown))
    assert not [each for each in mendings(still, TABLES) if "un-normalised" in each.name]


def test_tables_that_fit_as_well_are_named_too() -> None:
    copied = replace(TABLES[0], name="copied")
    answered = (ask(KnowingPolicy(WINDOWS), WINDOWS, composed([]))).pairs(STRIDE)
    normalised = (answered.answered[:, :6] - TABLES[0].centre) / TABLES[0].scale
    pairs = answered.with_answers(np.hstack([normalised, answered.answered[:, 6:]]))
    (found,) = (each for each in mendings(pairs, (*TABLES, copied)) if "un-normalised" in each.name)
    assert "right, where it is none now" in found.name
    assert "copied for none" in found.name
    (found,) = (each for each in mendings(pairs, TABLES) if "un-normalised" in each.name)
    assert found.name.endswith("none now")
