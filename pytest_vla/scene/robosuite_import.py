"""robosuite's import without its notices and without its log file, and with a place for its machine code."""

import contextlib
import importlib.util
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.util.extras import what_to_install
from pytest_vla.util.files import cache_folder, is_trusted


@contextlib.contextmanager
def quiet_robosuite() -> Iterator[None]:
    """Keep robosuite's import quiet: no notice about private macros, no log file in the temporary folder.

    The file would be shared by all users of a machine, and the import fails for users who do not own it.

    Raises:
        VlaError: the import fails because a package or a system library is missing; names what to install.
    """
    _give_numba_a_cache()
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
        raise VlaError(f"robosuite cannot be imported: {error}. {what_to_install(error)}.") from error
    finally:
        logging.FileHandler = handler  # type: ignore[misc]
        logger.setLevel(level)


def _give_numba_a_cache() -> None:
    """Set ``NUMBA_CACHE_DIR`` if numba cannot write beside robosuite, whose import would fail."""
    found = importlib.util.find_spec("robosuite")
    if "NUMBA_CACHE_DIR" in os.environ or found is None or found.origin is None:
        return
    compiled = Path(found.origin).parent / "utils" / "__pycache__"
    if os.access(compiled if compiled.exists() else compiled.parent, os.W_OK):
        return
    try:
        folder = cache_folder() / "numba"
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        if not is_trusted(folder):
            raise PermissionError(f"others may write {folder}")
    except (OSError, VlaError):
        # Private and new: numba unpickles what it finds in its cache.
        folder = Path(tempfile.mkdtemp(prefix="pytest-vla-numba-"))
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    if "numba" in sys.modules:
        # It has read the environment.
        sys.modules["numba"].config.CACHE_DIR = str(folder)
