"""One process at a time, where several workers would do the same slow thing."""

import contextlib
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Holds a lock on a file (made if absent) until the block ends, or the process does.

    Where files cannot be locked or made, nothing is held: the slow thing is then done more than once.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            path.parent.mkdir(parents=True, exist_ok=True)
            # Closing the file releases the lock.
            fcntl.flock(stack.enter_context(path.open("a")), fcntl.LOCK_EX)
        yield
