"""What a folder of data has: assets, task files, init states."""

from pathlib import Path
from typing import Literal

Kind = Literal["assets", "bddl_files", "init_files"]

KINDS: tuple[Kind, ...] = ("assets", "bddl_files", "init_files")


def data_base(folder: Path) -> Path | None:
    """Where in a folder assets/, bddl_files/ and init_files/ lie; None where it has none of them."""
    # A data folder, a LIBERO folder, and a checkout or installed package of LIBERO.
    bases = (folder / "libero", folder, folder / "libero" / "libero")
    return next((base for base in bases if any((base / kind).is_dir() for kind in KINDS)), None)
