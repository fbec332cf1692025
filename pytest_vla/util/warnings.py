"""Warnings about problems that do not affect an episode's outcome, and descriptions of exceptions."""

import sys
import traceback
import warnings

from pytest_vla.util.processes import came_without_signal
from pytest_vla.util.text import printable_lines
from pytest_vla.util.wall_limits import WallLimitReached, is_users_own


def warn(text: str) -> None:
    """Emit a warning that never raises, even under ``-W error``."""
    try:
        warnings.warn(printable_lines(text), stacklevel=2)
    except UserWarning:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn(printable_lines(text), stacklevel=2)


# Descriptions of exceptions that end an episode, with the place in the user's own code.


class ServerTraceback(Exception):
    """The cause of an EpisodeError: another process's traceback, shown with the item."""

    def __str__(self) -> str:
        return printable_lines(f"\n{self.args[0]}")


def ends_episode(error: BaseException) -> bool:
    """Whether an exception ends the episode as an error; an interrupt, ``pytest.exit`` and a wall limit do not.

    ``sys.exit``, ``pytest.skip`` and ``pytest.fail`` (which pytest-timeout calls) in a policy do: an episode that ends
    without a record would be missing from every rate. So does a KeyboardInterrupt that no signal caused
    (`pytest_vla.util.processes.interrupts_noted`): it is no Ctrl-C.
    """
    if came_without_signal(error):
        return True
    # If pytest is not loaded, pytest.exit was not called.
    leaves = getattr(sys.modules.get("_pytest.outcomes"), "Exit", KeyboardInterrupt)
    return not isinstance(error, (KeyboardInterrupt, GeneratorExit, WallLimitReached, leaves))


def describe(error: BaseException) -> str:
    """Return an exception's type, text and place: the innermost line of the user's own code, or else of all code."""
    try:
        text = str(error)
    except Exception as broken:
        text = f"(its text raises {type(broken).__name__})"
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if is_users_own(frame.filename)]
    places = [f" ({frame.filename}:{frame.lineno})" for frame in theirs or frames]
    return f"{type(error).__name__}: {text}{places[-1] if places else ''}"


def full_traceback(error: BaseException) -> str:
    """Return the whole traceback, for the policy's author."""
    return "".join(traceback.format_exception(error))
