"""Records of other versions: older ones are read, what later ones add is kept, and a later schema is refused."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.plan.costs import Charge, totals
from pytest_vla.records.counting import conditions_of, key_of
from pytest_vla.records.record import SCHEMA, STEPS, Record, migrated, parse_record, record_line
from pytest_vla.records.trajectory import digest_of, load_trajectory
from pytest_vla.suites.libero_para.import_log import LIBERO_PARA
from tests.support.records import RECORD

OLD = Path(__file__).with_name("old")
LINES = (OLD / "schema_3.jsonl").read_text().splitlines()
"""Written by the last version of schema 3, of seven suites, a log and a world of a suite's own; never renewed."""

TABLE = json.loads(record_line(RECORD))
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("line", LINES, ids=[json.loads(line)["case"] for line in LINES])
def test_a_record_of_schema_3_says_what_it_said(line: str) -> None:
    before, record = json.loads(line), parse_record(line)
    after = json.loads(record_line(record))
    changed = {"schema", "costs", "simulator"}
    assert {name: after[name] for name in before.keys() - changed} == {
        name: value for name, value in before.items() if name not in changed
    }
    assert (after.keys() ^ before.keys(), after["schema"]) == ({"simulator"}, SCHEMA)
    assert totals(record.costs) == before["costs"]
    assert parse_record(record_line(record)) == record


def test_what_was_charged_before_there_was_a_ledger_has_no_step() -> None:
    record = next(each for each in map(parse_record, LINES) if each.costs)
    assert record.costs == (Charge("sideways", 0.125),)
    assert record.simulator == ("scene", "world"), "not numpy, or the platform"
    trajectory = load_trajectory(OLD / "schema_3.npz")
    assert (len(trajectory.actions), dict(trajectory.series)) == (record.steps, {})
    assert digest_of(record.outcome, record.steps, record.literals, trajectory) == record.digest


def test_the_old_lines_are_of_many_suites() -> None:
    records = list(map(parse_record, LINES))
    assert {record.suite for record in records} == {
        *("point", "tabletop", "libero_goal", "libero_para", "libero_plus_goal")
    }
    assert {record.outcome for record in records} == {"success", "failure", "error"}
    assert any(record.provenance.get("imported") == LIBERO_PARA for record in records)


# By the version of schema 3: stores have them as `case_key`.
KEYS = (
    "7aefa7a53fe2f02d214bac320e566bc04d3cc546c749e2cb05b6840016031791",
    "9811b06a36c7f9502b2715b593e1aa04be12638656f48c6a1446209fdc195157",
    "e69444b585d7891b4d917c8f394d07353c652fae1e235353b27f854f05112113",
    "7c61a2a767c5e2d0b1f2f51cbd5588ebc3c5eb3a81075ca8c0c78c17a27d2d61",
    "7646f93afbb2275fe7031dd35701ae028bd2e244d6134803437039f56c40020d",
    "9c711a94da6e949285efd2a6add262b4dc278916cb085c24ed69b2f4240a8488",
    "daa7d77302dc96e1d5b7ce6c0edd30deec90d1509e05ae4d7a9267fd7dc7820d",
    "c539f55b518dd36f1fd097cd1cbb282226bc6efd14eafadbf470016227e851f1",
    "d839ccdb89af23f7e995075093ce027877723d66e70a2ccf78a4264f496fce37",
    "29b50f2404c57096748b6c4b027bde248c211d78583a7333ad418d15e10929ef",
    "8201e31854d35202bbdfb160d2cfa56a6034dd517e33126ce080d30c2cc98650",
)


@pytest.mark.parametrize(
    ("line", "key"), [*zip(LINES, KEYS, strict=True)], ids=[json.loads(line)["case"] for line in LINES]
)
def test_a_case_of_mujoco_is_the_case_that_it_was(line: str, key: str) -> None:
    record = parse_record(line)
    assert (key_of(record).text == key) == (not record.simulator)


def test_what_an_own_world_says_is_of_the_case() -> None:
    conditions = conditions_of(parse_record(LINES[0]))
    own = {name: text for name, text in conditions.items() if name.startswith("world.")}
    assert own == {"world.scene": "a point", "world.world": "pytest_vla.testing.PointWorld"}


