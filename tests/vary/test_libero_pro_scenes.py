"""LIBERO-PRO's scenes: sizes from model files, what has room, which of the 200 varied tasks run; one compiled."""

from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.scene.assets import data_roots
from pytest_vla.suite import load_suite
from pytest_vla.vary.kind import Draw
from pytest_vla.vary.libero_pro import swap
from pytest_vla.vary.libero_pro_choices import crowded, movable, own_environments, own_swaps, unfit
from pytest_vla.vary.libero_pro_coverage import SUITES, VARIED, coverage, main, summary
from pytest_vla.vary.libero_pro_edits import displaced, place_of, swapped
from pytest_vla.vary.libero_pro_models import body_of, known_categories, lacking
from pytest_vla.vary.problems import problem_of
from tests.support.data import data_root, needs_data


@pytest.fixture(autouse=True)
def _no_data_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_VLA_DATA", raising=False)


def test_a_model_file_tells_size_and_sites() -> None:
    roots = data_roots(None)
    bowl, cabinet = body_of("ceramic_bowl", roots), body_of("drawer_cabinet", roots)
    assert (bowl.radius, bowl.height) == pytest.approx((0.07, 0.056), abs=0.005)
    assert cabinet.sites == {"top_region", "middle_region", "bottom_region", "top_side"}
    assert cabinet.height > 0.2
    assert cabinet.kind.articulation is not None


def test_sizes_are_those_of_the_compiled_collision_geoms() -> None:
    import mujoco

    from pytest_vla.scene.cache import compiled_scene

    roots = data_roots(None)
    problem = problem_of(load_suite("tabletop").tasks[0])
    compiled = compiled_scene(problem, roots)
    model, data = compiled.model, mujoco.MjData(compiled.model)
    mujoco.mj_kinematics(model, data)
    for item in (*problem.fixtures, *problem.objects):
        found = compiled.scene.body(item.name)
        if found is None:
            continue
        root = model.body(found.root_body).id
        geoms = np.flatnonzero((model.body_rootid[model.geom_bodyid] == root) & (model.geom_contype != 0))
        centres = data.geom_xpos[geoms] - data.xpos[root]
        corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
        boxes = np.stack([_half(int(model.geom_type[geom]), model.geom_size[geom]) * corners for geom in geoms])
        points = centres[:, None] + np.einsum("gij,gcj->gci", data.geom_xmat[geoms].reshape(-1, 3, 3), boxes)
        body = body_of(item.category, roots)
        assert np.hypot(points[..., 0], points[..., 1]).max() == pytest.approx(body.radius, abs=0.01)
        assert np.ptp(points[..., 2]) == pytest.approx(body.height, abs=0.01)


def _half(shape: int, size: NDArray[np.float64]) -> NDArray[np.float64]:
    """Half sides of the box about a geom, by MuJoCo's number of its shape."""
    capsule, cylinder, box = 3, 5, 6
    assert shape in (capsule, cylinder, box)
    if shape == box:
        return size
    return np.array([size[0], size[0], size[1] + (size[0] if shape == capsule else 0.0)])


def test_what_is_lacking_is_told_and_costs_no_compilation(tmp_path: Path) -> None:
    roots = data_roots(None)
    assert lacking("food_box", roots) == ""
    assert lacking("yellow_stove", roots) == "no category yellow_stove"
    assert lacking("white_bottle", roots) == "no category white_bottle, not in LIBERO-PRO's code either"
    (tmp_path / "assets" / "objects" / "red_plate").mkdir(parents=True)
    (tmp_path / "assets" / "objects" / "red_plate" / "category.toml").write_text("")
    assert lacking("red_plate", data_roots(tmp_path)) == "no asset file of red_plate"
    assert set(known_categories(roots)) >= {"food_box", "drawer_cabinet"}


def test_what_the_task_asks_of_a_category_its_replacement_must_have() -> None:
    roots = data_roots(None)
    problem = problem_of(load_suite("tabletop").task("put_the_bottle_on_the_rack"))
    assert unfit(problem, "bottle_rack", "food_box", roots) == "food_box has no top_region"
    problem = problem_of(load_suite("tabletop").task("close_the_bottom_drawer_of_the_cabinet"))
    assert unfit(problem, "drawer_cabinet", "bottle_rack", roots) == "bottle_rack has no bottom_region"
    problem = problem_of(load_suite("tabletop").task("turn_on_the_stove"))
    assert unfit(problem, "electric_stove", "food_box", roots) == "food_box cannot be told to be turnon"
    assert unfit(problem, "food_box", "glass_bottle", roots) == ""


