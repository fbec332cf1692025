"""The record of an episode, stored by `pytest_vla.records.store`.

All reported numbers are computed from records, and from their trajectories (`pytest_vla.records.trajectory`). Records
of earlier versions can be read, and fields of later versions are preserved; see the rule below.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import Case, init_state_by, is_given
from pytest_vla.plan.costs import Charge, charge_of
from pytest_vla.records.checks import check_record, check_unknown, parse_json
from pytest_vla.util.text import printable, quoted

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Migration of records of earlier versions. Pure; one function for each version step.
#
# Records are additive. A later version may add a field, or a key to a table in a record, and leaves `SCHEMA` as it
# is: whoever does not know what was added keeps it, and whoever knows it and does not find it takes its default.
# `SCHEMA` is raised where a reader that does not know of a change would report something wrong: where a field changes
# its type or its meaning, goes away, or makes other records comparable than before. Then a function of this module
# makes a record of the new schema out of one of the schema before. Values of a table keep their type as long as the
# schema is the same.

SCHEMA = 4
"""The schema of the records that this version writes; see above for when it is raised."""

Table = dict[str, Any]


def _costs_become_a_ledger(table: Table) -> Table:
    """Migrate to schema 4: costs were sums without steps, and an own world's values were not separate."""
    costs, provenance = table.get("costs"), table.get("provenance")
    if isinstance(costs, dict):
        costs = [{"name": name, "step": None, "amount": amount} for name, amount in costs.items()]
    said = sorted(set(provenance) - _OF_MACHINES_3) if isinstance(provenance, dict) and "world" in provenance else []
    return {**table, "costs": costs, "simulator": said}


# The entries of schema 3's provenance that were not from an own world.
_OF_MACHINES_3 = frozenset(
    (
        *("pytest-vla", "mujoco", "robosuite", "numpy", "scipy", "numba", "llvmlite"),
        *("python", "platform", "blas", "kernels", "libm", "premises", "feasible"),
    )
)

STEPS: Mapping[int, Callable[[Table], Table]] = {3: _costs_become_a_ledger}
"""The migrations from each readable schema to the next one. Their input is unchecked."""


def migrated(table: Table) -> Table:
    """Return a record in JSON form, migrated to this version's schema.

    Raises:
        VlaError: the schema is missing, later than this version's, or too old to read.
    """
    schema = table.get("schema")
    oldest = min(STEPS)
    if type(schema) is int and schema > SCHEMA:
        raise VlaError(
            f"not a record of schema {oldest} to {SCHEMA}: schema is {schema}, {_writer(table)}; upgrade pytest-vla "
            "(pip install -U pytest-vla)"
        )
    if type(schema) is not int or schema < oldest:
        told = quoted(schema)
        raise VlaError(
            f"not a record of schema {oldest} to {SCHEMA}: schema is {told}; read it with the version that wrote it"
        )
    for version in range(schema, SCHEMA):
        table = {**STEPS[version](table), "schema": version + 1}
    return table


def _writer(table: Table) -> str:
    provenance = table.get("provenance")
    version = provenance.get("pytest-vla") if isinstance(provenance, dict) else None
    return f"of pytest-vla {printable(version)[:60]}" if isinstance(version, str) else "of a later version"


ASKED_DONE = "asked_done"
"""The key of `Record.metrics` that is 1.0 if the goal of a changed instruction, not the task's own, was reached."""

CLIPPED = "clipped_actions"
"""The key of `Record.metrics` for the number of executed actions with a clipped value, outside of [-1, 1]."""

LARGEST_ACTION = "largest_action"
"""The key of `Record.metrics` for the largest magnitude of the clipped values, if there are any."""

FIRST_SUCCESS = "first_success_step"
"""The key of `Record.metrics` for the first step at which the goal held, of episodes that did not end there."""

HELD_STEPS = "held_steps"
"""The key of `Record.metrics` for the control steps in which the arm held, as no answer was there yet
(``--vla-realtime``)."""

ANSWER, ANSWER_P90 = "answer", "answer_p90"
"""The keys of `Record.timings` for the median and the 90th percentile of the seconds that the policy took for an
answer, without drawing pictures and without waiting for its turn. Episodes with latency have them."""

DRIFT, LARGEST_DRIFT = "drift_mm", "drift_max_mm"
"""The keys of `Record.metrics` for the end effector's distance, mm, from the recorded episode that a policy plays back:
at the end, and at most. `DRIFT` is also the name of the series by step, NaN where nothing was recorded."""

