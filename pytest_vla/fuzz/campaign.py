"""A campaign: the searches of several tasks, in turn, done by free workers and stored line by line."""

import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from pytest_vla import hook_modules
from pytest_vla.episode.rollout import Conditions
from pytest_vla.episode.world_pool import WorldPool
from pytest_vla.errors import VlaError
from pytest_vla.fuzz.found import Found, Searched
from pytest_vla.fuzz.journal import Line
from pytest_vla.fuzz.sampler import TriedProposal
from pytest_vla.fuzz.shrink import Shrunk
from pytest_vla.fuzz.task_search import Job, Result, SearchRules, TaskSearch, perform
from pytest_vla.fuzz.trial import SUCCESS, Property, Trial, Trials
from pytest_vla.plan.choices import COSTS_ALL
from pytest_vla.policies.base import Policy
from pytest_vla.policies.load import digest_of, may_batch, resolve_policy
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.scene.cost_rules import Charging
from pytest_vla.serving.client import ServedPolicy
from pytest_vla.serving.process import About, NotBatched, PolicyAddress
from pytest_vla.serving.replicas import Replicas
from pytest_vla.util.processes import ObservedTime
from pytest_vla.util.warnings import describe


class Hands(Protocol):
    """The workers of a campaign: one process, or several."""

    @property
    def free(self) -> int:
        """The number of further jobs that can be taken now."""

    @property
    def busy(self) -> int:
        """The number of jobs in progress."""

    @property
    def episodes(self) -> int:
        """The total number of episodes that were run."""

    def give(self, task: str, job: Job) -> None:
        """Take a job of a task."""

    def wait(self) -> tuple[str, Job, Result | None]:
        """Return the next job that ended, with its task and result, or None as its result if it has to be repeated."""


class Campaign:
    """The searches of several tasks."""

    def __init__(self, hunts: Sequence[TaskSearch]) -> None:
        """Begin a campaign; `hunts` has one search for each task."""
        self.hunts: Mapping[str, TaskSearch] = {hunt.task.id: hunt for hunt in hunts}
        self._turn = 0

    @property
    def is_done(self) -> bool:
        """Whether no further job will come."""
        return all(hunt.is_done for hunt in self.hunts.values())

    @property
    def seen(self) -> dict[str, Searched]:
        """The state of each task's search, by its id."""
        return {name: hunt.seen for name, hunt in self.hunts.items()}

    def go_on(self, lines: Iterable[Line]) -> int:
        """Resume a campaign from its stored lines; return the number of episodes that it had run.

        Raises:
            VlaError: a line cannot follow those before it; the message has its place.
        """
        episodes = 0
        for line in lines:
            try:
                self.hunts[line.task].take_up(line.job, line.result)
            except ValueError as error:
                raise VlaError(f"{line.where}: {error}; start a new search") from error
            episodes = line.episodes
        for hunt in self.hunts.values():
            hunt.begin_again()
        return episodes

    def next(self) -> tuple[str, Job] | None:
        """Return the next job, of the tasks in turn, or None if there is none now.

        Raises:
            VlaError: a task has no scene.
        """
        names = list(self.hunts)
        for step in range(len(names)):
            name = names[(self._turn + step) % len(names)]
            job = self.hunts[name].next()
            if job is not None:
                self._turn = (self._turn + step + 1) % len(names)
                return name, job
        return None


