"""The shards' runs, found and merged into one run, equal to that of a single machine with the whole selection.

Items have the selection's order. A record is as its shard wrote it, but for the run's name and its trajectory's path.
Records come shard by shard, each in the order of its own store, and after those that the run already has: the record of
a case that counts is never chosen by the clocks of two machines, and merging again adds new records and changes nothing
else. Files are copied first, then all rows are written in one transaction.
"""

import dataclasses
import filecmp
import itertools
import json
import re
import shlex
import shutil
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.costs import DECLARED
from pytest_vla.records.counting import ALARM, OF_PROVENANCE, OF_WORLD, UNKNOWN, conditions_of, is_complete, takes_over
from pytest_vla.records.items import SHARED, RunItem
from pytest_vla.records.record import VIDEO_SUFFIX, Record
from pytest_vla.records.runs import ORDER, SAMPLE, Run, is_alive
from pytest_vla.records.store import STORE, NewRun, Store, encodable, open_store
from pytest_vla.records.tally import RunTally
from pytest_vla.scale.shards import SHARD, ShardOf, ShardPlan, Uncollected, read_uncollected, shard_of
from pytest_vla.util.files import whole_file
from pytest_vla.util.processes import uninterrupted
from pytest_vla.util.text import counted, printable

# The runs of shards in results folders: found, read, and checked to belong together. Nothing is written.

# What a record says beside its conditions of the machine that ran it, and that numbers may depend on.
_OF_MACHINE = ("pytest-vla", "kernels", DECLARED)
_LONGEST = 200


@dataclass(frozen=True)
class ShardRun:
    """A run of a shard; a task that was started again without ``--vla-resume`` leaves several.

    Attributes:
        run: as its store has it.
        of: the shard.
        records: all of the run's records, in the order of the store.
        items: with how they ended.
    """

    run: Run
    of: ShardOf
    records: tuple[Record, ...]
    items: tuple[RunItem, ...]


@dataclass(frozen=True)
class Aside:
    """The runs in the results folder of shards that do not belong to the merge.

    Attributes:
        place: the folder.
        runs: by name, their description, such as ``another selection (30 items)``; the oldest first.
    """

    place: Path
    runs: Mapping[str, str]


@dataclass(frozen=True)
class Folder:
    """A shard in a results folder: its runs of one selection, the oldest first, at least one."""

    place: Path
    parts: tuple[ShardRun, ...]

    @property
    def last(self) -> ShardRun:
        """The run that began last."""
        return self.parts[-1]

    @property
    def number(self) -> int:
        """The number of the shard."""
        return self.last.of.number


