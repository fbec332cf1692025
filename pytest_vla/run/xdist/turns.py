"""Which item a free worker gets next where a sequential gate has said in which round each item's turn comes. Pure.

Rounds come one after the other, since a gate looks at whole ones. Within the first round that has items left a worker
stays with its scene; else it takes the first scene that no worker is on, else the first item. Ties are broken by the
order given.
"""

from collections.abc import Hashable, Iterable

from pytest_vla.run.xdist.pool import Item


class TurnPool:
    """The items that are not handed out yet; as `pytest_vla.run.xdist.pool.Pool`, and of these no two share an episode.

    Handing out an item takes O(items of its round).
    """

    def __init__(self, items: Iterable[Item]) -> None:
        """All items are in the pool."""
        self._rounds: dict[int, list[Item]] = {}
        self._scenes: dict[Hashable, str | None] = {}
        for item in items:
            self.put_back(item)

    def __len__(self) -> int:
        """How many items are in the pool."""
        return sum(map(len, self._rounds.values()))

    def take(self, worker: Hashable) -> Item | None:
        """The next item of a worker; None where there is none. A worker is known from its first call on."""
        if not self._rounds:
            return None
        turn = min(self._rounds)
        items = self._rounds[turn]
        own, others = self._scenes.get(worker), {scene for who, scene in self._scenes.items() if who != worker}
        item = min(items, key=lambda each: (each.scene != own, each.scene in others, each.index))
        items.remove(item)
        if not items:
            del self._rounds[turn]
        self._scenes[worker] = item.scene if item.scene is not None else own
        return item

    def has(self, worker: Hashable) -> bool:
        """Whether there is an item for this worker."""
        return bool(self._rounds)

    def stays(self, worker: Hashable) -> bool:
        """Whether the worker's next item is of its scene."""
        if not self._rounds:
            return False
        own = self._scenes.get(worker)
        return own is not None and any(item.scene == own for item in self._rounds[min(self._rounds)])

    def put_back(self, item: Item) -> None:
        """An item that was handed out and is to be run all the same, again or by another worker."""
        self._rounds.setdefault(item.turn, []).append(item)

    def remove_worker(self, worker: Hashable) -> None:
        """The worker takes nothing any more; its scene is free for others."""
        self._scenes.pop(worker, None)
