"""A world of `tabletop` whose task states costs, for tests of meters."""

from pathlib import Path

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla import World
from pytest_vla.plan.costs import Charge, Ledger
from pytest_vla.scene.problem import Problem, parse_problem_text
from pytest_vla.sim.costs.setting import Setting
from pytest_vla.sim.meters import Meter
from tests.support.worlds import tabletop

TASK = "put_the_bottle_on_the_rack"
_FILE = Path(__file__).parents[2] / "suites" / "tabletop" / "bddl_files" / "tabletop" / f"{TASK}.bddl"


def problem_with(cost: str, goal: str = "(And (On bottle_1 rack_1_top_region))", further: str = "") -> Problem:
    """The task's problem with these costs."""
    before, _, _ = _FILE.read_text().partition("(:goal")
    costs = f"(:cost {cost})" if cost else ""
    return parse_problem_text(f"{before} (:goal {goal}) {costs} {further})", source="costs.bddl")


def setting_with(cost: str, goal: str = "(And (On bottle_1 rack_1_top_region))", further: str = "") -> Setting:
    """What literals are judged in: the world at rest, all things as the first init state has them."""
    world = begun()
    problem = problem_with(cost, goal, further)
    return Setting(problem, world.scene, world.model, world.data, world.drawn_poses)


def begun() -> World:
    """The world, settled."""
    world = tabletop(TASK)
    world.reset(init_state=0)
    return world


def put(setting: Setting, name: str, position: npt.ArrayLike | None = None, turn: npt.ArrayLike | None = None) -> None:
    """Moves an object (m) and turns it (wxyz, before its own turn), and forwards."""
    body = setting.scene.body(name)
    assert body is not None
    joint = setting.data.joint(body.joints[-1])
    if position is not None:
        joint.qpos[:3] = position
    if turn is not None:
        found = np.zeros(4)
        mujoco.mju_mulQuat(found, np.asarray(turn, dtype=np.float64), joint.qpos[3:].copy())
        joint.qpos[3:] = found
    joint.qvel[:] = 0.0
    mujoco.mj_forward(setting.model, setting.data)


def where(setting: Setting, name: str) -> npt.NDArray[np.float64]:
    """Where an object is (m)."""
    body = setting.scene.body(name)
    assert body is not None
    return np.array(setting.data.body(body.root_body).xpos)


def charged(meter: Meter, *, steps: int = 1, success: bool = False, ended: bool = False) -> tuple[Charge, ...]:
    """What a meter that was begun charges in so many steps in which nothing moves."""
    ledger = Ledger()
    for step in range(1, steps + 1):
        meter.step(ledger, step, success)
    if ended:
        meter.end(ledger, steps, success)
    return ledger.entries()


def amounts(entries: tuple[Charge, ...]) -> dict[str, float]:
    """What each name was charged."""
    found: dict[str, float] = {}
    for entry in entries:
        found[entry.name] = found.get(entry.name, 0.0) + entry.amount
    return found
