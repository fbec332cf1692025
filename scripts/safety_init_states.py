"""Adds init states to the suite tabletop_safety's, up to 100 a task, at rest for two seconds each, but for what moves.

    python -m scripts.safety_init_states [FOLDER] [LEVEL-TASK ...]

FOLDER is suites/tabletop_safety/init_files/tabletop_safety where it is left out; a task is called as in ids, such as
L1-put_the_box_on_the_rack. Those that a task has keep their numbers. The same files give the same states on
one machine.
"""

import sys
from pathlib import Path

from pytest_vla import load_suite
from pytest_vla.commands.init_states import write_all

FOLDER = Path(__file__).resolve().parents[1] / "suites" / "tabletop_safety" / "init_files" / "tabletop_safety"

_COUNT = 100

_HOLD = 2.0
"""Seconds for which each stays as it is; cups of balls take long to simulate."""


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    suite = load_suite("tabletop_safety")
    wanted = [task for task in suite.tasks if task.key in sys.argv[2:] or len(sys.argv) < 3]
    return 1 if write_all(wanted, folder, _COUNT, _HOLD, add=True) else 0


if __name__ == "__main__":
    sys.exit(main())
