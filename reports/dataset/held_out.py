"""Cases held out for tests, and whether an episode of a data set is one of them (LIBERO-Plus, App. D)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import Case, parse_case_id, parse_node_id
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.records.load import open_run
from pytest_vla.records.record import Record
from pytest_vla.util.text import printable
from pytest_vla.vary.registry import find_variation

Keys = frozenset[str]

_MOST_BYTES = 64 * 1024 * 1024
# What a variation's parameters say of their making, and not of the scene.
_OF_MAKING = frozenset(("name", "protocol", "source", "original", "passed_over"))


def held_out_keys(text: str, results: Path, data: Path | None) -> Keys:
    """Return what identifies each held-out case.

    Args:
        text: a file with ids of cases or items, one a line, as ``pytest --collect-only -q`` prints them; or a run, as
            ``pytest-vla export`` takes it.
        results: the folder in which runs are looked for by their names.
        data: the folder of task files, or None for the usual ones.

    Raises:
        VlaError: there is no such file or run, a line is no case's id, or a case's suite is unknown.
    """
    path = Path(text)
    if path.is_file():
        return frozenset(key for case in _cases_in(path) for key in _keys_of_case(case, data))
    with open_run(text, results) as (store, runs):
        records = [record for run in runs for record in store.records(run.name)]
    tasks = {key: load_suite(key[0], data=data).task(key[1]) for key in {(r.suite, r.task_key) for r in records}}
    return frozenset(key for each in records for key in keys_of(each, tasks[each.suite, each.task_key]))


def keys_of(record: Record, task: Task) -> Iterator[str]:
    """Yield what identifies an episode's case, whatever suite lists it and whatever draws the episode had.

    Two cases are the same if they are of one task, and of one entry of a list, or one variation with equal parameters
    or one label and seed, or one other text, or unvaried with one seed.
    """
    about = record.variation
    yield from _keys(task, str(about.get("label", "")), about.get("parameters", {}), record.instruction, record.seed)


def _keys_of_case(case: Case, data: Path | None) -> Iterator[str]:
    task = load_suite(case.suite, data=data).task(case.task_key)
    try:
        variation = find_variation(task, case.variation, case.seed) if case.variation else None
    except VlaError:
        # Its files are not here: the label has to do.
        yield _key(task, "label", case.variation)
        return
    told = task.language if variation is None or variation.instruction is None else variation.instruction
    yield from _keys(task, case.variation, {} if variation is None else variation.parameters, told, case.seed)


def _keys(task: Task, label: str, parameters: Any, instruction: str, seed: int) -> Iterator[str]:
    if not label:
        yield _key(task, "seed", seed)
        return
    # An episode may have drawn its variation again, as a thing was out of sight, and a list of ids does not tell so.
    yield _key(task, "case", [label, seed])
    said = {name: value for name, value in parameters.items() if name not in _OF_MAKING}
    yield _key(task, "label", label) if task.varied or not said else _key(task, label.partition("-L")[0], said)
    if instruction != task.language:
        yield _key(task, "text", instruction)


def _key(task: Task, what: str, which: object) -> str:
    return json.dumps([task.files, task.name, what, which], sort_keys=True)


def _cases_in(path: Path) -> Iterator[Case]:
    if path.stat().st_size > _MOST_BYTES:
        raise VlaError(f"{path}: expected a list of cases of at most {_MOST_BYTES} bytes")
    found = False
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        # pytest prints how many it collected, too.
        if "[" not in (text := line.strip()):
            continue
        case = parse_node_id(text)
        if case is None and (parts := parse_case_id(text)) is not None:
            case = Case(parts.suite, parts.task, parts.seed, parts.variation, parts.task_level)
        if case is None:
            raise VlaError(
                f"{path}, line {number}: {printable(repr(text)[:80])} is no case; expected an id such as "
                "libero_goal::test_episode[turn_on_the_stove-seed0], as `pytest --collect-only -q` prints it"
            )
        found = True
        yield case
    if not found:
        raise VlaError(f"{path} names no case; `pytest --vla-suite=... --collect-only -q > FILE` writes such a list")
