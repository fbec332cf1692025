"""LIBERO-Para's suite: the CSV's paraphrases as variations of LIBERO-Goal's tasks."""

import collections
import warnings
from pathlib import Path

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.language.published import FILE
from pytest_vla.plan.case import Case, parse_node_id
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.select import SamplingStratum, plan, sample, with_twins
from pytest_vla.vary.registry import find_variation, labels_of
from tests.support.data import data_root, needs_data

PARA = data_root()


def all_cases() -> tuple[Case, ...]:
    return plan([load_suite("libero_para", data=PARA)], labels=lambda task: labels_of(task))


@needs_data
def test_the_whole_suite_is_what_the_paper_runs() -> None:
    cases = all_cases()
    assert len(cases) == 20_460
    assert len({case.variation + case.task for case in cases}) == 4092
    assert {case.seed for case in cases} == {7, 8, 9, 10, 11}
    assert len({case.node_id for case in cases}) == len(cases)
    suite = load_suite("libero_para", data=PARA)
    assert (suite.protocol.init_state, suite.protocol.max_steps, suite.tasks[0].files) == (0, 300, "libero_goal")
    assert len({case.variation.rpartition(".")[0] for case in cases}) == 43


@needs_data
def test_ids_lead_back_to_their_cases() -> None:
    for case in all_cases()[::97]:
        assert parse_node_id(case.node_id) == case


@needs_data
def test_a_variation_is_the_row_of_the_csv() -> None:
    task = load_suite("libero_para", data=PARA).task("open_the_middle_drawer_of_the_cabinet")
    variation = find_variation(task, "none.addition_deletion.0", 7)
    assert variation is not None
    assert variation.instruction == "gently open the middle drawer of the cabinet"
    assert variation.parameters == {
        "object_type": "none",
        "action_type": "addition_deletion",
        "index": 0,
        "original": "open the middle drawer of the cabinet",
        "s_k": 1.0,
        "s_t": 14 / 15,
        "similarity_by": "published libero-para csv c34b4982",
    }
    with pytest.raises(VlaError, match=r"has no variation 'none.addition_deletion.99'. Did you mean none.addition"):
        find_variation(task, "none.addition_deletion.99", 7)


@pytest.mark.slow
@needs_data
def test_a_sample_has_as_many_of_each_cell() -> None:
    cases = all_cases()

    def stratum(case: Case) -> SamplingStratum:
        return SamplingStratum("language", case.variation.rpartition(".")[0], "", case.task)

    for count in (43, 86, 430, 100):
        drawn = sample(cases, count, 3, stratum)
        assert len(drawn) == count
        per_cell = collections.Counter(case.variation.rpartition(".")[0] for case in drawn)
        assert max(per_cell.values()) - min(per_cell.values()) <= 1
        assert sample(cases, count, 3, stratum) == drawn
        assert sample(cases, count, 4, stratum) != drawn
        assert sorted(drawn, key=cases.index) == list(drawn)
    assert sample(cases, 10**6, 0) == cases


@needs_data
def test_a_csv_that_was_cut_is_told_in_one_line(tmp_path: Path) -> None:
    assert PARA is not None
    whole = (PARA / "libero_para" / FILE).read_text(encoding="utf-8").splitlines()
    (tmp_path / FILE).write_text("\n".join(whole[:2000]), encoding="utf-8")
    suite = load_suite("libero_para", data=tmp_path)
    with pytest.warns(UserWarning, match="paraphrases where 4092 are published") as told:
        assert len(plan([suite], labels=lambda task: labels_of(task))) == 5 * 1999
    (message,) = [str(each.message) for each in told]
    assert message.startswith(f"{tmp_path / FILE} has 1999 paraphrases where 4092 are published: ")
    assert " of 416 of 'open the middle drawer of the cabinet', " in message
    assert " and 7 more tasks; " in message
    assert "\n" not in message
    (tmp_path / FILE).write_text("\n".join(whole), encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Of what an earlier test left open, which may be collected here.
        warnings.simplefilter("ignore", ResourceWarning)
        assert len(plan([suite], labels=lambda task: labels_of(task))) == 20_460


def test_twins_come_once_and_first() -> None:
    cases = [Case("s", "t", seed, label) for label in ("a", "b") for seed in (1, 2)]
    assert with_twins(cases) == (Case("s", "t", 1), Case("s", "t", 2), *cases)
    assert with_twins(with_twins(cases)) == with_twins(cases)


def test_without_the_csv_the_message_says_what_to_give(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTEST_VLA_DATA", str(tmp_path))
    with pytest.raises(VlaError, match=r"libero_para_metadata.csv was not found: give a checkout .* by --vla-data or"):
        labels_of(load_suite("libero_para", data=tmp_path / "none").tasks[0])
