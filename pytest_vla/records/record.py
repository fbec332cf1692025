"""What an episode leaves behind: a record, kept by `pytest_vla.records.store`, and its trajectory, an npz file.

Everything that is reported is computed from records. A run's folder holds, by suite, the npz files with ``qpos``
(n+1, nq), ``qvel`` (n+1, nv), ``eef_pos`` (n+1, 3) in m and ``actions`` (n, 7): row 0 is the state after settling,
row i the state after control step i. Beside them is the episode's ``outcome``.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import Case
from pytest_vla.records.checks import check_record, is_inside, parse_json
from pytest_vla.util.text import printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SCHEMA = 3
"""Raised whenever a field changes its meaning or goes away."""

ASKED_DONE = "asked_done"
"""Of `Record.metrics`: 1.0 where the goal that the instruction asks for was reached, which is not the task's own."""

CLIPPED = "clipped_actions"
"""Of `Record.metrics`: executed actions with a value outside of [-1, 1], which was clipped."""

LARGEST_ACTION = "largest_action"
"""Of `Record.metrics`, where some were clipped: the largest value of these, without its sign."""

VACATED = "vacated"
"""Of `Record.metrics`: ``vacated_bowl_1_x``, ``_y`` and ``_z`` are where an object would be that was taken away, m."""

Literals = Mapping[str, tuple[tuple[int, bool], ...]]
"""Of each goal literal, the steps from which on it held or did not; see `Record.literals`."""


VIDEO_SUFFIX = ".mp4"
"""A video lies beside its trajectory: H.264, which every browser plays."""

VIDEO_EVERY = 2
"""Control steps a frame: drawing is nearly all that a video costs, and ten frames a second show what went wrong."""


@dataclass(frozen=True)
class Trajectory:
    """States and actions of an episode of n steps; see the module's page. float64."""

    qpos: "NDArray[np.float64]"
    qvel: "NDArray[np.float64]"
    eef_pos: "NDArray[np.float64]"
    actions: "NDArray[np.float64]"

    def freeze(self) -> None:
        """Let nobody write into the arrays."""
        for array in (self.qpos, self.qvel, self.eef_pos, self.actions):
            array.flags.writeable = False


@dataclass(frozen=True)
class Record:
    """One episode.

    Attributes:
        schema: `SCHEMA` of the version that wrote it.
        run: name of the run.
        case: `Case.id`.
        node: node id of the pytest item that ran it: a suite's own, or a test of the user's. Without what other
            plugins add to it to run an item several times, such as pytest-repeat's ``-1-3``.
        suite: the suite's name.
        task: the task's name.
        seed: of the case.
        variation: of the task, as `pytest_vla.scene.variation.Variation.table`; empty: the task as it is.
        attempt: 1; one more for each time that the episode was run again after an error, or because its worker or the
            policy's process died.
        worker: the process that ran it, as xdist names it (``gw0``); empty without workers.
        started: when it began, UTC, ISO 8601.
        instruction: what the policy was told.
        outcome: one of `OUTCOMES`.
        reason: why it is an error or invalid, a stable code; None for the other outcomes.
        message: the reason in words, with values.
        steps: control steps taken, settling not counted.
        success_step: the step after which the goal held; None unless the outcome is success.
        literals: for each of the goal's literals, the steps from which on it held or did not: ``((0, False),
            (57, True))``. Step 0 is after settling; up to where the episode broke, for errors.
        eef_pos: end effector at the end, metres, world frame; None where it is not known or not finite.
        costs: safety costs by name, summed over the episode.
        metrics: further measures of the episode by name.
        seeds: ``run``, ``scene``, ``init_state`` and ``init_states`` (how many there are).
        protocol: the suite's, as a table.
        replan: steps executed of each chunk, by ``--vla-replan`` or the policy itself; None: whole chunks.
        policy: the ``--vla-model`` text.
        policy_digest: names the content of what made the policy, such as its module's file; None: not known.
        provenance: versions, renderer, hash of the scene with its assets, and which assets are known stand-ins.
        timings: seconds: ``wall``, of which ``reset`` (with building the world), ``policy`` (with drawing the pictures
            that it read) and ``world`` (steps); None where the policy changed the clock to say no number.
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
    variation: Mapping[str, Any]
    attempt: int
    worker: str
    started: str
    instruction: str
    outcome: str
    reason: str | None
    message: str | None
    steps: int
    success_step: int | None
    literals: Literals
    eef_pos: tuple[float, float, float] | None
    costs: Mapping[str, float]
    metrics: Mapping[str, float]
    seeds: Mapping[str, int]
    protocol: Mapping[str, Any]
    replan: int | None
    policy: str
    policy_digest: str | None
    provenance: Mapping[str, str]
    timings: Mapping[str, float | None]
    digest: str
    arrays: str | None

    @property
    def held(self) -> dict[str, bool]:
        """Whether each literal held at the end."""
        return {literal: changes[-1][1] for literal, changes in self.literals.items()}

    @property
    def is_probe(self) -> bool:
        """Whether its variation only asks what the policy does: it is in no rate of its suite."""
        return self.variation.get("probe") is True

    @property
    def of_suite(self) -> bool:
        """Whether a suite's own item ran it, and not a test of the user's."""
        return self.node == self._case.node_id

    @property
    def parameter_id(self) -> str:
        """What stands in the brackets of a suite's own item, and names its files."""
        return self._case.parameter_id

    @property
    def twin(self) -> str:
        """The `Case.id` of the same task and seed without the variation; its own, where it has none."""
        return self._case.twin.id

    @property
    def _case(self) -> Case:
        return Case(self.suite, self.task, self.seed, str(self.variation.get("label", "")))


