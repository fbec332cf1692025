"""``from pytest_vla import evaluate``: a run of pytest from inside a script, of a policy in the script's memory.

Worlds are in the workers of a pytest that is started for it, as by the command line; the policy stays where it is, and
answers in the thread that called `evaluate`, which waits meanwhile. Records go into the same store.
"""

import inspect
import os
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.metrics.rates import (
    RateRow,
    interval_text,
    is_plain,
    judged_apart,
    left_out_text,
    rate_rows,
    share_text,
)
from pytest_vla.metrics.selection import observations
from pytest_vla.metrics.success import SuccessRate, success_rate, unit_of
from pytest_vla.plan.manifests import load_suite, named_suites
from pytest_vla.policies.base import is_batch_policy, own_number
from pytest_vla.policies.devices import DEFAULT_BATCH, REQUEST_TIMEOUT
from pytest_vla.policies.fit import suite_traits, traits_of
from pytest_vla.policies.generators import all_globals_put_back
from pytest_vla.policies.in_memory import LIVE, Caller, LivePolicy, is_torch_module, live_digest
from pytest_vla.policies.load import checked_policy
from pytest_vla.policies.session import each_alone
from pytest_vla.records.record import Record
from pytest_vla.records.store import open_store
from pytest_vla.serving.in_caller import Lending
from pytest_vla.serving.process import About, PolicyAddress
from pytest_vla.serving.pytest_process import PytestProcess
from pytest_vla.util.text import counted, printable_lines

if TYPE_CHECKING:
    from pytest_vla.policies.base import BatchPolicy, Policy

Texts = str | Sequence[str]

DEFAULT_NAME = "policy"

_LONGEST_NAME = 100
# pytest's exit codes: interrupted, also by itself; an internal error, a usage error, no tests.
_STOPPED, _NOTHING = 2, (3, 4, 5)
_OURS = {
    "--vla-model": "the first argument",
    "--vla-suite": "suite",
    "--vla-episodes": "episodes",
    "--vla-tasks": "tasks",
    "--vla-seeds": "seeds",
    "--vla-vary": "vary",
    "--vla-results": "results",
    "--vla-replan": "replan",
    "--vla-run-seed": "run_seed",
    "--vla-max-batch": "batch",
    "--vla-timeout": "timeout",
    "--vla-policy-timeout": "policy_timeout",
    "--numprocesses": "workers",
    "-n": "workers",
}


