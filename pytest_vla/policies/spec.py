"""What names a policy, and how it is to be run: all that another process needs to load the same one."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pytest_vla.policies.choices import AUTO, REQUEST_TIMEOUT

ARGUMENTS_MARK = "?"
"""Between a policy and its arguments."""


@dataclass(frozen=True)
class ModelSpec:
    """A policy to be loaded.

    Attributes:
        text: of ``--vla-model``.
        folder: what relative paths and the user's modules are relative to.
        device: torch's name of the device that weights go to, or `AUTO`; of one alone.
        timeout: seconds that one answer may take where the policy is in another process.
        names: further ones that people may have meant, for messages.
        arguments: of the policy, by name, as they are written in `text`; whoever loads it fills them in.
        plugins: modules whose hooks are taken too, in another process: the user named them by ``-p``.
    """

    text: str
    folder: Path
    device: str = AUTO
    timeout: float = REQUEST_TIMEOUT
    names: tuple[str, ...] = ()
    arguments: tuple[tuple[str, str], ...] = ()
    plugins: tuple[str, ...] = ()

    def table(self) -> dict[str, Any]:
        """Of texts and numbers, as it goes to another process."""
        return {**asdict(self), "folder": str(self.folder)}

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "ModelSpec":
        """What `table` made a table of."""
        lists = {name: tuple(table[name]) for name in ("names", "plugins")}
        arguments = tuple((name, text) for name, text in table["arguments"])
        return cls(**{**table, **lists, "folder": Path(table["folder"]), "arguments": arguments})
