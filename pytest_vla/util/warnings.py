"""Warnings about what went wrong beside an episode, which has its outcome."""

import sys
import traceback
import warnings

from pytest_vla.util.text import printable_lines
from pytest_vla.util.wall_limits import WallLimitReached, is_users_own


def warn(text: str) -> None:
    """Warn. Where warnings are errors (``-W error``), too, an episode is neither lost nor run again for it."""
    try:
        warnings.warn(printable_lines(text), stacklevel=2)
    except UserWarning:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn(printable_lines(text), stacklevel=2)


# What broke an episode, in words: whose exception it is, and where in the user's own code it came from.


class ServerTraceback(Exception):
    """The cause of an EpisodeError: what another process said, shown with the item."""

    def __str__(self) -> str:
        return printable_lines(f"\n{self.args[0]}")


def ends_episode(error: BaseException) -> bool:
    """Whether an exception is the policy's or the world's own; an interrupt, ``pytest.exit`` and a wall limit are not.

    ``sys.exit``, ``pytest.skip`` and ``pytest.fail`` (which pytest-timeout calls) in a policy are: an episode that ends
    without a record would be missing from every rate.
    """
    # Where pytest is not loaded, nobody has left by its exit.
    leaves = getattr(sys.modules.get("_pytest.outcomes"), "Exit", KeyboardInterrupt)
    return not isinstance(error, (KeyboardInterrupt, GeneratorExit, WallLimitReached, leaves))


def describe(error: BaseException) -> str:
    """Type, text and place; the place is the innermost line of the user's own code, or of all where there is none."""
    try:
        text = str(error)
    except Exception as broken:
        text = f"(its text raises {type(broken).__name__})"
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if is_users_own(frame.filename)]
    places = [f" ({frame.filename}:{frame.lineno})" for frame in theirs or frames]
    return f"{type(error).__name__}: {text}{places[-1] if places else ''}"


def full_traceback(error: BaseException) -> str:
    """The whole traceback, for whoever has to mend the policy."""
    return "".join(traceback.format_exception(error))
