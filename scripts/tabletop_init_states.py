"""Adds init states to the suite tabletop's, up to 200 a task, each at rest for two seconds.

    python -m scripts.tabletop_init_states [FOLDER] [TASK ...]

Those that a task has keep their numbers. The first fifty of each were at rest for ten seconds. FOLDER is
suites/tabletop/init_files/tabletop where it is left out. The same files give the same states on one machine.
"""

import sys
from pathlib import Path

from pytest_vla import load_suite
from pytest_vla.commands.init_states import write_all

FOLDER = Path(__file__).resolve().parents[1] / "suites" / "tabletop" / "init_files" / "tabletop"

_COUNT = 200

_HOLD = 2.0
"""Seconds for which each stays as it is."""


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    suite = load_suite("tabletop")
    tasks = [suite.task(name) for name in sys.argv[2:]] or list(suite.tasks)
    return 1 if write_all(tasks, folder, _COUNT, _HOLD, add=True) else 0


if __name__ == "__main__":
    sys.exit(main())
