"""The options of searches as items of a run. `options` has them among all others."""

from dataclasses import dataclass

from pytest_vla.run.arguments import dimension_list, scene_count
from pytest_vla.run.option import option


# As `options.Options`.
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FuzzOptions:
    """Their values; the help of each says what it means."""

    fuzz: int | None = option(
        "search each selected task for scenes that the policy should do and does not, in N scenes, one of four drawn "
        "evenly, in the place of the suites' episodes: an item a task, such as "
        "tabletop::test_fuzz[turn_on_the_stove], which fails where failures are found; each is made smaller, and "
        "written to fuzz_cases.toml in the run's folder, for "
        "--vla-cases. --vla-cases, ids of cases and tests of your own run beside them",
        "N",
        scene_count,
        default=None,
        belongs="run",
        again=True,
        asks=True,
    )
    fuzz_dimensions: tuple[str, ...] = option(
        "of --vla-fuzz only changes of these dimensions, such as camera,light (default: all that a task has)",
        "NAME[,NAME]",
        dimension_list,
        default=(),
        belongs="run",
        joined=True,
        again=True,
    )