@dataclass(frozen=True)
class Evaluation:
    """How a run went, by the functions that the report of a run has its numbers from.

    Attributes:
        run: its name in the store, as `pytest-vla runs` lists it.
        results: the results folder.
        policy: as records name it: ``live:NAME``, or the text that was given.
        records: of each item the one that counts, in the order in which they ended; see `is_finished`.
        planned: how many episodes it was to have.
        exit_code: pytest's: 0 where all is as it is to be, 1 where an episode failed or broke, 2 where it was stopped.
    """

    run: str
    results: Path
    policy: str
    records: tuple[Record, ...]
    planned: int
    exit_code: int

    @cached_property
    def rates(self) -> dict[str, SuccessRate]:
        """Success rates that are of one kind: by the empty name, or where tasks are varied ``benign`` and ``varied``.

        Their intervals, 95%, are Wilson's over these tasks, wider where several episodes are of one task and start. An
        episode that repeats another bit for bit is in no rate.
        """
        return {name: success_rate(name, some, unit_of) for name, some in judged_apart(self.distinct).items()}

    @cached_property
    def distinct(self) -> tuple[Record, ...]:
        """The records that are observations of their own: equal starts of a policy that does not draw are one."""
        return observations(self.records)

    @cached_property
    def rate(self) -> SuccessRate:
        """The rate over what is not varied; where all is, over what is. Errors and invalid episodes are in no rate."""
        return next(iter(self.rates.values()), success_rate("", ()))

    @cached_property
    def rows(self) -> tuple[RateRow, ...]:
        """The rows of the run's table: of suites, of what is varied in them, of tasks."""
        suites = [record for record in self.distinct if record.of_suite]
        own: dict[str, list[Record]] = {}
        for record in self.distinct:
            if not record.of_suite:
                own.setdefault(record.node.partition("[")[0], []).append(record)
        return tuple(rate_rows(suites, own))

    @cached_property
    def tasks(self) -> dict[str, SuccessRate]:
        """The rate of each task as it is, by ``SUITE/TASK``; of varied ones `rows` has it."""
        found: dict[str, list[Record]] = {}
        for record in self.distinct:
            if is_plain(record):
                found.setdefault(f"{record.suite}/{record.task_key}", []).append(record)
        return {name: success_rate(name, found[name], unit_of) for name in sorted(found)}

    @property
    def success_rate(self) -> float | None:
        """0..1, of `rate`; None where nothing was counted."""
        return self.rate.rate

    @property
    def interval(self) -> tuple[float, float] | None:
        """95% interval of `success_rate`, see `rates`; None where there is none."""
        return self.rate.interval

    @property
    def successes(self) -> int:
        """Episodes that did the task; these four counts are of all records."""
        return self._count("success")

    @property
    def failures(self) -> int:
        """Episodes that did not."""
        return self._count("failure")

    @property
    def errors(self) -> int:
        """Episodes in which the policy or the simulator broke; `Record.reason` and `Record.message` say how."""
        return self._count("error")

    @property
    def invalid(self) -> int:
        """Episodes with nothing to measure."""
        return self._count("invalid")

    @property
    def is_finished(self) -> bool:
        """Whether all planned episodes were run."""
        return len(self.records) >= self.planned

    def __str__(self) -> str:
        left = "" if self.is_finished else f", stopped after {len(self.records)} of {self.planned}"
        first = f"{self.policy}: {counted(len(self.records), 'episode')}{left}, run {self.run} in {self.results}"
        width = max((len(row.name) + 2 * row.depth for row in self.rows), default=0)
        return printable_lines("\n".join([first, *(_line(row, width) for row in self.rows)]))

    def _count(self, outcome: str) -> int:
        return sum(record.outcome == outcome for record in self.records)


def _line(row: RateRow, width: int) -> str:
    name = f"{'  ' * row.depth}{row.name}"
    if row.rate is None:
        return f"  {name}"
    counts = f"{row.rate.successes}/{row.rate.counted}"
    left_out = left_out_text(row.rate)
    told = f"  {name:<{width}}  {share_text(row.rate):>6}  {counts:>7}  {interval_text(row.rate)}"
    return f"{told}  ({left_out})" if left_out else told


