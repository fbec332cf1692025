"""The errors that pytest-vla raises: bad input, and an episode that broke. Every reason code is defined here once."""

from collections.abc import Mapping

ERROR_REASONS: Mapping[str, str] = {
    "policy-raised": "The policy raised an exception: when the episode began, when it was asked, or when it ended.",
    "policy-protocol": "The policy, or its server, answered in another form than the protocol's.",
    "policy-shape": "An answer is neither an action (n,) nor a chunk (k, n); the suite says n, 7 of most.",
    "policy-dtype": "An answer is no array of numbers.",
    "policy-nan": "An answer holds NaN or infinity.",
    "policy-range": "An action lies outside of [-1, 1], in a suite that does not clip them.",
    "policy-timeout": "An answer took longer than `--vla-policy-timeout`.",
    "policy-connection": "The policy's server cannot be reached, refuses, or closed the connection.",
    "policy-server-died": "The policy's own process ended while the episode ran.",
    "policy-batch-failed": "The policy raised on a batch of several episodes; each of them runs again alone.",
    "policy-privileged": "The policy reads the simulator's state, and was given no world.",
    "policy-input": "`tiny`: a picture or a state is missing, or has another form than the policy takes.",
    "policy-exhausted": "`replay` in a suite's own world: the recorded actions are used up, and the episode goes on.",
    "replay-missing": "`replay`, `memoriser`: there are no recorded actions of this case.",
    "replay-unfit": "`replay`: a demonstration cannot be read, or was recorded in another scene than the task's.",
    "action-shape": "`World.step` was given an action that is not of shape (7,).",
    "action-dtype": "`World.step` was given something else than seven real numbers.",
    "action-nan": "`World.step` was given NaN or infinity.",
    "physics-nan": "NaN or a huge number in a position, a velocity or the controller's matrices.",
    "physics-bad-acceleration": "NaN or a huge number in an acceleration.",
    "physics-bad-control": "NaN or a huge number in a control.",
    "physics-bad-inertia": "The inertia matrix is singular.",
    "physics-contacts-full": "MuJoCo's buffer of contacts is full.",
    "physics-constraints-full": "MuJoCo's buffer of constraints is full.",
    "physics-time": "Simulated time did not move on by one control step.",
    "upstream-crashes": "`--vla-protocol=upstream`: the benchmark's own code raises where it judges a goal or a cost.",
    "timeout": "The episode took longer than `--vla-timeout`.",
    "process-exited": "The episode's process ended by an exit of its own, such as `os._exit`, and not by a signal.",
    "worker-crashed": "The episode's process died twice, or no other could be started in its place.",
    "world-unusable": "The scene cannot be made: a task file, an init state, an asset or a variation cannot be used.",
    "world-protocol": "A suite's own world shows something else than the suite says: a name, a shape or a type.",
    "variation-broken": "A kind of variation of another package or a project raised, or made what a kind may not make.",
    "imported-error": "The evaluator that wrote an imported log reports an exception, which ended the episode.",
    "world-raised": "The simulation raised an exception that has no code of its own.",
}
"""Why an episode is an `error`, which is in no rate: code -> one line."""

_NOT_OF_THE_POLICY = ("policy-connection", "policy-batch-failed", "policy-privileged")


def is_of_policy(reason: str | None, attempt: int = 1, acted: bool = True) -> bool:
    """Whether an error with this reason is the policy's own: an exception, no valid answer, a time-out, an exit.

    Errors of a connection, of a worker and of a scene are not. An episode whose worker is lost a second time is, and so
    is a simulation that broke on the policy's actions: the same actions would break it again.

    Args:
        reason: of the error.
        attempt: the number of the attempt that ended so.
        acted: whether the policy had been asked before.
    """
    if reason is not None and reason.startswith(("physics-", "world-raised")):
        return acted
    own = reason is not None and reason.startswith(("policy-", "action-")) and reason not in _NOT_OF_THE_POLICY
    return own or reason in (TIMEOUT, EXITED) or (reason == CRASHED and attempt > 1)


