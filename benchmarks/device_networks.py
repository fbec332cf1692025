"""Transformers of the shape of SmolVLA and of pi0, with random weights: what a device has to compute, and no more.

Pictures become tokens, which a language model reads with the instruction and the state; a smaller transformer, the
expert, looks at its keys and values in each layer and takes ten steps from noise to a chunk of actions (flow matching).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

CHUNK, ACTIONS, FLOW_STEPS, WORDS = 50, 32, 10, 48
"""Actions of a chunk, numbers of each (padded, as theirs are), steps from noise to them, words of an instruction."""

SIZES = (1, 2, 4, 8, 12, 16, 24, 32)
"""Questions that a captured graph is for; a batch between two takes the next one's time."""


@dataclass(frozen=True)
class Trunk:
    """A transformer's shape: its layers, width, heads (of queries; of keys and values), their width, the MLP's."""

    layers: int
    width: int
    heads: int
    key_heads: int
    head: int
    hidden: int
    gated: bool = True


@dataclass(frozen=True)
class Shape:
    """A policy's shape.

    Attributes:
        side: of a picture, pixels; patch: of a patch; shuffled: so many by so many patches become one token.
        vision, language, expert: the three transformers; the last two have as many layers.
        vocabulary: rows of the table of words.
    """

    side: int
    patch: int
    shuffled: int
    vision: Trunk
    language: Trunk
    expert: Trunk
    vocabulary: int


SHAPES = {
    # The first 16 of SmolVLM2-500M's 32 layers, and an expert of .75 of its width.
    "smolvla": Shape(
        512, 16, 4, Trunk(12, 768, 12, 12, 64, 3072, False), Trunk(16, 960, 15, 5, 64, 2560),
        Trunk(16, 720, 15, 5, 64, 2048), 49280,
    ),
    # PaliGemma with SigLIP So400m, and an expert of 300 million.
    "pi0": Shape(
        224, 14, 1, Trunk(27, 1152, 16, 16, 72, 4304, False), Trunk(18, 2048, 8, 1, 256, 16384),
        Trunk(18, 1024, 8, 1, 256, 4096), 257152,
    ),
    # For tests on a processor.
    "tiny": Shape(
        32, 8, 2, Trunk(2, 32, 2, 2, 16, 64, False), Trunk(2, 48, 3, 1, 16, 64), Trunk(2, 32, 3, 1, 16, 48), 64
    ),
}  # fmt: skip

KeysValues = tuple[Tensor, Tensor]


class Block(nn.Module):
    """Attention and an MLP; queries see all keys, and those that they are handed beside."""

    def __init__(self, trunk: Trunk) -> None:
        super().__init__()
        self.trunk = trunk
        queries, keys = trunk.heads * trunk.head, trunk.key_heads * trunk.head
        self.first, self.second = nn.LayerNorm(trunk.width), nn.LayerNorm(trunk.width)
        self.project = nn.Linear(trunk.width, queries + 2 * keys)
        self.out = nn.Linear(queries, trunk.width)
        self.up = nn.Linear(trunk.width, trunk.hidden * (2 if trunk.gated else 1))
        self.down = nn.Linear(trunk.hidden, trunk.width)

    def forward(self, x: Tensor, before: KeysValues | None = None) -> tuple[Tensor, KeysValues]:
        trunk = self.trunk
        parts = [number * trunk.head for number in (trunk.heads, trunk.key_heads, trunk.key_heads)]
        split = self.project(self.first(x)).split(parts, dim=-1)
        queries, keys, values = (part.unflatten(-1, (-1, trunk.head)).transpose(1, 2) for part in split)
        if before is not None:
            keys, values = torch.cat((before[0], keys), dim=2), torch.cat((before[1], values), dim=2)
        repeats = trunk.heads // trunk.key_heads
        seen = functional.scaled_dot_product_attention(
            queries, keys.repeat_interleave(repeats, 1), values.repeat_interleave(repeats, 1)
        )
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        hidden = self.up(self.second(x))
        if trunk.gated:
            gate, hidden = hidden.chunk(2, dim=-1)
            hidden = functional.gelu(gate) * hidden
        else:
            hidden = functional.gelu(hidden)
        return x + self.down(hidden), (keys, values)


