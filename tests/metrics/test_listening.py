"""The listening score on made policies: one that ignores the text, one that listens, and what lies between."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from pytest_vla.metrics.dtw import POINTS
from pytest_vla.metrics.language_grounding import PROBES, GroundingEpisode, Listening, Probe, Twins, listening
from tests.support.examples import scaled

Path = NDArray[np.float64]


def walk(generator: np.random.Generator, end: tuple[float, float, float], noise: float = 0.01) -> Path:
    return np.linspace((0.0, 0.0, 0.0), end, 80) + generator.normal(scale=noise, size=(80, 3))


GOAL, ELSEWHERE = (0.3, 0.2, 0.1), (-0.2, 0.3, 0.0)


def ignoring(n: int, seed: int = 0) -> list[Twins]:
    """Does the task in four of five episodes, whatever it is told."""
    g = np.random.default_rng(seed)

    def run() -> GroundingEpisode:
        return GroundingEpisode(bool(g.random() < 0.8), walk(g, GOAL))

    return [Twins(run(), {probe: run() for probe in PROBES}, run()) for _ in range(n)]


def attentive(n: int, seed: int = 0) -> list[Twins]:
    """Does what it is told: the task, the other task; nothing without words."""
    g = np.random.default_rng(seed)
    still = np.zeros((80, 3))
    return [
        Twins(
            GroundingEpisode(bool(g.random() < 0.8), walk(g, GOAL, 0.001)),
            {
                "nonsense": GroundingEpisode(False, still),
                "other_task": GroundingEpisode(False, walk(g, ELSEWHERE, 0.001), followed=True),
                "blank": GroundingEpisode(False, still),
            },
            GroundingEpisode(True, walk(g, GOAL, 0.001)),
        )
        for _ in range(n)
    ]


def breaking(n: int, seed: int = 0) -> list[Twins]:
    """Does the task where it is told so, and nothing where the text is any other."""
    g = np.random.default_rng(seed)
    still = np.zeros((80, 3))
    other = GroundingEpisode(False, still, followed=False)
    return [
        Twins(
            GroundingEpisode(bool(g.random() < 0.8), walk(g, GOAL)),
            {"nonsense": GroundingEpisode(False, still), "other_task": other},
        )
        for _ in range(n)
    ]


def listened(twins: list[Twins]) -> tuple[Listening, dict[Probe, Listening]]:
    overall, each = listening(twins)
    return overall, dict(each)


def pair(right: bool, probe: bool) -> Twins:
    return Twins(GroundingEpisode(right), {"blank": GroundingEpisode(probe)})


def test_a_policy_that_ignores_the_text_has_score_0() -> None:
    overall, each = listened(ignoring(200))
    for found in (overall, *each.values()):
        assert found.score is not None
        assert found.path_score is not None
        for estimate in (found.score, found.path_score):
            assert abs(estimate.value) < 0.1
            assert estimate.interval is not None
            assert estimate.interval[0] < 0 < estimate.interval[1]
    assert overall.verdict == "not determined", "nobody looked at what it did instead"
    told = [Twins(run.right, {"other_task": GroundingEpisode(True, followed=False)}) for run in ignoring(200)]
    assert listened(told)[0].verdict == "ignores"


def test_a_policy_that_any_other_text_breaks_does_not_listen() -> None:
    """It loses all of its success without the right text, as one does that listens."""
    overall, each = listened(breaking(50))
    attending, _ = listened(attentive(50))
    assert overall.score is not None
    assert attending.score is not None
    assert overall.score.value == attending.score.value == 1
    assert (each["other_task"].followed.count, overall.verdict, attending.verdict) == (0, "breaks", "listens")
    assert listened(breaking(4))[0].verdict == "not determined", "four episodes are none"


def test_a_policy_that_listens_has_score_1() -> None:
    overall, each = listened(attentive(50))
    for found in (overall, *each.values()):
        assert found.score is not None
        assert found.path_score is not None
        assert found.score.value == 1.0
        assert found.path_score.value > 0.98
        assert found.gained == 0
    assert (each["other_task"].followed.count, each["other_task"].followed.of) == (50, 50)
    assert each["blank"].followed.interval is None


def test_a_policy_that_listens_to_half_of_its_success_has_score_a_half() -> None:
    twins = [pair(True, i % 2 == 0) for i in range(400)]
    overall, _ = listened(twins)
    assert overall.score is not None
    assert overall.score.value == 0.5
    assert overall.score.interval == pytest.approx((0.45, 0.55), abs=0.015)
    assert (overall.lost, overall.gained) == (200, 0)


def test_counts_and_rates_by_hand() -> None:
    twins = [pair(True, True), pair(True, False), pair(True, False), pair(False, True), pair(False, False)]
    overall, each = listened(twins)
    assert each == {"blank": overall}
    assert (overall.right.count, overall.right.of, overall.probe.count, overall.probe.of) == (3, 5, 2, 5)
    assert (overall.lost, overall.gained) == (2, 1)
    assert overall.score is not None
    assert overall.score.value == pytest.approx(1 - 2 / 3)
    assert overall.right.interval == pytest.approx((0.2307, 0.8824), abs=1e-4)
    assert (overall.distance, overall.noise, overall.path_score) == (None, None, None)


def test_where_the_probe_does_better_the_score_is_negative() -> None:
    overall, _ = listened([pair(True, True), pair(False, True)])
    assert overall.score is not None
    assert overall.score.value == -1.0


def test_a_policy_that_never_does_it_has_no_score() -> None:
    overall, _ = listened([pair(False, False)] * 9)
    assert overall.score is None


def test_a_few_successes_are_too_little_for_an_interval() -> None:
    for successes, has_one in ((1, False), (4, False), (5, True)):
        overall, _ = listened([*[pair(True, False)] * successes, *[pair(False, False)] * 9])
        assert overall.score is not None
        assert overall.score.value == 1.0
        assert (overall.score.interval is not None) == has_one


def test_distances_without_a_second_run_have_no_scale() -> None:
    twins = [Twins(run.right, run.probes) for run in attentive(5)]
    overall, _ = listened(twins)
    assert overall.distance is not None
    assert overall.distance.value > 1
    assert (overall.noise, overall.path_score) == (None, None)


def test_distances_are_those_of_the_paths() -> None:
    path = np.linspace((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), 30)
    beside, above = path + np.array([0.0, 0.2, 0.0]), path + np.array([0.0, 0.0, 0.05])
    twins = [
        Twins(GroundingEpisode(True, path), {"blank": GroundingEpisode(True, beside)}, GroundingEpisode(True, above))
    ]
    overall, _ = listened(twins)
    for found, metres in ((overall.distance, 0.2), (overall.noise, 0.05)):
        assert found is not None
        assert (found.value, found.interval) == (pytest.approx(metres * POINTS), None), "one twin says little"
    assert overall.path_score is not None
    assert overall.path_score.value == pytest.approx(0.75)


def test_the_path_score_has_an_interval_over_twins() -> None:
    """By the logarithm of the ratio of both distances, of which twins with two probes are one each."""
    g = np.random.default_rng(0)
    path = np.linspace((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), 30)

    def beside(metres: float) -> GroundingEpisode:
        return GroundingEpisode(True, path + np.array([0.0, metres, 0.0]))

    far, near = 0.2 * np.exp(0.3 * g.normal(size=60)), 0.05 * np.exp(0.3 * g.normal(size=60))
    runs = [{probe: beside(metres) for probe in ("blank", "nonsense")} for metres in far]
    twins = [
        Twins(GroundingEpisode(True, path), probes, beside(noise)) for probes, noise in zip(runs, near, strict=True)
    ]
    overall, each = listened(twins)
    ratio = far.mean() / near.mean()
    errors = (far - far.mean()) / far.mean() - (near - near.mean()) / near.mean()
    half = stats.t.ppf(0.975, 59) * errors.std(ddof=1) / np.sqrt(60)
    expected = (1 - np.exp(half) / ratio, 1 - np.exp(-half) / ratio)
    for found in (overall.path_score, each["blank"].path_score):
        assert found is not None
        assert found.value == pytest.approx(1 - 1 / ratio)
        assert found.interval == pytest.approx(expected, abs=1e-6)
    assert overall.distance is not None
    assert overall.distance.interval is None


def test_another_goal_is_no_success_that_was_lost_or_kept() -> None:
    """What it does under another task's text and goal is judged by that goal: it says whether it obeys."""
    path = np.linspace((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), 30)
    away = path + np.array([0.0, 0.2, 0.0])
    told = [
        {"blank": GroundingEpisode(i % 2 == 0, path), "other_goal": GroundingEpisode(None, away, obeyed=i < 7)}
        for i in range(10)
    ]
    with_goal, _ = listened([Twins(GroundingEpisode(True, path), probes) for probes in told])
    without, _ = listened([Twins(GroundingEpisode(True, path), {"blank": probes["blank"]}) for probes in told])
    assert (with_goal.score, with_goal.probe, with_goal.lost, with_goal.gained) == (
        *(without.score, without.probe, without.lost, without.gained),
    )
    assert (with_goal.obeyed.count, with_goal.obeyed.of) == (7, 10)
    assert with_goal.obeyed.interval == pytest.approx((0.3968, 0.8922), abs=1e-4)
    assert (without.obeyed.of, without.obeyed.interval) == (0, None)
    assert with_goal.distance is not None
    assert with_goal.distance.value == pytest.approx(0.1 * POINTS), "its path counts as any other's"
    (overall, each) = listened(
        [Twins(GroundingEpisode(True, path), {"other_goal": GroundingEpisode(None, away, obeyed=True)})] * 3
    )
    assert each == {"other_goal": overall}
    assert (overall.score, overall.probe.of, overall.right.of, overall.lost) == (None, 0, 3, 0)


