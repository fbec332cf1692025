"""Files that workers on other machines send, put into the run's folder: the controller's side of `far_side`."""

import threading
from collections import defaultdict, deque
from pathlib import Path, PurePosixPath

from pytest_vla.errors import VlaError
from pytest_vla.records.checks import is_inside
from pytest_vla.run.handover import free_name
from pytest_vla.util.files import whole_file

_ARRAYS = ".npz"


class Incoming:
    """Takes files, part by part; may be told from any thread.

    Args:
        run: the run's folder.
    """

    def __init__(self, run: Path) -> None:
        self._run, self._lock = run, threading.Lock()
        self._parts: dict[tuple[str, str], bytearray] = {}
        # By worker and name, the names that trajectories got here whose records have not come yet.
        self._placed: defaultdict[tuple[str, str], deque[str]] = defaultdict(deque)
        self._latest: dict[tuple[str, str], str] = {}
        self._trouble = ""

    def add(self, worker: str, name: str, part: bytes, is_last: bool) -> None:
        """A part of a file has come. Where it cannot be written, `place` says so: nobody waits for this call."""
        try:
            self._add(worker, name, part, is_last)
        except (OSError, VlaError) as error:
            self._trouble = self._trouble or f"cannot write records: {error}"

    def _add(self, worker: str, name: str, part: bytes, is_last: bool) -> None:
        with self._lock:
            whole = self._parts.setdefault((worker, name), bytearray())
            whole += part
            if not is_last:
                return
            del self._parts[worker, name]
            stem = str(PurePosixPath(name).with_suffix(_ARRAYS))
            path = self._run / name
            if not is_inside(stem) or not path.resolve().is_relative_to(self._run.resolve()):
                raise OSError(f"{name!r} lies outside of the run's folder")
            path.parent.mkdir(parents=True, exist_ok=True)
            if name.endswith(_ARRAYS):
                # What an earlier attempt left that came to its end stays.
                found = free_name(self._run, stem.removesuffix(_ARRAYS))
                self._placed[worker, name].append(found)
                self._latest[worker, name] = found
            else:
                found = str(PurePosixPath(self._latest.get((worker, stem), stem)).with_suffix(path.suffix))
            with whole_file(self._run / found) as stream:
                stream.write(whole)

    def place(self, worker: str, name: str) -> str:
        """Where the trajectory lies here that a worker's record names. Raises VlaError: a file could not be written."""
        if self._trouble:
            raise VlaError(self._trouble)
        with self._lock:
            placed = self._placed.get((worker, name))
            return placed.popleft() if placed else name

    def forget(self, worker: str) -> None:
        """A worker is gone: what it had begun to send is dropped."""
        with self._lock:
            for key in [key for key in self._parts if key[0] == worker]:
                del self._parts[key]
