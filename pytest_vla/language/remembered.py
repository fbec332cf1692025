"""What was worked out about words and texts, kept on disk: in ``language-1.sqlite3`` of the cache folder.

Without a place to write, with a damaged file, or where files cannot be locked, everything is worked out anew.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pytest_vla.errors import VlaError
from pytest_vla.util.folders import cache_folder

if TYPE_CHECKING:
    import sqlite3

FILE = "language-1.sqlite3"

Value = TypeVar("Value")

_TIMEOUT_SECONDS = 10.0
_TABLE = "CREATE TABLE IF NOT EXISTS known (space TEXT, key TEXT, value BLOB, PRIMARY KEY (space, key)) WITHOUT ROWID"


def remembered(
    space: str,
    keys: Iterable[str],
    make: Callable[[list[str]], Sequence[Value]],
    encode: Callable[[Value], bytes],
    decode: Callable[[bytes], Value],
) -> dict[str, Value]:
    """The value of every key, from disk or made now and kept. Safe with several processes.

    Args:
        space: what the values depend on beside the key, such as a model's digest.
        keys: in any order, some twice.
        make: the values of some keys, sorted; called at most once.
        encode: a value as bytes.
        decode: back; raises ValueError for bytes that are no value, which is then made anew.
    """
    wanted = sorted(set(keys))
    found: dict[str, Value] = {}
    if not wanted:
        return found
    for key, value in _read(space, wanted).items():
        with suppress(ValueError):
            found[key] = decode(value)
    if missing := [key for key in wanted if key not in found]:
        made = dict(zip(missing, make(missing), strict=True))
        _write(space, {key: encode(value) for key, value in made.items()})
        found |= made
    return found


def _read(space: str, keys: Sequence[str]) -> dict[str, bytes]:
    import sqlite3

    try:
        file = cache_folder() / FILE
        if not file.is_file():
            return {}
        with closing(_connect(file)) as connection:
            if len(keys) > 500:
                rows = connection.execute("SELECT key, value FROM known WHERE space = ?", (space,)).fetchall()
            else:
                marks = ",".join("?" * len(keys))
                rows = connection.execute(
                    f"SELECT key, value FROM known WHERE space = ? AND key IN ({marks})", (space, *keys)
                ).fetchall()
    except (VlaError, OSError, sqlite3.Error) as error:
        _forget_if_damaged(error)
        return {}
    wanted = set(keys)
    return {key: value for key, value in rows if key in wanted and isinstance(value, bytes)}


def _write(space: str, values: dict[str, bytes]) -> None:
    import sqlite3

    try:
        file = cache_folder() / FILE
        file.parent.mkdir(parents=True, exist_ok=True)
        with closing(_connect(file)) as connection, connection:
            connection.execute(_TABLE)
            connection.executemany(
                "INSERT OR REPLACE INTO known VALUES (?, ?, ?)", ((space, key, value) for key, value in values.items())
            )
    except (VlaError, OSError, sqlite3.Error) as error:
        _forget_if_damaged(error)


def _connect(file: Path) -> "sqlite3.Connection":
    import sqlite3

    return sqlite3.connect(file, timeout=_TIMEOUT_SECONDS)


def _forget_if_damaged(error: Exception) -> None:
    """Removes a file that SQLite calls damaged; it holds nothing that cannot be made again."""
    if getattr(error, "sqlite_errorname", "") in ("SQLITE_CORRUPT", "SQLITE_NOTADB"):
        with suppress(OSError, VlaError):
            (cache_folder() / FILE).unlink()
