"""Suites as their manifests define them: named lists of tasks with one protocol.

A manifest is ``suites/<suite>/suite.toml``; for a benchmark with several suites ``suites/<benchmark>/<suite>.toml``.

No simulator, no numpy: a plan and a collection need nothing else.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pytest_vla import extensions, hook_modules
from pytest_vla.entries import MANIFEST
from pytest_vla.errors import VlaError
from pytest_vla.plan.case import TASK, TASK_LEVEL, task_key
from pytest_vla.plan.choices import success_rule
from pytest_vla.plan.evaluators import protocol_faults
from pytest_vla.plan.task import Protocol, Task, language_of
from pytest_vla.util.documents import read_toml
from pytest_vla.util.files import expanded
from pytest_vla.util.text import did_you_mean, printable, quoted

# A suite: a named list of tasks.


@dataclass(frozen=True)
class Suite:
    """A named list of tasks, in upstream's order.

    Attributes:
        name: in ids and records.
        title: for people.
        tasks: all of them, level by level if they come in levels.
        protocol: of its tasks; those of a level may have a different one, `Task.protocol`.
        seeds: the default seeds, or None for seed 0.
        category: of what the benchmark measures with it, such as ``safety``, or an empty text.
    """

    name: str
    title: str
    tasks: tuple[Task, ...]
    protocol: Protocol
    seeds: tuple[int, ...] | None = None
    category: str = ""

    @property
    def task_levels(self) -> tuple[str, ...]:
        """The levels that its tasks come in, in their order; none where they come in none."""
        return tuple(dict.fromkeys(task.task_level for task in self.tasks if task.task_level))

    def task(self, name: str, task_level: str = "") -> Task:
        """Return a task by its name, or by level and name (``L1-pick_the_apple``).

        Args:
            name: `Task.name` or `Task.key`.
            task_level: of the task; may be empty if the name has it, or only one level has the name.

        Raises:
            VlaError: there is none (the message has close matches), or several levels have the name (it lists them).
        """
        wanted = task_key(name, task_level)
        found = [task for task in self.tasks if task.key == wanted] or [
            task for task in self.tasks if not task_level and task.name == name
        ]
        if not found:
            known = [text for task in self.tasks for text in dict.fromkeys((task.key, task.name))]
            raise VlaError(f"suite {self.name} has no task {wanted!r}.{did_you_mean(wanted, known)}")
        if len(found) > 1:
            keys = " or ".join(task.key for task in found)
            raise VlaError(f"suite {self.name} has several tasks {name!r}: write {keys}")
        return found[0]


# What a folder of data has: assets, task files, init states; and which folders a user gives.

Kind = Literal["assets", "bddl_files", "init_files"]

KINDS: tuple[Kind, ...] = ("assets", "bddl_files", "init_files")

ARCHIVE = "init_states.npz"
"""In the place of init_files/, or beside it: init states by ``SUITE/TASK``, as paths are in there without an ending."""

_LONGEST_TASK = 1_000_000  # Characters of a task file.

VARIABLE = "PYTEST_VLA_DATA"
"""The environment's variable with folders of data, `os.pathsep` between them."""


def variable_folders() -> tuple[Path, ...]:
    """Return the folders from the environment variable, with ``~`` expanded."""
    whole = os.environ.get(VARIABLE, "")
    # A folder's name may have the separator in it.
    given = [whole] if os.path.exists(whole) else [text for text in whole.split(os.pathsep) if text]
    return tuple(expanded(text) or Path(text) for text in given)


def given_folders(data: Path | None) -> tuple[Path, ...]:
    """Return the folders in which a user's files are searched: ``--vla-data``, then ``PYTEST_VLA_DATA``."""
    return (*(() if data is None else (expanded(data) or data,)), *variable_folders())


def data_bases(folder: Path) -> tuple[Path, ...]:
    """Return the folders within a folder that have assets/, bddl_files/ or init_files/; empty if none has.

    It may be such a folder itself, contain that of one or several benchmarks, or be a benchmark's checkout or installed
    package, as suites declare it (`pytest_vla.entries.SuiteEntry.home`).
    """
    homes = dict.fromkeys(entry.home for entry in extensions.suites().values() if entry.home)
    found: dict[Path, None] = {}
    alike = [(folder / home, folder, folder / home / home) for home in homes]
    for places in alike or [(folder, folder, folder)]:
        base = next((base for base in places if any((base / kind).is_dir() for kind in KINDS)), None)
        if base is not None:
            found[base] = None
    return tuple(found)


