"""The kinds of variation of this room, which any task may have."""

from pytest_vla.entries import VariationEntry

_AXES = (
    ("layout", 20, "places of objects, and additional objects"),
    ("background", 30, "table, floor and walls"),
    ("object", 35, "appearance and size of the goal's object"),
    ("light", 40, "the lights"),
    ("camera", 50, "camera poses and field of view"),
    ("robot", 60, "the arm's initial pose"),
    ("noise", 70, "image noise and blur"),
    ("language", 90, "the instruction"),
    ("action", 100, "delayed and noisy actions"),
)
"""LIBERO-PRO's are 10, VLA-Arena's 80."""


def pytest_vla_variations() -> list[VariationEntry]:
    """Our dimensions."""
    return [VariationEntry(name, about, f"pytest_vla.vary.axes.{name}:KINDS", order) for name, order, about in _AXES]
