"""A user's costs in environments that hand out a MuJoCo model and step it by themselves."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from pytest_vla import gym
from pytest_vla.episode.world_pool import OwnWorld, WorldPool
from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.costs import Charge
from pytest_vla.plan.task import Task
from pytest_vla.scene.cost_rules import Charging, read_costs
from tests.support import table_arm
from tests.support.data import REPOSITORY
from tests.support.runs import digests, records_of

STILL = np.zeros(2)


def arm(**changes: Any) -> Task:
    """Return a task whose scene has a gripper, if ``env`` is `table_arm.make_gripping`."""
    env = changes.pop("env", table_arm.make)
    return gym.suite("arm", env, instruction="turn the arm", image_size=(48, 64), **changes).tasks[0]


def rule(kind: str, **keys: Any) -> str:
    """Return a table of a file of costs, with the rule's kind as its name."""
    lines = (f"{key} = {value!r}\n" for key, value in ({"name": kind, "rule": kind} | keys).items())
    return "".join(("[[cost]]\n", *lines))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Callable[..., OwnWorld]]:
    """Gives the reset world of a task that is charged by some rules."""
    pools = []

    def begin(*rules: str, task: Task | None = None) -> OwnWorld:
        file = tmp_path / "costs.toml"
        file.write_text("".join(rules))
        pools.append(WorldPool(allow_versions=True, charging=Charging(declared=read_costs(file))))
        found: OwnWorld = pools[-1](task or arm())
        found.reset(0, 0)
        return found

    yield begin
    for pool in pools:
        pool.close()
    assert mujoco.get_mjcb_control() is None


def found(world: OwnWorld) -> list[Charge]:
    world.conclude()
    return [charge for charge in world.charged() if charge.amount]


def throw(world: OwnWorld, speed: float, distance: float) -> Any:
    """Let the puck fly toward the fist, which it bounces off, from this far away."""
    model, data = world.inner.mujoco()
    geom, puck = model.geom("disc").id, data.joint(model.body("puck").jntadr[0])
    model.geom_priority[geom], model.geom_solref[geom] = 1, (-3e5, 0.0)
    puck.qpos[:3] = data.geom("fist").xpos - np.array([0.0, 0.06 + distance, 0.0])
    puck.qvel[:] = [0.0, speed, 0.0, 0.0, 0.0, 0.0]
    return data


def test_a_knock_between_two_observations_is_charged(world: Callable[..., OwnWorld]) -> None:
    own = world(rule("touch", by="robot"))
    own.step(STILL)
    data = throw(own, 2.0, 0.03)
    own.step(STILL)
    pairs = {*map(frozenset, data.contact.geom.tolist())}
    fist, puck = (int(data.geom(name).id) for name in ("fist", "disc"))
    assert frozenset((fist, puck)) not in pairs, "it is over when the world is observed"
    (charge,) = found(own)
    assert (charge.name, charge.account, charge.kind, charge.amount) == ("touch", "declared", "instant", 1.0)
    assert (charge.step, charge.last_step, charge.bodies) == (2, None, ("robot", "puck"))
    assert charge.peak is not None
    assert charge.force is not None
    assert charge.impulse is not None
    assert charge.peak[0] == 2
    assert 5 < charge.peak[1] < 20
    assert charge.force > 10
    # It came at 2 m/s and weighs 0.1 kg.
    assert 0.2 < charge.impulse < 0.45


def test_forces_are_those_of_the_step_itself(world: Callable[..., OwnWorld]) -> None:
    own = world(rule("force", on="puck", above=0.0), rule("force", name="end", on="table", above=0.0, when="terminal"))
    for _ in range(20):
        own.step(STILL)
    model, data = own.inner.mujoco()
    wrench, pressing = np.zeros(6), 0.0
    for contact in range(data.ncon):
        # The environment has computed its last state to the end.
        mujoco.mj_contactForce(model, data, contact, wrench)
        pressing += wrench[0]
    during, end = found(own)
    weight = 0.1 * 9.81
    assert (during.step, during.last_step, during.bodies) == (1, 20, ("puck",))
    # The sum of a control step's substeps of 2 ms, over 20 steps.
    assert during.impulse == pytest.approx(weight * 20 * 0.05, rel=0.03)
    assert (end.kind, end.bodies, end.force) == ("terminal", ("table",), pressing)


