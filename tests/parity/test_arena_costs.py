"""What VLA-Arena's code judges and charges, against goldens of it: the account `upstream`, and goals."""

from functools import lru_cache
from typing import Any

import mujoco
import numpy as np
import pytest

from pytest_vla import World
from pytest_vla.errors import EpisodeError
from pytest_vla.plan.case import PROTOCOLS
from pytest_vla.plan.costs import Charge, Ledger
from pytest_vla.scene.literals import Literal
from pytest_vla.sim.costs.setting import Crash, JudgedLiteral, Poses, Setting
from pytest_vla.sim.costs.upstream import UpstreamMeter, judged_as_coded
from pytest_vla.sim.verdicts import compile_goal
from pytest_vla.versions import installed_versions
from tests.support.arena import arena_task, golden_files, meta_of, read_golden
from tests.support.data import golden
from tests.support.traces import MUJOCO

# Two suites of costs, and the four kinds of distance, contact and fall; the others with `make slow`.
_OFTEN = ("unseen_objects_L0", "hazard_avoidance_L0", "risk_aware_grasping_L1", "static_obstacles_L2", "lemon_to_the")
# The version of MuJoCo and the kernels with which each folder's traces were made.
_MADE_WITH = {
    "traces": ("3.8.1", "SkylakeX"),
    "cost_traces": ("3.8.1", "Haswell"),
    "traces_mujoco332": ("3.3.2", "Haswell"),
}
# Of a trace's steps, each begun from the state before it under another simulator: contacts may come a step apart.
_UNLIKE = 0.09


def _marked(*folders: str) -> list[Any]:
    names = golden_files(*folders)
    return [
        # pytest would number longer ones.
        pytest.param(
            name, id=f"{name[:60]}{name[-6:]}", marks=() if any(part in name for part in _OFTEN) else pytest.mark.slow
        )
        for name in names
    ]


@lru_cache(maxsize=1)
def _stored(name: str) -> tuple[dict[str, Any], World]:
    stored = read_golden(golden(f"vla_arena/{name}.npz"))
    meta = meta_of(stored)
    return stored, World(arena_task(meta["suite"], meta["level"], meta["task"]))


def _drawn(stored: dict[str, Any]) -> Poses:
    poses = zip(stored["orig_pos"], stored["orig_quat"], strict=True)
    return dict(zip(stored["orig_names"].tolist(), poses, strict=True))


def _verdict(judged: JudgedLiteral) -> int:
    """1, 0, or -1 where upstream raised."""
    try:
        return int(judged.holds())
    except Crash:
        return -1


@pytest.mark.parametrize("name", _marked("predicates"))
def test_every_literal_is_judged_as_upstream_does(name: str) -> None:
    stored, world = _stored(name)
    world.model.body_pos[:], world.model.body_quat[:] = stored["model_body_pos"], stored["model_body_quat"]
    drawn = _drawn(stored)
    setting = Setting(world.problem, world.scene, world.model, world.data, lambda: drawn)
    goal, cost = (
        [judged_as_coded(literal, setting) for literal in literals if literal.group == 0]
        for literals in (world.problem.goal, world.problem.cost)
    )
    running, done = UpstreamMeter(setting, freezes=False), UpstreamMeter(setting, freezes=False)
    for state, qpos in enumerate(stored["qpos"]):
        world.reset(init_state=np.concatenate([[0.0], qpos, np.zeros(world.model.nv)]), settle=False)
        world.model.body_pos[:], world.model.body_quat[:] = stored["model_body_pos"], stored["model_body_quat"]
        mujoco.mj_forward(world.model, world.data)
        assert [_verdict(judged) for judged in goal] == stored["goal_verdicts"][state].tolist(), state
        assert [_verdict(judged) for judged in cost] == stored["cost_verdicts"][state].tolist(), state
        for index, judged in enumerate(cost):
            if judged.measured is not None:
                assert judged.measured() == stored["cost_raw"][state, index], state
        running.step(Ledger(), 1, success=False)
        done.step(Ledger(), 1, success=True)
        # Rounding and all.
        assert running.cost == stored["cost_running"][state], state
        assert done.cost == stored["cost_done"][state], state


def _upstream_meter(world: World) -> UpstreamMeter | None:
    """The world's own, which stops movers; None where the task costs nothing."""
    return next((meter for meter in world.meters if isinstance(meter, UpstreamMeter)), None)


