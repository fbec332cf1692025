"""Checks that the libraries behind headless rendering are on this machine, and installs them where it may.

Run by `make setup`. As root on Debian or Ubuntu it installs what is missing; elsewhere it prints the line to run.
"""

import os
import shutil
import subprocess
import sys

from pytest_vla.util.install import DEBIAN, FEDORA

CHECKS = {
    "EGL": "from pytest_vla.sim.gl import probe_egl; exit(probe_egl())",
    "OSMesa": "from pytest_vla.sim.gl import probe_osmesa; exit(probe_osmesa())",
    "OpenCV (robosuite imports it)": "import cv2",
}
# Not in every release any more; one of EGL and OSMesa is enough to render.
OPTIONAL_PACKAGE = "libosmesa6"


def missing() -> dict[str, str]:
    """What does not work here, and the last line of why. Each check runs in a process of its own."""
    problems = {}
    for name, script in CHECKS.items():
        result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        if result.returncode != 0:
            problems[name] = (result.stderr.strip().splitlines() or ["failed"])[-1]
    return problems


def install() -> None:
    """Installs the Debian packages; without the optional one where this release does not have it."""
    environ = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    packages = DEBIAN.split()[2:]
    subprocess.run(["apt-get", "update", "-q"], env=environ, stdout=subprocess.DEVNULL, check=False)
    for wanted in (packages, [name for name in packages if name != OPTIONAL_PACKAGE]):
        command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *wanted]
        if subprocess.run(command, env=environ, stdout=subprocess.DEVNULL).returncode == 0:
            return


def main() -> int:
    problems = missing()
    if problems and os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"installing system libraries: {DEBIAN}")
        install()
        problems = missing()
    for name, problem in problems.items():
        print(f"{name} does not work here: {problem}", file=sys.stderr)
    fatal = "OpenCV (robosuite imports it)" in problems or {"EGL", "OSMesa"} <= problems.keys()
    if problems and sys.platform == "linux":
        need = "Run as root, then try again" if fatal else "Tests that compare the two are skipped. To have both"
        print(f"{need}: {DEBIAN}   (Fedora: {FEDORA})", file=sys.stderr)
    return int(fatal and sys.platform == "linux")


if __name__ == "__main__":
    sys.exit(main())
