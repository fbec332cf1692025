"""The results of published LIBERO evaluators as records: ``pytest-vla import FILE...``.

Formats, each found by content:

- text logs: see `pytest_vla.suites.libero.text_logs`;
- lerobot's ``eval_info.json`` (``per_task`` with ``successes``; huggingface/lerobot ``scripts/lerobot_eval.py``);
- vla-eval's results (allenai/vla-evaluation-harness): the JSON of a benchmark, of a shard, merged or exported, and the
  SQLite recording from 0.3 on;
- X-VLA's ``results.json``, a JSON object a line (2toinf/X-VLA ``evaluation/libero/libero_client.py``).

An episode becomes a case: its task, and the number of the episode as seed, which is its init state. What a file does
not say is in no record.
"""

import argparse
import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.task import UNKNOWN_EVALUATOR
from pytest_vla.records.load import Imported, ImportedLog, Importer
from pytest_vla.util.documents import read_plain
from pytest_vla.util.text import counted, did_you_mean, printable, quoted

if TYPE_CHECKING:
    from pytest_vla.plan.evaluators import Evaluator
    from pytest_vla.plan.manifests import Suite
    from pytest_vla.plan.task import Task
    from pytest_vla.records.record import Record
    from pytest_vla.suites.libero.text_logs import RateSection, TaskEpisodes, TextLog, TextSection

# Imported at the first use, so that --help is fast.

LEROBOT, VLA_EVAL, X_VLA = "lerobot", "vla-eval", "x-vla"

_LARGEST = 256 * 1024 * 1024  # Bytes of a file; a log of libero_90 with its progress bars has about 20 MB.
_MOST = 200_000  # Episodes of a file.
_LARGEST_COUNT, _SEED_BLOCKS = 1000, 4_000_000  # Of a log that has rates alone: episodes of a task, and seeds.
_SQLITE = b"SQLite format 3\0"
_SUITES = ("libero_spatial", "libero_object", "libero_goal", "libero_10", "libero_90")

# X-VLA's names for several suites.
_SEVERAL = {"libero30": _SUITES[:3][::-1], "libero130": (*_SUITES[:3][::-1], *_SUITES[3:])}

# Names that say nothing about a policy; its folder's name may.
_GENERIC = re.compile(r"(results?|eval_info|merged?|main|log|output|eval|stdout|recording|aggregate)", re.IGNORECASE)


@dataclass(frozen=True)
class LoggedEpisode:
    """An episode of a log.

    Attributes:
        task: its task.
        number: the number among the task's episodes, from 0: the seed.
        outcome: ``success``, ``failure`` or ``error``.
        place: where it is, for messages.
        error: the exception that ended it.
        steps: its control steps, or 0 if the file does not say.
        init_state: the init state that it began from, or None if that is not known.
    """

    task: "Task"
    number: int
    outcome: str
    place: str
    error: str = ""
    steps: int = 0
    init_state: int | None = None


@dataclass(frozen=True)
class ReadLog:
    """A log, as one of the readers gives it.

    Attributes:
        path: its file.
        digest: sha256 (hex) of its content.
        episodes: in their order.
        evaluator: the evaluator's name, or `UNKNOWN_EVALUATOR`.
        protocol: changes of the evaluator's protocol that the file says, by suite.
        remarks: lines for people.
        unfinished: what is missing at its end, or an empty text.
        shard: the shard's benchmark, number and the number of shards, or None.
    """

    path: Path
    digest: str
    episodes: tuple[LoggedEpisode, ...]
    evaluator: str
    protocol: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    unfinished: str = ""
    shard: tuple[str, int, int] | None = None


Reader = Callable[[Path, argparse.Namespace], ReadLog]


# Files.


def _content(path: Path) -> bytes:
    try:
        return read_plain(path, _LARGEST)
    except (OSError, ValueError) as error:
        raise VlaError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


@functools.lru_cache(maxsize=4)
def _text_of(path: Path, _: tuple[int, int]) -> tuple[str, str]:
    data = _content(path)
    # PowerShell's tee writes UTF-16.
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return data.decode(encoding, errors="replace"), hashlib.sha256(data).hexdigest()


def _text(path: Path) -> tuple[str, str]:
    """Return a file's text, and the sha256 (hex) of its content; it is read once for all formats."""
    try:
        about = path.stat()
    except (OSError, ValueError) as error:
        raise VlaError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    return _text_of(path, (about.st_size, about.st_mtime_ns))


