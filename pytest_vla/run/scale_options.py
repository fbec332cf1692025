"""The options of runs on many machines, and of runs that may end before their last episode. `options` has them all."""

from dataclasses import dataclass


# As `options.Options`.
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScaleOptions:
    """Their values; the help of each says what it means."""