def load_suite(name: str, *, data: str | os.PathLike[str] | None = None) -> Suite:
    """Load a suite by name.

    Args:
        name: one of `suite_names()`, or another name that is accepted for one, see `named_suites`.
        data: folder with the suite's task files, init states and assets, or None for the default roots. A suite that
            takes tasks (`takes_tasks`) also has those whose files are there or in ``PYTEST_VLA_DATA``: after its own,
            by name.

    Raises:
        VlaError: no such suite, its manifest or its code cannot be used, a task has no name that can be in an id, or
            two have the same.
    """
    name = suite_named(name)
    manifest = suite_manifest(name)
    if manifest is None:
        return _loaded_suite(name)
    table = _read_manifest(manifest)
    protocol = _protocol(table, manifest)
    folder = None if data is None else Path(data)
    listed = _listed_tasks(table, manifest)
    further = _further_tasks(name, (each.name for each in listed), folder) if takes_tasks(name) else ()
    _check_names(f"suite {name}: {manifest}", listed)
    files, *folders = [files] if isinstance(files := table.get("files", name), str) else files
    tasks = []
    for index, each in enumerate([*listed, *map(_Listed, further)]):
        task = Task(
            *(name, each.name, index, each.language, each.protocol or protocol, folder, files),
            varied=table.get("varied", ""),
            task_level=each.task_level,
            file=each.file,
            folders=tuple(folders),
        )
        if each.instruction is None and not is_sentence(task.language):
            task = replace(task, language=file_language(task) or task.language)
        tasks.append(task)
    return Suite(name, table["title"], tuple(tasks), protocol, _seeds(table, manifest), table.get("category", ""))


def suite_with(suite: Suite, change: Callable[[Task], Task]) -> Suite:
    """Return a suite whose tasks, and its own protocol, are changed, such as by an evaluator (`Evaluator.task`)."""
    tasks = tuple(map(change, suite.tasks))
    protocol = change(replace(suite.tasks[0], protocol=suite.protocol)).protocol
    return suite if tasks == suite.tasks else replace(suite, tasks=tasks, protocol=protocol)


def is_sentence(text: str) -> bool:
    """Return whether a text may be an instruction: ``open the drawer`` may, ``CELL 0 0`` and ``task 3`` may not."""
    return sum(word.isalpha() and word.islower() for word in text.split()) >= 2


def file_language(task: Task) -> str:
    """Return the ``:language`` of a task's file, with single spaces; empty if there is no file, or none in it.

    The file is searched where a user's own lie: in the given folders of data and in the suite's own.
    """
    own = suite_folder(task.suite) if task.suite in extensions.suites() else None
    folders = [*given_folders(task.data), *([] if own is None else [own])]
    places = [
        base / "bddl_files" / f"{path}.bddl" for one in folders for base in data_bases(one) for path in task.paths
    ]
    try:
        with next(place for place in places if place.is_file()).open(encoding="utf-8", errors="replace") as file:
            text = file.read(_LONGEST_TASK)
    except (StopIteration, OSError):
        # Whoever reads the scene says so.
        return ""
    # Without comments. What the scene's parser refuses is refused later, with its line.
    found = re.search(r"\(\s*:language\s+([^()]*)\)", re.sub(r";[^\n]*", "", text), re.IGNORECASE)
    return " ".join(found.group(1).split()) if found else ""


def suite_names() -> tuple[str, ...]:
    """Return the names of all suites: of `pytest_vla.suites`, and of those that other packages and the project add."""
    return tuple(sorted(extensions.suites()))


def named_suites(name: str) -> tuple[str, ...]:
    """Return the suites that a name means: its own, or those with that alias. Raises VlaError if there is none."""
    if name in extensions.suites():
        return (name,)
    aliases = extensions.suite_aliases()
    if name not in aliases:
        names = suite_names()
        known = f"Suites: {', '.join(names)}.{hook_modules.of_a_conftest()}"
        raise VlaError(f"there is no suite {name!r}.{did_you_mean(name, (*names, *aliases))} {known}")
    return aliases[name]


def suite_named(name: str) -> str:
    """Return the one suite that a name means. Raises VlaError if there is none, or several."""
    names = named_suites(name)
    if len(names) > 1:
        raise VlaError(f"{name!r} is {len(names)} suites; name one of them: {', '.join(names)}")
    return names[0]


def is_suite(name: str) -> bool:
    """Whether a name means a suite, or several."""
    return name in extensions.suites() or name in extensions.suite_aliases()


def aliases_of(suite: str) -> tuple[str, ...]:
    """Return a suite's other names, by one of `suite_names()`; the first ones mean no other suite."""
    return extensions.suites()[suite].aliases


def data_advice(suite: str) -> str | None:
    """Return how to get a suite's data, from its manifest, or None if it has no such text or no manifest."""
    manifest = suite_manifest(suite) if suite in extensions.suites() else None
    return _read_manifest(manifest).get("data") if manifest is not None else None