def _is_sqlite(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def _has(path: Path, *texts: str) -> bool:
    """Whether a file is a JSON object with some of these texts, whole or cut off."""
    if not path.is_file() or _is_sqlite(path):
        return False
    text = _text(path)[0]
    return text.lstrip()[:1] == "{" and any(each in text for each in texts)


def _json(path: Path) -> tuple[dict[str, Any], str]:
    """Return a file's JSON object, with None for NaN, and the digest. Raises VlaError with the line."""
    text, digest = _text(path)
    try:
        value = json.loads(text, parse_constant=lambda _: None)
    except RecursionError:
        raise VlaError(f"{path}: it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise VlaError(f"{path}, line {error.lineno}: it is no JSON, or cut off: {error.msg}") from error
    except ValueError as error:
        raise VlaError(f"{path}: {error}") from error
    if not isinstance(value, dict):
        raise VlaError(f"{path}: expected a table, found {type(value).__name__}")
    return value, digest


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise VlaError(f"{where}: expected a table, found {quoted(value)}")
    return value


def _inner(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a table in a table, or an empty one if there is none."""
    found = table.get(name)
    return found if isinstance(found, dict) else {}


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list) or len(value) > _MOST:
        raise VlaError(f"{where}: expected a list, found {quoted(value)}")
    return value


def _whole(value: Any, where: str, largest: int = 2**31) -> int:
    if type(value) is not int or not 0 <= value <= largest:
        raise VlaError(f"{where}: expected a whole number from 0, found {quoted(value)}")
    return value


def _succeeded(value: Any, where: str) -> bool:
    if value not in (0, 1) or not isinstance(value, bool | int | float):
        raise VlaError(f"{where}: expected true or false, found {quoted(value)}")
    return bool(value)


def _check_rate(value: Any, successes: int, n: int, where: str, digits: int = 4, scale: int = 1) -> None:
    """Raise VlaError if a rate in a file is not that of its episodes; a missing one says nothing."""
    if value is None:
        return
    is_share = isinstance(value, int | float) and 0 <= value <= scale
    if not is_share or abs(value / scale - successes / max(n, 1)) > 0.5 * 10.0**-digits + 1e-9:
        told = f"{successes} of {counted(n, 'episode')} are successes"
        raise VlaError(f"{where} is {quoted(value)}, but {told}: the file contradicts itself")


def _rates_alone(
    path: Path,
    rates: Mapping[str, tuple[float | None, int | None]],
    why: str = "a run needs the outcome of each episode",
) -> VlaError:
    """Return the error for a file that has rates and no episodes; it reports the rates."""
    from pytest_vla.metrics.statistics import wilson_interval

    lines = []
    for name, (rate, n) in rates.items():
        if rate is None or not 0.0 <= rate <= 1.0:
            continue
        line = f"{printable(name)[:100]}: {100 * rate:.1f}%"
        if n and abs(round(rate * n) - rate * n) < 0.01:
            low, high = wilson_interval(round(rate * n), n)
            line += f" of {counted(n, 'episode')} (95% interval {100 * low:.1f} to {100 * high:.1f}%)"
        lines.append(line)
    return VlaError("\n".join([f"{path} has success rates only, and {why}: it is not imported", *lines]))


# Tasks: a log names them by their instructions, which several may share.


def _suite(name: str, where: str) -> "Suite":
    from pytest_vla.plan.manifests import load_suite

    try:
        found = load_suite(name)
    except VlaError as error:
        raise VlaError(f"{where}: {error}. Use --suite=NAME for the suite that was evaluated") from error
    if found.tasks and found.tasks[0].varied:
        raise VlaError(f"{where}: {name} is varied, and the log does not say how")
    return found


def _key(text: str) -> str:
    return text.replace("_", " ").strip(" .").lower()


def _suites_with(texts: Iterable[str]) -> list[str]:
    """Return the names of LIBERO's suites that have all of these instructions."""
    wanted = {_key(text) for text in texts}
    return [name for name in _SUITES if wanted <= {_key(task.language) for task in _suite(name, name).tasks}]


def _tasks_of(texts: Sequence[tuple[str, str]], tasks: "Sequence[Task]", suite: str) -> "list[Task]":
    """Return the task of each instruction: those with the same one are told apart by the order, which is the suite's.

    Args:
        texts: instructions in the log's order, each with its place.
        tasks: the suite's.
        suite: its name.

    Raises:
        VlaError: the suite has no such task, the log has one twice, or the order does not tell which it is.
    """
    places: dict[str, list[int]] = {}
    for index, task in enumerate(tasks):
        places.setdefault(_key(task.language), []).append(index)
    for text, where in texts:
        if _key(text) not in places:
            near = did_you_mean(_key(text), places)
            others = [name for name in _suites_with([text]) if name != suite]
            mend = "Use --suite=NAME, or correct the suite's name in a copy of the log if the log has one"
            hint = f" It is a task of {', '.join(others)}. {mend}" if others else near
            raise VlaError(f"{where}: {suite} has no task {quoted(text, 200)}.{hint}")
    wanted = [places[_key(text)] for text, _ in texts]
    if all(len(each) == 1 for each in wanted):
        found = [each[0] for each in wanted]
    else:
        found = _first_fit(wanted)
        latest = [-index for index in _first_fit([[-index for index in each[::-1]] for each in wanted[::-1]])][::-1]
        unclear = [number for number, each in enumerate(found) if not latest or latest[number] != each]
        if not found or unclear:
            text, where = texts[unclear[0] if unclear else 0]
            told = f"{suite} has several tasks {quoted(text, 200)}, and the log does not say which"
            raise VlaError(f"{where}: {told}. Import a log of all tasks, from its first line")
    seen: dict[int, str] = {}
    for index, (text, where) in zip(found, texts, strict=True):
        if index in seen:
            raise VlaError(
                f"{where}: {quoted(text, 200)} of {suite} is there twice, first at {seen[index]}: the log is "
                "doubled, or two runs are in one file. Import each as a file of its own"
            )
        seen[index] = where
    return [tasks[index] for index in found]


def _first_fit(wanted: Sequence[Sequence[int]]) -> list[int]:
    """Return the least increasing choice, one of each, or an empty list if there is none."""
    found: list[int] = []
    for each in wanted:
        index = next((index for index in each if not found or index > found[-1]), None)
        if index is None:
            return []
        found.append(index)
    return found


def _chosen_suite(texts: Sequence[str], said: str, options: argparse.Namespace, where: str, name: str = "") -> str:
    """Return the suite's name: what the file says, ``--suite``, the file's name, or the only one with these tasks."""
    from pytest_vla.plan.manifests import is_suite

    given = options.suite or ""
    if said and given and said != given and is_suite(said):
        raise VlaError(
            f"{where}: the log's suite is {printable(said)}, and --suite={given} was given. Leave --suite out; if the "
            f"log is wrong, replace {printable(said)} by {given} in a copy of it"
        )
    if said or given:
        # A script's own name of a suite, such as libero_goal_no_noops, is no suite's here.
        return given or said
    named = [suite for suite in _SUITES if re.search(rf"(?<![A-Za-z0-9]){suite}(?![A-Za-z0-9])", name)]
    if len(named) == 1:
        return named[0]
    possible = _suites_with(texts)
    if len(possible) == 1:
        return possible[0]
    told = f"its tasks are in {' and in '.join(possible)}" if possible else "no suite of LIBERO has all of its tasks"
    raise VlaError(f"{where}: the log does not say its suite: {told}. Use --suite=NAME")


# Text logs.


def read_text(path: Path, options: argparse.Namespace) -> ReadLog:
    """Read a text log of openpi's, OpenVLA's, OpenVLA-OFT's or GR00T N1.5's script. Raises VlaError."""
    from pytest_vla.suites.libero.text_logs import OFT, OPENPI, parse_text_log

    text, digest = _text(path)
    log = parse_text_log(text, path)
    evaluator, remarks = _text_evaluator(log, path, options)
    if log.rates:
        counts = [each for section in log.rates for each in _counts(section, path, digest, options)]
        remarks.append(
            f"{path}: it has success rates only. They become counts by task, and gates compare them unpaired"
        )
        return ReadLog(path, digest, tuple(counts), evaluator, remarks=tuple(remarks))
    episodes: list[LoggedEpisode] = []
    unfinished: list[str] = []
    for section in log.sections:
        if not section.tasks:
            n, successes = section.earlier
            raise _rates_alone(path, {section.suite or "all tasks": (successes / n, n)})
        name = path.name if len(log.sections) == 1 else ""
        where = f"{path}, line {section.line}"
        suite = _chosen_suite([each.text for each in section.tasks], section.suite, options, where, name)
        episodes += _text_episodes(section.tasks, suite, path)
        remarks += _text_remarks(section, suite)
        if section.open:
            unfinished.append(f"it breaks off in {section.open}")
        elif evaluator in (OPENPI, OFT) and not section.has_totals:
            unfinished.append(f"the totals that {evaluator} prints at the end of {suite} are missing")
    if not episodes:
        raise VlaError(f"{path}: it has no whole episode")
    return ReadLog(path, digest, tuple(episodes), evaluator, remarks=tuple(remarks), unfinished="; ".join(unfinished))


def _text_evaluator(log: "TextLog", path: Path, options: argparse.Namespace) -> tuple[str, list[str]]:
    """Return the evaluator of a text log, and how that is known."""
    from pytest_vla.suites.libero.text_logs import GROOT, OFT, OPENVLA

    if options.evaluator:
        return options.evaluator, []
    found, clues = set(log.evaluators), list(log.clues)
    for pattern, names in ((r"EVAL-\w+-.+", (OPENVLA, OFT)), (r"libero_eval_libero_\w+\.log", (GROOT,))):
        if re.match(pattern, path.name):
            found &= {*names}
            clues.append(f"the file's name {path.name!r}")
    if len(found) == 1:
        name = next(iter(found))
        return name, [f"{path}: evaluator {name}, by {', '.join(clues)}. --evaluator=NAME says another"]
    could = f"it could be {' or '.join(sorted(found))}" if found else f"{', '.join(clues)} contradict each other"
    return UNKNOWN_EVALUATOR, [
        f"{path}: its evaluator is unknown: {could}. Use --evaluator=NAME to compare it with others"
    ]


def _text_episodes(groups: "Sequence[TaskEpisodes]", suite: str, path: Path) -> Iterator[LoggedEpisode]:
    texts = [(group.text, f"{path}, line {group.line}") for group in groups]
    tasks = _tasks_of(texts, _suite(suite, texts[0][1]).tasks, suite)
    for group, task in zip(groups, tasks, strict=True):
        for each in group.episodes:
            outcome = "error" if each.error else "success" if each.succeeded else "failure"
            place = f"{path}, line {each.line}"
            yield LoggedEpisode(task, each.number - 1, outcome, place, each.error, init_state=each.number - 1)


def _counts(section: "RateSection", path: Path, digest: str, options: argparse.Namespace) -> Iterator[LoggedEpisode]:
    """Yield episodes of a log that has rates alone: as many successes of each task as its rate says.

    Their seeds are those of no other log, so that no comparison pairs them.

    Raises:
        VlaError: the log does not say the number of episodes, or the tasks, or contradicts itself.
    """
    from pytest_vla.suites.libero.text_logs import is_rate

    rates, first = section.rates, f"{path}, line {section.rates[0].line}"
    texts = [(each.text, f"{path}, line {each.line}") for each in rates]
    n = options.episodes or section.episodes // len(rates)
    if not n or (section.episodes and n * len(rates) != section.episodes):
        said = f"{section.episodes} episodes of" if section.episodes else "no number of episodes for"
        why = f"{said} {counted(len(rates), 'task')} (--episodes=N, the number of each task, imports it as counts)"
        shown = {each.text or f"rate in line {each.line}": (float(each.rate), None) for each in rates}
        raise _rates_alone(path, shown, why)
    if n > _LARGEST_COUNT:
        raise VlaError(f"{first}: expected up to {_LARGEST_COUNT} episodes of a task, found {n}")
    known = [text for text, _ in texts if text]
    suite = _chosen_suite(known, section.suite, options, first, path.name)
    tasks = _suite(suite, first).tasks
    if known and len(known) == len(rates):
        tasks = tuple(_tasks_of(texts, tasks, suite))
    elif len(rates) != len(tasks):
        told = f"it has {counted(len(rates), 'rate')} without 'Task:', and {suite} has {counted(len(tasks), 'task')}"
        raise VlaError(f"{first}: {told}, so nobody knows which task each is of. Import the log itself")
    seed = _LARGEST_COUNT * (1 + int(digest[:12], 16) % _SEED_BLOCKS)
    total = 0
    for number, (each, task) in enumerate(zip(rates, tasks, strict=True), 1):
        where = f"{path}, line {each.line}"
        done = round(float(each.rate) * n)
        total += done
        for text, successes, of in ((each.rate, done, n), (each.total, total, n * number)):
            if text and not is_rate(text, successes, of):
                raise VlaError(f"{where}: {text} is no success rate of {counted(of, 'episode')}")
        for k in range(n):
            yield LoggedEpisode(task, seed + k, "success" if k < done else "failure", where)


def _text_remarks(section: "TextSection", suite: str) -> Iterator[str]:
    """Yield what a text log does not have."""
    n, successes = section.earlier
    if n:
        by_counts = f"{counted(n, 'earlier episode')}, of which {successes} succeeded by its counts"
        yield f"{suite}: the log's beginning is missing: {by_counts}, in no rate here"


# lerobot's eval_info.json.


def read_lerobot(path: Path, options: argparse.Namespace) -> ReadLog:
    """Read lerobot's ``eval_info.json``. Raises VlaError."""
    body, digest = _json(path)
    if "per_task" not in body:
        raise _lerobot_rates(path, body)
    lists: dict[tuple[str, int], list[bool]] = {}
    for index, entry in enumerate(_list(body["per_task"], f"{path}: per_task")):
        where = f"{path}: per_task[{index}]"
        group, number = _table(entry, where).get("task_group"), _whole(entry.get("task_id"), f"{where}.task_id")
        if not isinstance(group, str):
            raise VlaError(f"{where}.task_group: expected a suite's name, found {quoted(group)}")
        metrics = _table(entry.get("metrics"), f"{where}.metrics")
        if not isinstance(metrics.get("successes"), list):
            raise _lerobot_rates(path, body)
        values = _list(metrics["successes"], f"{where}.metrics.successes")
        if (group, number) in lists:
            raise VlaError(f"{where}: task {number} of {printable(group)} is there twice: the file is doubled")
        lists[group, number] = [
            _succeeded(each, f"{where}.metrics.successes[{place}]") for place, each in enumerate(values)
        ]
    _check_lerobot(path, body, lists)
    episodes = []
    batch = options.batch_size
    for (group, number), successes in lists.items():
        tasks = _suite(_chosen_suite([], group, options, str(path)), str(path)).tasks
        if number >= len(tasks):
            raise VlaError(f"{path}: {printable(group)} has tasks 0 to {len(tasks) - 1}, and no task {number}")
        for k, success in enumerate(successes):
            outcome = "success" if success else "failure"
            place = f"{path}: {group}, task {number}, episode {k}"
            known = k if k < (batch or 1) else None
            episodes.append(LoggedEpisode(tasks[number], k, outcome, place, init_state=known))
    if not episodes:
        raise VlaError(f"{path}: it has no episode")
    remarks = []
    if any(each.init_state is None for each in episodes):
        remarks.append(
            f"{path}: it does not say lerobot's eval.batch_size. Episodes after the first batch begin from init states "
            "that depend on earlier outcomes, so they are not recorded. Use --batch-size=N if N was as large as the "
            "number of episodes of a task"
        )
    return ReadLog(path, digest, tuple(episodes), options.evaluator or LEROBOT, remarks=tuple(remarks))


def _check_lerobot(path: Path, body: Mapping[str, Any], lists: Mapping[tuple[str, int], Sequence[bool]]) -> None:
    """Raise VlaError if the sums are not those of the episodes."""
    groups = _table(body.get("per_group") or {}, f"{path}: per_group")
    overall = _table(body.get("overall") or {}, f"{path}: overall")
    parts = [(f"per_group.{printable(name)}", table, name) for name, table in groups.items()]
    for where, table, name in [*parts, ("overall", overall, "")]:
        values = [each for (group, _), some in lists.items() if name in ("", group) for each in some]
        told = _table(table, f"{path}: {where}")
        n = told.get("n_episodes")
        if n is not None and n != len(values):
            raise VlaError(f"{path}: {where}.n_episodes is {quoted(n)}, but {len(values)} are in per_task")
        _check_rate(told.get("pc_success"), sum(values), len(values), f"{path}: {where}.pc_success", 6, 100)


def _lerobot_rates(path: Path, body: Mapping[str, Any]) -> VlaError:
    """Return the error for a file of an earlier lerobot, or without lists of episodes."""
    groups = body.get("per_group")
    tables = dict(groups) if isinstance(groups, dict) else {}
    for name in ("overall", "aggregated"):
        tables |= {name: body[name]} if isinstance(body.get(name), dict) else {}
    rates: dict[str, tuple[float | None, int | None]] = {}
    for name, table in tables.items():
        rate, n = (table.get("pc_success"), table.get("n_episodes")) if isinstance(table, dict) else (None, None)
        if isinstance(rate, int | float) and 0 <= rate <= 100:
            rates[str(name)] = rate / 100, n if type(n) is int else None
    return _rates_alone(path, rates)


# vla-eval.


def read_vla_eval(path: Path, options: argparse.Namespace) -> ReadLog:
    """Read a result of vla-eval: JSON or SQLite. Raises VlaError."""
    if _is_sqlite(path):
        bodies, digest = _recorded(path)
    else:
        body, digest = _json(path)
        bodies = [body]
    episodes: list[LoggedEpisode] = []
    protocol: dict[str, Mapping[str, Any]] = {}
    remarks: list[str] = []
    unfinished: list[str] = []
    shard = None
    for body in bodies:
        some, suite, changes, told = _vla_eval_episodes(path, body, options)
        episodes += some
        protocol[suite] = changes
        remarks += told
        unfinished += _vla_eval_missing(body, suite)
        if isinstance(body.get("shard"), dict) and len(bodies) == 1:
            number, total = (_whole(body["shard"].get(name), f"{path}: shard", 100_000) for name in ("id", "total"))
            shard = suite, number, total
    if not episodes:
        raise VlaError(f"{path}: it has no episode")
    return ReadLog(
        path,
        digest,
        tuple(episodes),
        options.evaluator or VLA_EVAL,
        protocol,
        tuple(remarks),
        "; ".join(unfinished),
        shard,
    )


def _vla_eval_missing(body: Mapping[str, Any], suite: str) -> Iterator[str]:
    merged = body.get("merge_info")
    missing = merged.get("shards_missing") if isinstance(merged, dict) else None
    if isinstance(missing, list) and missing:
        yield f"{suite}: shards {', '.join(map(str, missing[:5]))} are missing"
    elif body.get("partial"):
        yield f"{suite}: the file says that it is partial"


def _vla_eval_episodes(
    path: Path, body: Mapping[str, Any], options: argparse.Namespace
) -> tuple[list[LoggedEpisode], str, dict[str, Any], list[str]]:
    config = _inner(body, "config")
    benchmark = str(config.get("benchmark") or body.get("benchmark") or "")
    if not re.search(r"(^|[.:])LIBEROBenchmark(_|$)", benchmark):
        raise VlaError(f"{path}: it is a result of {printable(benchmark[:100]) or 'no benchmark'}, expected LIBERO's")
    params = _inner(config, "params")
    where = f"{path}: tasks"
    entries = [_table(each, where) for each in _list(body.get("tasks"), where)]
    suite = _chosen_suite([str(each.get("task")) for each in entries], str(params.get("suite") or ""), options, where)
    tasks = _suite(suite, where).tasks
    episodes = [each for entry in entries for each in _task_result(path, entry, tasks, suite)]
    errors = sum(each.outcome == "error" for each in episodes)
    successes = sum(each.outcome == "success" for each in episodes)
    for name, digits in (("mean_success", 4), ("overall_success_rate", 9)):
        _check_either(body.get(name), successes, len(episodes), errors, f"{path}: {name}", digits)
    merged = _inner(body, "merge_info")
    for name, total in (
        ("num_episodes_total", body.get("num_episodes_total")),
        ("total_episodes", merged.get("total_episodes")),
    ):
        if total is not None and total != len(episodes):
            raise VlaError(f"{path}: {name} is {quoted(total)}, but it has {len(episodes)} episodes")
    mode = str(body.get("mode") or "sync")
    told = [f"{path}: it ran in mode {printable(mode)[:60]}, in which time goes on"] if mode != "sync" else []
    return episodes, suite, _vla_eval_protocol(config, params, body, path), told


def _task_result(path: Path, entry: Mapping[str, Any], tasks: "Sequence[Task]", suite: str) -> list[LoggedEpisode]:
    """Return the episodes of one entry of a result: of one task, or of all with its instruction."""
    text = str(entry.get("task"))
    where = f"{path}: {quoted(text, 200)}"
    found: dict[tuple[int, int], LoggedEpisode] = {}
    for place, each in enumerate(_list(entry.get("episodes"), f"{where}: episodes")):
        at = f"{where}, episodes[{place}]"
        task = _task_of(_table(each, at), text, tasks, suite, at)
        number = _episode_number(each.get("episode_id"), at)
        if (task.index, number) in found:
            raise VlaError(f"{at}: episode {number} is there twice: the file is doubled")
        metrics = _inner(each, "metrics")
        error = str(each.get("failure_reason") or "")
        said = metrics.get("success", each.get("success"))
        outcome = "error" if error else "success" if _succeeded(said, f"{at}.success") else "failure"
        detail = str(each.get("failure_detail") or "").strip().splitlines()[-1:]
        steps = 0 if each.get("steps") is None else _whole(each["steps"], f"{at}.steps", 10_000_000)
        start = _whole(each.get("episode_idx", number), f"{at}.episode_idx", 10_000_000)
        told = ": ".join([error, *detail])
        found[task.index, number] = LoggedEpisode(task, number, outcome, at, told, steps, start)
    successes = sum(each.outcome == "success" for each in found.values())
    errors = sum(each.outcome == "error" for each in found.values())
    if (n := entry.get("num_episodes")) is not None and n != len(found):
        raise VlaError(f"{where}: num_episodes is {quoted(n)}, but it has {len(found)}: it is cut or doubled")
    for name, digits in (("mean_success", 4), ("success_rate", 9)):
        _check_either(entry.get(name), successes, len(found), errors, f"{where}: {name}", digits)
    return [found[key] for key in sorted(found)]


def _task_of(episode: Mapping[str, Any], text: str, tasks: "Sequence[Task]", suite: str, where: str) -> "Task":
    """Return the task of an episode: by its number, where the file has it, else by its instruction."""
    number = episode.get("task_id")
    if type(number) is not int:
        return _tasks_of([(text, where)], tasks, suite)[0]
    if not 0 <= number < len(tasks) or _key(tasks[number].language) != _key(text):
        raise VlaError(f"{where}: {quoted(text, 200)} is not task {number} of {suite}")
    return tasks[number]


def _check_either(value: Any, successes: int, n: int, errors: int, where: str, digits: int) -> None:
    """Check a rate; earlier versions left errors out of it, 0.8 counts them as failures."""
    try:
        _check_rate(value, successes, n, where, digits)
    except VlaError:
        if not errors:
            raise
        _check_rate(value, successes, n - errors, where, digits)


def _episode_number(value: Any, where: str) -> int:
    # 0.0.4 wrote the task's text, and _ep and the number.
    found = re.search(r"(?:^|_ep)(\d{1,6})$", str(value))
    if isinstance(value, bool) or found is None:
        raise VlaError(f"{where}.episode_id: expected a number, found {quoted(value)}")
    return int(found[1])


def _vla_eval_protocol(
    config: Mapping[str, Any], params: Mapping[str, Any], body: Mapping[str, Any], path: Path
) -> dict[str, Any]:
    """Return the fields of the protocol that a configuration sets."""
    server = _inner(body, "server_info")
    further = _inner(server, "observation_params")
    said = {**further, **params}
    found: dict[str, Any] = {}
    budget = config.get("max_steps") if config.get("max_steps") is not None else said.get("max_steps")
    if budget is not None:
        found["max_steps"] = _whole(budget, f"{path}: max_steps", 1_000_000)
    if said.get("num_steps_wait") is not None:
        found["settle_steps"] = _whole(said["num_steps_wait"], f"{path}: num_steps_wait", 100_000)
    seed = said.get("env_seed") if said.get("env_seed") is not None else said.get("seed")
    if seed is not None:
        found["scenes"] = f"stream {_whole(seed, f'{path}: seed', 999_999_999)}"
    if said.get("quat_no_antipodal"):
        found["state"] = "axis_angle"
    return found


@contextmanager
def _sqlite(path: Path) -> Iterator[Any]:
    """Yield a connection to a recording, read-only and as it is, whatever lies beside it; its schema calls nothing."""
    import sqlite3

    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST // 8)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        yield connection


def _tables(connection: Any) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _recorded(path: Path) -> tuple[list[dict[str, Any]], str]:
    """Return the results of each benchmark in a SQLite recording, as its export has them, and a digest of the rows."""
    import sqlite3

    for suffix in ("-journal", "-wal"):
        other = path.with_name(path.name + suffix)
        if other.is_file() and other.stat().st_size:
            raise VlaError(
                f"{path}: {other.name} lies beside it: it is being written, or vla-eval was stopped. Wait for "
                "its end, or let `vla-eval export` read it once"
            )
    digest = hashlib.sha256()
    try:
        with _sqlite(path) as connection:
            bodies = [
                _recorded_body(connection, path, row, digest) for row in _rows(connection, path, _METADATA, digest)
            ]
    except sqlite3.Error as error:
        raise VlaError(f"{path} cannot be read as vla-eval's recording: {printable(str(error))}") from error
    if not bodies:
        raise VlaError(f"{path}: the recording has no benchmark")
    return bodies, digest.hexdigest()


_METADATA = "SELECT eval_id, metadata FROM eval_metadata ORDER BY eval_id"
# Of a work item that ran again the last result counts, as in vla-eval's own export.
_RESULTS = (
    "SELECT task_name, episode_id, metrics, steps, context, failure_reason, failure_detail, eid FROM episode_results"
    " WHERE eval_id = ? ORDER BY rowid"
)
_SHARDS = "SELECT shard_id, num_shards, complete FROM eval_shards WHERE eval_id = ? ORDER BY shard_id"


def _rows(connection: Any, path: Path, statement: str, digest: Any, *parameters: str) -> list[tuple[Any, ...]]:
    rows = connection.execute(f"{statement} LIMIT {_MOST + 1}", parameters).fetchall()
    if len(rows) > _MOST:
        raise VlaError(f"{path}: expected up to {_MOST} episodes, found more")
    digest.update(repr(rows).encode())
    return list(rows)


def _inner_json(value: Any, where: str) -> dict[str, Any]:
    if value is None or value == "":
        return {}
    try:
        found = json.loads(value, parse_constant=lambda _: None)
    except (TypeError, ValueError, RecursionError) as error:
        raise VlaError(f"{where}: expected JSON, found {quoted(value)}") from error
    return dict(_table(found, where))


def _recorded_body(connection: Any, path: Path, row: tuple[Any, ...], digest: Any) -> dict[str, Any]:
    eval_id, said = row
    metadata = _inner_json(said, f"{path}: metadata of {quoted(eval_id)}")
    tables = _tables(connection)
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for number, (task, episode, metrics, steps, context, reason, detail, eid) in enumerate(
        _rows(connection, path, _RESULTS, digest, eval_id)
    ):
        where = f"{path}: row {number} of episode_results"
        about = _inner_json(context, where)
        index = about["task_idx"] if type(about.get("task_idx")) is int else None
        said = {"episode_id": episode, "steps": steps, "failure_reason": reason, "failure_detail": detail}
        key = str(task), index, episode, eid if index is None else ""
        found[key] = {**about, **said, "metrics": _inner_json(metrics, where)}
    by_task: dict[tuple[str, int | None], list[dict[str, Any]]] = {}
    for (name, index, *_), each in found.items():
        by_task.setdefault((name, index), []).append(each)
    body = {
        **{name: metadata.get(name) for name in ("benchmark", "mode", "config", "server_info")},
        "tasks": [{"task": task, "episodes": some} for (task, _), some in by_task.items()],
    }
    shards = _rows(connection, path, _SHARDS, digest, eval_id) if "eval_shards" in tables else []
    total = max((_whole(each[1], f"{path}: eval_shards") for each in shards), default=0)
    if len(shards) < total or not all(complete for *_, complete in shards):
        body["partial"] = True
    return body


# X-VLA's results.json.


def read_x_vla(path: Path, options: argparse.Namespace) -> ReadLog:
    """Read X-VLA's ``results.json``. Raises VlaError with the line."""
    text, digest = _text(path)
    if rates := _x_vla_rates(text):
        raise _rates_alone(path, rates)
    groups: dict[str, list[tuple[str, int, list[bool]]]] = {}
    ended: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        for key, value in _json_line(line, where).items():
            kind, _, rest = str(key).partition("/")
            suite, _, task = rest.partition("/")
            if kind == "sim" and suite and task:
                if suite in ended:
                    raise VlaError(
                        f"{where}: {printable(suite)} goes on after its total in line {ended[suite]}: a second run was "
                        "added to the file. Import each as a file of its own"
                    )
                some = groups.setdefault(suite, [])
                if not some or some[-1][0] != task:
                    some.append((task, number, []))
                some[-1][2].append(_succeeded(value, where))
            elif kind == "sim_summary" and suite:
                results = [each for *_, some in groups.get(suite, []) for each in some]
                if not results:
                    raise VlaError(f"{where}: the total of {printable(suite)} has no episodes before it")
                _check_rate(value, sum(results), len(results), where, 9)
                ended[suite] = number
            else:
                raise VlaError(f"{where}: expected 'sim/SUITE/TASK', found {quoted(key, 100)}")
    episodes: list[LoggedEpisode] = []
    unfinished: list[str] = []
    for suite, tasks in groups.items():
        episodes += _x_vla_episodes(path, suite, tasks, options)
        if suite not in ended:
            unfinished.append(f"the total of {suite} ('sim_summary/{suite}/all') is missing")
    if not episodes:
        raise VlaError(f"{path}: it has no episode")
    return ReadLog(path, digest, tuple(episodes), options.evaluator or X_VLA, unfinished="; ".join(unfinished))


def _x_vla_rates(text: str) -> dict[str, tuple[float | None, int | None]]:
    """Return the rates by suite in the file that X-VLA's client writes beside its suites' folders, if it is that."""
    try:
        found = json.JSONDecoder().raw_decode(text.lstrip())[0] if '"libero' in text[:100] else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict) or not all(isinstance(rate, float) for rate in found.values()):
        return {}
    return {str(suite): (rate, None) for suite, rate in found.items()}


def _json_line(line: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise VlaError(f"{where}: it is no JSON, or cut off: {printable(line[:80])}") from error
    return dict(_table(found, where))


def _x_vla_episodes(
    path: Path, suite: str, groups: Sequence[tuple[str, int, list[bool]]], options: argparse.Namespace
) -> Iterator[LoggedEpisode]:
    texts = [(text, f"{path}, line {line}") for text, line, _ in groups]
    names = _SEVERAL.get(suite) or (_chosen_suite([text for text, _ in texts], suite, options, texts[0][1]),)
    tasks = [task for name in names for task in _suite(name, texts[0][1]).tasks]
    for (_, line, results), task in zip(groups, _tasks_of(texts, tasks, suite), strict=True):
        for k, success in enumerate(results):
            outcome = "success" if success else "failure"
            init_state = k % task.protocol.init_states
            yield LoggedEpisode(task, k, outcome, f"{path}, line {line + k}", init_state=init_state)


# From logs to records.


def _read(options: argparse.Namespace, kind: str, reader: Reader) -> Imported:
    """Read the files of one command, which become one run."""
    logs = [reader(path, options) for path in options.files]
    for log in logs:
        missing = "" if log.shard else log.unfinished
        if missing and not options.allow_unfinished:
            raise VlaError(
                f"{log.path}: the log is not finished: {missing}. Use --allow-unfinished to import the episodes that "
                "ended"
            )
    _check_together(logs, options)
    evaluator = _evaluator(logs[0].evaluator)
    model = options.model or _model_of(logs, options)
    digests = sorted(log.digest for log in logs)
    digest = digests[0] if len(logs) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    make = functools.partial(_records, logs=logs, evaluator=evaluator, model=model, kind=kind)
    # Before anything is stored: a suite that the evaluator does not know is refused.
    make("check")
    remarks = [text for log in logs for text in log.remarks]
    remarks += [f"{log.path}: {log.unfinished}" for log in logs if log.unfinished]
    remarks += _of_all(logs)
    return Imported((ImportedLog(logs[0].path, model, None, digest, (make,), "\n".join(map(printable, remarks))),))


def _check_together(logs: Sequence[ReadLog], options: argparse.Namespace) -> None:
    """Raise VlaError if the files are no parts of one run."""
    evaluators = {log.evaluator: log.path for log in logs}
    if len(evaluators) > 1:
        told = ", ".join(f"{path} by {name}" for name, path in evaluators.items())
        raise VlaError(
            f"the files of one command become one run, and their evaluators differ: {told}. Import them one by one"
        )
    seen: dict[tuple[str, int], LoggedEpisode] = {}
    for log in logs:
        for each in log.episodes:
            other = seen.setdefault((each.task.id, each.number), each)
            if other is not each:
                again = "Import them one by one" if len(logs) > 1 else "The log is doubled"
                twice = f"episode {each.number} of {each.task.id} is there twice"
                raise VlaError(f"{each.place}: {twice}, first at {other.place}. {again}")
    shards: dict[tuple[str, int], dict[int, Path]] = {}
    for log in logs:
        if log.shard is not None:
            suite, number, total = log.shard
            shards.setdefault((suite, total), {})[number] = log.path
    for (suite, total), found in shards.items():
        missing = sorted({*range(total)} - found.keys())[:5]
        if missing and not options.allow_unfinished:
            told = f"shards {', '.join(map(str, missing))} of {total} of {suite} are missing"
            raise VlaError(f"{next(iter(found.values()))}: {told}. Name all files, or use --allow-unfinished")


def _evaluator(name: str) -> "Evaluator | None":
    from pytest_vla.plan.evaluators import load_evaluator

    return None if name == UNKNOWN_EVALUATOR else load_evaluator(name)


def _model_of(logs: Sequence[ReadLog], options: argparse.Namespace) -> str:
    """Return a name for the policy, which logs do not say: the file's, or its folder's."""
    if len(logs) > 1:
        raise VlaError("the files become one run: name its policy by --model=NAME")
    path = logs[0].path.resolve()
    return printable(path.parent.name if _GENERIC.fullmatch(path.stem) and path.parent.name else path.stem)


def _of_all(logs: Sequence[ReadLog]) -> Iterator[str]:
    """Yield what is unusual about the episodes: missing tasks, uneven numbers, errors."""
    episodes = [each for log in logs for each in log.episodes]
    by_suite: dict[str, dict[str, int]] = {}
    for each in episodes:
        counts = by_suite.setdefault(each.task.suite, {})
        counts[each.task.name] = counts.get(each.task.name, 0) + 1
    for suite, counts in by_suite.items():
        of = len(_suite(suite, suite).tasks)
        if len(counts) < of:
            yield f"{suite}: {len(counts)} of {of} tasks"
        if len({*counts.values()}) > 1:
            yield f"{suite}: from {min(counts.values())} to {max(counts.values())} episodes a task"
    if errors := sum(each.outcome == "error" for each in episodes):
        yield (
            f"{counted(errors, 'episode')} ended by an exception: an error here, which is in no rate; the evaluator "
            "counts it as a failure"
        )


def _records(
    run: str, *, logs: Sequence[ReadLog], evaluator: "Evaluator | None", model: str, kind: str
) -> "list[Record]":
    import numpy as np

    from pytest_vla.plan.case import Case
    from pytest_vla.plan.choices import EITHER
    from pytest_vla.plan.task import with_protocol
    from pytest_vla.records.record import SCHEMA, Record
    from pytest_vla.records.trajectory import Trajectory, digest_of

    none = np.zeros((0, 0))
    tables: dict[tuple[str, str], dict[str, Any]] = {}
    records = []
    for log in logs:
        changes = log.protocol
        for each in log.episodes:
            key = str(log.path), each.task.id
            if key not in tables:
                tables[key] = (
                    {"evaluator": UNKNOWN_EVALUATOR}
                    if evaluator is None
                    else with_protocol(evaluator.task(each.task), **changes.get(each.task.suite, {})).protocol.table()
                )
                if any(one.init_state is None for one in log.episodes):
                    tables[key].pop("init_states", None)
                if tables[key].get("control") == EITHER:
                    # The policy decided, and no log says how.
                    del tables[key]["control"]
            case = Case(each.task.suite, each.task.name, each.number)
            start = {} if each.init_state is None else {"init_state": each.init_state}
            records.append(
                Record(
                    schema=SCHEMA,
                    run=run,
                    case=case.id,
                    node=case.node_id,
                    suite=case.suite,
                    task=case.task,
                    seed=case.seed,
                    variation={},
                    attempt=1,
                    worker="",
                    started="",
                    instruction=each.task.language,
                    outcome=each.outcome,
                    reason="imported-error" if each.outcome == "error" else None,
                    message=printable(each.error[:1000]) if each.outcome == "error" else None,
                    steps=each.steps,
                    success_step=each.steps if each.outcome == "success" and each.steps else None,
                    literals={},
                    eef_pos=None,
                    costs=(),
                    metrics={},
                    seeds=start,
                    protocol=tables[key],
                    replan=None if evaluator is None else evaluator.replan,
                    policy=model,
                    policy_digest=None,
                    # The file is in the run's invocation: its place is no condition of an episode.
                    provenance={"imported": kind},
                    timings={},
                    digest=digest_of(each.outcome, each.steps, {}, Trajectory(none, none, none, none)),
                    arrays=None,
                )
            )
    return records


def _is_text(path: Path) -> bool:
    from pytest_vla.suites.libero.text_logs import is_text_log

    return path.is_file() and not _is_sqlite(path) and is_text_log(_text(path)[0])


def _is_vla_eval(path: Path) -> bool:
    if not (path.is_file() and _is_sqlite(path)):
        return _has(path, '"harness_version"', '"merge_info"', '"mean_success"')
    import sqlite3

    try:
        with _sqlite(path) as connection:
            return {"eval_metadata", "episode_results"} <= _tables(connection)
    except sqlite3.Error:
        return False


def _is_x_vla(path: Path) -> bool:
    return _has(path, '"sim/', '"sim_summary/') or (_has(path, '"libero') and bool(_x_vla_rates(_text(path)[0])))


def _positive(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,8}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"expected a number from 1, found {text!r}")
    return int(text)


def _declare_lerobot(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--batch-size",
        metavar="N",
        type=_positive,
        help="lerobot's eval.batch_size, which its file does not say: with N of at least the episodes of a task, their "
        "init states are known (default: unknown)",
    )


def _declare_text(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--episodes",
        metavar="N",
        type=_positive,
        help="the number of episodes of each task, for a text log with success rates alone (default: by its total)",
    )


def _importer(
    kind: str,
    reader: Reader,
    recognises: Callable[[Path], bool],
    declare: Callable[[argparse.ArgumentParser], None] = lambda parser: None,
) -> Importer:
    return Importer(functools.partial(_read, kind=kind, reader=reader), recognises, declare)


TEXT_IMPORTER = _importer("libero-log", read_text, _is_text, _declare_text)
LEROBOT_IMPORTER = _importer(
    LEROBOT, read_lerobot, lambda path: _has(path, '"pc_success"', '"per_task"'), _declare_lerobot
)
VLA_EVAL_IMPORTER = _importer(VLA_EVAL, read_vla_eval, _is_vla_eval)
X_VLA_IMPORTER = _importer(X_VLA, read_x_vla, _is_x_vla)
