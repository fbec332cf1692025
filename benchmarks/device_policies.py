"""Policies for benchmarks/device.py, each a function that `--vla-model='device_policies:NAME?ARGUMENT=...'` calls.

`network` computes what SmolVLA or pi0 do, `sleeper` takes as long as they took on an H100, `lerobot` is lerobot's own
class with random weights. All answer in batches, and write when each call began and ended to the file that the
environment names.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from serving_calls import TABLES, takes

from pytest_vla.policies.base import Answer, BatchPolicy, Episode, Observations
from pytest_vla.policies.devices import DEVICE

NOTES = "DEVICE_BENCHMARK_NOTES"
"""The variable that names the file of calls: a JSON line [begin, end, questions] each, by the system's clock."""

REPLAN, MOST = 10, 32
PICTURES = ("agentview_image", "robot0_eye_in_hand_image")
READS: dict[str, tuple[str, ...]] = {"all": (*PICTURES, "state"), "state": ("state",)}

TAKES = {shape: TABLES[shape] for shape in ("smolvla", "pi0")}
"""Milliseconds of a direct call by the batch's size, of these shapes on an H100 (2026-11-22)."""

Answers = Sequence[NDArray[Any] | Answer]


@dataclass(frozen=True)
class Noted:
    """A policy whose calls are written down."""

    policy: Any
    max_batch: int
    reads: Sequence[str]
    file: Path | None
    replan: int = REPLAN

    def begin(self, episode: Episode) -> Any:
        return self.policy.begin(episode)

    def act(self, states: Sequence[Any], observations: Observations) -> Answers:
        began = time.time()
        answers: Answers = self.policy.act(states, observations)
        if self.file is not None:
            with self.file.open("a") as notes:
                notes.write(json.dumps([began, time.time(), len(states)]) + "\n")
        return answers


def noted(policy: BatchPolicy, most: int) -> Noted:
    """The policy, its calls written down where the environment says so."""
    file = os.environ.get(NOTES)
    return Noted(policy, min(most, policy.max_batch), policy.reads, Path(file) if file else None)


def note_once(text: str) -> None:
    """Beside the calls: what was made ready."""
    file = os.environ.get(NOTES)
    if file:
        with Path(file).open("a") as notes:
            notes.write(json.dumps(text) + "\n")


@dataclass(frozen=True)
class Sleeper:
    """Takes as long as a table says, without using the processor; looks at what it reads once."""

    table: Mapping[int, float]
    reads: Sequence[str]
    max_batch: int = MOST

    def begin(self, episode: Episode) -> Episode:
        return episode

    def act(self, states: Sequence[Episode], observations: Observations) -> list[NDArray[np.float64]]:
        until = time.perf_counter() + takes(self.table, len(states)) / 1000
        for name in self.reads:
            observations.stacked(name)
        chunks = [chunk(state.rng) for state in states]
        time.sleep(max(0.0, until - time.perf_counter()))
        return chunks


def chunk(generator: np.random.Generator) -> NDArray[np.float64]:
    """(50, 7): the hand goes about, and the task is never done: every episode has all its steps."""
    actions = generator.uniform(-0.5, 0.5, (50, 7))
    actions[:, 6] = -1.0
    return actions


class Computed:
    """A network of one of the shapes, in bfloat16 on a device, or in float32 on a processor."""

    max_batch: int = MOST

    def __init__(self, shape: str, reads: Sequence[str], compiled: str) -> None:
        import torch
        from device_networks import ACTIONS, CHUNK, SHAPES, WORDS, Network, faster, parameters

        self._torch, self.reads = torch, reads
        self._noise_shape, self._words = (CHUNK, ACTIONS), WORDS
        self.device = os.environ.get(DEVICE) or ("cuda" if torch.cuda.is_available() else "cpu")
        self._number = torch.bfloat16 if self.device.startswith("cuda") else torch.float32
        torch.manual_seed(0)
        before = torch.get_default_dtype()
        # Made where it stays: thousands of millions of weights would take minutes on a processor.
        torch.set_default_dtype(self._number)
        try:
            with torch.device(self.device):
                network = Network(SHAPES[shape]).eval().requires_grad_(False)
        finally:
            torch.set_default_dtype(before)
        self._compute = faster(network, compiled, MOST)
        self.told = f"{shape}'s shape, {parameters(network):.2f} B, {self._number}, {self.device}, compiled: {compiled}"

    def begin(self, episode: Episode) -> Episode:
        return episode

    def act(self, states: Sequence[Episode], observations: Observations) -> list[NDArray[np.float64]]:
        torch, count = self._torch, len(states)
        pictures = [name for name in self.reads if name in PICTURES]
        with torch.inference_mode():
            if pictures:
                # As bytes to the device, each camera's by itself: none is copied on the processor.
                seen = torch.stack([self._moved(observations.stacked(name)) for name in pictures], dim=1)
            else:
                seen = torch.zeros((count, 2, 256, 256, 3), dtype=torch.uint8, device=self.device)
            words = torch.zeros((count, self._words), dtype=torch.long, device=self.device)
            state = self._moved(observations.stacked("state")).to(self._number)
            drawn = np.stack([one.rng.standard_normal(self._noise_shape, dtype=np.float32) for one in states])
            actions = self._compute(seen, words, state, self._moved(drawn).to(self._number))
            # Waits for the device.
            answered = actions[..., :7].float().cpu().numpy().astype(np.float64)
        answered = np.clip(np.nan_to_num(answered), -0.5, 0.5)
        answered[..., 6] = -1.0
        return list(answered)

    def _moved(self, values: NDArray[Any]) -> Any:
        return self._torch.from_numpy(np.ascontiguousarray(values)).to(self.device, non_blocking=True)


def sleeper(shape: str = "pi0", reads: str = "all") -> Noted:
    """Takes as long as a network of that shape took on an H100."""
    return noted(Sleeper(TAKES[shape], READS[reads]), MOST)


def network(shape: str = "pi0", reads: str = "all", compiled: str = "none") -> Noted:
    """A network of that shape; `compiled` as `device_networks.faster` takes it. Random weights."""
    policy = Computed(shape, READS[reads], compiled)
    note_once(policy.told)
    return noted(policy, MOST)


def lerobot(kind: str = "smolvla", size: str = "real", compiled: str = "none") -> Noted:
    """lerobot's own class with random weights; see `device_lerobot.make`."""
    from device_lerobot import make

    policy, told = make(kind, size, os.environ.get(DEVICE, ""), compiled)
    note_once(told)
    return noted(policy, MOST)
