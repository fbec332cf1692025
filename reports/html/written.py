"""Numbers of the report's JSON as texts of a page: as a terminal has them."""

from collections.abc import Mapping, Sequence
from typing import Any

NONE = "-"
"""Stands where there is no number."""


def percent_text(value: float | None, interval: Sequence[float] | None = None) -> str:
    """``63.6 [35.4, 84.8]``, of percentages; a dash where there is none."""
    return number_text(value, interval, "{:.1f}")


def points_text(value: float | None, interval: Sequence[float] | None = None) -> str:
    """``-12.0 [-20.1, -3.9]``, of percentage points."""
    return number_text(value, interval, "{:+.1f}")


def number_text(value: float | None, interval: Sequence[float] | None = None, form: str = "{:.4g}") -> str:
    """A number with its interval behind it, each by `form`."""
    if value is None:
        return NONE
    text = form.format(value)
    return text if interval is None else f"{text} [{form.format(interval[0])}, {form.format(interval[1])}]"


def p_text(p: float | None) -> str:
    """A probability under what is tested."""
    if p is None:
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def reasons_of(table: Mapping[str, Any]) -> str:
    """``3 timeout, 1 infeasible``: what is in no rate, of ``errors`` and ``invalid`` of a table."""
    return ", ".join(f"{number} {reason}" for key in ("errors", "invalid") for reason, number in table[key].items())


def listed(values: Sequence[str], most: int = 4) -> str:
    """The first few, and how many more there are."""
    more = f" and {len(values) - most} more" * (len(values) > most)
    return f"{', '.join(values[:most])}{more}" or NONE
