"""Which item a free worker gets next where each has a round in which its turn comes, and a place there. Pure.

Rounds come one after the other. Of a sequential gate, which looks at whole ones, order within a round is free: a worker
stays with its scene while the first round that has items left has some of it; else it takes the first scene that no
worker is on, else the first item. Of a run that time may end nothing is free: the next item is the one with the first
place, whoever asks. A worker on tasks that a policy does is free more often, so with a choice it would bring these
forward in the round that time leaves incomplete. Ties are in the order given. Tests that share an episode go to one
worker, one after the other.
"""

from collections import deque
from collections.abc import Hashable, Iterable
from heapq import heappop, heappush

from pytest_vla.run.xdist.pool import Item

_Queue = list[tuple[int, int, Item]]


class TurnPool:
    """The items that are not handed out yet; as `pytest_vla.run.xdist.pool.Pool`.

    Handing out an item takes O(rounds + scenes of its round).
    """

    def __init__(self, items: Iterable[Item], is_strict: bool = False) -> None:
        """All items are in the pool.

        Args:
            items: in the order given.
            is_strict: whether each comes at its place; else workers stay with their scenes within a round.
        """
        self._is_strict = is_strict
        # Of each round its queues: one by scene, or one for all.
        self._rounds: dict[int, dict[str | None, _Queue]] = {}
        self._scenes: dict[Hashable, str | None] = {}
        # Of groups, the items behind the one that is in a round; by worker, the rest of the group that it is on.
        self._behind: dict[str, deque[Item]] = {}
        self._kept: dict[Hashable, deque[Item]] = {}
        self._count = 0
        for item in items:
            self.put_back(item)

    def __len__(self) -> int:
        """How many items are in the pool."""
        return self._count

    def take(self, worker: Hashable) -> Item | None:
        """The next item of a worker; None where there is none. A worker is known from its first call on."""
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
        """Whether there is an item for this worker: one for anyone, or of the group that it is on."""
        return bool(self._rounds or self._kept.get(worker))

    def stays(self, worker: Hashable) -> bool:
        """Whether the worker's next item is of its scene."""
        if self._kept.get(worker):
            return True
        own = self._scenes.get(worker)
        if own is None or not self._rounds:
            return False
        queues = self._rounds[min(self._rounds)]
        return queues[None][0][-1].scene == own if self._is_strict else own in queues

    def put_back(self, item: Item) -> None:
        """An item that was handed out and is to be run all the same, again or by another worker."""
        self._count += 1
        if item.group is not None:
            if item.group in self._behind:
                self._behind[item.group].append(item)
                return
            self._behind[item.group] = deque()
        queue = self._rounds.setdefault(item.turn, {}).setdefault(None if self._is_strict else item.scene, [])
        heappush(queue, (item.place, item.index, item))

    def remove_worker(self, worker: Hashable) -> None:
        """The worker takes nothing any more; its scene is free for others."""
        self._scenes.pop(worker, None)
        kept = self._kept.pop(worker, ())
        self._count -= len(kept)
        for item in kept:
            self.put_back(item)

    def _scene_for(self, worker: Hashable, scenes: dict[str | None, _Queue]) -> str | None:
        """Its own, else one that no worker is on, else the first."""
        own, others = self._scenes.get(worker), {scene for who, scene in self._scenes.items() if who != worker}
        return min(scenes, key=lambda each: (each != own, each in others, scenes[each][0][:2]))
