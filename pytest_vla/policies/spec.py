"""What names a policy, and how it is to be run: all that another process needs to load the same one."""

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


# What names the content of files that a policy is made of.


def module_digest(name: str) -> str | None:
    """sha256 (hex) of a loaded module's file; None where there is none."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return file_digest(Path(file)) if file else None


def file_digest(path: Path) -> str | None:
    """sha256 (hex) of a file; None where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        # A run's folder is many files.
        return None


# What a kind of policy is: how ``--vla-model=KIND:TEXT`` is written, and how it becomes a policy.


@dataclass(frozen=True)
class PolicyType:
    """A kind of ``--vla-model``: how it is written, and how the text after the colon becomes a policy.

    The three functions take that text, and the spec that it is of.

    Attributes:
        name: what stands before the colon.
        usage: how it is written, for messages.
        takes: what the text after the colon is; None: there is none.
        load: gives the policy; raises VlaError.
        check: refuses early what cannot be loaded, by a VlaError.
        digest: names the content that the policy is made of; None: not known.
        required: whether the text has to be there.
        batches: whether it gives policies that answer in batches, which all workers share; None: some do.
        arguments: whether ``?NAME=VALUE&...`` after the text is of arguments, which `load` finds as
            `ModelSpec.arguments`; elsewhere it is part of the text.
        checkpoints: what may stand after an @ behind the name, as in ``tiny@early``; the text is then ``@early``.
        draws: whether its policies sample their actions, as far as is known without loading one
            (`pytest_vla.policies.fit.Traits.draws`).
        offered: whether messages name it among what there is; one that cannot run here is none to try.
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