def test_physics_is_the_same_with_and_without(world: Callable[..., OwnWorld]) -> None:
    rules = (
        rule("touch", by="robot"),
        rule("force", on="goal", above=0.0),
        rule("speed", of="arm", above=0.1),
        rule("tilt", of="puck", above=1.0),
        rule("joint", within=0.45),
    )
    both = world(*rules), WorldPool(allow_versions=True)(arm())
    both[1].reset(0, 0)
    generator = np.random.default_rng(0)
    for _ in range(30):
        action = generator.uniform(-1, 1, 2)
        for each in both:
            each.step(action)
        assert np.array_equal(both[0].data.qpos, both[1].data.qpos)
    assert {charge.name for charge in found(both[0])} >= {"force", "speed", "joint"}
    assert both[1].charged() == ()


@pytest.mark.parametrize(
    ("keys", "bodies"),
    [
        ({"by": "puck"}, {("puck", "table")}),
        ({"by": "goal", "things": ["tab*"]}, {("goal", "table")}),
        ({"by": "disc"}, {("disc", "table")}),
        ({"by": "PUCK", "except": ["table"]}, set()),
        ({"by": "#1"}, {("#1", "puck")}),
        ({"by": "table", "except": "goal"}, set()),
        ({"by": "floor"}, set()),
        ({"by": "puck", "things": "robot"}, set()),
    ],
)
def test_names_are_those_of_the_model(
    keys: dict[str, Any], bodies: set[tuple[str, ...]], world: Callable[..., OwnWorld]
) -> None:
    own = world(rule("touch", **keys))
    own.step(STILL)
    assert {charge.bodies for charge in found(own)} == bodies


def test_speed_tilt_and_joints(world: Callable[..., OwnWorld]) -> None:
    own = world(
        rule("speed", of="hand", above=0.05),
        rule("tilt", of="goal", above=30.0),
        rule("joint", within=0.1, of=["bend"]),
        rule("joint", name="any", within=0.0001),
    )
    own.step(STILL)
    _, data = own.inner.mujoco()
    assert found(own) == []
    own.reset(0, 0)
    data.joint("bend").qpos[:] = 0.59
    data.joint(1).qvel[:] = 1.0
    data.qpos[5:9] = np.cos(0.4), np.sin(0.4), 0.0, 0.0
    own.step(STILL)
    names = {charge.name: charge.bodies for charge in found(own)}
    assert names["tilt"] == ("puck",)
    assert names["joint"] == ("bend",)
    assert "any" not in names or names["any"] == ("bend",)


def test_what_fingers_hold_is_held(world: Callable[..., OwnWorld]) -> None:
    task = arm(env=table_arm.make_gripping, scene={"objects": ["puck"]})
    own = world(
        rule("touch", by="gripper", things="puck"), rule("touch", name="held", by="held", things="table"), task=task
    )
    model, data = own.inner.mujoco()
    data.joint(model.body("puck").jntadr[0]).qpos[:2] = data.body("hand").xpos[:2]
    for _ in range(4):
        own.step(STILL)
    charges = {charge.name: charge for charge in found(own)}
    assert charges["touch"].bodies == ("gripper", "puck")
    assert charges["held"].bodies == ("held", "table")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (rule("touch", by="pick"), "costs.toml:1: cost.0.: arm/arm: the model has nothing called 'pick'; it has arm,"),
        (rule("touch", by="pick"), "puck"),
        (rule("touch", by="held"), "'held' is not known: 0 bodies beyond the arm's joints"),
        (rule("speed", of="gripper", above=1.0), "'gripper' is not known"),
        (rule("tilt", of="disc", above=1.0), "the model has nothing called 'disc'"),
        (rule("joint", within=0.1, of=["twist"]), "'twist' is no joint with limits"),
        ('[[cost]]\nliteral = "(Fall puck)"\n', "costs.toml:1: .*a literal in CBDDL is about LIBERO's scenes"),
    ],
)
def test_what_the_model_lacks_is_an_error_or_skipped(text: str, complaint: str, world: Callable[..., OwnWorld]) -> None:
    with pytest.raises(VlaError, match=complaint):
        world(text)
    own = world(f'{text}missing = "skip"\n')
    own.step(STILL)
    assert own.charged() == ()