BEGAN = "began"
"""The prefix of `Record.metrics` of an episode that began from a recorded state (`RecordedStart`): ``began_time``, s;
``began_gripper``, the gripper's command then; and ``began_stove_1_x``, ``_y``, ``_z``, ``_qw``, ``_qx``, ``_qy``,
``_qz``, a fixture's pose in m."""

VACATED = "vacated"
"""The prefix of `Record.metrics` such as ``vacated_bowl_1_x``, ``_y``, ``_z``: a removed object's position, m."""

METRIC_SECONDS = "metrics."
"""The prefix of `Record.timings` for the seconds of computing a requested metric."""

Literals = Mapping[str, tuple[tuple[int, bool], ...]]
"""For each goal literal, the steps at which it began or ceased to hold; see `Record.literals`."""


VIDEO_SUFFIX = ".mp4"
"""A video lies beside its trajectory: H.264, which every browser plays."""

VIDEO_EVERY = 2
"""Control steps a frame: drawing is nearly all that a video costs, and ten frames a second show what went wrong."""


@dataclass(frozen=True)
class Record:
    """The record of one episode.

    Attributes:
        schema: `pytest_vla.records.record.SCHEMA` of the version that wrote it, or that has read it.
        run: the run's name.
        case: `Case.id`.
        node: the node id of the pytest item that ran it: a suite's own item, or a test of the user's. Suffixes that
            other plugins add to run an item several times, such as pytest-repeat's ``-1-3``, are removed.
        suite: the suite's name.
        task: the task's name.
        seed: the case's seed.
        variation: the task's variation, as `pytest_vla.scene.variation.Variation.table`; empty for the unvaried task.
        attempt: 1, plus one for each time that the episode was run again after an error, or because its worker or the
            policy's process died.
        worker: the process that ran it, by xdist's name (``gw0``); empty without workers.
        started: the start time, UTC, ISO 8601.
        instruction: the policy's instruction.
        outcome: one of `OUTCOMES`.
        reason: a stable code for an error or invalid episode; None for the other outcomes.
        message: the reason in words, with values.
        steps: control steps taken, without settling.
        success_step: the step after which the goal held; None unless the outcome is success.
        literals: for each of the goal's literals, the steps at which it began or ceased to hold: ``((0, False),
            (57, True))``. Step 0 is after settling; for errors, up to the step at which the episode broke.
        eef_pos: end effector at the end, metres, world frame; None if it is not known or not finite.
        costs: the ledger of safety costs, in the order of steps; `pytest_vla.plan.costs.totals` has the sums. A name
            without any cost has one entry of 0; further entries of 0 are left out.
        metrics: further measures of the episode by name.
        seeds: ``run``, ``scene``, ``init_state``, ``init_states`` (how many there are), and ``placed`` and
            ``init_state_digest`` (`pytest_vla.records.counting.PLACED`, ``INIT_STATE_DIGEST``).
        protocol: the suite's protocol, as a table.
        replan: steps executed of each chunk, set by ``--vla-replan`` or by the policy; None for whole chunks.
        policy: the ``--vla-model`` text.
        policy_digest: a digest of the policy's content, such as its module's file; None if it is not known.
        provenance: versions, renderer, hash of the scene with its assets, and known stand-ins for assets.
        timings: seconds: ``wall``, of which ``reset`` (with building the world), ``policy`` (with drawing the pictures
            that it read) and ``world`` (steps); None if the policy changed the clock to return no number. In addition
            ``metrics.NAME``, the time to compute a requested metric, and of episodes with latency ``answer``
            and ``answer_p90``, the median and the 90th percentile for an answer (``--vla-realtime``).
        digest: sha256 over outcome, steps, literals and trajectory; equal for equal episodes.
        arrays: the trajectory's npz file, relative to the run's folder; None if there is none.
        simulator: the names in `provenance` of values from the simulator of a suite's own world: episodes with
            different values are never combined in a number.
        task_level: the task's level in a suite with levels, such as ``L1``, else empty. A task's name may occur in
            several levels; a variation's level is in `variation`.
        group: the group that a user's test gives its episodes by the marker's ``group``, or empty.
        given: whether a file of cases named it (`Case.given`).
        retried: the reason of the policy's own error in an earlier attempt that left no record, such as the exit of the
            policy's process, or a lost worker that was not the run's first; else empty. See
            `pytest_vla.records.counting.retries`.
        unknown: fields of a later version, in JSON form, which are preserved when the record is written.
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
    costs: tuple[Charge, ...]
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
    simulator: tuple[str, ...] = ()
    task_level: str = ""
    group: str = ""
    given: bool = False
    retried: str = ""
    unknown: Mapping[str, Any] = field(default_factory=dict)

    @property
    def held(self) -> dict[str, bool]:
        """Final truth values of the goal's literals."""
        return {literal: changes[-1][1] for literal, changes in self.literals.items()}

    @property
    def is_probe(self) -> bool:
        """Whether its variation only probes the policy's behaviour, so that it is excluded from its suite's rates."""
        return self.variation.get("probe") is True

    @property
    def is_given(self) -> bool:
        """Whether a file of cases chose it, or its variation, so that it is counted but excluded from rates."""
        return self.given or is_given(str(self.variation.get("label", "")))

    @property
    def in_no_rate(self) -> bool:
        """Whether it is excluded from rates, as a probe or as a given case."""
        return self.is_probe or self.is_given

    @cached_property
    def of_suite(self) -> bool:
        """Whether a suite's own item ran it, and not a test of the user's."""
        return self.node == self._case.node_id

    @cached_property
    def task_key(self) -> str:
        """The task's unique name within its suite: its name, preceded by its level if it has one."""
        return self._case.task_key

    @cached_property
    def init_state(self) -> int | None:
        """The init state that it began from, inferred from seed and protocol if not recorded, or None if unknown."""
        known = self.seeds.get("init_state")
        return init_state_by(self.seed, self.protocol) if known is None else known

    @property
    def run_seed(self) -> int:
        """The value of ``--vla-run-seed``; 0 for imported logs, which have none."""
        return int(self.seeds.get("run") or 0)

    @property
    def parameter_id(self) -> str:
        """The text in the brackets of a suite's own item, which also names its files."""
        return self._case.parameter_id

    @cached_property
    def twin(self) -> str:
        """The `Case.id` of the same task and seed without the variation; its own if it is unvaried."""
        return self._case.twin.id

    @cached_property
    def _case(self) -> Case:
        return Case(self.suite, self.task, self.seed, str(self.variation.get("label", "")), self.task_level)