def test_noise_that_is_larger_than_what_a_probe_changes_is_a_score_below_0() -> None:
    path = np.zeros((30, 3))
    near, far = path + np.array([0.0, 0.05, 0.0]), path + np.array([0.0, 0.0, 0.2])
    overall, _ = listened(
        [Twins(GroundingEpisode(True, path), {"blank": GroundingEpisode(True, near)}, GroundingEpisode(True, far))]
    )
    assert overall.path_score is not None
    assert overall.path_score.value == pytest.approx(-0.75)


def test_a_deaf_policy_that_stands_still_until_the_end_has_path_score_0() -> None:
    """Under another text it does the same, is not done, and waits: whole paths gave it 1.00."""
    g = np.random.default_rng(0)
    twins = []
    for _ in range(10):
        path = np.linspace((0.0, 0.0, 0.0), (0.4, 0.2, 0.1), 80)
        runs = [path + 0.002 * g.normal(size=path.shape) for _ in range(3)]
        waiting = np.concatenate([runs[1], np.repeat(runs[1][-1:], 220, axis=0)])
        twins.append(
            Twins(
                GroundingEpisode(True, runs[0]),
                {"other_task": GroundingEpisode(False, waiting, followed=False)},
                GroundingEpisode(True, runs[2]),
            )
        )
    overall, _ = listened(twins)
    assert overall.path_score is not None
    assert abs(overall.path_score.value) < 0.1
    # One that listens goes elsewhere from the start, and still has nearly all of it.
    elsewhere = [
        Twins(
            twin.right,
            {"other_task": GroundingEpisode(False, np.linspace((0.0, 0.0, 0.0), (-0.4, 0.2, 0.1), 300), followed=True)},
            twin.again,
        )
        for twin in twins
    ]
    heard, _ = listened(elsewhere)
    assert heard.path_score is not None
    assert heard.path_score.value > 0.9


