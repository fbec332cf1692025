"""Where tabletop's points are in the pictures that tiny sees: what its key points are taught."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from pytest_vla.policies.tiny.inputs import CENTRE, SCALE
from pytest_vla.policies.tiny.network import POINTS


@dataclass(frozen=True)
class Camera:
    """A camera: its place (m), its axes as columns, in the world or in the hand; and its field of view (degrees)."""

    position: tuple[float, float, float]
    axes: tuple[tuple[float, float, float], ...]
    field: float


# Read off the compiled scene: agentview in the world, robot0_eye_in_hand in the frame of the end effector's state.
AGENTVIEW = Camera((0.65861, 0.0, 1.61035), ((0.0, -0.6283, 0.778), (1.0, 0.0, 0.0), (0.0, 0.778, 0.6283)), 45.0)
EYE_IN_HAND = Camera((0.0503, 0.0, -0.097), ((0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, -1.0)), 75.0)


def places(camera: Camera, points: Tensor) -> tuple[Tensor, Tensor]:
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