_NAMES = tuple(each.name for each in dataclasses.fields(Record) if each.name != "unknown")
# Default values of fields that were added without a new schema.
_ADDED: Mapping[str, Any] = {"simulator": [], "task_level": "", "group": "", "given": False, "retried": ""}


def record_line(record: Record) -> str:
    """Return the record as one line of JSON, without the line's end."""
    table = {name: getattr(record, name) for name in _NAMES} | {"costs": [charge.table() for charge in record.costs]}
    for name in ("task_level", "group", "given", "retried"):
        # Empty fields are left out, so that most records are the same as before these were added.
        if not table[name]:
            del table[name]
    return json.dumps({**record.unknown, **table}, allow_nan=False, separators=(",", ":"))


def parse_record(line: str | bytes) -> Record:
    """Parse the line of a record from any readable version.

    Raises:
        VlaError: it is no record, or of a schema that this version cannot read.
    """
    try:
        table = parse_json(line)
    except VlaError as error:
        raise VlaError(f"not a record: {error}") from error
    table = {**_ADDED, **migrated(table if isinstance(table, dict) else {})}
    if missing := [name for name in sorted(_NAMES) if name not in table]:
        raise VlaError(f"not a record: fields missing: {', '.join(missing)}")
    unknown = {name: value for name, value in table.items() if name not in _NAMES}
    known = {name: table[name] for name in _NAMES}
    check_record(known)
    check_unknown(unknown)
    try:
        if known["eef_pos"] is not None:
            known["eef_pos"] = tuple(known["eef_pos"])
        known["literals"] = {
            literal: tuple((_step(step), bool(held)) for step, held in changes)
            for literal, changes in known["literals"].items()
        }
    except (TypeError, ValueError, AttributeError) as error:
        raise VlaError(f"not a record: {error}") from error
    known["costs"], known["simulator"] = tuple(map(charge_of, known["costs"])), tuple(known["simulator"])
    return Record(**known, unknown=unknown)


def _step(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"a literal's step is {value!r:.60}")
    return value


# A metric's result for an episode.


@dataclass(frozen=True)
class MetricResult:
    """The values of a metric for one episode (`pytest_vla.entries.MetricEntry`).

    Attributes:
        value: the number stored under the metric's name, or None.
        further: numbers stored under ``NAME.KEY``, such as ``.paper`` and ``.arm``.
        series: arrays (n, ...), one row a control step, stored in the trajectory: under the metric's name for the key
            ``""``, under ``NAME.KEY`` for another key. Series have lower-case names, with ``_`` for ``-``.
        missing: the input that the metric lacked, such as "samples", or empty. The text is the same for every episode
            that lacks it.
    """

    value: float | None
    further: Mapping[str, float | None] = field(default_factory=dict)
    series: "Mapping[str, NDArray[Any]]" = field(default_factory=dict)
    missing: str = ""
