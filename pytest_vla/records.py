"""What an episode leaves behind: a record (one JSON line) and its trajectory (an npz file beside it).

Everything that is reported is computed from records. A run's folder holds ``episodes.jsonl`` and, by suite, the npz
files with ``qpos`` (n+1, nq), ``qvel`` (n+1, nv), ``eef_pos`` (n+1, 3) in m and ``actions`` (n, 7): row 0 is the state
after settling, row i the state after control step i.
"""

import contextlib
import dataclasses
import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.plan import Case

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SCHEMA = 1
"""Raised whenever a field changes its meaning or goes away."""

EPISODES = "episodes.jsonl"
OUTCOMES = ("success", "failure", "error", "invalid")


@dataclass(frozen=True)
class Trajectory:
    """States and actions of an episode of n steps; see the module's page. float64."""

    qpos: "NDArray[np.float64]"
    qvel: "NDArray[np.float64]"
    eef_pos: "NDArray[np.float64]"
    actions: "NDArray[np.float64]"


@dataclass(frozen=True)
class Record:
    """One episode.

    Attributes:
        schema: `SCHEMA` of the version that wrote it.
        run: name of the run.
        case: `Case.id`.
        node: node id of the pytest item that ran it: a suite's own, or a test of the user's.
        suite: the suite's name.
        task: the task's name.
        seed: of the case.
        instruction: what the policy was told.
        outcome: one of `OUTCOMES`.
        reason: why it is an error or invalid, a stable code; None for the other outcomes.
        message: the reason in words, with values.
        steps: control steps taken, settling not counted.
        success_step: the step after which the goal held; None unless the outcome is success.
        literals: the goal's literals, and whether each held at the end; empty for errors.
        eef_pos: end effector at the end, metres, world frame; None where it is not known or not finite.
        seeds: ``run``, ``scene``, ``init_state`` and ``init_states`` (how many there are).
        protocol: the suite's, as a table.
        replan: ``--vla-replan``; None: whole chunks.
        policy: the ``--vla-model`` text.
        provenance: versions, renderer, hash of the scene.
        timings: seconds: ``wall``, of which ``reset`` (with building the world), ``policy`` (with drawing the pictures
            that it read) and ``world`` (steps).
        digest: sha256 over outcome, steps, literals and trajectory; equal for equal episodes.
        arrays: the trajectory's npz file, relative to the run's folder; None where there is none.
    """

    schema: int
    run: str
    case: str
    node: str
    suite: str
    task: str
    seed: int
    instruction: str
    outcome: str
    reason: str | None
    message: str | None
    steps: int
    success_step: int | None
    literals: Mapping[str, bool]
    eef_pos: tuple[float, float, float] | None
    seeds: Mapping[str, int]
    protocol: Mapping[str, Any]
    replan: int | None
    policy: str
    provenance: Mapping[str, str]
    timings: Mapping[str, float]
    digest: str
    arrays: str | None

    @property
    def of_suite(self) -> bool:
        """Whether a suite's own item ran it, and not a test of the user's."""
        return self.node == Case(self.suite, self.task, self.seed).node_id


def digest_of(outcome: str, steps: int, literals: Mapping[str, bool], trajectory: Trajectory) -> str:
    """sha256 (hex) over what an episode did. Bitwise: one rounding apart is another digest."""
    import numpy as np

    digest = hashlib.sha256(json.dumps([outcome, steps, sorted(literals.items())]).encode())
    for name in ("qpos", "qvel", "actions"):
        array = np.ascontiguousarray(getattr(trajectory, name), dtype="<f8")
        digest.update(f"{name}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def record_line(record: Record) -> str:
    """The record as one line of JSON, without the line's end."""
    return json.dumps(dataclasses.asdict(record), allow_nan=False, separators=(",", ":"))


def parse_record(line: str | bytes) -> Record:
    """The record of a line. Raises VlaError where it is none, or of another schema."""
    try:
        table = json.loads(line)
    except ValueError as error:
        raise VlaError(f"not a record: {error}") from error
    if not isinstance(table, dict) or table.get("schema") != SCHEMA:
        schema = table.get("schema") if isinstance(table, dict) else None
        raise VlaError(f"not a record of schema {SCHEMA}: schema is {schema}; read it with the version that wrote it")
    names = {field.name for field in dataclasses.fields(Record)}
    if set(table) != names:
        raise VlaError(f"not a record: fields missing or unknown: {', '.join(sorted(names ^ set(table)))}")
    if table["eef_pos"] is not None:
        table["eef_pos"] = tuple(table["eef_pos"])
    return Record(**table)


def read_records(path: str | os.PathLike[str]) -> tuple[Record, ...]:
    """All records of a run, in the order in which the episodes ended.

    Args:
        path: ``episodes.jsonl``, or the run's folder.

    Raises:
        VlaError: the file cannot be read, or a line is no record. A last line without its end (the run was killed
            while it was written) is left out.
    """
    file = Path(path)
    file = file / EPISODES if file.is_dir() else file
    try:
        lines = file.read_bytes().split(b"\n")
    except OSError as error:
        raise VlaError(f"{file}: cannot be read: {error}") from error
    return tuple(_parse_lines(file, lines[:-1]))


def make_run_folder(folder: Path) -> None:
    """Make the folder of a run; a new folder of runs is kept out of git, as pytest's cache is. Raises OSError."""
    results = folder.parent
    if not results.exists():
        results.mkdir(parents=True, exist_ok=True)
        (results / ".gitignore").write_text("*\n")
    folder.mkdir(exist_ok=True)


def append_line(file: Path, line: str) -> None:
    """Append a line, whole or not at all. Raises OSError."""
    data = f"{line}\n".encode()
    with file.open("ab", buffering=0) as stream:
        start = stream.seek(0, os.SEEK_END)
        written = stream.write(data)
        if written != len(data):
            stream.truncate(start)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))


def save_trajectory(file: Path, trajectory: Trajectory) -> None:
    """Write the npz file; a reader sees all of it or nothing. Raises OSError."""
    import numpy as np

    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.stem}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            np.savez_compressed(stream, **{f.name: getattr(trajectory, f.name) for f in dataclasses.fields(trajectory)})
        temporary.replace(file)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _parse_lines(file: Path, lines: list[bytes]) -> Iterator[Record]:
    for number, line in enumerate(lines, 1):
        try:
            yield parse_record(line)
        except VlaError as error:
            raise VlaError(f"{file}:{number}: {error}") from error
