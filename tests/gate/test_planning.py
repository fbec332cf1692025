"""How many episodes a gate takes: by the gate's own tests, and as a simulation of whole policies says."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_vla.gate import planning
from pytest_vla.gate.baseline import baseline_of
from pytest_vla.gate.bounded import changed_p, counted_units, no_worse_p
from pytest_vla.gate.comparable import paired
from pytest_vla.gate.evidence import GroupOutcomes, evidence_of
from pytest_vla.gate.planning import GatePlan, UnitType, gates_on, groups_of_cases, groups_of_pairs, plan_group
from pytest_vla.gate.verdicts import Terms, verdict_of
from pytest_vla.records.record import Record
from tests.support.varied import episodes, varied

BY = ("suite", "dimension")


@pytest.fixture
def in_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A power within four points (two standard errors) is enough to say which of two plans takes more."""
    monkeypatch.setattr(planning, "SIMULATIONS", 400)


def plan(records: Sequence[Record], drop: float = 0.1, terms: Terms | None = None, groups: int = 1) -> GatePlan:
    (group,) = groups_of_cases(baseline_of(records).cases, BY)
    return plan_group(group, drop, terms or Terms(), groups, np.random.default_rng(1))


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 2)).filter(any), min_size=1, max_size=30),
    st.sampled_from([1.0, 5.0, 30.0, 100.0]),
)
@example([(1, 0, 0)], 100.0)
def test_a_simulated_gate_is_the_gate(units: list[tuple[int, int, int]], margin: float) -> None:
    kinds = [UnitType(lost, gained, lost + gained + others) for lost, gained, others in units]
    new, baseline, of = [], [], []
    for seed, (lost, gained, others) in enumerate(units):
        new += [0] * lost + [1] * (gained + others)
        baseline += [1] * lost + [0] * gained + [1] * others
        of += [("suite/task", seed)] * (lost + gained + others)
    terms = Terms(margin)
    evidence = evidence_of(
        GroupOutcomes(tuple(new), tuple(of), tuple(baseline), tuple(of)), margin / 100, terms.alpha, True
    )
    assert evidence is not None
    expected = verdict_of(evidence.p_beyond, evidence.p_better, evidence.p_no_worse, terms)
    counts = Counter(kinds)
    assert gates_on([*counts], np.array([[*counts.values()]], float), terms, 1).tolist() == [expected]


def test_power_is_that_of_simulated_policies() -> None:
    """Drawn here as successes of each policy, task by task; success of a task as the plan takes it to be."""
    rates, seeds, generator = (1.0, 0.9, 0.6), 20, np.random.default_rng(2)
    found = plan(episodes(rates, seeds), terms=Terms(15))
    group = (sum(rates) * seeds + 0.5) / (len(rates) * seeds + 1)
    truth = np.array([(rate * seeds + group) / (seeds + 1) for rate in rates])
    shape = (2000, seeds, len(rates))
    baseline, new = (generator.random(shape) < truth for _ in range(2))
    assert found.differing == pytest.approx(float((2 * truth * (1 - truth)).mean()))
    units = [(f"task_{task}", seed) for seed in range(seeds) for task in range(len(rates))]
    difference = new.astype(int) - baseline
    drawn = [counted_units(each.ravel().tolist(), units) for each in difference[:300]]
    no_worse = np.mean([no_worse_p(each, 0.15) <= 0.05 for each in drawn])
    assert found.as_now[0] == pytest.approx(no_worse, abs=0.08)
    fallen = (new & (generator.random(shape) >= 0.1 / truth.mean())).astype(int) - baseline
    assert fallen.mean() == pytest.approx(-0.1, abs=0.01)
    sums = [counted_units(each.ravel().tolist(), units) for each in fallen[:300]]
    beyond = np.mean([changed_p(each, "worse", 0.05) <= 0.05 for each in sums])
    any_loss = np.mean([changed_p(each, "worse") <= 0.05 for each in sums])
    assert plan(episodes(rates, seeds)).as_now[1] == pytest.approx(beyond, abs=0.08)
    assert plan(episodes(rates, seeds), terms=Terms(regression="any")).as_now[1] == pytest.approx(any_loss, abs=0.08)
    assert beyond < any_loss


