"""Makes the init states of the suite tabletop: 50 a task, at rest for ten seconds each.

    python -m scripts.tabletop_init_states [FOLDER] [TASK ...]

FOLDER is suites/tabletop/init_files/tabletop where it is left out. The same seeds give the same files on one machine.
"""

import sys
import zlib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from pytest_vla import World, load_suite
from pytest_vla.sim.settle import settled_states

FOLDER = Path(__file__).resolve().parents[1] / "suites" / "tabletop" / "init_files" / "tabletop"


def generator_of(name: str) -> np.random.Generator:
    """The source of a task's draws: it follows from the task's name, so that further tasks change no others."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def make(name: str, folder: Path) -> str:
    """Writes the init states of one task."""
    task = load_suite("tabletop").task(name)
    with World(task) as world:
        states = settled_states(world, task.protocol.init_states, generator_of(name), hold_seconds=10.0)
    path = folder / f"{name}.pruned_init"
    with path.open("wb") as file:
        np.save(file, states)
    return f"{path}: {states.shape}"


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    names = sys.argv[2:] or [task.name for task in load_suite("tabletop").tasks]
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor() as pool:
        for told in pool.map(make, names, [folder] * len(names)):
            print(told, flush=True)


if __name__ == "__main__":
    main()
