"""Our scheduler under xdist's own session, with workers that are played: every order of events, and every crash."""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdist.dsession import DSession
from xdist.remote import Producer

from pytest_vla.run.xdist.scheduler import PoolItem, VlaScheduling
from tests.support.examples import scaled

END = "end"


class Worker:
    """A worker as `xdist.remote` has it: it starts an item when it knows the next one, or that there is none."""

    def __init__(self, play: "Play", number: int, ids: Sequence[str]) -> None:
        self.play, self.ids = play, list(ids)
        self.gateway = SimpleNamespace(id=f"gw{number}", spec=SimpleNamespace(id=None))
        self.workerinput = {"workercount": play.count}
        self.stage, self.inbox, self.told = "new", deque[Any](), False
        self.running: int | None = None
        self.held: Any = None
        self.alive = True

    @property
    def shutting_down(self) -> bool:
        return self.told or self.stage == "finished"

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        if not self.alive:
            raise OSError("cannot send to a closed channel")
        assert not self.told, "an item after the end"
        assert self.stage == "collected", "an item before the collection"
        assert self.ids == self.play.scheduler.collection, "an item for another collection"
        self.inbox.extend(indices)

    def shutdown(self) -> None:
        scheduler = self.play.scheduler
        assert self.play.stopped or not scheduler._pool or self.ids != scheduler.collection, (
            "told to end while there are items"
        )
        self.told = True
        self.inbox.append(END)

    def actions(self) -> list[Callable[[], None]]:
        """What can happen to this worker now, apart from its death."""
        if not self.alive or self.stage == "finished":
            return []
        if self.stage == "new":
            return [self.get_ready]
        if self.stage == "ready":
            return [self.collect]
        if self.running is not None:
            return [self.end_item]
        if self.held is None and self.inbox:
            self.held = self.inbox.popleft()
        if self.held == END:
            return [self.finish]
        return [self.start_item] if self.held is not None and self.inbox else []

    def get_ready(self) -> None:
        self.stage = "ready"
        self.play.post("workerready", node=self, workerinfo={})

    def collect(self) -> None:
        self.stage = "collected"
        self.play.post("collectionfinish", node=self, ids=self.ids)

    def start_item(self) -> None:
        self.running, self.held = self.held, self.inbox.popleft()
        self.play.started[self.running] += 1

    def end_item(self) -> None:
        assert self.running is not None
        self.play.done[self.running] += 1
        self.play.post("runtest_protocol_complete", node=self, item_index=self.running, duration=1.0)
        self.running = None

    def finish(self) -> None:
        self.stage = "finished"
        self.workeroutput = {"exitstatus": 0, "shouldfail": False, "shouldstop": False}
        self.play.post("workerfinished", node=self)

    def die(self) -> None:
        self.alive = False
        self.play.post("errordown", node=self, error="killed")


