"""Where a run's files lie."""

import os
import time
from pathlib import Path

SHARDS = "shards"
"""In the results folder: where shards are that were not given a folder of their own."""


def new_run_name() -> str:
    """The name of a new run: the local time, with a suffix that keeps runs of one second apart."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"


def shard_folder(results: Path, shard: tuple[int, int]) -> Path:
    """Where a shard's records go where nothing else is said: a store that many machines write fails on network disks.

    Args:
        results: the folder of all runs.
        shard: which one of how many.
    """
    return results / SHARDS / f"{shard[0]}-of-{shard[1]}"
