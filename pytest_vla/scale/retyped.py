"""Commands of shards as they are to be typed for another shard, or for no shard."""

import shlex
from collections.abc import Iterator

_SHARD, _DURATIONS, _RESULTS = "--vla-shard", "--vla-shard-durations", "--vla-results"


def without_shard(command: str) -> str:
    """The command of the whole selection, with the results folder that is the default."""
    return shlex.join(_without(command, (_SHARD, _DURATIONS, _RESULTS)))


def for_shard(command: str, number: int, count: int) -> str:
    """The command of another shard, with the results folder that is the default."""
    first, *rest = _without(command, (_SHARD, _RESULTS))
    return shlex.join([first, *rest, f"{_SHARD}={number}/{count}"])


def _without(command: str, options: tuple[str, ...]) -> Iterator[str]:
    """The words of a command but for some options and their values."""
    try:
        words = iter(shlex.split(command))
    except ValueError:
        # What stands in a store may be anything.
        words = iter(command.split())
    for word in words:
        if word in options:
            next(words, None)
        elif word.partition("=")[0] not in options:
            yield word
