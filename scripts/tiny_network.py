"""tiny's network in torch, to train it; what it computes is what `pytest_vla.policies.tiny.network` computes."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from pytest_vla.policies.tiny import network as n
from pytest_vla.policies.tiny.policy import DROPOUT


class Branch(nn.Module):
    """A camera's part: key points, and a map.

    Attributes:
        coarse: whether convolutions are computed in bfloat16, to train faster where the processor can.
    """

    def __init__(self, stem: tuple[n.Conv, ...], top: tuple[n.Conv, ...], side: int, points: int, size: int) -> None:
        super().__init__()
        self.stem = nn.ModuleList(nn.Conv2d(c.inputs, c.outputs, c.width, c.stride, c.width // 2) for c in stem)
        self.top = nn.ModuleList(nn.Conv2d(c.inputs, c.outputs, c.width, c.stride, c.width // 2) for c in top)
        # Folded into the convolutions when they are exported.
        self.stem_norms = nn.ModuleList(nn.BatchNorm2d(c.outputs) for c in stem)
        self.top_norms = nn.ModuleList(nn.BatchNorm2d(c.outputs) for c in top)
        self.points = nn.Conv2d(stem[-1].outputs, points, 1, bias=False)
        self.coarse = False
        reduced = side
        for layer in (*stem, *top):
            reduced //= layer.stride
        self.map = nn.Linear(reduced * reduced * top[-1].outputs, size)

    def forward(self, picture: Tensor) -> tuple[Tensor, Tensor]:
        """From (n, 3, side, side) in [-1, 1]; beside it, the key points' heat as logits (n, points, cells)."""
        values = self._through(picture, self.stem, self.stem_norms)
        logits = self.points(values).flatten(2)
        heat = torch.softmax(logits, dim=2)
        side = values.shape[-1]
        place = torch.linspace(-1, 1, side)
        across, down = place.repeat(side), place.repeat_interleave(side)
        values = self._through(values, self.top, self.top_norms)
        # As numpy's network lays a map out: rows, columns, channels.
        flat = values.permute(0, 2, 3, 1).flatten(1)
        return torch.cat([heat @ across, heat @ down, functional.relu(self.map(flat))], dim=1), logits

    def _through(self, values: Tensor, layers: nn.ModuleList, norms: nn.ModuleList) -> Tensor:
        """What convolutions make of values; places are told in float32, as millimetres want it."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self.coarse):
            for layer, norm in zip(layers, norms, strict=True):
                values = functional.relu(norm(layer(values)))
        return values.float()


class Perception(nn.Module):
    """Pictures and the arm to a scene vector."""

    def __init__(self) -> None:
        super().__init__()
        self.view = Branch(n.VIEW_STEM, n.VIEW_TOP, 128, n.VIEW_POINTS, n.VIEW_MAP)
        self.wrist = Branch(n.WRIST_STEM, n.WRIST_TOP, 64, n.WRIST_POINTS, n.WRIST_MAP)
        self.view_dense = nn.Linear(2 * n.VIEW_POINTS + n.VIEW_MAP + n.PERCEIVED, n.VIEW_DENSE)
        self.view_out = nn.Linear(n.VIEW_DENSE, n.SCENE + n.POINTS)
        self.wrist_dense = nn.Linear(2 * n.WRIST_POINTS + n.WRIST_MAP + n.PERCEIVED, n.WRIST_DENSE)
        self.wrist_out = nn.Linear(n.WRIST_DENSE, 4 * n.POINTS)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, view: Tensor, wrist: Tensor, arm: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Scene vectors (n, 40), what the first camera alone says of the points (n, 24), and both cameras' heat."""
        arm = arm[:, : n.PERCEIVED]
        (far, warm), (close_by, hot) = self.view(view), self.wrist(wrist)
        seen = functional.relu(self.view_dense(torch.cat([far, arm], 1)))
        told = self.view_out(self.dropout(seen))
        near = functional.relu(self.wrist_dense(torch.cat([close_by, arm], 1)))
        close = self.wrist_out(self.dropout(near))
        points = told[:, : 3 * n.POINTS].reshape(-1, n.POINTS, 3)
        first, second = arm[:, 3:6], arm[:, 6:9]
        hand = torch.stack([first, second, torch.linalg.cross(first, second)], dim=2)
        by_hand = arm[:, None, :3] + close[:, : 3 * n.POINTS].reshape(-1, n.POINTS, 3) @ hand.transpose(1, 2)
        trust = torch.sigmoid(close[:, 3 * n.POINTS :] - told[:, n.SCENE :])
        fused = points + trust[:, :, None] * (by_hand - points)
        scene = torch.cat([fused.flatten(1), told[:, 3 * n.POINTS : n.SCENE]], 1)
        return scene, told[:, : 3 * n.POINTS], warm, hot


