"""The options of runs on many machines, and of runs that may end before their last episode. `options` has them all."""

from dataclasses import dataclass

from pytest_vla.run.arguments import cpu_count, ray_address, replica_count
from pytest_vla.run.option import option


# As `options.Options`.
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScaleOptions:
    """Their values; the help of each says what it means."""

    ray: str | None = option(
        "run the workers of -n N on the machines of a Ray cluster: auto, the one that this machine is part of, else one "
        "that is started here for this run (default of the bare option); local, one that is started here; HOST:PORT of "
        "the head. Write an address with =. Needs pytest-vla[ray]",
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
