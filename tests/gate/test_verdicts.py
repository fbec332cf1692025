"""What a gate says of groups: the five verdicts, what errors can and cannot hide, and numbers by other means."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from pytest_vla.errors import VlaError
from pytest_vla.gate.baseline import baseline_of
from pytest_vla.gate.choices import REGRESSIONS, REQUIRED
from pytest_vla.gate.episodes_needed import fresh_of
from pytest_vla.gate.verdicts import BY, TOGETHER, GateJudgement, Terms, group_name, judge
from pytest_vla.reports.gates import loss_text
from tests.support.examples import scaled
from tests.support.gate_sides import TASKS, made, only, side
from tests.support.records import RECORD, record_of
from tests.support.varied import varied


def judged(
    baseline: Sequence[bool | str], new: Sequence[bool | str], terms: Terms | None = None, first: int = 0
) -> GateJudgement:
    return judge(made(side(baseline)), made(side(new, first=first)), terms or Terms())


def test_a_policy_that_loses_much_is_a_regression() -> None:
    group = only(judged([True] * 100, [True] * 80 + [False] * 20))
    assert group.verdict == "regression"
    evidence = group.evidence
    assert evidence is not None
    assert (evidence.pairs, evidence.lost, evidence.gained) == (100, 20, 0)
    assert evidence.p_worse == pytest.approx(0.5**20)
    assert evidence.p_worse == pytest.approx(binomtest(20, 20, 0.5, alternative="greater").pvalue)
    assert evidence.bounds.value == pytest.approx(-0.2)
    assert len(group.lost) == 20
    assert not group.gained


def test_one_that_gains_much_is_better() -> None:
    group = only(judged([True] * 80 + [False] * 20, [True] * 100))
    assert group.verdict == "better"
    assert len(group.gained) == 20


def test_one_that_does_the_same_is_no_worse_if_there_are_enough() -> None:
    outcomes = [True] * 80 + [False] * 20
    assert only(judged(outcomes, outcomes)).verdict == "no worse"
    few = only(judged(outcomes[:10], outcomes[:10]))
    assert few.verdict == "undecided"
    fresh = fresh_of(few, Terms(), 1)
    assert fresh is not None
    assert fresh > 59
    enough = outcomes[:10] * -(-fresh // 10)
    assert only(judged(enough, enough)).verdict == "no worse", "so many pairs like these are decided"


def test_how_many_it_takes_is_as_the_page_says() -> None:
    """docs/how-to/gate.md: with a margin of 5 points, 59 pairs that do not differ, or 148 of which one in ten does."""
    assert only(judged([True] * 59, [True] * 59)).verdict == "no worse"
    assert only(judged([True] * 58, [True] * 58)).verdict == "undecided"
    baseline, new = ([*turn, *[True] * 134] for turn in ([True] * 7 + [False] * 7, [False] * 7 + [True] * 7))
    assert only(judged(baseline, new)).verdict == "no worse"
    assert only(judged(baseline[:-2], new[:-2])).verdict == "undecided"


def test_a_loss_that_is_shown_is_a_regression_beyond_the_margin_or_where_any_is() -> None:
    new = [True] * 970 + [False] * 30
    group = only(judged([True] * 1000, new))
    assert group.p_worse is not None
    assert group.p_worse < 0.001
    assert (group.verdict, group.shown_loss) == ("no worse", True)
    assert loss_text(group, Terms()) == "a loss of 3 points is significant but within the margin"
    assert only(judged([True] * 1000, new, Terms(margin=1.0))).verdict == "regression"
    any_loss = only(judged([True] * 1000, new, Terms(regression="any")))
    assert (any_loss.verdict, any_loss.shown_loss) == ("regression", False)


def test_a_loss_that_may_or_may_not_exceed_the_margin_is_undecided_and_named() -> None:
    new = [True] * 94 + [False] * 6
    group = only(judged([True] * 100, new))
    assert (group.verdict, group.shown_loss, group.is_judged) == ("undecided", True, True)
    assert "not shown to exceed the margin of 5 points" in loss_text(group, Terms())
    assert only(judged([True] * 100, new, Terms(regression="any"))).verdict == "regression"


def starts(seeds: int, baseline: int, new: int, of: int = 20) -> GateJudgement:
    """One task, under so many background variations of each seed, of which either side succeeds in the first."""
    sides = [
        [
            varied(f"background.table-L{level}", level <= done, task="task_0", seed=seed)
            for seed in range(seeds)
            for level in range(1, of + 1)
        ]
        for done in (baseline, new)
    ]
    return judge(made(sides[0]), made(sides[1]), Terms())


@pytest.mark.parametrize("variations", [20, 43])
def test_five_starts_that_lose_everything_are_a_regression(variations: int) -> None:
    """20 of 20 and then 0 of 20 in each of five starts: it was undecided, and passed."""
    group = only(starts(5, variations, 0, variations))
    assert (group.verdict, group.is_judged) == ("regression", True)
    assert group.p_worse == pytest.approx(0.5**5)
    assert group.evidence is not None
    assert (group.evidence.starts, group.evidence.pairs) == (5, 5 * variations)
    assert group.evidence.bounds.upper < -0.05


def test_too_few_starts_are_not_judged() -> None:
    """Four starts cannot show the loss of everything, however many pairs they have; nor ten of which nine are lost."""
    lost = starts(4, 20, 0)
    group = only(lost)
    assert (group.verdict, group.is_judged, group.sample) == ("undecided", False, None)
    assert group.reason.startswith("not judged (4 starts)")
    assert lost.verdict == "undecided"
    assert not any(lost.verdict in REQUIRED[name] for name in ("no-worse", "better"))
    assert only(judged([True] * 4, [True] * 4)).is_judged is False
    assert only(judged([True] * 10, [True] * 10)).is_judged is True
    assert only(judged([False] * 10, [False] * 10)).is_judged is True, "there was nothing to lose"


def test_ten_starts_find_what_their_variations_lose_in_common() -> None:
    """Ten tasks, one seed each, 25 variations, of which .9 and then .6 are done."""
    generator = np.random.default_rng(0)
    sides = [
        [
            varied(f"background.table-L{level}", bool(generator.random() < rate), task=task, seed=0)
            for task in TASKS
            for level in range(1, 26)
        ]
        for rate in (0.9, 0.6)
    ]
    found = [only(judge(made(sides[0]), made(sides[1]), Terms(regression=name))) for name in REGRESSIONS]
    assert [group.verdict for group in found] == ["regression", "regression"]


def test_errors_cannot_hide_what_they_would_change() -> None:
    outcomes: list[bool | str] = [True] * 200
    few = only(judged(outcomes, [*outcomes[:199], "error"]))
    assert few.verdict == "no worse"
    assert few.uncounted == (1, 0)
    many = only(judged(outcomes, [True] * 160 + ["error"] * 40))
    assert many.verdict == "undecided"
    assert many.reason == "errors: regression if they count as failures, no worse if they count as successes"
    assert many.sample is None
    of_baseline = only(judged([True] * 160 + ["error"] * 40, [True] * 160 + [False] * 40))
    assert of_baseline.verdict == "undecided"
    assert of_baseline.uncounted == (0, 40)


def test_what_is_invalid_on_both_sides_is_in_no_pair() -> None:
    outcomes: list[bool | str] = [True] * 100 + ["invalid"] * 50
    group = only(judged(outcomes, outcomes))
    assert group.verdict == "no worse"
    assert group.evidence is not None
    assert group.evidence.pairs == 100


def test_nothing_measured_is_undecided() -> None:
    group = only(judged([True] * 10, ["error"] * 10))
    assert group.verdict == "undecided"
    assert group.evidence is None
    assert group.reason.startswith("nothing was measured") or group.reason.startswith("errors: ")


def test_groups_are_suites_and_dimensions_and_others_as_is_asked() -> None:
    benign, light = side([True] * 100), side([True] * 100, "light.diffuse-L3")
    dark = side([False] * 100, "light.diffuse-L3")
    judgement = judge(made(benign, light), made(benign, dark), Terms())
    assert [(group.name, group.verdict) for group in judgement.groups] == [
        ("libero_goal[benign]", "no worse"),
        ("libero_goal[light]", "regression"),
    ]
    assert judgement.verdict == "regression"
    by_level = judge(made(benign, light), made(benign, dark), Terms(by=("kind", "level")))
    assert [group.name for group in by_level.groups] == ["-,-", "diffuse,3"]
    assert len(judge(made(benign), made(benign), Terms(by=("suite", "task"))).groups) == 10


def test_holm_corrects_over_groups() -> None:
    """Five lost of five in one of two groups: p = 1/32 alone, 1/16 of two."""
    worse, same, terms = [True] * 95 + [False] * 5, [True] * 100, Terms(regression="any")
    alone = judged(same, worse, terms)
    assert only(alone).verdict == "regression"
    label = "light.diffuse-L3"
    both = judge(made(side(same), side(same, label)), made(side(worse), side(same, label)), terms)
    assert both.groups[0].p_worse == pytest.approx(2 / 32)
    assert both.groups[0].verdict == "undecided"


def test_another_protocol_is_not_comparable_and_says_what_differs() -> None:
    other = side([True] * 10, protocol={**RECORD.protocol, "max_steps": 400})
    judgement = judge(made(side([True] * 10)), made(other), Terms())
    group = only(judgement)
    assert group.verdict == judgement.verdict == "not comparable"
    assert group.evidence is None
    assert [each.name for each in group.refused] == ["protocol.max_steps"]


def test_other_seeds_are_compared_by_task() -> None:
    judgement = judged([True] * 200, [True] * 120 + [False] * 80, first=100)
    assert not judgement.is_paired
    assert only(judgement).verdict == "regression"
    assert only(judged([True] * 500, [True] * 500, first=100)).verdict == "no worse"
    with pytest.raises(VlaError, match="no case is in both"):
        judge(made(side([True] * 10)), made(side([True] * 10, first=5)), Terms(), is_paired=True)


def test_no_common_task_is_refused() -> None:
    with pytest.raises(VlaError, match="is in both"):
        judge(made(side([True] * 10)), made(side([True] * 10, "light.diffuse-L3")), Terms())


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"margin": 0.0}, "margin 0: expected points of success above 0"),
        ({"margin": 101.0}, "margin 101: expected"),
        ({"alpha": 0.5}, "alpha 0.5: expected"),
        ({"by": ("suite", "dimensions")}, "Did you mean dimension"),
        ({"by": ()}, "grouped by nothing"),
        ({"regression": "all"}, "regression 'all': expected margin or any"),
        ({"by": ("suite", "suite")}, "each at most once"),
    ],
)
def test_terms_that_make_no_sense_are_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(VlaError, match=told):
        Terms(**changes)


def test_names_of_groups() -> None:
    labels = {"suite": "s", "dimension": "camera", "level": ""}
    assert group_name(labels, BY) == "s[camera]"
    assert group_name(labels, ("suite",)) == "s"
    assert group_name(labels, ("dimension", "level")) == "camera,-"


@settings(max_examples=scaled(60))
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_turned_round_it_says_the_opposite(outcomes: list[tuple[bool, bool]]) -> None:
    """What is a regression one way is better the other way, and p and bounds change sides."""
    one, other = ([pair[place] for pair in outcomes] for place in (0, 1))
    forth, back = only(judged(one, other)), only(judged(other, one))
    assert forth.evidence is not None
    assert back.evidence is not None
    assert forth.p_worse == pytest.approx(back.p_better)
    assert forth.evidence.bounds.value == pytest.approx(-back.evidence.bounds.value)
    assert forth.evidence.bounds.lower == pytest.approx(-back.evidence.bounds.upper, abs=1e-9)
    assert (forth.verdict == "regression") <= (back.verdict == "better")
    assert forth.evidence.p_beyond >= forth.evidence.p_worse
    assert forth.lost == back.gained


@settings(max_examples=scaled(30))
@given(st.integers(0, 2**32 - 1))
def test_more_errors_never_make_a_verdict_out_of_none(seed: int) -> None:
    """Where some episodes broke, no verdict is one that all of their outcomes could not have."""
    rng = np.random.default_rng(seed)
    baseline = [bool(each) for each in rng.random(60) < 0.8]
    new: list[bool | str] = [bool(each) for each in rng.random(60) < rng.choice([0.4, 0.8, 1.0])]
    broken: list[bool | str] = [("error" if rng.random() < 0.1 else each) for each in new]
    said = only(judged(baseline, broken)).verdict
    filled = [[fill if each == "error" else each for each in broken] for fill in (True, False)]
    possible = {only(judged(baseline, some)).verdict for some in filled}
    assert said == "undecided" or possible == {said}


def test_groups_of_too_few_starts_are_judged_together_so_that_a_total_loss_is_found() -> None:
    """Five starts that lose all, in two groups: Holm's correction made it 1/16 of each, and the gate passed."""

    def of(done: bool, seeds: int) -> list[Any]:
        kinds = ("light.diffuse-L1", "camera.position-L1")
        return [varied(kind, done, task="task_0", seed=seed) for kind in kinds for seed in range(seeds)]

    lost = judge(made(of(True, 5)), made(of(False, 5)), Terms())
    assert [(group.name, group.verdict, group.is_judged) for group in lost.groups] == [
        ("libero_goal[camera]", "undecided", False),
        ("libero_goal[light]", "undecided", False),
        (TOGETHER, "regression", True),
    ]
    assert lost.verdict == "regression"
    assert lost.agreement.together == 2
    assert any("2 groups are a regression only together" in note for note in lost.agreement.notes)
    six = judge(made(of(True, 6)), made(of(False, 6)), Terms())
    assert [group.verdict for group in six.groups] == ["regression"] * 2
    assert six.agreement.together == 0
    alike = judge(made(of(True, 5)), made(of(True, 5)), Terms())
    assert TOGETHER not in [group.name for group in alike.groups]
    four = judge(made(of(True, 4)), made(of(False, 4)), Terms())
    assert [group.is_judged for group in four.groups] == [False, False]