def find_folders(places: Sequence[Path]) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Find results folders: the named ones, and those directly below them.

    Returns:
        Those with a store, each once, and those without, of which a shard may have been killed before its first
        episode.

    Raises:
        VlaError: there is no such folder, or no store in any.
    """
    found: dict[Path, Path] = {}
    empty: list[Path] = []
    for place in places:
        if not place.is_dir():
            raise VlaError(f"{place} is not a folder: give the results folders of shards, or a folder with these in it")
        if (place / STORE).is_file():
            found.setdefault(place.resolve(), place)
            continue
        inner = sorted(each for each in place.iterdir() if each.is_dir() and not each.name.startswith("."))
        stores = [each for each in inner if (each / STORE).is_file()]
        empty += [each for each in inner if each not in stores] if stores else [place]
        for each in stores:
            found.setdefault(each.resolve(), each)
    if not found:
        raise VlaError(
            f"there are no results of shards in {', '.join(map(str, places))}: expected a {STORE} there or one folder "
            "below, as pytest --vla-shard=N/COUNT leaves it"
        )
    return tuple(found.values()), tuple(empty)


def read_folder(place: Path) -> tuple[tuple[Folder, ...], Aside]:
    """Read the shards in a results folder: those of the selection and policy of the newest run. Usually there is one.

    Returns:
        These, and the other runs in the folder, so that failures are not lost if something else was run there later.

    Raises:
        VlaError: no run in it is a shard, or the store cannot be read; the message names the file.
    """
    with open_store(place, create=False) as store:
        runs = [(run, _shard_of(place, run)) for run in reversed(store.runs())]
        shards = [(run, of) for run, of in runs if of is not None]
        if not shards:
            raise VlaError(f"{place}: it has no run of a shard; give folders that pytest --vla-shard=N/COUNT wrote")
        newest, its = shards[-1]
        parts: dict[int, list[ShardRun]] = {}
        aside: dict[str, str] = {}
        for run, of in runs:
            if of is None:
                aside[run.name] = "no shard"
            elif of.selection != its.selection:
                aside[run.name] = f"another selection ({counted(of.items, 'item')})"
            elif of.key != its.key:
                aside[run.name] = f"a different partition of this selection (shard {of.number} of {of.count})"
            elif run.model != newest.model:
                aside[run.name] = f"another policy ({run.model})"
            else:
                part = ShardRun(run, of, tuple(store.attempts(run.name)), store.items(run.name))
                parts.setdefault(of.number, []).append(part)
    return tuple(Folder(place, tuple(found)) for found in parts.values()), Aside(place, aside)


def _shard_of(place: Path, run: Run) -> ShardOf | None:
    try:
        return shard_of(run.invocation)
    except VlaError as error:
        raise VlaError(f"{place / STORE}: run {run.name}: {error}") from error


def check_together(
    folders: Sequence[Folder], options: Collection[str], further: Mapping[str, Sequence[Record]]
) -> None:
    """Check that shards have one selection, the same conditions and the same policy.

    Args:
        folders: of the shards.
        options: that have to be the same in all shards, by attribute.
        further: records that have to have the same conditions, by their name in messages.

    Raises:
        VlaError: names the folder that differs, its value, and that of the others.
    """
    told: defaultdict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for folder in folders:
        for name, text in _of_run(folder, options):
            told[name][text][str(folder.place)] += 1
    _check_same(told, f"only shards of one pytest command can be merged: give the folders of one{_hints(folders)}")
    by_number: dict[int, Folder] = {}
    for folder in folders:
        if (other := by_number.setdefault(folder.number, folder)) is not folder:
            raise VlaError(
                f"shard {folder.number} is there twice, in {other.place} and {folder.place}: leave out the one that "
                "was run later, since the first record of each case counts"
            )
    told.clear()
    records: dict[str, Sequence[Record]] = {}
    for folder in folders:
        found = [each for part in folder.parts for each in part.records]
        records[str(folder.place)] = [*records.get(str(folder.place), ()), *found]
    for place, some in {**records, **further}.items():
        for name, text in (pair for record in some if is_complete(record.outcome) for pair in _of_record(record)):
            told[name][text][place] += 1
    _check_same(
        told,
        "a rate cannot combine both. Run that shard again like the others; if its folder has earlier runs, remove "
        "these first (pytest-vla rm RUN --results=DIR)",
    )


def _hints(folders: Sequence[Folder]) -> str:
    """Return advice on shards that differ, if their folders show a cause: a later run, or uncollected files."""
    keys = Counter((folder.last.of.key, folder.last.run.model) for folder in folders)
    (usual, most), *_ = keys.most_common()
    if most == len(folders):
        return ""
    told = ""
    for folder in folders:
        if folder.last.of.uncollected.number:
            name, why = folder.last.of.uncollected.files[0]
            told = told or f". {folder.place} could not collect {name}, so its tests are missing: {why}"
    for folder in folders:
        if (folder.last.of.key, folder.last.run.model) == usual or most == 1:
            continue
        with open_store(folder.place, create=False) as store:
            # The newest first.
            runs = store.runs()
        for later, run in enumerate(runs):
            if (of := shard_of(run.invocation)) is not None and (of.key, run.model) == usual:
                names = " ".join(each.name for each in runs[:later])
                remove = f"pytest-vla rm {names} --results={shlex.quote(str(folder.place))}"
                told += f". Run {run.name} of {folder.place} fits: remove the later runs ({remove})"
                return told
    return told


def _of_run(folder: Folder, options: Collection[str]) -> Iterator[tuple[str, str]]:
    run, of = folder.last.run, folder.last.of
    yield "number of shards", str(of.count)
    yield "policy", run.model
    yield "selection", f"{of.items} items (sha256 {of.selection[:12]})"
    yield "weights for balance", of.weights
    yield "partition, which follows from task files and version,", f"sha256 {of.partition[:12]}"
    settings = run.invocation.get("settings")
    for name in sorted(options):
        value = settings.get(name) if isinstance(settings, dict) else None
        yield f"--vla-{name.replace('_', '-')}", json.dumps(value)


def _of_record(record: Record) -> Iterator[tuple[str, str]]:
    """Return the conditions of a record that have to be the same in all shards, as far as it has them."""
    conditions = conditions_of(record)
    yield "policy", record.policy
    yield "run seed", str(record.run_seed)
    for name, text in conditions.items():
        if text == UNKNOWN:
            continue
        if name in ("policy_digest", "replan", ALARM, *OF_PROVENANCE):
            yield name, text
        elif name.startswith(OF_WORLD):
            yield f"{name} of {record.suite}", text
        else:
            yield f"{name} of {record.suite}/{record.task_key}", text
    for name in _OF_MACHINE:
        if name in record.provenance:
            yield name, record.provenance[name]


def _check_same(told: Mapping[str, Mapping[str, Counter[str]]], cure: str) -> None:
    """Raise VlaError for the first name with two different texts.

    Args:
        told: by name and text, how often each place has it.
        cure: the advice.
    """
    for name, texts in told.items():
        if len(texts) == 1:
            continue
        usual = max(texts, key=lambda text: (len(texts[text]), sum(texts[text].values())))
        odd, place = next((text, place) for text in texts if text != usual for place in texts[text])
        others = [each for each in texts[usual] if each != place] or list(texts[usual])
        whose = f"{others[0]} has" if len(others) == 1 else f"{len(others)} others (such as {others[0]}) have"
        raise VlaError(f"{place}: {name} is {_short(odd)}, and {whose} {_short(usual)}: {cure}")


def _short(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."


# Commands of shards as they are to be typed for another shard, or for no shard.

_SHARD, _DURATIONS, _RESULTS = "--vla-shard", "--vla-shard-durations", "--vla-results"


def without_shard(command: str) -> str:
    """Return the command for the whole selection, with the default results folder."""
    return shlex.join(_without(command, (_SHARD, _DURATIONS, _RESULTS)))


def for_shard(command: str, number: int, count: int) -> str:
    """Return the command for another shard, with the default results folder."""
    first, *rest = _without(command, (_SHARD, _RESULTS))
    return shlex.join([first, *rest, f"{_SHARD}={number}/{count}"])


def _without(command: str, options: tuple[str, ...]) -> Iterator[str]:
    """Yield the words of a command without some options and their values."""
    try:
        words = iter(shlex.split(command))
    except ValueError:
        # What stands in a store may be anything.
        words = iter(command.split())
    for word in words:
        if word in options:
            next(words, None)
        elif word.partition("=")[0] not in options:
            yield word


# What a merged run keeps of the shards that it was made of, so that merging again adds only what is new.

MERGED = "merged"
"""The key of a run's invocation under which it stands."""


