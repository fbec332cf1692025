"""``pytest-vla import``: the logs of other evaluations as records, so that they are reported as own runs are."""

import argparse
import hashlib
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError

if TYPE_CHECKING:
    from pytest_vla.language.published import Published
    from pytest_vla.records.record import Record
    from pytest_vla.records.store import Store
    from pytest_vla.suites.libero_para.logs import ParaEpisode

# What the command needs is imported when it runs: --help has to come at once.

LIBERO_PARA = "libero-para"

Entered = list[tuple[str, tuple["ParaEpisode", ...]]]
"""The names of a log's runs, with their episodes."""


def declare(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    from pytest_vla.run.arguments import declare_results, one_seed, some_text

    parser.epilog = (
        "A log of LIBERO-Para is a folder such as xiaomi-robotics-0_seed7, or xiaomi-robotics-0/seed7, with eval0.json "
        "to eval9.json, a file a task, as its evaluation writes them: it becomes a run with a record an episode; all "
        "logs of a folder are imported, or none. Where a log has several episodes of a paraphrase, the second of each "
        "is a run of its own, with run seed 1, and so on: reports count them all. "
        "`pytest-vla report` makes the tables. A log has no trajectories, so nothing that needs paths is known of it."
    )
    parser.add_argument("kind", metavar=LIBERO_PARA, choices=(LIBERO_PARA,), help="what wrote the log")
    parser.add_argument("folder", metavar="DIR", type=Path, help="the log, or a folder of logs")
    parser.add_argument(
        "--model", metavar="NAME", type=some_text, help="of the policy (default: what the folder's name says)"
    )
    parser.add_argument("--seed", metavar="N", type=one_seed, help="of the log (default: what its name says, or 7)")
    parser.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        help="folder with LIBERO-Para's libero_para_metadata.csv, or the file: texts are checked against it "
        "(default: PYTEST_VLA_DATA)",
    )
    declare_results(parser)


@dataclass(frozen=True)
class Log:
    """A log that was read.

    Attributes:
        folder: where it is.
        episodes: of `pytest_vla.suites.libero_para.logs.read_para_log`.
        model: the policy's name.
        seed: of all of it.
        digest: of `log_digest`.
        remark: on model and seed, where its name does not say them; empty: it does.
    """

    folder: Path
    episodes: "tuple[ParaEpisode, ...]"
    model: str
    seed: int
    digest: str
    remark: str


def run(options: argparse.Namespace) -> None:
    """Reads the logs, enters them as runs, and says what they were. Raises VlaError."""
    try:
        for line in _imported(options):
            print(_printable(line))
    except VlaError as error:
        raise VlaError(_printable(str(error))) from error


def _imported(options: argparse.Namespace) -> Iterator[str]:
    """Imports, and then says what."""
    from pytest_vla.commands.pride import csv_of
    from pytest_vla.records.store import open_store
    from pytest_vla.suites.libero_para.logs import find_para_logs, published_outcomes

    folders = find_para_logs(options.folder)
    if options.seed is not None and len(folders) > 1:
        raise VlaError(
            f"--seed: {options.folder} has {len(folders)} logs, and a seed is of one; import them one by one"
        )
    logs = [_read(folder, options) for folder in folders]
    _check_different(logs)
    csv, published, checked = csv_of(options.data), None, "texts not checked: no CSV was given (--data)"
    if csv is not None:
        from pytest_vla.language.published import load_published, missing_paraphrases

        published, checked = load_published(csv), f"texts checked against {csv}"
        checked += f", which has {missing}" if (missing := missing_paraphrases(published)) else ""
        for log in logs:
            published_outcomes(log.episodes, published, "")
    with open_store(options.results, create=True) as store:
        known = {str(run.invocation.get("log_digest")): run for run in store.runs() if run.done}
        new = [log for log in logs if log.digest not in known]
        if not new:
            run = known[logs[0].digest]
            raise VlaError(
                f"{options.folder} is in {store.results} already, as run {run.name} of {run.model}: "
                f"`pytest-vla report {run.name}`"
            )
        entered = _enter(store, new, options.kind, published)
    for log in logs:
        if log.digest in known:
            yield f"{log.folder} is in {options.results} already, as run {known[log.digest].name}: left as it is"
    for log in new:
        yield from _told(log, entered[log.digest])
    yield checked
    yield from _beside_the_protocol([each for log in new for each in log.episodes])


