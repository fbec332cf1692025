"""The merge of shards' runs into one run, equal to that of a single machine with the whole selection.

Items have the selection's order. A record is as its shard wrote it, but for the run's name and its trajectory's path.
Records come shard by shard, each in the order of its own store, and after those that the run already has: the record of
a case that counts is never chosen by the clocks of two machines, and merging again adds new records and changes nothing
else. Files are copied first, then all rows are written in one transaction.
"""

import dataclasses
import filecmp
import itertools
import re
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.records.counting import is_complete, takes_over
from pytest_vla.records.items import SHARED, RunItem
from pytest_vla.records.record import VIDEO_SUFFIX, Record
from pytest_vla.records.runs import ORDER, SAMPLE, Run, is_alive
from pytest_vla.records.store import STORE, NewRun, Store, encodable, open_store
from pytest_vla.records.tally import RunTally
from pytest_vla.scale.parts import Aside, Folder, ShardRun, check_together, find_folders, read_folder, without_shard
from pytest_vla.scale.shards import SHARD, ShardPlan, Uncollected, read_uncollected
from pytest_vla.util.files import whole_file
from pytest_vla.util.processes import uninterrupted

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
