"""``pytest-vla import``: the logs of other evaluations as records, so that they are reported as own runs are."""

import argparse
import hashlib
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError

if TYPE_CHECKING:
    from pytest_vla.para_log import ParaEpisode
    from pytest_vla.records import Record
    from pytest_vla.store import Store

# What the command needs is imported when it runs: --help has to come at once.

LIBERO_PARA = "libero-para"


def declare(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    from pytest_vla.arguments import declare_results, seed_list

    parser.epilog = (
        "A log of LIBERO-Para is a folder such as xiaomi-robotics-0_seed7 with eval0.json to eval9.json, a file a "
        "task, as its evaluation writes them: it becomes a run with a record an episode, all of them or none. "
        "`pytest-vla report` makes the tables. A log has no trajectories, so nothing that needs paths is known of it."
    )
    parser.add_argument("kind", metavar=LIBERO_PARA, choices=(LIBERO_PARA,), help="what wrote the log")
    parser.add_argument("folder", metavar="DIR", type=Path, help="the log")
    parser.add_argument("--model", metavar="NAME", help="of the policy (default: what the folder's name says)")
    parser.add_argument("--seed", metavar="N", type=seed_list, help="of the log (default: what the folder's name says)")
    parser.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        help="folder with LIBERO-Para's libero_para_metadata.csv, or the file: texts are checked against it "
        "(default: PYTEST_VLA_DATA)",
    )
    declare_results(parser)


def run(options: argparse.Namespace) -> None:
    """Reads the log, enters it as a run, and says what it was. Raises VlaError."""
    from pytest_vla.para_log import log_name, published_outcomes, read_para_log
    from pytest_vla.pride_command import csv_of
    from pytest_vla.reports.terminal import counted
    from pytest_vla.results import new_run_name
    from pytest_vla.store import open_store

    episodes = read_para_log(options.folder)
    model, seed = log_name(options.folder)
    model = options.model or model
    if options.seed is not None and len(options.seed) > 1:
        raise VlaError(f"--seed: a log is of one seed, not of {len(options.seed)}")
    seed = seed if options.seed is None else options.seed[0]
    if seed is None:
        raise VlaError(f"{options.folder}: its name does not say the seed, as MODEL_seed7 does: give --seed=N")
    csv = csv_of(options.data)
    if csv is not None:
        from pytest_vla.language.published import load_published

        published_outcomes(episodes, load_published(csv), "")
    digest = log_digest(options.folder)
    with open_store(options.results, create=True) as store:
        name = _enter(store, new_run_name(), episodes, model, seed, digest, options)
    done = sum(each.success for each in episodes)
    tasks = counted(len({each.task for each in episodes}), "task")
    print(f"run {name}: {counted(len(episodes), 'episode')} of {tasks} by {model}, seed {seed}, {done} successes")
    print(f"texts checked against {csv}" if csv is not None else "texts not checked: no CSV was given (--data)")
    for remark in _beside_the_protocol(episodes):
        print(remark)


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
    episodes: Sequence["ParaEpisode"], *, run: str, model: str, seed: int, log: str, digest: str
) -> list["Record"]:
    """The records of a log's episodes, in their order.

    Args:
        episodes: of `pytest_vla.para_log.read_para_log`.
        run: name of the run.
        model: the policy's name.
        seed: of the log.
        log: what the log is called, for the provenance.
        digest: of `log_digest`, for the provenance.

    Raises:
        VlaError: a task's number is none of LIBERO-Goal's, or a paraphrase has several episodes: ids have one a seed.
    """
    import numpy as np

    from pytest_vla.plan import Case
    from pytest_vla.records import SCHEMA, Record, Trajectory, digest_of
    from pytest_vla.suite import load_suite
    from pytest_vla.vary.libero_para import variation_of

    suite = load_suite("libero_para")
    # LIBERO-Para numbers the instructions in alphabetical order.
    tasks = sorted(suite.tasks, key=lambda task: task.language)
    none = np.zeros((0, 0))
    records: dict[str, Record] = {}
    for each in episodes:
        if each.task >= len(tasks):
            raise VlaError(f"{log}: eval{each.task}.json is of no task: LIBERO-Para has 0 to {len(tasks) - 1}")
        task = tasks[each.task]
        variation = variation_of(each, task.language)
        case = Case(suite.name, task.name, seed, variation.label)
        if case.id in records:
            raise VlaError(
                f"{log}: eval{each.task}.json has several episodes of {variation.label}; a log of one episode a "
                "paraphrase is expected. Split it into a folder a seed"
            )
        outcome = "success" if each.success else "failure"
        records[case.id] = Record(
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
            seeds={"init_state": each.init_state},
            protocol=asdict(task.protocol),
            replan=None,
            policy=model,
            policy_digest=None,
            provenance={"imported": LIBERO_PARA, "log": log, "log_digest": digest},
            timings={},
            digest=digest_of(outcome, each.steps, {}, Trajectory(none, none, none, none)),
            arrays=None,
        )
    return list(records.values())


def _beside_the_protocol(episodes: Sequence["ParaEpisode"]) -> Iterator[str]:
    from pytest_vla.suite import load_suite

    protocol = load_suite("libero_para").protocol
    others = sorted({each.init_state for each in episodes} - {protocol.init_state})
    if others:
        number = sum(each.init_state != protocol.init_state for each in episodes)
        listed = ", ".join(map(str, others))
        yield f"{number} episodes began from init states {listed}; the protocol's is {protocol.init_state}"
    longest = max(each.steps for each in episodes)
    if longest > protocol.max_steps:
        yield f"the longest episode has {longest} steps; the protocol's limit is {protocol.max_steps}"


def _enter(
    store: "Store",
    name: str,
    episodes: Sequence["ParaEpisode"],
    model: str,
    seed: int,
    digest: str,
    options: argparse.Namespace,
) -> str:
    for known in store.runs():
        if known.done and known.invocation.get("log_digest") == digest:
            raise VlaError(
                f"{options.folder} is in {store.results} already, as run {known.name} of {known.model}: "
                f"`pytest-vla report {known.name}`"
            )
    log = str(options.folder.resolve())
    records = records_of_log(episodes, run=name, model=model, seed=seed, log=log, digest=digest)
    command = shlex.join(["pytest-vla", "import", options.kind, str(options.folder)])
    invocation = {"imported": options.kind, "log": log, "log_digest": digest}
    # The two keys with which --vla-resume looks at a run before it refuses it.
    invocation |= {"arguments": [], "folder": str(Path.cwd())}
    nodes = [record.node for record in records]
    store.begin(name, nodes, command=command, model=model, invocation=invocation)
    try:
        store.add_all(records)
    except BaseException:
        store.discard(name)
        raise
    store.mark(name, {record.node: "passed" if record.outcome == "success" else "failed" for record in records})
    store.end(name, "finished")
    return name
