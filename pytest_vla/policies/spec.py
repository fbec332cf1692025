"""A policy's name and settings: all that another process needs to load the same policy."""

import hashlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla.policies.devices import AUTO, REQUEST_TIMEOUT

if TYPE_CHECKING:
    from pytest_vla.policies.base import BatchPolicy, Policy


ARGUMENTS_MARK = "?"
"""Between a policy and its arguments."""


@dataclass(frozen=True)
class ModelSpec:
    """A policy that is to be loaded.

    Attributes:
        text: the text of ``--vla-model``.
        folder: the folder that relative paths and the user's modules start from.
        device: torch's name of the one device for the weights, or `AUTO`.
        timeout: seconds that one answer may take if the policy is in another process.
        names: further names for "did you mean" in messages.
        arguments: the arguments in `text`, by name; filled in when the policy is loaded.
        plugins: modules that the user named by ``-p``, whose hooks another process has to use too.
        within: the folder that has to define what is loaded, if results name the policy and nobody typed it.
    """

    text: str
    folder: Path
    device: str = AUTO
    timeout: float = REQUEST_TIMEOUT
    names: tuple[str, ...] = ()
    arguments: tuple[tuple[str, str], ...] = ()
    plugins: tuple[str, ...] = ()
    within: str = ""

    def table(self) -> dict[str, Any]:
        """Return the spec as texts and numbers, for another process."""
        return {**asdict(self), "folder": str(self.folder)}

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "ModelSpec":
        """Read the result of `table`."""
        lists = {name: tuple(table[name]) for name in ("names", "plugins")}
        arguments = tuple((name, text) for name, text in table["arguments"])
        return cls(**{**table, **lists, "folder": Path(table["folder"]), "arguments": arguments})


# Digests of the files that define a policy.


def module_digest(name: str) -> str | None:
    """Return the sha256 (hex) of a loaded module's file, or None if it has no file."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return file_digest(Path(file)) if file else None


def file_digest(path: Path) -> str | None:
    """Return the sha256 (hex) of a file, or None if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        # A run's folder has many files.
        return None


# The types of policies: the syntax of ``--vla-model=TYPE:TEXT``, and how it becomes a policy.


@dataclass(frozen=True)
class PolicyType:
    """A type of policy: how ``--vla-model`` names it, and how the text after the colon becomes a policy.

    The three functions take that text, and the spec that contains it.

    Attributes:
        name: the text before the colon.
        usage: the syntax, for messages.
        takes: a name for the text after the colon, or None if there is no such text.
        load: returns the policy; raises VlaError.
        check: refuses early a policy that cannot be loaded, by a VlaError.
        digest: returns the digest of the policy's content, or None if it is not known.
        required: whether the text after the colon is required.
        batches: whether its policies answer in batches and are shared by all workers; None if only some do.
        arguments: whether ``?NAME=VALUE&...`` after the text holds arguments, which `load` gets as
            `ModelSpec.arguments`; otherwise it is part of the text.
        checkpoints: the allowed names after an @, as in ``tiny@early``; the text is then ``@early``.
        draws: whether its policies sample their actions, as far as that is known before loading
            (`pytest_vla.policies.fit.Traits.draws`).
        is_data: whether the text names nothing but numbers to read, so that no code and no server comes with it.
        is_remote: whether the text names what another machine has.
        offered: whether messages list it among the available policies; False for one that cannot run here.
    """

    name: str
    usage: str
    takes: str | None
    load: Callable[[str, ModelSpec], "Policy | BatchPolicy"]
    check: Callable[[str, ModelSpec], None] = lambda text, spec: None
    digest: Callable[[str, ModelSpec], str | None] = lambda text, spec: None
    required: bool = True
    batches: bool | None = False
    arguments: bool = False
    checkpoints: tuple[str, ...] = ()
    offered: bool = True
    draws: bool | None = None
    is_data: bool = False
    is_remote: Callable[[str, ModelSpec], bool] = lambda text, spec: False