def drive(
    campaign: Campaign,
    hands: Hands,
    add_line: Callable[[Line], None],
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Run a campaign until no further job comes, or its time is over and its open jobs have ended.

    Args:
        campaign: whose jobs are done.
        hands: the workers.
        add_line: called with the result of each job, in order.
        is_over: whether no further job may begin.

    Raises:
        VlaError: a task has no scene to propose, or no worker is left.
    """
    while True:
        while hands.free and not is_over():
            found = campaign.next()
            if found is None:
                break
            hands.give(*found)
        if not hands.busy:
            return
        name, job, result = hands.wait()
        if result is None:
            campaign.hunts[name].give_back(job)
            continue
        campaign.hunts[name].add_result(job, result)
        add_line(Line(name, job, result, hands.episodes))


# Who does a campaign's jobs: this process, or several, each with a world of its own and one policy for all.
#
# A worker ends with whoever started it: its end of the pipe closes. One that dies or says nothing for long is
# replaced, and its job is done once more; what kills two workers tells nothing of the policy.

SILENCE = 600.0
"""Seconds without an episode's end after which a worker is taken for frozen, where episodes have no limit."""

MOST_QUESTIONS = 16
"""In a batch of a policy's process."""

_LOOK_SECONDS = 2.0
_END_SECONDS = 5.0
_MOST_ATTEMPTS = 2
_LOADING = 3


@dataclass(frozen=True)
class SearchPolicyProcess:
    """A policy in a process of its own.

    Attributes:
        address: where it listens.
        about: its description.
        patience: seconds after which a caller stops waiting for it.
    """

    address: PolicyAddress
    about: About
    patience: float


@dataclass(frozen=True)
class Setup:
    """The settings of a worker.

    Attributes:
        spec: of the policy.
        conditions: of its episodes.
        rules: of the search.
        served: the process of the policy, or None if the worker loads the policy itself.
        rival: of the policy to compare with, or None.
        wanted: the property that the policy is searched for.
    """

    spec: ModelSpec
    conditions: Conditions
    rules: SearchRules
    served: SearchPolicyProcess | None = None
    rival: ModelSpec | None = None
    wanted: Property = SUCCESS

    def of(self, digest: str | None) -> "Setup":
        """Return the setup with the policy's digest."""
        return replace(self, conditions=replace(self.conditions, policy_digest=digest))


@contextmanager
def performer(
    setup: Setup, watch: Callable[[], None], policy: Policy | None = None
) -> Iterator[Callable[[Job], Result]]:
    """Load the policies, and give a function that does jobs in this process.

    Args:
        setup: the settings.
        watch: called after each episode.
        policy: that is searched, or None to load it.

    Raises:
        VlaError: a policy cannot be loaded.
    """
    if policy is None:
        policy = resolve_policy(setup.spec) if setup.served is None else _served(setup.served, setup.conditions)
    with closing(WorldPool(False, charging=Charging(COSTS_ALL, None))) as worlds:
        trials = Trials(policy, worlds, setup.conditions, lambda record: watch(), wanted=setup.wanted)
        rival = None
        if setup.rival is not None:
            other = resolve_policy(setup.rival)
            as_rival = replace(
                setup.conditions, model=setup.rival.text, policy_digest=digest_of(other, setup.rival), replan=None
            )
            rival = Trials(other, worlds, as_rival, lambda record: watch(), wanted=setup.wanted)
        yield lambda job: perform(job, trials, setup.rules, rival)


@dataclass(frozen=True)
class StartedSearch:
    """A search whose policy is loaded.

    Attributes:
        conditions: with the policy's digest.
        hands: makes the workers, from the number of episodes that were run before, and a function called after each
            episode with their number.
    """

    conditions: Conditions
    hands: "Callable[[int, Callable[[int], None]], AbstractContextManager[OneHand | Workers]]"


@contextmanager
def loaded(setup: Setup, number: int, told: Callable[[str], None]) -> Iterator[StartedSearch]:
    """Load the policy: in this process for one worker; for more in one of its own, if it answers in batches.

    Args:
        setup: the settings of a worker.
        number: of workers.
        told: called with events of processes, for a person.

    Raises:
        VlaError: it cannot be loaded.
    """
    with ExitStack() as stack:
        if number == 1:
            policy = resolve_policy(setup.spec)
            setup = setup.of(digest_of(policy, setup.spec))
            yield StartedSearch(setup.conditions, lambda before, beat: _one_hand(setup, policy, before, beat))
            return
        if may_batch(setup.spec) is not False:
            with contextlib.suppress(NotBatched):
                most = min(number, MOST_QUESTIONS)
                replicas = stack.enter_context(closing(Replicas(setup.spec, (setup.spec.device,), most, notice=told)))
                served = SearchPolicyProcess(replicas.address_of(0), replicas.about, replicas.patience)
                setup = replace(setup.of(replicas.about.digest), served=served)
        if setup.served is None:
            told(f"each of {number} workers loads its own copy of {setup.spec.text}")
            # What it is made of is known of one that is loaded.
            setup = setup.of(digest_of(resolve_policy(setup.spec), setup.spec))
        yield StartedSearch(setup.conditions, lambda before, beat: closing(Workers(setup, number, told, before, beat)))


@contextmanager
def _one_hand(setup: Setup, policy: Policy, before: int, beat: Callable[[int], None]) -> "Iterator[OneHand]":
    episodes = [before]

    def watch() -> None:
        episodes[0] += 1
        beat(episodes[0])

    with performer(setup, watch, policy) as do:
        yield OneHand(do, lambda: episodes[0])


class OneHand:
    """This process as the only worker: a job is done when it is given."""

    def __init__(self, do: Callable[[Job], Result], episodes: Callable[[], int]) -> None:
        """Take `do` from `performer`; `episodes` returns the number of episodes that were run."""
        self._do, self._count = do, episodes
        self._done: tuple[str, Job, Result] | None = None

    @property
    def free(self) -> int:
        return int(self._done is None)

    @property
    def busy(self) -> int:
        return 1 - self.free

    @property
    def episodes(self) -> int:
        return self._count()

    def give(self, task: str, job: Job) -> None:
        self._done = task, job, self._do(job)

    def wait(self) -> tuple[str, Job, Result | None]:
        assert self._done is not None, "a job was given"
        done, self._done = self._done, None
        return done


@dataclass
class _Worker:
    number: int
    process: Any
    pipe: Connection
    work: tuple[str, Job] | None = None
    still: float = 0.0
    is_ready: bool = False


@dataclass
class Workers:
    """Several worker processes.

    Args:
        setup: the settings of each.
        number: of processes.
        told: called with their events, for a person.
        begun: episodes that were run before.
        beat: called after each episode with their number.
    """

    setup: Setup
    number: int
    told: Callable[[str], None] = lambda line: None
    begun: int = 0
    beat: Callable[[int], None] = lambda episodes: None
    _workers: list[_Worker] = field(default_factory=list)
    _attempts: dict[tuple[str, str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")
        limit = self.setup.conditions.timeout
        self._silence = SILENCE if limit is None else 2 * limit + 60
        self._patience = ObservedTime()
        self._workers = [self._start(number) for number in range(self.number)]

    @property
    def free(self) -> int:
        return sum(worker.work is None for worker in self._workers)

    @property
    def busy(self) -> int:
        return self.number - self.free

    @property
    def episodes(self) -> int:
        return self.begun

    def give(self, task: str, job: Job) -> None:
        worker = next(worker for worker in self._workers if worker.work is None)
        worker.work, worker.still = (task, job), 0.0
        # One that has died is found out by whoever waits for it.
        with contextlib.suppress(OSError):
            worker.pipe.send(job)

    def wait(self) -> tuple[str, Job, Result | None]:
        while True:
            pipes: list[Any] = [worker.pipe for worker in self._workers]
            heard = set(wait(pipes, timeout=_LOOK_SECONDS))
            passed = self._patience.passed()
            for worker in [worker for worker in self._workers if worker.work is not None]:
                worker.still = 0.0 if worker.pipe in heard else worker.still + passed
            for worker in [worker for worker in self._workers if worker.pipe in heard]:
                done = self._heard(worker)
                if done is not None:
                    return done
            for worker in self._workers:
                # Loading a policy takes as long as it takes; a process that is frozen in it is ended too.
                if worker.still > self._silence * (1 if worker.is_ready else _LOADING):
                    return self._lost(worker, f"was silent for {worker.still:.0f} s")

    def close(self) -> None:
        """End them all."""
        for worker in self._workers:
            worker.pipe.close()
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join(_END_SECONDS)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()

    def _heard(self, worker: _Worker) -> tuple[str, Job, Result | None] | None:
        try:
            what, told = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join(_END_SECONDS)
            return self._lost(worker, f"died ({worker.process.exitcode})")
        if what == "episode":
            self.begun += 1
            self.beat(self.begun)
        elif what == "ready":
            worker.is_ready = True
        elif what == "refused":
            raise VlaError(told)
        else:
            assert worker.work is not None, "only who has a job says what came of it"
            (task, job), worker.work = worker.work, None
            self._attempts.pop((task, job.what, job.proposal.number), None)
            if what == "raised":
                return task, job, _untold(job, told)
            return task, job, told
        return None

    def _lost(self, worker: _Worker, why: str) -> tuple[str, Job, Result | None]:
        """Replace a worker that is gone; its job is repeated once."""
        if not worker.is_ready:
            raise VlaError(f"a search worker {why} before it started; see its output above")
        worker.process.kill()
        worker.process.join()
        worker.pipe.close()
        self._workers[self._workers.index(worker)] = self._start(worker.number)
        self.told(f"worker {worker.number} {why} and was replaced")
        if worker.work is None:
            return self.wait()
        task, job = worker.work
        name = task, job.what, job.proposal.number
        attempts = self._attempts[name] = self._attempts.get(name, 0) + 1
        if attempts < _MOST_ATTEMPTS:
            return task, job, None
        self._attempts.pop(name)
        return task, job, _untold(job, f"its process {why}, twice")

    def _start(self, number: int) -> _Worker:
        here, there = self._context.Pipe()
        process = self._context.Process(target=_work, args=(there, self.setup), name=f"vla-fuzz-{number}", daemon=True)
        process.start()
        there.close()
        return _Worker(number, process, here)


def _untold(job: Job, why: str) -> Result:
    """Return the result of a job that raised or lost its worker twice."""
    if job.what == "scene":
        return TriedProposal(job.proposal, "aside", why)
    if job.what == "twin":
        return Trial("aside", why)
    # Nothing is known but that it was seen to fail once.
    candidate = job.proposal.candidate
    return Found(candidate, Shrunk(candidate, 0, complete=False), 1, 2, job.proposal.number, job.proposal.source)


def _served(served: SearchPolicyProcess, conditions: Conditions) -> Policy:
    limit = conditions.policy_timeout
    return ServedPolicy(served.address, limit or SILENCE, served.about, served.patience)


def _work(pipe: Connection, setup: Setup) -> None:
    """Run a worker process: do jobs from the pipe until it closes."""
    # Ctrl-C is for who started it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(BrokenPipeError, EOFError, ConnectionResetError), redirect_stdout(sys.stderr):
        try:
            # Kinds of the modules that -p named: a policy that is served elsewhere is not loaded here.
            hook_modules.consent(setup.spec.plugins, setup.spec.folder)
            with performer(setup, lambda: pipe.send(("episode", None))) as do:
                pipe.send(("ready", None))
                while True:
                    job = pipe.recv()
                    try:
                        pipe.send(("done", do(job)))
                    except (BrokenPipeError, ConnectionResetError):
                        raise
                    except Exception as error:
                        pipe.send(("raised", str(error) if isinstance(error, VlaError) else describe(error)))
        except VlaError as error:
            pipe.send(("refused", str(error)))
    sys.stderr.flush()
    # Graphics drivers may wait for each other at an ordinary end.
    os._exit(0)