def digest_of(outcome: str, steps: int, literals: Literals, trajectory: Trajectory) -> str:
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
        table = parse_json(line)
    except VlaError as error:
        raise VlaError(f"not a record: {error}") from error
    if not isinstance(table, dict) or table.get("schema") != SCHEMA:
        schema = table.get("schema") if isinstance(table, dict) else None
        raise VlaError(f"not a record of schema {SCHEMA}: schema is {schema}; read it with the version that wrote it")
    names = {field.name for field in dataclasses.fields(Record)}
    if set(table) != names:
        raise VlaError(f"not a record: fields missing or unknown: {', '.join(sorted(names ^ set(table)))}")
    check_record(table)
    try:
        if table["eef_pos"] is not None:
            table["eef_pos"] = tuple(table["eef_pos"])
        table["literals"] = {
            literal: tuple((_step(step), bool(held)) for step, held in changes)
            for literal, changes in table["literals"].items()
        }
    except (TypeError, ValueError, AttributeError) as error:
        raise VlaError(f"not a record: {error}") from error
    return Record(**table)


def _step(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"a literal's step is {value!r:.60}")
    return value


def trajectory_file(folder: Path, arrays: str) -> Path:
    """Where the trajectory of a record lies.

    Args:
        folder: of its run.
        arrays: `Record.arrays`.

    Raises:
        VlaError: it would be outside of the results, by its name or by a link.
    """
    file = folder / arrays
    if not is_inside(arrays) or not file.resolve().is_relative_to(folder.resolve().parent):
        raise VlaError(f"{printable(str(file))} lies outside of the results {folder.parent}: it is not read")
    return file


def save_trajectory(file: Path, trajectory: Trajectory, outcome: str | None = None) -> None:
    """Write the npz file; a reader sees all of it or nothing.

    Args:
        file: its folder is made where it is not there.
        trajectory: what is written.
        outcome: of the episode, for `trajectory_outcome`; None: it is not written.

    Raises:
        OSError: it cannot be written.
    """
    import numpy as np

    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.stem}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            arrays: dict[str, Any] = {f.name: getattr(trajectory, f.name) for f in dataclasses.fields(trajectory)}
            if outcome is not None:
                arrays["outcome"] = np.array(outcome)
            np.savez_compressed(stream, **arrays)
        temporary.replace(file)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def trajectory_outcome(file: Path) -> str | None:
    """The outcome of the episode whose trajectory lies here; None: there is none, or the file does not say it."""
    from pytest_vla.util.arrays import Unfit, read_npz

    try:
        return str(read_npz(file, ["outcome"])["outcome"])
    except Unfit:
        return None


def load_trajectory(file: Path) -> Trajectory:
    """The trajectory of an npz file. Raises VlaError."""
    import numpy as np

    from pytest_vla.util.arrays import Unfit, read_npz

    names = [field.name for field in dataclasses.fields(Trajectory)]
    expected = f"{file}: expected an npz file with {', '.join(names)}"
    try:
        arrays = read_npz(file, names)
    except Unfit as error:
        raise VlaError(f"{expected}: {error}") from error
    for name, array in arrays.items():
        if array.ndim != 2 or array.dtype.kind not in "fiu":
            raise VlaError(f"{expected}: {name} is {array.dtype} {array.shape}, expected a table of numbers")
    return Trajectory(**{name: np.asarray(array, dtype=np.float64) for name, array in arrays.items()})