INVALID_REASONS: Mapping[str, str] = {
    "goal-holds-at-start": "The goal held before the policy did anything.",
    "out-of-sight": "However the variation was drawn, what the task is about was out of sight or out of reach.",
    "no-draw": "However the variation was drawn, this scene could not have it.",
    "infeasible": "`--vla-check-feasible`: the expert could not do the task in the changed scene.",
    "stopped-early": "`--vla-stop-when` stopped the episode: whether the policy would have done the task is not known.",
    "premise-broken": "A precondition of the task does not hold under the installed MuJoCo.",
}
"""Why an episode is `invalid`, which is in no rate: code -> one line."""


class VlaError(Exception):
    """Input or set-up that cannot be used. The message tells the problem, its place and the cure."""


class SceneError(VlaError):
    """A task file, an init-state file or an asset that cannot be used. The message starts with its location."""


class UnchangedError(VlaError):
    """A variation that changes nothing in this task: there is no episode of it."""


class UnfitError(VlaError):
    """A task that cannot have a variation: `label` is the variation's or its part's, `reason` tells why."""

    def __init__(self, label: str, task: str, reason: str) -> None:
        super().__init__(f"{label} of {task}: {reason}")
        self.label = label
        self.task = task
        self.reason = reason

    def __reduce__(self) -> tuple[type["UnfitError"], tuple[str, str, str]]:
        return type(self), (self.label, self.task, self.reason)


class RedrawError(VlaError):
    """A draw for a variation that this scene cannot have; another draw may fit."""


class UnloadedError(VlaError):
    """A model that would have to be loaded although loading is not allowed here."""


class EpisodeError(VlaError):
    """A rollout that broke: the outcome is `error`, never `failure`.

    `reason` is a stable code such as ``physics-nan`` or ``policy-shape``; the message has the values.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message

    def __reduce__(self) -> tuple[type["EpisodeError"], tuple[str, str]]:
        return type(self), (self.reason, self.message)


class WireError(VlaError):
    """The other end of a connection is gone, or does not follow this protocol."""


GOAL_AT_START = "goal-holds-at-start"
"""The reason of an invalid episode: there was nothing left to do after settling."""

OUT_OF_SIGHT = "out-of-sight"
"""The reason of an invalid episode: however its variation was drawn, the task's objects were not seen and in reach,
or what it adds was not seen."""

NO_DRAW = "no-draw"
"""The reason of an invalid episode: however its variation was drawn, this scene could not have it."""

INFEASIBLE = "infeasible"
"""The reason of an invalid episode: our expert could not do the task in the changed scene."""

PREMISE_BROKEN = "premise-broken"
"""The reason of an invalid episode: under this version of MuJoCo a premise of the task does not hold, which does under
the default one: the instruction speaks of what is not there."""

STOPPED = "stopped-early"
"""The reason of an invalid episode: ``--vla-stop-when`` stopped it. It is no failure: some would have succeeded."""

TIMEOUT = "timeout"
"""The reason of an error: the episode reached ``--vla-timeout``."""

POLICY_TIMEOUT = "policy-timeout"
"""The reason of an error: an answer of the policy took longer than ``--vla-policy-timeout``."""

SERVER_DIED = "policy-server-died"
"""The reason of an error: the policy's process ended, or closed the connection."""

UPSTREAM_CRASHES = "upstream-crashes"
"""The reason of an error: upstream's rules count, and its code raises here."""

VARIATION_BROKEN = "variation-broken"
"""The reason of an error: a kind of variation that does not come with pytest-vla is at fault, and the message says
whose it is."""

EXITED = "process-exited"
"""The reason of an error: the process in which the episode ran exited by itself; the episode may run again."""

CRASHED = "worker-crashed"
"""The reason of an error: the process died in which the episode ran."""

BATCH_FAILED = "policy-batch-failed"
"""The reason of an error: the policy raised on a batch, and nobody knows on whose account."""

NO_CASE = "no-case"
"""The reason of an error: a test of the user's own has no case to run."""

OF_THE_POLICY = frozenset(reason for reason in ERROR_REASONS if is_of_policy(reason, acted=False))
"""The reasons that are always the policy's own."""
