"""pytest-xdist's scheduler for episodes: hands out the items of a `Pool` or `TurnPool`.

A worker starts an item only after it has got the next one, or has been told that there is none. So each worker has two
items: the one that it runs and the next one. When the pool is empty, workers end after the items that they have.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import pytest
from xdist.remote import Producer
from xdist.report import report_collection_diff
from xdist.workermanage import WorkerController

# The choice of the next item for a free worker. Pure: no pytest, no xdist.
#
# The rules use only an item's scene and its estimated seconds:
#
# 1. A worker stays with its scene while the scene has items; loading another scene costs about a second.
# 2. After that it takes the scene without a worker that has the most remaining work. If every scene has a worker, it
#    joins the scene with the most remaining work per worker. So scenes are split over workers only if there are fewer
#    scenes than workers, or at the end. No worker waits while there are items, since an idle worker costs more than
#    loading a scene.
# 3. Within a scene the longest item comes first, so that the last ones are short.
# 4. Items of one group, tests that share an episode, go to one worker, one after the other: each worker that has one of
#    them simulates the episode.
#
# Items without a scene form a scene of their own that costs nothing to load, in the order given. Ties are broken by
# the order given: the same calls always have the same answers.

LOADING_SECONDS = 1.0
"""About what it costs a worker to load another scene."""


@dataclass(frozen=True)
class PoolItem:
    """An item to run.

    Attributes:
        index: its place in the order given.
        scene: the name of its scene, or None if it needs none.
        seconds: its estimated duration.
        group: the group of items that stay on one worker, or None.
        turn: its round, used by `TurnPool` only.
        place: its place in the round, used by `TurnPool` only.
    """

    index: int
    scene: str | None
    seconds: float
    group: str | None = None
    turn: int = 0
    place: int = 0


@dataclass(eq=False)
class _Scene:
    """The items of one scene that are not handed out yet."""

    name: str | None
    order: int
    queue: list[tuple[float, int, PoolItem]] = field(default_factory=list)
    remaining: float = 0.0
    workers: int = 0


@dataclass(eq=False)
class _Worker:
    """A worker's scenes: that of its last item, and the one that it has loaded."""

    scene: _Scene | None = None
    loaded: _Scene | None = None
    kept: deque[PoolItem] = field(default_factory=deque)
    """The rest of the group that it is on."""


