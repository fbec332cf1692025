"""What a run can be compared with: the pairs, the strata, and each condition that refuses or is told."""

import dataclasses
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.gate.baseline import Baseline, baseline_of, distinct_cases
from pytest_vla.gate.baseline_file import changes_of, read_baseline, write_baseline
from pytest_vla.gate.comparable import (
    CONDITIONS,
    OTHER,
    Disagreement,
    Effect,
    distinct_pairs,
    lines_of,
    paired,
    row_of,
    unpaired,
)
from pytest_vla.gate.verdicts import Terms, judge
from pytest_vla.metrics.success import unit_of
from pytest_vla.plan.costs import Charge
from pytest_vla.plan.task import Protocol
from pytest_vla.records.counting import OF_PROVENANCE, SAID
from pytest_vla.records.record import Record
from pytest_vla.versions import RECORDED_NAMES
from tests.support.data import REPOSITORY
from tests.support.examples import scaled
from tests.support.records import RECORD, record_of
from tests.support.varied import varied

SEEDS = range(3)


def side(*labels: str, of: Any = SEEDS, **changes: Any) -> Baseline:
    return baseline_of([varied(label, True, seed=seed, **changes) for label in labels or ("",) for seed in of])


def provenance(**texts: str) -> dict[str, Any]:
    return {"provenance": {"mujoco": "3.8.1", **{name.replace("_", "-"): text for name, text in texts.items()}}}


CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], Effect]] = {
    "protocol.evaluator": ({}, {"protocol": {**RECORD.protocol, "evaluator": "openpi"}}, "refuses"),
    "protocol.max_steps": ({}, {"protocol": {**RECORD.protocol, "max_steps": 400}}, "refuses"),
    "protocol.settle_steps": ({}, {"protocol": {**RECORD.protocol, "settle_steps": 400}}, "refuses"),
    "protocol.textures": ({}, {"protocol": {**RECORD.protocol, "textures": "paper"}}, "refuses"),
    "protocol.rules": ({}, {"protocol": {**RECORD.protocol, "rules": "paper"}}, "refuses"),
    "protocol.image_size": ({}, {"protocol": {**RECORD.protocol, "image_size": (64, 64)}}, "refuses"),
    "goal": ({}, {"literals": {"(open drawer_1)": ((0, False),)}}, "refuses"),
    "instruction": ({}, {"instruction": "turn it on"}, "refuses"),
    "replan": ({}, {"replan": 5}, "refuses"),
    "scene": (provenance(scene="a"), provenance(scene="b"), "refuses"),
    "provenance.stand_ins": (
        {"provenance": {"stand_ins": "none"}},
        {"provenance": {"stand_ins": "plate.xml"}},
        "refuses",
    ),
    "init_state_digest": (
        {"seeds": {**RECORD.seeds, "init_state_digest": 1}},
        {"seeds": {**RECORD.seeds, "init_state_digest": 2}},
        "refuses",
    ),
    "protocol.control": ({}, {"protocol": {**RECORD.protocol, "control": "absolute"}}, "refuses"),
    "provenance.compiled": (provenance(compiled="a"), provenance(compiled="b"), "warns"),
    "init_state": ({}, {"seeds": {**RECORD.seeds, "init_state": 7}}, "refuses"),
    "provenance.mujoco": ({}, provenance(mujoco="3.3.7"), "refuses"),
    "provenance.robosuite": (provenance(robosuite="1.4.0"), provenance(robosuite="1.5.1"), "refuses"),
    "world.engine": (
        {"provenance": {"engine": "1"}, "simulator": ("engine",)},
        {"provenance": {"engine": "2"}, "simulator": ("engine",)},
        "refuses",
    ),
    "group": ({"group": "heat"}, {"group": "cold"}, "warns"),
    "provenance.premises": ({}, provenance(premises="ignored"), "refuses"),
    "provenance.feasible": ({}, provenance(feasible="tried"), "refuses"),
    "provenance.stop_when": ({}, {"provenance": {**RECORD.provenance, "stop_when": "token_entropy>0.3"}}, "refuses"),
    "provenance.realtime": ({}, {"provenance": {**RECORD.provenance, "realtime": "0.15 s, skip"}}, "refuses"),
    "provenance.start": ({}, {"provenance": {**RECORD.provenance, "start": "a recorded state"}}, "refuses"),
    "charged": ({}, {"costs": (Charge("touch", 0.0, 0),)}, "refuses costs"),
    "provenance.costs": ({}, provenance(costs="none"), "refuses costs"),
    "provenance.declared_costs": ({}, {"provenance": {"mujoco": "3.8.1", "declared_costs": "x"}}, "refuses costs"),
    "provenance.rescored": ({}, provenance(rescored="from states"), "refuses costs"),
    "provenance.ledger": ({}, provenance(ledger="substeps"), "refuses costs"),
    **{
        f"provenance.{name}": (
            {"provenance": {"mujoco": "3.8.1", name: "1"}},
            {"provenance": {"mujoco": "3.8.1", name: "2"}},
            "warns",
        )
        for name in (*sorted({*RECORDED_NAMES} - {*OF_PROVENANCE}), "renderer")
    },
}
"""By condition: how two sides are made that differ in it, and what that does."""


