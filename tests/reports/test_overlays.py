"""The paths in an overlay: by type, up to a limit shared by the tasks."""

from collections.abc import Sequence

import numpy as np

from pytest_vla.metrics.language_paths import TaskFailures, text_failures
from pytest_vla.records.record import Record
from pytest_vla.reports.html.parts import PageBlock, page_blocks
from pytest_vla.reports.html.svg import MOST, overlay, overlay_blocks
from tests.support.varied import varied


def block_of(title: str, tasks: Sequence[TaskFailures]) -> PageBlock | None:
    return next(iter(page_blocks(overlay_blocks("a model", {title: tasks}))), None)


def path(record: Record) -> np.ndarray:
    """Return a path: successes go one way, failures of odd seeds another."""
    end = 0.3 if record.outcome == "success" or record.seed % 2 == 0 else -0.3
    rows = np.linspace([0.0, 0.0, 1.0], [0.3, end, 1.0 + record.seed % 7 / 1e3], 60)
    return np.asarray(rows)


def test_failures_are_beside_successes_by_their_type() -> None:
    records = [varied("camera.distance-L1", True, "a_task", seed) for seed in range(8)]
    records += [varied("camera.distance-L1", False, "a_task", seed) for seed in range(100, 104)]
    records += [varied("camera.distance-L1", False, "b_task", 1)]
    records += [varied("camera.distance-L1", True, "never_fails", seed) for seed in range(9)]
    found = text_failures(records, path, "exact")
    assert found is not None
    laid = overlay("camera", found.tasks)
    assert laid.numbers == {"successes": 8, "near": 2, "far": 2, "no label": 1}
    assert [way.path[-1, 1] < 0 for way in laid.ways["far"]] == [True, True]
    assert "a_task" in laid.ways["far"][0].case
    block = block_of("camera", found.tasks)
    assert block is not None
    (row,) = block.drawings
    assert row.count("<svg") == 4
    assert "camera: paths of the hand from above, 2 near the path of successes" in row
    # Behind each type of failure are the successes.
    assert row.count('class="path') == 8 + 2 + 2 + 1
    assert row.count("<polyline points") == 3 * 8


def test_of_a_type_so_many_and_tasks_take_turns() -> None:
    records = [varied("light.specular-L1", False, "a_task", seed) for seed in range(200)]
    records += [varied("light.specular-L1", False, "b_task", seed) for seed in range(3)]
    found = text_failures(records, path, "exact")
    assert found is not None
    laid = overlay("light", found.tasks)
    assert laid.numbers == {"no label": 203}
    kept = laid.ways["no label"]
    assert len(kept) == MOST
    assert sum("b_task" in way.case for way in kept) == 3
    block = block_of("light", found.tasks)
    assert block is not None
    assert "50 of 203" in block.drawings[0]
    assert len(block.drawings[0]) < 25_000


def test_without_a_failure_there_is_nothing() -> None:
    found = text_failures([varied("light.specular-L1", True, "a_task", 0)], path, "exact")
    assert found is not None
    assert block_of("light", found.tasks) is None
