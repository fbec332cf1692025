"""The folders with task files, init states and assets: LIBERO's, a user's own, and those of the built-in suites.

Roots are searched in this order: ``--vla-data``, ``PYTEST_VLA_DATA``, LIBERO's own ``config.yaml``, an installed
hf-libero or libero package (with the folder into which hf-libero downloads its assets), the folder that `pytest-vla
fetch libero` filled, and last the folders of suites that bring their own data.
"""

import fnmatch
import importlib.util
import os
import shlex
import zipfile
from collections.abc import Callable, Container, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from pytest_vla import extensions
from pytest_vla.errors import SceneError, VlaError
from pytest_vla.plan.manifests import (
    ARCHIVE,
    KINDS,
    VARIABLE,
    Kind,
    data_advice,
    data_bases,
    given_folders,
    suite_folder,
    suite_names,
    takes_tasks,
    variable_folders,
)
from pytest_vla.plan.task import Task
from pytest_vla.util.documents import read_yaml
from pytest_vla.util.files import expanded, fetched_libero

# LIBERO's config.yaml calls the folder of init states `init_states`.
_CONFIG_KEYS: dict[Kind, str] = {"assets": "assets", "bddl_files": "bddl_files", "init_files": "init_states"}
_OTHERWISE = "or install hf-libero and let it download its assets, or run `pytest-vla fetch libero`."
_ADVICE = (
    f"Give LIBERO's folder (with assets/, bddl_files/, init_files/) by --vla-data or PYTEST_VLA_DATA, {_OTHERWISE}"
)
BESIDE = f"give that by PYTEST_VLA_DATA, or by --vla-data a folder that both are in, {_OTHERWISE}"
"""How to come by LIBERO's data where ``--vla-data`` names another benchmark's."""


@dataclass(frozen=True)
class DataRoot:
    """One place that may hold data: its origin, and a folder for each kind (or None if it has none).

    `suite`: the suite whose own folder this is, or None for a user's data folder. `archive`: its init states in one
    file, see `pytest_vla.plan.manifests.ARCHIVE`.
    """

    origin: str
    assets: Path | None = None
    bddl_files: Path | None = None
    init_files: Path | None = None
    suite: str | None = None
    archive: Path | None = None

    def folder(self, kind: Kind) -> Path | None:
        """Return the folder for one kind of data."""
        return {"assets": self.assets, "bddl_files": self.bddl_files, "init_files": self.init_files}[kind]


def data_roots(data: str | os.PathLike[str] | None = None) -> tuple[DataRoot, ...]:
    """Return all roots that exist, best first.

    Args:
        data: the folder given by ``--vla-data``, or None.

    Raises:
        SceneError: `data` or ``PYTEST_VLA_DATA`` names a folder with neither LIBERO's data nor a benchmark's that is
            made of it, LIBERO's config file names one without LIBERO's data, or the config file cannot be read.
    """
    roots: list[DataRoot] = []
    if data is not None:
        roots.extend(_roots_of_folder("--vla-data", Path(data)))
    for folder in variable_folders():
        roots.extend(_roots_of_folder(VARIABLE, folder))
    roots.extend(_root_of_config())
    roots.extend(_root_of_package())
    roots.extend(_root_of_fetched())
    roots.extend(_roots_of_suites())
    return tuple(roots)


def task_roots(task: Task) -> tuple[DataRoot, ...]:
    """Return `data_roots` in the best order for a task: roots of other benchmarks, which lack its file, come last.

    Several benchmarks may have different files under one name.

    Raises:
        SceneError: as `data_roots`.
    """
    roots = data_roots(task.data)
    entries = extensions.suites()
    own = entries[task.suite].home if task.suite in entries else ""
    others = {name for each in entries.values() if each.home not in ("", own) for name in (each.name, *each.aliases)}
    foreign = [_is_foreign(root, task, others) for root in roots]
    ordered = sorted(zip(foreign, roots, strict=True), key=lambda pair: pair[0])
    return tuple(root for _, root in ordered)


def find_task_file(roots: tuple[DataRoot, ...], task: Task) -> Path:
    """Return a task's file from the first root that has it. Raises SceneError with advice if no root has it."""
    for root in roots:
        for path in _files_of(root.bddl_files, task, ".bddl"):
            return path
    # It says what was searched.
    return find_file(roots, "bddl_files", f"{task.paths[0]}.bddl", f"task {task.key}", data_advice(task.suite))


