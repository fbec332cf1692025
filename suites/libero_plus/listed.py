"""LIBERO-Plus's list as the registry of variations takes it; read when it is used."""

from collections.abc import Mapping, Sequence

from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Variation
from pytest_vla.vary.kind import Listing


def _variations(task: Task, protocol: str) -> Mapping[str, Variation]:
    from pytest_vla.suites.libero_plus.variations import variations

    return variations(task, protocol)


def _unavailable(tasks: Sequence[Task]) -> Mapping[str, int]:
    from pytest_vla.suites.libero_plus.variations import unavailable

    return unavailable(tasks)


LISTING = Listing(_variations, two_protocols=True, unavailable=_unavailable, by_lot=True)
