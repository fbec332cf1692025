"""A baseline's values and its file: what stands in it, that it comes back as it was, and what of others' is refused."""

import dataclasses
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.gate.baseline import baseline_of, case_result, counting_of, differences, layers_of, merged
from pytest_vla.gate.baseline_file import SCHEMA, migrated, read_baseline, text_of, write_baseline
from pytest_vla.metrics.success import unit_of
from pytest_vla.plan.costs import Charge
from pytest_vla.records.record import Record, parse_record
from pytest_vla.versions import installed
from tests.support.examples import scaled
from tests.support.records import RECORD, record_of
from tests.support.varied import varied

COSTS = (Charge("touch", 0.0, 0, account="collisions"), Charge("shove", 2.5, 4, account="collisions"))
OLD = Path(__file__).parents[1] / "records" / "old" / "schema_3.jsonl"


def some() -> list[Record]:
    """Two tasks, benign and varied, of every outcome."""
    return [
        varied("", True, steps=60, success_step=60, digest="ab" * 32, costs=COSTS),
        varied("", False, seed=1, steps=300, costs=COSTS[:1]),
        varied("", "invalid", seed=13, steps=0),
        varied("light.diffuse-L2", True, steps=70, success_step=70, parameters={"gain": (0.84, 0.812), "n": 2}),
        varied("camera.distance-L3+light.shadow-L1", False, task="open_the_drawer", metrics={"jerk": 1 / 3}),
        varied("language.blank", "error", task="open_the_drawer", seed=2, provenance={}),
    ]


def saved(records: list[Record], folder: Path) -> Path:
    file = folder / "baseline.vla.json"
    write_baseline(baseline_of(records), file)
    return file


def test_the_file_has_shared_conditions_once_and_a_line_for_each_case(tmp_path: Path) -> None:
    text = saved(some(), tmp_path).read_text()
    common, _, rest = text.partition('"suites": {')
    assert '"protocol.max_steps": 300,\n' in common
    assert '"provenance.mujoco": "3.8.1",\n' in common
    assert text.count("max_steps") == text.count("3.8.1") == 1
    assert f'"made_by": "pytest-vla {installed("pytest-vla")}",\n"model": "random",\n' in common
    lines = rest.partition('"cases": [\n')[2].splitlines()[:-2]
    assert [json.loads(line.rstrip(","))["case"] for line in lines] == sorted(record.case for record in some())
    benign = next(line for line in lines if "stove[seed0]" in line)
    assert benign == (
        '{"case": "libero_goal/turn_on_the_stove[seed0]", "outcome": "success", "steps": 60, '
        f'"digest": "{"ab" * 8}", "costs": {{"collisions": {{"shove": 2.5}}}}, '
        '"but": {"charged": {"collisions": ["shove", "touch"]}}},'
    )


def test_what_comes_back_is_what_was_written(tmp_path: Path) -> None:
    baseline = baseline_of(some())
    again = read_baseline(saved(some(), tmp_path))
    assert again == baseline
    by_case = {case.case: case for case in again.cases}
    plain = by_case["libero_goal/turn_on_the_stove[seed0]"]
    assert plain.costs == {"collisions": {"touch": 0.0, "shove": 2.5}}
    assert by_case["libero_goal/turn_on_the_stove[seed1]"].costs == {"collisions": {"touch": 0.0}}
    assert (plain.protocol, plain.success_step) == (
        {name: value for name, value in RECORD.protocol.items() if value is not None},
        60,
    )
    joint = by_case["libero_goal/open_the_drawer[camera.distance-L3+light.shadow-L1-seed0]"]
    assert (joint.variation["dimension"], joint.variation["kind"]) == ("camera+light", "distance+shadow")
    assert (joint.variation["level"], joint.metrics) == (None, {"jerk": 0.333333333})
    assert unit_of(joint) == unit_of(some()[4])


def test_an_error_that_could_tell_nothing_is_under_its_tasks_conditions(tmp_path: Path) -> None:
    broken = next(case for case in baseline_of(some()).cases if case.outcome == "error")
    assert (broken.reason, broken.condition("provenance.mujoco"), broken.costs) == ("policy-raised", "3.8.1", {})
    alone = baseline_of([record_of(0, "error", provenance={})])
    assert alone.cases[0].condition("provenance.mujoco") is None
    write_baseline(alone, tmp_path / "alone")
    assert read_baseline(tmp_path / "alone") == alone


