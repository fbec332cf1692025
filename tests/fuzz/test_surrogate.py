"""The surrogate: a Gaussian process whose kernel is what its docstring says, and learns single and joint causes."""

import itertools
from random import Random

import numpy as np
import pytest

from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.proposals import fuzzed_kinds, propose
from pytest_vla.fuzz.sampler import MOST_ROWS, Row, Surrogate, row_of
from pytest_vla.plan.manifests import load_suite
from pytest_vla.vary.chosen import change_of

TASK = load_suite("tabletop").task("put_the_bowl_on_the_stove")
KINDS = fuzzed_kinds(TASK)
SPACES = {kind.name: kind.space(TASK) for kind in KINDS}


def drawn(number: int, seed: int = 0) -> list[Candidate]:
    generator = Random(seed)
    return [propose(TASK, 0, KINDS, generator) for _ in range(number)]


def alike(first: Row, second: Row, name: str) -> float:
    if name not in first or name not in second:
        return 0.0
    apart = float(np.square(first[name] - second[name]).sum())
    return float(np.exp(-apart / (2 * 0.4**2 * max(len(first[name]), 1))))


def by_definition(first: Row, second: Row) -> float:
    """The additive kernel of first and second degree, by its sum over kinds and over pairs of them."""
    single = [alike(first, second, name) for name in SPACES]
    return 0.1 * sum(single) + 0.1 * sum(one * other for one, other in itertools.combinations(single, 2))


def test_it_is_the_gaussian_process_of_its_kernel() -> None:
    rows = [row_of(each, SPACES) for each in drawn(25)]
    asked = [row_of(each, SPACES) for each in drawn(6, 1)]
    seen = [Random(place).random() for place in range(len(rows))]
    surrogate = Surrogate()
    for row, value in zip(rows, seen, strict=True):
        surrogate.add(row, value)
    expected, spread = surrogate.foreseen(asked)
    within = np.array([[by_definition(one, other) for other in rows] for one in rows]) + 0.02 * np.eye(len(rows))
    across = np.array([[by_definition(one, other) for other in rows] for one in asked])
    own = np.array([by_definition(one, one) for one in asked])
    mean = np.mean(seen)
    assert expected == pytest.approx(mean + across @ np.linalg.solve(within, np.array(seen) - mean))
    variance = own - np.einsum("ij,ji->i", across, np.linalg.solve(within, across.T))
    assert spread == pytest.approx(np.sqrt(variance))


@pytest.mark.parametrize("joint", [False, True])
def test_it_learns_what_breaks_a_policy(joint: bool) -> None:
    """Of scenes that it never saw those that fail are expected to be nearer to failing."""

    def fails(candidate: Candidate) -> bool:
        params = {change.kind: change.params for change in candidate.changes}
        bad = params.get("camera.azimuth", {}).get("azimuth_deg", 0) > 20
        return bool(bad and (not joint or params.get("light.direction", {}).get("turn_deg", 0) > 20))

    def scene(generator: Random) -> Candidate:
        azimuth = change_of("camera.azimuth", {"azimuth_deg": generator.uniform(-75, 75)})
        turn = change_of("light.direction", {"turn_deg": generator.uniform(0, 60), "heading_deg": 10.0})
        return Candidate(TASK, 0, (azimuth, turn))

    generator = Random(4)
    surrogate = Surrogate()
    for _ in range(80):
        one = scene(generator)
        surrogate.add(row_of(one, SPACES), float(fails(one)))
    others = [scene(generator) for _ in range(80)]
    expected, _ = surrogate.foreseen([row_of(each, SPACES) for each in others])
    truth = np.array([fails(each) for each in others])
    assert ((expected > 0.5) == truth).mean() > 0.85


def test_it_keeps_so_many_scenes_and_those_near_failing_among_them() -> None:
    scenes = drawn(40)
    surrogate = Surrogate()
    for number in range(3 * MOST_ROWS):
        surrogate.add(row_of(scenes[number % 40], SPACES), 1.0 if number == 5 else 0.1)
        assert len(surrogate) <= MOST_ROWS
    expected, _ = surrogate.foreseen([row_of(scenes[5], SPACES), row_of(scenes[6], SPACES)])
    assert expected[0] > expected[1]


def test_of_nothing_nothing_is_foreseen() -> None:
    with pytest.raises(ValueError, match="nothing was tried"):
        Surrogate().foreseen([row_of(drawn(1)[0], SPACES)])


def test_every_scene_of_every_kind_is_a_row_of_finite_numbers() -> None:
    lengths: dict[str, set[int]] = {}
    for candidate in drawn(200, 3):
        row = row_of(candidate, SPACES)
        assert row.keys() == {change.kind for change in candidate.changes}
        for name, numbers in row.items():
            assert np.isfinite(numbers).all()
            assert (np.abs(numbers) <= 1 + 1e-6).all(), name
            lengths.setdefault(name, set()).add(len(numbers))
    assert all(len(each) == 1 for each in lengths.values()), "a kind has as many numbers whatever is drawn"