@dataclass(frozen=True)
class MergedOf:
    """The shards that a run was merged from.

    Attributes:
        count, selection, partition, weights: see `pytest_vla.scale.shards.ShardPlan`.
        model: see `Run`.
        runs: by number of a shard, and by the name of each of its runs, how many of its records the merged run has.
        uncollected: by number of a shard, the files that could not be collected when its last run began.
    """

    count: int
    selection: str
    partition: str
    weights: str
    model: str
    runs: Mapping[int, Mapping[str, int]]
    uncollected: Mapping[int, Uncollected] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: ShardPlan, model: str) -> "MergedOf":
        """Return the value for a plan before any shard is merged."""
        return cls(plan.count, plan.selection, plan.partition, plan.weights, model, {})

    def records(self, number: int) -> Mapping[str, int]:
        """Return the number of merged records by the name of each run of a shard."""
        return self.runs.get(number, {})

    def having(self, number: int, run: str, records: int) -> "MergedOf":
        """Return a copy with `records` records of a shard's run."""
        return dataclasses.replace(self, runs={**self.runs, number: {**self.records(number), run: records}})

    def with_uncollected(self, number: int, found: Uncollected) -> "MergedOf":
        """Return a copy with the uncollected files of a shard's last run, in place of earlier ones."""
        known = {**self.uncollected, number: found}
        return dataclasses.replace(self, uncollected={number: each for number, each in known.items() if each.number})

    def is_of(self, folder: Folder) -> bool:
        """Whether a shard is of the same selection, shared out in the same way, with the same policy's name."""
        mine = (self.count, self.selection, self.partition, self.weights)
        return (mine, self.model) == (folder.last.of.key, folder.last.run.model)

    def has_some_of(self, folder: Folder) -> bool:
        """Whether it has records of one of the shard's runs."""
        known = self.records(folder.number)
        return any(part.run.name in known for part in folder.parts)

    def table(self) -> dict[str, Any]:
        """Return the value as JSON has it."""
        runs = {str(number): dict(found) for number, found in sorted(self.runs.items())}
        table = {**{name: getattr(self, name) for name in (*_NUMBERS, *_TEXTS)}, "runs": runs}
        lost = {str(number): found.table() for number, found in sorted(self.uncollected.items())}
        return {**table, **({"uncollected": lost} if lost else {})}