def test_equal_records_are_equal_bytes_in_whatever_order_they_ended() -> None:
    records = some()
    text = text_of(baseline_of(records))
    random.Random(0).shuffle(records)
    assert text_of(baseline_of(records)) == text
    rounded = dataclasses.replace(records[0], metrics={"x": 0.1 + 0.2})
    assert case_result(rounded).metrics == {"x": 0.3}, "another machine's rounding is not in it"


def test_old_records_make_one() -> None:
    records = list(map(parse_record, OLD.read_text().splitlines()))
    models = {record.policy for record in records}
    kept = [
        baseline_of([r for r in records if r.policy == model and r.suite == suite], model)
        for model in models
        for suite in {r.suite for r in records if r.policy == model}
    ]
    assert sum(len(baseline.cases) for baseline in kept) > 7


@st.composite
def made(draw: st.DrawFn) -> Record:
    outcome = draw(st.sampled_from(["success", "failure", "error", "invalid"]))
    steps = draw(st.integers(0, 500))
    numbers = st.floats(0, 1e12) | st.floats(0, 1e-6)
    label = draw(st.sampled_from(["", "light.diffuse-L2", "upstream.view", "language.blank", "a.b+c.d-L3"]))
    record = varied(
        label,
        outcome,
        task=draw(st.sampled_from(["one", "two"])),
        seed=draw(st.integers(0, 3)),
        run_seed=draw(st.integers(0, 1)),
        parameters=draw(st.dictionaries(st.text(max_size=3), numbers | st.text(max_size=3), max_size=2)),
        steps=steps,
        success_step=draw(st.none() | st.integers(0, steps)) if outcome == "success" else None,
        replan=draw(st.none() | st.integers(1, 3)),
        instruction=draw(st.text(max_size=5)),
        provenance=draw(st.dictionaries(st.sampled_from(["mujoco", "scene", "numpy", "new"]), st.text(max_size=2))),
        metrics=draw(st.dictionaries(st.sampled_from(["x", "y"]), st.floats(-1e300, 1e300))),
        digest=draw(st.text(max_size=20)),
    )
    names = draw(st.lists(st.sampled_from(["shove", "touch"]), max_size=3))
    charges = tuple(Charge(name, draw(numbers), account=draw(st.sampled_from(["", "paper"]))) for name in names)
    probe = {**record.variation, "probe": draw(st.booleans())} if record.variation else {}
    start = {**record.seeds, "init_state": draw(st.integers(0, 5))}
    start |= draw(st.sampled_from([{}, {"init_state_digest": 0}, {"init_state_digest": 2**48 - 1}]))
    return dataclasses.replace(record, costs=charges, variation=probe, seeds=start)


@settings(max_examples=scaled(30))
@given(st.lists(made(), min_size=1, max_size=8))
def test_any_baseline_comes_back(tmp_path_factory: pytest.TempPathFactory, records: list[Record]) -> None:
    # Of one simulator and one replan length: what tells these apart is not of one baseline.
    alike = {"provenance": records[0].provenance, "replan": records[0].replan}
    baseline = baseline_of([dataclasses.replace(record, **alike) for record in records])
    file = tmp_path_factory.mktemp("any") / "file"
    write_baseline(baseline, file)
    again = read_baseline(file)
    assert again == baseline
    assert text_of(again) == file.read_text()


@settings(max_examples=scaled(30))
@given(st.lists(made(), min_size=1, max_size=8))
def test_any_conditions_are_kept_case_by_case(records: list[Record]) -> None:
    cases = [case_result(record) for record in records]
    layers = layers_of(cases)
    for case in cases:
        shared = layers.tasks[case.suite, case.task_key]
        suite = layers.suites[case.suite]
        assert merged(shared, differences(case.conditions, shared)) == case.conditions
        assert merged(merged(layers.common, differences(suite, layers.common)), differences(shared, suite)) == shared


# Which records are of one baseline.


def test_several_models_are_named_and_one_can_be_meant() -> None:
    records = [record_of(0, policy="one"), record_of(1, "success", policy="other")]
    with pytest.raises(VlaError, match=r"2 models: one, other. A baseline needs one: --model=NAME"):
        baseline_of(records)
    assert [case.outcome for case in baseline_of(records, "other").cases] == ["success"]
    with pytest.raises(VlaError, match=r"no episode of the model 'othr'\. Models: one, other\. Did you mean other"):
        baseline_of(records, "othr")
    with pytest.raises(VlaError, match="no episode: a baseline"):
        baseline_of([])


