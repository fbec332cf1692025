"""Behaviour cloning in numpy: a small network from state and instruction to a chunk of actions, and its policy.

It needs numpy alone: a test puts this file into a user's project, beside the weights that it trained.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

CHUNK = 8
_HIDDEN = 128
_BATCH = 256
_LEARNING_RATE = 3e-3
# Deviations of the state, so that the network sees what is beside the demonstrated path.
_BLUR = 0.05


@dataclass(frozen=True)
class Demonstration:
    """An episode that is to be imitated: the instruction, states (n, 8) as policies get them, actions (n, 7)."""

    instruction: str
    states: Array
    actions: Array


@dataclass(frozen=True)
class Network:
    """Two hidden layers of tanh.

    Attributes:
        words: that it knows of instructions.
        mean: of the demonstrated states (8,).
        deviation: of them (8,).
        layers: weights (inputs, outputs) and biases (outputs,), in turn.
    """

    words: tuple[str, ...]
    mean: Array
    deviation: Array
    layers: tuple[Array, ...]

    def words_of(self, instruction: str) -> Array:
        """Which of its words an instruction has: zeros and ones (words,)."""
        return _words_in(instruction, self.words)

    def chunk(self, words: Array, state: Array) -> Array:
        """The actions (`CHUNK`, 7) for a state (8,)."""
        seen = np.concatenate([(state - self.mean) / self.deviation, words])
        return np.clip(_forward(self.layers, seen)[-1].reshape(CHUNK, 7), -1.0, 1.0)


class ImitationPolicy:
    """A `BatchPolicy`; what belongs to an episode are the words of its instruction."""

    max_batch = 8
    reads = ("state",)
    replan = CHUNK

    def __init__(self, network: Network) -> None:
        self._network = network

    def begin(self, episode: Any) -> Array:
        """The words of the episode's instruction."""
        return self._network.words_of(episode.instruction)

    def act(self, states: Sequence[Array], observations: Sequence[Mapping[str, NDArray[Any]]]) -> list[Array]:
        """The chunks, each by products of its own: one product for a whole batch may round otherwise."""
        return [
            self._network.chunk(words, observation["state"])
            for words, observation in zip(states, observations, strict=True)
        ]


def train(demonstrations: Sequence[Demonstration], rng: np.random.Generator, updates: int = 1500) -> Network:
    """A network that imitates demonstrations, by Adam on the squared error of chunks.

    Args:
        demonstrations: one at least; after its last action an episode's chunks repeat that one.
        rng: draws first weights, batches and what is added to the states.
        updates: steps of Adam.
    """
    words = tuple(sorted({word for one in demonstrations for word in one.instruction.split()}))
    states = np.concatenate([one.states for one in demonstrations])
    mean, deviation = states.mean(axis=0), states.std(axis=0) + 1e-3
    known = [np.tile(_words_in(one.instruction, words), (len(one.states), 1)) for one in demonstrations]
    inputs = np.hstack([(states - mean) / deviation, np.concatenate(known)])
    targets = np.concatenate([_chunks(one.actions) for one in demonstrations])
    sizes = (inputs.shape[1], _HIDDEN, _HIDDEN, targets.shape[1])
    layers = [
        part
        for above, below in pairwise(sizes)
        for part in (rng.normal(0.0, above**-0.5, (above, below)), np.zeros(below))
    ]
    first, second = [np.zeros_like(part) for part in layers], [np.zeros_like(part) for part in layers]
    for update in range(1, updates + 1):
        drawn = rng.integers(len(inputs), size=_BATCH)
        seen = inputs[drawn]
        seen[:, : states.shape[1]] += rng.normal(0.0, _BLUR, (_BATCH, states.shape[1]))
        rate = _LEARNING_RATE * (1 + np.cos(np.pi * update / updates)) / 2
        for part, slope, one, two in zip(layers, _slopes(layers, seen, targets[drawn]), first, second, strict=True):
            one += 0.1 * (slope - one)
            two += 0.001 * (slope**2 - two)
            part -= rate * (one / (1 - 0.9**update)) / (np.sqrt(two / (1 - 0.999**update)) + 1e-8)
    return Network(words, mean, deviation, tuple(layers))


def save(file: Path, network: Network) -> None:
    """Write a network as an npz file."""
    layers: dict[str, Any] = {f"layer{number}": part for number, part in enumerate(network.layers)}
    np.savez(file, words=np.array(network.words), mean=network.mean, deviation=network.deviation, **layers)


def load(file: Path) -> Network:
    """The network of an npz file."""
    with np.load(file, allow_pickle=False) as arrays:
        layers = tuple(arrays[f"layer{number}"] for number in range(len(arrays.files) - 3))
        return Network(tuple(map(str, arrays["words"])), arrays["mean"], arrays["deviation"], layers)


def _words_in(instruction: str, words: Sequence[str]) -> Array:
    said = instruction.split()
    return np.array([float(word in said) for word in words])


def _chunks(actions: Array) -> Array:
    """The chunk (`CHUNK` * 7) that follows each step."""
    held = np.concatenate([actions, np.tile(actions[-1], (CHUNK - 1, 1))])
    return np.stack([held[step : step + CHUNK].ravel() for step in range(len(actions))])


def _forward(layers: Sequence[Array], seen: Array) -> tuple[Array, Array, Array]:
    """Both hidden layers and the output."""
    first = np.tanh(seen @ layers[0] + layers[1])
    second = np.tanh(first @ layers[2] + layers[3])
    return first, second, second @ layers[4] + layers[5]


def _slopes(layers: Sequence[Array], seen: Array, targets: Array) -> Iterator[Array]:
    """The gradient of half the squared error, by layer; made before any is given out."""
    first, second, answers = _forward(layers, seen)
    last = (answers - targets) / len(seen)
    middle = last @ layers[4].T * (1 - second**2)
    lowest = middle @ layers[2].T * (1 - first**2)
    slopes = [
        part
        for below, error in ((seen, lowest), (first, middle), (second, last))
        for part in (below.T @ error, error.sum(axis=0))
    ]
    return iter(slopes)