def suite_folder(name: str) -> Path | None:
    """Return the folder with a suite's manifest, by one of `suite_names()`, or None if it has none."""
    return extensions.suites()[name].folder


def suite_manifest(name: str) -> Path | None:
    """Return the path of a suite's manifest, by one of `suite_names()`, or None if it has none."""
    entry = extensions.suites()[name]
    return entry.folder / entry.manifest if entry.folder is not None else None


def file_beside_manifest(suite: str, name: str) -> Path | None:
    """Return the path of a suite's file of this name, or None if the suite has no manifest.

    Beside ``suite.toml`` it has the name itself, such as ``idle.toml``; beside ``libero_goal.toml`` it is
    ``libero_goal.idle.toml``.
    """
    manifest = suite_manifest(suite)
    if manifest is None:
        return None
    return manifest.with_name(name if manifest.name == MANIFEST else f"{manifest.stem}.{name}")


def takes_tasks(name: str) -> bool:
    """Whether a user's task files join this suite, by one of `suite_names()`: its manifest says ``open = true``."""
    manifest = suite_manifest(name)
    return manifest is not None and _read_manifest(manifest).get("open", False) is True


def varied_by(suite: str) -> str:
    """Return the list by which a suite varies itself; empty if it does not, or is not installed. Raises VlaError."""
    if suite not in extensions.suites():
        return ""
    manifest = suite_manifest(suite)
    return str(_read_manifest(manifest).get("varied", "")) if manifest is not None else ""


@hook_modules.until_changed
def _loaded_suite(name: str) -> Suite:
    """Load a suite that code makes. Raises VlaError."""
    entry = extensions.suites()[name]
    found = extensions.load(entry)
    whose = f"{entry.origin}: {entry.load}"
    if not isinstance(found, Suite) and callable(found):
        try:
            found = found()
        except VlaError:
            raise
        except Exception as error:
            # It brings pytest with it, which commands do without.
            from pytest_vla.util.warnings import describe

            raise VlaError(f"suite {name}: {whose} raised {describe(error)}") from error
    if not isinstance(found, Suite):
        raise VlaError(f"suite {name}: {whose} is {type(found).__name__}, expected pytest_vla.plan.manifests.Suite")
    if found.name != name:
        raise VlaError(f"suite {name}: {whose} is called {found.name!r}; give both the same name")
    if odd := [task for task in found.tasks if not isinstance(task, Task)]:
        raise VlaError(f"suite {name}: {whose} has {type(odd[0]).__name__} among its tasks, expected Task")
    _check_names(f"suite {name}: {whose}", found.tasks)
    if strange := [task for task in found.tasks if task.suite != name]:
        told = f"task {strange[0].name} is of suite {strange[0].suite!r}"
        raise VlaError(f"suite {name}: {whose}: {told}; make it with Task({name!r}, ...)")
    return found


@dataclass(frozen=True)
class _Listed:
    """A task from a manifest. By default the file has the task's name, and instruction and protocol are the suite's."""

    name: str
    task_level: str = ""
    file: str = ""
    instruction: str | None = None
    protocol: Protocol | None = None

    @property
    def language(self) -> str:
        return language_of(self.name) if self.instruction is None else self.instruction


def _listed_tasks(table: Mapping[str, Any], manifest: Path) -> list[_Listed]:
    """Return the tasks of a manifest: a list of stems, stems with their instructions, or either for each level.

    A stem is without the commas in ids: these stand between names in options, and pytest's own ``-k`` has none.
    """
    tasks = table["tasks"]
    if not isinstance(tasks, Mapping):
        return [_Listed(stem) for stem in tasks]
    if tasks and all(isinstance(said, str) for said in tasks.values()):
        return [_Listed(stem, instruction=said) for stem, said in tasks.items()]
    found = []
    for level, stems in tasks.items():
        if re.fullmatch(TASK_LEVEL, level, re.ASCII) is None:
            raise VlaError(f"{manifest}: [tasks]: {quoted(level)} is not a level: expected L0, L1 and so on")
        said = table.get("levels", {}).get(level)
        protocol = None if said is None else _protocol({**table, "protocol": {**table["protocol"], **said}}, manifest)
        for stem in stems:
            file = f"level_{level.removeprefix('L')}/{stem}"
            language = stems[stem] if isinstance(stems, Mapping) else None
            found.append(_Listed(stem.replace(",", ""), level, file, language, protocol))
    return found