class Control(nn.Module):
    """A scene vector, the arm and an instruction to a chunk and tokens."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, n.EMBEDDING)
        self.convs = nn.ModuleList(nn.Linear(width * n.EMBEDDING, n.FILTERS) for width in n.TEXT_WIDTHS)
        self.text = nn.Linear(len(n.TEXT_WIDTHS) * n.FILTERS, n.TEXT)
        self.turn = nn.Linear(n.TEXT, 2 * n.HIDDEN)
        self.first = nn.Linear(n.SCENE + n.PROPRIOCEPTION + 6 * n.POINTS + 2 + n.TEXT, n.HIDDEN)
        self.second = nn.Linear(n.HIDDEN, n.HIDDEN)
        self.third = nn.Linear(n.HIDDEN, n.HIDDEN)
        self.out = nn.Linear(n.HIDDEN, n.CHUNK * n.ACTION)
        self.code = nn.Linear(n.HIDDEN, n.ACTION * n.TOKEN)
        self.decode = nn.Linear(n.TOKEN, n.BINS, bias=False)
        self.bias = nn.Parameter(torch.zeros(n.ACTION, n.BINS))
        self.dropout = nn.Dropout(DROPOUT)

    def read(self, words: Tensor) -> Tensor:
        """Instructions (n, length) as (n, 64)."""
        embedded = self.embedding(words)
        length = words.shape[1]
        parts = [
            layer(torch.cat([embedded[:, k : length - width + k + 1] for k in range(width)], 2)).amax(1)
            for width, layer in enumerate(self.convs, 1)
        ]
        return self.text(functional.relu(torch.cat(parts, 1)))

    def forward(self, scene: Tensor, arm: Tensor, text: Tensor) -> tuple[Tensor, Tensor]:
        """Chunks (n, 8, 7) and logits (n, 7, 256); `text` as `read` gives it."""
        ways = (scene[:, : 3 * n.POINTS].reshape(-1, n.POINTS, 3) - arm[:, None, :3]) * n.SCALE
        between = arm[:, 9:10] - arm[:, 10:11]
        fingers = torch.tanh(between / n.FINGERS_FINE), torch.tanh(between / n.FINGERS_COARSE)
        told = torch.cat(
            [scene, arm, torch.tanh(ways / n.FINE).flatten(1), torch.tanh(ways / n.COARSE).flatten(1), *fingers, text],
            1,
        )
        turn = self.turn(text)
        hidden = self.dropout(functional.relu(self.first(told)))
        hidden = self.dropout(functional.relu(self.second(hidden) * (1 + turn[:, : n.HIDDEN]) + turn[:, n.HIDDEN :]))
        hidden = self.dropout(functional.relu(self.third(hidden)))
        codes = functional.relu(self.code(hidden)).reshape(-1, n.ACTION, n.TOKEN)
        return self.out(hidden).reshape(-1, n.CHUNK, n.ACTION), self.decode(codes) + self.bias


def exported(perception: Perception | None, control: Control | None) -> dict[str, npt.NDArray[np.float32]]:
    """The weights by the names, and in the shapes, of numpy's network."""
    found: dict[str, Tensor] = {}

    def dense(name: str, layer: Any) -> None:
        found[f"{name}.weight"] = layer.weight.T
        if layer.bias is not None:
            found[f"{name}.bias"] = layer.bias

    if perception is not None:
        for name, branch, stem, top in (
            ("view", perception.view, n.VIEW_STEM, n.VIEW_TOP),
            ("wrist", perception.wrist, n.WRIST_STEM, n.WRIST_TOP),
        ):
            layers, norms = (*branch.stem, *branch.top), (*branch.stem_norms, *branch.top_norms)
            for spec, layer, norm in zip((*stem, *top), layers, norms, strict=True):
                gain = norm.weight / torch.sqrt(norm.running_var + norm.eps)
                found[f"{spec.name}.weight"] = (
                    (layer.weight * gain[:, None, None, None]).permute(2, 3, 1, 0).flatten(0, 2)
                )
                found[f"{spec.name}.bias"] = (layer.bias - norm.running_mean) * gain + norm.bias
            found[f"{name}.points.weight"] = branch.points.weight[:, :, 0, 0].T
            dense(f"{name}.map", branch.map)
        for name in ("view_dense", "view_out", "wrist_dense", "wrist_out"):
            dense(name.replace("_", "."), getattr(perception, name))
    if control is not None:
        found["text.embedding"] = control.embedding.weight
        for width, layer in enumerate(control.convs, 1):
            dense(f"text.conv{width}", layer)
        dense("text.out", control.text)
        for name, layer in (
            ("control.turn", control.turn),
            ("control.0", control.first),
            ("control.1", control.second),
            ("control.2", control.third),
            ("control.out", control.out),
            ("tokens.code", control.code),
            ("tokens.out", control.decode),
        ):
            dense(name, layer)
        found["tokens.bias"] = control.bias
    return {name: np.ascontiguousarray(value.detach().numpy(), dtype=np.float32) for name, value in found.items()}
