"""Memory that the desk fills and the policy reads: the arrays of a batch, each name's as one array of all questions."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from numpy.typing import NDArray

from pytest_vla.serving.wire import SharedPictures, allocate, inlined

_ALIGNMENT = 4096

_Layout = tuple[tuple[str, str, tuple[int, ...]], ...]


class Arena:
    """Room for the arrays of one batch. They are written as questions come, so that a batch that goes is ready.

    Attributes:
        number: by which both sides know it.
        unsent: the open file of memory that the policy's process has not got yet; None: it has it, or there is none.
    """

    def __init__(self, number: int) -> None:
        """Empty; memory is taken when it is known of what size."""
        self.number, self._most = number, 1
        self.unsent: int | None = None
        self._memory: SharedPictures | None = None
        self._layout: _Layout | None = None
        self._stacks: dict[str, NDArray[Any]] = {}
        self._places: dict[str, list[Any]] = {}
        self._used = 0

    def clear(self, most: int) -> None:
        """The next question that is put is a batch's first, of so many at most."""
        self._used = 0
        if most > self._most:
            self._most, self._layout = most, None

    def put(self, arrays: Mapping[str, NDArray[Any]]) -> int | None:
        """Copies a question's arrays behind those of the question before.

        Returns:
            The question's place in the batch; None: there is none for it, since the batch is full, the arrays have
            other shapes than the batch's first, or no memory is to be had.
        """
        layout = tuple((name, array.dtype.str, array.shape) for name, array in arrays.items())
        if not self._used and layout != self._layout:
            self._lay_out(layout, arrays)
        if layout != self._layout or self._used >= self._most:
            return None
        for name, array in arrays.items():
            self._stacks[name][self._used] = array
        self._used += 1
        return self._used - 1

    def stacked(self, count: int) -> dict[str, Any]:
        """For the policy's process: where the first so many questions' arrays are, all of each name as one."""
        places = {name: [offset, kind, [count, *shape]] for name, (offset, kind, shape) in self._places.items()}
        return {"memory": self.number, "stacked": places}

    def apart(self, questions: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, Any]:
        """Likewise of questions whose arrays differ in shape; by message where no memory is to be had."""
        self._used, self._layout = 0, None
        needed = sum(_rounded(array.nbytes) for arrays in questions for array in arrays.values())
        if not self._has_room(needed):
            return {"memory": self.number, "inline": [inlined(arrays) for arrays in questions]}
        assert self._memory is not None
        offset, places = 0, []
        for arrays in questions:
            places.append(self._memory.write(arrays, offset))
            offset += sum(_rounded(array.nbytes) for array in arrays.values())
        return {"memory": self.number, "apart": places}

    def forget(self) -> None:
        """The memory is somebody else's from now on; the next batch gets other memory."""
        self.sent()
        self._stacks, self._layout = {}, None
        if self._memory is not None:
            self._memory.close()
        self._memory = None

    def sent(self) -> None:
        """The policy's process has the memory."""
        if self.unsent is not None:
            os.close(self.unsent)
        self.unsent = None

    def _lay_out(self, layout: _Layout, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._layout = None
        if not self._has_room(sum(_rounded(self._most * array.nbytes) for array in arrays.values())):
            return
        assert self._memory is not None
        offset, self._places = 0, {}
        for name, kind, shape in layout:
            self._places[name] = [offset, kind, list(shape)]
            offset += _rounded(self._most * arrays[name].nbytes)
        whole = {name: [at, kind, [self._most, *shape]] for name, (at, kind, shape) in self._places.items()}
        self._stacks, self._layout = self._memory.read(whole), layout

    def _has_room(self, size: int) -> bool:
        if self._memory is None or self._memory.size < size:
            with suppress(OSError):
                descriptor = allocate(max(size, _ALIGNMENT))
                self._stacks = {}
                if self._memory is not None:
                    self._memory.close()
                self.sent()
                self._memory, self.unsent = SharedPictures(os.dup(descriptor)), descriptor
        return self._memory is not None and self._memory.size >= size


def _rounded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
