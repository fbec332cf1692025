"""Drawn poses on real scenes; their equality with upstream's draws is in tests/parity."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_vla.errors import SceneError
from pytest_vla.plan.data_roots import data_roots
from pytest_vla.scene import placement
from pytest_vla.scene.compose import compose
from pytest_vla.scene.placement import PlacementPlan, draw_placement, plan_placement
from pytest_vla.scene.problem import parse_problem_text
from pytest_vla.scene.scene import SceneSpec
from tests.support.data import data_root, libero_data
from tests.support.examples import scaled

_GOAL = "libero_goal/turn_on_the_stove.bddl"


def _scene(name: str = _GOAL) -> tuple[str, SceneSpec]:
    text = (libero_data() / "bddl_files" / name).read_text()
    return text, compose(parse_problem_text(text), data_roots(data_root())).scene


@pytest.fixture(scope="module")
def plan() -> PlacementPlan:
    text, scene = _scene()
    return plan_placement(parse_problem_text(text), scene)


def _no_sites(_: object) -> object:
    def position(name: str) -> np.ndarray:
        raise AssertionError(f"this scene places nothing on a site, but {name} was asked for")

    return position


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=scaled(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_a_seed_fixes_the_scene_and_bodies_lie_in_their_regions(plan: PlacementPlan, seed: int) -> None:
    state = np.random.get_state()[1].copy()
    first = draw_placement(plan, seed, _no_sites)  # type: ignore[arg-type]
    again = draw_placement(plan, seed, _no_sites)  # type: ignore[arg-type]
    assert np.array_equal(np.random.get_state()[1], state), "the global generator was used"
    assert first.fixtures.keys() == {"wooden_cabinet_1", "flat_stove_1", "wine_rack_1"}
    assert first.objects.keys() == {"wine_bottle_1", "akita_black_bowl_1", "plate_1", "cream_cheese_1"}
    for poses, others in ((first.fixtures, again.fixtures), (first.objects, again.objects)):
        for name, (position, quaternion) in poses.items():
            assert np.array_equal(position, others[name][0])
            assert np.linalg.norm(quaternion) == pytest.approx(1)
    for placer in plan.placers:
        if placer.body.is_fixture:
            x0, y0, x1, y1 = placer.rectangles[0]
            x, y, _ = first.fixtures[placer.body.name][0]
            assert x0 <= x <= x1
            assert y0 <= y <= y1


def test_seeds_differ(plan: PlacementPlan) -> None:
    poses = {draw_placement(plan, seed, _no_sites).fixtures["flat_stove_1"][0].tobytes() for seed in range(20)}  # type: ignore[arg-type]
    assert len(poses) == 20


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "(On plate_1 main_table_plate_region)",
            "(On plate_1 main_table_plate_region) (On plate_1 main_table_stove_region)",
            r"scene\.bddl:\d+:\d+: 'plate_1' is placed twice",
        ),
        ("(On plate_1 main_table_plate_region)", "(Open plate_1)", "'plate_1' has no joint with such a state"),
        (
            "(On plate_1 main_table_plate_region)",
            "(On plate_1 flat_stove_1)",
            "'plate_1' cannot be placed: 'flat_stove_1' is neither an object nor a region",
        ),
        (
            "(On flat_stove_1 main_table_stove_region)",
            "(On flat_stove_1 wooden_cabinet_1_top_side)",
            "fixture 'flat_stove_1' can only be placed on the workspace",
        ),
        (
            "(On akita_black_bowl_1 main_table_akita_black_bowl_region)",
            "(On akita_black_bowl_1 plate_1) (On wine_bottle_1 akita_black_bowl_1)",
            r"is placed twice|is placed relative to",
        ),
    ],
)
def test_what_cannot_be_placed_is_located(old: str, new: str, message: str) -> None:
    text, scene = _scene()
    assert old in text
    problem = parse_problem_text(text.replace(old, new), source="scene.bddl")
    with pytest.raises(SceneError, match=message):
        plan_placement(problem, scene)


def test_a_region_without_room_ends_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of all tries of all resets each ends alike.
    monkeypatch.setattr(placement, "_TRIES", 200)
    text, scene = _scene()
    region = text.split("(plate_region")[1].split("(:ranges (")[1].split(")")[0].split("(")[1]
    bowl = text.split("(akita_black_bowl_region")[1].split("(:ranges (")[1].split(")")[0].split("(")[1]
    problem = parse_problem_text(text.replace(bowl, region))
    plan = plan_placement(problem, scene)
    with pytest.raises(SceneError, match="no placement without overlap in 100 resets of scene seed 3"):
        draw_placement(plan, 3, _no_sites)  # type: ignore[arg-type]