def test_a_scene_without_arm_or_objects_is_an_error(world: Callable[..., OwnWorld]) -> None:
    bare = arm(scene={"arm": [], "objects": []})
    for text, complaint in (
        (rule("touch", by="robot"), "the scene has no arm"),
        (rule("touch", by="goal"), "the scene has none"),
        (rule("dropped", of="puck", height=0.1), "'held' is not known|none of the scene's objects"),
        (rule("joint", within=0.1), "the arm has no joint with limits"),
    ):
        with pytest.raises(VlaError, match=complaint):
            world(text, task=bare)


def test_a_world_that_cannot_be_looked_at_is_an_error_of_the_episode(world: Callable[..., OwnWorld]) -> None:
    own = world(rule("touch", by="robot"))
    model, _ = own.inner.mujoco()
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_ACTUATION
    with pytest.raises(EpisodeError, match="in 1 of 25 physics steps") as raised:
        own.step(STILL)
    assert raised.value.reason == "world-protocol"


def test_the_worlds_own_callback_is_called_and_stays(world: Callable[..., OwnWorld]) -> None:
    own, calls = world(rule("touch", by="puck")), []

    def control(model: Any, data: Any) -> None:
        calls.append(data.time)

    mujoco.set_mjcb_control(control)
    try:
        own.step(STILL)
        assert mujoco.get_mjcb_control() is control
    finally:
        mujoco.set_mjcb_control(None)
    # Once in each of 25 steps, and in the environment's mj_forward.
    assert len(calls) == 26
    assert len(found(own)) == 1


@pytest.mark.parametrize("copies", ["always", "by seed"])
def test_a_model_that_is_made_anew_is_charged(copies: str, world: Callable[..., OwnWorld]) -> None:
    own = world(rule("touch", by="puck"), task=arm(options={"copies": copies}))
    for seed in (1, 2):
        own.reset(0, seed)
        own.step(STILL)
        assert [charge.bodies for charge in found(own)] == [("puck", "table")]


CONFTEST = f"""
    import sys

    sys.path.insert(0, {str(REPOSITORY)!r})

    from pytest_vla.entries import SuiteEntry
    from tests.support import table_arm

    def pytest_vla_suites():
        return [SuiteEntry("arm", "an arm", ":arm")]

    def arm():
        from pytest_vla import gym
        return gym.suite("arm", table_arm.make, instruction="turn the arm", image_size=(48, 64), seeds=(0,))
"""


def test_a_run_records_the_charges_and_nothing_else_changes(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(turn="def policy(episode):\n    return lambda seen: [1.0, 0.2]")
    base = ("--vla-suite=arm", "--vla-model=turn:policy")
    pytester.runpytest_subprocess(*base).assert_outcomes(passed=1)
    once = digests(pytester.path / ".vla")
    assert not any(record.costs for record in records_of(pytester.path / ".vla"))
    (pytester.path / "costs.toml").write_text(rule("joint", within=0.2) + rule("touch", by="robot"))
    pytester.runpytest_subprocess(*base, "--vla-cost-file=costs.toml", "--vla-results=charged").assert_outcomes(
        passed=1
    )
    assert digests(pytester.path / "charged") == once
    (record,) = records_of(pytester.path / "charged")
    assert {charge.name for charge in record.costs if charge.account == "declared"} == {"joint", "touch"}
    assert "declared_costs" in record.provenance
