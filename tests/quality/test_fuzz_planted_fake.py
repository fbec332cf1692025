"""Nine planted bugs on a world without a simulator: each is found within its budget, and shrunk to what was planted."""

import math
from statistics import median

import pytest

from pytest_vla.fuzz.shrink import MOST_EPISODES
from tests.support.planted_bugs import BUGS, evenly_met, params_of, search_for

pytestmark = pytest.mark.slow

SEEDS = range(10)

BUDGETS = {
    "a camera angle": 120,
    "a joint's angle": 120,
    "a band of camera distances": 120,
    "light from one side": 160,
    "a colour of the table": 140,
    "a word": 60,
    "an object behind": 160,
    "two at once": 400,
    "late among many objects": 120,
}
"""Episodes until a bug is known at its smallest, twins and shrinking among them, in the median over seeds."""

RARE = 0.02
"""Of scenes drawn evenly: of bugs that fewer meet, guidance needs `SHARE` of the scenes that even sampling does."""

SHARE = dict.fromkeys(BUGS, 1 / 3) | {
    "an object behind": 0.75,
    "a colour of the table": 0.6,
    "light from one side": 0.5,
}
"""Where an object stands and which colour a table has is drawn, and nothing tells that one came near: that there are
more objects and more of the colour in a scene is all that guidance does here."""


@pytest.fixture(scope="module")
def met() -> dict[str, float]:
    return evenly_met()


def test_budgets_are_of_all_bugs() -> None:
    assert BUDGETS.keys() == BUGS.keys()


@pytest.mark.parametrize("name", BUGS)
def test_it_is_found_at_its_smallest_within_its_budget(name: str, met: dict[str, float]) -> None:
    bug = BUGS[name]
    runs = [search_for(bug, seed, most=3 * BUDGETS[name]) for seed in SEEDS]
    assert median(run.episodes or math.inf for run in runs) <= BUDGETS[name]
    for run in (run for run in runs if run.found is not None):
        found = run.found
        assert found is not None
        assert frozenset(change.kind for change in found.shrunk.candidate.changes) in bug.causes
        assert bug.fails(params_of(found.shrunk.candidate))
        assert found.shrunk.tried <= MOST_EPISODES
        assert not found.is_flaky
        if bug.edge is not None and found.shrunk.complete:
            assert 0 < bug.edge(params_of(found.shrunk.candidate)) < 0.15
    if met[name] < RARE:
        # The median of how many scenes even sampling takes to the first that meets it.
        even = math.log(2) / -math.log1p(-met[name]) if met[name] else math.inf
        assert median(run.scenes or math.inf for run in runs) <= SHARE[name] * even
