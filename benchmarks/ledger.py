"""What a ledger costs a control step: none, the task's own, collisions, declared costs, in turn on one world.

In processor time of the thread, as other processes' work is not the ledger's. `make bench` runs it.

python benchmarks/ledger.py [SUITE [TASK]]

Of a suite alone its first task that states costs. The expert acts where it can, else random actions.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pytest_vla import World, load_suite
from pytest_vla.expert.policy import expert_policy
from pytest_vla.policies.base import Episode
from pytest_vla.policies.generators import noise_generator
from pytest_vla.scene.cost_rules import Charging, read_costs
from pytest_vla.sim.meters import meters_of

ROUNDS = 8
DECLARED = """
[[cost]]
name = "clumsy"
rule = "touch"
by = "robot"
except = "goal"
[[cost]]
name = "pressed"
rule = "force"
on = "table"
above = 50
[[cost]]
name = "fast"
rule = "speed"
of = "held"
above = 1
[[cost]]
name = "limits"
rule = "joint"
within = 0.02
"""


def main() -> None:
    suite, name = (
        (*sys.argv[1:], "tabletop", "put_the_bowl_on_the_stove")[:2] if len(sys.argv) != 2 else (sys.argv[1], "")
    )
    tasks = load_suite(suite).tasks
    task = next(task for task in tasks if (task.name == name if name else task.task_level != "L0"))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "costs.toml").write_text(DECLARED)
        declared = read_costs(Path(folder) / "costs.toml")
    world = World(task)
    kinds: dict[str, Charging | None] = {"off": None}
    if world.problem.cost:
        kinds["own"] = Charging("none")
    kinds |= {"collisions": Charging("all"), "declared": Charging("none", declared), "both": Charging("all", declared)}
    world.reset(0)
    actions = list(_actions(world))
    seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(ROUNDS):
        # In turn, so that what else the machine does hits all alike.
        for kind, charging in kinds.items():
            world.meter((lambda world: ()) if charging is None else meters_of(charging))
            world.reset(0)
            start = time.thread_time()
            for action in actions:
                world.step(action)
            seconds[kind].append((time.thread_time() - start) / len(actions))
    print(f"{suite} {task.name}: {len(actions)} control steps, {ROUNDS} rounds, medians")
    for kind, each in seconds.items():
        ratio = statistics.median(one / off for one, off in zip(each, seconds["off"], strict=True))
        print(f"{kind:12} {statistics.median(each) * 1e3:7.3f} ms a step   {ratio:6.3f} of a step without")


def _actions(world: World) -> Iterator[np.ndarray]:
    task = world.task
    if task.suite.startswith("tabletop"):
        session = expert_policy(
            Episode("x", task.suite, task.name, task.language, 0, noise_generator(0, "x"), world=world)
        )
        while not world.success() and world.steps < task.protocol.max_steps:
            action = np.asarray(session({}))
            world.step(action)
            yield action
        return
    generator = np.random.default_rng(0)
    for _ in range(100):
        yield np.append(generator.uniform(-0.5, 0.5, 6), generator.choice((-1.0, 1.0)))


if __name__ == "__main__":
    main()