def test_versions_of_a_policy_and_simulators_are_not_of_one_baseline() -> None:
    of = [record_of(seed, policy_digest=f"{seed}" * 64) for seed in range(2)]
    with pytest.raises(VlaError, match=r"2 versions of the policy random \(00000000, 11111111\)"):
        baseline_of(of)
    same_case = [record_of(0, run=f"run-{of}", policy_digest=f"{of}" * 64) for of in range(2)]
    with pytest.raises(VlaError, match=r"2 models: random \(policy 00000000\), random \(policy 11111111\)"):
        baseline_of(same_case)
    assert baseline_of(same_case, "random (policy 11111111)").policy_digest == "1" * 64
    with pytest.raises(
        VlaError, match=r"several simulators: mujoco 3\.3\.7 and mujoco 3\.8\.1: a baseline cannot combine them"
    ):
        baseline_of([record_of(0), record_of(1, provenance={"mujoco": "3.3.7"})])


def test_the_first_complete_record_counts_and_repeats_are_told() -> None:
    lost = record_of(0, "error", reason="worker-crashed")
    records = [lost, record_of(0, "failure"), record_of(0, "success", digest="11")]
    found = counting_of(records)
    assert [record.outcome for record in found.records] == ["failure"]
    assert [text[:8] for text in found.left_out] == ["1 repeat", "1 error "]
    assert [case.outcome for case in baseline_of(records).cases] == ["failure"]


# What others wrote.


