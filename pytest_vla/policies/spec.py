"""What names a policy, and how it is to be run: all that another process needs to load the same one."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

REQUEST_TIMEOUT = 60.0
"""Seconds that a policy in another process has for an answer, where ``--vla-policy-timeout`` is not given."""

AUTO = "auto"
"""The device that there is: cuda, mps, cpu."""

DEVICE = "PYTEST_VLA_DEVICE"
"""The environment variable in which a user's own policy finds ``--vla-device``, `AUTO` where it was not given."""


@dataclass(frozen=True)
class ModelSpec:
    """A policy to be loaded.

    Attributes:
        text: of ``--vla-model``.
        folder: what relative paths and the user's modules are relative to.
        device: torch's name of the device that weights go to, or `AUTO`; of one alone.
        timeout: seconds that one answer may take where the policy is in another process.
        names: further ones that people may have meant, for messages.
    """

    text: str
    folder: Path
    device: str = AUTO
    timeout: float = REQUEST_TIMEOUT
    names: tuple[str, ...] = ()

    def table(self) -> dict[str, Any]:
        """Of texts and numbers, as it goes to another process."""
        return {**asdict(self), "folder": str(self.folder)}

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "ModelSpec":
        """What `table` made a table of."""
        return cls(**{**table, "folder": Path(table["folder"]), "names": tuple(table["names"])})
