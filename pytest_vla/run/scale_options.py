"""The options of runs on many machines, and of runs that may end before their last episode. `options` has them all."""

from dataclasses import dataclass
from pathlib import Path

from pytest_vla.run.arguments import (
    cpu_count,
    folder_of,
    hours_of,
    ray_address,
    replica_count,
    seconds_text,
    shard,
    shard_text,
    some_text,
)
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
    max_hours: float | None = option(
        "wall time that this invocation may take, such as 8, 0.5, 90m: no episode begins that would not end in time, "
        "and they run in an order that keeps each task's and variation's share, so that what ran is a valid sample of "
        "all; --vla-resume goes on",
        "HOURS",
        hours_of,
        default=None,
        belongs="invocation",
        write=seconds_text,
    )
    budget: float | None = option(
        "likewise in worker-hours, workers (-n; 1 without it) times wall time from pytest's start: -n 8 with "
        "--vla-budget=4 ends after half an hour",
        "HOURS",
        hours_of,
        default=None,
        belongs="invocation",
        write=seconds_text,
    )
    ray: str | None = option(
        "run the workers of -n N on the machines of a Ray cluster: auto, the one that this machine is part of, else "
        "one that is started here for this run (the bare option's); local, one that is started here; HOST:PORT of the "
        "head. Write an address with =. Needs pytest-vla[ray]",
        "ADDRESS",
        ray_address,
        default=None,
        belongs="invocation",
        ini="Ray cluster whose machines run the workers, where --vla-ray is not given",
        bare="auto",
    )
    ray_cpus: float = option(
        "processors of the cluster that each worker takes (default: 1); 0.5: two workers share one, which pays where "
        "they wait for the policy",
        "N",
        cpu_count,
        default=1.0,
        belongs="invocation",
        ini="as --vla-ray-cpus, where that is not given",
    )
    ray_replicas: int | None = option(
        "copies of the policy in the cluster, each on a GPU of its own where the cluster has any (default: one a GPU, "
        "and one where there is none, but no more than workers)",
        "N",
        replica_count,
        default=None,
        belongs="invocation",
        ini="as --vla-ray-replicas, where that is not given",
    )
