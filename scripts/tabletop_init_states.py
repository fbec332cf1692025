"""Add init states to a suite of ours, up to 200 a task of tabletop and 100 of tabletop_safety.

    python -m scripts.tabletop_init_states SUITE [FOLDER] [TASK ...]

SUITE is tabletop or tabletop_safety. FOLDER is that suite's own, suites/SUITE/init_files/SUITE, by default. A task of
tabletop_safety is named as in ids, such as L1-put_the_box_on_the_rack. States that a task has keep their numbers. Each
new state is at rest for two seconds, except for movers; the first fifty of each task of tabletop were at rest for ten.
The same files give the same states on one machine.
"""

import sys
from pathlib import Path

from pytest_vla import load_suite
from pytest_vla.commands.init_states import write_all

SUITES = Path(__file__).resolve().parents[1] / "suites"

# Cups of balls in tabletop_safety take long to simulate.
_COUNTS = {"tabletop": 200, "tabletop_safety": 100}

_HOLD = 2.0
"""Seconds for which each state stays as it is."""


def main() -> int:
    """Write the states, and return the exit code."""
    if not sys.argv[1:] or sys.argv[1] not in _COUNTS:
        sys.exit(f"usage: python -m scripts.tabletop_init_states {{{','.join(_COUNTS)}}} [FOLDER] [TASK ...]")
    name, *rest = sys.argv[1:]
    folder = Path(rest[0]) if rest else SUITES / name / "init_files" / name
    tasks = [task for task in load_suite(name).tasks if not rest[1:] or task.key in rest[1:]]
    return 1 if write_all(tasks, folder, _COUNTS[name], _HOLD, add=True) else 0


if __name__ == "__main__":
    sys.exit(main())