def evaluate(
    policy: "Policy | BatchPolicy | str",
    *,
    suite: Texts,
    episodes: int | None = None,
    tasks: Texts = (),
    seeds: str | Sequence[int] | None = None,
    vary: Texts = (),
    workers: int | str = "auto",
    results: str | os.PathLike[str] | None = None,
    replan: int | None = None,
    run_seed: int | None = None,
    batch: int | None = None,
    timeout: float | None = None,
    policy_timeout: float | None = None,
    name: str = DEFAULT_NAME,
    digest: Any = None,
    options: Sequence[str] = (),
    progress: bool = True,
) -> Evaluation:
    """Runs episodes of a policy, and waits for them.

    It is ``pytest --vla-suite=...`` as it would be typed in this folder, ini file and all, and gives the same records.
    Python's, numpy's and torch's global generators are afterwards as they were. Whether layers are in training mode is
    left as it is: call ``.eval()`` before. In distributed training call it on one rank.

    Args:
        policy: one in this process, which is asked in this thread: a `BatchPolicy`, or what is called once an episode
            and returns a session; or a text as for ``--vla-model``, which is loaded as the command line does.
        suite: its name, or several.
        episodes: of each task; None: 1, or as the ini file has it.
        tasks: names, parts of names, or patterns; empty: all.
        seeds: as for ``--vla-seeds``, or numbers.
        vary: as for ``--vla-vary``, or several such texts.
        workers: processes with a world each, 1 at least; ``auto``: as ``-n auto``.
        results: the results folder; None: as the ini file has it, or ``.vla`` in pytest's rootdir.
        replan: steps of a chunk that are executed before the next question.
        run_seed: of the policy's noise.
        batch: questions that the policy is asked at once, at most.
        timeout: seconds of wall time that one episode may take.
        policy_timeout: seconds that one answer may take; its episode then ends as an error, and the call goes on.
        name: of a policy in this process; its records have ``live:NAME``.
        digest: of a policy in this process: a text that names its weights, or the weights themselves (a torch module,
            or arrays by name), which are hashed; None: see `pytest_vla.policies.in_memory.live_digest`.
        options: further ones of pytest's command line, such as ``--vla-video=failed``.
        progress: whether pytest's output is shown, without tracebacks; what it warns of is lost otherwise.

    Raises:
        VlaError: what is asked for cannot be run, in pytest's words; or pytest or what serves the policy died. Episodes
            that end as errors raise nothing: they are counted in `Evaluation.errors`.
        KeyboardInterrupt: Ctrl-C, when pytest has ended: the run is in the store, as stopped.
    """
    _check(workers, options)
    arguments = [
        *_option("--vla-suite", suite),
        *_option("--vla-tasks", tasks),
        *_option("--vla-vary", vary),
        *_option("--vla-seeds", seeds),
        *_option("--vla-episodes", episodes),
        *_option("--vla-replan", replan),
        *_option("--vla-run-seed", run_seed),
        *_option("--vla-max-batch", batch),
        *_option("--vla-timeout", timeout),
        *_option("--vla-policy-timeout", policy_timeout),
        *_option("--vla-results", None if results is None else os.path.abspath(results)),
        f"-n{workers}",
        *(("-q", "--tb=no", "-rN") if progress else ("-qq", "--tb=short")),
        *options,
    ]
    address = PolicyAddress.new()
    try:
        if isinstance(policy, str):
            return _run(policy, arguments, address, None, progress)
        with all_globals_put_back():
            lent = _lent(policy, suite, name)
            most = max(1, min(batch or DEFAULT_BATCH, lent.max_batch))
            about = About(live_digest(policy, digest), own_number(lent, "replan"), traits_of(lent).table(), most)
            live = LivePolicy(name, str(address.path), address.secret.hex(), asdict(about))
            lending = Lending(lent, address, most)
            try:
                limit = policy_timeout or REQUEST_TIMEOUT
                return _run(f"{LIVE}:{name}", arguments, address, (live, lending, limit), progress)
            finally:
                lending.close()
    finally:
        address.remove()


def _run(
    model: str,
    arguments: Sequence[str],
    address: PolicyAddress,
    lent: tuple[LivePolicy, Lending, float] | None,
    progress: bool,
) -> Evaluation:
    """Runs pytest, and answers it meanwhile."""
    live, lending, limit = lent or (None, None, 0.0)
    pipe, ours = os.pipe()
    try:
        caller = Caller(address.path.parent, os.getpid(), pipe, live)
        with PytestProcess([f"--vla-model={model}", *arguments], caller, progress) as started:
            if lending is None:
                started.wait()
            else:
                started.when_ended(lending.stop)
                lending.answer(limit)
                started.wait()
    finally:
        os.close(pipe)
        os.close(ours)
    lost = "" if lending is None else lending.lost
    return _read(model, started, lost)


def _read(model: str, ended: PytestProcess, lost: str) -> Evaluation:
    """What is in the store. Raises VlaError where there is nothing, or it is not what was asked for."""
    if ended.run is None or ended.code in _NOTHING:
        raise VlaError(ended.said())
    folder, name = ended.run.parent, ended.run.name
    try:
        with open_store(folder, create=False) as store:
            run = store.run(name)
            records = tuple(store.records(run.name))
    except VlaError as error:
        # No episode began.
        raise VlaError(ended.said() or str(error)) from error
    if lost or ended.code < 0:
        why = lost or ended.said()
        raise VlaError(f"{why}; run {name} in {folder} has {len(records)} of {run.planned} episodes")
    found = Evaluation(name, folder, model, records, run.planned, ended.code)
    if ended.code == _STOPPED and not found.is_finished:
        # Nobody is to take its rate for the whole one's.
        warnings.warn(f"evaluate: stopped after {len(records)} of {run.planned} episodes: {ended.said()}", stacklevel=4)
    return found