class Network(nn.Module):
    """Pictures (B, 2, H, W, 3) uint8, words (B, 48), state (B, 8) and noise (B, 50, 32) to actions (B, 50, 32)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.patches = nn.Conv2d(3, shape.vision.width, shape.patch, shape.patch)
        self.places = nn.Parameter(torch.randn((shape.side // shape.patch) ** 2, shape.vision.width) * 0.02)
        self.vision, self.language, self.expert = (
            nn.ModuleList([Block(trunk) for _ in range(trunk.layers)])
            for trunk in (shape.vision, shape.language, shape.expert)
        )
        self.connect = nn.Linear(shape.vision.width * shape.shuffled**2, shape.language.width)
        self.words = nn.Embedding(shape.vocabulary, shape.language.width)
        self.state = nn.Linear(8, shape.language.width)
        self.act, self.acted = nn.Linear(ACTIONS, shape.expert.width), nn.Linear(shape.expert.width, ACTIONS)
        self.time = nn.Linear(1, shape.expert.width)

    def forward(self, pictures: Tensor, words: Tensor, state: Tensor, noise: Tensor) -> Tensor:
        x = torch.cat((self.pictures(pictures), self.words(words), self.state(state)[:, None]), dim=1)
        known = []
        for block in self.language:
            x, keys_values = block(x)
            known.append(keys_values)
        actions = noise
        for step in range(FLOW_STEPS):
            time = torch.full((1, 1, 1), 1 - step / FLOW_STEPS, dtype=noise.dtype, device=noise.device)
            y = self.act(actions) + self.time(time)
            for block, keys_values in zip(self.expert, known, strict=True):
                y, _ = block(y, keys_values)
            actions = actions - self.acted(y) / FLOW_STEPS
        return actions

    def pictures(self, pictures: Tensor) -> Tensor:
        """(B, tokens, width) of both cameras."""
        shape, (batch, cameras) = self.shape, pictures.shape[:2]
        x = pictures.flatten(0, 1).permute(0, 3, 1, 2).to(self.places.dtype) / 127.5 - 1
        x = self.patches(functional.interpolate(x, (shape.side, shape.side), mode="bilinear"))
        x = x.flatten(2).transpose(1, 2) + self.places
        for block in self.vision:
            x, _ = block(x)
        along, many = shape.side // shape.patch, shape.shuffled
        x = x.unflatten(1, (along // many, many, along // many, many)).permute(0, 1, 3, 2, 4, 5)
        return self.connect(x.flatten(3).flatten(1, 2)).unflatten(0, (batch, cameras)).flatten(1, 2)


Compute = Callable[..., Tensor]


class Captured:
    """A function as CUDA graphs, one for each of `SIZES`: a call launches one thing, and not thousands.

    Raises what torch raises where the function cannot be captured.
    """

    def __init__(self, function: Compute, most: int) -> None:
        self._function, self._sizes = function, [size for size in SIZES if size <= most]
        self._graphs: dict[int, tuple[Any, list[Tensor], Tensor]] = {}

    def __call__(self, *inputs: Tensor) -> Tensor:
        count = len(inputs[0])
        size = next((size for size in self._sizes if size >= count), None)
        if size is None:
            return self._function(*inputs)
        if size not in self._graphs:
            self._graphs[size] = self._capture(size, inputs)
        graph, places, result = self._graphs[size]
        for place, given in zip(places, inputs, strict=True):
            place[:count].copy_(given)
        graph.replay()
        return result[:count].clone()

    def _capture(self, size: int, inputs: Sequence[Tensor]) -> tuple[Any, list[Tensor], Tensor]:
        places = [torch.zeros((size, *given.shape[1:]), dtype=given.dtype, device=given.device) for given in inputs]
        # Libraries set themselves up in the first calls, which cannot be captured.
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._function(*places)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = self._function(*places)
        return graph, places, result


def faster(function: Compute, way: str, most: int) -> Compute:
    """A function compiled in one of the ways.

    Args:
        function: of tensors whose first axis is the batch.
        way: ``none``; ``compile`` (torch.compile); ``reduce-overhead`` (the same, with the CUDA graphs that torch makes
            of it); ``graphs`` (CUDA graphs of the function as it is).
        most: questions at once.

    Raises:
        ValueError: no such way.
    """
    if way == "none":
        return function
    if way == "graphs":
        return Captured(function, most)
    modes = {"compile": None, "reduce-overhead": "reduce-overhead"}
    if way not in modes:
        raise ValueError(f"compiled={way}: expected none, compile, reduce-overhead or graphs")
    compiled: Compute = torch.compile(function, mode=modes[way])
    return compiled


def parameters(network: nn.Module) -> float:
    """Thousand millions of weights."""
    return float(sum(weight.numel() for weight in network.parameters())) / 1e9
