"""Warnings about what went wrong beside an episode, which has its outcome."""

import warnings

from pytest_vla.util.text import printable_lines


def warn(text: str) -> None:
    """Warn. Where warnings are errors (``-W error``), too, an episode is neither lost nor run again for it."""
    try:
        warnings.warn(printable_lines(text), stacklevel=2)
    except UserWarning:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn(printable_lines(text), stacklevel=2)
