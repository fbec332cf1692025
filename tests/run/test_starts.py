"""From how many starts episodes begin, known before any of them runs; and what is refused, or said, of the others."""

import dataclasses
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla import load_suite
from pytest_vla.errors import VlaError
from pytest_vla.plan.case import Case
from pytest_vla.run.preflight import (
    check_fits,
    check_starts,
    distinct_seeds,
    distinct_starts,
    repeated_seeds,
    starts_of,
)
from pytest_vla.run.selection import Selection
from tests.support.examples import scaled
from tests.support.settings import settings_of
from tests.support.worlds import libero_task

TABLETOP = load_suite("tabletop")
STOVE = TABLETOP.task("turn_on_the_stove")
STARTS = TABLETOP.protocol.init_states


def cases(*seeds: int, variation: str = "", suite: str = "tabletop", task: str = STOVE.name) -> tuple[Case, ...]:
    return tuple(Case(suite, task, seed, variation) for seed in seeds)


unset = partial(settings_of, model="p:policy")


def selection(found: tuple[Case, ...], **values: Any) -> Selection:
    return Selection(unset(**values), (), ("tabletop",), False, {"tabletop": found})


def test_a_suite_has_as_many_starts_as_its_files_have_init_states() -> None:
    assert {starts_of(task) for task in TABLETOP.tasks} == {STARTS}
    safety = load_suite("tabletop_safety")
    assert {starts_of(task) for task in safety.tasks} == {safety.protocol.init_states}
    own = dataclasses.replace(STOVE, world=lambda task, variation: None)  # type: ignore[arg-type, return-value]
    assert starts_of(own) is None, "of a world of its own nobody knows what the scene seed does"


def test_where_the_scene_seed_moves_fixtures_every_seed_is_a_start() -> None:
    assert starts_of(libero_task("libero_goal", "turn_on_the_stove")) is None
    still = libero_task("libero_object", "pick_up_the_milk_and_place_it_in_the_basket")
    assert (starts_of(still), distinct_seeds(still, (0, 50, 51))) == (50, (0, 51))


def test_a_pinned_init_state_is_one_start() -> None:
    pinned = dataclasses.replace(STOVE, protocol=dataclasses.replace(STOVE.protocol, init_state=0))
    assert starts_of(pinned) == 1


@settings(max_examples=scaled(50))
@given(st.lists(st.integers(0, 3 * STARTS), min_size=1, max_size=20, unique=True))
def test_seeds_of_one_start_are_one(seeds: list[int]) -> None:
    starts = len({seed % STARTS for seed in seeds})
    assert distinct_starts(cases(*seeds), unset()) == starts
    kept = distinct_seeds(STOVE, seeds)
    assert len(kept) == starts
    assert [*kept] == [
        seed for place, seed in enumerate(seeds) if seed % STARTS not in {s % STARTS for s in seeds[:place]}
    ]
    repeated = repeated_seeds({"tabletop": cases(*seeds)}, unset())
    assert sum(len(each.seeds) for each in repeated) == len(seeds) - starts


def test_what_a_variation_draws_is_another_start() -> None:
    far = STARTS + 3
    assert distinct_starts(cases(3, far, variation="light.diffuse-L2"), unset()) == 2
    assert distinct_starts(cases(3, far, variation="action.delay-L2"), unset()) == 1, "nothing is drawn"
    with_twins = (*cases(3, far, variation="light.diffuse-L2"), *cases(3, far))
    assert repeated_seeds({"tabletop": with_twins}, unset()) == (), "a benign twin may be another's"


def test_a_policy_that_does_not_draw_is_refused_seeds_that_repeat_a_start() -> None:
    again = selection(cases(0, 1, STARTS, STARTS + 1))
    with pytest.raises(
        VlaError, match=rf"tabletop has {STARTS} starts per task; seeds {STARTS}-{STARTS + 1} repeat them"
    ):
        check_starts(again, False)
    assert check_starts(again, True) == ()
    (told,) = check_starts(again, None)
    assert f"{STARTS}-{STARTS + 1}" in told
    nothing_new, told = check_starts(selection(cases(0, STARTS), run_seed=3), False)
    assert nothing_new.startswith("--vla-run-seed=3: ")
    assert str(STARTS) in told
    assert check_starts(selection(cases(0, 1, STARTS - 1)), False) == ()


def test_the_expert_is_refused_before_anything_is_loaded(pytester: pytest.Pytester) -> None:
    seeds = f"--vla-seeds=0,{STARTS},{2 * STARTS}"
    suite = ("--vla-suite=tabletop", f"--vla-tasks={STOVE.name}")
    refused = pytester.runpytest(*suite, seeds, "--vla-model=expert", "--vla-results", str(Path("results")))
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines([f"*tabletop has {STARTS} starts per task; seeds {STARTS},{2 * STARTS} repeat them*"])


def test_a_run_seed_adds_nothing_to_a_policy_that_says_that_it_does_not_draw(pytester: pytest.Pytester) -> None:
    """It is said before the first episode, of one that says so when it is loaded, too; and nothing of others."""
    note = (
        "--vla-run-seed=2: {} does not sample its actions, so its episodes repeat those of other run seeds and add no"
    )
    suite = ("--vla-suite=tabletop", f"--vla-tasks={STOVE.name}", "--vla-results=results", "-k", "nothing")
    result = pytester.runpytest(*suite, "--vla-model=expert", "--vla-run-seed=2")
    result.stdout.fnmatch_lines([f"vla: {note.format('expert')} observation"])
    for seed, draws, number in ((2, False, 1), (2, True, 0), (2, None, 0), (0, False, 0)):
        asked = selection(cases(0, 1), run_seed=seed, model="mine:policy")
        told = check_fits(SimpleNamespace(traits={} if draws is None else {"draws": draws}), asked, ["tabletop"])
        assert [each.startswith(note.format("mine:policy")) for each in told].count(True) == number


def test_what_an_own_server_follows_has_to_be_typed_on_a_suite_that_its_kind_has_an_evaluator_for() -> None:
    policy = SimpleNamespace(traits={}, served=object())
    openpi = "openpi:localhost:8000"
    for suite, options in (
        ("tabletop", {}),
        ("libero_goal", {"evaluator": "lerobot"}),
        ("libero_goal", {"evaluator": "ours"}),
    ):
        asked = dataclasses.replace(selection(cases(0)), settings=settings_of(model=openpi, **options))
        assert check_fits(policy, asked, [suite]) == ()
    asked = dataclasses.replace(selection(cases(0)), settings=settings_of(model=openpi))
    with pytest.raises(VlaError, match=r"--vla-evaluator=ours .*lerobot.* or openpi"):
        check_fits(policy, asked, ["libero_goal"])
    assert check_fits(SimpleNamespace(traits={}, served=None), asked, ["libero_goal"]) == ()
