"""One process at a time, where several workers would do the same slow thing."""

import contextlib
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Holds a lock on a file (made if absent, and left there) until the block ends, or the process does.

    Where files cannot be locked or made, nothing is held: the slow thing is then done more than once.
    """
    # Whoever finds the slow thing done needs no lock, and loads none.
    import filelock

    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            # Its other lock, a file that is there or not, outlives a process that was killed.
            stack.enter_context(filelock.FileLock(path, fallback_to_soft=False))
        yield
