"""Algorithm 1 against upstream's recomputed numbers, and what it cannot tell, named."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pytest_vla.metrics.dtw import POINTS
from pytest_vla.metrics.failure_types import (
    THRESHOLDS,
    Algorithm,
    FailureTypes,
    cut,
    distances_to,
    failure_types,
    is_static,
    reference_of,
)
from tests.support.data import golden
from tests.support.examples import scaled

Path = NDArray[np.float64]


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(golden("dtw_near_far_synthetic.json").read_text())
    return table


def paths_of(published: dict[str, Any]) -> tuple[list[Path], list[Path]]:
    return [np.array(p) for p in published["successes"]], [np.array(f["traj"]) for f in published["failures"]]


def line(end: tuple[float, float, float], n: int = 60, rest: int = 0, seed: int = 0, noise: float = 0.002) -> Path:
    """From the origin straight to `end` in n steps, then there for some more; with noise, m."""
    path = np.linspace((0.0, 0.0, 0.0), end, n)
    path = np.concatenate([path, np.repeat(path[-1:], rest, axis=0)])
    return path + np.random.default_rng(seed).normal(scale=noise, size=path.shape)


GOAL = (0.3, 0.0, -0.2)
SUCCESSES = [line(GOAL, n, seed=n) for n in range(50, 66, 2)]


def typed(*failures: Path, successes: list[Path] = SUCCESSES) -> FailureTypes:
    return failure_types(successes, failures, "exact")


@pytest.mark.parametrize(
    ("variant", "algorithm", "over"), [("exact_raw", "exact", 1), ("fastdtw_r1_over_K", "fastdtw", POINTS)]
)
def test_the_published_case_is_reproduced(
    published: dict[str, Any], variant: str, algorithm: Algorithm, over: int
) -> None:
    """By fastdtw it is published as a share of the number of points."""
    if algorithm == "fastdtw":
        pytest.importorskip("fastdtw")
    expected = published["d"][variant]
    found = failure_types(*paths_of(published), algorithm)
    assert found.undefined is None
    assert found.reference is not None
    assert found.judgement is not None
    assert found.reference.longest == published["L_max"]
    # The file has eight decimals of it.
    np.testing.assert_allclose(found.reference.mean_path, published["GT"], rtol=0, atol=5.1e-9)
    np.testing.assert_allclose(np.divide(found.judgement.successes, over), expected["success"], rtol=1e-13)
    np.testing.assert_allclose(np.divide(found.judgement.failures, over), expected["fail"], rtol=1e-13)
    for name in THRESHOLDS:
        assert found.judgement.thresholds[name] / over == pytest.approx(expected[f"tau_{name}"], rel=1e-13)
    assert list(found.judgement.levels["max"]) == [label.lower() for label in expected["labels_max"]]
    assert found.differing == ()


def test_what_the_published_case_s_labels_hide_is_named(published: dict[str, Any]) -> None:
    remarks = failure_types(*paths_of(published), "exact").remarks
    assert dict(zip([failure["kind"] for failure in published["failures"]], remarks, strict=True)) == {
        "near_then_hover_to_300": None,
        "near_but_slow_300": "slow",
        "near_short_reach": "slow",
        "far_other": None,
        "static": "static",
        "late_divergence": "diverges-late",
    }


def test_near_and_far() -> None:
    found = typed(line(GOAL, 60, 200, noise=0.001), line((0.0, 0.4, 0.0), 60, 200))
    assert found.judgement is not None
    assert found.judgement.levels["max"] == ("near", "far")
    assert found.remarks == (None, None)


def test_a_lower_threshold_takes_no_failure_in() -> None:
    wide = [line((0.3, 0.01 * y, -0.2), 60, seed=5 + y) for y in range(-5, 6)]
    failures = [line((0.3, 0.001 * y, -0.2), 60, seed=100 + y) for y in range(70)]
    judgement = typed(*failures, successes=wide).judgement
    assert judgement is not None
    near = [sum(level == "near" for level in judgement.levels[name]) for name in THRESHOLDS]
    assert near == sorted(near, reverse=True)
    assert near[0] > near[-1] > 0
    taus = [judgement.thresholds[name] for name in THRESHOLDS]
    assert taus == sorted(taus, reverse=True)
    assert taus[0] == max(judgement.successes)


def test_without_success_nothing_is_labelled() -> None:
    found = typed(line(GOAL), np.zeros((300, 3)), successes=[])
    assert (found.undefined, found.reference, found.judgement, found.exact) == ("no-success", None, None, None)
    assert found.remarks == (None, "static")
    assert found.differing == ()


def test_one_success_is_no_threshold() -> None:
    found = typed(line(GOAL), successes=SUCCESSES[:1])
    assert (found.undefined, found.judgement) == ("one-success", None)
    assert found.reference is not None


def test_without_failures_there_are_thresholds_all_the_same() -> None:
    found = typed()
    assert found.judgement is not None
    assert found.judgement.levels["max"] == ()
    assert found.judgement.thresholds["max"] > 0


def test_a_static_robot_counts_as_far_and_is_named() -> None:
    at_rest = np.random.default_rng(0).normal(scale=0.003, size=(300, 3))
    found = typed(at_rest)
    assert found.judgement is not None
    assert found.judgement.levels["max"] == ("far",)
    assert found.remarks == ("static",)
    assert not is_static(line((0.03, 0.0, 0.0)))


def test_a_slow_one_counts_as_far_and_is_named() -> None:
    found = typed(line(GOAL, 300))
    assert found.judgement is not None
    assert found.judgement.levels["max"] == ("far",)
    assert found.remarks == ("slow",)


def test_where_it_goes_after_the_longest_success_is_named() -> None:
    there = line(GOAL, 60, 5, noise=0.001)
    away = np.concatenate([there, there[-1] + np.linspace((0, 0, 0), (0.0, 0.3, 0.1), 100)])
    found = typed(there, away)
    assert found.judgement is not None
    assert found.judgement.levels["max"] == ("near", "near")
    assert found.remarks == (None, "diverges-late")


def test_fastdtw_s_labels_count_and_those_that_differ_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fastdtw that finds twice the distance for the far away only: its threshold is the exact one."""
    from pytest_vla.metrics import failure_types as module
    from pytest_vla.metrics.dtw import Warping, exact_dtw

    reference = reference_of(SUCCESSES)
    between = next(
        path
        for path in (line((0.3, 0.001 * y, -0.2), 60, seed=5) for y in range(200))
        if not distance_of(path) <= 0.7 * max(distance_of(success) for success in SUCCESSES)
    )

    def coarse(paths: Path, other: Path) -> Warping:
        exact = exact_dtw(paths, other)
        ours = np.array([np.array_equal(path, cut(between, reference)) for path in paths])
        return Warping(np.where(ours, 2 * exact.distances, exact.distances), exact.lengths)

    monkeypatch.setattr(module, "fast_dtw", coarse)
    found = failure_types(SUCCESSES, [line(GOAL, seed=6), between], "fastdtw")
    assert found.judgement is not None
    assert found.exact is not None
    assert (found.judgement.algorithm, found.exact.algorithm) == ("fastdtw", "exact")
    assert found.judgement.levels["max"][1] == "far"
    assert found.exact.levels["max"][1] == "near"
    assert found.differing == (1,)


