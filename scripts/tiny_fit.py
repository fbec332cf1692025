"""Fit tiny's two networks, the eyes and the hands, to the rows that rounds of collection left. Needs torch."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from pytest_vla.policies.tiny.network import BINS, CENTRE, CHUNK, POINTS, SCALE
from pytest_vla.policies.tiny.weights import NOTHING, UNKNOWN
from scripts.tiny_network import Control, Perception
from scripts.tiny_rounds import SCENE_NOISE

Numbers = npt.NDArray[Any]

HELD_OUT = 20
"""One episode in so many is not learned from: errors are told of it."""
FORGOTTEN = 0.03
"""The share of words that are taken for unknown ones, so that these do no harm."""
UNTOLD = 0.04
"""The share of rows without an instruction, or under words that it never saw: there nothing is to be done."""
# A wait is of actions smaller than this; fingers rest that moved less since the last question (of 0.04 m).
_WAITING, _AT_REST = 0.25, 0.02
# Instructions of each task that are read in a step; rows share them.
_TEXTS = 6
# So many words, and more, have no instructions that are not understood.
_MEANINGLESS = 16
_AVERAGE = 0.995
# Of the eyes' steps, the share that may be computed in bfloat16; the last ones are computed in float32.
_COARSE = 0.9
_FIRST = 2.0
_TOKENS, _GRIPPER, _ALONE, _HEAT = 0.05, 0.3, 0.3, 0.05


@dataclass(frozen=True)
class Rows:
    """What shards hold, together; see `scripts.tiny_collect.COLUMNS`."""

    scenes: Tensor
    arms: Tensor
    chunks: Tensor
    known: Tensor
    tasks: Tensor
    held_out: Tensor
    views: Tensor
    wrists: Tensor
    rows: Tensor
    seen: Tensor
    seen_rows: Tensor


def read_rows(shards: Sequence[Path], *, pictures: bool) -> Rows:
    """All rows of shards, the pictures of some."""
    columns: dict[str, list[Numbers]] = {}
    count = 0
    for path in shards:
        with np.load(path) as shard:
            found = {name: shard[name] for name in ("scenes", "arms", "chunks", "known", "tasks", "episodes", "seen")}
            found["seen_rows"] = shard["seen_rows"] + count
            if pictures:
                found |= {"views": shard["views"], "wrists": shard["wrists"], "rows": shard["rows"] + count}
        count += len(found["scenes"])
        for name, values in found.items():
            columns.setdefault(name, []).append(values)
    joined = {name: torch.from_numpy(np.concatenate(values)) for name, values in columns.items()}
    held_out = joined["episodes"] // 10 % HELD_OUT == HELD_OUT - 1
    places = {name: joined.get(name, torch.zeros(0)).long() for name in ("tasks", "rows", "seen_rows")}
    pictured = {name: joined.get(name, torch.zeros(0)) for name in ("views", "wrists")}
    plain = {name: joined[name] for name in ("scenes", "arms", "chunks", "known", "seen")}
    return Rows(held_out=held_out, **plain, **places, **pictured)


def without_waits(rows: Rows) -> Rows:
    """The rows without labels that ask to wait with a closed hand whose fingers have come to rest.

    The expert waits until what drives the fingers is at its end, which no observation shows: a learner of such labels
    waits for ever. Where a chunk goes on to move, with the hand still closed, it is taken from there; where it does
    not, the row asks for nothing. What leads to the hand's opening stays as it is.
    """
    waits = (rows.chunks[..., :6].abs().amax(2) < _WAITING) & (rows.chunks[..., 6] > 0) & rows.known
    at_rest = (rows.arms[:, 14:16].abs().amax(1) < _AT_REST) & (rows.arms[:, 16] > 0)
    # The first step that is no waiting; CHUNK where there is none.
    steps = torch.cumprod(waits.long(), 1).sum(1)
    step = steps.clamp(max=CHUNK - 1)[:, None]
    known_then = rows.known.gather(1, step)[:, 0] & (steps < CHUNK)
    closed_then = rows.chunks[..., 6].gather(1, step)[:, 0] > 0
    moved = at_rest & (steps > 0) & known_then & closed_then
    nothing = at_rest & (steps > 0) & ~known_then
    order = torch.arange(CHUNK) + torch.where(moved, steps, 0)[:, None]
    inside = order < CHUNK
    order = order.clamp(max=CHUNK - 1)
    chunks = rows.chunks.gather(1, order[:, :, None].expand(-1, -1, rows.chunks.shape[2]))
    known = rows.known.gather(1, order) & inside & ~nothing[:, None]
    print(f"waits: {int(moved.sum())} labels begin later, {int(nothing.sum())} ask for nothing, of {len(chunks)}")
    return replace(rows, chunks=chunks, known=known)


@dataclass(frozen=True)
class Words:
    """Instructions to learn from: numbers of words (n, 32), and of which task each is (n,)."""

    words: Tensor
    tasks: Tensor

    def drawn(self, each: int, generator: torch.Generator) -> Tensor:
        """So many instructions of each task, (tasks * each, 32), task by task."""
        order = torch.argsort(self.tasks, stable=True)
        counts = torch.bincount(self.tasks)
        starts = torch.cumsum(counts, 0) - counts
        place = (torch.rand(len(counts), each, generator=generator) * counts[:, None]).long()
        words = self.words[order[starts[:, None] + place].flatten()]
        forgotten = (torch.rand(words.shape, generator=generator) < FORGOTTEN) & (words != NOTHING)
        return torch.where(forgotten, UNKNOWN, words)

    def meaningless(self, count: int, generator: torch.Generator) -> Tensor:
        """So many instructions (count, 32) that ask for nothing: an empty one, and words that were never learned."""
        lengths = torch.randint(1, _MEANINGLESS, (count, 1), generator=generator)
        lengths[0] = 0
        return torch.where(torch.arange(self.words.shape[1]) < lengths, UNKNOWN, NOTHING)


def read_words(path: Path) -> Words:
    """Of an npz with `words` and `tasks`."""
    with np.load(path) as found:
        return Words(torch.from_numpy(found["words"]).long(), torch.from_numpy(found["tasks"]).long())


def fit_control(
    rows: Rows,
    words: Words,
    vocabulary: int,
    steps: int,
    *,
    begun: dict[str, Tensor] | None = None,
    perceived: tuple[Tensor, Tensor] | None = None,
    seed: int = 0,
    batch: int = 512,
    rate: float = 1e-3,
    untold: float = UNTOLD,
) -> Control:
    """The network that acts.

    Args:
        rows: to learn from.
        words: instructions.
        vocabulary: how many words there are.
        steps: of gradient descent; the rate falls to nothing by a cosine.
        begun: weights to begin with.
        perceived: of some rows (m,), what perception told of their pictures (m, 40): half of each batch is of these.
        seed: of all randomness.
        batch: rows a step.
        rate: of learning, at first.
        untold: the share of rows that are told nothing to be done.
    """
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    network = Control(vocabulary)
    if begun is not None:
        network.load_state_dict(begun)
    descent = _Descent(network, rate, steps)
    train, held = torch.nonzero(~rows.held_out)[:, 0], torch.nonzero(rows.held_out)[:, 0]
    # Tasks count alike, however long they last.
    share = 1.0 / torch.bincount(rows.tasks[train], minlength=10).clamp(min=1)[rows.tasks[train]].float().sqrt()
    scale = torch.from_numpy(SCENE_NOISE)
    seen = torch.nonzero(~rows.held_out[perceived[0]])[:, 0] if perceived is not None else None
    started, losses = time.monotonic(), []
    cumulative = torch.cumsum(share.double(), 0)
    for step in range(steps):
        drawn = torch.rand(batch, generator=generator, dtype=torch.float64) * cumulative[-1]
        chosen = train[torch.searchsorted(cumulative, drawn).clamp(max=len(train) - 1)]
        scenes = rows.scenes[chosen]
        size = scale * (2.0 * torch.rand(batch, 1, generator=generator))
        scenes = scenes + size * torch.randn(scenes.shape, generator=generator)
        if perceived is not None and seen is not None:
            half = batch // 2
            places = seen[(torch.rand(half, generator=generator) * len(seen)).long()]
            chosen = torch.cat([chosen[:half], perceived[0][places]])
            scenes = torch.cat([scenes[:half], perceived[1][places]])
        told = words.drawn(_TEXTS, generator)
        texts = network.read(torch.cat([told, words.meaningless(_TEXTS, generator)]))
        nothing = torch.rand(len(chosen), generator=generator) < untold
        asked = torch.where(nothing, len(told) // _TEXTS, rows.tasks[chosen])
        text = texts[asked * _TEXTS + torch.randint(_TEXTS, (len(chosen),), generator=generator)]
        arms, known = rows.arms[chosen], rows.known[chosen] | nothing[:, None]
        chunks, tokens = network(scenes, arms, text)
        wanted = torch.where(nothing[:, None, None], resting(arms), rows.chunks[chosen])
        loss = control_loss(chunks, tokens, wanted, known)
        losses.append(descent.step(loss))
        if step % 200 == 199 or step == steps - 1:
            took = time.monotonic() - started
            print(f"\rcontrol: step {step + 1}/{steps}, loss {np.mean(losses[-200:]):.4f}, {took:.0f} s", end="")
    descent.end()
    if not len(held):
        print("; nothing is held out")
        return network
    with torch.no_grad():
        chosen = held[:20000]
        text = network.read(words.drawn(1, generator))[rows.tasks[chosen]]
        chunks, _ = network(rows.scenes[chosen], rows.arms[chosen], text)
        error = (chunks - rows.chunks[chosen])[:, 0, :6].abs().mean()
        grips = ((chunks[:, 0, 6] > 0) == (rows.chunks[chosen][:, 0, 6] > 0)).float().mean()
    print(f"; held out: first action {error:.4f}, gripper {grips:.4f}")
    return network


def resting(arms: Tensor) -> Tensor:
    """Chunks (n, 8, 7) that leave the arms (n, 17) where they are, their grippers as they were last told."""
    still = torch.zeros(len(arms), CHUNK, 7)
    still[..., 6] = arms[:, -1:]
    return still


def control_loss(chunks: Tensor, tokens: Tensor, wanted: Tensor, known: Tensor) -> Tensor:
    """L1 of six numbers, the gripper's cross-entropy, and the tokens' cross-entropy of the first action."""
    weight = known.float()
    weight = weight * torch.where(torch.arange(CHUNK) < 4, _FIRST, 1.0)
    total = weight.sum()
    way = (
        functional.smooth_l1_loss(chunks[..., :6], wanted[..., :6], reduction="none", beta=0.02).sum(2) * weight
    ).sum()
    grip = functional.binary_cross_entropy_with_logits(chunks[..., 6], (wanted[..., 6] > 0).float(), reduction="none")
    bins = ((wanted[:, 0].clamp(-1, 1) + 1) / 2 * (BINS - 1)).round().long()
    named = functional.cross_entropy(tokens.flatten(0, 1), bins.flatten(), reduction="none").reshape(bins.shape)
    named = (named.mean(1) * known[:, 0]).sum() / known[:, 0].sum()
    return (way + _GRIPPER * (grip * weight).sum()) / total + _TOKENS * named


def fit_perception(
    rows: Rows,
    steps: int,
    *,
    begun: dict[str, Tensor] | None = None,
    seed: int = 0,
    batch: int = 64,
    rate: float = 1.5e-3,
) -> Perception:
    """The network that sees.

    Args:
        rows: with pictures.
        steps: of gradient descent; the rate falls to nothing by a cosine.
        begun: weights to begin with.
        seed: of all randomness.
        batch: pictures a step.
        rate: of learning, at first.
    """
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    network = Perception()
    network.to(memory_format=torch.channels_last)
    if begun is not None:
        network.load_state_dict(begun)
    descent = _Descent(network, rate, steps)
    usable = torch.nonzero(~rows.held_out[rows.rows])[:, 0]
    started, losses = time.monotonic(), []
    order = usable[torch.randperm(len(usable), generator=generator)]
    at = 0
    coarse = computes_coarsely()
    for step in range(steps):
        for branch in (network.view, network.wrist):
            branch.coarse = coarse and step < _COARSE * steps
        if at + batch > len(order):
            order, at = usable[torch.randperm(len(usable), generator=generator)], 0
        places, at = order[at : at + batch], at + batch
        view, wrist = (as_input(pictures[places], generator) for pictures in (rows.views, rows.wrists))
        arms, truth = rows.arms[rows.rows[places]], rows.scenes[rows.rows[places]]
        told, alone, far, near = network(view, wrist, arms)
        points = in_world(truth)
        loss = scene_loss(told, alone, truth)
        loss = loss + _HEAT * heat_loss(far, *seen_at(AGENTVIEW, points))
        loss = loss + _HEAT * heat_loss(near, *seen_at(EYE_IN_HAND, in_hand(points, arms)))
        losses.append(descent.step(loss))
        if step % 50 == 49 or step == steps - 1:
            took = time.monotonic() - started
            print(
                f"\rperception: step {step + 1}/{steps}, loss {np.mean(losses[-100:]):.4f}, "
                f"{(step + 1) * batch / took:.0f} pictures/s, {took:.0f} s",
                end="",
                flush=True,
            )
    descent.end()
    held = torch.nonzero(rows.held_out[rows.rows])[:, 0]
    if not len(held):
        print("; nothing is held out")
        return network
    told = perceived_of(network, rows, held)
    away = (told - rows.scenes[rows.rows[held]])[:, : 3 * POINTS].reshape(-1, POINTS, 3).norm(dim=2) * 250
    print("; held out, median and 90th percentile of points, mm:", end=" ")
    print(json.dumps([[round(float(q), 1) for q in row.quantile(torch.tensor([0.5, 0.9]))] for row in away.T]))
    return network


def computes_coarsely() -> bool:
    """Whether this processor multiplies bfloat16 by itself: the eyes are then fitted in two thirds of the time."""
    return bool(torch.cpu._is_avx512_bf16_supported())


def scene_loss(told: Tensor, alone: Tensor, truth: Tensor) -> Tensor:
    """L1 of the scene vector; the first camera by itself has to say points too."""
    points = 3 * POINTS
    fused = (told[:, :points] - truth[:, :points]).abs().mean()
    rest = (told[:, points:] - truth[:, points:]).abs().mean()
    return fused + 0.5 * rest + _ALONE * (alone - truth[:, :points]).abs().mean()


def as_input(pictures: Tensor, generator: torch.Generator | None) -> Tensor:
    """Pictures (n, h, w, 3) as (n, 3, h, w) in [-1, 1], a little brighter or darker where a generator is given."""
    values = pictures.permute(0, 3, 1, 2).float() * (2 / 255) - 1
    if generator is not None:
        count = len(values)
        contrast = 1 + 0.15 * (2 * torch.rand(count, 1, 1, 1, generator=generator) - 1)
        light = 0.1 * (2 * torch.rand(count, 3, 1, 1, generator=generator) - 1)
        values = values * contrast + light
    return values


def perceived_of(network: Perception, rows: Rows, places: Tensor) -> Tensor:
    """What perception tells of pictures: scene vectors (n, 40)."""
    found = []
    with torch.no_grad():
        for part in places.split(128):
            view, wrist = as_input(rows.views[part], None), as_input(rows.wrists[part], None)
            found.append(network(view, wrist, rows.arms[rows.rows[part]])[0])
    return torch.cat(found)


# Where points are in the pictures: what the eyes' key points are taught.


@dataclass(frozen=True)
class Camera:
    """A camera: its place (m), its axes as columns, in the world or in the hand; and its field of view (degrees)."""

    position: tuple[float, float, float]
    axes: tuple[tuple[float, float, float], ...]
    field: float


# Read off the compiled scene: agentview in the world, robot0_eye_in_hand in the frame of the end effector's state.
AGENTVIEW = Camera((0.65861, 0.0, 1.61035), ((0.0, -0.6283, 0.778), (1.0, 0.0, 0.0), (0.0, 0.778, 0.6283)), 45.0)
EYE_IN_HAND = Camera((0.0503, 0.0, -0.097), ((0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, -1.0)), 75.0)


def seen_at(camera: Camera, points: Tensor) -> tuple[Tensor, Tensor]:
    """Where points (n, k, 3), m, are in the picture (n, k, 2), 0 to 1 from its upper left; and which are in it (n, k).

    The pictures are mirrored, as policies get them (`pytest_vla.policies.view`).
    """
    there = (points - torch.tensor(camera.position)) @ torch.tensor(camera.axes)
    depth = (-there[..., 2]).clamp(min=1e-3)
    size = 2 * torch.tan(torch.deg2rad(torch.tensor(camera.field)) / 2)
    across, down = 0.5 - there[..., 0] / depth / size, 0.5 - there[..., 1] / depth / size
    inside = (there[..., 2] < -0.02) & (across > 0) & (across < 1) & (down > 0) & (down < 1)
    return torch.stack([across, down], -1), inside


def in_world(scenes: Tensor) -> Tensor:
    """The points (n, 8, 3) of scene vectors, m."""
    return scenes[:, : 3 * POINTS].reshape(-1, POINTS, 3) * SCALE + torch.tensor(CENTRE, dtype=torch.float32)


def in_hand(points: Tensor, arms: Tensor) -> Tensor:
    """Points (n, k, 3) of the world in the hand's frame, for proprioception (n, 17)."""
    place = arms[:, :3] * SCALE + torch.tensor(CENTRE, dtype=torch.float32)
    first, second = arms[:, 3:6], arms[:, 6:9]
    axes = torch.stack([first, second, torch.linalg.cross(first, second)], dim=2)
    return (points - place[:, None]) @ axes


