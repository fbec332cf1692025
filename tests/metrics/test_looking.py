"""What probes tell of whether a policy looks: of made episodes whose answer is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.metrics.visual_grounding import (
    BLINDED,
    GONE,
    NEAR,
    PROBES,
    Looking,
    looked,
    path_distance,
    probe_of,
    vacated,
)
from pytest_vla.records.record import Record
from tests.support.looking import AT, ELSEWHERE, PLACE, HandPath, line, probe
from tests.support.varied import varied


class Episodes:
    """Records with the paths of their hands."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.paths: dict[tuple[str, int], HandPath] = {}

    def add(self, record: Record, path: HandPath | None = None) -> None:
        self.records.append(record)
        if path is not None:
            self.paths[record.case, int(record.seeds["run"])] = path

    def found(self) -> dict[str, Looking]:
        (model,) = looked(self.records, lambda record: self.paths.get((record.case, int(record.seeds["run"]))))
        return {each.probe: each for each in model.probes}


def without_object(goes: bool, n: int = 12) -> Looking:
    """Of a policy that goes to where the object would be, or elsewhere."""
    made = Episodes()
    for seed in range(n):
        made.add(varied("", True, seed=seed), line(np.array(PLACE) + 0.01 * np.sin(seed), wobble=0.002, seed=seed))
        end = np.array(PLACE) + 0.01 * np.sin(seed) if goes else np.array(ELSEWHERE)
        path = line(end, wobble=0.0005, seed=seed + 100)
        # It goes on until the limit, long after its twin was done.
        path = np.concatenate([path, np.tile(path[-1], (200, 1))])
        made.add(probe("removed", False, seed, metrics=AT), path)
    return made.found()[GONE]


def test_a_policy_that_goes_there_all_the_same_does_not_look() -> None:
    found = without_object(goes=True)
    assert (found.went.count, found.went.of) == (12, 12)
    assert (found.same.count, found.same.of) == (12, 12)
    assert found.went.interval is not None
    assert found.went.interval[0] > 0.5
    assert found.apart is not None
    assert found.usual is not None
    assert found.apart.value < found.usual
    assert (found.difference, found.blind.of) == (None, 0), "nobody could do the task"


def test_a_policy_that_goes_elsewhere_looks() -> None:
    found = without_object(goes=False)
    assert (found.went.count, found.same.count) == (0, 0)
    assert found.went.interval is not None
    assert found.went.interval[1] < 0.5
    assert found.apart is not None
    assert found.apart.value > 0.2


def test_black_pictures_are_told_apart_and_paired_with_their_twins() -> None:
    made = Episodes()
    for seed in range(20):
        made.add(varied("", seed < 16, seed=seed))
        made.add(probe("all", False, seed))
        made.add(probe("wrist", seed < 15, seed))
    found = made.found()
    assert list(found) == ["blackout, wrist", "blackout, all"]
    every, wrist = found["blackout, all"], found["blackout, wrist"]
    assert (every.pairs, every.right.count, every.blind.count, every.lost, every.gained) == (20, 16, 0, 16, 0)
    assert every.difference is not None
    assert every.difference.value == -0.8
    assert every.difference.interval is not None
    assert every.difference.interval[1] < 0
    assert wrist.difference is not None
    assert wrist.difference.interval is not None
    assert wrist.difference.interval[1] > 0
    assert every.apart is None, "without paths nothing is said of them"


def test_what_has_no_twin_or_broke_is_left_out_and_told() -> None:
    made = Episodes()
    made.add(varied("", True, seed=0))
    made.add(varied("", "error", seed=2))
    for seed, outcome in ((0, False), (1, False), (2, False), (3, "error")):
        made.add(probe("all", outcome, seed))
    (model,) = looked(made.records, lambda record: None)
    assert [each.pairs for each in model.probes] == [1]
    assert [note.split()[0] for note in model.left_out] == ["1", "2"]
    assert "error" in model.left_out[0]
    assert "--vla-twins=auto" in model.left_out[1]


