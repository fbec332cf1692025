"""``from pytest_vla import evaluate``: a run of pytest from inside a script, of a policy in the script's memory.

The worlds are in the workers of a pytest that is started for it, as from the command line. The policy stays in the
script, and answers in the thread that called `evaluate`, which waits meanwhile. Records go into the same store.
"""

import collections
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from pytest_vla import hook_modules
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
from pytest_vla.policies.in_memory import LIVE, Caller, LivePolicy, told_run, write_caller
from pytest_vla.policies.in_memory_digest import is_torch_module, live_digest
from pytest_vla.policies.load import checked_policy
from pytest_vla.policies.session import each_alone
from pytest_vla.records.record import Record
from pytest_vla.records.store import open_store
from pytest_vla.serving.in_caller import Lending
from pytest_vla.serving.process import About, PolicyAddress
from pytest_vla.util.text import counted, printable_lines

if TYPE_CHECKING:
    from pytest_vla.policies.base import BatchPolicy, Policy


# A pytest that a script starts and waits for, while the script itself may hold the policy.

_USAGE_ERROR = 4
_KEPT_LINES = 60
_ENDING_SECONDS = 60.0
"""Seconds that pytest has to end a run after Ctrl-C, before it is killed."""

# Variables of a pytest-xdist that may be running the script itself.
_NOT_INHERITED = ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID", "PYTEST_CURRENT_TEST")


class PytestProcess:
    """A pytest process, as a context manager: it ends with the block, and a pending Ctrl-C is raised after it.

    Attributes:
        code: its exit code after the end, negative for a signal.
        run: the folder of its run, or None if it did not come so far.
    """

    def __init__(self, arguments: Sequence[str], caller: Caller, shown: bool) -> None:
        """Prepare the process; entering the block starts it.

        Args:
            arguments: pytest's.
            caller: the description of this process for pytest.
            shown: whether its output is shown.
        """
        self._arguments, self._caller, self._shown = list(arguments), caller, shown
        self.code = 0
        self.run: Path | None = None
        self._lines: collections.deque[str] = collections.deque(maxlen=_KEPT_LINES)
        self._interrupts: list[tuple[Any, ...]] = []
        self._earlier: Any = None
        self._handles = False

    def __enter__(self) -> Self:
        environ = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
        # Flush, so that this process's output precedes pytest's.
        sys.stdout.flush()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *self._arguments],
            env=environ | write_caller(self._caller),
            stdin=subprocess.DEVNULL,
            stdout=None if self._shown else subprocess.PIPE,
            stderr=subprocess.PIPE if self._shown else subprocess.STDOUT,
            pass_fds=(self._caller.pipe,),
            # Ctrl-C reaches only this process, which forwards it once to pytest.
            start_new_session=True,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read, name="vla-pytest", daemon=True)
        self._reader.start()
        self._handles = threading.current_thread() is threading.main_thread() and callable(
            signal.getsignal(signal.SIGINT)
        )
        if self._handles:
            self._earlier = signal.signal(signal.SIGINT, self._interrupted)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if self._process.poll() is None:
                self._end()
            self.code = self._process.wait()
            self._reader.join()
            self.run = told_run(self._caller.folder)
        finally:
            if self._handles:
                signal.signal(signal.SIGINT, self._earlier)
        if self._interrupts and error is None:
            self._earlier(*self._interrupts[0])

    def wait(self) -> None:
        """Wait until the process has ended."""
        while self._process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)

    def when_ended(self, call: Callable[[], None]) -> None:
        """Call a function in another thread when the process has ended."""

        def wait() -> None:
            self.wait()
            call()

        threading.Thread(target=wait, name="vla-pytest-end", daemon=True).start()

    def said(self) -> str:
        """Return how the process ended, with its last output; for a usage error, the error message alone."""
        lines = list(self._lines)
        if self.code == _USAGE_ERROR:
            first = next((number for number, line in enumerate(lines) if line.startswith("ERROR: ")), None)
            if first is not None:
                return "\n".join(line.removeprefix("ERROR: ") for line in lines[first:]).strip()
        how = f"was killed by {signal.Signals(-self.code).name}" if self.code < 0 else f"ended with {self.code}"
        words = "\n".join(lines).strip()
        if words:
            return f"the evaluation's pytest {how}; its last output:\n{words}"
        return f"the evaluation's pytest {how}" + ("; see its output above" if self._shown else "")

    def _read(self) -> None:
        stream: IO[str] | None = self._process.stderr if self._shown else self._process.stdout
        assert stream is not None
        held: list[str] = []
        begun = False
        with stream:
            for line in stream:
                self._lines.append(line.rstrip("\n"))
                # Output is held until the run exists: a run that cannot start is reported by an exception.
                begun = begun or told_run(self._caller.folder) is not None
                held.append(line)
                if self._shown and begun:
                    sys.stderr.writelines(held)
                    held.clear()
        if self._shown and self._process.wait() != _USAGE_ERROR:
            sys.stderr.writelines(held)

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        self._interrupts.append((number, frame))
        if len(self._interrupts) == 1:
            threading.Thread(target=self._end, name="vla-pytest-interrupt", daemon=True).start()
        else:
            self._signal(signal.SIGKILL)

    def _end(self) -> None:
        """Interrupt the process as Ctrl-C on a terminal does, and kill it if it does not end."""
        self._signal(signal.SIGINT)
        limit = time.monotonic() + _ENDING_SECONDS
        while self._process.poll() is None and time.monotonic() < limit:
            time.sleep(0.05)
        if self._process.poll() is None:
            self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(OSError):
            os.killpg(self._process.pid, number)


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
    "--vla-realtime": "realtime",
    "--vla-run-seed": "run_seed",
    "--vla-max-batch": "batch",
    "--vla-timeout": "timeout",
    "--vla-policy-timeout": "policy_timeout",
    "--numprocesses": "workers",
    "-n": "workers",
}