_NUMBERS = ("count",)
_TEXTS = ("selection", "partition", "weights", "model")


def merged_of(store: Store, run: Run) -> MergedOf | None:
    """Read the shards that a run was merged from, or return None if there are none. Raises VlaError if damaged."""
    table = run.invocation.get(MERGED)
    if table is None:
        return None
    try:
        texts = [table[name] for name in _TEXTS]
        runs = {int(number): dict(found) for number, found in table["runs"].items()}
        lost = {int(number): read_uncollected(found) for number, found in table.get("uncollected", {}).items()}
        counts = [table["count"], *(count for found in runs.values() for count in found.values())]
        if not all(isinstance(text, str) for text in texts) or not all(type(n) is int and n >= 0 for n in counts):
            raise TypeError
    except (TypeError, KeyError, ValueError, AttributeError, VlaError) as error:
        told = f"{store.results / STORE}: the list of shards of run {run.name} is damaged"
        raise VlaError(f"{told}: give another folder with -o") from error
    return MergedOf(table["count"], texts[0], texts[1], texts[2], texts[3], runs, lost)


def find_merged(store: Store, folders: Sequence[Folder]) -> tuple[Run, MergedOf] | None:
    """Return the run that was merged from some of these shards, or that lacks all of them, or None if there is none.

    If there are several, the one with records of most of these shards, then the newest: a second evaluation into a
    store that has an earlier one gets a run of its own.
    """
    found: list[tuple[int, Run, MergedOf]] = []
    for run in store.runs():
        of = merged_of(store, run)
        if of is None or not all(map(of.is_of, folders)):
            continue
        some = sum(map(of.has_some_of, folders))
        if some or not any(folder.number in of.runs for folder in folders):
            found.append((some, run, of))
    if not found:
        return None
    # The store has the newest first, and the first of equals stands.
    _, run, of = max(found, key=lambda each: each[0])
    return run, of


# Trajectories and videos of shards on their way into the merged run's folder.


class Copies:
    """The files to copy into the merged run; nothing is written before `write`.

    Args:
        folder: of the merged run.
        used: the names, relative to it, of its records' trajectories.
    """

    def __init__(self, folder: Path, used: Iterable[str]) -> None:
        self._folder, self._used = folder, set(used)
        # By run and name of the shard that was added last.
        self._names: dict[tuple[str, str], str] = {}
        # Where from, with the folder that it has to lie in, and where to.
        self._files: list[tuple[Path, Path, Path]] = []
        self.copied = 0
        """How many trajectories were copied."""
        self.lost: list[Path] = []
        """Trajectories that are not where their records say."""

    def add(self, place: Path, runs: Iterable[tuple[str, Sequence[Record]]]) -> None:
        """Add the new records of a shard's runs, the oldest run first.

        As on a single machine, a complete episode keeps its file, and a later attempt takes that of an error.
        """
        self._names = {}
        # By name, the runs that have it, and whether one of their complete episodes has.
        found: dict[str, list[tuple[str, bool]]] = {}
        for run, records in runs:
            of_complete: dict[str, bool] = {}
            for record in records:
                if record.arrays is not None:
                    is_kept = of_complete.get(record.arrays, False) or is_complete(record.outcome)
                    of_complete[record.arrays] = is_kept
            for arrays, is_kept in of_complete.items():
                found.setdefault(arrays, []).append((run, is_kept))
        for arrays, having in found.items():
            waiting: list[str] = []
            for position, (run, is_kept) in enumerate(having, 1):
                waiting.append(run)
                if is_kept or position == len(having):
                    name = self._free(arrays)
                    self._files.append((place / run / arrays, place, self._folder / name))
                    self._names |= {(each, arrays): name for each in waiting}
                    waiting = []

    def name_of(self, run: str, arrays: str | None) -> str | None:
        """Return the merged run's name for a trajectory of the shard that was added last."""
        return None if arrays is None else self._names[run, arrays]

    def write(self) -> None:
        """Copy all files, each whole or not at all, unless the same content is already there. Raises VlaError."""
        for source, place, target in self._files:
            for suffix in (source.suffix, VIDEO_SUFFIX):
                old, new = source.with_suffix(suffix), target.with_suffix(suffix)
                # A link may lead away.
                if old.is_file() and old.resolve().is_relative_to(place.resolve()):
                    self.copied += _copy(old, new) and suffix == source.suffix
                elif suffix == source.suffix:
                    self.lost.append(source)

    def _free(self, arrays: str) -> str:
        path = PurePosixPath(arrays)
        stem = re.sub(r"-repeat[0-9]+$", "", path.stem)
        others = (str(path.with_name(f"{stem}-repeat{number}{path.suffix}")) for number in itertools.count(2))
        name = next(each for each in itertools.chain([arrays], others) if each not in self._used)
        self._used.add(name)
        return name