@pytest.mark.parametrize("control", ["relative", "absolute"])
def test_what_an_evaluator_leaves_to_the_policy_is_not_known_of_a_log(control: str) -> None:
    ours = {"protocol": {**RECORD.protocol, "control": control}, "replan": 50}
    log = side(provenance={"imported": "lerobot"}, protocol=dict(RECORD.protocol), replan=None)
    for one, other in ((log, side(**ours)), (side(**ours), log)):
        found = paired(one, other).agreement
        assert not found.of("refuses")
        assert {"replan", "protocol.control"} <= {each.name for each in found.disagreements}
    # What a log does say counts.
    log = side(provenance={"imported": "libero-log"}, protocol=dict(RECORD.protocol), replan=5)
    assert "replan" in {each.name for each in paired(log, side(replan=50)).agreement.of("refuses")}


@pytest.mark.parametrize("name", CHANGES)
def test_each_condition_that_differs_has_its_effect(name: str) -> None:
    before, after, effect = CHANGES[name]
    for one, other in ((before, after), (after, before)):
        # The init state of seed 0 alone is another.
        found = paired(side(of=[0], **one), side(of=[0], **other)).agreement
        assert [(each.name, each.effect) for each in found.disagreements] == [(name, effect)]
        assert found.of(effect)[0].cases == ("libero_goal/turn_on_the_stove[seed0]",)
        (line,), row = lines_of(found.disagreements), row_of(name)
        assert line.startswith("image size " if name == "protocol.image_size" else f"{row.about} ")
        value = found.disagreements[0].baseline
        mend = f". {row.option} sets it" if value is None else f". Use {row.option}={value}"
        assert line.endswith(f": {row.why}" + mend * bool(row.option))
    if not name.startswith("init_state"):
        strata = unpaired(side(of=[0, 1], **before), side(of=[2, 3], **after)).agreement
        assert [(each.name, each.effect) for each in strata.disagreements] == [(name, effect)]


@pytest.mark.parametrize("name", ["init_state_digest", "provenance.compiled"])
def test_what_earlier_versions_did_not_record_is_compared_as_before(name: str) -> None:
    """Nothing is refused, and nothing said: who has such a baseline can do nothing about it."""
    (_, known, _) = CHANGES[name]
    for one, other in (({}, known), (known, {})):
        assert paired(side(of=[0], **one), side(of=[0], **other)).agreement.disagreements == ()


def test_logs_are_compared_if_their_evaluators_agree() -> None:
    """What a log does not record is one note, and one of an unknown evaluator differs from others in that alone."""
    unknown = {"protocol": {"evaluator": "unknown"}, "provenance": {"imported": "libero-log"}}
    openpi = {**unknown, "protocol": {**RECORD.protocol, "evaluator": "openpi"}}
    for one, other in ((unknown, openpi), (openpi, unknown), (unknown, {})):
        found = paired(side(of=[0], **one), side(of=[0], **other)).agreement
        assert [each.name for each in found.of("refuses")] == ["protocol.evaluator"]
        assert not found.unknown_evaluator
    found = paired(side(of=[0], **unknown), side(of=[0], **unknown)).agreement
    assert (found.disagreements, found.unknown_evaluator, len(found.notes)) == ((), True, 1)
    ours = {"protocol": openpi["protocol"], "provenance": {"mujoco": "3.3.7", "libm": "glibc"}}
    for one, other, which in ((openpi, ours, "baseline"), (ours, openpi, "run")):
        found = paired(side(of=[0], **one), side(of=[0], **other)).agreement
        assert found.of("refuses") == ()
        (line,) = lines_of(found.disagreements)
        assert line.startswith(f"the {which} is imported")
        assert line.endswith(": MuJoCo, libm")


