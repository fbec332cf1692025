"""Exported records say what the records say, in types and columns that other programs understand."""

import csv
import dataclasses
import io
import json
from collections.abc import Iterable
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.plan.costs import Charge
from pytest_vla.records.record import Record, record_line
from pytest_vla.reports.export import FORMATS, export, flatten
from tests.support.records import RECORD, record_of

FIRST = [
    *("schema", "run", "case", "twin", "node", "suite", "task", "seed", "attempt", "worker", "started", "instruction"),
    *("outcome", "reason", "message", "steps", "success_step", "literals", "eef_pos.x", "eef_pos.y", "eef_pos.z"),
]


def exported(records: Iterable[Record], format: str) -> bytes:
    lines = [record_line(record) for record in records]
    stream = io.BytesIO()
    export(lambda: iter(lines), format, stream)
    return stream.getvalue()


def csv_rows(records: Iterable[Record]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(exported(records, "csv").decode(), newline="")))


def parquet(records: Iterable[Record]) -> Any:
    return pq.read_table(io.BytesIO(exported(records, "parquet")))


def test_a_column_for_each_value_of_any_row() -> None:
    one = record_of(0, "success", metrics={"smoothness": 1.5, "a": 2.0}, provenance={"numpy": "2.4", "mujoco": "3.8.1"})
    costs = (Charge("force", 0.125, 1), Charge("force", 0.125, 2, by="vase"))
    two = record_of(1, metrics={"length": 3.0}, costs=costs, eef_pos=None)
    table = parquet([one, two])
    assert table.column_names == [
        *FIRST,
        *("costs.force", "metrics.a", "metrics.length", "metrics.smoothness"),
        *("seeds.init_state", "seeds.init_states", "seeds.run", "seeds.scene"),
        *("protocol.cameras", "protocol.init_state", "protocol.max_steps", "replan", "policy", "policy_digest"),
        *(
            "provenance.mujoco",
            "provenance.numpy",
            "timings.wall",
            "digest",
            "arrays",
            "simulator",
            "task_level",
            "group",
            "given",
            "retried",
        ),
    ]
    assert list(csv_rows([one, two])[0]) == table.column_names
    first, second = table.to_pylist()
    assert (first["metrics.a"], first["metrics.length"], first["costs.force"]) == (2.0, None, None)
    assert (second["metrics.a"], second["metrics.length"], second["eef_pos.x"]) == (None, 3.0, None)
    assert json.loads(first["literals"]) == {"(turnon flat_stove_1)": [[0, False], [1, True], [2, False]]}
    assert first["protocol.cameras"] == '["agentview"]'


def test_accounts_of_costs_are_never_in_one_column() -> None:
    charges = (Charge("(fall a)", 10.0, 4, account="paper"), Charge("(fall a)", 50.0, 4, account="upstream"))
    touched = (Charge("touch", 1.0, 1, account="paper"), Charge("touch", 2.0, 3, account="paper"))
    (row,) = parquet([dataclasses.replace(RECORD, costs=(*touched, *charges, Charge("own", 0.5, 1)))]).to_pylist()
    costs = {name: value for name, value in row.items() if name.startswith("costs.")}
    assert costs == {
        "costs.own": 0.5,
        "costs.paper": 13.0,
        "costs.paper.(fall a)": 10.0,
        "costs.paper.touch": 3.0,
        "costs.upstream": 50.0,
        "costs.upstream.(fall a)": 50.0,
    }


def test_parquet_has_types_whatever_the_values() -> None:
    """Check that files of different runs go together: a column of nulls keeps its type."""
    charged = dataclasses.replace(RECORD, costs=(Charge("force", 1, 1),))
    types = {field.name: str(field.type) for field in parquet([charged]).schema}
    assert {types[name] for name in ("schema", "seed", "steps", "success_step", "replan", "seeds.run")} == {"int64"}
    assert {types[name] for name in ("eef_pos.x", "timings.wall", "costs.force")} == {"double"}
    assert {types[name] for name in ("outcome", "reason", "policy_digest", "arrays", "literals")} == {"string"}
    assert {field.name for field in parquet([]).schema} >= set(FIRST)