def test_a_loss_that_only_too_fine_groups_hide_is_told() -> None:
    """24 lost and none gained of 160: a regression of the suite, and of no task of eight."""

    def of(lost: int) -> Any:
        return made(
            [varied("light.diffuse-L1", seed // 8 >= lost, task=f"task_{seed % 8}", seed=seed) for seed in range(160)]
        )

    whole, fine = (judge(of(0), of(3), Terms(by=by)) for by in (("suite",), ("suite", "task")))
    assert (whole.verdict, whole.agreement.pooled) == ("regression", 0)
    assert {group.verdict for group in fine.groups} == {"undecided"}
    assert (fine.verdict, fine.agreement.pooled) == ("undecided", 8)
    assert any("judged as one, the 8 groups would be a regression" in note for note in fine.agreement.notes)
    alike = judge(of(0), of(0), Terms(by=("suite", "task")))
    assert (alike.agreement.pooled, TOGETHER in [group.name for group in alike.groups]) == (0, False)


def test_unpaired_sides_that_share_a_case_are_refused() -> None:
    both = baseline_of([record_of(seed, "success") for seed in range(3)])
    with pytest.raises(VlaError, match=r"3 cases on both sides"):
        judge(both, both, Terms(), is_paired=False)
    assert judge(both, both, Terms(), is_paired=None).is_paired
