"""Enumeration of all outcomes of a function that makes random draws."""

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any, TypeVar

Value = TypeVar("Value")


class ChoiceEnumerator(random.Random):
    """A random generator whose draws are chosen: it walks the tree of possible draws, depth first."""

    def __init__(self) -> None:
        super().__init__(0)
        self._chosen: list[tuple[int, int]] = []
        self._at = 0

    def go_on(self) -> bool:
        """Move to the next sequence of draws, and return False if none is left."""
        self._at = 0
        while self._chosen:
            which, among = self._chosen.pop()
            if which + 1 < among:
                self._chosen.append((which + 1, among))
                return True
        return False

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        first, end = (0, start) if stop is None else (start, stop)
        return range(first, end, step)[self._which(len(range(first, end, step)))]

    def randint(self, a: int, b: int) -> int:
        return self.randrange(a, b + 1)

    def choice(self, seq: Any) -> Any:
        return seq[self._which(len(seq))]

    def sample(self, population: Sequence[Any], k: int, *, counts: Any = None) -> list[Any]:
        # In the order of the population only: of those who ask here none cares for another.
        several = list(combinations(population, k))
        return list(several[self._which(len(several))])

    def random(self) -> float:
        raise TypeError("numbers between 0 and 1 cannot all be gone through")

    def getrandbits(self, k: int, /) -> int:
        raise TypeError("bits are not gone through; draw by choice, sample, randrange or randint")

    def _which(self, among: int) -> int:
        if not among:
            raise IndexError("nothing to draw from")
        if self._at == len(self._chosen):
            self._chosen.append((0, among))
        which, _ = self._chosen[self._at]
        self._at += 1
        return which


def every_draw(make: Callable[[random.Random], Value]) -> Iterator[Value]:
    """Yield a function's value for each possible sequence of its draws, in a fixed order; values may repeat.

    Args:
        make: draws from the generator by `choice`, `sample`, `randrange` and `randint`, depends on nothing else, and
            ignores the order of a sample.
    """
    ways = ChoiceEnumerator()
    yield make(ways)
    while ways.go_on():
        yield make(ways)