def test_every_schema_from_the_oldest_on_has_its_step() -> None:
    assert sorted(STEPS) == list(range(min(STEPS), SCHEMA))


@given(st.dictionaries(st.sampled_from(["costs", "provenance", "run", "x"]), PLAIN))
def test_a_step_breaks_on_nothing_and_changes_no_table(table: dict[str, Any]) -> None:
    for schema in STEPS:
        given = {**table, "schema": schema}
        before = json.dumps(given)
        found = migrated(given)
        assert (found["schema"], json.dumps(given)) == (SCHEMA, before)
        assert found.keys() >= given.keys()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"schema": SCHEMA + 1},
            rf"^not a record of schema 3 to {SCHEMA}: schema is {SCHEMA + 1}, of a later version; ",
        ),
        ({"schema": 99, "provenance": {"pytest-vla": "7.1"}}, "schema is 99, of pytest-vla 7.1; upgrade pytest-vla"),
        ({"schema": 99, "provenance": {"pytest-vla": "\x1b[2J"}}, r"of pytest-vla \?\[2J; upgrade"),
        ({"schema": 2}, "schema is 2; read it with the version that wrote it"),
        ({"schema": True}, "schema is True; read it with"),
        ({"schema": "4"}, "schema is '4'; read it with"),
    ],
)
def test_a_record_of_a_schema_that_cannot_be_read_says_what_to_do(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(VlaError, match=complaint):
        parse_record(json.dumps({**TABLE, **changes}))


@given(
    st.dictionaries(st.text(max_size=9).filter(lambda name: name not in TABLE), PLAIN, max_size=3),
    st.dictionaries(st.sampled_from(["torque", "force_n"]), PLAIN),
)
def test_what_a_later_version_adds_is_kept(unknown: dict[str, Any], of_charge: dict[str, Any]) -> None:
    charge = {"name": "force", "step": 2, "amount": 0.5, **of_charge}
    inner = {name: {**TABLE[name], "of a later one": value} for name, value in (("provenance", "x"), ("metrics", 1.5))}
    table = {**TABLE, **unknown, **inner, "costs": [charge]}
    record = parse_record(json.dumps(table))
    assert (record.unknown, record.costs[0].unknown) == (unknown, of_charge)
    assert json.loads(record_line(record)) == table
    assert json.loads(record_line(dataclasses.replace(record, attempt=2))) == {**table, "attempt": 2}


def test_a_field_of_a_later_version_cannot_take_the_place_of_one_of_ours() -> None:
    assert json.loads(record_line(dataclasses.replace(RECORD, unknown={"outcome": "success"})))["outcome"] == "failure"


@pytest.mark.parametrize("value", [2**70, [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]])
def test_what_cannot_be_kept_is_refused_by_name(value: Any) -> None:
    with pytest.raises(VlaError, match=r"^not a record: 'later': expected numbers, texts, lists"):
        parse_record(json.dumps({**TABLE, "later": value}))


def test_a_record_without_what_was_added_since_has_its_default() -> None:
    assert parse_record(json.dumps({name: value for name, value in TABLE.items() if name != "simulator"})) == RECORD


@pytest.mark.parametrize(
    "costs",
    [
        *({"force": 1.0}, None, "force", [1], [{}], [{"name": "force"}], [{"name": 1, "amount": 1}]),
        *([{"name": "force", "amount": amount}] for amount in (None, "1", True, 2**70)),
        *([{"name": "force", "amount": 1, "step": step}] for step in (-1, 1.5, True, "1")),
        *([{"name": "force", "amount": 1, name: 3}] for name in ("by", "text")),
    ],
)
def test_a_ledger_with_anything_else_in_it_is_refused(costs: Any) -> None:
    with pytest.raises(VlaError, match=r"^not a record: costs: expected a ledger"):
        parse_record(json.dumps({**TABLE, "costs": costs}))


def test_a_record_without_costs_is_read_back() -> None:
    assert RECORD.costs == ()
    assert parse_record(record_line(RECORD)) == RECORD
    added = {"unknown", "task_level", "group", "given", "retried"}
    assert {field.name for field in dataclasses.fields(Record)} - TABLE.keys() == added