def test_room_ends_at_the_table_the_robot_and_the_next_thing() -> None:
    roots, problem = data_roots(None), problem_of(load_suite("tabletop").task("put_the_bowl_on_the_plate"))
    name = movable(problem)
    assert name == "bowl_1"
    reasons = {
        crowded(displaced(problem, name, x / 50, y / 50), name, roots)
        for x in range(-30, 31)
        for y in range(-30, 31)
        if x or y
    }
    assert {"it would leave main_table", "plate_1 is in its way", "stove_1 is in its way", ""} <= reasons
    beside = displaced(problem, "bottle_1", -0.15, 0.0)
    assert crowded(beside, "bottle_1", roots) == "it would stand in the robot"


@needs_data
def test_our_environments_hold_fixtures_where_their_surface_is() -> None:
    goal = load_suite("libero_goal", data=data_root()).tasks[0]
    assert own_environments(goal) == ("libero_kitchen_tabletop_manipulation",)
    milk = load_suite("libero_object", data=data_root()).task("pick_up_the_milk_and_place_it_in_the_basket")
    assert set(own_environments(milk)) <= {
        f"libero_{name}_manipulation" for name in ("tabletop", "kitchen_tabletop", "study_tabletop")
    }


def test_our_swaps_leave_room_for_what_is_swapped() -> None:
    roots = data_roots(None)
    for task in load_suite("tabletop").tasks:
        problem = problem_of(task)
        for seed in range(5):
            pairs = own_swaps(task, Draw(task, "pro.swap", seed).generator())
            changed = swapped(problem, pairs)
            assert [crowded(changed, name, roots) for pair in pairs for name in pair] == [""] * 2 * len(pairs)


def test_what_is_swapped_is_drawn_where_its_partner_stood() -> None:
    import mujoco

    from pytest_vla.scene.cache import compiled_scene
    from pytest_vla.scene.placement import draw_placement, plan_placement
    from pytest_vla.sim.placing import site_positions

    task = load_suite("tabletop").task("put_the_bowl_on_the_plate")
    before = problem_of(task)
    (edit,) = swap(Draw(task, "pro.swap", 0)).problem
    problem = edit(before)
    compiled = compiled_scene(problem, data_roots(None))
    positions = partial(site_positions, compiled.model, mujoco.MjData(compiled.model))
    (one, other) = edit.keywords["pairs"][0]  # type: ignore[attr-defined]
    regions = {region.key: region for region in problem.regions}
    for seed in range(5):
        placement = draw_placement(plan_placement(problem, compiled.scene), seed, positions)
        for name, former in ((one, other), (other, one)):
            x, y, _ = {**placement.objects, **placement.fixtures}[name][0]
            x0, y0, x1, y1 = regions[place_of(before, former) or ""].ranges[0]
            assert x0 - 1e-9 <= x <= x1 + 1e-9
            assert y0 - 1e-9 <= y <= y1 + 1e-9


@needs_data
def test_of_the_200_varied_tasks_those_that_upstreams_defects_stop_are_named() -> None:
    pytest.importorskip("yaml", reason="needs PyYAML")
    found = coverage(data_root())
    assert len(found) == 200
    assert Counter(each.kind for each in found) == dict.fromkeys(VARIED, 40)
    runs = Counter(each.kind for each in found if not each.reason)
    stopped = {kind: [each for each in found if each.kind == kind and each.reason] for kind in VARIED}
    assert (runs["pro.swap"], runs["pro.semantic"], runs["pro.task"], runs["pro.environment"]) == (40, 39, 37, 35)
    assert all(
        "has no " in each.reason or "no category" in each.reason or "of which" in each.reason
        for each in stopped["pro.object"]
    )
    assert [
        each.task for each in stopped["pro.object"] if "replaces milk, of which the scene has none" in each.reason
    ] == ["pick_up_the_orange_juice_and_place_it_in_the_basket"]
    assert sorted(each.task.partition("_SCENE")[0] for each in stopped["pro.environment"]) == ["LIVING_ROOM"] * 5
    assert all("it is that already: nothing would change" in each.reason for each in stopped["pro.environment"])
    assert sorted(each.task[:42] for each in stopped["pro.task"]) == [
        "KITCHEN_SCENE3_turn_on_the_stove_and_put_t",
        "pick_up_the_black_bowl_on_the_cookie_box_a",
        "pick_up_the_black_bowl_on_the_stove_and_pl",
    ]
    lines = summary(found)
    assert "pro.semantic: 39 of 40 run" in lines
    assert len(lines) == 5 + sum(map(len, stopped.values()))


@needs_data
def test_nothing_that_is_asked_of_coverage_is_unknown() -> None:
    with pytest.raises(VlaError, match=r"no kind is called pro.light; there are pro.object"):
        coverage(data_root(), kinds=["pro.light"])
    assert SUITES == ("libero_goal", "libero_spatial", "libero_10", "libero_object")


def test_the_command_says_what_is_wrong_with_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "0 of 200 run" in out
    assert f"{tmp_path}: --vla-data names a folder without assets/" in out