def _copy(old: Path, new: Path) -> bool:
    """Whether the file had to be copied. Raises VlaError."""
    try:
        if new.is_file() and filecmp.cmp(old, new, shallow=False):
            return False
        new.parent.mkdir(parents=True, exist_ok=True)
        with old.open("rb") as stream, whole_file(new) as written:
            shutil.copyfileobj(stream, written)
    except OSError as error:
        raise VlaError(f"cannot copy {old} to {new}: {error.strerror or error}") from error
    return True


@dataclass(frozen=True)
class Left:
    """The unfinished items of a shard.

    Attributes:
        number: of the shard.
        planned: number of its items.
        folder: of the shard, or None if it was not given.
        run: of the shard, which can be resumed, or None if there is none.
        not_run: number of items that have not ended.
        errors: number of items that ended as errors, which a resumed run tries again.
    """

    number: int
    planned: int
    folder: Path | None
    run: Run | None
    not_run: int
    errors: int


@dataclass(frozen=True)
class Merged:
    """The result of a merge.

    Attributes:
        run: the merged run, as it is now.
        command: of a shard, as it was typed.
        count: number of shards.
        empty: number of shards without an item.
        items: number of items in the selection.
        ended: number of these that have ended, and not as errors.
        is_new: whether the run was made now.
        records, known: numbers of added records, and of records of the given shards that were already there.
        files: number of copied trajectories.
        lost: trajectories that are not where their records say.
        left: the unfinished items of each shard that has some, by number.
        uncollected: by number of a shard, the files that could not be collected and are missing in the selection.
        folders: of the given shards, by number.
        unread: folders without a store.
        aside: for the given folders, runs that do not belong to the merge; only folders that have some.
    """

    run: Run
    command: str
    count: int
    empty: int
    items: int
    ended: int
    is_new: bool
    records: int
    known: int
    files: int
    lost: tuple[Path, ...]
    left: tuple[Left, ...]
    uncollected: Mapping[int, Uncollected]
    folders: Mapping[int, Folder]
    unread: tuple[Path, ...]
    aside: tuple[Aside, ...]


def merge(places: Sequence[Path], target: Path, options: Collection[str], given: Sequence[str]) -> Merged:
    """Merge the runs of shards into one run, or add them to the run that was merged from some of them.

    Args:
        places: results folders of shards, or folders with these in them.
        target: the results folder that gets the run.
        options: that have to be the same in all shards, by attribute.
        given: options that name the target in commands to run an episode again, if it is not the project's folder.

    Raises:
        VlaError: shards do not belong together, or something cannot be read or written. Nothing is merged then.
    """
    found, unread = find_folders(places)
    if same := next((place for place in found if place.resolve() == target.resolve()), None):
        raise VlaError(f"{same} is the target folder: give another one with -o, or other shards")
    read = [read_folder(place) for place in found]
    shards = itertools.chain.from_iterable(of_folder for of_folder, _ in read)
    folders = sorted(shards, key=lambda folder: (folder.number, str(folder.place)))
    aside = tuple(each for _, each in read if each.runs)
    plan = _plan_of(folders)
    is_there = (target / STORE).is_file()
    if not is_there:
        # Nothing is made where nothing will be merged.
        check_together(folders, options, {})
    with open_store(target, create=True) as store:
        run, before = find_merged(store, folders) or (None, MergedOf.of(plan, folders[0].last.run.model))
        if run is not None and is_alive(run):
            raise VlaError(f"run {run.name} of {target} is still running, as process {run.pid}: wait until it ends")
        known = () if run is None else tuple(store.attempts(run.name))
        if is_there:
            check_together(folders, options, {} if run is None else {f"run {run.name} of {target}": known})
        joining = _Joining(
            store, _new_name(store, folders[0]) if run is None else run.name, before, known, is_new=run is None
        )
        for folder in folders:
            joining.add(folder)
        if joining.is_needed:
            run = joining.write(run, _begun(folders, plan), _invocation(folders[0], run, joining.merged, given))
        assert run is not None, "a new run is needed"
        return _merged(store, run, plan, folders, (unread, aside), joining)


