"""Makes the init states of the suite tabletop: 50 a task, at rest for ten seconds each.

    python -m scripts.tabletop_init_states [FOLDER] [TASK ...]

FOLDER is suites/tabletop/init_files/tabletop where it is left out. The same seeds give the same files on one machine.
"""

import sys
from pathlib import Path

from pytest_vla import load_suite
from pytest_vla.commands.init_states import write_all

FOLDER = Path(__file__).resolve().parents[1] / "suites" / "tabletop" / "init_files" / "tabletop"


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    suite = load_suite("tabletop")
    tasks = [suite.task(name) for name in sys.argv[2:]] or list(suite.tasks)
    return 1 if write_all(tasks, folder) else 0


if __name__ == "__main__":
    sys.exit(main())