def _check_names(whose: str, tasks: Iterable[Any]) -> None:
    """Refuse names of tasks that ids and files cannot have, or that two of a level have. Raises VlaError.

    Args:
        whose: the suite's, for the message.
        tasks: with `name` and `task_level`.
    """
    known: set[object] = set()
    for task in tasks:
        name, level = task.name, task.task_level
        if not isinstance(level, str) or (level and re.fullmatch(TASK_LEVEL, level, re.ASCII) is None):
            told = quoted(level, 100)
            raise VlaError(f"{whose}: {told} is not a task level: expected L0, L1 and so on, or an empty text")
        if not isinstance(name, str) or re.fullmatch(TASK, name) is None:
            told = quoted(name, 100)
            raise VlaError(f"{whose}: {told} is not a task name: expected letters (a-z, A-Z), digits and _. Rename it")
        if re.fullmatch(TASK_LEVEL, name, re.ASCII) is not None:
            raise VlaError(f"{whose}: {name} is reserved for task levels. Rename the task")
        if (key := task_key(name, level)) in known:
            raise VlaError(f"{whose}: two tasks are called {key}; give each a name of its own")
        known.add(key)


def _further_tasks(name: str, listed: Iterable[str], data: Path | None) -> list[str]:
    """Return the stems of the user's task files that the manifest does not list."""
    found: set[str] = set()
    bases = [base for folder in given_folders(data) for base in data_bases(folder)]
    for base in bases:
        for path in (base / "bddl_files" / name).glob("[!.]*.bddl"):
            if not re.fullmatch(TASK, path.stem):
                raise VlaError(f"{path}: expected a name of letters, digits and _, as it is in ids. Rename the file.")
            found.add(path.stem)
    return sorted(found - set(listed))


def instruction_of(suite: str, task: str, task_level: str = "") -> str:
    """Return a task's own instruction: from its suite if that defines one, else from the task's name."""
    said = language_of(task)
    try:
        if suite in extensions.suites() and (suite_folder(suite) is None or task_level or not is_sentence(said)):
            return load_suite(suite).task(task, task_level).language
    except VlaError:
        # Its package cannot be used here; the record can be read all the same.
        pass
    return said


_SHIPPED = Path(__file__).parents[1] / "suites"


@cache
def _read_manifest(path: Path, is_base: bool = False) -> dict[str, Any]:
    try:
        table = read_toml(path)
    except (OSError, ValueError) as error:
        raise VlaError(f"{path}: cannot be read as TOML: {error}") from error
    if "extends" in table:
        if is_base:
            raise VlaError(f"{path}: extends: a file that another one extends cannot extend a third one")
        base = _read_manifest(_base_of(path, table["extends"]), is_base=True)
        table = {**base, **table, "protocol": {**base.get("protocol", {}), **table.get("protocol", {})}}
    return table


def _base_of(path: Path, name: object) -> Path:
    """Return the file that a manifest extends: in the folder above its own, or one of pytest-vla's."""
    shipped = sorted(each.name for each in _SHIPPED.glob("*.toml"))
    if not isinstance(name, str) or Path(name).name != name:
        raise VlaError(f'{path}: extends: expected the name of a file, such as "{shipped[0]}", got {name!r}')
    found = next((each for each in (path.parent.parent / name, _SHIPPED / name) if each.is_file()), None)
    if found is None:
        where = f"{path.parent.parent}, and pytest-vla has {', '.join(shipped)}"
        raise VlaError(f"{path}: extends: there is no {printable(name)} in {where}.{did_you_mean(name, shipped)}")
    return found


def _seeds(table: Mapping[str, Any], manifest: Path) -> tuple[int, ...] | None:
    from pytest_vla.util.text import parse_seeds

    try:
        return parse_seeds(table["seeds"]) if "seeds" in table else None
    except VlaError as error:
        raise VlaError(f"{manifest}: {error}") from error


def _protocol(table: Mapping[str, Any], manifest: Path) -> Protocol:
    declared = table.get("protocol", {})
    wanted = {field.name for field in fields(Protocol)}
    optional = {field.name for field in fields(Protocol) if field.default is not MISSING}
    wrong = []
    if missing := sorted(wanted - optional - set(declared)):
        mend = 'add under [protocol], or extends = "libero.toml"'
        mend = "add max_steps = 300 under [protocol]" if missing == ["max_steps"] else mend
        wrong.append(f"no {', '.join(missing)} ({mend})")
    wrong += [f"unknown {name}" for name in sorted(set(declared) - wanted)]
    wrong += [f"no {name} at the top" for name in ("title", "tasks") if name not in table]
    wrong += protocol_faults(declared)
    if wrong:
        raise VlaError(f"{manifest}: [protocol]: {'; '.join(wrong)}")
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in declared.items()}
    values |= {"success": success_rule(values["success"])} if "success" in values else {}
    return Protocol(**values)