def log_digest(folder: Path) -> str:
    """sha256 (hex) over the log's files and their names. Raises VlaError."""
    digest = hashlib.sha256()
    try:
        for file in sorted(path for path in folder.iterdir() if re.fullmatch(r"eval[0-9]{1,4}\.json", path.name)):
            digest.update(f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    except OSError as error:
        raise VlaError(f"{folder} cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def records_of_log(
    episodes: Sequence["ParaEpisode"],
    *,
    run: str,
    model: str,
    seed: int,
    log: str,
    digest: str,
    repeat: int = 0,
    published: "Published | None" = None,
) -> list["Record"]:
    """The records of a log's episodes, in their order.

    Args:
        episodes: of `pytest_vla.suites.libero_para.logs.in_rounds`: one of each paraphrase.
        run: name of the run.
        model: the policy's name.
        seed: of the log.
        log: what the log is called, for the provenance.
        digest: of `log_digest`, for the provenance.
        repeat: which of a paraphrase's episodes they are: 0 for the first ones. It is the run seed of further ones,
            so that all of them count.
        published: the CSV, whose similarities the records take up; None: it is not at hand.

    Raises:
        VlaError: a task's number is none of LIBERO-Goal's.
    """
    import numpy as np

    from pytest_vla.language.published import numbered_tasks
    from pytest_vla.plan.case import Case
    from pytest_vla.records.record import SCHEMA, Record, Trajectory, digest_of
    from pytest_vla.suites.libero_para.variations import variation_of

    tasks = numbered_tasks()
    none = np.zeros((0, 0))
    records: list[Record] = []
    for each in episodes:
        if each.task >= len(tasks):
            raise VlaError(f"{log}: eval{each.task}.json is of no task: LIBERO-Para has 0 to {len(tasks) - 1}")
        task = tasks[each.task]
        variation = variation_of(each, task.language, published)
        case = Case(task.suite, task.name, seed, variation.label)
        outcome = "success" if each.success else "failure"
        record = Record(
            schema=SCHEMA,
            run=run,
            case=case.id,
            node=case.node_id,
            suite=case.suite,
            task=case.task,
            seed=case.seed,
            variation=variation.table(),
            attempt=1,
            worker="",
            started="",
            instruction=each.instruction,
            outcome=outcome,
            reason=None,
            message=None,
            steps=each.steps,
            success_step=each.steps if each.success else None,
            literals={},
            eef_pos=None,
            costs={},
            metrics={},
            seeds={"init_state": each.init_state} | ({"run": repeat} if repeat else {}),
            protocol=asdict(task.protocol),
            replan=None,
            policy=model,
            policy_digest=None,
            provenance={"imported": LIBERO_PARA, "log": log, "log_digest": digest},
            timings={},
            digest=digest_of(outcome, each.steps, {}, Trajectory(none, none, none, none)),
            arrays=None,
        )
        records.append(record)
    return records


def _read(folder: Path, options: argparse.Namespace) -> Log:
    from pytest_vla.plan.manifests import load_suite
    from pytest_vla.suites.libero_para.logs import log_name, read_para_log

    model, seed = log_name(folder)
    seed, remark = seed if options.seed is None else options.seed, ""
    if seed is None:
        seed = (load_suite("libero_para").seeds or (0,))[0]
        remark = f"{folder}: its name says no seed, so it is taken as {seed}, LIBERO-Para's first; else --seed=N"
        remark += "" if options.model else ", and --model=NAME for another model"
    return Log(folder, read_para_log(folder), options.model or _printable(model), seed, log_digest(folder), remark)


def _printable(text: str) -> str:
    # A terminal would obey the control characters of a folder's name.
    return "".join(c if c.isprintable() else "?" for c in text)


def _check_different(logs: Sequence[Log]) -> None:
    """Raises VlaError for two logs of which only one would count."""
    digests: dict[str, Path] = {}
    subjects: dict[tuple[str, int], Path] = {}
    for log in logs:
        if (same := digests.setdefault(log.digest, log.folder)) is not log.folder:
            raise VlaError(f"{log.folder} is a copy of {same}: take one of them away")
        if (same := subjects.setdefault((log.model, log.seed), log.folder)) is not log.folder:
            raise VlaError(
                f"{log.folder} and {same} are both of {log.model}, seed {log.seed}: of the same episodes only one "
                "counts. Import them one by one, with another --seed or --model"
            )


def _told(log: Log, runs: Entered) -> Iterator[str]:
    from pytest_vla.util.text import counted

    for repeat, (name, episodes) in enumerate(runs):
        done = sum(each.success for each in episodes)
        tasks = counted(len({each.task for each in episodes}), "task")
        line = f"run {name}: {counted(len(episodes), 'episode')} of {tasks} by {log.model}, seed {log.seed}"
        line += f", number {repeat + 1} of each paraphrase" if len(runs) > 1 else ""
        yield f"{line}, {done} successes"
    if log.remark:
        yield log.remark


def _beside_the_protocol(episodes: Sequence["ParaEpisode"]) -> Iterator[str]:
    from pytest_vla.plan.manifests import load_suite
    from pytest_vla.util.text import counted

    protocol = load_suite("libero_para").protocol
    others = sorted({each.init_state for each in episodes} - {protocol.init_state})
    if others:
        number = sum(each.init_state != protocol.init_state for each in episodes)
        listed = ", ".join(map(str, others))
        states = "init state" if len(others) == 1 else "init states"
        yield f"{counted(number, 'episode')} began from {states} {listed}; the protocol's is {protocol.init_state}"
    longest = max(each.steps for each in episodes)
    if longest > protocol.max_steps:
        yield f"the longest episode has {longest} steps; the protocol's limit is {protocol.max_steps}"


def _enter(store: "Store", logs: Sequence[Log], kind: str, published: "Published | None") -> "dict[str, Entered]":
    """Enters all logs or none. Returns by digest the names of each one's runs, with their episodes."""
    from pytest_vla.run.results import new_run_name
    from pytest_vla.suites.libero_para.logs import in_rounds

    entered: dict[str, Entered] = {}
    runs: list[tuple[Log, str, list[Record]]] = []
    for log in logs:
        entered[log.digest] = [(new_run_name(), episodes) for episodes in in_rounds(log.episodes)]
        place = str(log.folder.resolve())
        for repeat, (name, episodes) in enumerate(entered[log.digest]):
            about: dict[str, Any] = {"model": log.model, "seed": log.seed, "log": place, "digest": log.digest}
            records = records_of_log(episodes, run=name, **about, repeat=repeat, published=published)
            runs.append((log, name, records))
    try:
        for log, name, records in runs:
            log_path = str(log.folder.resolve())
            invocation: dict[str, Any] = {"imported": kind, "log": log_path, "log_digest": log.digest}
            # The two keys with which --vla-resume looks at a run before it refuses it.
            invocation |= {"arguments": [], "folder": str(Path.cwd())}
            command = shlex.join(["pytest-vla", "import", kind, str(log.folder)])
            store.begin(name, [each.node for each in records], command=command, model=log.model, invocation=invocation)
        # At once: all of them or none.
        store.add_all([record for _, _, records in runs for record in records])
    except BaseException:
        for _, name, _ in runs:
            store.discard(name)
        raise
    for _, name, records in runs:
        store.mark(name, {each.node: "passed" if each.outcome == "success" else "failed" for each in records})
        store.end(name, "finished")
    return entered
