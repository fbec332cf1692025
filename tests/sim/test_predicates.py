"""Goal literals that cannot be judged are refused when the world is made; verdicts are tested in tests/parity."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest

from pytest_vla.errors import SceneError
from pytest_vla.scene.catalog import CATEGORIES, category
from pytest_vla.scene.problem import parse_problem_text
from pytest_vla.sim.predicates import compile_premises, contact_between
from pytest_vla.sim.verdicts import compile_goal
from tests.support.data import libero_data
from tests.support.worlds import world_of

_GOAL = "(And (Turnon flat_stove_1))"
_ON_RAMEKIN = "pick_up_the_black_bowl_on_the_ramekin_and_place_it_on_the_plate"


def _compile(goal: str) -> tuple[tuple[str, object], ...]:
    text = (libero_data() / "bddl_files" / "libero_goal" / "turn_on_the_stove.bddl").read_text()
    assert _GOAL in text
    world = world_of("libero_goal", "turn_on_the_stove")
    problem = parse_problem_text(text.replace(_GOAL, goal), source="goal.bddl")
    return compile_goal(problem, world.scene, world.model, world.data)


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ("(And (In plate_1 akita_black_bowl_1))", "'akita_black_bowl_1' is not a region"),
        ("(And (Open plate_1))", "a plate has no joint with such a state"),
        ("(And (Turnon wooden_cabinet_1))", "a wooden_cabinet has no joint with such a state"),
        ("(And (Open main_table_plate_region))", "'main_table_plate_region' is no fixture, object or part of one"),
        ("(And (InContact plate_1 akita_black_bowl_1))", "cannot be a goal of LIBERO's tasks"),
    ],
)
def test_a_literal_that_cannot_be_judged_is_located(goal: str, message: str) -> None:
    with pytest.raises(SceneError, match=rf"goal\.bddl:\d+:\d+: .*{message}"):
        _compile(goal)


def test_literals_keep_their_order_and_only_the_first_expression_counts() -> None:
    names = [name for name, _ in _compile("(And (On plate_1 akita_black_bowl_1) (Open wooden_cabinet_1_top_region))")]
    assert names == ["(on plate_1 akita_black_bowl_1)", "(open wooden_cabinet_1_top_region)"]


def test_what_is_poured_is_no_premise() -> None:
    """A ball of water has no geom that counts as contact: that it is on something is never true."""
    world = world_of("libero_spatial", _ON_RAMEKIN)
    premises = compile_premises(world.problem, world.scene, world.model, world.data)
    assert "(on akita_black_bowl_1 glazed_rim_porcelain_ramekin_1)" in dict(premises)
    bowl = world.scene.body("akita_black_bowl_1")
    assert bowl is not None
    poured = (replace(body, contact_geoms=()) if body == bowl else body for body in world.scene.bodies)
    scene = replace(world.scene, bodies=tuple(poured))
    found = compile_premises(world.problem, scene, world.model, world.data)
    assert dict(found).keys() == dict(premises).keys() - {"(on akita_black_bowl_1 glazed_rim_porcelain_ramekin_1)"}


def test_contact_counts_in_either_order_and_for_named_geoms_only() -> None:
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><geom name='floor' type='plane' size='1 1 .1'/>"
        "<body pos='0 0 .09'><freejoint/><geom name='ball' size='.1'/></body>"
        "<body pos='.15 0 .09'><freejoint/><geom name='other' size='.1'/></body>"
        "<body pos='0 5 5'><freejoint/><geom name='far' size='.1'/></body></worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    touching = contact_between(model, data, ("ball",), ("floor", "far"))
    assert not touching()
    mujoco.mj_forward(model, data)
    assert data.ncon == 3
    assert touching()
    assert contact_between(model, data, ("floor",), ("ball",))()
    assert contact_between(model, data, ("other",), ("ball",))()
    assert not contact_between(model, data, ("far",), ("ball", "floor", "other"))()
    assert not contact_between(model, data, (), ("ball",))()


@pytest.mark.parametrize(
    ("name", "state", "threshold", "inside", "at_threshold"),
    [
        # spec/libero.md A3: strict beyond the threshold, but `turnon` counts the threshold itself.
        ("microwave", "is_open", -1.3, -1.301, False),
        ("microwave", "is_close", -0.005, -0.0049, False),
        ("wooden_cabinet", "is_open", -0.14, -0.1401, False),
        ("white_cabinet", "is_close", 0.0, 1e-9, False),
        ("short_cabinet", "is_open", 0.10, 0.101, False),
        ("short_cabinet", "is_close", 0.0, -1e-9, False),
        ("short_fridge", "is_open", 2.0, 2.01, False),
        ("short_fridge", "is_close", 0.0, -1e-9, False),
        ("flat_stove", "is_turned_on", 0.5, 0.51, True),
        ("flat_stove", "is_turned_off", 0.0, -1e-9, False),
    ],
)
def test_articulation_thresholds(name: str, state: str, threshold: float, inside: float, at_threshold: bool) -> None:
    test = getattr(CATEGORIES[name].articulation, state)
    assert test(inside)
    assert test(threshold) is at_threshold
    assert not test(2 * threshold - inside)


def test_unknown_categories_get_a_hint() -> None:
    with pytest.raises(
        SceneError, match=r"^f\.bddl:3:4: unknown category 'akita_bowl'\. Did you mean akita_black_bowl"
    ):
        category("akita_bowl", "f.bddl:3:4")
    with pytest.raises(SceneError, match="Known: akita_black_bowl, "):
        category("zzzzz", "f.bddl:3:4")


def test_every_libero_category_is_known() -> None:
    from pytest_vla.scene.problem import parse_problem
    from pytest_vla.scene.workspaces import workspace

    used = set()
    for path in (libero_data() / "bddl_files").glob("*/*.bddl"):
        problem = parse_problem(path)
        place = workspace(problem.name, problem.source)
        used |= {item.category for item in (*problem.fixtures, *problem.objects)} - {place.category}
    assert used <= CATEGORIES.keys()
    assert len(used) == 26 + 12 - 5
    for name in used:
        assert (libero_data() / "assets" / CATEGORIES[name].model).is_file(), name
    assert np.isfinite(
        [angle for entry in CATEGORIES.values() for _, *angles in entry.rotations for angle in angles]
    ).all()