def _plan_of(folders: Sequence[Folder]) -> ShardPlan:
    """Return the whole selection from the first shard whose copy can be read. Raises VlaError if none can."""
    refused: VlaError | None = None
    for folder in folders:
        try:
            return folder.last.of.plan()
        except VlaError as error:
            refused = refused or VlaError(f"{folder.place}: run {folder.last.run.name}: {error}")
    assert refused is not None, "there is a folder"
    raise refused


def _new_name(store: Store, folder: Folder) -> str:
    """Return the name of a new run, which depends on the shards only.

    So the next merge reuses the files that a killed one left.
    """
    name = f"{folder.parts[0].run.name}-merged"
    known = {run.name for run in store.runs()}
    others = (f"{name}{number}" for number in itertools.count(2))
    return next(each for each in itertools.chain([name], others) if each not in known)


class _Joining:
    """The new records of the shards' runs, to be added after those of the merged run."""

    def __init__(self, store: Store, name: str, before: MergedOf, known: Sequence[Record], *, is_new: bool) -> None:
        self._store, self._name, self.is_new_run = store, name, is_new
        self._before = self.merged = before
        self._statuses: dict[str, str | None] = {}
        if not is_new:
            # As the store has it, and not as a record lets conclude.
            self._statuses = {item.node: item.status for item in store.items(name)}
        counting = RunTally()
        for record in known:
            counting.keep(record)
        kept = counting.records.items()
        self._tally = RunTally((record, self._statuses.get(node)) for node, record in kept)
        # By item, whose record counts: that of a shard's run, or what was there before.
        self._source: dict[str, object] = dict.fromkeys(counting.records, self)
        self.copies = Copies(store.results / name, (each.arrays for each in known if each.arrays is not None))
        self.records: list[Record] = []
        self.known = 0
        self._changed: dict[str, str] = {}

    @property
    def is_needed(self) -> bool:
        """Whether the store has to be written."""
        is_other = self.merged.uncollected != self._before.uncollected
        return bool(self.is_new_run or self.records or self._changed or is_other)

    def add(self, folder: Folder) -> None:
        """Add the new records of a shard. Raises VlaError if it has fewer records than were merged before."""
        done = self.merged.records(folder.number)
        new = ((part.run.name, part.records[done.get(part.run.name, 0) :]) for part in folder.parts)
        self.copies.add(folder.place, new)
        for part in folder.parts:
            self._add(folder, part, done.get(part.run.name, 0))
            self.merged = self.merged.having(folder.number, part.run.name, len(part.records))
        self.merged = self.merged.with_uncollected(folder.number, folder.last.of.uncollected)

    def _add(self, folder: Folder, part: ShardRun, done: int) -> None:
        if len(part.records) < done:
            raise VlaError(
                f"{folder.place}: run {part.run.name} has {len(part.records)} records, but {done} were merged "
                "before: it was changed. Restore it, or leave it out"
            )
        self.known += done
        own: dict[str, Record] = {}
        for record in part.records[done:]:
            new = self._ours(record, part)
            self.records.append(new)
            self._tally.keep(new)
            if record.node not in own or takes_over(new, own[record.node]):
                own[record.node] = new
            if self._tally.records[record.node] is new:
                self._source[record.node] = part
        ended = {record.node for record in part.records[:done]}
        for item in part.items:
            if item.status not in (None, SHARED) and not (item.node in ended and item.node not in own):
                self._end(item, own.get(item.node))
            elif item.status is not None and self._statuses.get(item.node) is None and item.status != SHARED:
                self._set(item.node, item.status)

    def _ours(self, record: Record, part: ShardRun) -> Record:
        """Return a record as one of the merged run."""
        before = self._tally.records.get(record.node)
        new = dataclasses.replace(record, run=self._name, arrays=self.copies.name_of(part.run.name, record.arrays))
        if before is None or self._source.get(record.node) is part:
            return new
        if not is_complete(before.outcome):
            return dataclasses.replace(new, attempt=max(new.attempt, before.attempt + 1))
        if is_complete(new.outcome) and takes_over(new, before):
            # It is a later run's, by the order of the stores: the clock of its machine was behind.
            return dataclasses.replace(new, started=before.started)
        return new

    def _end(self, item: RunItem, record: Record | None) -> None:
        assert item.status is not None
        stands = self._tally.end(item.node, record, item.status)
        if stands is not None:
            self._set(item.node, stands)

    def _set(self, node: str, status: str) -> None:
        if self._statuses.get(node) != status:
            self._statuses[node] = self._changed[node] = status

    def write(self, run: Run | None, begun: NewRun, invocation: Mapping[str, Any]) -> Run:
        """Copy the files, then write all rows. Raises VlaError."""
        names = [each.name for each in self._store.runs()]
        number = 0 if run is None else len(self._store.episodes(run.name))

        def check() -> None:
            now = self._store.run(run.name) if run is not None else None
            if now is None or run is None:
                is_other = [each.name for each in self._store.runs()] != names
            else:
                is_other = now.invocation != run.invocation or len(self._store.episodes(now.name)) != number
            if is_other or (now is not None and is_alive(now)):
                raise VlaError(f"{self._store.results} was changed meanwhile; nothing was merged. Merge again")

        with uninterrupted():
            self.copies.write()
            return self._store.join(
                self._name, begun if self.is_new_run else None, self.records, self._changed, invocation, check
            )