class Pool:
    """The items that are not handed out yet, and the scene that each worker is on.

    Handing out an item takes O(log items), and O(workers) more where the worker changes its scene.
    """

    def __init__(self, items: Iterable[PoolItem]) -> None:
        """Put all items into the pool. Raises ValueError if estimated seconds are negative or not finite."""
        self._scenes: dict[str | None, _Scene] = {}
        self._workers: dict[Hashable, _Worker] = {}
        self._occupied: dict[str | None, _Scene] = {}
        # Scenes without a worker, the most work first; an entry that is out of date is dropped when it is met.
        self._free: list[tuple[float, int, _Scene]] = []
        self._count = 0
        # How many of these some worker may take: not the rest of a group that another one is on.
        self._open = 0
        # Of groups that no worker is on, the items behind the one that is in the queue; and who is on the others.
        self._behind: dict[str, deque[PoolItem]] = {}
        self._on: dict[str, _Worker] = {}
        for item in items:
            if item.group is not None and item.group in self._behind:
                self._behind[item.group].append(item)
                self._count += 1
                continue
            if item.group is not None:
                self._behind[item.group] = deque()
            scene = self._add(item)
            scene.queue.append(_entry(item))
        for scene in self._scenes.values():
            heapify(scene.queue)
            self._free.append((-scene.remaining, scene.order, scene))
        heapify(self._free)

    def __len__(self) -> int:
        """Return the number of items in the pool."""
        return self._count

    def take(self, worker: Hashable) -> PoolItem | None:
        """Return the next item of a worker, or None if there is none for it. The first call makes the worker known."""
        if not self.has(worker):
            return None
        place = self._workers.setdefault(worker, _Worker())
        self._count -= 1
        if place.kept:
            return place.kept.popleft()
        scene = self._scene_for(place)
        self._move(place, scene)
        _, _, item = heappop(scene.queue)
        # Sums of floats drift: an empty scene has exactly nothing left.
        scene.remaining = scene.remaining - item.seconds if scene.queue else 0.0
        self._open -= 1
        if item.group is not None:
            place.kept = self._behind.pop(item.group, deque())
            self._on[item.group] = place
        return item

    def has(self, worker: Hashable) -> bool:
        """Whether there is an item for this worker: one for any worker, or one of its present group."""
        place = self._workers.get(worker)
        return bool(self._open or (place is not None and place.kept))

    def stays(self, worker: Hashable) -> bool:
        """Whether the worker's next item belongs to a scene that it has loaded, or needs no scene."""
        place = self._workers.get(worker)
        return place is not None and (bool(place.kept) or self._own(place) is not None)

    def put_back(self, item: PoolItem) -> None:
        """Put back an item that was handed out, to be run by any worker."""
        if item.group is not None:
            if (place := self._on.get(item.group)) is not None:
                place.kept.append(item)
                self._count += 1
                return
            if item.group in self._behind:
                self._behind[item.group].append(item)
                self._count += 1
                return
            self._behind[item.group] = deque()
        scene = self._add(item)
        heappush(scene.queue, _entry(item))
        self._offer(scene)

    def remove_worker(self, worker: Hashable) -> None:
        """Remove a worker, which frees its scene for other workers. An unknown worker is ignored."""
        if place := self._workers.pop(worker, None):
            self._move(place, None)
            self._on = {group: other for group, other in self._on.items() if other is not place}
            self._count -= len(place.kept)
            for item in place.kept:
                self.put_back(item)

    def _add(self, item: PoolItem) -> _Scene:
        if not 0 <= item.seconds < float("inf"):
            raise ValueError(f"{item}: estimated seconds are a number, 0 or more")
        scene = self._scenes.setdefault(item.scene, _Scene(item.scene, len(self._scenes)))
        scene.remaining += item.seconds
        self._count += 1
        self._open += 1
        return scene

    def _own(self, place: _Worker) -> _Scene | None:
        return next((scene for scene in (place.scene, place.loaded) if scene is not None and scene.queue), None)

    def _scene_for(self, place: _Worker) -> _Scene:
        if own := self._own(place):
            return own
        while self._free:
            remaining, _, scene = self._free[0]
            if not scene.workers and scene.queue and scene.remaining == -remaining:
                return scene
            heappop(self._free)
        joinable = (scene for scene in self._occupied.values() if scene.queue)
        return max(joinable, key=lambda scene: (scene.remaining / scene.workers, -scene.order))

    def _move(self, place: _Worker, scene: _Scene | None) -> None:
        left, place.scene = place.scene, scene
        if scene is not None:
            scene.workers += 1
            self._occupied[scene.name] = scene
            place.loaded = scene if scene.name is not None else place.loaded
        if left is not None:
            left.workers -= 1
            self._offer(left)

    def _offer(self, scene: _Scene) -> None:
        """Make a scene available, if no worker is on it any more."""
        if scene.workers:
            return
        self._occupied.pop(scene.name, None)
        if scene.queue:
            heappush(self._free, (-scene.remaining, scene.order, scene))


def _entry(item: PoolItem) -> tuple[float, int, PoolItem]:
    return (-item.seconds if item.scene is not None else 0.0, item.index, item)


# Which item a free worker gets next where each has a round in which its turn comes, and a place there. Pure.
#
# Rounds come one after the other. Of a sequential gate, which looks at whole ones, order within a round is free: a
# worker stays with its scene while the first round that has items left has some of it; else it takes the first scene
# that no worker is on, else the first item. Of a run that time may end nothing is free: the next item is the one with
# the first place, whoever asks. A worker on tasks that a policy does is free more often, so with a choice it would
# bring these forward in the round that time leaves incomplete. Ties are in the order given. Tests that share an
# episode go to one worker, one after the other.

_Queue = list[tuple[int, int, PoolItem]]


