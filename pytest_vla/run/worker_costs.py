"""What a further worker costs: memory, and a core's time until it asks its first question."""

from pytest_vla.util.memory import available_bytes

WORKER_BYTES = 1_000_000_000
"""That are to be there for each: 0.43 GB were measured with a world of tabletop and its pictures, 0.61 with one of
libero_spatial; scenes that are kept come on top."""

START_SECONDS = 3.0
"""Of a core, that a worker takes until its first question: imports and a world, with warm caches."""


def room_for_workers() -> int | None:
    """How many further workers the memory holds; None: not known."""
    available = available_bytes()
    return None if available is None else available // WORKER_BYTES