def heat_loss(logits: Tensor, where: Tensor, inside: Tensor) -> Tensor:
    """Cross-entropy of the first key points' heat (n, k, cells) with where points are; of those in the picture only."""
    side = round(logits.shape[2] ** 0.5)
    cell = (where * side - 0.5).clamp(0, side - 1.001)
    low = cell.floor()
    part = cell - low
    logs = functional.log_softmax(logits[:, :POINTS], dim=2)
    total = torch.zeros(where.shape[:2])
    for right in (0, 1):
        for down in (0, 1):
            share = (part[..., 0] if right else 1 - part[..., 0]) * (part[..., 1] if down else 1 - part[..., 1])
            place = (low[..., 1] + down) * side + low[..., 0] + right
            total = total - share * logs.gather(2, place.long()[..., None])[..., 0]
    return (total * inside).sum() / inside.sum().clamp(min=1)


class _Descent:
    """Gradient descent on a network, whose weights at the end are a moving average; the rate falls by a cosine."""

    def __init__(self, network: torch.nn.Module, rate: float, steps: int) -> None:
        self._network, self._averaged = network, _Average(network)
        self._optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=1e-3)
        self._schedule = torch.optim.lr_scheduler.OneCycleLR(self._optimizer, rate, steps, pct_start=0.05)
        network.train()

    def step(self, loss: Tensor) -> float:
        """Go down this loss, and return it as a number."""
        self._optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._network.parameters(), 1.0)
        self._optimizer.step()
        self._schedule.step()
        self._averaged.take(self._network)
        return float(loss.detach())

    def end(self) -> None:
        """Give the network its averaged weights, ready to be asked."""
        self._averaged.give(self._network)
        self._network.eval()


class _Average:
    """The moving average of a network's weights."""

    def __init__(self, network: torch.nn.Module) -> None:
        self._kept = {name: value.detach().clone() for name, value in network.state_dict().items()}
        self._taken = 0

    def take(self, network: torch.nn.Module) -> None:
        self._taken += 1
        share = min(_AVERAGE, self._taken / (self._taken + 9))
        with torch.no_grad():
            for name, value in network.state_dict().items():
                if value.is_floating_point():
                    self._kept[name].lerp_(value, 1 - share)
                else:
                    self._kept[name].copy_(value)

    def give(self, network: torch.nn.Module) -> None:
        network.load_state_dict(self._kept)
