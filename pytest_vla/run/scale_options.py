"""The options of runs on many machines, and of runs that may end before their last episode. `options` has them all."""

from dataclasses import dataclass
from pathlib import Path

from pytest_vla.run.arguments import folder_of, shard, shard_text, some_text
from pytest_vla.run.option import option


# As `options.Options`.
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScaleOptions:
    """Their values; the help of each says what it means."""

    shard: tuple[int, int] | None = option(
        "of all that is selected run one part, such as 3/16, the third of 16: balanced, scenes kept together, the same "
        "on every machine. Tests that run no episode are in the first. Without --vla-results a shard's records go to "
        "a folder of its own, .vla/shards/3-of-16; pytest-vla merge makes one run of all shards, and that is judged",
        "N/COUNT",
        shard,
        default=None,
        belongs="run",
        write=shard_text,
        asks=True,
    )
    shard_durations: Path | None = option(
        "file of durations by which shards are balanced, the same one for all shards; pytest-vla durations writes it "
        "(default: by the suites' step budgets)",
        "FILE",
        folder_of,
        default=None,
        belongs="run",
        checked=some_text,
    )
