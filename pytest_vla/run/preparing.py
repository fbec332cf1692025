"""Progress of long preparations before an episode (`pytest_vla.util.live_line`), also from workers."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from pytest_vla.run.context import RunContext
from pytest_vla.run.xdist.messages import Preparing, wire
from pytest_vla.util.live_line import LOGGER

Show = Callable[[str, bool], None]
"""Called with what is going on, and whether it has ended."""


@contextmanager
def preparations_shown(context: RunContext) -> Iterator[None]:
    """Show the preparations of this process within the block, on the terminal of the run."""
    handler = _Handler(_way(context))
    level = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)


class _Handler(logging.Handler):
    def __init__(self, show: Show) -> None:
        super().__init__()
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        """Show one preparation."""
        what = getattr(record, "preparing", None)
        if what is not None:
            self._show(what, getattr(record, "ended", False))


def _way(context: RunContext) -> Show:
    if context.channel is not None:
        return lambda what, ended: context.channel.send(wire(Preparing(what, ended)))
    results, capture = (context.config.pluginmanager.getplugin(name) for name in ("vla-results", "capturemanager"))

    def show(what: str, ended: bool) -> None:
        # A test's fixtures are made while pytest captures.
        with capture.global_and_fixture_disabled() if capture is not None else nullcontext():
            results.show_preparation("", what, ended)

    return show if results is not None else lambda what, ended: None
