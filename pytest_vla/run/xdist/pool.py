"""The choice of the next item for a free worker. Pure: no pytest, no xdist.

The rules use only an item's scene and its estimated seconds:

1. A worker stays with its scene while the scene has items; loading another scene costs about a second.
2. After that it takes the scene without a worker that has the most remaining work. If every scene has a worker, it
   joins the scene with the most remaining work per worker. So scenes are split over workers only if there are fewer
   scenes than workers, or at the end. No worker waits while there are items, since an idle worker costs more than
   loading a scene.
3. Within a scene the longest item comes first, so that the last ones are short.
4. Items of one group, tests that share an episode, go to one worker, one after the other: each worker that has one of
   them simulates the episode.

Items without a scene form a scene of their own that costs nothing to load, in the order given. Ties are broken by the
order given: the same calls always have the same answers.
"""

from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

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
