"""The schemas of reports and records: real ones are as they say, and one thing wrong in them is a fault."""

import argparse
import copy
import json
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pytest_vla import extensions
from pytest_vla.commands import export as export_command
from pytest_vla.entries import SectionEntry
from pytest_vla.plan.costs import Charge
from pytest_vla.records.record import Record, record_line
from pytest_vla.records.runs import TimeLimitSample, sample_table
from pytest_vla.reports.export import record_schema
from pytest_vla.reports.json_schema import report_schema
from pytest_vla.reports.loaded import Loaded
from pytest_vla.reports.sections import report_table
from tests.support.records import record_of
from tests.support.reports import RESULTS, faults_of, report, write

LIGHT = {"dimension": "light", "kind": "diffuse", "level": 3, "label": "light.diffuse-L3", "seed": 1, "probe": False}


def varied(seed: int, outcome: str) -> Record:
    record = record_of(seed, outcome)
    node, case = (text.replace("seed", "light.diffuse-L3-seed") for text in (record.node, record.case))
    return replace(record, variation=LIGHT, node=node, case=case, digest=f"varied {seed}")


@pytest.fixture
def table(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return the report of a run with variations, twins, costs, errors and a metric of another package."""
    monkeypatch.chdir(tmp_path)
    force = Charge("force", 2.5, step=3, account="paper", kind="instant", bodies=("vase", "hand"), force=4.0)
    more: dict[str, Any] = {"metrics": {"way": 1.5}, "costs": (force,)}
    benign = [replace(record_of(seed, "success", digest=f"{seed}"), **more) for seed in range(6)]
    write([*benign, *(varied(seed, "failure" if seed < 3 else "success") for seed in range(5)), varied(5, "error")])
    capsys.readouterr()
    report("--format=json")
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def wrong_ones(table: Any, schema: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield places of a table, each with a wrong value, or with `...` if the place is to be removed."""
    if isinstance(table, dict):
        for key, value in table.items():
            yield (*at, key), ...
            yield from wrong_ones(value, schema, (*at, key))
    elif isinstance(table, list):
        for number, value in enumerate(table[:2]):
            yield from wrong_ones(value, schema, (*at, number))
    else:
        yield at, {"wrong": {}}
        yield at, ["wrong"]


def with_wrong(table: Any, at: tuple[Any, ...], value: Any) -> Any:
    found = copy.deepcopy(table)
    place = found
    for key in at[:-1]:
        place = place[key]
    if value is ...:
        del place[at[-1]]
    else:
        place[at[-1]] = value
    return found


FREE = ("errors", "invalid", "costs")
"""Tables by name: none of their keys has to be there."""


def test_one_thing_wrong_in_a_report_is_a_fault(table: dict[str, Any]) -> None:
    assert faults_of(table) == []
    assert {"robustness", "safety", "metrics"} <= table.keys() & table["models"][0].keys()
    validator = Draft202012Validator(report_schema())
    tried = 0
    for at, value in wrong_ones(table, None):
        if value is ... and (at[-2:-1] and at[-2] in FREE):
            continue
        if value is ... and at[-1] in ("robustness", "safety", "metrics"):
            # A report without a part has none of its keys.
            continue
        tried += 1
        assert not validator.is_valid(with_wrong(table, at, value)), (at, value)
    assert tried > 300
    assert faults_of({**table, "schema": 2})
    assert faults_of({**table, "more": 1})
    assert faults_of({**table, "models": [{**table["models"][0], "benign": None}]}), "of the language all keys or none"


def test_runs_that_time_has_ended_are_told(table: dict[str, Any]) -> None:
    sample = TimeLimitSample("--vla-max-hours=2", 4, 20, True, 2, 2, 0.2, 0.5, 8)
    told = report_table([], Loaded((), {}, {}, {"a-run": sample}))
    (stopped,) = told["stopped"]
    assert stopped == {"run": "a-run", **sample_table(sample)}
    assert faults_of({**table, "stopped": [stopped]}) == []
    for key in stopped:
        assert faults_of({**table, "stopped": [{**stopped, key: None}]})
    assert "stopped" not in report_table([], Loaded((), {}, {}))


def test_the_schemas_are_schemas(capsys: pytest.CaptureFixture[str]) -> None:
    for schema in (report_schema(), record_schema()):
        Draft202012Validator.check_schema(schema)
    report("--schema")
    assert json.loads(capsys.readouterr().out) == report_schema()
    parser = argparse.ArgumentParser()
    export_command.declare(parser)
    export_command.run(parser.parse_args(["--schema"]))
    assert json.loads(capsys.readouterr().out) == record_schema()
    assert (report_schema()["$id"], record_schema()["$id"]) == ("urn:pytest-vla:report:1", "urn:pytest-vla:record:4")


def test_a_part_without_a_schema_may_have_any_keys(table: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    entries = (*extensions.sections(), SectionEntry("theirs", "theirs", "theirs:make"))
    monkeypatch.setattr(extensions, "sections", lambda: entries)
    assert faults_of({**table, "more": 1}) == []
    assert faults_of({**table, "notes": 1})


def test_a_record_is_as_its_schema_says() -> None:
    schema = record_schema()
    assert schema["properties"].keys() - {"counts"} == {each.name for each in fields(Record)} - {"unknown"}
    validator = Draft202012Validator(schema)
    force = Charge("force", 2.5, step=3, account="paper", kind="instant", bodies=("vase", "hand"), force=4.0)
    whole = replace(varied(0, "success"), costs=(force,), metrics={"way": 1.5}, success_step=2, task_level="L1")
    others = [record_of(1, "error"), record_of(2, "invalid"), record_of(3, "failure"), varied(4, "success")]
    for record in (whole, *others):
        assert [*validator.iter_errors(json.loads(record_line(record)))] == []
    table = json.loads(record_line(whole))
    tried = 0
    by_name = ("literals", "metrics", "seeds", "provenance", "timings", "parameters", "variation", "costs")
    for at, value in wrong_ones(table, None):
        # Of a protocol all is free, and what stands in tables by name need not be there.
        if at[0] == "protocol" or at[-1] == "task_level" or (value is ... and len(at) > 1 and at[0] in by_name):
            continue
        tried += 1
        assert not validator.is_valid(with_wrong(table, at, value)), (at, value)
    assert tried > 80
    for wrong in ({"reason": "no-such-code"}, {"outcome": "done"}, {"success_step": 3}, {"seed": -1}, {"steps": 1.5}):
        assert not validator.is_valid(json.loads(record_line(others[0])) | wrong), wrong
    assert validator.is_valid(table | {"later": 1, "counts": True})


def test_exported_lines_are_records(table: dict[str, Any], tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    export_command.declare(parser)
    export_command.run(parser.parse_args([f"--results={RESULTS}", "-o", "out.jsonl"]))
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(lines) == 12
    assert [*map(Draft202012Validator(record_schema()).is_valid, lines)] == [True] * 12
