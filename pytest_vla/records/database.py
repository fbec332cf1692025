"""The SQLite file under `pytest_vla.records.store`: its tables, transactions, and errors with their cures."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.records.counting import key_of
from pytest_vla.records.record import parse_record
from pytest_vla.util.text import printable, quoted

if TYPE_CHECKING:
    import sqlite3


# Migration of the tables: one function for each version step, in one transaction.


def _own_simulators_tell_cases_apart(connection: "sqlite3.Connection") -> None:
    """Migrate to schema 4: simulator values of a suite's own world become part of ``episodes.case_key``."""
    rows = connection.execute(
        "SELECT episode, line FROM records WHERE CASE WHEN typeof(line) = 'text' AND json_valid(line)"
        " THEN json_extract(line, '$.provenance.world') END IS NOT NULL"
    )
    for episode, line in rows:
        try:
            key = key_of(parse_record(line)).text
        except VlaError:
            # Readers of the record get the error.
            continue
        connection.execute("UPDATE episodes SET case_key = ? WHERE id = ?", (key, episode))


STEPS: Mapping[int, Callable[["sqlite3.Connection"], None]] = {3: _own_simulators_tell_cases_apart}
"""The migrations from each readable schema to the next one."""

OLDEST = min(STEPS)


SCHEMA = 4
"""The schema of the tables, raised if a table or its values' meaning changes; the lines have `record.SCHEMA`."""

# "VLAr" in the file's header: tells our file from another program's.
_APPLICATION = 0x564C4172

# The tables of schema 3 are the same: an older file is read unchanged, and migrated when it is written.
_TABLES = (
    """CREATE TABLE runs (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, started TEXT NOT NULL, ended TEXT, status TEXT NOT NULL,
        command TEXT NOT NULL, model TEXT NOT NULL, invocation TEXT NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL,
        process TEXT, planned INTEGER NOT NULL, picked TEXT)""",
    # own: of the item's episodes in this run the one that counts; counting: the same, or one of an earlier run.
    """CREATE TABLE items (
        run TEXT NOT NULL REFERENCES runs (name), node TEXT NOT NULL, position INTEGER NOT NULL,
        episode INTEGER NOT NULL, status TEXT, own INTEGER REFERENCES episodes (id),
        counting INTEGER REFERENCES episodes (id), PRIMARY KEY (run, node)) WITHOUT ROWID""",
    """CREATE TABLE episodes (
        id INTEGER PRIMARY KEY, run TEXT NOT NULL REFERENCES runs (name), node TEXT NOT NULL, case_id TEXT NOT NULL,
        case_key TEXT NOT NULL, of_suite INTEGER NOT NULL, suite TEXT NOT NULL, task TEXT NOT NULL,
        seed INTEGER NOT NULL, attempt INTEGER NOT NULL, outcome TEXT NOT NULL, reason TEXT, steps INTEGER NOT NULL,
        wall REAL, digest TEXT NOT NULL, started TEXT NOT NULL, ended TEXT NOT NULL)""",
    # Apart from the columns, so that counting reads a tenth of the file.
    "CREATE TABLE records (episode INTEGER PRIMARY KEY REFERENCES episodes (id), line TEXT NOT NULL)",
    "CREATE INDEX runs_model ON runs (model)",
    "CREATE INDEX episodes_run ON episodes (run)",
    "CREATE INDEX episodes_case ON episodes (case_key)",
    # Which episode counts is stored with each record, by pytest_vla.records.counting; SQL does not decide it again.
    """CREATE VIEW results AS SELECT i.run, i.node, e.id, e.run AS recorded_in, e.case_id, e.case_key, e.of_suite,
        e.suite, e.task, e.seed, e.attempt, e.outcome, e.reason, e.steps, e.wall, e.digest, e.started, e.ended
        FROM items AS i JOIN episodes AS e ON e.id = i.counting""",
)

_NO_ROOM = "free space on the disk (or in the quota); records so far are kept"
_NO_RIGHTS = "make file and folder readable and writable, or use another results folder"
_NO_LOCKS = "locks do not work on this file system; use a results folder on another one"
_DAMAGED = "the file is left unchanged; move it away to start anew (`sqlite3 FILE .recover` may save its content)"