def find_init_states(roots: tuple[DataRoot, ...], task: Task) -> tuple[Path, str | None]:
    """Return a task's init states from the first root: a file, and the name of the array in it (None for its only one).

    Raises:
        SceneError: no root has them; the message gives advice.
    """
    for root in roots:
        for path in _files_of(root.init_files, task, ".pruned_init"):
            return path, None
        members = _members(root.archive) if root.archive is not None else ()
        member = next((path for path in task.paths if f"{path}.npy" in members), None)
        if root.archive is not None and member is not None:
            return root.archive, member
    name = f"{task.paths[0]}.pruned_init"
    return find_file(roots, "init_files", name, f"task {task.key}", data_advice(task.suite)), None


def holds_suite(root: DataRoot, task: Task) -> bool:
    """Whether a root has the folder of a task's suite."""
    return root.bddl_files is not None and any(
        (root.bddl_files / folder).is_dir() for folder in (task.files, *task.folders)
    )


def find_file(roots: tuple[DataRoot, ...], kind: Kind, name: str, wanted_for: str, advice: str | None = None) -> Path:
    """Return the file of a relative name from the first root that has it.

    Args:
        roots: from `data_roots`.
        kind: which kind of data.
        name: path relative to that kind's folder, with forward slashes.
        wanted_for: the object that needs the file, for the error (``object plate_1``).
        advice: how to get the file, or None for the advice of its place and kind.

    Raises:
        SceneError: no root has it; the message names the object, the file and the searched roots.
    """
    for root in roots:
        folder = root.folder(kind)
        if folder is not None and (folder / name).is_file():
            return folder / name
    told = describe_search(roots, kind, advice or _advice_on_task(roots, kind, name))
    raise SceneError(f"{kind}/{name}: not found, needed for {wanted_for}. {told}")


def relative_name(roots: tuple[DataRoot, ...], path: Path) -> str | None:
    """Return an asset file's name relative to the assets folder that holds it, or None if it is in none."""
    for root in roots:
        if root.assets is not None and path.is_relative_to(root.assets):
            return path.relative_to(root.assets).as_posix()
    return None


def describe_search(roots: tuple[DataRoot, ...], kind: Kind, advice: str | None = None) -> str:
    """Return a text with the searched folders, and the advice (by default how to get LIBERO's data)."""
    given = [root for root in roots if root.folder(kind) is not None and root.suite is None]
    searched = [f"{root.folder(kind)} ({root.origin})" for root in given]
    return f"Searched: {', '.join(searched) or 'nothing, since no data folder was given or found'}. {advice or _ADVICE}"


def _advice_on_task(roots: tuple[DataRoot, ...], kind: Kind, name: str) -> str | None:
    """Return how to make a file of a user's own task, or None for other files."""
    suite, _, file = name.partition("/")
    if suite not in suite_names() or not takes_tasks(suite):
        return None
    task = Path(file).stem
    if kind == "bddl_files":
        return f"Put {task}.bddl into bddl_files/{suite} of the folder that you give by --vla-data."
    if kind != "init_files":
        return None
    folders = [
        root.bddl_files for root in roots if root.bddl_files and (root.bddl_files / suite / f"{task}.bddl").is_file()
    ]
    data = shlex.quote(str(folders[0].parent)) if folders else "DIR"
    return f"Make them: pytest-vla init-states --suite={suite} --data={data} {task}"


def _members(archive: Path) -> Container[str]:
    """Return the names in a zip file. Raises SceneError if it cannot be read as one."""
    try:
        with zipfile.ZipFile(archive) as opened:
            return frozenset(opened.namelist())
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise SceneError(f"{archive}: expected init states saved by numpy.savez; it cannot be read: {error}") from error


def _files_of(folder: Path | None, task: Task, ending: str) -> Iterator[Path]:
    """Return a task's files in a folder that may have it under several names."""
    for path in task.paths if folder is not None else ():
        if folder is not None and (file := folder / f"{path}{ending}").is_file():
            yield file


def _is_foreign(root: DataRoot, task: Task, others: Set[str]) -> bool:
    """Whether a root is another benchmark's: it has task files of one of the other suites, and not this task's."""
    if root.bddl_files is None or any(_files_of(root.bddl_files, task, ".bddl")):
        return False
    return any((root.bddl_files / name).is_dir() for name in others)


def _root(origin: str, found: dict[Kind, Path], suite: str | None = None, archive: Path | None = None) -> DataRoot:
    return DataRoot(origin, found.get("assets"), found.get("bddl_files"), found.get("init_files"), suite, archive)


