"""What a ledger costs a control step: none, collisions, declared costs, in turn on one world. `make bench` runs it.

In processor time of the thread, as other processes' work is not the ledger's.

python benchmarks/ledger.py [SUITE TASK]
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from pytest_vla import World, load_suite
from pytest_vla.expert.policy import expert_policy
from pytest_vla.policies.base import Episode
from pytest_vla.policies.noise import noise_generator
from pytest_vla.scene.cost_rules import Charging, read_costs
from pytest_vla.sim.accounts import meters_of

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
    suite, name = sys.argv[1:3] if len(sys.argv) > 2 else ("tabletop", "put_the_bowl_on_the_stove")
    task = load_suite(suite).task(name)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "costs.toml").write_text(DECLARED)
        declared = read_costs(Path(folder) / "costs.toml")
    kinds = {
        "off": Charging("none"),
        "collisions": Charging("all"),
        "declared": Charging("none", declared),
        "both": Charging("all", declared),
    }
    world = World(task)
    world.reset(0)
    session = expert_policy(Episode("x", task.suite, task.name, task.language, 0, noise_generator(0, "x"), world=world))
    actions = []
    while not world.success() and len(actions) < task.protocol.max_steps:
        actions.append(np.asarray(session({})))
        world.step(actions[-1])
    seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(ROUNDS):
        # In turn, so that what else the machine does hits all alike.
        for kind, charging in kinds.items():
            world.meter(meters_of(charging))
            world.reset(0)
            start = time.thread_time()
            for action in actions:
                world.step(action)
            seconds[kind].append((time.thread_time() - start) / len(actions))
    print(f"{suite} {name}: {len(actions)} control steps of the expert, {ROUNDS} rounds, medians")
    for kind, each in seconds.items():
        ratio = statistics.median(one / off for one, off in zip(each, seconds["off"], strict=True))
        print(f"{kind:12} {statistics.median(each) * 1e3:7.3f} ms a step   {ratio:6.3f} of a step without")


if __name__ == "__main__":
    main()
