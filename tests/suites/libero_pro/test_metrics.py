"""LIBERO-PRO's tables: columns by kind, rows by suite and task, sweeps and combinations beside them."""

import dataclasses

from pytest_vla.metrics.statistics import wilson_interval
from pytest_vla.reports.blocks import Table, cell_text
from pytest_vla.suites.libero_pro.report import ModelPro, pro_blocks, pro_tables
from tests.support.libero_pro import RECORDS, record


def test_columns_are_the_papers() -> None:
    (table,) = pro_tables(RECORDS)
    goal, objects = table.suites
    assert (goal.name, objects.name) == ("libero_goal", "libero_object")
    assert list(goal.rates) == ["Ori", "Obj", "Pos", "Sem", "Task", "Env"]
    position = goal.rates["Pos"]
    assert position is not None
    assert (position.successes, position.counted, position.interval) == (1, 4, wilson_interval(1, 4))
    assert goal.rates["Sem"] is None
    assert objects.rates["Ori"] is None


def test_errors_are_in_no_rate_and_other_dimensions_in_no_column() -> None:
    (table,) = pro_tables(RECORDS)
    rates = [rate for rate in table.suites[0].rates.values() if rate is not None]
    assert [(rate.name, rate.successes, rate.counted) for rate in rates] == [
        ("Ori", 4, 4),
        ("Obj", 2, 2),
        ("Pos", 1, 4),
        ("Task", 0, 1),
    ]
    assert rates[1].errors == {"policy-raised": 1}


def test_tasks_have_rows_of_their_own() -> None:
    (table,) = pro_tables(RECORDS)
    bowl, stove = table.tasks["libero_goal"]
    assert (bowl.name, stove.name) == ("put_the_bowl_on_the_plate", "turn_on_the_stove")
    assert bowl.rates["Pos"] is None
    assert bowl.rates["Task"] is not None
    assert stove.rates["Task"] is None


def test_cells_are_text_as_the_paper_lays_it_out() -> None:
    (table,) = pro_tables(RECORDS)
    blocks = [each for each in pro_blocks([ModelPro(table, (), {})]) if isinstance(each, Table)]
    suites = next(each for each in blocks if each.name == "suites")
    goal, objects = (
        tuple(cell_text(cell, column).replace("\n", " ") for cell, column in zip(row, suites.columns, strict=True))
        for row in suites.rows
    )
    assert tuple(column.head for column in suites.columns) == ("suite", "Ori", "Obj", "Pos", "Sem", "Task", "Env")
    assert goal[:4] == ("libero_goal", "1.00 [0.51, 1.00] 4/4", "1.00 [0.34, 1.00] 2/2", "0.25 [0.05, 0.70] 1/4")
    assert objects == ("libero_object", "-", "-", "0.00 [0.00, 0.79] 0/1", "-", "-", "-")
    assert next(each for each in blocks if each.name == "tasks-libero_goal").rows[0][0] == "put_the_bowl_on_the_plate"


def test_a_sweep_is_by_level_and_a_combination_by_its_parts() -> None:
    outcomes = {1: "success", 2: "success", 5: "failure"}
    swept = [record(f"pro.displace_x-L{level}", 0, outcome) for level, outcome in outcomes.items()]
    (table,) = pro_tables(
        [*swept, record("pro.combined.swap-object", 0, "success"), record("pro.combined.swap-semantic", 0, "failure")]
    )
    sweep = table.sweeps["libero_goal", "displace_x"]
    assert {level: rate.rate for level, rate in sweep.items()} == {1: 1.0, 2: 1.0, 5: 0.0}
    assert {parts: rate.rate for parts, rate in table.combined["libero_goal"].items()} == {
        "swap-object": 1.0,
        "swap-semantic": 0.0,
    }
    assert all(rate is None for rate in table.suites[0].rates.values())


def test_a_sweep_is_over_tasks_with_all_levels_and_has_column_0() -> None:
    """A task with room for the first level alone would make that one look better or worse than the next."""
    bowl = "put_the_bowl_on_the_plate"
    records = [
        *(record("", seed, "success") for seed in range(2)),
        record("", 0, "failure", task=bowl),
        *(record(f"pro.displace_y-L{level}", 0, "success" if level == 1 else "failure") for level in (1, 2, 3)),
        *(record("pro.displace_y-L1", seed, "failure", task=bowl) for seed in range(9)),
        record("pro.displace_y-L2", 0, "error", task=bowl),
        record("pro.displace_y-L3", 0, "failure", task=bowl),
    ]
    (table,) = pro_tables(records)
    sweep = table.sweeps["libero_goal", "displace_y"]
    assert {level: (rate.successes, rate.counted) for level, rate in sweep.items()} == {
        0: (2, 2),
        1: (1, 1),
        2: (0, 1),
        3: (0, 1),
    }
    assert [why for why in table.left_out if "displace_y" in why] == [
        "libero_goal, displace_y: 1 task without an episode of every level that was run: in no column"
    ]


def test_the_object_column_is_of_its_attributes_and_replacements_are_apart() -> None:
    (table,) = pro_tables(RECORDS)
    column = table.suites[0].rates["Obj"]
    assert column is not None
    assert (column.successes, column.counted) == (2, 2)
    replaced = table.replaced["libero_goal"]
    assert (replaced.successes, replaced.counted) == (0, 2)


def test_models_are_apart_and_those_without_such_episodes_have_no_table() -> None:
    others = [record("pro.swap", 0, "failure", policy="other"), record("", 0, "success", policy="third")]
    assert [table.model for table in pro_tables([*RECORDS, *others])] == ["random", "other"]
    assert pro_tables([record("", 0, "success"), record("light.shadow-L1", 0, "success")]) == ()


def test_of_one_case_that_was_run_twice_the_first_counts_and_it_is_said() -> None:
    (table,) = pro_tables([record("pro.swap", 0, "failure"), record("pro.swap", 0, "success", run="later")])
    rate = table.suites[0].rates["Pos"]
    assert rate is not None
    assert (rate.successes, rate.counted) == (0, 1)
    assert table.left_out == (
        "libero_goal: 1 repeat of 1 episode, whose first record counts: 1 (100.0%) ended differently, 0 (0.0%) with "
        "another digest",
    )


def test_kinds_of_objects_that_are_not_the_papers_are_in_no_column() -> None:
    only = [record(label, 0, "failure") for label in ("", "object.mass-L5", "object.friction-L5")]
    assert pro_tables(only) == ()
    (table,) = pro_tables([*only, record("object.size-L5", 0, "success")])
    (row,) = table.suites
    found = row.rates["Obj"]
    assert found is not None
    assert (found.counted, found.rate) == (1, 1.0)


def test_a_suite_with_its_own_world_is_another_benchmark() -> None:
    varied = [record("object.colour-L1", 0, "success"), record("", 0, "success")]
    assert len(pro_tables(varied)) == 1
    elsewhere = [dataclasses.replace(each, provenance={**each.provenance, "world": "gym"}) for each in varied]
    assert pro_tables(elsewhere) == ()
