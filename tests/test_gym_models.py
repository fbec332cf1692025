"""Suites of environments that hand out a MuJoCo model: what is guessed of it, and what variations do to it."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from pytest_vla import gym
from pytest_vla.episode.world_pool import WorldPool
from pytest_vla.errors import EpisodeError, RedrawError, UnfitError, VlaError
from pytest_vla.plan.case import Case
from pytest_vla.plan.manifests import Suite
from pytest_vla.plan.task import NEEDS_LIGHTS, PARTS, MujocoScene
from pytest_vla.show.variations import first_pictures
from pytest_vla.testing import check_kind, check_world
from pytest_vla.vary.registry import find_variation, kinds
from tests.support import table_arm
from tests.support.data import REPOSITORY
from tests.support.runs import digests, records_of

Run = Callable[..., pytest.RunResult]

LOOKS = (
    *("camera.distance-L3", "camera.azimuth-L3", "camera.elevation-L3", "camera.orientation-L3", "camera.narrower-L3"),
    *("camera.wider-L3", "light.diffuse-L3", "light.direction-L3", "light.specular-L3", "background.table-L3"),
    *("background.floor-L3", "background.theme-L3", "object.colour-L5", "object.texture-L5", "light.shadow-L5"),
)


def suite(**changes: Any) -> Suite:
    env = changes.pop("env", table_arm.make)
    return gym.suite("arm", env, instruction="turn the arm", image_size=(48, 64), **changes)


@pytest.fixture(scope="module")
def arm() -> Suite:
    return suite()


def test_the_parts_of_a_model_are_guessed(arm: Suite) -> None:
    assert arm.tasks[0].scene == MujocoScene(
        camera="front",
        views=("view",),
        middle=(0.1, 0.0, 0.0),
        lights=2,
        surfaces=(("table", ("#1",)), ("floor", ("ground",))),
        objects=("puck",),
        arm=("turn", "bend"),
        fixed=False,
    )
    assert all(arm.tasks[0].scene.has(part) for part in PARTS)
    check_world(arm.tasks[0])


def test_what_a_world_cannot_do_is_seen_from_a_step() -> None:
    late = suite(options={"lags": True}).tasks[0]
    assert late.scene is not None
    assert late.scene.lags
    # It is not drawn from its states, so that it keeps its contract.
    check_world(late)
    fixed = suite(env=table_arm.make_unobserved).tasks[0]
    misfits = {kind.name: kind.misfit(fixed) for kind in kinds()}
    assert "cannot observe it again" in misfits["robot.joints"]
    assert "cannot observe it again" in misfits["layout.displacement"]
    assert misfits["camera.azimuth"] == misfits["object.colour"] == ""


def test_a_guess_is_corrected(arm: Suite) -> None:
    given = {"objects": [], "arm": ["bend"], "surfaces": {"table": "table", "wall": ["gro*"]}}
    scene = suite(scene=given).tasks[0].scene
    assert arm.tasks[0].scene is not None
    surfaces = (("table", ("table",)), ("wall", ("gro*",)))
    assert scene == replace(arm.tasks[0].scene, objects=(), arm=("bend",), surfaces=surfaces)
    held = suite(options={"camera": "palm"}).tasks[0].scene
    assert held is not None
    # It moves with the hand.
    assert held.camera == ""


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"scene": {"camera": "top"}}, "the model has no camera 'top'; it has front, palm"),
        ({"scene": {"objects": ("cup",)}}, "the model has no body 'cup'; it has world, table, arm, hand, puck"),
        ({"scene": {"objects": ("hand",)}}, "the object 'hand' has no free joint"),
        ({"scene": {"arm": ("#9",)}}, "the model has no joint '#9'"),
        ({"scene": {"surfaces": {"sky": "ground"}}}, "surface 'sky'; expected table, floor, wall"),
        ({"scene": {"surfaces": {"floor": "grass*"}}}, "no geom and no body 'grass\\*' for the floor"),
        ({"scene": {"cameras": "front"}}, "scene has 'cameras'. Did you mean camera"),
        ({"options": {"copies": "shown"}}, "is another object each time it is shown"),
        ({"options": {"copies": "apart"}}, "a step leaves its MuJoCo data as it is"),
    ],
)
def test_a_scene_that_is_not_the_models_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(VlaError, match=complaint):
        suite(**changes)


@pytest.mark.parametrize("copies", ["always", "by seed"])
def test_what_is_made_anew_at_a_reset_is_what_is_varied(copies: str) -> None:
    task = suite(options={"copies": copies}).tasks[0]
    variation = find_variation(task, "robot.joints-L5", 0)
    assert variation is not None
    with closing(WorldPool(allow_versions=True)) as pool:
        pool(task).reset(0, 1)
        benign = pool(task).inner.mujoco()[1].qpos[:2].copy()
        pool(task, variation).reset(0, 1)
        assert np.abs(pool(task, variation).inner.mujoco()[1].qpos[:2] - benign).max() > 0.1
    check_world(task)


def test_a_sheet_shows_a_start_that_cannot_be_had(arm: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    task, pool = arm.tasks[0], WorldPool(allow_versions=True)
    case, variation = Case("arm", "arm", 0, "robot.joints-L5"), find_variation(arm.tasks[0], "robot.joints-L5", 0)
    monkeypatch.setattr("pytest_vla.episode.world_pool.start_elsewhere", Mock(side_effect=RedrawError("it is tied")))
    pictures, _, wrong = first_pictures(pool, task, case, variation, ["view"])
    assert (pictures, wrong) == (None, "cannot be had in 10 draws: it is tied")
    monkeypatch.setattr(pool(task).inner, "success", lambda: True)
    pictures, _, wrong = first_pictures(pool, task, replace(case, variation=""), None, ["view"])
    assert pictures is not None
    assert "the goal holds already" in wrong
    pool.close()


def test_each_kind_fits_or_says_what_is_missing(arm: Suite) -> None:
    task, fits = arm.tasks[0], set()
    for kind in kinds():
        if kind.misfit(task):
            with pytest.raises(UnfitError) as refused:
                find_variation(task, kind.labels()[0], 0)
            assert refused.value.reason == kind.misfit(task)
        else:
            fits.add(kind.name)
    assert {label.partition("-")[0] for label in LOOKS} <= fits
    assert {"robot.joints", "layout.displacement", "object.mass", "object.friction"} <= fits
    assert not {"layout.distractors", "object.size", "layout.removed"} & fits
    bare = replace(task, scene=MujocoScene())
    told = {kind.misfit(bare) for kind in kinds() if kind.name in fits and kind.needs}
    assert told == {
        f"it needs {part}, which the suite's scene does not have (gym.suite(..., scene=))" for part in PARTS
    }
    assert MujocoScene(lights=2).has(NEEDS_LIGHTS)
    assert not MujocoScene(lights=1).has(NEEDS_LIGHTS)
    assert not MujocoScene(lights=2, shadows=True).has(NEEDS_LIGHTS)


def pictures(task: Any, label: str, pool: WorldPool) -> Any:
    variation = find_variation(task, label, 0) if label else None
    return pool(task, variation).reset(0, 0)["view_image"].astype(int)


def test_looks_change_and_are_undone_at_the_next_reset(arm: Suite) -> None:
    task, pool = arm.tasks[0], WorldPool(allow_versions=True)
    own = pictures(task, "", pool)
    before = {name: getattr(pool(task).inner.mujoco()[0], name).copy() for name in ("cam_pos", "mat_rgba", "tex_data")}
    for label in LOOKS:
        assert np.abs(pictures(task, label, pool) - own).mean() > 0.05, label
        assert np.array_equal(pictures(task, "", pool), own), label
    model = pool(task).inner.mujoco()[0]
    assert all(np.array_equal(getattr(model, name), value) for name, value in before.items())
    pool.close()


def test_the_object_is_heavier_or_lighter_until_the_next_reset(arm: Suite) -> None:
    task, pool = arm.tasks[0], WorldPool(allow_versions=True)
    world = pool(task)
    world.reset(0, 0)
    model = world.inner.mujoco()[0]
    body, mass = model.body("puck").id, float(model.body("puck").mass[0])
    inverse = model.body_invweight0[body].copy()
    for seed in range(4):
        variation = find_variation(task, "object.mass-L5", seed)
        assert variation is not None
        pool(task, variation).reset(0, 0)
        factor = variation.parameters["factor"]
        assert factor in (3.0, pytest.approx(1 / 3, abs=1e-4))
        assert float(model.body_mass[body]) == pytest.approx(mass * factor)
        # MuJoCo's own constants go with it.
        assert model.body_invweight0[body] == pytest.approx(inverse / factor)
        pool(task).reset(0, 0)
        assert float(model.body_mass[body]) == mass
        assert np.array_equal(model.body_invweight0[body], inverse)
    friction = find_variation(task, "object.friction-L5", 0)
    assert friction is not None
    pool(task, friction).reset(0, 0)
    geom = int(model.body_geomadr[body])
    assert float(model.geom_friction[geom][0]) == pytest.approx(0.5 * friction.parameters["factor"])
    pool.close()


def test_an_arm_and_an_object_start_elsewhere_and_are_observed_there(arm: Suite) -> None:
    task, pool = arm.tasks[0], WorldPool(allow_versions=True)
    own = pool(task).reset(0, 0)
    joints, puck = own["joints"].copy(), own["puck"].copy()
    variation = find_variation(task, "robot.joints-L3", 0)
    assert variation is not None
    seen = pool(task, variation).reset(0, 0)
    assert seen["joints"] - joints == pytest.approx(variation.parameters["offset"])
    assert np.linalg.norm(variation.parameters["offset"]) == pytest.approx(0.3)
    moved = find_variation(task, "layout.displacement-L2", 1)
    assert moved is not None
    seen = pool(task, moved).reset(0, 0)
    assert np.linalg.norm((seen["puck"] - puck)[:2]) == pytest.approx(0.04, abs=1e-4)
    assert np.array_equal(pool(task).reset(0, 0)["puck"], puck)
    pool.close()


@pytest.mark.parametrize("raises", [False, True])
def test_an_unstable_simulation_is_an_error_of_the_episode(raises: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    world = WorldPool(True)(suite().tasks[0])
    world.reset(0, 0)
    inner: Any = world.inner
    step = inner._env.step

    def raising(action: np.ndarray) -> None:
        step(action)
        raise RuntimeError("physics state is invalid")

    if raises:
        monkeypatch.setattr(inner._env, "step", raising)
    inner.mujoco()[1].qfrc_applied[:] = 1e30
    with pytest.raises(EpisodeError) as raised:
        world.step(np.zeros(2))
    assert raised.value.reason == "physics-bad-acceleration"


def test_kinds_keep_their_contract_on_such_a_world(arm: Suite) -> None:
    for kind in kinds():
        if kind.name == "robot.joints":
            check_kind(kind, arm.tasks[0], seeds=(0,))


CONFTEST = f"""
    import sys

    sys.path.insert(0, {str(REPOSITORY)!r})

    from pytest_vla.entries import SuiteEntry
    from tests.support import table_arm

    def pytest_vla_suites():
        return [SuiteEntry("arm", "an arm", ":arm")]

    def arm():
        from pytest_vla import gym
        return gym.suite("arm", table_arm.make, instruction="turn the arm", image_size=(48, 64), seeds=(0,),
                         expert=turning)

    def turning(env):
        return lambda seen: [1.0, seen["puck"][2]]
