"""What pytest-vla raises: bad input, and an episode that broke; and the reasons that records give."""


class VlaError(Exception):
    """Input or set-up that cannot be used. The message says what, where, and how to mend it."""


class SceneError(VlaError):
    """A task file, an init-state file or an asset that cannot be used. The message starts with its location."""


class UnchangedError(VlaError):
    """A variation that changes nothing of this task: it is no episode."""


class UnfitError(VlaError):
    """A task that cannot have a variation. `label` is the variation's, of a joint one the part's; `reason` says why."""

    def __init__(self, label: str, task: str, reason: str) -> None:
        super().__init__(f"{label} of {task}: {reason}")
        self.label = label
        self.task = task
        self.reason = reason

    def __reduce__(self) -> tuple[type["UnfitError"], tuple[str, str, str]]:
        return type(self), (self.label, self.task, self.reason)


class RedrawError(VlaError):
    """What was drawn for a variation cannot be had in this scene; another draw may."""


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
    """The other side is gone, or does not speak this protocol."""


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

TIMEOUT = "timeout"
"""The reason of an error: the episode reached ``--vla-timeout``."""

POLICY_TIMEOUT = "policy-timeout"
"""The reason of an error: an answer of the policy took longer than ``--vla-policy-timeout``."""

SERVER_DIED = "policy-server-died"
"""The reason of an error: the policy's process ended, or closed the connection."""

CRASHED = "worker-crashed"
"""The reason of an error: the process died in which the episode ran."""

BATCH_FAILED = "policy-batch-failed"
"""The reason of an error: the policy raised on a batch, and nobody knows on whose account."""

NO_CASE = "no-case"
"""The reason of an error: a test of the user's own has no case to run."""
