"""What of records rests on a premise that does not hold."""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache

from pytest_vla.plan.labels import JOINT
from pytest_vla.plan.manifests import load_suite, suite_names
from pytest_vla.plan.premises import defects, episodes_text, known_broken, thrown, thrown_by_default
from pytest_vla.plan.task import Task
from pytest_vla.records.record import Record
from pytest_vla.versions import DEFAULT

_LAYOUT = frozenset(("layout", "pro"))
"""Dimensions of variations under which things begin elsewhere."""


def notes_after(records: Iterable[Record]) -> tuple[str, ...]:
    """What a report has to say of the benchmark's own defects and of the simulator's, a line each.

    They are in its numbers.

    Args:
        records: whose rates it tells; of a changed layout, and of suites that are not here, nothing is known.
    """
    number: Counter[str] = Counter()
    for record in records:
        task, init_state = _task_of(record), record.seeds.get("init_state")
        if task is None or init_state is None or record.outcome not in ("success", "failure"):
            continue
        mujoco = str(record.provenance.get("mujoco"))
        flies, always = set(thrown(task, init_state, mujoco)), thrown_by_default(task, init_state)
        number["false"] += bool(defects(task, init_state))
        number["thrown"] += bool(flies & always)
        number["broken"] += bool(known_broken(task, init_state, mujoco) or flies - always)
    lines = []
    if number["broken"]:
        lines.append(
            f"{episodes_text(number['broken'])} that began otherwise than under mujoco {DEFAULT['mujoco']}: something "
            "lies elsewhere, or is thrown about; published numbers are not of such scenes"
        )
    if number["false"]:
        lines.append(
            f"{episodes_text(number['false'])} of tasks whose file says that something lies where, by upstream's own "
            "rule, it does under no version of MuJoCo: a known defect of the benchmark"
        )
    if number["thrown"]:
        lines.append(
            f"{episodes_text(number['thrown'])} from init states in which things overlap and are thrown apart: a known "
            "defect of the benchmark"
        )
    return tuple(lines)


def _task_of(record: Record) -> Task | None:
    """The task that a record's episode began as; None where its things stand elsewhere, or nothing is known of it."""
    moved = _LAYOUT.intersection(str(record.variation.get("dimension")).split(JOINT))
    return None if moved else _tasks(record.suite).get(record.task_key)


@cache
def _tasks(suite: str) -> Mapping[str, Task]:
    return {task.key: task for task in load_suite(suite).tasks} if suite in suite_names() else {}