class TurnPool:
    """The items that are not handed out yet, with the interface of `pytest_vla.run.xdist.scheduler.Pool`.

    Handing out an item takes O(rounds + scenes of its round).
    """

    def __init__(self, items: Iterable[PoolItem], is_strict: bool = False) -> None:
        """Put all items into the pool.

        Args:
            items: in the order given.
            is_strict: whether items come exactly in the order of their places; else workers stay with their scenes
                within a round.
        """
        self._is_strict = is_strict
        # Of each round its queues: one by scene, or one for all.
        self._rounds: dict[int, dict[str | None, _Queue]] = {}
        self._scenes: dict[Hashable, str | None] = {}
        # Of groups, the items behind the one that is in a round; by worker, the rest of the group that it is on.
        self._behind: dict[str, deque[PoolItem]] = {}
        self._kept: dict[Hashable, deque[PoolItem]] = {}
        self._count = 0
        for item in items:
            self.put_back(item)

    def __len__(self) -> int:
        """Return the number of items in the pool."""
        return self._count

    def take(self, worker: Hashable) -> PoolItem | None:
        """Return the next item of a worker, or None if there is none. The first call makes the worker known."""
        if not self.has(worker):
            return None
        self._count -= 1
        if kept := self._kept.get(worker):
            return kept.popleft()
        turn = min(self._rounds)
        scenes = self._rounds[turn]
        own = self._scenes.get(worker)
        scene = None if self._is_strict else self._scene_for(worker, scenes)
        _, _, item = heappop(scenes[scene])
        if not scenes[scene]:
            del scenes[scene]
        if not scenes:
            del self._rounds[turn]
        self._scenes[worker] = item.scene if item.scene is not None else own
        if item.group is not None:
            self._kept[worker] = self._behind.pop(item.group, deque())
        return item

    def has(self, worker: Hashable) -> bool:
        """Whether there is an item for this worker: one for any worker, or one of its present group."""
        return bool(self._rounds or self._kept.get(worker))

    def stays(self, worker: Hashable) -> bool:
        """Whether the worker's next item belongs to its scene."""
        if self._kept.get(worker):
            return True
        own = self._scenes.get(worker)
        if own is None or not self._rounds:
            return False
        queues = self._rounds[min(self._rounds)]
        return queues[None][0][-1].scene == own if self._is_strict else own in queues

    def put_back(self, item: PoolItem) -> None:
        """Put back an item that was handed out, to be run by any worker."""
        self._count += 1
        if item.group is not None:
            if item.group in self._behind:
                self._behind[item.group].append(item)
                return
            self._behind[item.group] = deque()
        queue = self._rounds.setdefault(item.turn, {}).setdefault(None if self._is_strict else item.scene, [])
        heappush(queue, (item.place, item.index, item))

    def remove_worker(self, worker: Hashable) -> None:
        """Remove a worker, which frees its scene for other workers."""
        self._scenes.pop(worker, None)
        kept = self._kept.pop(worker, ())
        self._count -= len(kept)
        for item in kept:
            self.put_back(item)

    def _scene_for(self, worker: Hashable, scenes: dict[str | None, _Queue]) -> str | None:
        """Return the worker's own scene, else one without a worker, else the first."""
        own, others = self._scenes.get(worker), {scene for who, scene in self._scenes.items() if who != worker}
        return min(scenes, key=lambda each: (each != own, each in others, scenes[each][0][:2]))


QUEUED = 2
"""How many items a worker has: the one that it runs, and the next."""