@dataclass(frozen=True)
class Evaluation:
    """The result of a run. Its numbers are computed by the same functions as a run's report.

    Attributes:
        run: the run's name in the store, as `pytest-vla runs` lists it.
        results: the results folder.
        policy: the policy's name in records: ``live:NAME``, or the given text.
        records: for each item the record that counts, in the order in which they ended; see `is_finished`.
        planned: the number of planned episodes.
        exit_code: pytest's: 0 if the run passed, 1 if an episode failed or broke, 2 if the run was stopped.
    """

    run: str
    results: Path
    policy: str
    records: tuple[Record, ...]
    planned: int
    exit_code: int

    @cached_property
    def rates(self) -> dict[str, SuccessRate]:
        """Success rates of comparable episodes: by the empty name, or by ``benign`` and ``varied`` if tasks are varied.

        Their 95% intervals are Wilson's over these tasks, wider if several episodes have the same task and start. An
        episode that repeats another bit for bit is in no rate.
        """
        return {name: success_rate(name, some, unit_of) for name, some in judged_apart(self.distinct).items()}

    @cached_property
    def distinct(self) -> tuple[Record, ...]:
        """The separate observations: equal starts of a policy that does not sample its actions count once."""
        return observations(self.records)

    @cached_property
    def rate(self) -> SuccessRate:
        """The rate over the unvaried episodes, or over the varied ones if all are. Only success and failure count."""
        return next(iter(self.rates.values()), success_rate("", ()))

    @cached_property
    def rows(self) -> tuple[RateRow, ...]:
        """The rows of the run's table, for suites, their variations and tasks."""
        suites = [record for record in self.distinct if record.of_suite]
        own: dict[str, list[Record]] = {}
        for record in self.distinct:
            if not record.of_suite:
                own.setdefault(record.node.partition("[")[0], []).append(record)
        return tuple(rate_rows(suites, own))

    @cached_property
    def tasks(self) -> dict[str, SuccessRate]:
        """The rate of each unvaried task, by ``SUITE/TASK``; `rows` has the rates of varied ones."""
        found: dict[str, list[Record]] = {}
        for record in self.distinct:
            if is_plain(record):
                found.setdefault(f"{record.suite}/{record.task_key}", []).append(record)
        return {name: success_rate(name, found[name], unit_of) for name in sorted(found)}

    @property
    def success_rate(self) -> float | None:
        """The success rate in 0..1, see `rate`; None if no episode counts."""
        return self.rate.rate

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95% interval of `success_rate`, see `rates`; None if there is none."""
        return self.rate.interval

    @property
    def successes(self) -> int:
        """The number of episodes that succeeded; the counts of the four outcomes are over all records."""
        return self._count("success")

    @property
    def failures(self) -> int:
        """The number of episodes that failed."""
        return self._count("failure")

    @property
    def errors(self) -> int:
        """The number of episodes in which the policy or the simulator broke; `Record.reason` tells how."""
        return self._count("error")

    @property
    def invalid(self) -> int:
        """The number of episodes with nothing to measure."""
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
    realtime: float | str | None = None,
    run_seed: int | None = None,
    batch: int | None = None,
    timeout: float | None = None,
    policy_timeout: float | None = None,
    name: str = DEFAULT_NAME,
    digest: Any = None,
    options: Sequence[str] = (),
    progress: bool = True,
) -> Evaluation:
    """Run episodes of a policy, and wait for them.

    It is ``pytest --vla-suite=...`` as if run in this folder, ini file and all, and gives the same records. The states
    of Python's, numpy's and torch's global generators are restored. Training mode is not changed: call ``.eval()``
    before. In distributed training call it on one rank.

    Args:
        policy: a policy in this process, which answers in this thread: a `BatchPolicy`, or a function that is called
            once per episode and returns a session. Or a text as for ``--vla-model``, loaded as on the command line.
        suite: the name of a suite, or several.
        episodes: episodes per task; None for the ini file's number, or 1.
        tasks: names, parts of names, or patterns; empty for all.
        seeds: as for ``--vla-seeds``, or numbers.
        vary: as for ``--vla-vary``, or several such texts.
        workers: the number of processes with a world each, at least 1; ``auto`` as for ``-n auto``.
        results: the results folder; None for the ini file's, or ``.vla`` in pytest's rootdir.
        replan: steps of a chunk that are executed before the next question.
        realtime: how late each answer is, in seconds or as for ``--vla-realtime``; None if the world waits for it.
        run_seed: the seed of the policy's noise.
        batch: the maximal number of questions in a call of the policy.
        timeout: seconds of wall time for one episode.
        policy_timeout: seconds for one answer; a later one makes its episode an error, and the call continues.
        name: the name of a policy in this process; its records have ``live:NAME``.
        digest: for a policy in this process, a text that names its weights, or the weights themselves (a torch module,
            or arrays by name), which are hashed. The default is that of
            `pytest_vla.policies.in_memory_digest.live_digest`.
        options: more options of pytest's command line, such as ``--vla-video=failed``.
        progress: whether pytest's output is shown, without tracebacks; without it, its warnings are lost.

    Raises:
        VlaError: the run is not possible, in pytest's words; or pytest or the policy's server died. Episodes that end
            as errors raise nothing: they are counted in `Evaluation.errors`.
        KeyboardInterrupt: Ctrl-C, after pytest has ended: the run is in the store, as stopped.
    """
    _check(workers, options)
    arguments = [
        *_option("--vla-suite", suite),
        *_option("--vla-tasks", tasks),
        *_option("--vla-vary", vary),
        *_option("--vla-seeds", seeds),
        *_option("--vla-episodes", episodes),
        *_option("--vla-replan", replan),
        *_option("--vla-realtime", realtime),
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
    """Run pytest, and answer its questions meanwhile."""
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
    """Read the run from the store. Raises VlaError if there is none, or it is not the requested one."""
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
    """Return a policy of this process as a batch policy. Raises VlaError if it is no policy, or its name is invalid."""
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
    """Return the names in suites' observations, for a policy that does not tell what it reads. Raises VlaError."""
    mend = "; set the policy's attribute reads, as in policy.reads = ('agentview_image', 'state')"
    names = [part.strip() for text in ((suite,) if isinstance(suite, str) else suite) for part in text.split(",")]
    try:
        if not all(map(_is_named, names)) and hook_modules.of_a_conftest():
            # The pytest that is started in the same folder reads it as well.
            hook_modules.consent(("conftest",), Path.cwd())
        suites = [each for part in names for each in named_suites(part)]
        found = {suite_traits(load_suite(each).protocol).reads or () for each in suites}
    except VlaError as error:
        raise VlaError(f"{error}{mend}") from error
    if len(found) > 1:
        raise VlaError(f"evaluate: observations of {', '.join(names)} have different names{mend}")
    return next(iter(found), ())


