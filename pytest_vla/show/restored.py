"""The task of a record and its variation put back, as a world takes them: from the record and its run alone."""

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.plan.choices import INSTALLED
from pytest_vla.plan.labels import OURS, UPSTREAM
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task, with_rules, with_textures
from pytest_vla.records.record import Record
from pytest_vla.records.runs import Run

if TYPE_CHECKING:
    from pytest_vla.scene.variation import Variation


def data_of(run: Run, data: Path | None) -> Path | None:
    """The folder of a run's task files and assets: a user's own tasks are known with it only.

    Args:
        run: says what it was.
        data: what is said instead, by ``--data``.
    """
    said = run.invocation.get("settings", {}).get("data")
    return data or (Path(said) if said else None)


def textures_of(record: Record) -> str:
    """How the episode's textures were drawn; records that do not say are of versions that drew them as installed."""
    return str(record.protocol.get("textures", INSTALLED))


def restored_task(record: Record, data: Path | None) -> Task:
    """The record's task under the rules that it ran by, with its textures as they were drawn.

    Args:
        record: of an episode.
        data: of `data_of`.

    Raises:
        VlaError: there is no such suite or task.
    """
    task = load_suite(record.suite, data=data).task(record.task_key)
    return with_rules(with_textures(task, textures_of(record)), str(record.protocol.get("rules", OURS)))


def restored_variation(task: Task, record: Record) -> "Variation | None":
    """The record's variation of its task, without drawing; what was only told to a policy is none.

    Args:
        task: of the record; its cameras and pictures may be others.
        record: of an episode.

    Raises:
        VlaError: it cannot be made, or no longer is what the record says.
    """
    from pytest_vla.vary.parameters import given_back

    label, parameters = str(record.variation.get("label", "")), record.variation.get("parameters", {})
    # What the robot was told is not seen, and may be from a file that is not here; upstream's code moves a camera too.
    told_only = record.variation.get("dimension") == "language" and parameters.get("protocol") != UPSTREAM
    if not label or told_only:
        return None
    own = load_suite(task.suite, data=task.data).task(task.key)
    return given_back(own, label, parameters, record.instruction)
