"""What a run agrees on before its first episode: cases, groups and terms, written and read back."""

import dataclasses
import json
from typing import Any

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.gate.baseline import baseline_of
from pytest_vla.gate.manifest import (
    MANIFEST,
    Manifest,
    baseline_digest,
    cases_digest,
    changes,
    looks_at,
    manifest_details,
    manifest_table,
    manifest_text,
    manifests_of,
    planned_groups,
    read_manifest,
)
from pytest_vla.gate.measures import parse_measures
from pytest_vla.gate.verdicts import Terms
from pytest_vla.plan.case import Case
from tests.support.varied import varied

RECORDS = [varied(each, True, task, seed) for each in ("", "camera.distance-L3") for task in "ab" for seed in range(3)]
BASELINE = baseline_of(dataclasses.replace(record, provenance={}) for record in RECORDS)
AGREED = Manifest("base.json", "b" * 16, "fixed", 5.0, 0.05, ("suite",), "no-regression", 6, "c" * 16, True, {"s": 6})


def cases(*seeds: int, label: str = "", task: str = "a") -> list[Case]:
    return [Case("libero_goal", task, seed, label) for seed in seeds]


def test_groups_are_of_what_both_have() -> None:
    planned = [*cases(0, 1, 9), *cases(0, label="camera.distance-L3"), *cases(0, task="z")]
    is_paired, groups = planned_groups(BASELINE, planned, 0, ("suite", "dimension"))
    assert is_paired
    assert groups == {"libero_goal[benign]": 2, "libero_goal[camera]": 1}


@pytest.mark.parametrize("run_seed", [0, 1])
def test_other_seeds_are_compared_by_task(run_seed: int) -> None:
    assert planned_groups(BASELINE, cases(7, 8), run_seed, ("suite",)) == (False, {"libero_goal": 2})


def test_the_same_seeds_are_pairs_under_another_run_seed() -> None:
    assert planned_groups(BASELINE, cases(0, 1), 1, ("suite",)) == (True, {"libero_goal": 2})


def test_nothing_in_common_is_refused() -> None:
    with pytest.raises(VlaError, match="no task under the same variation is in both"):
        planned_groups(BASELINE, cases(0, task="z"), 0, ("suite",))


def test_another_simulator_is_refused() -> None:
    elsewhere = baseline_of(dataclasses.replace(record, provenance={"mujoco": "1.0"}) for record in RECORDS)
    for planned in (cases(0, 1), cases(7, 8)):
        with pytest.raises(VlaError, match=r"MuJoCo differs \(baseline 1\.0, run "):
            planned_groups(elsewhere, planned, 0, ("suite",))


def test_measures_are_agreed_on() -> None:
    agreed = dataclasses.replace(AGREED, measures=("steps=10", "lower:jerk"))
    assert read_manifest(json.loads(json.dumps({MANIFEST: manifest_table(agreed)}))) == agreed
    assert manifest_text(agreed, "b").endswith("; also judged: steps=10, lower:jerk")
    told = changes(agreed, Terms(5.0, 0.05, ("suite",)), "no-regression", "b" * 16, parse_measures(["steps=10"]))
    assert told == ["set of measures differs from the run's gate plan: using steps=10; planned steps=10, lower:jerk"]
    same = changes(agreed, Terms(5.0, 0.05, ("suite",)), "no-regression", "b" * 16, parse_measures(agreed.measures))
    assert same == []


def test_it_is_read_as_it_was_written() -> None:
    stored = json.loads(json.dumps({MANIFEST: manifest_table(AGREED)}))
    assert read_manifest(stored) == AGREED
    assert read_manifest({}) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"margin": 0},
        {"margin": "much"},
        {"by": ["weather"]},
        {"groups": []},
        {"cases": None},
        {"by": None},
        {"measures": ["speed"]},
    ],
)
def test_what_is_damaged_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(VlaError, match="the run's gate plan cannot be read"):
        read_manifest({MANIFEST: manifest_table(AGREED) | wrong})
    with pytest.raises(VlaError, match="cannot be read"):
        read_manifest({MANIFEST: "all of it"})


def test_digests_name_what_is_in_it() -> None:
    assert cases_digest(["a", "b"]) == cases_digest(["b", "a"]) != cases_digest(["a"])
    other = dataclasses.replace(BASELINE, cases=BASELINE.cases[1:])
    assert baseline_digest(BASELINE) != baseline_digest(other)


