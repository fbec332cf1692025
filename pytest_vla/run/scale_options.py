"""The options of runs on many machines, and of runs that may end before their last episode. `options` has them all."""

from dataclasses import dataclass

from pytest_vla.run.arguments import hours_of, seconds_text
from pytest_vla.run.option import option


# As `options.Options`.
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScaleOptions:
    """Their values; the help of each says what it means."""

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
