"""The logs of LIBERO-Para's evaluation as records: ``pytest-vla import libero-para``."""

import argparse
import functools
import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.records.load import Imported, ImportedLog, Importer
from pytest_vla.util.text import printable

if TYPE_CHECKING:
    from pytest_vla.language.published import Published
    from pytest_vla.records.record import Record
    from pytest_vla.suites.libero_para.variations import ParaEpisode

# Imported at the first use, so that --help is fast.

LIBERO_PARA = "libero-para"


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        help="folder with LIBERO-Para's libero_para_metadata.csv, or the file: texts are checked against it "
        "(default: PYTEST_VLA_DATA)",
    )


def read(options: argparse.Namespace) -> Imported:
    """Read all logs in a folder. Raises VlaError."""
    from pytest_vla.language.published import csv_of, load_published, missing_paraphrases
    from pytest_vla.suites.libero_para.variations import find_para_logs, in_rounds, published_outcomes, read_para_log

    folders = [folder for path in options.files for folder in find_para_logs(path)]
    if options.seed is not None and len(folders) > 1:
        raise VlaError(f"--seed: there are {len(folders)} logs, and a seed is of one; import them one by one")
    found = [(folder, read_para_log(folder), *_named(folder, options)) for folder in folders]
    csv, published, checked = csv_of(options.data), None, "texts not checked: no CSV was given (--data)"
    if csv is not None:
        published, checked = load_published(csv), f"texts checked against {csv}"
        checked += f", which has {missing}" if (missing := missing_paraphrases(published)) else ""
        for _, episodes, *_ in found:
            published_outcomes(episodes, published, "")
    logs = []
    for folder, episodes, model, seed, remark in found:
        digest = log_digest(folder)
        runs = tuple(
            functools.partial(
                _records, some, model=model, seed=seed, log=folder, digest=digest, repeat=repeat, published=published
            )
            for repeat, some in enumerate(in_rounds(episodes))
        )
        logs.append(ImportedLog(folder, model, seed, digest, runs, remark))
    return Imported(tuple(logs), (checked, *_beside_the_protocol([each for _, some, *_ in found for each in some])))


def _named(folder: Path, options: argparse.Namespace) -> tuple[str, int, str]:
    """Model, seed and a remark where the log's name does not say them."""
    from pytest_vla.plan.manifests import load_suite
    from pytest_vla.suites.libero_para.variations import log_name

    model, said = log_name(folder)
    seed, remark = said if options.seed is None else options.seed, ""
    if seed is None:
        seed = (load_suite("libero_para").seeds or (0,))[0]
        remark = f"{folder}: its name says no seed, so it is taken as {seed}, LIBERO-Para's first; else --seed=N"
        remark += "" if options.model else ", and --model=NAME for another model"
    # A terminal would obey the control characters of a folder's name.
    return options.model or printable(model), seed, remark


def _records(
    episodes: "Sequence[ParaEpisode]",
    run: str,
    *,
    model: str,
    seed: int,
    log: Path,
    digest: str,
    repeat: int,
    published: "Published | None",
) -> "list[Record]":
    about = {"model": model, "log": str(log.resolve()), "digest": digest}
    return records_of_log(episodes, run=run, seed=seed, repeat=repeat, published=published, **about)


def log_digest(folder: Path) -> str:
    """Compute the sha256 (hex) over the log's files and their names. Raises VlaError."""
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
    """Return the records of a log's episodes, in their order.

    Args:
        episodes: one for each paraphrase, from `pytest_vla.suites.libero_para.variations.in_rounds`.
        run: the run's name.
        model: the policy's name.
        seed: the log's seed.
        log: the log's name, for the provenance.
        digest: from `log_digest`, for the provenance.
        repeat: index among a paraphrase's episodes: 0 for the first ones. It is the run seed of later ones, so that all
            of them count.
        published: the CSV, whose similarities are copied to the records, or None if it is not available.

    Raises:
        VlaError: a task's number is not one of LIBERO-Goal's.
    """
    import numpy as np

    from pytest_vla.language.published import numbered_tasks
    from pytest_vla.plan.case import Case
    from pytest_vla.records.record import SCHEMA, Record
    from pytest_vla.records.trajectory import Trajectory, digest_of
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
            costs=(),
            metrics={},
            seeds={"init_state": each.init_state} | ({"run": repeat} if repeat else {}),
            protocol=task.protocol.table(),
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


def recognises(path: Path) -> bool:
    """Whether it is a folder with such logs: xiaomi-robotics-0_seed7, or xiaomi-robotics-0/seed7, with eval0.json."""
    from pytest_vla.suites.libero_para.variations import find_para_logs

    try:
        return path.is_dir() and bool(find_para_logs(path))
    except VlaError:
        return False


# Where a log has several episodes of a paraphrase, the second of each is a run of its own, with run seed 1, and so on.
IMPORTER = Importer(read, recognises, _declare)