TEXT, INT, MAYBE_TEXT, MAYBE_INT, MAYBE_REAL = (str,), (int,), (str, NoneType), (int, NoneType), (float, int, NoneType)
"""What a column of a row may hold, for `checked`."""

# The ending of a journal that names another file, which SQLite would read and might delete.
_OF_SEVERAL = bytes.fromhex("d9d505f920a163d7")

# Cures by the beginning of SQLite's error name, special names before general ones.
_CURES = {
    "SQLITE_FULL": _NO_ROOM,
    "SQLITE_IOERR_WRITE": _NO_ROOM,
    "SQLITE_READONLY_DBMOVED": "it was moved or deleted while in use; leave the results folder in its place",
    "SQLITE_READONLY": _NO_RIGHTS,
    "SQLITE_CANTOPEN": _NO_RIGHTS,
    "SQLITE_PERM": _NO_RIGHTS,
    "SQLITE_IOERR_LOCK": _NO_LOCKS,
    "SQLITE_IOERR_RDLOCK": _NO_LOCKS,
    "SQLITE_IOERR_CHECKRESERVEDLOCK": _NO_LOCKS,
    "SQLITE_PROTOCOL": _NO_LOCKS,
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_NOTADB": _DAMAGED,
}


@dataclass(frozen=True)
class Database:
    """An open file with our tables.

    Attributes:
        file: the file's path.
        connection: the connection to the file.
        timeout: seconds to wait for another writing process.
    """

    file: Path
    connection: "sqlite3.Connection"
    timeout: float

    def rows(self, kinds: Sequence[tuple[type, ...]], statement: str, *parameters: Any) -> list[Any]:
        """Return rows whose columns have the given types. Raises VlaError if a column holds anything else."""
        with sqlite_errors(self.file, "read", self.timeout):
            rows = self.connection.execute(statement, parameters).fetchall()
        checked(self.file, rows, kinds)
        return rows

    @contextmanager
    def transaction(self) -> Iterator["sqlite3.Connection"]:
        """Commit everything that the block writes at its end, or nothing. Raises VlaError."""
        with sqlite_errors(self.file, "write", self.timeout), transaction(self.connection):
            yield self.connection

    def check_words(self, known: Sequence[str], found: Iterable[str]) -> None:
        """Raise VlaError if a word is not one of the known ones."""
        for word in set(found) - set(known):
            raise damaged(self.file, f"expected one of {', '.join(known)}, found {quoted(word)}")


def connect(file: Path, *, create: bool, timeout: float) -> "sqlite3.Connection | None":
    """Connect to a file with our tables, or return None if it has none and `create` is False.

    Args:
        file: the file, in a folder that exists.
        create: create file and tables if they are missing, and prepare to write: a file of an earlier version is
            migrated in one transaction. If False, the file is read unchanged.
        timeout: seconds to wait for another writing process.

    Raises:
        VlaError: the file cannot be opened, is damaged, belongs to another program, has a schema that this version
            cannot read, or has tables that differ from ours. The file is left unchanged.
    """
    import sqlite3

    if not create and not file.exists():
        return None
    _check_journal(file)
    uri = f"{file.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
    with sqlite_errors(file, "open", timeout):
        connection = sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)
        try:
            if _prepare(connection, file, create):
                return connection
        except BaseException:
            connection.close()
            raise
    connection.close()
    return None


@contextmanager
def transaction(connection: "sqlite3.Connection", kind: str = "IMMEDIATE") -> Iterator[None]:
    """Commit everything that the block writes at its end, or nothing if it raises."""
    import sqlite3

    try:
        connection.execute(f"BEGIN {kind}")
        yield
        connection.execute("COMMIT")
    except BaseException:
        # After some errors SQLite has rolled back by itself.
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise


@contextmanager
def sqlite_errors(file: Path, doing: str, timeout: float) -> Iterator[None]:
    """Raise SQLite's errors in the block as VlaError with the file's name and a cure."""
    import sqlite3

    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.Error as error:
        raise VlaError(f"cannot {doing} records: {file}: {_explain(error, timeout)}") from error
    except UnicodeDecodeError as error:
        # A name in the file, which Python's sqlite3 cannot put into its error.
        raise damaged(file, "it holds names that are no text") from error


