"""How a worker's pictures go over one connection: by shared memory, as they are, or squeezed, by what is faster.

A network and two processors are faster or slower than each other by what else they do: nobody can be told beforehand.
So some questions go one way and some the other, each timed until the desk has the pictures as they were.
"""

import itertools
import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

from pytest_vla.serving.squeeze import Squeezer
from pytest_vla.serving.wire import inlined

TIMED = 3
"""Questions of each way from which it is chosen."""

PAUSE = 256
"""Questions after which it is chosen again: networks get busy, and free."""

_WARM_UP = 2  # In which the squeezer finds out what to take differences to.


class Link:
    """Chooses for one connection.

    Attributes:
        is_timed: whether `took` is to be told of the question that was packed last.
        squeezes: what is chosen; None: nothing yet.
    """

    def __init__(self, squeezer: Squeezer | None) -> None:
        """`squeezer`: None: everything goes as it is."""
        self._squeezer = squeezer
        self._times: dict[bool, list[float]] = {False: [], True: []}
        self._ways = self._each()
        self._is_squeezed = self.is_timed = False
        self.squeezes: bool | None = None if squeezer else False

    def packed(self, arrays: Mapping[str, NDArray[Any]], is_first: bool) -> dict[str, list[Any]]:
        """A question's arrays as a message holds them; `is_first`: of an episode."""
        if self._squeezer is None:
            return inlined(arrays)
        self._is_squeezed, self.is_timed = next(self._ways)
        return self._squeezer.squeezed(arrays, is_first) if self._is_squeezed else inlined(arrays)

    def took(self, seconds: float) -> None:
        """From before it was packed until the desk had the arrays."""
        self._times[self._is_squeezed].append(seconds)

    def _each(self) -> Iterator[tuple[bool, bool]]:
        """For each question whether it is squeezed, and whether it is timed."""
        yield from [(True, False)] * _WARM_UP
        while True:
            for times in self._times.values():
                times.clear()
            yield from [(False, True), (True, True)] * TIMED
            raw, squeezed = (statistics.median(times) for times in self._times.values())
            self.squeezes = squeezed < raw
            yield from itertools.repeat((self.squeezes, False), PAUSE)