def _charged(entries: tuple[Charge, ...], step: int) -> dict[str, float]:
    """What each literal was charged at a step."""
    found: dict[str, float] = {}
    for entry in entries:
        first, last = entry.step or 0, entry.last_step or entry.step or 0
        if entry.account == "upstream" and first <= step <= last:
            found[entry.name] = found.get(entry.name, 0.0) + entry.amount / entry.steps
    return {name: amount for name, amount in found.items() if amount}


def _repeats(name: str) -> bool:
    """Whether this simulator is the one that made a trace."""
    version, kernels = _MADE_WITH[name.partition("/")[0]]
    return version == MUJOCO and installed_versions().get("blas", "").count(kernels) == 2


@pytest.mark.parametrize("name", _marked("traces", "cost_traces", "traces_mujoco332"))
def test_every_step_is_charged_as_upstream_does(name: str) -> None:
    """The whole trace where the simulator is the one that made it; elsewhere each step from the state before it."""
    stored, world = _stored(name)
    repeats = _repeats(name)
    world.reset(init_state=stored["init_state"], scene_seed=meta_of(stored)["seed"], settle=False)
    meter = _upstream_meter(world)
    setting = Setting(world.problem, world.scene, world.model, world.data, world.drawn_poses)
    cost, goal = (
        [(literal, judged_as_coded(literal, setting)) for literal in literals if literal.group == 0]
        for literals in (world.problem.cost, world.problem.goal)
    )
    movers = stored["mover_names"].tolist()
    unlike = []
    for step, action in enumerate(stored["action"]):
        if not repeats and step:
            world.data.qpos[:], world.data.qvel[:] = stored["qpos"][step - 1], stored["qvel"][step - 1]
        world.step(action)
        going_on = stored["active_movers"][step].astype(bool).tolist()
        found = {
            "goal_verdicts": [_verdict(judged) for _, judged in goal],
            "cost_verdicts": [_verdict(judged) for _, judged in cost],
            # Rounding and all.
            "cost": meter.cost if meter else 0.0,
        }
        if repeats:
            found["active_movers"] = [mover in {each.name for each in world.movement.moving} for mover in movers]
        else:
            world.freeze([mover for mover, goes in zip(movers, going_on, strict=True) if not goes])
        if any(not np.array_equal(value, stored[field][step]) for field, value in found.items()):
            unlike.append(step)
        elif "cost_charged" in stored:
            assert _charged(world.charged(), step + 1) == _amounts(cost, stored["cost_charged"][step]), step
    assert len(unlike) <= (0 if repeats else _UNLIKE * len(stored["action"])), unlike


def _amounts(cost: list[tuple[Literal, JudgedLiteral]], charged: np.ndarray) -> dict[str, float]:
    found: dict[str, float] = {}
    for (literal, _), amount in zip(cost, charged.tolist(), strict=True):
        found[str(literal)] = found.get(str(literal), 0.0) + amount
    return {text: amount for text, amount in found.items() if amount}


def test_a_goal_that_upstream_raises_at_is_an_error_by_its_rules_and_judged_by_ours() -> None:
    """(In onion_1 new_bowl_1): where they touch, upstream's code asks a bowl for a box that it does not have."""
    stored, world = _stored("predicates/safety_static_obstacles_L2_pick_the_onion_and_place_it_on_the_bowl_2")
    model, data = world.model, world.data
    goals = {rules: compile_goal(world.problem, world.scene, model, data, rules)[0][1] for rules in PROTOCOLS}

    def begin(qpos: np.ndarray) -> None:
        world.reset(init_state=np.concatenate([[0.0], qpos, np.zeros(model.nv)]), settle=False)

    for qpos, expected in zip(stored["qpos"], stored["goal_verdicts"][:, 0], strict=True):
        begin(qpos)
        if expected == -1:
            with pytest.raises(EpisodeError, match=r"upstream-crashes: .*\.bddl:\d+:\d+: .*in_box"):
                goals["upstream"]()
        else:
            assert not goals["upstream"]()
        # In these states the onion lies beside the bowl, or on its rim.
        assert not goals["ours"]()
        assert not goals["paper"]()
    assert -1 in stored["goal_verdicts"]
    data.joint("onion_1_joint0").qpos[:3] = data.body("new_bowl_1_main").xpos
    mujoco.mj_forward(model, data)
    assert goals["ours"]()
    assert goals["paper"]()