def _is_named(suite: str) -> bool:
    """Whether a suite, or an alias of several, has this name."""
    try:
        return bool(named_suites(suite))
    except VlaError:
        return False


def _warn_of_training(policy: object) -> None:
    """Warn of a policy in training mode: with random dropout it is another policy, and records do not show it."""
    named = {"it": policy} | (dict(vars(policy)) if hasattr(policy, "__dict__") else {})
    for name, each in named.items():
        if is_torch_module(each) and getattr(each, "training", False):
            what = "the policy" if name == "it" else f"the policy's {name}"
            text = f"evaluate: {what} is in training mode, and layers such as dropout are random: call .eval() before"
            warnings.warn(text, stacklevel=4)
            return


def _check(workers: int | str, options: Sequence[str]) -> None:
    """Raise VlaError for an invalid number of workers, or for options that have an argument of their own."""
    is_number = isinstance(workers, int) and not isinstance(workers, bool)
    if not (is_number and int(workers) >= 1) and workers not in ("auto", "logical"):
        raise VlaError(
            f"evaluate: workers is {workers!r}, expected 1 or more, or 'auto': worlds always run in other processes"
        )
    if isinstance(options, str):
        raise VlaError(f"evaluate: options is a text, expected a list: [{options!r}]")
    for option in options:
        flag = str(option).partition("=")[0]
        if flag in _OURS or (flag.startswith("-n") and not flag.startswith("--")):
            raise VlaError(f"evaluate: options has {option}: give it as {_OURS.get(flag, 'workers')}")
        if flag in ("--vla-resume", "--collect-only", "--co"):
            raise VlaError(f"evaluate: options has {option}, which evaluate does not support")


def _option(flag: str, value: Any) -> list[str]:
    """Return an option for the command line; empty if there is no value."""
    if value is None or value == () or value == []:
        return []
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = ",".join(map(str, value))
    return [f"{flag}={value}"]
