"""``pytest-vla cache``: what the cache of compiled scenes holds, and how it is emptied."""

import argparse

from pytest_vla.entries import Command
from pytest_vla.scene.cache import clear, evict, held
from pytest_vla.util.folders import cache_folder, cache_limit
from pytest_vla.util.text import counted


def declare(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = (
        "It lies in PYTEST_VLA_CACHE, else in $XDG_CACHE_HOME/pytest-vla, else in ~/.cache/pytest-vla. "
        "PYTEST_VLA_CACHE_LIMIT bounds it, such as 20GB (default: 5GB). A scene that is not in it is compiled when it "
        "is needed."
    )
    do = parser.add_mutually_exclusive_group()
    do.add_argument("--clear", action="store_true", help="remove all compiled scenes")
    do.add_argument("--trim", action="store_true", help="remove the least recently used scenes beyond the limit")


def run(options: argparse.Namespace) -> None:
    """Show the cache, or empty it. Raises VlaError: the limit cannot be understood."""
    folder, limit = cache_folder(), cache_limit()
    if options.clear:
        print(f"{folder}: removed {clear(folder) / 1e6:.0f} MB")
        return
    if options.trim:
        evict(folder, limit)
    number, size = held(folder)
    print(f"{folder}: {counted(number, 'scene')}, {size / 1e6:.0f} MB of at most {limit / 1e6:.0f} MB")


COMMAND = Command(declare, run)