def test_only_these_probes_are_taken() -> None:
    others = [varied("camera.azimuth-L1", True), varied("language.blank", False), varied("", True)]
    assert looked(others, lambda record: None) == ()
    assert [probe_of(each) for each in others] == [None] * 3
    assert probe_of(probe("third_person", False, 0)) == BLINDED[0]
    joint = probe("all", False, 0)
    joint.variation["kind"] = "blackout+words"  # type: ignore[index]
    assert probe_of(joint) is None


def test_without_another_benign_episode_of_the_task_no_path_is_the_usual_one() -> None:
    made = Episodes()
    made.add(varied("", True), line(PLACE))
    made.add(probe("removed", False, 0, metrics=AT), line(PLACE))
    found = made.found()[GONE]
    assert (found.usual, found.same.of, found.same.interval) == (None, 0, None)
    assert (found.went.count, found.went.of) == (1, 1)
    assert found.apart is not None
    assert (found.apart.value, found.apart.interval) == (0.0, None)


def test_where_its_twin_did_not_do_the_task_the_hand_went_nowhere_in_particular() -> None:
    made = Episodes()
    made.add(varied("", False), line(ELSEWHERE))
    made.add(probe("removed", False, 0, metrics=AT), line(PLACE))
    assert made.found()[GONE].went.of == 0


def test_another_run_seed_tells_the_policy_s_own_noise() -> None:
    made = Episodes()
    for run_seed in (0, 1):
        made.add(varied("", True, run_seed=run_seed), line(PLACE, wobble=0.01, seed=run_seed))
        made.add(probe("removed", False, 0, run_seed=run_seed, metrics=AT), line(PLACE, seed=run_seed))
    found = made.found()[GONE]
    assert found.pairs == 2
    assert found.noise is not None
    assert 0.0 < found.noise < 0.02


@given(st.integers(2, 120), st.floats(0, 0.2))
def test_paths_that_are_shifted_are_apart_by_as_much(rows: int, shift: float) -> None:
    path = line(PLACE, rows)
    across = path + np.array([0.0, 0.0, shift]) @ np.eye(3)
    assert path_distance(path, path) == 0.0
    assert path_distance(across, path) <= shift + 1e-12


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.floats(-0.3, 0.3)), min_size=1, max_size=8))
def test_any_episodes_give_shares_and_intervals_that_hold_them(rows: list[tuple[bool, bool, float]]) -> None:
    made = Episodes()
    for seed, (done, blind, offset) in enumerate(rows):
        made.add(varied("", done, seed=seed), line(np.array(PLACE) + offset))
        made.add(probe("all", blind, seed), line(np.array(PLACE) - offset))
        made.add(probe("removed", False, seed, metrics=AT), line(np.add(PLACE, [0.0, 0.0, offset])))
    found = made.found()
    assert set(found) <= set(PROBES)
    for each in found.values():
        for share in (each.right, each.blind, each.same, each.went):
            assert 0 <= share.count <= share.of <= each.pairs
            assert share.interval is None or share.interval[0] <= share.count / share.of <= share.interval[1]
        for estimate in (each.apart, each.difference):
            if estimate is not None and estimate.interval is not None:
                assert estimate.interval[0] - 1e-12 <= estimate.value <= estimate.interval[1] + 1e-12


def test_where_objects_would_be_stands_in_the_record() -> None:
    record = probe("removed", False, 0, metrics={**AT, "clipped_actions": 0.0})
    assert vacated(record) == (PLACE,)
    assert vacated(probe("all", False, 0)) == ()


@pytest.mark.parametrize(("beyond", "went"), [(0.0, 1), (NEAR - 0.002, 1), (NEAR + 0.002, 0)])
def test_a_hand_went_there_that_came_nearly_as_near_as_its_twin_s(beyond: float, went: int) -> None:
    made = Episodes()
    made.add(varied("", True), line(np.add(PLACE, [0.0, 0.0, 0.05])))
    made.add(probe("removed", False, 0, metrics=AT), line(np.add(PLACE, [0.0, 0.0, 0.05 + beyond])))
    assert (made.found()[GONE].went.count, made.found()[GONE].went.of) == (went, 1)
