"""Where a search has been: amounts in bins, kinds and pairs that nobody tried."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.proposals import fuzzed_kinds
from pytest_vla.fuzz.sampler import EVEN, FORESEEN
from pytest_vla.fuzz.shares import BINS, SHARE, Axis, Coverage, amount_of, axis_of
from pytest_vla.plan.manifests import load_suite
from pytest_vla.vary.chosen import Change
from pytest_vla.vary.registry import kind_named
from pytest_vla.vary.space import Parameter

TASK = load_suite("tabletop").task("put_the_bowl_on_the_stove")
SPACES = {kind.name: kind.space(TASK) for kind in fuzzed_kinds(TASK, ("camera", "light", "action", "language"))}


def scene(**params: float) -> Candidate:
    kinds = {"azimuth_deg": "camera.azimuth", "turn_deg": "light.direction", "steps": "action.delay"}
    return Candidate(TASK, 0, tuple(Change(kinds[name], {name: value}) for name, value in params.items()))


def test_every_kind_that_has_a_number_has_an_axis() -> None:
    axes = {kind.name: axis_of(kind.space(TASK)) for kind in fuzzed_kinds(TASK)}
    assert {name for name, axis in axes.items() if axis is None} == {
        "language.paraphrase",
        "language.words",
        "layout.distractors",
    }
    azimuth, delay, joints = (axes[name] for name in ("camera.azimuth", "action.delay", "robot.joints"))
    assert azimuth == Axis("azimuth_deg", "deg", 0.0, tuple(float(15 * place - 75) for place in range(11)))
    assert delay == Axis("steps", "control steps", 0, (0.5, 1.5, 2.5, 3.5, 4.5, 5.5), True), "0 steps are no change"
    assert joints is not None
    assert (joints.name, joints.edges[0], joints.edges[-1], len(joints.edges)) == (SHARE, 0.0, 1.0, BINS + 1)
    params = {"offset": [0.0, 0.1, 0.0, -0.25, 0.0, 0.0, 0.0]}
    assert amount_of(joints, kind_named("robot.joints").space(TASK), params) == 0.5


@given(st.floats(-1e3, 1e3), st.floats(0.1, 1e3), st.integers(1, 20), st.floats(0, 1), st.sampled_from(["low", "high"]))
def test_a_value_is_in_the_bin_between_its_edges(low: float, size: float, bins: int, share: float, benign: str) -> None:
    high = low + size
    axis = axis_of((Parameter("x", low=low, high=high, benign=low if benign == "low" else high),), bins)
    assert axis is not None
    assert (axis.edges[0], axis.edges[-1], len(axis.edges)) == (low, high, bins + 1)
    value = min(low + share * size, high)
    place = axis.bin_of(value)
    assert axis.edges[place] <= value
    assert value < axis.edges[place + 1] or (value == high and place == bins - 1)
    assert (axis.bin_of(low - 1), axis.bin_of(high + 1)) == (0, bins - 1)


def test_scenes_are_counted_by_kind_amount_and_pair() -> None:
    coverage = Coverage(SPACES)
    coverage.count(scene(azimuth_deg=-75.0), EVEN, "fails")
    coverage.count(scene(azimuth_deg=75.0, turn_deg=59.0), EVEN, "passes")
    coverage.count(scene(azimuth_deg=70.0, steps=3), FORESEEN, "aside")
    azimuth = coverage.kinds["camera.azimuth"]
    assert (azimuth.even.tried, azimuth.even.failed, azimuth.even.aside, azimuth.even.counted) == (2, 1, 0, 2)
    assert (azimuth.guided.tried, azimuth.guided.aside, azimuth.tried, azimuth.aside) == (1, 1, 3, 1)
    assert [each.tried for each in coverage.bins["camera.azimuth"]] == [1, 0, 0, 0, 0, 0, 0, 0, 0, 2]
    assert [each.guided.tried for each in coverage.bins["action.delay"]] == [0, 0, 1, 0, 0]
    assert coverage.pairs["camera", "camera"].tried == 3
    assert coverage.pairs["light", "camera"].tried == 1
    assert set(coverage.untried_pairs) == {
        ("light", "language"), ("light", "action"), ("camera", "language"), ("language", "action")
    }  # fmt: skip
    assert set(coverage.untried_kinds) == set(SPACES) - {"camera.azimuth", "light.direction", "action.delay"}


@pytest.mark.parametrize("bins", [1, 2, 4])
def test_few_bins_are_even_ones(bins: int) -> None:
    axis = axis_of(SPACES["camera.azimuth"], bins)
    assert axis is not None
    assert axis.edges == (*(-75 + 150 * place / bins for place in range(bins)), 75)
