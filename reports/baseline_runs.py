"""Runs as baselines: what a gate compares, and when that would mislead."""

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.gate.baseline import Baseline, baseline_of, counting_of
from pytest_vla.gate.baseline_file import read_baseline
from pytest_vla.records.load import open_runs
from pytest_vla.records.names import DEFAULT_RESULTS, LAST_RUN
from pytest_vla.records.runs import Run, is_alive
from pytest_vla.records.samples import sample_of
from pytest_vla.reports.loaded import load
from pytest_vla.reports.text import note_lines
from pytest_vla.util.text import counted


def baseline_named(text: str, results: Path, *, allow_unfinished: bool = False) -> Baseline:
    """Of a file; or of a run, where no such file is there. Raises VlaError: neither is there, or it cannot be read."""
    path = Path(text)
    if path.is_file() or path.suffix == ".json":
        return read_baseline(path)
    return baseline_of_runs([text], results, allow_unfinished=allow_unfinished, allow_broken=True)[0]


def baseline_of_runs(
    texts: Sequence[str],
    results: Path,
    model: str | None = None,
    *,
    allow_unfinished: bool = False,
    allow_broken: bool = False,
    own_process: bool = False,
    allow_decided: bool = False,
) -> tuple[Baseline, list[str]]:
    """The baseline that runs make, and what is to be said of it.

    Args:
        texts: runs, as `pytest_vla.records.load` knows them; none: the last one.
        results: the folder of all runs.
        model: which of several; None: they have to be of one.
        allow_unfinished: whether to go by what there is of runs that did not run all that was planned.
        allow_broken: whether episodes may have broken, since the caller tells what that makes of its numbers.
        own_process: whether a run may be this process's, which judges it before it notes its end.
        allow_decided: whether its outcomes may have stopped a run, since the caller judges it by rounds.

    Raises:
        VlaError: there is no such run, or a baseline of it would mislead.
    """
    texts = texts or [LAST_RUN]
    runs: dict[str, Run] = {}
    elsewhere: dict[str, str] = {}
    for store, some in open_runs(texts, results):
        folder = store.results
        is_usual = folder.resolve() == Path(DEFAULT_RESULTS).resolve()
        runs |= {run.name: run for run in some}
        elsewhere |= {run.name: "" if is_usual else f" {shlex.quote(f'--vla-results={folder}')}" for run in some}
    records = load(texts, results).records
    counting = counting_of(records, model)
    baseline = baseline_of(records, model)
    against = _against([*runs.values()], baseline.runs, elsewhere, own_process, allow_decided)
    broken = [record for record in counting.records if record.outcome == "error"]
    if broken and not allow_broken:
        reasons = ", ".join(sorted({str(record.reason) for record in broken}))
        against.append(
            f"{counted(len(broken), 'episode')} broke ({reasons}): nothing is known of what the policy does there; "
            f"pytest --vla-resume={broken[-1].run}{elsewhere.get(broken[-1].run, '')} runs them again"
        )
    if against and not allow_unfinished:
        raise VlaError("\n".join([*against, "--allow-unfinished goes by what there is all the same"]))
    return baseline, [*note_lines([*against, *counting.left_out])]


def _against(
    named: Sequence[Run],
    counting: Sequence[str],
    elsewhere: Mapping[str, str],
    own_process: bool,
    allow_decided: bool,
) -> list[str]:
    """Why a baseline would have less than it seems. Raises VlaError: it would mislead in any case.

    Args:
        named: the runs that the user named.
        counting: names of those whose records are in it.
        elsewhere: by run, the option that says where it is, behind a blank; empty: where runs usually are.
        own_process, allow_decided: see `baseline_of_runs`.
    """
    found = []
    for run in named:
        if run.done and run.name not in counting:
            # Of another model, or its cases count elsewhere.
            continue
        if is_alive(run) and not (own_process and run.pid == os.getpid()):
            raise VlaError(f"run {run.name} is still running (process {run.pid}): wait for its end, or stop it")
        if run.decided and not allow_decided:
            found.append(
                f"run {run.name}: a sequential gate skipped {run.decided} of {run.planned} episodes as the outcomes of "
                "the others had decided it, and what is left of such a run makes no fair baseline: run all of them "
                "(--vla-gate=fixed)"
            )
        if run.is_unfinished:
            sample = sample_of(run)
            has = f"has {run.done} of {run.planned} episodes" if sample is None else f"was {sample.text}"
            found.append(f"run {run.name} {has}: pytest --vla-resume={run.name}{elsewhere[run.name]} runs the rest")
    if all(run.picked for run in named):
        told = ", ".join(f"{run.name} ({run.picked})" for run in named)
        raise VlaError(
            f"{told}: it ran only what earlier runs had picked by how it ended, and a baseline of that says nothing of "
            "the policy; give the run of everything too, or run all episodes"
        )
    return found
