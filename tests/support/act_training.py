"""A small ACT of lerobot's own class, trained on an exported data set: minutes on one core, without a network.

    python -m tests.support.act_training DATASET FOLDER [--updates=N]

DATASET is what ``pytest-vla export --format=lerobot`` writes; FOLDER is a new one, which ``--vla-model=lerobot:FOLDER``
loads. The last episodes are held out: the correlation of predicted and demonstrated actions in them is printed, by
dimension. ACT reads no instruction, so that the data set should be of one task.
"""

import argparse
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.policies.base import Episode, Observations
from pytest_vla.policies.load import load_policy
from pytest_vla.policies.view import resize_with_padding
from tests.support.lerobot_models import mend_torchvision, save

KEYS = {
    "observation.images.agentview": "agentview_image",
    "observation.images.wrist": "robot0_eye_in_hand_image",
}
STATE, ACTION = "observation.state", "action"
SIDE, CHUNK, EXECUTED, BATCH = 96, 10, 5, 16
HELD_OUT = 5
# Deviations of the normalised state, so that the state alone does not tell how far an episode is.
_BLUR = 0.3
_LEARNING_RATE = 1e-3
# The backbone's normalisations are frozen: if its weights moved as fast, its features would grow without end, and
# actions would not depend on pictures at all.
_LEARNING_RATE_OF_BACKBONE = 3e-5


@dataclass(frozen=True)
class Frames:
    """The rows of a data set.

    Attributes:
        pictures: by key, (n, 256, 256, 3) uint8 as recorded.
        states: (n, 8).
        actions: (n, 7).
        episodes: (n,) the number of each row's episode, in order.
    """

    pictures: dict[str, NDArray[np.uint8]]
    states: NDArray[np.float32]
    actions: NDArray[np.float32]
    episodes: NDArray[np.int64]

    def where(self, kept: NDArray[np.bool_]) -> "Frames":
        """Some of the rows."""
        pictures = {key: values[kept] for key, values in self.pictures.items()}
        return Frames(pictures, self.states[kept], self.actions[kept], self.episodes[kept])


def load_frames(folder: Path) -> Frames:
    """All rows of a data set, read by lerobot."""
    mend_torchvision()
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("pytest-vla/demonstrations", root=folder)
    size = len(dataset)
    pictures: dict[str, NDArray[np.uint8]] = {}
    states, actions = np.empty((size, 8), np.float32), np.empty((size, 7), np.float32)
    episodes = np.empty(size, np.int64)
    for number in range(size):
        row = dataset[number]
        for key in KEYS:
            picture = np.rint(row[key].numpy() * 255).astype(np.uint8).transpose(1, 2, 0)
            pictures.setdefault(key, np.empty((size, *picture.shape), np.uint8))[number] = picture
        states[number], actions[number] = row[STATE].numpy(), row[ACTION].numpy()
        episodes[number] = int(row["episode_index"])
    return Frames(pictures, states, actions, episodes)


def chunks_of(frames: Frames) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """The chunk (n, `CHUNK`, 7) after each row, and which of its actions lie behind the episode's end."""
    size = len(frames.actions)
    ends = np.searchsorted(frames.episodes, frames.episodes, side="right") - 1
    places = np.arange(size)[:, None] + np.arange(CHUNK)
    return frames.actions[np.minimum(places, ends[:, None])], places > ends[:, None]