def _roots_of_folder(origin: str, folder: Path) -> Iterator[DataRoot]:
    """Return the roots of a folder that a user names; none if it has only files for variations."""
    folder = (expanded(folder) or folder).absolute()
    bases = data_bases(folder) if folder.is_dir() else ()
    for base in bases:
        archive = base / ARCHIVE
        found = {kind: base / kind for kind in KINDS if (base / kind).is_dir()}
        yield _root(origin, found, archive=archive if archive.is_file() else None)
    if bases:
        return

    if holds_benchmark(folder):
        return
    if not folder.is_dir():
        raise SceneError(f"{folder}: {origin} names a folder that does not exist. {_ADVICE}")
    raise SceneError(f"{folder}: {origin} names a folder without assets/, bddl_files/ or init_files/. {_ADVICE}")


def _root_of_config() -> Iterator[DataRoot]:
    folder = expanded(os.environ.get("LIBERO_CONFIG_PATH", "~/.libero"))
    if folder is None or not (config := folder / "config.yaml").is_file():
        return
    values = _read_config(config)
    found = {kind: expanded(values[key]) or Path() for kind, key in _CONFIG_KEYS.items() if values.get(key)}
    existing = {kind: path.absolute() for kind, path in found.items() if path.is_dir()}
    if existing:
        yield _root(f"LIBERO's {config}", existing)


def _read_config(path: Path) -> dict[str, str]:
    """LIBERO's config file: folders by their kinds; what is empty is left out."""
    try:
        table = read_yaml(path)
    except (OSError, ValueError) as error:
        raise SceneError(f"{path}: LIBERO's config file cannot be read: {error}") from error
    if table is None:
        return {}
    if not isinstance(table, dict):
        raise SceneError(f"{path}: expected lines of `key: folder`, found {repr(table)[:60]}")
    for key, value in table.items():
        if not isinstance(key, str) or not isinstance(value, str | None):
            raise SceneError(f"{path}: expected `key: folder`, found {repr(key)[:60]}: {repr(value)[:60]}")
    return {key: value for key, value in table.items() if value is not None}


def _root_of_package() -> Iterator[DataRoot]:
    # find_spec of the top-level name imports nothing: LIBERO's own import asks on standard input.
    specification = importlib.util.find_spec("libero")
    for location in (specification.submodule_search_locations or []) if specification else []:
        base = Path(location) / "libero"
        found = {kind: base / kind for kind in KINDS if (base / kind).is_dir()}
        downloaded = expanded("~/.cache/libero/assets")
        if "assets" not in found and downloaded is not None and downloaded.is_dir():
            found["assets"] = downloaded
        if found:
            yield _root("installed libero package", found)


def _root_of_fetched() -> Iterator[DataRoot]:
    try:
        folder = fetched_libero()
    except VlaError:
        # There is no home, so nothing was fetched to it.
        return
    found: dict[Kind, Path] = {kind: folder / kind for kind in KINDS if (folder / kind).is_dir()}
    if found:
        yield _root("pytest-vla fetch libero", found)


def _roots_of_suites() -> Iterator[DataRoot]:
    for name in suite_names():
        home = suite_folder(name)
        if home is None:
            continue
        found: dict[Kind, Path] = {kind: folder for kind in KINDS if (folder := home / kind).is_dir()}
        if found:
            yield _root(f"suite {name}", found, name)


# Where benchmarks' own files are looked for, which users bring.


def find_given(data: Path | None, find: Callable[[Path], Path | None], owner: str, name: str) -> Path:
    """Return a benchmark's file from the first folder that has it.

    Args:
        data: the folder given by ``--vla-data``, or None.
        find: returns the file in a folder, or None if it is not there.
        owner: the benchmark, for the message.
        name: of the file, for the message.

    Raises:
        VlaError: no folder has it; the message gives advice and lists the searched folders.
    """
    folders = given_folders(data)
    for folder in folders:
        found = find(folder)
        if found is not None:
            return found
    looked = f" Looked in {', '.join(map(str, folders))}." if folders else ""
    raise VlaError(
        f"{owner}'s {name} was not found: give a checkout of {owner}, or a folder with that file, by --vla-data or "
        f"PYTEST_VLA_DATA.{looked}"
    )


def first_at(places: Sequence[str]) -> Callable[[Path], Path | None]:
    """Return a function that finds the first file in a folder that matches one of these patterns."""

    def find(folder: Path) -> Path | None:
        return next((path for place in places for path in sorted(folder.glob(place)) if path.is_file()), None)

    return find


def holds_benchmark(place: Path) -> bool:
    """Whether a folder or a file belongs to a benchmark from which variations are read.

    Variations declare the names of such files (`pytest_vla.entries.VariationEntry`).
    """
    names = extensions.user_files()
    if place.is_file():
        return any(fnmatch.fnmatchcase(place.name, name) for name in names)
    below = ("", "*/", "*/*/", "*/*/*/")
    return first_at([f"{depth}{name}" for name in names if "*" not in name for depth in below])(place) is not None
