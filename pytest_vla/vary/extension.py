"""The kinds of variation of this room, which any task may have."""

from pytest_vla.entries import VariationEntry

_AXES = (
    ("layout", 20, "where things stand, and what stands beside them"),
    ("background", 30, "table, floor and walls"),
    ("object", 35, "how the goal's object looks, and how large it is"),
    ("light", 40, "the lights"),
    ("camera", 50, "where the cameras are"),
    ("robot", 60, "how the arm begins"),
    ("noise", 70, "what pictures suffer on their way to the policy"),
    ("language", 90, "what the robot is told"),
    ("action", 100, "what becomes of actions on their way to the robot"),
)
"""LIBERO-PRO's are 10, VLA-Arena's 80."""


def pytest_vla_variations() -> list[VariationEntry]:
    """Our dimensions."""
    return [VariationEntry(name, about, f"pytest_vla.vary.axes.{name}:KINDS", order) for name, order, about in _AXES]