@pytest.mark.parametrize(
    ("values", "kind", "read"),
    [
        ([1, 2, None], "int64", [1, 2, None]),
        ([1, 2.5], "double", [1.0, 2.5]),
        ([True, None], "bool", [True, None]),
        (["a", None], "string", ["a", None]),
        ([None, None], "null", [None, None]),
        ([1, "a", None, [1, 2], True], "string", ["1", "a", None, "[1, 2]", "true"]),
    ],
)
def test_a_protocol_s_values_have_the_type_that_they_share(values: list[Any], kind: str, read: list[Any]) -> None:
    table = parquet([record_of(0, protocol={"x": value}) for value in values])
    assert str(table.schema.field("protocol.x").type) == kind
    assert table["protocol.x"].to_pylist() == read


def test_values_of_a_wrong_type_are_told() -> None:
    with pytest.raises(VlaError, match=r"not a record: .*: expected "):
        parquet([dataclasses.replace(RECORD, metrics={"length": "long"})])  # type: ignore[dict-item]
    with pytest.raises(VlaError, match=r"not a record: .*: expected "):
        parquet([dataclasses.replace(RECORD, seeds={"run": 2**70})])


# What is read back from csv has lost its type and the difference between null and nothing.
@given(
    message=st.none() | st.text(),
    instruction=st.text(),
    metrics=st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False), max_size=3),
    eef_pos=st.none() | st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 3),
)
def test_every_value_is_read_back(**fields: Any) -> None:
    records = [dataclasses.replace(RECORD, **fields), record_of(1, "success", success_step=2, replan=8)]
    for record, row in zip(records, parquet(records).to_pylist(), strict=True):
        assert {name: value for name, value in row.items() if value is not None} == {
            name: value for name, value in flatten(record).items() if value is not None
        }
    for record, row in zip(records, csv_rows(records), strict=True):
        for name, value in flatten(record).items():
            if isinstance(value, bool):
                value = str(value).lower()
            assert row[name] in (("",) if value is None else (str(value), f"'{value}"))


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\uff1d1"])
def test_text_is_no_formula_in_csv_and_exact_elsewhere(text: str) -> None:
    record = dataclasses.replace(RECORD, message=text, instruction=f"put {text}", metrics={"x": -1.5})
    (row,) = csv_rows([record])
    assert (row["message"], row["instruction"]) == (f"'{text}", f"put {text}")
    assert (row["metrics.x"], row["eef_pos.y"]) == ("-1.5", "-0.2"), "a number is no text"
    assert parquet([record])["message"].to_pylist() == [text]
    assert json.loads(exported([record], "jsonl"))["message"] == text


def test_csv_writes_truth_in_lower_case_and_null_as_nothing() -> None:
    (row,) = csv_rows([dataclasses.replace(RECORD, protocol={"strict": True, "loose": False, "pinned": None})])
    assert (row["protocol.strict"], row["protocol.loose"], row["protocol.pinned"], row["reason"]) == (
        "true",
        "false",
        "",
        "",
    )


def test_csv_has_plain_line_ends() -> None:
    text = exported([RECORD, RECORD], "csv")
    assert (text.count(b"\n"), text.count(b"\r")) == (3, 0)


def test_halves_of_characters_are_written_as_escapes() -> None:
    """Check a message with a file name that is not UTF-8."""
    record = dataclasses.replace(RECORD, message="\udcff")
    assert csv_rows([record])[0]["message"] == parquet([record])["message"].to_pylist()[0] == r"\udcff"


def test_jsonl_is_the_lines_as_they_are() -> None:
    stream = io.BytesIO()
    export(lambda: ["{}", '{"schema":1}'], "jsonl", stream)
    assert stream.getvalue() == b'{}\n{"schema":1}\n'


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_nothing_is_written_of_records_of_another_schema(format: str) -> None:
    stream = io.BytesIO()
    old = '{"schema":1,"run":"old-run"}'
    with pytest.raises(VlaError, match=r"old-run.*not a record of schema .*jsonl writes it as it is"):
        export(lambda: [record_line(RECORD), old], format, stream)
    assert stream.getvalue() == b""


def test_many_rows_come_in_their_order() -> None:
    records = [record_of(seed) for seed in range(4321)]
    assert parquet(records)["seed"].to_pylist() == list(range(4321))


def test_the_formats_are_all_there() -> None:
    assert {format: bool(exported([RECORD], format)) for format in FORMATS} == dict.fromkeys(FORMATS, True)