def test_an_alarm_is_named_where_it_stopped_every_episode() -> None:
    ruled = {"provenance": {**RECORD.provenance, "stop_when": "token_entropy>0.3"}}
    stopped = [varied("", "invalid", seed=seed, **(ruled | {"reason": "stopped-early"})) for seed in range(3)]
    for one, other in ((side(), baseline_of(stopped)), (baseline_of(stopped), side())):
        (found,) = paired(one, other).agreement.disagreements
        assert (found.name, found.effect, len(found.cases)) == ("provenance.stop_when", "refuses", 3)
    # Whoever died may not have been told of one.
    errors = [varied("", "error", seed=seed) for seed in range(3)]
    assert paired(baseline_of(stopped), baseline_of(errors)).agreement.disagreements == ()


def test_what_varies_with_the_label_refuses_too() -> None:
    one = side("light.diffuse-L2", parameters={"gain": 0.5})
    other = side("light.diffuse-L2", parameters={"gain": 0.6})
    (found,) = paired(one, other).agreement.disagreements
    assert (found.name, found.effect, len(found.cases)) == ("parameters", "refuses", 3)
    assert paired(one, side("light.diffuse-L2", parameters={"gain": 0.5 + 1e-15})).agreement.disagreements == ()
    record = varied("light.diffuse-L2", True, parameters={"gain": 0.5})
    moved = dataclasses.replace(record, variation={**record.variation, "level": 3})
    (found,) = paired(one, baseline_of([moved])).agreement.disagreements
    assert (found.name, found.new) == ("variation", {"level": 3})


def test_every_row_has_a_case_here_and_each_effect_is_used() -> None:
    named = {row_of(name).name for name in (*CHANGES, "parameters", "variation", "provenance.unheard_of")}
    assert {row.name for row in CONDITIONS} == named
    assert {row.effect for row in CONDITIONS} == {*get_args(Effect)}
    assert row_of("protocol.max_steps").about == "step budget"
    assert row_of("unheard_of") is OTHER
    of_protocol = {f"protocol.{field.name}" for field in dataclasses.fields(Protocol)}
    assert {row_of(name).effect for name in of_protocol} == {"refuses"}


def test_the_page_names_every_row() -> None:
    page = (REPOSITORY / "docs" / "how-to" / "baselines.md").read_text()
    assert [row.about for row in CONDITIONS if row.about not in page and row.about != "provenance"] == []


def test_the_policy_is_what_is_compared() -> None:
    one, other = side(policy="a", policy_digest="1" * 64), side(policy="b", policy_digest="2" * 64)
    assert paired(one, other).agreement.disagreements == ()
    assert paired(one, other).agreement.same_policy is False
    assert paired(one, one).agreement.same_policy is True
    note = "Both policies have the same digest"
    assert (
        f"{note}: as far as it covers them, a difference comes from its random draws."
        in paired(one, one).agreement.notes
    )
    rounded = side(policy="a", policy_digest="1" * 64, provenance={"kernels": "another"})
    assert f"{note}." in paired(one, rounded).agreement.notes, "so is a difference in rounding a cause"
    assert paired(one, side(policy="a")).agreement.same_policy is None
    # What a server says of itself: equal texts may be of different weights.
    told, changed = (side(policy="a", policy_digest=f"{digit * 64}{SAID}") for digit in "12")
    assert paired(told, told).agreement.same_policy is None
    assert paired(told, changed).agreement.same_policy is False


def test_a_missing_simulator_is_told_and_a_later_condition_is_not() -> None:
    (found,) = paired(side(provenance={}), side()).agreement.disagreements
    assert (found.name, found.effect, found.baseline, found.new) == ("provenance.mujoco", "warns", None, "3.8.1")
    assert found.text == (
        "MuJoCo differs (baseline not recorded, run 3.8.1; 3 cases): MuJoCo versions give different physics"
    )
    one = side()
    later = dataclasses.replace(one.cases[0], shared={**one.cases[0].shared, "later": 1})
    assert paired(dataclasses.replace(one, cases=(later,)), one).agreement.disagreements == ()


