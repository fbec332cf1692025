"""What names the content of files that a policy is made of."""

import hashlib
import sys
from pathlib import Path


def module_digest(name: str) -> str | None:
    """sha256 (hex) of a loaded module's file; None where there is none."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return file_digest(Path(file)) if file else None


def file_digest(path: Path) -> str | None:
    """sha256 (hex) of a file; None where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        # A run's folder is many files.
        return None
