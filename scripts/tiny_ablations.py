"""tiny without ears, and tiny without eyes: what its hands are then fitted to, and weights that answer a constant.

What comes out runs in numpy's network as it is: the layer that ends the ears, or the eyes, has no weights but a bias.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from pytest_vla.policies.tiny.network import POINTS, SCENE
from pytest_vla.policies.tiny.words import LONGEST, NOTHING
from scripts.tiny_fit import Rows, Words
from scripts.tiny_network import Control, Perception

# As a logit: so little of what the hand's camera says of a point that float32 adds nothing. exp of it is finite there.
_NO_TRUST = 60.0


def silent(words: Words) -> Words:
    """For each task one instruction (tasks, 32), which is empty."""
    tasks = torch.unique(words.tasks)
    return Words(torch.full((len(tasks), LONGEST), NOTHING), tasks)


def unseen(rows: Rows) -> Rows:
    """Each row with the mean scene vector (40,), true and seen, of those that are learned from, as float16 holds it."""
    mean = rows.scenes[~rows.held_out].mean(0).half().float()
    return replace(rows, scenes=mean.repeat(len(rows.scenes), 1), seen=mean.repeat(len(rows.seen), 1))


def deafened(network: Control) -> Control:
    """The network, changed so that each instruction is read as the empty one."""
    with torch.no_grad():
        read = network.read(torch.full((1, LONGEST), NOTHING))[0]
        for part in (network.embedding, network.convs, network.text):
            _clear(part)
        network.text.bias.copy_(read)
    return network


def blinded(scene: Tensor) -> Perception:
    """A network that tells a scene vector (40,) of any pictures and any arm."""
    network = Perception()
    _clear(network)
    with torch.no_grad():
        network.view_out.bias[:SCENE] = scene
        network.view_out.bias[SCENE : SCENE + POINTS] = _NO_TRUST
    network.eval()
    return network


def _clear(module: nn.Module) -> None:
    """All weights to zero."""
    with torch.no_grad():
        for value in module.parameters():
            value.zero_()
