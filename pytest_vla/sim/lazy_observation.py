"""The observation after a reset or a step: pictures are rendered when they are read, at most once."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy.typing as npt

from pytest_vla.errors import VlaError

Reader = Callable[[], npt.NDArray[Any]]


class Observation(Mapping[str, npt.NDArray[Any]]):
    """Named arrays, each made at its first reading and kept.

    A value can be made only while the world is still in the observed state: read it before the next step.
    """

    def __init__(self, readers: Mapping[str, Reader], is_current: Callable[[], bool], moment: str) -> None:
        self._readers, self._is_current, self._moment = readers, is_current, moment
        self._values: dict[str, npt.NDArray[Any]] = {}

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        if name in self._values:
            return self._values[name]
        reader = self._readers[name]
        if not self._is_current():
            raise VlaError(f"{name!r} of {self._moment} was not read before the world moved on: read it earlier")
        value = self._values[name] = reader()
        return value

    def __contains__(self, name: object) -> bool:
        # Mapping's own method reads the value, which would draw a picture.
        return name in self._readers

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)

    def __repr__(self) -> str:
        return f"<observation of {self._moment}: {', '.join(self._readers)}>"
