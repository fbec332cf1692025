"""Check that the libraries behind headless rendering are on this machine, and install them where allowed.

Run by `make setup`. As root on Debian or Ubuntu it installs what is missing; elsewhere it prints the line to run. With
``--sudo`` it asks sudo for that, where sudo asks nobody: CI's machines are so (`action.yml`).
"""

import os
import shutil
import subprocess
import sys

from pytest_vla.util.extras import DEBIAN, FEDORA

CHECKS = {
    "EGL": "from pytest_vla.sim.gl import probe_egl; exit(probe_egl())",
    "OSMesa": "from pytest_vla.sim.gl import probe_osmesa; exit(probe_osmesa())",
    "OpenCV (robosuite imports it)": "import importlib.util as u; u.find_spec('cv2') and __import__('cv2')",
}
# Not in every release any more; one of EGL and OSMesa is enough to render.
OPTIONAL_PACKAGE = "libosmesa6"

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
"""Any of them will do."""


def missing() -> dict[str, str]:
    """What does not work here, and the last line of why. Each check runs in a process of its own."""
    problems = {}
    for name, script in CHECKS.items():
        result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        if result.returncode != 0:
            problems[name] = (result.stderr.strip().splitlines() or ["failed"])[-1]
    return problems


def root_prefix(may_sudo: bool) -> list[str] | None:
    """What makes a command root's; None: nothing does."""
    if os.geteuid() == 0:
        return []
    sudo = ["sudo", "-n"]
    asks_nobody = (
        may_sudo and shutil.which("sudo") and subprocess.run([*sudo, "true"], capture_output=True).returncode == 0
    )
    return sudo if asks_nobody else None


def install(prefix: list[str], *choices: list[str]) -> None:
    """Install the first of these lists of Debian packages that this release has."""
    apt = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
    subprocess.run([*apt, "update", "-q"], stdout=subprocess.DEVNULL, check=False)
    for wanted in choices:
        command = [*apt, "install", "-y", "-q", "--no-install-recommends", *wanted]
        if subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0:
            return


def main() -> int:
    problems = missing()
    may_sudo, may_install = "--sudo" in sys.argv[1:], shutil.which("apt-get") is not None
    # CI's machines of projects that use this one test no reports.
    if may_install and not may_sudo and os.geteuid() == 0 and not any(map(shutil.which, BROWSERS)):
        print("installing chromium, for tests of HTML reports")
        install([], ["chromium"])
    prefix = root_prefix(may_sudo) if problems and may_install else None
    if prefix is not None:
        print(f"installing system libraries: {DEBIAN}")
        packages = DEBIAN.split()[2:]
        install(prefix, packages, [name for name in packages if name != OPTIONAL_PACKAGE])
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
