"""The premises of tasks, and the measured versions of MuJoCo under which they hold.

A premise is a relation between two things, or the state of a joint, that a task file's ``:init`` states: the bowl on
the ramekin, the butter in the drawer, the drawer open. A region of table or floor where something begins is none. Init
states were recorded long ago; how they settle depends on the simulator. Measurements are stored beside a suite's
manifest, see `premises_file`, written by `pytest_vla.commands.premises`. No simulator, no numpy.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.choices import CHECK
from pytest_vla.plan.manifests import file_beside_manifest, is_suite, named_suites
from pytest_vla.plan.task import Task
from pytest_vla.util.documents import read_toml
from pytest_vla.util.text import parse_seeds
from pytest_vla.versions import DEFAULT

FILE = "premises.toml"


@dataclass(frozen=True)
class PremiseFinding:
    """Init states of a task that differ from the others, under one version of MuJoCo.

    Attributes:
        task: its `Task.key`.
        about: the premise that does not hold in them, such as ``(on bowl_1 plate_1)``, or the thing that is thrown.
        mujoco: the version.
        init_states: their numbers.
    """

    task: str
    about: str
    mujoco: str
    init_states: frozenset[int]


@dataclass(frozen=True)
class PremiseMeasurement:
    """The measurements of the init states of one suite's task files, after the suite's settle steps.

    Attributes:
        versions: the measured versions of MuJoCo.
        false: premises that do not hold.
        thrown: things that have moved by more than 3 cm sideways since the init state: they overlapped something.
    """

    versions: tuple[str, ...] = ()
    false: tuple[PremiseFinding, ...] = ()
    thrown: tuple[PremiseFinding, ...] = ()


def premises_file(suite: str) -> Path | None:
    """Return the path of a suite's measurements, by one of `suite_names()`, or None if it has no manifest.

    Beside ``suite.toml`` it is ``premises.toml``, beside ``libero_goal.toml`` it is ``libero_goal.premises.toml``.
    """
    return file_beside_manifest(suite, FILE)


@cache
def measured(suite: str) -> PremiseMeasurement:
    """Read the measurements of a suite's own task files, by its name or its files' folder.

    They are empty if there is no such file. Raises VlaError if it cannot be read.
    """
    names = named_suites(suite) if is_suite(suite) else ()
    file = premises_file(names[0]) if len(names) == 1 else None
    if file is None or not file.is_file():
        return PremiseMeasurement()
    try:
        table = read_toml(file)
        false, thrown = (tuple(_findings(table.get(key, ()))) for key in ("false", "thrown"))
        return PremiseMeasurement(tuple(table["measured"]), false, thrown)
    except (OSError, ValueError, KeyError, TypeError, VlaError) as error:
        mend = "Measure it again: pytest-vla premises"
        raise VlaError(f"{file}: cannot be read: {error}. {mend}") from error


def _findings(rows: Iterable[Mapping[str, Any]]) -> Iterable[PremiseFinding]:
    for row in rows:
        for version in row["mujoco"]:
            yield PremiseFinding(row["task"], row["about"], version, frozenset(parse_seeds(row["init_states"])))


def broken(task: Task, init_state: int, verdicts: Mapping[str, bool], mujoco: str) -> tuple[str, ...]:
    """Return the premises that do not hold as an episode begins, and do under the default version.

    A premise that does not hold there either is a defect of the benchmark. Under the default version nothing is broken.

    Args:
        task: of the episode.
        init_state: that it begins from.
        verdicts: of its premises after settling, by their texts.
        mujoco: the version that runs.
    """
    if mujoco == DEFAULT["mujoco"]:
        return ()
    defects = {finding.about for finding in _of(task, init_state, measured(task.files).false, DEFAULT["mujoco"])}
    return tuple(premise for premise, holds in verdicts.items() if not holds and premise not in defects)


def known_broken(task: Task, init_state: int, mujoco: str) -> tuple[str, ...]:
    """Return the measured result of `broken` for the unvaried task; empty for a version that was not measured."""
    found = _of(task, init_state, measured(task.files).false, mujoco)
    return broken(task, init_state, {finding.about: False for finding in found}, mujoco)


def thrown(task: Task, init_state: int, mujoco: str) -> tuple[str, ...]:
    """Return the things that are thrown apart as this init state settles, as measured."""
    return tuple(finding.about for finding in _of(task, init_state, measured(task.files).thrown, mujoco))


def defects(task: Task, init_state: int) -> tuple[str, ...]:
    """Return the premises that do not hold under any version that was measured."""
    found = measured(task.files)
    false = [{finding.about for finding in _of(task, init_state, found.false, version)} for version in found.versions]
    return tuple(sorted(set.intersection(*false))) if false else ()


def _of(task: Task, init_state: int, findings: Iterable[PremiseFinding], mujoco: str) -> list[PremiseFinding]:
    return [
        each for each in findings if each.task == task.key and each.mujoco == mujoco and init_state in each.init_states
    ]


def notes_before(starts: Iterable[tuple[Task, int]], mujoco: str, policy: str) -> tuple[str, ...]:
    """Return the notes to print before a run under a version of MuJoCo that is not the default, a line each.

    Args:
        starts: task and init state of every episode.
        mujoco: the version that will run.
        policy: one of `PREMISES`.
    """
    starts = list(starts)
    known = [task for task in {task.files: task for task, _ in starts}.values() if measured(task.files).versions]
    lines = []
    if known and any(mujoco not in measured(task.files).versions for task in known):
        lines.append(
            f"mujoco {mujoco}: the tasks' premises were not measured with this version; each episode is checked"
        )
    false: dict[tuple[str, str], int] = {}
    others = []
    for task, init_state in starts:
        premises = known_broken(task, init_state, mujoco)
        for premise in premises:
            false[task.key, premise] = false.get((task.key, premise), 0) + 1
        if not premises:
            others.append((task, init_state))
    ending = "they end as invalid (premise-broken)" if policy == CHECK else "they still count"
    for (name, premise), number in false.items():
        lines.append(
            f"mujoco {mujoco}: {premise} does not hold in {episodes_text(number)} of {name}, but does with "
            f"{DEFAULT['mujoco']}: {ending}"
        )
    here = _number(others, lambda task, state: set(thrown(task, state, mujoco)) - thrown_by_default(task, state))
    if here:
        more = " more" if false else ""
        lines.append(
            f"mujoco {mujoco}: in {episodes_text(here)}{more} things jump at the start that rest with "
            f"{DEFAULT['mujoco']}"
        )
    if lines:
        default = DEFAULT["mujoco"]
        lines.append(f"published results use mujoco {default}: pip install mujoco=={default}")
    return tuple(lines)


def thrown_by_default(task: Task, init_state: int) -> set[str]:
    """Return the things that are thrown under the default version of MuJoCo."""
    return set(thrown(task, init_state, DEFAULT["mujoco"]))


def _number(starts: Iterable[tuple[Task, int]], found: Callable[[Task, int], object]) -> int:
    return sum(bool(found(task, init_state)) for task, init_state in starts)


def episodes_text(number: int) -> str:
    """Return ``1 episode``, ``2 episodes``."""
    return f"{number} episode{'' if number == 1 else 's'}"