def test_a_line_says_all_of_it() -> None:
    assert manifest_text(AGREED, "base.json") == (
        "gate plan: 6 cases vs base.json; margin 5 points, alpha 5% per side; fixed; fails on regression"
    )
    assert manifest_details(AGREED) == "gate plan details: cases cccccccc, baseline bbbbbbbb; cases by group: s 6"


def test_what_is_not_as_agreed_is_named() -> None:
    terms = Terms(5.0, 0.05, ("suite",))
    assert changes(AGREED, terms, "no-regression", "b" * 16) == []
    assert changes(AGREED, Terms(10.0, 0.1, ("task",)), "better", "d" * 16) == [
        f"{what} differs from the run's gate plan: using {used}; planned {planned}"
        for what, used, planned in (
            ("margin", "10 points", "5 points"),
            ("alpha", "0.1", "0.05"),
            ("grouping", "task", "suite"),
            ("requirement", "better", "no-regression"),
            ("baseline content", "dddddddd", "bbbbbbbb"),
        )
    ]


def test_a_sequential_gate_has_its_order() -> None:
    rule = {"rule": "sequential", "run_seed": 3, "order": "d" * 16, "rounds": {"s": 3}}
    sequential = dataclasses.replace(AGREED, **rule)
    table = json.loads(json.dumps({MANIFEST: manifest_table(sequential)}))
    assert table[MANIFEST].items() >= rule.items()
    assert read_manifest(table) == sequential
    assert not rule.keys() - {"rule"} & manifest_table(AGREED).keys(), "of fixed gates there is nothing of it"
    assert manifest_text(sequential, "base.json").endswith("; sequential, 3 rounds; fails on regression")
    assert manifest_details(sequential).endswith(
        "s 6; rounds: s 3; a group stops after the round that shows regression, no worse or better; order dddddddd "
        "from run seed 3"
    )
    for wrong in ({"rule": "soon"}, {"rounds": []}, {"order": None, "run_seed": "x"}, {"required": "much"}):
        with pytest.raises(VlaError, match="cannot be read"):
            read_manifest({MANIFEST: {**manifest_table(sequential), **wrong}})


def test_looks_are_those_of_one_policy_at_one_baseline_in_a_group_of_both() -> None:
    """Of outcomes that differ: a policy that does not draw does the same again, which is no further chance."""

    def look(
        manifests: list[Manifest], failed: int = 0, policy: str | None = "p", digest: str = "b", how: str = "failure"
    ) -> tuple[str, ...]:
        did = [dataclasses.replace(case, outcome=how if seed < failed else "success") for seed, case in some]
        return looks_at(digest, ["s"], dataclasses.replace(BASELINE, policy_digest=policy, cases=tuple(did)), manifests)

    def kept(looks: tuple[str, ...], **others: Any) -> Manifest:
        return dataclasses.replace(AGREED, **{"baseline_digest": "b", "looks": looks, **others})

    some = [*enumerate(BASELINE.cases)]
    first = kept(look([]))
    assert len(first.looks) == 1
    assert look([first]) == first.looks, "the same outcomes"
    second = kept(look([first], failed=1))
    assert second.looks[:1] == first.looks
    assert len(look([first, second], failed=2)) == 3
    assert len(look([first, second], failed=1)) == 2
    assert len(look([first, second])) == 1, "it was the first"
    assert len(look([second, kept(()), kept(("nobody's",))], failed=2)) == 3, "also where the first run is gone"
    assert len(look([first, second], failed=2, policy="q")) == 1
    assert len(look([first, second], failed=2, policy=None)) == 1
    assert len(look([first, second], failed=2, digest="c")) == 1
    assert look([first], failed=len(some), how="error") == ()
    assert len(look([kept(first.looks, groups={"t": 6})], failed=1)) == 1


def test_of_other_runs_what_cannot_be_read_is_no_look() -> None:
    agreed = dataclasses.replace(AGREED, looks=("p a", "p b"))
    good, damaged = ({MANIFEST: json.loads(json.dumps(manifest_table(agreed))) | each} for each in ({}, {"looks": 2}))
    assert manifests_of({"a": {}, "b": good, "c": damaged, "d": {MANIFEST: 1}}) == {"b": agreed}
    with pytest.raises(VlaError, match="looks 2"):
        read_manifest(damaged)