def test_an_episode_that_died_disagrees_in_nothing_that_it_could_not_tell() -> None:
    died = varied("", "error", provenance={"mujoco": "3.8.1"}, literals={})
    found = paired(side(provenance={"mujoco": "3.8.1", "scene": "a"}), baseline_of([died]))
    assert found.agreement.disagreements == ()
    assert (found.pairs[0].new.outcome, found.pairs[0].baseline.outcome) == ("error", "success")


# Which cases.


def test_a_pair_is_a_case_under_one_run_seed() -> None:
    baseline = baseline_of([varied("", True, seed=seed, run_seed=run) for seed in SEEDS for run in (0, 1)])
    new = baseline_of([varied("", False, seed=seed, run_seed=1) for seed in (1, 2, 3)])
    found = paired(baseline, new)
    assert [(pair.case[-7:], pair.baseline.run_seed, pair.new.outcome) for pair in found.pairs] == [
        ("[seed1]", 1, "failure"),
        ("[seed2]", 1, "failure"),
    ]
    pair = found.pairs[0]
    assert (pair.task, pair.unit) == ("libero_goal/turn_on_the_stove", ("libero_goal/turn_on_the_stove", 1))
    assert pair.labels == {
        "suite": "libero_goal",
        "task": "turn_on_the_stove",
        "task_level": "",
        "dimension": "benign",
        "kind": "",
        "level": "",
        "label": "",
        "seed": "1",
        "run_seed": "1",
        "test": "",
        "group": "",
    }
    assert (len(found.agreement.only_baseline), len(found.agreement.only_new)) == (4, 1)
    assert found.agreement.notes == (
        "4 cases of the baseline not in the run: libero_goal/turn_on_the_stove[seed0], "
        "libero_goal/turn_on_the_stove[seed0], libero_goal/turn_on_the_stove[seed1] and 1 more",
        "1 case of the run not in the baseline: libero_goal/turn_on_the_stove[seed3]",
    )


def test_an_own_test_may_be_renamed_and_two_of_one_episode_are_told_apart() -> None:
    def own(test: str, digest: str, outcome: str = "success") -> Record:
        return record_of(0, outcome, node=f"test_mine.py::{test}[x-seed0]", digest=digest)

    (pair,) = paired(baseline_of([own("test_a", "1")]), baseline_of([own("test_b", "2", "failure")])).pairs
    assert (pair.baseline.outcome, pair.new.outcome, pair.labels["test"]) == (
        "success",
        "failure",
        "test_mine.py::test_b",
    )
    both = baseline_of([own("test_a", "1"), own("test_b", "2", "failure")])
    assert [(pair.baseline.test, pair.baseline.outcome) for pair in paired(both, both).pairs] == [
        ("test_mine.py::test_a[x-seed0]", "success"),
        ("test_mine.py::test_b[x-seed0]", "failure"),
    ]


def test_probes_and_given_cases_are_counted_and_not_compared() -> None:
    record = varied("language.blank", False)
    probe = dataclasses.replace(record, variation={**record.variation, "probe": True})
    chosen = varied("light.diffuse-x0123abcd", False)
    both = baseline_of([probe, varied("", True), chosen])
    found = paired(both, both)
    assert [pair.case for pair in found.pairs] == ["libero_goal/turn_on_the_stove[seed0]"]
    assert found.agreement.notes[0] == "2 probe or given cases not compared: not part of any rate"
    assert [stratum.labels["dimension"] for stratum in unpaired(both, both).strata] == ["benign"]


def test_a_task_as_it_is_that_a_file_of_cases_names_is_not_compared(tmp_path: Path) -> None:
    """Nor with the same seed of a sample: it was chosen for how it ended."""
    sample = [varied("", True, seed=seed) for seed in range(3)]
    named = dataclasses.replace(sample[2], outcome="failure", given=True)
    known, new = baseline_of([*sample[:2], named]), baseline_of(sample)
    for one, other in ((known, new), (new, known)):
        found = paired(one, other)
        assert [pair.case[-2] for pair in found.pairs] == ["0", "1"]
        assert found.agreement.disagreements == ()
        assert [len(stratum.new) for stratum in unpaired(known, new).strata] == [3]
    assert [case.outcome for case in baseline_of([named, *sample]).cases] == ["success"] * 3, "the sample's own"
    write_baseline(known, tmp_path / "base.json")
    assert [case.is_given for case in read_baseline(tmp_path / "base.json").cases] == [False, False, True]


