"""Adds to the wheel what pyproject.toml cannot say: machine code of the functions that numba compiles.

It is made where what it needs is installed, as in ``python -m build --no-isolation``. Where it is not, the wheel has
none, and each machine makes its own, once.
"""

import os
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIP = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from pytest_vla.commands.cache import ship_code
ship_code(Path(sys.argv[1], "pytest_vla", "compiled"))
"""


class BuildWithCode(build_py):
    """Copies the packages, and makes their machine code from the copy, as its content is what counts."""

    def run(self) -> None:
        """Copy, then make."""
        super().run()
        if self.editable_mode:
            return
        library = Path(self.build_lib).resolve()
        command = [sys.executable, "-P", "-c", SHIP, str(library)]
        # The copy is what the wheel is made of.
        environ = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            print(f"pytest-vla: a wheel without machine code, which machines then make: {reason}", file=sys.stderr)


setup(cmdclass={"build_py": BuildWithCode})
