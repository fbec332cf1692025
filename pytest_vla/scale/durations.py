"""Measured durations in a file of their own, by which all shards of a selection are shared out alike.

A store changes while shards run, and no two machines have the same: by its durations each would share out otherwise,
and episodes would be lost or run twice. What is in a file stays, and its digest is kept with each shard's run.
"""

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.records.checks import parse_json
from pytest_vla.util.files import whole_file

_KIND = "pytest_vla_durations"
_SCHEMA = 1
_LARGEST = 1 << 28

Row = tuple[str, str, int, float]
"""Suite, `Case.task_key`, seed and mean seconds of an episode."""


@dataclass(frozen=True)
class Durations:
    """How long episodes took, each case once, in the order of cases."""

    rows: tuple[Row, ...]

    @property
    def digest(self) -> str:
        """sha256 (hex), whatever the file's layout."""
        return hashlib.sha256(json.dumps(self.rows, separators=(",", ":")).encode()).hexdigest()


def mean_durations(measured: Iterable[Row]) -> Durations:
    """Of each case the mean, rounded to milliseconds. What is no time (negative, not finite) is left out."""
    by_case: defaultdict[tuple[str, str, int], list[float]] = defaultdict(list)
    for suite, task, seed, seconds in measured:
        if 0 <= seconds < math.inf:
            by_case[suite, task, seed].append(seconds)
    means = {case: round(math.fsum(times) / len(times), 3) for case, times in by_case.items()}
    return Durations(tuple((*case, means[case]) for case in sorted(means)))


def write_durations(file: Path, durations: Durations, policy: str) -> None:
    """Write them whole or not at all, a line a case. Raises VlaError."""
    lines = ",\n".join(f"  {json.dumps(row)}" for row in durations.rows)
    text = f'{{"{_KIND}": {_SCHEMA}, "policy": {json.dumps(policy)}, "episodes": [\n{lines}\n]}}\n'
    with whole_file(file) as stream:
        stream.write(text.encode())


def read_durations(file: Path) -> Durations:
    """What `write_durations` wrote. Raises VlaError that names the file and says how to make one."""
    try:
        if file.stat().st_size > _LARGEST:
            raise VlaError(f"it is larger than {_LARGEST >> 20} MiB")
        table = parse_json(file.read_bytes())
        if not isinstance(table, dict) or table.get(_KIND) != _SCHEMA or not isinstance(table.get("episodes"), list):
            raise VlaError(f'expected a table with "{_KIND}": {_SCHEMA} and "episodes"')
        return mean_durations(_row(number, each) for number, each in enumerate(table["episodes"], 1))
    except OSError as error:
        raise VlaError(f"{file}: {error.strerror or error}; {_CURE}") from error
    except (VlaError, UnicodeDecodeError) as error:
        raise VlaError(f"{file} is no file of durations: {error}; {_CURE}") from error


_CURE = "`pytest-vla durations --model=POLICY -o FILE` writes one from the runs of a results folder"


def _row(number: int, row: object) -> Row:
    if isinstance(row, list) and len(row) == 4:
        suite, task, seed, seconds = row
        fits = isinstance(suite, str) and isinstance(task, str) and type(seed) is int
        if fits and type(seconds) in (int, float) and 0 <= seconds < math.inf:
            return suite, task, seed, float(seconds)
    raise VlaError(f"episode {number} of it: expected [suite, task, seed, seconds], 0 or more")
