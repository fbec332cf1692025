"""The trial of a candidate: it fails if the policy fails, the benign twin succeeds, and the expert does the task."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from pytest_vla.episode.apply_metrics import with_metrics
from pytest_vla.episode.result import Rollout
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.episode.start import OpenWorld
from pytest_vla.errors import VlaError
from pytest_vla.expert.policy import expert_policy
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.shrink import Outcome
from pytest_vla.plan.choices import RELATIVE
from pytest_vla.plan.task import Task, with_protocol
from pytest_vla.policies.base import Policy
from pytest_vla.records.record import Record
from pytest_vla.vary.chosen import remembering
from pytest_vla.vary.registry import find_variation

_INSTABILITY = "action_velocity_instability"


@dataclass(frozen=True)
class Trial:
    """The result of a candidate.

    Attributes:
        outcome: ``fails`` only if the task can be done: the expert does it in the same scene, or only pictures or the
            instruction are changed, and the benign twin shows it.
        why: in words.
        record: of the policy's episode, or None if there was none.
        signals: how near the policy's episode was to failing, by name: ``steps`` (to success, as a share of the
            budget), ``cost`` (its headline), ``instability`` (of its actions); those that cannot be measured are left
            out.
        again: for a benign twin, under further run seeds, the number of failures and of conclusive trials.
        draws: for a benign twin, whether the policy behaved differently under another run seed.
    """

    outcome: Outcome
    why: str
    record: Record | None = None
    signals: Mapping[str, float] = field(default_factory=dict)
    again: tuple[int, int] = (0, 0)
    draws: bool = False


@dataclass(frozen=True)
class Property:
    """The requirement on a policy in scenes where the task can be done.

    Attributes:
        max_cost: the most that a success may cost, or None for any cost.
        errors: whether an episode that the policy breaks is a failure too, and not set aside.
    """

    max_cost: float | None = None
    errors: bool = False

    def costs_too_much(self, ended: Rollout) -> str:
        """Return why a success is a failure all the same, or an empty text if it is none."""
        if self.max_cost is None or not ended.costs or ended.cost() <= self.max_cost:
            return ""
        return f"it costs {ended.cost():g}, more than {self.max_cost:g}"


SUCCESS = Property()


@dataclass
class Trials:
    """The trials of candidates in this process, one episode after the other; nothing of them is stored.

    Args:
        policy: of the model that is searched.
        open_world: opens a world, as for `run_episode`.
        conditions: of the policy's episodes.
        watch: called with the record of each episode that ran, the expert's too.
        solver: shows that a changed scene can still be done; by default the expert.
        wanted: the requirement on the policy, and on the solver.
    """

    policy: Policy
    open_world: OpenWorld
    conditions: Conditions
    watch: Callable[[Record], None] = lambda record: None
    solver: Policy | None = None
    wanted: Property = SUCCESS
    episodes: int = 0

    def __call__(self, candidate: Candidate, run_seed: int | None = None) -> Trial:
        """Try a candidate; under another run seed the policy draws other noise."""
        with remembering(candidate.changes):
            return self._tried(candidate, run_seed)

    def _tried(self, candidate: Candidate, run_seed: int | None) -> Trial:
        case = candidate.case
        try:
            variation = find_variation(candidate.task, case.variation, case.seed)
        except VlaError as error:
            return Trial("aside", str(error))
        conditions = self.conditions if run_seed is None else replace(self.conditions, run_seed=run_seed)
        ended = run_episode(case, candidate.task, self.policy, self.open_world, conditions, variation=variation)
        record = self._noted(ended.record)
        too_much = self.wanted.costs_too_much(ended)
        if record.outcome == "success" and not too_much:
            return Trial("passes", "the policy succeeds", record, signals_of(ended))
        broke = record.outcome == "error" and str(record.reason).startswith("policy-")
        if record.outcome not in ("success", "failure") and not (broke and self.wanted.errors):
            return Trial("aside", f"{record.reason}: {record.message}", record)
        does = too_much or ("the policy breaks" if broke else "the policy fails")
        if variation is None:
            return Trial("fails", does, record)
        # What is seen does not change what a solver costs; the benign twin showed that it can be done for less.
        if not (variation.changes_scene or variation.changes_control):
            return Trial("fails", f"only images or the instruction are changed, and {does}", record)
        if not has_expert(candidate.task, self.open_world):
            return Trial("aside", "the suite's own world has no expert to show that it can be done", record)
        as_expert = replace(conditions, model="expert", policy_digest=None, replan=None)
        solver = self.solver or expert_policy
        # The expert acts relatively, whatever the policy does.
        task = with_protocol(candidate.task, control=RELATIVE)
        solved = run_episode(case, task, solver, self.open_world, as_expert, variation=variation)
        if self._noted(solved.record).outcome != "success":
            return Trial("aside", "the expert fails too", record)
        if self.wanted.costs_too_much(solved):
            return Trial("aside", "the expert costs too much, too", record)
        return Trial("fails", f"the expert succeeds, and {does}", record)

    def _noted(self, record: Record) -> Record:
        self.episodes += 1
        self.watch(record)
        return record


def has_expert(task: Task, open_world: OpenWorld) -> bool:
    """Whether an expert can try a task: any without a world of its own, or whose world has one."""
    return task.world is None or bool(getattr(open_world(task, None), "has_expert", False))


def signals_of(ended: Rollout) -> dict[str, float]:
    """Return how near an episode that succeeded was to failing, see `Trial.signals`."""
    record = ended.record
    found = {} if record.success_step is None else {"steps": record.success_step / record.protocol["max_steps"]}
    if record.costs:
        found["cost"] = float(ended.cost())
    measured = with_metrics(ended, (_INSTABILITY,)).record.metrics
    if _INSTABILITY in measured:
        found["instability"] = measured[_INSTABILITY]
    return found
