"""What VLA-Arena adds: its visual levels."""

from pytest_vla.entries import VariationEntry


def pytest_vla_variations() -> list[VariationEntry]:
    """V1 to V4."""
    at = "pytest_vla.suites.vla_arena.visual:KINDS"
    return [VariationEntry("vla_arena", "VLA-Arena's visual levels", at, 80)]
