"""Install the supported versions of MuJoCo beside the default one, each in a folder, ``.simulators/VERSION``.

    python scripts/simulators.py

With such a folder first in PYTHONPATH, pytest-vla and upstream run on that version, for the tests that compare them.
"""

import subprocess
import sys
from pathlib import Path

from pytest_vla.versions import DEFAULT, SUPPORTED

FOLDER = Path(__file__).resolve().parents[1] / ".simulators"


def main() -> int:
    """Install what is missing, and return the exit code. Where a version has no wheel for this Python, it says so."""
    missing = [version for version in SUPPORTED["mujoco"] if version != DEFAULT["mujoco"] and not _made(version)]
    for version in missing:
        pip = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps", "--upgrade"]
        target = FOLDER / version
        done = subprocess.run([*pip, "--only-binary=:all:", "--target", target, f"mujoco=={version}"], check=False)
        if done.returncode:
            print(f"mujoco {version} cannot be installed for this Python: its tests are skipped", file=sys.stderr)
    return 0


def _made(version: str) -> bool:
    return (FOLDER / version / f"mujoco-{version}.dist-info" / "RECORD").is_file()


if __name__ == "__main__":
    sys.exit(main())
