"""What takes long before an episode can begin, told while it happens: as log records, which whoever runs may show."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

LOGGER = logging.getLogger("pytest_vla.preparing")
"""Its records have `preparing`: what is going on, and `ended`: whether it has come to its end."""


@contextmanager
def preparing(what: str) -> Iterator[None]:
    """A block that takes long.

    Args:
        what: such as ``compiling the scene of turn_on_the_stove``.
    """
    LOGGER.info("%s", what, extra={"preparing": what, "ended": False})
    began = time.monotonic()
    try:
        yield
    finally:
        LOGGER.info("%s: %.1f s", what, time.monotonic() - began, extra={"preparing": what, "ended": True})