"""


def test_it_is_varied_like_liberos_worlds(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(
        turn="def policy(episode):\n    return lambda seen: [1.0, seen['puck'][2]] + 0 * seen['view_image'].mean()"
    )
    vary = "--vla-vary=camera.azimuth:2,background.table:2,robot.joints:1,layout.displacement:1"
    base = ("--vla-suite=arm", "--vla-model=turn:policy", vary, "--vla-twins=auto")
    result = pytester.runpytest(*base, "--vla-video=all")
    result.assert_outcomes(passed=5)
    records = {record.case: record for record in records_of(pytester.path / ".vla")}
    assert len(records) == 5
    assert {record.outcome for record in records.values()} == {"success"}
    assert len({record.digest for record in records.values()}) == 3  # looks change no state
    assert "mujoco" in records["arm/arm[seed0]"].provenance
    # Videos are drawn from the states.
    assert len(list((pytester.path / ".vla").rglob("*.mp4"))) == 5
    once = digests(pytester.path / ".vla")
    again = pytester.runpytest(*base, "--vla-model=expert")
    again.assert_outcomes(passed=5)
    assert digests(pytester.path / ".vla") == once  # its expert does the same


def test_a_suite_that_no_longer_loads_stops_no_other(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(turn="def policy(episode):\n    return lambda seen: [1.0, seen['puck'][2]]")
    pytester.runpytest_subprocess("--vla-suite=arm", "--vla-model=turn:policy").assert_outcomes(passed=1)
    # Its time would tell how long the other one takes.
    other = CONFTEST.replace('"arm"', '"other"').replace("[SuiteEntry", '[SuiteEntry("arm", "", ":gone"), SuiteEntry')
    pytester.makeconftest(other + "\n    def gone():\n        raise ImportError('no more')\n")
    pytester.runpytest_subprocess("--vla-suite=other", "--vla-model=turn:policy").assert_outcomes(passed=1)


def test_the_expert_tries_another_mass_first(pytester: pytest.Pytester) -> None:
    # It is too weak for another puck than its own.
    weak = "return lambda seen: [float(abs(env.unwrapped.model.body('puck').mass[0] - 0.1) < 1e-9), 0.0]"
    pytester.makeconftest(CONFTEST.replace('return lambda seen: [1.0, seen["puck"][2]]', weak))
    pytester.makepyfile(turn="def policy(episode):\n    return lambda seen: [1.0, seen['puck'][2]]")
    vary = ("--vla-vary=object.mass:5,object.colour:5", "--vla-check-feasible")
    result = pytester.runpytest_subprocess("--vla-suite=arm", "--vla-model=turn:policy", *vary)
    result.assert_outcomes(passed=1, skipped=1)
    outcomes = {record.variation["kind"]: record.outcome for record in records_of(pytester.path / ".vla")}
    assert outcomes == {"mass": "invalid", "colour": "success"}
