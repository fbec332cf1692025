"""The archive: a scene for each kind of behaviour, the nearest to failing; seldom chosen ones come first."""

from collections import Counter
from random import Random

from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.sampler import GOAL_PARTS, Archive, BehaviourCell, cell_of
from pytest_vla.plan.manifests import load_suite
from pytest_vla.vary.chosen import change_of

TASK = load_suite("tabletop").task("put_the_bowl_on_the_stove")
AZIMUTH = Candidate(TASK, 0, (change_of("camera.azimuth", {"azimuth_deg": 20.0}),))
BOTH = Candidate(TASK, 0, (*AZIMUTH.changes, change_of("action.delay", {"steps": 2})))


def test_cells_tell_what_is_changed_what_comes_of_it_and_how_far_the_goal_got() -> None:
    assert cell_of(BOTH, "passes", (("(on a b)", True),)) == BehaviourCell(("action", "camera"), "passes")
    halfway = cell_of(AZIMUTH, "fails", (("(on a b)", False), ("(open c)", True)))
    assert halfway == BehaviourCell(("camera",), "fails", ("(on a b)",), GOAL_PARTS // 2)
    assert cell_of(AZIMUTH, "fails", (("(on a b)", True), ("(open c)", False))) != halfway


def test_the_nearest_of_a_cell_is_kept_and_of_equal_ones_that_with_fewer_changes() -> None:
    archive = Archive()
    cell = BehaviourCell(("camera",), "fails")
    archive.add(cell, BOTH, 0.5)
    archive.add(cell, AZIMUTH, 0.5)
    assert archive.cells[cell].candidate == AZIMUTH
    archive.add(cell, BOTH, 0.5)
    assert archive.cells[cell].candidate == AZIMUTH
    archive.add(cell, BOTH, 0.6)
    assert archive.cells[cell].candidate == BOTH
    assert archive.cells[cell].trials == 4


def test_all_cells_come_in_turn_but_what_cannot_be_done() -> None:
    archive = Archive()
    assert archive.choose(Random(0)) is None
    scenes = [AZIMUTH.having((change_of("camera.azimuth", {"azimuth_deg": float(each)}),)) for each in range(1, 5)]
    for place, scene in enumerate(scenes):
        outcome = "aside" if place == 3 else "passes"
        archive.add(BehaviourCell((f"dimension_{place}",), outcome), scene, 0.2)  # type: ignore[arg-type]
    generator = Random(1)
    counts = Counter(scenes.index(chosen) for _ in range(60) if (chosen := archive.choose(generator)) is not None)
    assert counts.keys() == {0, 1, 2}
    assert all(15 <= number <= 25 for number in counts.values())
