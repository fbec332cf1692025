"""How many examples a property test takes: Hypothesis's profiles ``quick`` (`make test`) and ``full`` (`make slow`)."""

import math

from hypothesis import HealthCheck, settings

_FULL = 100
"""Hypothesis's own default, and that of `full`."""

QUICK = math.ceil(_FULL / 3)


def load_profiles() -> None:
    """Register both profiles and load ``quick``; ``--hypothesis-profile=full`` loads the other before tests are read.

    No property test fails because the machine is slow or busy. They stay random, since a suite that is run often looks
    further that way; what one finds is printed, kept in .hypothesis and tried again.
    """
    for name, examples in (("quick", QUICK), ("full", _FULL)):
        settings.register_profile(
            name,
            max_examples=examples,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
            print_blob=True,
        )
    settings.load_profile("quick")


def scaled(examples: int) -> int:
    """Return how many examples a test takes under the loaded profile, if it takes `examples` under ``full``."""
    return math.ceil(examples * settings.default.max_examples / _FULL)
