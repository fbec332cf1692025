"""Shows what takes long before an episode can begin (`pytest_vla.util.preparing`), from workers too."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from pytest_vla.util.preparing import LOGGER

CHANNEL = "vla_channel"
"""In a worker's input: what it tells its controller by, beside xdist's messages."""

Show = Callable[[str, bool], None]
"""Called with what is going on, and whether it has ended."""


@contextmanager
def preparations_shown(config: pytest.Config) -> Iterator[None]:
    """Within, what this process prepares is shown where the run is shown."""
    handler = _Handler(_way(config))
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
        """Show one."""
        what = getattr(record, "preparing", None)
        if what is not None:
            self._show(what, getattr(record, "ended", False))


def _way(config: pytest.Config) -> Show:
    channel: Any = getattr(config, "workerinput", {}).get(CHANNEL)
    if channel is not None:
        return lambda what, ended: channel.send((what, ended))
    results, capture = (config.pluginmanager.getplugin(name) for name in ("vla-results", "capturemanager"))

    def show(what: str, ended: bool) -> None:
        # A test's fixtures are made while pytest captures.
        with capture.global_and_fixture_disabled() if capture is not None else nullcontext():
            results.show_preparation("", what, ended)

    return show if results is not None else lambda what, ended: None