class VlaScheduling:
    """The scheduler of episodes, an `xdist.scheduler.Scheduling`, which `DSession` calls from one thread."""

    def __init__(
        self,
        config: pytest.Config,
        log: Producer,
        items_of: Callable[[Sequence[str]], Sequence[PoolItem]],
        pool_of: Callable[[Sequence[PoolItem]], Pool | TurnPool] = Pool,
        is_over: Callable[[], bool] = lambda: False,
        waits: bool = True,
    ) -> None:
        """Start without workers and items.

        Args:
            config: the controller's.
            log: for ``--debug``.
            items_of: returns the items of node ids, in their order; `PoolItem.index` is the place in the list.
            pool_of: makes the pool that hands them out.
            is_over: whether nothing more may be handed out, for example after a time limit.
            waits: whether nothing begins before all workers have collected; else the first one begins.
        """
        self.config = config
        self.log = log.vlasched
        self.collection: list[str] | None = None
        self.collection_is_completed = False
        """Whether as many workers as were asked for have collected."""
        self._waits = waits
        self._items_of = items_of
        self._items: Sequence[PoolItem] = ()
        self._indices: dict[str, int] = {}
        self._pool_of, self._is_over = pool_of, is_over
        self._pool: Pool | TurnPool = Pool(())
        self._collections: dict[WorkerController, list[str]] = {}
        # What each worker has been given and has not reported as run.
        self._queued: dict[WorkerController, list[int]] = {}
        self._collecting: set[WorkerController] = set()
        # Those that may be given more, in the order in which they came.
        self._open: dict[WorkerController, None] = {}

    @property
    def nodes(self) -> list[WorkerController]:
        """All workers that are up."""
        return list(self._queued)

    @property
    def tests_finished(self) -> bool:
        """Whether nothing is left to hand out and every worker knows it; xdist then ends the run."""
        waiting = self._pool or any(len(queued) >= QUEUED for queued in self._queued.values())
        return self.collection_is_completed and not waiting

    @property
    def has_pending(self) -> bool:
        """Whether an item is in the pool or at a worker."""
        return bool(self._pool) or any(self._queued.values())

    def add_node(self, node: WorkerController) -> None:
        """Add a worker. It gets nothing before it has collected."""
        self._queued[node] = []
        self._collecting.add(node)

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """Add a worker's collection; a replacement that finds other items is reported, and gets nothing."""
        if node not in self._collecting:
            # It came when all seemed to be done, and was told to end before a crash left something to do.
            return
        self._collecting.remove(node)
        if self.collection is None:
            self._collections[node] = list(collection)
            # The same number under every version of xdist.
            awaited = node.workerinput["workercount"] if self._waits else 1
            self.collection_is_completed = len(self._collections) >= awaited
            return
        if list(collection) == self.collection:
            self._open[node] = None
            return
        self._report_difference("the first worker", self.collection, node.gateway.id, collection)
        node.shutdown()
        if self._pool and not self._open and not self._collecting:
            # Nobody would take them, and xdist knows no end but an internal error.
            self._report(node.gateway.id, f"{len(self._pool)} items were not run: no worker is left to run them")
            self._pool = Pool(())

    def schedule(self) -> None:
        """Hand out the first items; called again after each later worker."""
        if self.collection is None:
            self._start()
        self._feed_all()

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Give a worker its next item, as it has run one."""
        self._queued[node].remove(item_index)
        self._feed(node)

    def mark_test_pending(self, item: str) -> None:
        """Put back an item that was handed out, as `pytest_handlecrashitem` may ask."""
        self._pool.put_back(self._items[self._indices[item]])

    def remove_pending_tests_from_node(self, node: WorkerController, indices: Sequence[int]) -> None:
        """Put back a worker's items; our workers are never asked for that."""
        for index in indices:
            self._queued[node].remove(index)
            self._pool.put_back(self._items[index])
        self._feed(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """Remove an ended worker, and put its items back. Returns the item in which it crashed, if any.

        Raises:
            KeyError: it was never added; xdist expects this.
        """
        queued = self._queued.pop(node)
        self._collecting.discard(node)
        self._collections.pop(node, None)
        self._close(node)
        if not queued or self.collection is None:
            return None
        for index in queued[1:]:
            self._pool.put_back(self._items[index])
        crashed = self.collection[queued[0]]
        # Several items may have one id; it stands for the one that crashed from now on.
        self._indices[crashed] = queued[0]
        return crashed

    def _start(self) -> None:
        """Fill the pool. It stays empty, which ends the run, if the workers have collected different items."""
        (first, collection), *others = self._collections.items()
        differing = [(node, other) for node, other in others if other != collection]
        for node, other in differing:
            self._report_difference(first.gateway.id, collection, node.gateway.id, other)
        if differing:
            return
        self.collection = collection
        self._items = self._items_of(collection)
        self._indices = {node_id: index for index, node_id in enumerate(collection)}
        self._pool = self._pool_of(self._items)
        self._open = dict.fromkeys(self._collections)
        self._collections.clear()

    def _feed_all(self) -> None:
        """Give every worker its items, starting with the one that has the least to do."""
        self._end_in_time()
        while hungry := [node for node in self._open if self._is_hungry(node) and self._pool.has(node)]:
            self._give(min(hungry, key=self._load))
        for node in self.nodes:
            self._feed(node)

    def _end_in_time(self) -> None:
        """Empty the pool after the time limit; its items are left for a resumed run."""
        if self._pool and self._is_over():
            self._pool = Pool(())

    def _feed(self, node: WorkerController) -> None:
        self._end_in_time()
        while self._pool.has(node) and self._is_hungry(node):
            self._give(node)
        if self._is_hungry(node):
            self._close(node)
            node.shutdown()

    def _give(self, node: WorkerController) -> None:
        item = self._pool.take(node)
        assert item is not None
        try:
            node.send_runtest_some([item.index])
        except OSError:
            # It is dead, and xdist is about to tell us.
            self._close(node)
            self._pool.put_back(item)
        else:
            self._queued[node].append(item.index)

    def _is_hungry(self, node: WorkerController) -> bool:
        # Where the run is being stopped, xdist has told the workers to end.
        return node in self._open and not node.shutting_down and len(self._queued[node]) < QUEUED

    def _load(self, node: WorkerController) -> tuple[int, float]:
        queued = self._queued[node]
        loading = 0.0 if self._pool.stays(node) else LOADING_SECONDS
        return len(queued), loading + sum(self._items[index].seconds for index in queued)

    def _close(self, node: WorkerController) -> None:
        self._open.pop(node, None)
        self._pool.remove_worker(node)

    def _report_difference(self, one_name: str, one: Sequence[str], other_name: str, other: Sequence[str]) -> None:
        message = report_collection_diff(one, other, one_name, other_name)
        if message:
            self._report(other_name, message)

    def _report(self, name: str, message: str) -> None:
        self.log(message)
        report = pytest.CollectReport(nodeid=name, outcome="failed", longrepr=message, result=[])
        self.config.hook.pytest_collectreport(report=report)