@pytest.mark.slow
@pytest.mark.usefixtures("in_short")
def test_more_is_asked_of_more_episodes() -> None:
    records = episodes((1.0, 0.9, 0.8, 0.9), 20)
    some, narrow, careful = plan(records), plan(records, terms=Terms(3)), plan(records, groups=8)
    assert some.no_worse[0] is not None
    assert some.no_worse[1] is not None
    assert narrow.no_worse[0] is not None
    assert some.no_worse[0] < some.no_worse[1] < 1500
    assert narrow.no_worse[0] > 2 * some.no_worse[0]
    assert some.regression[0] is not None
    assert careful.regression[0] is not None
    assert careful.regression[0] > some.regression[0]
    small = plan(records, drop=0.03)
    assert small.regression[0] is None or small.regression[0] > 3 * some.regression[0]


def test_a_task_that_was_always_done_may_fail_all_the_same() -> None:
    found = plan(episodes((1.0, 1.0), 5))
    assert 0 < found.differing < 0.05
    assert found.no_worse[0] is not None
    assert 60 <= found.no_worse[0] <= 200


@pytest.mark.usefixtures("in_short")
def test_what_cannot_be_is_not_planned() -> None:
    found = plan(episodes((0.1, 0.0), 20), drop=0.2)
    assert found.regression == (None, None)
    assert found.as_now[1] is None
    wide = plan(episodes((0.5, 0.5), 10), terms=Terms(0.1))
    assert wide.no_worse == (None, None)


@pytest.mark.usefixtures("in_short")
def test_pairs_that_were_seen_differ_as_they_did() -> None:
    """Two checkpoints that mostly do the same take fewer episodes than two that have nothing in common."""
    rates = (0.5, 0.6, 0.7, 0.4)
    baseline, other = baseline_of(episodes(rates, 25)), baseline_of(episodes([rate - 0.04 for rate in rates], 25))
    (alone,) = groups_of_cases(baseline.cases, BY)
    (together,) = groups_of_pairs(paired(baseline, other).pairs, BY)
    one, both = (plan_group(each, 0.1, Terms(), 1, np.random.default_rng(3)) for each in (alone, together))
    # One of 25 pairs, and of the unit that was not seen a half.
    assert both.differing == pytest.approx(0.04 * 25 / 26 + 0.5 / 26, abs=0.002)
    assert both.no_worse[1] is not None
    assert one.no_worse[0] is not None
    assert both.no_worse[1] < one.no_worse[0]
    assert both.rate == pytest.approx(0.55)


@pytest.mark.slow
@pytest.mark.usefixtures("in_short")
def test_episodes_of_one_init_state_that_go_together_count_for_less() -> None:
    labels = ("camera.distance-L1", "camera.distance-L2", "camera.distance-L3", "camera.distance-L4")
    rates = (0.9, 0.8, 0.7, 0.8)
    alike = plan(episodes(rates, 20, labels))
    alone = plan(episodes(rates, 80))
    assert alike.has == alone.has == 320
    assert alike.no_worse[0] is not None
    assert alone.no_worse[0] is not None
    assert alike.no_worse[0] > 2 * alone.no_worse[0]


def test_errors_and_probes_are_in_no_group() -> None:
    records = [varied("", True), varied("", "error", seed=1), varied("", "invalid", seed=2)]
    (group,) = groups_of_cases(baseline_of(records).cases, BY)
    assert (group.episodes, group.seeds, group.rate) == (1, 1.0, 1.0)


@pytest.mark.usefixtures("in_short")
def test_the_same_generator_plans_the_same() -> None:
    assert plan(episodes((0.9, 0.8), 10)) == plan(episodes((0.9, 0.8), 10))
