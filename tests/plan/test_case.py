"""Cases, their ids, seeds and the selection of tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import Case, init_state_of, parse_node_id
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.select import narrow, plan, select_tasks
from pytest_vla.util.text import LAST_SEED, parse_seeds

STOVE = Case("libero_goal", "turn_on_the_stove", 0)
GOAL = load_suite("libero_goal")
NINETY = load_suite("libero_90")


def test_the_ids_of_a_case() -> None:
    assert STOVE.node_id == "libero_goal::test_episode[turn_on_the_stove-seed0]"
    assert STOVE.id == "libero_goal/turn_on_the_stove[seed0]"


@given(
    st.sampled_from([*GOAL.tasks, *NINETY.tasks]),
    st.integers(min_value=0, max_value=LAST_SEED),
)
def test_a_node_id_gives_its_case_back(task: object, seed: int) -> None:
    case = Case(task.suite, task.name, seed)  # type: ignore[attr-defined]
    assert parse_node_id(case.node_id) == case


@pytest.mark.parametrize(
    "text",
    [
        "libero_goal",
        "libero_goal::test_episode",
        "libero_goal::test_episode[turn_on_the_stove]",
        "libero_goal::test_episode[turn_on_the_stove-seed]",
        "libero_goal::test_episode[-seed1]",
        "libero_goal::test_other[turn_on_the_stove-seed0]",
        "tests/test_a.py::test_episode[turn_on_the_stove-seed0]",
        "libero_goal::test_episode[turn_on_the_stove-seed4294967296]",
    ],
)
def test_other_text_is_no_case(text: str) -> None:
    assert parse_node_id(text) is None


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("0", (0,)),
        ("0-3", (0, 1, 2, 3)),
        ("0,3,7", (0, 3, 7)),
        ("0-4,10", (0, 1, 2, 3, 4, 10)),
        ("7, 2-3 ,3", (7, 2, 3)),
        ("5-5", (5,)),
    ],
)
def test_seeds(text: str, seeds: tuple[int, ...]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "'' is no seed"),
        ("a", "'a' is no seed"),
        ("-1", "'-1' is no seed"),
        ("1,,2", "'' is no seed"),
        ("1-2-3", "'1-2-3' is no seed"),
        ("9-2", "write 2-9"),
        ("0-999999999", "more than 1000000 seeds"),
        ("4294967296", "4294967296 is beyond 4294967295, the last seed of a scene"),
        ("9" * 5000, "is no seed"),
        ("٣", "is no seed"),
    ],
)
def test_seeds_that_are_none(text: str, complaint: str) -> None:
    with pytest.raises(VlaError) as refused:
        parse_seeds(text)
    assert complaint in str(refused.value)


@given(st.text(max_size=20))
def test_any_text_is_seeds_or_refused(text: str) -> None:
    try:
        seeds = parse_seeds(text)
    except VlaError:
        return
    assert seeds
    assert len(set(seeds)) == len(seeds)
    assert min(seeds) >= 0


@given(st.lists(st.integers(min_value=0, max_value=10**4), min_size=1, max_size=30, unique=True))
def test_written_seeds_are_read_back(seeds: list[int]) -> None:
    assert parse_seeds(",".join(map(str, seeds))) == tuple(seeds)


def test_seed_s_starts_from_init_state_s_mod_n() -> None:
    assert [init_state_of(seed, 50) for seed in (0, 49, 50, 107)] == [0, 49, 0, 7]


def names(*patterns: str) -> list[str]:
    return [task.name for task in select_tasks([GOAL], patterns)]


def test_no_pattern_selects_all_in_upstreams_order() -> None:
    assert names() == [task.name for task in GOAL.tasks]


def test_a_full_name_selects_that_task_only() -> None:
    assert names("put_the_bowl_on_the_stove") == ["put_the_bowl_on_the_stove"]


def test_a_full_name_of_one_suite_does_not_select_its_extensions_in_another() -> None:
    extended = [task.name for task in NINETY.tasks if "turn_on_the_stove" in task.name]
    assert extended
    assert [task.name for task in select_tasks([GOAL, NINETY], ["turn_on_the_stove"])] == ["turn_on_the_stove"]
    assert [task.name for task in select_tasks([NINETY], ["turn_on_the_stove"])] == extended


def test_a_part_of_a_name_selects_every_task_with_it() -> None:
    assert names("STOVE") == [
        "put_the_bowl_on_the_stove",
        "push_the_plate_to_the_front_of_the_stove",
        "turn_on_the_stove",
    ]


def test_a_pattern_is_matched_whole() -> None:
    assert names("*stove") == names("stove")
    assert names("put_the_wine*") == ["put_the_wine_bottle_on_top_of_the_cabinet", "put_the_wine_bottle_on_the_rack"]
    with pytest.raises(VlaError):
        names("wine*")


def test_several_patterns_add_up_in_the_suites_order() -> None:
    assert names("turn_on_the_stove", "open_the_middle") == [
        "open_the_middle_drawer_of_the_cabinet",
        "turn_on_the_stove",
    ]


@pytest.mark.parametrize(
    ("pattern", "close"), [("turn_on_stove", "turn_on_the_stove"), ("stoev", "stove"), ("cabinett", "cabinet")]
)
def test_a_pattern_that_selects_nothing_is_refused_with_close_names(pattern: str, close: str) -> None:
    with pytest.raises(VlaError) as refused:
        names("bowl", pattern)
    assert f"no task of libero_goal is '{pattern}'" in str(refused.value)
    assert close in str(refused.value).partition("Did you mean")[2]


def test_the_plan_keeps_a_tasks_seeds_together() -> None:
    cases = plan([GOAL, load_suite("libero_object")], ["turn_on_the_stove", "milk"], (3, 1))
    milk = "pick_up_the_milk_and_place_it_in_the_basket"
    assert cases == (
        Case("libero_goal", "turn_on_the_stove", 3),
        Case("libero_goal", "turn_on_the_stove", 1),
        Case("libero_object", milk, 3),
        Case("libero_object", milk, 1),
    )


ARENA = load_suite("vla_arena_dynamic_obstacles")
LEMON = "push_the_lemon_to_the_region_between_the_teapots"


def keys(*patterns: str) -> list[str]:
    return [task.key for task in select_tasks([ARENA], patterns)]


def test_a_name_selects_its_task_at_every_level_and_with_a_level_only_there() -> None:
    assert keys(LEMON) == keys("lemon") == keys("push_the_l*") == [f"L{level}-{LEMON}" for level in range(3)]
    assert keys(f"l1-{LEMON}") == keys("L1-push_the_lemon") == [f"L1-{LEMON}"]
    assert len(keys("L1-*")) == 5


def test_a_plan_of_levels_leaves_suites_without_levels_out() -> None:
    cases = plan([GOAL, ARENA], ["lemon", "stove"], None, task_levels=("L0", "L2"))
    assert cases == tuple(Case(ARENA.name, LEMON, 0, task_level=level) for level in ("L0", "L2"))
    assert [case.task_level for case in narrow(cases, [], ("L2",))] == ["L2"]
    assert narrow(cases, ["L0-*"]) == cases[:1]
    with pytest.raises(VlaError, match="has level L7: their levels are L0, L1, L2"):
        plan([GOAL, ARENA], task_levels=("L7",))
    with pytest.raises(VlaError, match="of libero_goal has level L0: their tasks have no levels"):
        plan([GOAL], task_levels=("L0",))


def test_cases_of_one_name_at_two_levels_are_two() -> None:
    one, other = (Case(ARENA.name, LEMON, 0, "light.dim-L3", level) for level in ("L0", "L1"))
    assert len({case.id for case in (one, other)}) == len({case.node_id for case in (one, other)}) == 2
    assert one.id == f"{ARENA.name}/L0-{LEMON}[light.dim-L3-seed0]"
    assert one.twin == Case(ARENA.name, LEMON, 0, task_level="L0")
    assert parse_node_id(other.node_id) == other