def _prepare(connection: "sqlite3.Connection", file: Path, create: bool) -> bool:
    """Create, migrate or check the tables, and return whether the file has them."""
    connection.execute("PRAGMA foreign_keys = ON")
    # Our tables need neither; a file from elsewhere could have them where it is read.
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    # A killed process loses nothing at any setting; with EXTRA a power cut loses nothing either, for a millisecond.
    connection.execute("PRAGMA synchronous = EXTRA")
    # For a new file only. A record is 2 kB and more, of which a standard page of 4 kB often holds but one.
    connection.execute("PRAGMA page_size = 16384")
    with transaction(connection, "IMMEDIATE" if create else "DEFERRED"):
        ((application, schema, tables),) = connection.execute(
            "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)"
            " FROM pragma_application_id, pragma_user_version"
        )
        if (application, schema, tables) == (0, 0, 0):
            if not create:
                return False
            for statement in _TABLES:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
        elif application != _APPLICATION:
            raise VlaError(f"{file} is another program's database; use another results folder")
        elif not OLDEST <= schema <= SCHEMA:
            cure = "read it with the version that wrote it"
            if schema > SCHEMA:
                cure = "upgrade pytest-vla (pip install -U pytest-vla)"
            raise VlaError(
                f"{file} has schema {schema}, and this version of pytest-vla reads {OLDEST} to {SCHEMA}; {cure}, or "
                "use another results folder"
            )
        else:
            _check_tables(connection, file)
            if create and schema < SCHEMA:
                for version in range(schema, SCHEMA):
                    STEPS[version](connection)
                connection.execute(f"PRAGMA user_version = {SCHEMA}")
    if create:
        # Now it is known to be ours. A write-ahead log fails on network file systems, where results often lie.
        connection.execute("PRAGMA journal_mode = DELETE")
    return True


def _check_tables(connection: "sqlite3.Connection", file: Path) -> None:
    """Refuse tables that differ from ours: a view in a table's place may run forever, and a trigger may write.

    Further tables and views, added by people, are never read.
    """
    expected = {_words(statement).split(maxsplit=3)[2]: _words(statement) for statement in _TABLES}
    missing = dict(expected)
    for kind, name, statement in connection.execute("SELECT type, name, sql FROM sqlite_master"):
        text = _words(statement) if isinstance(statement, str) else ""
        if name in missing and text == missing[name]:
            del missing[name]
        # The statement decides, since the other columns may be forged.
        elif name in expected or (statement is not None and not text.startswith(("CREATE TABLE ", "CREATE VIEW "))):
            raise damaged(file, f"its {printable(str(kind))} {printable(str(name))} is not as pytest-vla makes it")
    if missing:
        raise damaged(file, f"it has no {', '.join(missing)}")


def _words(statement: str) -> str:
    return " ".join(statement.split())


def _check_journal(file: Path) -> None:
    """Refuse a journal of several databases, which we never write."""
    try:
        with file.with_name(f"{file.name}-journal").open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(size - len(_OF_SEVERAL), 0))
            if stream.read() != _OF_SEVERAL:
                return
    except OSError:
        return
    raise damaged(file, f"{file.name}-journal names another file")


def checked(file: Path, rows: Sequence[tuple[Any, ...]], kinds: Sequence[tuple[type, ...]]) -> None:
    """Check the types of rows' values: SQLite stores a text in a number's column.

    Raises:
        VlaError: a type is wrong; the message names the file, the expected type and the value.
    """
    for column, kind in zip(zip(*rows, strict=True), kinds, strict=False):
        for found in set(map(type, column)) - set(kind):
            expected = " or ".join("null" if each is NoneType else each.__name__ for each in kind)
            value = next(value for value in column if type(value) is found)
            raise damaged(file, f"expected {expected} in a column, found {quoted(value)}")


def damaged(file: Path, what: str) -> VlaError:
    """Return the error for a damaged file of ours."""
    return VlaError(f"cannot read records: {file}: {what}; {_DAMAGED}")


def _explain(error: "sqlite3.Error", timeout: float) -> str:
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return f"locked by another process for more than {timeout:g} s; close the program that holds it open"
    cures = [cure for beginning, cure in _CURES.items() if name.startswith(beginning)]
    return f"{error}; {cures[0]}" if cures else str(error)
