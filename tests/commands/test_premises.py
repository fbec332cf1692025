"""Premises of real scenes after settling, and the tool that measures them."""

import re
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.cli import main
from pytest_vla.commands.premises import Settled, _tell, measured_text, ranges, settle_all, with_measured
from pytest_vla.plan.premises import PremiseFinding, PremiseMeasurement, _findings
from pytest_vla.scene.problem import parse_problem
from pytest_vla.util.text import parse_seeds
from pytest_vla.versions import DEFAULT, check_versions
from tests.support.data import libero_data
from tests.support.worlds import libero_task, tabletop, world_of

ON_RAMEKIN = "(on akita_black_bowl_1 glazed_rim_porcelain_ramekin_1)"
RAMEKIN = "pick_up_the_black_bowl_on_the_ramekin_and_place_it_on_the_plate"


def test_a_premise_relates_things_and_is_no_region_of_the_table() -> None:
    world = world_of("libero_spatial", RAMEKIN)
    world.reset(init_state=0)
    assert set(world.premises()) == {ON_RAMEKIN, "(on akita_black_bowl_2 cookies_1)"}
    drawer = tabletop("close_the_bottom_drawer_of_the_cabinet")
    drawer.reset(init_state=0)
    assert drawer.premises() == {"(open cabinet_1_bottom_region)": True}


def test_the_bowl_is_on_the_ramekin_under_the_default_version() -> None:
    if check_versions()["mujoco"] != DEFAULT["mujoco"]:
        pytest.skip("another version runs here")
    found = settle_all(libero_task("libero_spatial", RAMEKIN), count=3)
    assert found == Settled(RAMEKIN, (ON_RAMEKIN, "(on akita_black_bowl_2 cookies_1)"), {}, {}, {})


def test_what_is_lifted_off_is_not_on_it() -> None:
    world = world_of("libero_spatial", RAMEKIN)
    world.reset(init_state=0)
    state = world.init_states[0].copy()
    address = 1 + world.model.joint("akita_black_bowl_1_joint0").qposadr[0]
    state[address : address + 2] += 0.2
    world.reset(init_state=state)
    assert world.premises() == {ON_RAMEKIN: False, "(on akita_black_bowl_2 cookies_1)": True}


def test_every_init_literal_of_libero_that_is_a_premise_can_be_judged() -> None:
    """By name: 130 files have 42 relations of things or states of joints."""
    names = 0
    for path in (libero_data() / "bddl_files").glob("*/*.bddl"):
        problem = parse_problem(path)
        place = {item.name for item in problem.fixtures if item.category in ("table", "kitchen_table", "floor")}
        names += sum(
            literal.predicate not in ("on", "in")
            or (
                literal.arguments[0] in {item.name for item in problem.objects}
                and not any(str(literal.arguments[1]).startswith(name) for name in (*place, *_TABLES))
            )
            for literal in problem.init
        )
    assert names == 42


_TABLES = ("main_table", "kitchen_table", "living_room_table", "study_table", "coffee_table", "floor")


@given(st.sets(st.integers(0, 60)))
def test_ranges_are_read_back(numbers: set[int]) -> None:
    assert set(parse_seeds(ranges(numbers))) == numbers if numbers else ranges(numbers) == ""


_states = st.frozensets(st.integers(0, 49), min_size=1)
_found = st.dictionaries(st.sampled_from(["(on a_1 b_1)", "(open c_1)"]), _states, max_size=2)


@given(st.lists(st.builds(Settled, st.sampled_from("xy"), st.just(()), _found, _found, st.just({})), max_size=2))
def test_a_table_is_read_back_and_versions_replace_their_own(found: list[Settled]) -> None:
    found = list({each.task: each for each in found}.values())
    once = with_measured(PremiseMeasurement(), found, "3.3.7")
    both = with_measured(once, found, "3.8.1")
    for measured in (once, both):
        table = tomllib.loads(measured_text("any", measured))
        assert tuple(table["measured"]) == measured.versions
        for kind in ("false", "thrown"):
            assert set(_findings(table.get(kind, ()))) == set(getattr(measured, kind))
    again = with_measured(both, [], "3.3.7")
    assert {finding.mujoco for finding in (*again.false, *again.thrown)} <= {"3.8.1"}
    assert both.versions == ("3.3.7", "3.8.1")


@pytest.mark.slow
def test_the_tool_tells_what_does_not_hold(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["premises", "libero_goal", "--data", str(libero_data().parent), "--states", "1"]) == 0
    said = capfd.readouterr().out
    assert len(re.findall(r": (?:1 premise|(?!1 )\d+ premises)\n", said)) == 10
    assert "  fails: " not in said


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["no_suite"], "there is no suite 'no_suite'"),
        (["tabletop", "--write", "--states", "2"], "--write needs complete measurements"),
        (["tabletop", "--vary", "no.kind"], "no.kind"),
    ],
)
def test_slips_of_the_keyboard(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["premises", *arguments]) == 1
    assert complaint in capsys.readouterr().err


def test_findings_are_of_one_version_each() -> None:
    row = {"task": "a", "about": "b", "mujoco": ["1", "2"], "init_states": "0-2,7"}
    numbers = frozenset({0, 1, 2, 7})
    assert list(_findings([row])) == [PremiseFinding("a", "b", "1", numbers), PremiseFinding("a", "b", "2", numbers)]


def test_one_premise_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    for premises in (("(on a b)",), ("(on a b)", "(on c d)")):
        _tell("line", Settled("line", premises, {}, {}, {}))
    assert capsys.readouterr().out == "line: 1 premise\nline: 2 premises\n"