def test_cases_under_another_run_seed_are_pairs_where_each_side_has_but_one() -> None:
    found = paired(side(), side(run_seed=4))
    assert [(pair.baseline.run_seed, pair.new.run_seed, pair.new.seed) for pair in found.pairs] == [
        (0, 4, seed) for seed in SEEDS
    ]
    assert not found.agreement.disagreements, "a scene does not depend on it"
    two = baseline_of([varied("", True, seed=seed, run_seed=run) for seed in SEEDS for run in (0, 4)])
    assert [pair.new.run_seed for pair in paired(side(), two).pairs] == [0, 0, 0], "nobody has to choose among them"


def test_where_nothing_is_common_both_sides_are_told() -> None:
    with pytest.raises(VlaError, match=r"no case is in both: the baseline has 3 cases of ") as e:
        paired(side(), side(of=range(5, 8), run_seed=4))
    assert "run seed 4" in str(e.value)
    with pytest.raises(VlaError, match="no task under the same variation is in both"):
        unpaired(side(), side("light.diffuse-L2"))


# Unpaired.


def test_a_stratum_has_all_cases_of_a_task_under_a_variation() -> None:
    baseline, new = side("", "light.diffuse-L2", of=range(2)), side("", "robot.joints-L1", of=range(2, 5))
    found = unpaired(baseline, new)
    (stratum,) = found.strata
    assert (stratum.task, stratum.labels["dimension"], "seed" in stratum.labels) == (
        "libero_goal/turn_on_the_stove",
        "benign",
        False,
    )
    assert [len(each) for each in (stratum.baseline, stratum.new)] == [2, 3]
    assert [len(each) for each in (found.agreement.only_baseline, found.agreement.only_new)] == [2, 3]


def test_what_seeds_draw_is_not_compared_between_seeds() -> None:
    def drawn(seeds: range, scene: str = "") -> Baseline:
        return baseline_of(
            [
                varied(
                    "layout.displacement-L2",
                    True,
                    seed=seed,
                    parameters={"x": seed},
                    provenance={"mujoco": "3.8.1", "scene": scene or f"drawn {seed}"},
                )
                for seed in seeds
            ]
        )

    assert unpaired(drawn(range(3)), drawn(range(5, 8))).agreement.disagreements == ()
    assert unpaired(drawn(range(1)), drawn(range(5, 6))).agreement.disagreements == (), "of one seed each"
    (found,) = unpaired(drawn(range(3), "a"), drawn(range(5, 8), "b")).agreement.disagreements
    assert (found.name, found.baseline, found.new, len(found.cases)) == ("scene", "a", "b", 3)


# Together.


def test_a_group_asks_for_its_own_disagreements() -> None:
    new = baseline_of([varied("", True, seed=seed, replan=5 if seed else None) for seed in SEEDS])
    found = paired(side(), new).agreement
    first, *others = [case.case for case in new.cases]
    assert found.of("refuses", [first]) == ()
    assert [each.name for each in found.of("refuses", others[:1])] == ["replan"]
    assert found.of("refuses")[0].cases == tuple(others)


def test_many_differences_of_one_condition_are_a_few_lines() -> None:
    one = [Disagreement("scene", "refuses", f"a{number}", f"b{number}", (f"case {number}",)) for number in range(9)]
    lines = lines_of(one)
    assert len(lines) == 4
    assert lines[-1] == "scene differs in 6 more ways (6 cases)"
    long = Disagreement("replan", "refuses", "\x1b[31m" + "x" * 500, 1, ("a",))
    assert len(long.text) < 300
    assert "\x1b" not in long.text


@settings(max_examples=scaled(30))
@given(st.lists(st.tuples(st.sampled_from(["", "light.diffuse-L2"]), st.integers(0, 3), st.integers(0, 1)), min_size=1))
def test_every_case_is_in_a_pair_or_on_one_side(cases: list[tuple[str, int, int]]) -> None:
    half = len(cases) // 2
    sides = [
        baseline_of([varied(label, True, seed=seed, run_seed=run) for label, seed, run in some])
        for some in (cases[: half + 1], cases[half:])
    ]
    found = paired(*sides)
    assert len(found.pairs) + len(found.agreement.only_baseline) == len(sides[0].cases)
    assert len(found.pairs) + len(found.agreement.only_new) == len(sides[1].cases)
    assert all(pair.baseline.key == pair.new.key for pair in found.pairs)
    assert found.agreement.disagreements == ()


