"""How the code of a benchmark judges literals, where benchmarks differ. Values of a problem class.

Facts of LIBERO's from hf-libero 0.1.4, ``envs/object_states/base_object_states.py``.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Judging:
    """How literals are judged.

    Attributes:
        on_distance: how far apart (m), horizontally, the origins of two bodies may be of which one is on the other.
        goals: the predicates and connectives that a goal may have.
        in_bodies: whether a goal may ask that something is in an object or fixture, not only in a region.
    """

    on_distance: float
    goals: frozenset[str]
    in_bodies: bool


LIBERO = Judging(
    on_distance=0.03,
    goals=frozenset({"true", "false", "on", "in", "up", "open", "close", "turnon", "turnoff"}),
    in_bodies=False,
)
"""LIBERO's, and what is built on it."""
