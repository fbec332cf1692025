"""Near and far failures by dimension of variation, of paths whose kind is known."""

import numpy as np
from numpy.typing import NDArray

from pytest_vla.metrics.robustness import varied_models
from pytest_vla.metrics.robustness_curves import DimensionFailures, dimension_failures
from pytest_vla.records.record import Record
from tests.support.varied import varied

TASKS = ("turn_on_the_stove", "open_the_middle_drawer")


def path_of(record: Record) -> NDArray[np.float64] | None:
    """Each task has a straight line of its own.

    Of varied failures seed 0 stays near it, seed 1 takes the other one's, seed 2 goes where nobody goes, and seed 3 has
    none.
    """
    if record.outcome == "failure" and record.seed == 3:
        return None
    along = np.linspace(0.0, 1.0, 30)
    place = TASKS.index(record.task)
    if record.outcome == "failure" and record.seed == 1:
        place = 1 - place
    line = np.stack([along, np.full(30, 0.5 * place), np.zeros(30)], axis=1)
    away = 0.01 * np.sin(along[:, None] * (3 + record.seed % 3))
    if record.outcome == "failure" and record.seed == 2:
        away = np.stack([0 * along, 0 * along, 3.0 * along], axis=1)
    return np.asarray(line + away)


def test_failures_are_counted_by_dimension_and_kind() -> None:
    benign = [varied("", True, task, seed) for task in TASKS for seed in range(6)]
    failed = [varied("camera.distance-L3", False, TASKS[0], seed) for seed in range(4)]
    fine = [varied("light.diffuse-L2", True, TASKS[0], seed) for seed in range(4)]
    (model,) = varied_models([*benign, *failed, *fine])
    found = dimension_failures(model, path_of, "exact")
    assert found == (DimensionFailures("camera", near=1, far=2, unlabelled=0, without_path=1, another=1),)


def test_without_successes_there_is_no_label() -> None:
    failed = [varied("camera.distance-L3", False, TASKS[0], seed) for seed in range(3)]
    (model,) = varied_models(failed)
    assert dimension_failures(model, path_of, "exact") == (DimensionFailures("camera", 0, 0, 3, 0, 0),)