class Play:
    """`DSession` with played workers. `draws` choose what happens next; when they are used up, nobody dies any more.

    Args:
        items: their scenes and seconds.
        count: of workers at first.
        draws: numbers, each a choice.
        reruns: how often an item that was killed is run again.
        ids_of: what the worker of a number collects; None: what all do.
    """

    def __init__(
        self,
        items: Sequence[tuple[str | None, float]],
        count: int,
        draws: Sequence[int] = (),
        reruns: int = 1,
        ids_of: Callable[[int, list[str]], list[str]] = lambda number, ids: ids,
    ) -> None:
        self.count, self.draws, self.reruns, self.ids_of = count, iter(draws), reruns, ids_of
        self.ids = [f"test_{index}" for index in range(len(items))]
        self.items = items
        self.workers: list[Worker] = []
        self.events: deque[tuple[str, dict[str, Any]]] = deque()
        self.started, self.done, self.killed = Counter[int](), Counter[int](), Counter[int]()
        self.reported: list[str] = []
        self.stopped = False
        config: Any = SimpleNamespace(
            option=SimpleNamespace(debug=False, maxworkerrestart=None, numprocesses=None, verbose=-1),
            getvalue={"maxfail": 0}.__getitem__,
            pluginmanager=SimpleNamespace(getplugin=lambda name: None),
            hook=self,
        )
        self.session = DSession(config)
        self.scheduler = VlaScheduling(config, Producer("test", enabled=False), self.items_of)
        self.session.sched = self.scheduler  # type: ignore[assignment]
        self.session._session = SimpleNamespace()  # type: ignore[assignment]
        self.session.nodemanager = self  # type: ignore[assignment]
        self.session.queue = self  # type: ignore[assignment]
        self.group = SimpleNamespace(allocate_id=lambda spec: None)
        for _ in range(count):
            self.session._active_nodes.add(self.setup_node())  # type: ignore[arg-type]

    def items_of(self, ids: Sequence[str]) -> list[PoolItem]:
        known = [PoolItem(index, *item) for index, item in enumerate(self.items)][: len(ids)]
        return [*known, *(PoolItem(index, None, 1.0) for index in range(len(known), len(ids)))]

    def until(self, condition: Callable[[], object]) -> None:
        """One thing after the other, up to a moment."""
        while not condition():
            if self.events:
                self.session.loop_once()
            else:
                next(action for worker in self.workers for action in worker.actions())()

    def run(self) -> None:
        """As `DSession.pytest_runtestloop`; AssertionError where nothing can happen any more before the end."""
        while not self.session.session_finished:
            self.session.loop_once()

    def setup_node(self, *_: object) -> Worker:
        number = len(self.workers)
        self.workers.append(Worker(self, number, self.ids_of(number, self.ids)))
        return self.workers[-1]

    def put(self, event: tuple[str, dict[str, Any]]) -> None:
        raise AssertionError("played workers post their events themselves")

    def post(self, name: str, **arguments: Any) -> None:
        self.events.append((name, arguments))

    def get(self, timeout: float) -> tuple[str, dict[str, Any]]:
        """The next event for xdist; before it, things happen to the workers."""
        self.check_nobody_waits()
        while True:
            actions = [action for worker in self.workers for action in worker.actions()]
            draw = next(self.draws, None)
            if draw is None and self.events:
                return self.events.popleft()
            if draw is None:
                assert actions, "a hang: no worker has anything to do, and the run does not end"
                actions[0]()
                continue
            alive = [worker for worker in self.workers if worker.alive and worker.stage != "finished"]
            if draw % 8 == 7 and alive:
                alive[draw // 8 % len(alive)].die()
            elif draw % 2 and self.events:
                return self.events.popleft()
            elif actions:
                actions[draw // 2 % len(actions)]()

    def check_nobody_waits(self) -> None:
        """What was asked for: nobody waits while there are items, but for news that is on its way."""
        news = {id(arguments.get("node")) for _, arguments in self.events}
        for worker in self.workers:
            waits = worker.alive and worker.stage == "collected" and worker.running is None and not worker.told
            queued = len(worker.inbox) + (worker.held is not None)
            if waits and id(worker) not in news and worker.ids == self.scheduler.collection:
                assert queued >= 2 or not len(self.scheduler._pool)

    # xdist's hooks, of which these matter.

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("pytest_"):
            return lambda **arguments: None
        raise AttributeError(name)

    def pytest_handlecrashitem(self, crashitem: str, report: Any, sched: Any) -> None:
        self.killed[index := int(crashitem.removeprefix("test_"))] += 1
        if self.killed[index] <= self.reruns:
            sched.mark_test_pending(crashitem)

    def pytest_collectreport(self, report: Any) -> None:
        self.reported.append(report.longrepr)


ITEMS = st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), st.sampled_from([0.0, 1.0, 3.0])), max_size=25)
WORKERS = st.integers(min_value=1, max_value=5)
DRAWS = st.lists(st.integers(min_value=0, max_value=63), max_size=120)


@settings(max_examples=scaled(300))
@given(ITEMS, WORKERS, DRAWS, st.integers(min_value=0, max_value=2))
def test_every_item_is_run_once_whatever_happens_to_workers(
    items: list[tuple[str | None, float]], count: int, draws: list[int], reruns: int
) -> None:
    play = Play(items, count, draws, reruns)
    play.run()
    assert not play.reported
    for index in range(len(items)):
        assert play.killed[index] <= reruns + 1
        # A worker may be killed between the end of an item and the news of it, or before it starts one that it has.
        assert play.started[index] <= 1 + play.killed[index]
        assert play.done[index] >= 1 or play.killed[index] == reruns + 1
    assert len(play.workers) == count + sum(not worker.alive for worker in play.workers)