def test_over_all_probes_each_pair_counts_once() -> None:
    overall, each = listened(
        [
            Twins(
                GroundingEpisode(True),
                {
                    "nonsense": GroundingEpisode(True),
                    "blank": GroundingEpisode(False),
                    "other_task": GroundingEpisode(False),
                },
            )
        ]
    )
    assert overall.score is not None
    assert overall.score.value == pytest.approx(2 / 3)
    assert [each[probe].score.value for probe in each if each[probe].score] == [0.0, 1.0, 1.0]  # type: ignore[union-attr]
    assert (overall.right.of, overall.probe.of) == (1, 3)


def test_a_policy_without_noise_that_ignores_the_text_has_path_score_0() -> None:
    run = GroundingEpisode(True, walk(np.random.default_rng(0), GOAL))
    overall, _ = listened([Twins(run, {"blank": run}, run)] * 3)
    assert overall.path_score is not None
    assert (overall.path_score.value, overall.path_score.interval) == (0.0, None)


def test_twins_of_one_task_and_seed_are_one() -> None:
    """Two run seeds of the same ten units say no more than ten where they agree."""
    outcomes = [(True, i % 3 == 0) for i in range(30)]
    units = [(f"task {i % 6}", i) for i in range(30)]
    once = [
        Twins(GroundingEpisode(r), {"blank": GroundingEpisode(p)}, unit=u)
        for (r, p), u in zip(outcomes, units, strict=True)
    ]
    single, double = listened(once)[0], listened([*once, *once])[0]
    assert single.score is not None
    assert double.score is not None
    assert double.score.interval == pytest.approx(single.score.interval)
    assert single.probe.tasks_interval is not None, "of six tasks something is said of others"
    assert listened(once[:4])[0].probe.tasks_interval is None


