"""Names and small functions that pytest needs at its start, in every project; cheap to import."""

from pathlib import Path

from pytest_vla.util.processes import available_bytes

MODELS_KEY = "vla_models"
"""The ini key of a project's own names for policies."""

LIST = "list"
ALL = "all"
"""In the place of variations: list what there is."""

MARKER = "vla"
"""The marker of tests that run episodes."""

EPISODE_FIXTURES = frozenset(("vla_case", "vla_play", "vla_search"))
"""What tests ask for that need a policy."""

SUITE_FILES = ("suite_items.py",)
"""Modules that are collected for suites without a module of their own."""

SUITES = Path(__file__).parents[1] / "suites"
"""The folder of our own suites."""

KEY_START = "vla"
"""How all of our ini keys begin, those that are misspelt too."""


# Where a run's files lie.

SHARDS = "shards"
"""In the results folder: where shards are that were not given a folder of their own."""


def shard_folder(results: Path, shard: tuple[int, int]) -> Path:
    """Return the default results folder of a shard: its own, as one store for many machines fails on network disks.

    Args:
        results: the folder of all runs.
        shard: the shard's number and the number of shards.
    """
    return results / SHARDS / f"{shard[0]}-of-{shard[1]}"


# What a further worker costs: memory, and a core's time until it asks its first question.

WORKER_BYTES = 1_000_000_000
"""That are to be there for each: 0.43 GB were measured with a world of tabletop and its pictures, 0.61 with one of
libero_spatial; scenes that are kept come on top."""

START_SECONDS = 3.0
"""Of a core, that a worker takes until its first question: imports and a world, with warm caches."""


def room_for_workers() -> int | None:
    """Return how many more workers fit into the available memory, or None if that is not known."""
    available = available_bytes()
    return None if available is None else available // WORKER_BYTES