def _lent(policy: Any, suite: Texts, name: str) -> "BatchPolicy":
    """A policy of this process as one that answers in batches. Raises VlaError: it is none, or its name is none."""
    found = f"evaluate: the policy is {type(policy).__name__}"
    if name != name.strip() or not name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise VlaError(f"evaluate: name is {name!r:.60}, expected 1 to {_LONGEST_NAME} printable characters")
    _warn_of_training(policy)
    if is_batch_policy(policy):
        checked_policy(policy, found)
        return policy
    if is_torch_module(policy):
        told = "expected what is called with an episode, or has begin, act, max_batch and reads"
        mend = "lerobot's become one by pytest_vla.policies.lerobot.of_policy"
        raise VlaError(f"{found}, a torch module, which takes tensors: {told}; {mend}")
    checked_policy(policy, found)
    if getattr(policy, "privileged", False):
        raise VlaError(f"{found}, privileged: the simulator is in another process. Give its text, as for --vla-model")
    try:
        inspect.signature(policy).bind(None)
    except ValueError:
        # Not known.
        pass
    except TypeError as error:
        raise VlaError(f"{found}, which cannot be called with an episode alone ({error})") from error
    return each_alone(policy, traits_of(policy).reads or _seen_in(suite))


def _seen_in(suite: Texts) -> tuple[str, ...]:
    """What observations of suites have, for a policy that does not say what it reads. Raises VlaError."""
    mend = "; a policy says what it reads by an attribute, policy.reads = ('agentview_image', 'state')"
    names = (suite,) if isinstance(suite, str) else suite
    try:
        found = {
            suite_traits(load_suite(each).protocol).reads or ()
            for text in names
            for part in text.split(",")
            for each in named_suites(part.strip())
        }
    except VlaError as error:
        raise VlaError(f"{error}{mend}") from error
    if len(found) > 1:
        raise VlaError(f"evaluate: observations of {', '.join(names)} have not the same names{mend}")
    return next(iter(found), ())


def _warn_of_training(policy: object) -> None:
    """A layer that drops out at random makes another policy of it, and nobody would see it in the records."""
    named = {"it": policy} | (dict(vars(policy)) if hasattr(policy, "__dict__") else {})
    for name, each in named.items():
        if is_torch_module(each) and getattr(each, "training", False):
            what = "the policy" if name == "it" else f"the policy's {name}"
            text = f"evaluate: {what} is in training mode, and layers such as dropout are random: call .eval() before"
            warnings.warn(text, stacklevel=4)
            return


def _check(workers: int | str, options: Sequence[str]) -> None:
    """Raises VlaError where what is asked for has a place of its own, or none."""
    is_number = isinstance(workers, int) and not isinstance(workers, bool)
    if not (is_number and int(workers) >= 1) and workers not in ("auto", "logical"):
        raise VlaError(
            f"evaluate: workers is {workers!r}, expected 1 or more, or 'auto': worlds are never in this process, whose "
            "memory and graphics are yours"
        )
    if isinstance(options, str):
        raise VlaError(f"evaluate: options is a text, expected a list: [{options!r}]")
    for option in options:
        flag = str(option).partition("=")[0]
        if flag in _OURS or (flag.startswith("-n") and not flag.startswith("--")):
            raise VlaError(f"evaluate: options has {option}: give it as {_OURS.get(flag, 'workers')}")
        if flag in ("--vla-resume", "--collect-only", "--co"):
            raise VlaError(f"evaluate: options has {option}, which runs nothing that is of this policy alone")


def _option(flag: str, value: Any) -> list[str]:
    """An option as it is typed; none where nothing is said."""
    if value is None or value == () or value == []:
        return []
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = ",".join(map(str, value))
    return [f"{flag}={value}"]