def broken(tmp_path: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    file = saved(some(), tmp_path)
    table = json.loads(file.read_text())
    changed = change(table)
    file.write_text(json.dumps(table if changed is None else changed))
    return file


def case_0(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda table: table["cases"][0].update(changes)


ODD: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "list": (lambda table: [], "expected a table, found list"),
    "later": (
        lambda table: table.update(schema=9, made_by="pytest-vla 7"),
        "found 9, written by pytest-vla 7: upgrade pytest-vla",
    ),
    "no schema": (lambda table: table.pop("schema") and None, "expected schema 1, found None"),
    "truth": (lambda table: table.update(schema=True), "expected schema 1, found True"),
    "report": (lambda table: {"schema": 1, "models": []}, "fields missing: made_by, model"),
    "model": (lambda table: table.update(model=3), "model: expected a text, found 3"),
    "common": (lambda table: table.update(common=[]), r"common: expected a table of conditions, found \[\]"),
    "layer": (lambda table: table.update(suites={"s": 1}), "suites: expected a table of tables of conditions"),
    "cases": (lambda table: table.update(cases={}), "cases: expected a list of cases"),
    "run seed": (lambda table: table["common"].update(run_seed=-1), "run_seed: expected an integer from 0"),
    "charged": (lambda table: table["common"].update(charged=[1]), "charged: expected a table of lists of texts"),
    "case": (case_0(case="../../etc"), "case: expected an id such as tabletop"),
    "number": (case_0(case=7), "case: expected a text, found 7"),
    "outcome": (case_0(outcome="ok"), "outcome: expected one of success, failure, error, invalid, found 'ok'"),
    "steps": (case_0(steps=1.5), "steps: expected an integer from 0, found 1.5"),
    "huge": (case_0(steps=2**70), "steps: expected an integer from 0"),
    "late": (case_0(steps=3, success_step=4), "success_step: expected up to steps, 3, found 4"),
    "cost": (case_0(costs={"": {"x": -1}}), "costs: expected tables of amounts from 0"),
    "infinite": (case_0(metrics={"x": "1e999"}), "metrics: expected a table of numbers"),
    "variation": (case_0(but={"variation": {"level": "x"}}), "variation: expected a table with dimension, kind"),
    "deep": (case_0(but={"x": eval("[" * 30 + "]" * 30)}), "but: expected a table of conditions"),
    "no table": (lambda table: table["cases"].append(3), "expected a table, found int"),
    "missing": (lambda table: table["cases"][0].pop("steps") and None, "fields missing: steps"),
    "twice": (lambda table: table["cases"].append(table["cases"][0]), "duplicate of .*keep one of"),
    "many": (
        lambda table: table["common"].update({f"x{number}": 0 for number in range(1001)}),
        "expected up to 1000 conditions",
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_file_is_one_error_that_names_it(tmp_path: Path, name: str) -> None:
    change, complaint = ODD[name]
    file = broken(tmp_path, change)
    with pytest.raises(VlaError, match=complaint) as caught:
        read_baseline(file)
    assert str(caught.value).startswith(str(file))
    assert "save it again" in str(caught.value)


def test_the_line_of_a_case_is_named(tmp_path: Path) -> None:
    file = saved(some(), tmp_path)
    lines = file.read_text().splitlines()
    number = next(number for number, line in enumerate(lines, 1) if "[seed13]" in line)
    file.write_text(file.read_text().replace('"outcome": "invalid"', '"outcome": 3'))
    with pytest.raises(VlaError, match=rf":{number}: case libero_goal/turn_on_the_stove\[seed13\]: .*found 3"):
        read_baseline(file)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "Expecting value: line 1 column 1"),
        ("[" * 100_000, "it is nested too deeply"),
        ('{"schema": NaN}', "NaN is no number"),
        ('{"schema": ' + "9" * 5000 + "}", "integer string conversion"),
        ('{"schema": 1, "schema": 1}', "'schema' is said twice"),
        ("\0", "Expecting value"),
    ],
)
def test_what_is_no_json_is_told(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "file"
    file.write_text(text)
    with pytest.raises(VlaError, match=complaint):
        read_baseline(file)


def test_a_number_beyond_all_numbers_is_refused(tmp_path: Path) -> None:
    file = saved(some(), tmp_path)
    file.write_text(file.read_text().replace('"jerk": 0.333333333', '"jerk": 1e999'))
    with pytest.raises(VlaError, match=r"metrics: expected a table of numbers, found \{'jerk': inf\}"):
        read_baseline(file)


def test_what_is_no_text_or_no_file_is_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    with pytest.raises(VlaError, match=r"there is no baseline .*: make one with pytest-vla baseline save"):
        read_baseline(file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(VlaError, match="it is not text"):
        read_baseline(file)
    with pytest.raises(VlaError, match="Is a directory"):
        read_baseline(tmp_path)


def test_a_cut_file_is_refused_wherever_it_is_cut(tmp_path: Path) -> None:
    file = saved(some(), tmp_path)
    data = file.read_bytes().rstrip()
    for length in range(0, len(data), 61):
        file.write_bytes(data[:length])
        with pytest.raises(VlaError, match="is its end cut off"):
            read_baseline(file)


def test_a_conflict_of_git_is_told(tmp_path: Path) -> None:
    file = saved(some(), tmp_path)
    file.write_text("{\n<<<<<<< HEAD\n" + file.read_text()[2:])
    with pytest.raises(VlaError, match=r":2: not a baseline: it has git conflict markers"):
        read_baseline(file)


def test_many_watched_costs_do_not_fill_the_memory(tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(20_000)]
    table = json.loads(saved(some(), tmp_path).read_text())
    table["common"]["charged"] = {"": names}
    table["cases"] = [{"case": f"s/t[seed{seed}]", "outcome": "failure", "steps": 1} for seed in range(200)]
    file = tmp_path / "file"
    file.write_text(json.dumps(table))
    with pytest.raises(VlaError, match="names of costs in all cases"):
        read_baseline(file)


# Versions.


def test_what_a_later_version_adds_is_kept(tmp_path: Path) -> None:
    file = saved(some(), tmp_path)
    table = json.loads(file.read_text())
    table["later"] = {"x": [1]}
    table["cases"][0]["seconds"] = 1.5
    table["common"]["later.condition"] = "y"
    file.write_text(json.dumps(table))
    baseline = read_baseline(file)
    assert (baseline.unknown, baseline.cases[0].unknown) == ({"later": {"x": [1]}}, {"seconds": 1.5})
    write_baseline(baseline, file)
    assert json.loads(file.read_text()) == table


def test_an_earlier_schema_is_read_step_by_step() -> None:
    steps = {
        SCHEMA - 2: lambda table: {**table, "b": table["a"] + 1},
        SCHEMA - 1: lambda table: {**table, "c": table["b"] + 1},
    }
    assert migrated({"schema": SCHEMA - 2, "a": 1}, steps=steps) == {"schema": SCHEMA, "a": 1, "b": 2, "c": 3}
    with pytest.raises(VlaError, match=f"expected schema {SCHEMA - 2} to {SCHEMA}, found {SCHEMA - 3}"):
        migrated({"schema": SCHEMA - 3}, steps=steps)


def test_a_case_takes_less_than_300_bytes() -> None:
    records = [
        varied(
            label,
            outcome,
            task=f"put_the_black_bowl_on_the_plate_number_{task}",
            seed=seed,
            steps=100 + seed,
            success_step=100 + seed if outcome else None,
            digest="0123456789abcdef" * 4,
            parameters={"gain": 0.5} if label else {},
            costs=COSTS,
            arrays=f"{task}/{label}-{seed}.npz",
        )
        for label in ("", "light.diffuse-L2", "camera.distance-L4", "robot.joints-L1", "layout.displacement-L5")
        for task in range(10)
        for seed in range(40)
        for outcome in (seed % 3 > 0,)
    ]
    text = text_of(baseline_of(records))
    assert text.count("\n{") == len(records) == 2_000
    assert len(text) < 300 * len(records)
