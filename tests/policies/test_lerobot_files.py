"""A checkpoint's JSON is data: what lerobot would import or run for it is refused; lerobot itself is not needed."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.policies import lerobot

STEP = {"registry_name": "device_processor", "config": {"device": "cpu"}}
FILES = ("config.json", "policy_preprocessor.json", "policy_postprocessor.json")


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that `check` takes, as if lerobot were installed."""
    monkeypatch.setattr(lerobot, "find_spec", lambda name: True)
    (tmp_path / "model.safetensors").write_bytes(b"")
    for name in FILES:
        (tmp_path / name).write_text(json.dumps({"type": "smolvla", "name": "x", "steps": [STEP]}))
    lerobot.check(str(tmp_path))
    return tmp_path


def refused(folder: Path, name: str, content: str) -> str:
    """The message about a file with this content; neither lerobot nor torch is imported for it."""
    before = (folder / name).read_text()
    (folder / name).write_text(content)
    with pytest.raises(VlaError) as error:
        lerobot.check(str(folder))
    (folder / name).write_text(before)
    assert str(folder / name) in str(error.value)
    assert len(str(error.value)) < 1000
    return str(error.value)


@pytest.mark.parametrize("name", FILES[1:])
@pytest.mark.parametrize(
    "step",
    [
        {"class": "subprocess.Popen", "config": {"args": ["touch", "ran"], "shell": True}},
        {"class": "lerobot.processor.DeviceProcessorStep"},
        {"registry_name": None, "class": "subprocess.Popen"},
        {"registry_name": ["device_processor"]},
        {"registry_name": "device_processor", "config": [1]},
        {"registry_name": "normalizer_processor", "state_file": "/etc/passwd"},
        {"registry_name": "normalizer_processor", "state_file": "../other.safetensors"},
        {},
    ],
)
def test_a_step_is_a_registered_one(checkpoint: Path, name: str, step: dict[str, Any]) -> None:
    message = refused(checkpoint, name, json.dumps({"name": "x", "steps": [STEP, step]}))
    assert "step 1" in message


@pytest.mark.parametrize("steps", [None, {}, "x", [1]])
def test_steps_are_a_list_of_tables(checkpoint: Path, steps: Any) -> None:
    assert "list of steps" in refused(checkpoint, FILES[1], json.dumps({"name": "x", "steps": steps}))


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("config.json", "action_tokenizer_name", "somebody/tokenizer"),
        ("config.json", "vision_encoder_name", "./here"),
        (FILES[1], "action_tokenizer_name", "/elsewhere/tokenizer"),
        (FILES[1], "tokenizer_assets_repo", "../../elsewhere"),
    ],
)
def test_a_repository_whose_code_would_run_is_refused(checkpoint: Path, name: str, field: str, value: str) -> None:
    inner = {"registry_name": "action_tokenizer_processor", "config": {field: value}}
    content = {field: value} if name == "config.json" else {"steps": [inner]}
    assert f"has {field} {value!r}" in refused(checkpoint, name, json.dumps(content))


def test_the_defaults_of_lerobots_own_policies_are_taken(checkpoint: Path) -> None:
    names = {"action_tokenizer_name": "physical-intelligence/fast", "text_tokenizer_name": "google/paligemma-3b-pt-224"}
    (checkpoint / "config.json").write_text(json.dumps({"type": "pi0_fast", **names, "vision_encoder_name": None}))
    lerobot.check(str(checkpoint))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "content",
    ['{"steps": [', "[" * 100_000, '{"a":' * 5000 + "1" + "}" * 5000, '{"a":' * 150 + "1" + "}" * 150, "\x00", "[]"],
    ids=["cut", "deep", "deep tables", "deeper than 100", "bytes", "a list"],
)
def test_a_file_that_is_cut_or_too_deep_is_one_clear_error(checkpoint: Path, name: str, content: str) -> None:
    refused(checkpoint, name, content)


NORMALISED = [
    (FILES[1], "normalizer_processor", "observation.state", "STATE"),
    (FILES[2], "unnormalizer_processor", "action", "ACTION"),
]


def normalised(folder: Path, name: str, step: str, feature: str, kind: str, mode: str, keys: list[str]) -> None:
    config = {"features": {feature: {"type": kind, "shape": [7]}}, "norm_map": {kind: mode}}
    steps = [{"registry_name": step, "config": config, "state_file": "statistics.safetensors"}]
    (folder / name).write_text(json.dumps({"name": "x", "steps": steps}))
    header = json.dumps({key: {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for key in keys}).encode()
    (folder / "statistics.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)


@pytest.mark.parametrize(("name", "step", "feature", "kind"), NORMALISED)
def test_normalisation_without_statistics_is_refused(
    checkpoint: Path, name: str, step: str, feature: str, kind: str
) -> None:
    for mode, keys in {"MEAN_STD": ["mean", "std"], "MIN_MAX": ["min", "max"], "QUANTILES": ["q01", "q99"]}.items():
        named = [f"{feature}.{key}" for key in keys]
        normalised(checkpoint, name, step, feature, kind, mode, named)
        lerobot.check(str(checkpoint))
        normalised(checkpoint, name, step, feature, kind, mode, named[:1])
        with pytest.raises(VlaError, match=rf"statistics\.safetensors has no {keys[1]} of {re.escape(feature)}, "):
            lerobot.check(str(checkpoint))
    normalised(checkpoint, name, step, feature, kind, "IDENTITY", [])
    lerobot.check(str(checkpoint))


def test_statistics_that_cannot_be_read_are_an_error(checkpoint: Path) -> None:
    normalised(checkpoint, *NORMALISED[0], "MEAN_STD", [])
    for content in (b"", b"\xff" * 8, (100).to_bytes(8, "little") + b"{"):
        (checkpoint / "statistics.safetensors").write_bytes(content)
        with pytest.raises(VlaError, match=r"statistics\.safetensors cannot be read"):
            lerobot.check(str(checkpoint))


def test_a_state_that_is_not_normalised_needs_no_statistics(checkpoint: Path) -> None:
    normalised(checkpoint, *NORMALISED[0], "MEAN_STD", [])
    file = checkpoint / NORMALISED[0][0]
    table = json.loads(file.read_text())
    table["steps"][0]["config"]["normalize_observation_keys"] = ["observation.images.top"]
    file.write_text(json.dumps(table))
    lerobot.check(str(checkpoint))
    table["steps"][0]["config"]["normalize_observation_keys"].append(NORMALISED[0][2])
    file.write_text(json.dumps(table))
    with pytest.raises(VlaError, match="has no mean and no std of"):
        lerobot.check(str(checkpoint))
