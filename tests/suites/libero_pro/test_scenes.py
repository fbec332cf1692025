"""LIBERO-PRO's scenes: sizes from model files, what has room, which of the 200 varied tasks run; one compiled."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_vla.cli import main
from pytest_vla.errors import RedrawError, VlaError
from pytest_vla.plan.data_roots import data_roots
from pytest_vla.plan.manifests import Suite, load_suite
from pytest_vla.scene.problem import problem_of
from pytest_vla.sim.world import World
from pytest_vla.suites.libero_pro.bodies import body_of, crowded, known_categories, lacking
from pytest_vla.suites.libero_pro.choices import movable, own_environments, own_swaps, unfit
from pytest_vla.suites.libero_pro.coverage import LOW_TABLE, SUITES, VARIED, Covered, coverage, summary
from pytest_vla.suites.libero_pro.edits import displaced, place_of, swapped
from pytest_vla.suites.libero_pro.variations import KINDS
from pytest_vla.vary.kind import Draw
from tests.support.data import data_root, needs_data


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
    assert unfit(problem, "electric_stove", "food_box", roots) == "food_box cannot be asked to be turnon"
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
    from pytest_vla.sim.start_states import site_positions

    task = load_suite("tabletop").task("put_the_bowl_on_the_plate")
    before = problem_of(task)
    swap = next(kind for kind in KINDS if kind.name == "pro.swap")
    (edit,) = swap.make(Draw(task, "pro.swap", 0)).problem
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
    assert (runs["pro.swap"], runs["pro.semantic"], runs["pro.task"], runs["pro.environment_upstream"]) == (
        40,
        39,
        37,
        35,
    )
    assert all(
        any(text in each.reason for text in ("has no ", "no category", "which the scene does not have"))
        for each in stopped["pro.object"]
    )
    assert [
        each.task for each in stopped["pro.object"] if "replaces milk, which the scene does not have" in each.reason
    ] == ["pick_up_the_orange_juice_and_place_it_in_the_basket"]
    assert (
        sorted(each.task.partition("_SCENE")[0] for each in stopped["pro.environment_upstream"]) == ["LIVING_ROOM"] * 5
    )
    assert all(
        "it is that already: nothing would change" in each.reason for each in stopped["pro.environment_upstream"]
    )
    assert sorted(each.task[:42] for each in stopped["pro.task"]) == [
        "KITCHEN_SCENE3_turn_on_the_stove_and_put_t",
        "pick_up_the_black_bowl_on_the_cookie_box_a",
        "pick_up_the_black_bowl_on_the_stove_and_pl",
    ]
    lines = summary(found)
    assert "pro.semantic: 39 of 40 can be made" in lines
    assert lines[-1] == "154 of 200 can be made"
    assert not any(" run" in line for line in lines if not line.startswith("  "))
    assert len(lines) == 6 + sum(map(len, stopped.values()))


def only(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Has coverage try these tasks of a suite alone."""

    def suite_of(name: str, data: Path | None) -> Suite:
        suite = load_suite(name, data=data)
        return replace(suite, tasks=tuple(suite.task(name) for name in names))

    monkeypatch.setattr("pytest_vla.suites.libero_pro.coverage.load_suite", suite_of)


@pytest.mark.slow
@needs_data
def test_what_can_be_made_but_comes_to_no_rest_is_told_with_upstreams_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("yaml", reason="needs PyYAML")
    bowl = "pick_up_the_black_bowl_{}_and_place_it_on_the_plate".format
    only(monkeypatch, bowl("on_the_ramekin"), bowl("next_to_the_ramekin"))
    told: list[Covered] = []
    environment = partial(coverage, data_root(), suites=["libero_spatial"], kinds=["pro.environment_upstream"])
    assert [each.reason for each in environment()] == ["", ""]
    found = environment(compile=True, tell=told.append)
    assert told == list(found)
    stopped, runs = found
    assert (runs.reason, runs.cause) == ("", "")
    assert "12x akita_black_bowl_1_main tilts" in stopped.reason
    assert stopped.cause == LOW_TABLE
    assert summary(found, compile=True) == (
        "pro.environment_upstream: 1 of 2 run",
        f"  libero_spatial/{stopped.task}: {stopped.reason}",
        f"  1 of these do not settle: {LOW_TABLE}",
        "1 of 2 run",
    )


def test_coverage_draws_again_as_an_episode_does(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_vla.sim import start_states as starts
    from pytest_vla.vary.kind import MOST_DRAWS

    def late(world: World, index: int) -> starts.Start:
        tried.append(world.variation.parameters if world.variation else {})
        if len(tried) < most:
            raise RedrawError(f"draw {len(tried)} comes to no rest")
        return settled(world, index)

    settled, most = starts.settled_start, 3
    tried: list[Mapping[str, Any]] = []
    monkeypatch.setattr(starts, "settled_start", late)
    swaps = partial(coverage, None, suites=["tabletop"], kinds=["pro.swap"], compile=True)
    only(monkeypatch, "put_the_bowl_on_the_plate")
    assert [each.reason for each in swaps()] == [""]
    assert len(tried) == 3
    tried.clear()
    most = MOST_DRAWS + 1
    (found,) = swaps()
    assert found.reason == f"draw {MOST_DRAWS} comes to no rest (the last of {MOST_DRAWS} draws)"
    assert found.cause == ""
    assert len(tried) == MOST_DRAWS
    assert len({str(parameters) for parameters in tried}) > 1


@needs_data
def test_nothing_that_is_asked_of_coverage_is_unknown() -> None:
    with pytest.raises(VlaError, match=r"there is no kind pro.light; the kinds are pro.object"):
        coverage(data_root(), kinds=["pro.light"])
    assert SUITES == ("libero_goal", "libero_spatial", "libero_10", "libero_object")


def test_the_command_says_what_is_wrong_with_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["coverage", "--data", str(tmp_path)]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"pytest-vla: {tmp_path}: --vla-data names a folder without assets/")
    assert len(told.err.splitlines()) == 1
    assert main(["coverage", "--data", str(tmp_path / "gone")]) == 1
    gone = f"pytest-vla: {tmp_path / 'gone'}: --vla-data names a folder that does not exist"
    assert capsys.readouterr().err.startswith(gone)


def test_the_command_needs_one_of_the_suites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bddl_files").mkdir()
    assert main(["coverage", "--data", str(tmp_path)]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    lacking = "bddl_files/libero_goal/open_the_middle_drawer_of_the_cabinet.bddl: not found"
    assert told.err.startswith(f"pytest-vla: {lacking}")
    assert len(told.err.splitlines()) == 1


@needs_data
def test_the_command_says_that_without_compiling_it_tells_what_can_be_made(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("yaml", reason="needs PyYAML")
    assert main(["coverage", "--data", str(data_root())]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    *_, total, hint = told.out.splitlines()
    assert total == "154 of 200 can be made"
    assert hint == "Scenes were not compiled. Use --compile to check that they settle."