def test_a_file_is_compared_as_the_records_are(tmp_path: Path) -> None:
    baseline, new = side("", "light.diffuse-L2"), side("", "light.diffuse-L2", replan=4)
    write_baseline(baseline, tmp_path / "file")
    assert paired(read_baseline(tmp_path / "file"), new) == paired(baseline, new)


def test_changes_are_by_how_cases_ended() -> None:
    before = baseline_of([varied("", outcome, seed=seed) for seed, outcome in enumerate([True, False, True, "error"])])
    after = baseline_of(
        [varied("", outcome, seed=seed, digest="9") for seed, outcome in enumerate([False, True, True, False])]
        + [varied("", True, seed=4)]
    )
    found = changes_of(before, after)
    seeds = [[pair.new.seed for pair in some] for some in (found.lost, found.gained, found.otherwise)]
    assert (seeds, found.moved, len(found.agreement.only_new)) == ([[0], [1], [3]], 1, 1)
    apart = changes_of(before, side(of=[9]))
    assert (len(apart.agreement.only_baseline), len(apart.agreement.only_new)) == (4, 1)


def test_no_label_is_said_twice() -> None:
    names = [row.name for row in CONDITIONS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z_.-]+", name) for name in names)


# What is one observation


def begun(seeds: Any, starts: int, differ: Any = (), fail: Any = (), **changes: Any) -> Baseline:
    """Episodes of seeds that share so many init states; those of some starts differ by seed, and some fail."""
    protocol = {**RECORD.protocol, "init_states": starts}

    def of(seed: int) -> Record:
        start = seed % starts
        digest = f"{start}{' ' + str(seed) if start in differ else ''}{'x' if start in fail else ''}"
        about = {"digest": f"{digest:<16}", "arrays": "x.npz", "protocol": protocol, "policy": "p", **changes}
        seeds = {"run": 0, "scene": seed, "init_state": start, "init_states": starts}
        return record_of(seed, "failure" if start in fail else "success", **{"seeds": seeds, **about})

    return baseline_of([of(seed) for seed in seeds])


def test_pairs_that_are_seen_twice_count_once() -> None:
    """4 lost of 50 starts are no regression, and no more so where each is seen twice or five times."""
    for times in (1, 2, 5):
        before, after = begun(range(50 * times), 50), begun(range(50 * times), 50, fail=range(4))
        found = distinct_pairs(paired(before, after))
        assert (len(found.pairs), found.agreement.copies) == (50, 50 * (times - 1))
        judged = judge(before, after, Terms(5.0, 0.05, ("suite",)))
        (group,) = judged.groups
        assert group.evidence is not None
        assert (group.evidence.pairs, group.evidence.lost, judged.verdict) == (50, 4, "undecided")
        assert any("from the same start" in note for note in found.agreement.notes) == (times > 1)


def test_draws_from_one_start_are_a_cluster() -> None:
    before, after = begun(range(100), 50), begun(range(100), 50, differ=range(50), fail=range(4))
    found = distinct_pairs(paired(before, after))
    assert (len(found.pairs), len({pair.unit for pair in found.pairs})) == (100, 50)


def test_unpaired_episodes_from_one_start_count_once() -> None:
    (stratum,) = unpaired(begun(range(10), 5), begun(range(50, 53), 100)).strata
    assert (len(stratum.baseline), len(stratum.new)) == (5, 3)


def test_a_baseline_of_a_suite_that_had_fewer_init_states_is_compared_where_it_began_alike() -> None:
    old, new = begun(range(50), 50), begun(range(50), 200)
    assert paired(old, new).agreement.of("refuses") == ()
    beyond = paired(begun(range(45, 55), 50), begun(range(45, 55), 200)).agreement.of("refuses")
    assert [(each.name, each.baseline, each.new) for each in beyond] == [("init_state", n, 50 + n) for n in range(5)]


def test_copies_are_known_from_the_file_too(tmp_path: Path) -> None:
    write_baseline(begun(range(20), 10), tmp_path / "file")
    read = read_baseline(tmp_path / "file")
    assert (len(read.cases), len(distinct_cases(read.cases))) == (20, 10)
    assert [case.init_state for case in read.cases if case.seed in (3, 13)] == [3, 3]


def test_a_log_proves_no_copy() -> None:
    logged = begun(range(10), 5, provenance={"imported": "a log"})
    assert len(distinct_cases(logged.cases)) == 10
    assert len({unit_of(case) for case in logged.cases}) == 5
