"""The runs of shards in results folders: found, read, and checked to belong together. Nothing is written."""

import json
import shlex
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.plan.costs import DECLARED
from pytest_vla.records.counting import ALARM, OF_PROVENANCE, OF_WORLD, UNKNOWN, conditions_of, is_complete
from pytest_vla.records.items import RunItem
from pytest_vla.records.record import Record
from pytest_vla.records.runs import Run
from pytest_vla.records.store import STORE, open_store
from pytest_vla.scale.shards import ShardOf, shard_of
from pytest_vla.util.text import counted, printable

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
