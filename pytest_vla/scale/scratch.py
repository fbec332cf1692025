"""A folder for temporary files that goes with the process that made it, also where that is killed."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# It reads nothing until whoever writes is gone.
_REMOVE = "import shutil, sys; sys.stdin.read(); shutil.rmtree(sys.argv[1], ignore_errors=True)"


class Scratch:
    """The folder.

    Attributes:
        path: of it.
    """

    def __init__(self) -> None:
        """Makes it, and starts a process that removes it when this one is gone.

        Raises:
            OSError: it cannot be made.
        """
        self.path = Path(tempfile.mkdtemp(prefix="pytest-vla-"))
        self._remover = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _REMOVE, str(self.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Whatever ends this process's group leaves it.
            start_new_session=True,
        )

    def remove(self) -> None:
        """Removes it now."""
        shutil.rmtree(self.path, ignore_errors=True)
        assert self._remover.stdin is not None
        self._remover.stdin.close()
        self._remover.wait()
