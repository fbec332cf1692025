"""The numbers of LIBERO-Plus's fifty noises: ten severities of five kinds."""

from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError

if TYPE_CHECKING:
    pass

PLUS_NAMES = ("motion", "gaussian", "zoom", "fog", "glass")
"""LIBERO-Plus's kinds of noise, in the order of its numbers."""

PLUS_SEVERITIES = tuple(range(1, 11))


def plus_parts(number: int) -> tuple[str, int]:
    """The kind and the severity of a number of LIBERO-Plus's. Raises VlaError where there is no such number."""
    count = len(PLUS_NAMES) * len(PLUS_SEVERITIES)
    if not 1 <= number <= count:
        raise VlaError(f"LIBERO-Plus's noise has numbers 1 to {count}, and not {number}")
    kind, severity = divmod(number - 1, len(PLUS_SEVERITIES))
    return PLUS_NAMES[kind], PLUS_SEVERITIES[severity]
