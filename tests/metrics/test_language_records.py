"""Which records are reported together."""

import dataclasses

from pytest_vla.metrics.language import benign_rate, pair_of, subjects
from pytest_vla.records.record import Record
from tests.support.paraphrased import PLATE, STOVE, para_record, paraphrased, probed


def test_models_and_suites_are_apart() -> None:
    records = [
        paraphrased(STOVE, 0, "success"),
        paraphrased(STOVE, 0, "success", policy="other"),
        paraphrased(STOVE, 0, "success", suite="tabletop"),
        para_record(STOVE, 7, "success", {}, "turn on the stove", policy="benign only"),
    ]
    found = subjects(records)
    assert [(each.model, each.suite, len(each.paraphrases)) for each in found] == [
        ("random", "libero_para", 1),
        ("random", "tabletop", 1),
        ("other", "libero_para", 1),
    ]


def test_benign_success_is_that_of_the_twins_of_the_same_run_seed() -> None:
    told = [paraphrased(STOVE, index, "success") for index in range(2)]
    twins = [para_record(STOVE, 7, "failure", {}, "turn on the stove", seeds={"run": seed}) for seed in (0, 1)]
    (subject,) = subjects([*told, twins[0], dataclasses.replace(twins[1], outcome="success")])
    found = benign_rate(subject)
    assert found is not None
    assert (found.successes, found.counted) == (0, 1)


def test_two_protocols_are_two_subjects() -> None:
    def rewritten(protocol: str, outcome: str) -> Record:
        about = {"label": protocol, "dimension": "language", "kind": "rewrite", "level": 2}
        variation = {**about, "parameters": {"protocol": protocol}}
        return para_record(STOVE, 0, outcome, variation, "do it")

    records = [rewritten("upstream", "failure"), rewritten("paper", "success")]
    assert [
        (each.protocol, [record.outcome for record in each.others["rewrite level 2"]]) for each in subjects(records)
    ] == [("paper", ["success"]), ("upstream", ["failure"])]


def test_the_order_in_which_episodes_ended_does_not_matter() -> None:
    records = [paraphrased(task, index, "success") for task in (STOVE, PLATE) for index in range(5)]
    (one,), (other,) = subjects(records), subjects(records[::-1])
    assert one.paraphrases == other.paraphrases


def test_every_kind_has_its_place() -> None:
    strange = paraphrased(STOVE, 1, "success", types=("shouting", "hint"))
    (found,) = subjects(
        [
            paraphrased(STOVE, 0, "success"),
            strange,
            probed(STOVE, "other_task", "failure"),
            probed(STOVE, "other_task", "failure", seed=8),
            para_record(STOVE, 7, "success", {}, "turn on the stove"),
        ]
    )
    assert (len(found.paraphrases), len(found.probes), len(found.benign)) == (1, 2, 1)
    assert dict(found.others) == {"paraphrase": (strange,)}
    assert len(found.varied) == 4


def test_two_versions_of_a_policy_are_told() -> None:
    records = [paraphrased(STOVE, number, "success", policy_digest=f"d{number}") for number in range(2)]
    assert subjects(records)[0].left_out == ("these records come from more than one version of the policy",)


def test_the_original_is_the_records_or_the_tasks() -> None:
    record = paraphrased(PLATE, 0, "success")
    assert pair_of(record) == ("put the bowl on the plate", "could you gladly put the bowl on the plate")
    words = para_record(PLATE, 0, "success", {"label": "w", "parameters": {}}, "put the jorum on the plate")
    assert pair_of(words) == ("put the bowl on the plate", "put the jorum on the plate")