def train(frames: Frames, folder: Path, *, updates: int, seed: int = 0) -> None:
    """Train an ACT on frames and save it with its processors in a new folder."""
    mend_torchvision()
    import torch
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot.policies.act.configuration_act import ACTConfig
    from lerobot.policies.act.modeling_act import ACTPolicy
    from lerobot.policies.act.processor_act import make_act_pre_post_processors

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    drawn = np.random.default_rng(seed)
    config = ACTConfig(
        device="cpu",
        pretrained_backbone_weights=None,
        use_vae=False,
        dim_model=128,
        n_heads=4,
        dim_feedforward=256,
        n_encoder_layers=2,
        dropout=0.0,
        chunk_size=CHUNK,
        n_action_steps=EXECUTED,
        input_features={
            **{key: PolicyFeature(FeatureType.VISUAL, (3, SIDE, SIDE)) for key in KEYS},
            STATE: PolicyFeature(FeatureType.STATE, (8,)),
        },
        output_features={ACTION: PolicyFeature(FeatureType.ACTION, (7,))},
    )
    small = {
        key: np.stack([resize_with_padding(picture, SIDE, SIDE) for picture in pictures])
        for key, pictures in frames.pictures.items()
    }
    chunks, beyond = chunks_of(frames)
    stats = {STATE: _stats(frames.states), ACTION: _stats(frames.actions)}
    stats |= {key: _stats(pictures.reshape(-1, 3) / 255.0, (3, 1, 1)) for key, pictures in small.items()}
    policy = ACTPolicy(config)
    before, after = make_act_pre_post_processors(config, stats)

    def batch_of(rows: NDArray[Any]) -> dict[str, Any]:
        batch = {key: torch.from_numpy(pictures[rows]).permute(0, 3, 1, 2) / 255 for key, pictures in small.items()}
        batch |= {STATE: torch.from_numpy(frames.states[rows]), ACTION: torch.from_numpy(chunks[rows])}
        batch = dict(before(batch))
        batch[STATE] = batch[STATE] + _BLUR * torch.from_numpy(drawn.normal(size=(len(rows), 8)).astype(np.float32))
        return batch | {"action_is_pad": torch.from_numpy(beyond[rows])}

    _calibrate(policy.model, lambda: policy(batch_of(drawn.choice(len(chunks), 128))))
    policy.train()
    backbone = {id(each): each for each in policy.model.backbone.parameters()}
    others = [each for each in policy.parameters() if id(each) not in backbone]
    groups = [{"params": others}, {"params": [*backbone.values()], "lr": _LEARNING_RATE_OF_BACKBONE}]
    optimizer = torch.optim.AdamW(groups, lr=_LEARNING_RATE, weight_decay=1e-4)
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 50, 0.5 + 0.5 * math.cos(math.pi * step / updates))
    )
    order, began, losses = np.empty(0, np.int64), time.process_time(), []
    for update in range(1, updates + 1):
        if len(order) < BATCH:
            order = drawn.permutation(len(chunks))
        rows, order = order[:BATCH], order[BATCH:]
        loss, _ = policy(batch_of(rows))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 10.0)
        optimizer.step()
        rate.step()
        losses.append(loss.item())
        if update % 50 == 0:
            seconds = time.process_time() - began
            print(f"{update} of {updates}: {np.mean(losses[-50:]):.3f}, {seconds:.0f} s", flush=True)
    policy.eval()
    save(folder, policy, before, after)


def _stats(values: NDArray[Any], shape: tuple[int, ...] = (-1,)) -> dict[str, Any]:
    import torch

    found = {
        "mean": values.mean(axis=0),
        # A finger's deviation is a hundredth of an angle's; nothing here is constant but for rounding.
        "std": values.std(axis=0) + 1e-4,
        "min": values.min(axis=0),
        "max": values.max(axis=0),
    }
    return {name: torch.tensor(value, dtype=torch.float32).reshape(shape) for name, value in found.items()}


def _calibrate(model: Any, ask: Any) -> None:
    """Give the frozen normalisations of the backbone the statistics of one question's features.

    They are meant for pretrained weights. Without these, features grow from block to block.
    """
    import torch

    def set_statistics(layer: Any, inputs: Any) -> None:
        features = inputs[0].detach()
        layer.running_mean.copy_(features.mean(dim=(0, 2, 3)))
        layer.running_var.copy_(features.var(dim=(0, 2, 3)))

    hooks = [
        layer.register_forward_pre_hook(set_statistics)
        for layer in model.modules()
        if type(layer).__name__ == "FrozenBatchNorm2d"
    ]
    # Both cameras share the backbone: the second's statistics stay.
    with torch.no_grad():
        ask()
    for hook in hooks:
        hook.remove()


def correlations(folder: Path, frames: Frames) -> list[float]:
    """How a saved policy's first actions correlate with frames' own, by dimension; 0 where either is constant."""
    policy: Any = load_policy(f"lerobot:{folder}")
    episode = Episode("open-loop", "tabletop", "open-loop", "", 0, np.random.default_rng(0))
    predicted = []
    for first in range(0, len(frames.actions), 16):
        rows = range(first, min(first + 16, len(frames.actions)))
        seen = [
            {name: frames.pictures[key][row] for key, name in KEYS.items()} | {"state": frames.states[row]}
            for row in rows
        ]
        predicted += [answer[0] for one in seen for answer in policy.act([policy.begin(episode)], Observations([one]))]
    given = np.array(predicted)
    with np.errstate(invalid="ignore"):
        found = [np.corrcoef(given[:, axis], frames.actions[:, axis])[0, 1] for axis in range(7)]
    return [round(float(value), 3) if np.isfinite(value) else 0.0 for value in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--updates", type=int, default=1500)
    options = parser.parse_args()
    frames = load_frames(options.dataset)
    held_out = frames.episodes > frames.episodes.max() - HELD_OUT
    train(frames.where(~held_out), options.folder, updates=options.updates)
    found = {
        "trained": correlations(options.folder, frames.where(frames.episodes < HELD_OUT)),
        "held out": correlations(options.folder, frames.where(held_out)),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