@settings(max_examples=scaled(300))
@given(ITEMS, WORKERS, DRAWS, st.sets(st.integers(min_value=1, max_value=8)))
def test_workers_that_collect_something_else_never_hang_the_run(
    items: list[tuple[str | None, float]], count: int, draws: list[int], odd: set[int]
) -> None:
    play = Play(items, count, draws, 1, lambda number, ids: [*ids, f"test_{len(ids)}"] if number in odd else ids)
    play.run()
    missing = [index for index in range(len(items)) if not play.done[index] and play.killed[index] <= 1]
    assert not missing or play.reported


@given(ITEMS, WORKERS)
def test_every_item_is_run_once(items: list[tuple[str | None, float]], count: int) -> None:
    play = Play(items, count)
    play.run()
    assert list(play.done.elements()) == list(range(len(items))) or play.done == Counter(range(len(items)))
    assert all(worker.stage == "finished" for worker in play.workers)


def test_each_worker_has_the_item_that_it_runs_and_the_next() -> None:
    play = Play([("a", 1.0)] * 20, 3)
    play.until(lambda: len(play.done) == 5)
    assert [len(queued) for queued in play.scheduler._queued.values()] == [2, 2, 2]


def test_the_second_item_goes_to_the_worker_with_the_least_to_do() -> None:
    play = Play([("a", 9.0), ("a", 5.0), ("a", 3.0)], 2)
    play.until(lambda: play.scheduler.collection)
    assert [list(worker.inbox) for worker in play.workers] == [[0, END], [1, 2]]


def test_a_run_that_is_stopped_hands_out_nothing_more_and_ends_in_silence() -> None:
    play = Play([("a", 1.0)] * 20, 2)
    play.until(lambda: len(play.done) == 3)
    play.stopped = True
    play.session.triggershutdown()
    play.run()
    assert 3 <= len(play.done) <= 3 + 2 * 2
    assert not play.reported


def test_a_different_collection_is_reported_and_nothing_is_run() -> None:
    play = Play([("a", 1.0)] * 4, 2, ids_of=lambda number, ids: ids[number:])
    play.run()
    assert not play.started
    assert "Different tests were collected between gw0 and gw1" in play.reported[0]


def test_items_that_nobody_is_left_for_are_told() -> None:
    play = Play([("a", 1.0)] * 9, 1, ids_of=lambda number, ids: ids if number == 0 else ids[:-1])
    play.until(lambda: play.done)
    play.workers[0].die()
    play.run()
    assert len(play.workers) == 2
    difference, left = play.reported
    assert "Different tests were collected between the first worker and gw1" in difference
    assert left == "8 items were not run: no worker is left to run them"


def test_a_worker_that_came_when_all_seemed_done_is_left_to_end() -> None:
    play = Play([("a", 1.0)] * 2, 2)
    play.until(lambda: play.scheduler.collection)
    one, other = play.workers
    (start,) = other.actions()
    start()
    play.until(lambda: play.done and not play.events)
    one.die()
    play.session.loop_once()
    late = play.workers[2]
    late.get_ready()
    play.until(lambda: late.told)
    other.die()
    play.session.loop_once()
    late.collect()
    play.run()
    assert [worker.stage for worker in play.workers[2:]] == ["finished", "finished"]
    assert play.done == {0: 1, 1: 1}


def test_of_two_items_with_one_id_the_one_that_crashed_is_run_again() -> None:
    play = Play([("a", 9.0), ("a", 1.0)], 1, ids_of=lambda number, ids: ["test_0", "test_0"])
    play.until(lambda: play.started)
    play.workers[0].die()
    play.run()
    assert play.started == {0: 2, 1: 1}


def test_given_back_items_are_handed_out_again() -> None:
    play = Play([("a", 3.0), ("a", 2.0), ("a", 1.0)], 1)
    play.until(lambda: play.scheduler.collection)
    play.workers[0].inbox.remove(1)
    play.scheduler.remove_pending_tests_from_node(play.workers[0], [1])  # type: ignore[arg-type]
    play.run()
    assert play.done == {0: 1, 1: 1, 2: 1}


def test_a_node_that_was_never_up_is_a_key_error() -> None:
    play = Play([], 1)
    with pytest.raises(KeyError):
        play.scheduler.remove_node(play.workers[0])  # type: ignore[arg-type]