def test_intervals_need_no_luck() -> None:
    assert listened(ignoring(30)) == listened(ignoring(30))


def test_a_twin_with_three_probes_is_drawn_as_one() -> None:
    """Three equal probes tell no more than one: the interval is as wide."""
    outcomes = [(True, i % 3 == 0) for i in range(60)]
    one = [Twins(GroundingEpisode(right), {"blank": GroundingEpisode(probe)}) for right, probe in outcomes]
    three = [
        Twins(GroundingEpisode(right), {name: GroundingEpisode(probe) for name in PROBES}) for right, probe in outcomes
    ]
    single, triple = listened(one)[0].score, listened(three)[1]["blank"].score
    pooled = listening(three)[0].score
    assert single is not None
    assert triple is not None
    assert pooled is not None
    assert pooled.interval is not None
    assert single.interval is not None
    assert single.value == triple.value == pytest.approx(pooled.value)
    widths = [high - low for low, high in (pooled.interval, single.interval)]
    assert widths[0] == pytest.approx(widths[1], rel=0.2)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    """True score .5: 1 - .4/.8. Of 200 experiments about 190 should hold it."""
    g = np.random.default_rng(0)
    held = 0
    for _ in range(200):
        twins = [pair(bool(g.random() < 0.8), bool(g.random() < 0.4)) for _ in range(100)]
        score = listening(twins)[1]["blank"].score
        assert score is not None
        assert score.interval is not None
        held += score.interval[0] <= 0.5 <= score.interval[1]
    assert 178 <= held <= 199


@settings(max_examples=scaled(30))
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=20))
def test_the_score_is_the_share_of_success_that_is_lost(outcomes: list[tuple[bool, bool]]) -> None:
    overall, _ = listening([pair(*one) for one in outcomes])
    right, probe = (sum(side) for side in zip(*outcomes, strict=True))
    assert overall.lost - overall.gained == right - probe
    assert (overall.score is None) == (right == 0)
    if overall.score is not None:
        assert overall.score.value == pytest.approx(1 - probe / right)


def test_bad_input_is_told() -> None:
    with pytest.raises(ValueError, match="no twin has a probe"):
        listening([Twins(GroundingEpisode(True), {})])
    with pytest.raises(ValueError, match="between 0 and 1"):
        listening([pair(True, True)], confidence=95)
    with pytest.raises(ValueError, match="finite"):
        listening(
            [
                Twins(
                    GroundingEpisode(True, np.full((2, 3), np.nan)), {"blank": GroundingEpisode(True, np.zeros((2, 3)))}
                )
            ]
        )
