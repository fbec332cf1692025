"""robosuite's import without its notices and without its log file."""

import contextlib
import logging
import warnings
from collections.abc import Iterator
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.sim.gl import DEBIAN, FEDORA


@contextlib.contextmanager
def quiet_robosuite() -> Iterator[None]:
    """Import robosuite inside this: no notice about private macros, no log file in the system's temporary folder.

    The file would be shared by all users of a machine, and the import fails for whoever does not own it.

    Raises:
        VlaError: the import fails, mostly for want of a system library; names the packages to install.
    """
    logger = logging.getLogger("robosuite_logs")
    level, handler = logger.level, logging.FileHandler
    logger.setLevel(logging.ERROR)

    def without_file(filename: Any, *arguments: Any, **options: Any) -> logging.Handler:
        return logging.NullHandler() if "robosuite" in str(filename) else handler(filename, *arguments, **options)

    logging.FileHandler = without_file  # type: ignore[assignment, misc]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    except ImportError as error:
        raise VlaError(
            f"robosuite cannot be imported: {error}. Where a system library is missing: {DEBIAN} (Fedora: {FEDORA})."
        ) from error
    finally:
        logging.FileHandler = handler  # type: ignore[misc]
        logger.setLevel(level)