def distance_of(path: Path) -> float:
    from pytest_vla.metrics.dtw import exact_dtw

    reference = reference_of(SUCCESSES)
    return float(exact_dtw(cut(path, reference)[None], reference.mean_path).distances[0])


def test_distances_to_a_path_are_to_its_lines_and_not_its_corners() -> None:
    corners = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    found = distances_to(corners, np.array([[0.5, 0.2, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 0.3]]))
    np.testing.assert_allclose(found, [0.2, 1.0, 0.3], atol=0.01)


@pytest.mark.parametrize("bad", [np.zeros((0, 3)), np.full((5, 3), np.inf)])
def test_a_path_that_is_none(bad: Path) -> None:
    with pytest.raises(ValueError, match="finite"):
        typed(bad)
    with pytest.raises(ValueError, match="finite"):
        typed(line(GOAL), successes=[*SUCCESSES, bad])
    with pytest.raises(ValueError, match="at least one success"):
        reference_of([])


@settings(max_examples=scaled(40))
@given(st.integers(0, 2**32 - 1), st.floats(-1, 1), st.floats(0.1, 3))
def test_labels_do_not_depend_on_where_the_table_stands_or_on_the_order(seed: int, shift: float, scale: float) -> None:
    generator = np.random.default_rng(seed)
    successes = [line(GOAL, int(n), seed=seed + i) for i, n in enumerate(generator.integers(40, 80, 5))]
    failures = [line(tuple(generator.uniform(-0.3, 0.3, 3)), 60, 60, seed=seed + 9 + i) for i in range(4)]
    found = typed(*failures, successes=successes)
    moved = typed(*(shift + path for path in failures[::-1]), successes=[shift + path for path in successes[::-1]])
    assert found.judgement is not None
    assert moved.judgement is not None
    np.testing.assert_allclose(moved.judgement.failures[::-1], found.judgement.failures, rtol=1e-9)
    larger = typed(*(scale * path for path in failures), successes=[scale * path for path in successes])
    assert larger.judgement is not None
    np.testing.assert_allclose(larger.judgement.failures, scale * np.array(found.judgement.failures), rtol=1e-9)