def _begun(folders: Sequence[Folder], plan: ShardPlan) -> NewRun:
    first = folders[0].last.run
    started = min(part.run.started for folder in folders for part in folder.parts)
    items = [(each.node, each.episode, each.shared) for each in plan.items]
    return NewRun(started, without_shard(first.command), first.model, items)


def _invocation(folder: Folder, run: Run | None, merged: MergedOf, given: Sequence[str]) -> dict[str, Any]:
    """Return the invocation as on one machine: a shard's, without its sharding.

    A time limit's sample is not kept: each shard has a sample of its own, which do not combine to one.
    """
    known = (folder.last.run if run is None else run).invocation
    kept = {name: value for name, value in known.items() if name not in (SHARD, ORDER, SAMPLE)}
    if run is not None:
        return {**kept, MERGED: merged.table()}
    settings = kept.get("settings")
    if isinstance(settings, dict):
        settings = {name: value for name, value in settings.items() if name not in ("shard", "shard_durations")}
        typed, again = settings.get("typed"), settings.get("given")
        if isinstance(typed, list):
            settings["typed"] = [name for name in typed if name not in ("shard", "shard_durations", "results")]
        if isinstance(again, list):
            settings["given"] = [*(text for text in again if not str(text).startswith("--vla-results")), *given]
        kept["settings"] = settings
    return {**kept, MERGED: merged.table()}


def _merged(
    store: Store,
    run: Run,
    plan: ShardPlan,
    folders: Sequence[Folder],
    left_out: tuple[tuple[Path, ...], tuple[Aside, ...]],
    joining: _Joining,
) -> Merged:
    items = {item.node: item for item in store.items(run.name)}
    by_shard: dict[int, list[str]] = {}
    for each in plan.items:
        by_shard.setdefault(each.shard, []).append(encodable(each.node))
    by_number = {folder.number: folder for folder in folders}
    left = [
        found
        for number, nodes in sorted(by_shard.items())
        if (found := _left(number, [items[node] for node in nodes], by_number.get(number))) is not None
    ]
    return Merged(
        run,
        folders[0].last.run.command,
        plan.count,
        plan.count - len(by_shard),
        len(plan.items),
        len(plan.items) - sum(each.not_run + each.errors for each in left),
        joining.is_new_run,
        len(joining.records),
        joining.known,
        joining.copies.copied,
        tuple(joining.copies.lost),
        tuple(left),
        joining.merged.uncollected,
        by_number,
        *left_out,
    )


def _left(number: int, items: Iterable[RunItem], folder: Folder | None) -> Left | None:
    found = list(items)
    left = [item for item in found if item.status is None or item.is_error]
    if not left:
        return None
    not_run = sum(item.status is None for item in left)
    place, run = (None, None) if folder is None else (folder.place, folder.last.run)
    return Left(number, len(found), place, run, not_run, len(left) - not_run)
