"""`make demo`: LIBERO-Goal with a policy that moves at random, on LIBERO's own scenes, on all cores.

Exits with 0 where every episode ran to its end: a policy that moves at random is not expected to do a task.
"""

import subprocess
import sys
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.scene.assets import KINDS, data_roots

BESIDE_THE_CHECKOUT = Path(__file__).resolve().parents[2] / "shared" / "data"
EPISODES = ("--vla-suite=libero_goal", "--vla-model=random", "--vla-seeds=0", "--tb=no", "-rN", "-v", "-n", "auto")


def data_option() -> list[str]:
    """What tells the plugin where LIBERO's data is: nothing where it finds all kinds itself. Raises VlaError."""
    roots = data_roots()
    lacking = [kind for kind in KINDS if not any(root.folder(kind) for root in roots)]
    if not lacking:
        return []
    if BESIDE_THE_CHECKOUT.is_dir():
        return [f"--vla-data={BESIDE_THE_CHECKOUT}"]
    raise VlaError(
        f"the demo needs LIBERO's {', '.join(lacking)}: set PYTEST_VLA_DATA to the folder that has them "
        "(in a checkout of LIBERO: libero/libero), or install hf-libero and let it download its assets"
    )


def main() -> int:
    try:
        option = data_option()
    except VlaError as error:
        print(error, file=sys.stderr)
        return 2
    ended = subprocess.run([sys.executable, "-m", "pytest", *EPISODES, *option], check=False).returncode
    # 1: tests failed, which is what episodes without success are.
    return 0 if ended in (0, 1) else ended


if __name__ == "__main__":
    sys.exit(main())
