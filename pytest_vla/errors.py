"""The errors that pytest-vla raises: bad input, and an episode that broke."""


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
