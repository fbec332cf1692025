"""Make a virtual environment that also sees what the main one has: ``python scripts/side_environment.py FOLDER``.

Run by the main environment's interpreter. What is installed into FOLDER afterwards (``python -m pip --python FOLDER``)
is only what it adds, or has in another version, since pip counts what it sees as installed. FOLDER's own packages are
found first, then .venv-torch's, which several environments share, then the main environment's.
"""

import subprocess
import sys
from pathlib import Path

# Each folder's own .pth files take part too: that is how an editable install is found.
_LINE = "import os, site, sys; site.addsitedir(os.path.join(os.path.dirname(sys.prefix), {path!r}))\n"


def main() -> int:
    """Make the environment, unless it is there, and let it see the others; returns the exit code."""
    if len(sys.argv) != 2:
        print("usage: python scripts/side_environment.py FOLDER", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1]).resolve()
    if not (folder / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    main_environment = Path(sys.prefix).resolve()
    if main_environment.parent != folder.parent:
        print(f"{folder}: expected a folder beside {main_environment}", file=sys.stderr)
        return 2
    packages = Path("lib") / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    shared = (".venv-torch", str(main_environment.name / packages))
    (folder / packages / "zz_shared.pth").write_text("".join(_LINE.format(path=path) for path in shared))
    return 0


if __name__ == "__main__":
    sys.exit(main())
