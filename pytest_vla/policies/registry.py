"""The kinds of ``--vla-model=KIND:TEXT``: ours in one table, and those that other packages declare as entry points."""

import hashlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.policies.names import CHECKPOINTS, Checkpoint
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.util.tracebacks import describe

if TYPE_CHECKING:
    from pytest_vla.policies.base import BatchPolicy, Policy


GROUP = "pytest_vla.policies"
"""The entry-point group of other packages' kinds: name -> a callable that takes the text after the colon (empty where
there is none) and returns a policy. A kind of ours goes before one of the same name."""


@dataclass(frozen=True)
class Kind:
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
    """

    name: str
    usage: str
    takes: str | None
    load: Callable[[str, ModelSpec], "Policy | BatchPolicy"]
    check: Callable[[str, ModelSpec], None] = lambda text, spec: None
    digest: Callable[[str, ModelSpec], str | None] = lambda text, spec: None
    required: bool = True
    batches: bool | None = False


def find_kind(name: str) -> Kind | None:
    """The kind of a name; None: there is none."""
    kind = next((kind for kind in KINDS if kind.name == name), None)
    # Other packages are looked through only where the name is none of ours.
    return kind or next((kind for kind in all_kinds() if kind.name == name), None)


def all_kinds() -> tuple[Kind, ...]:
    """Ours, and those that other packages declare."""
    ours = {kind.name for kind in KINDS}
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        if entry.name not in ours:
            found.setdefault(entry.name, []).append(entry)
    return (*KINDS, *(_declared_kind(name, entries) for name, entries in sorted(found.items())))


def checked_policy(policy: Any, found: str) -> "Policy | BatchPolicy":
    """What somebody gave as a policy. Raises VlaError, which begins with `found`, where it is none."""
    from pytest_vla.policies.base import is_batch_policy, own_number

    if isinstance(policy, type) and hasattr(policy, "begin") and hasattr(policy, "act"):
        raise VlaError(f"{found}, a class; name an object of it, policy = {policy.__name__}()")
    if is_batch_policy(policy):
        if getattr(policy, "privileged", False):
            raise VlaError(f"{found}, privileged, and it answers in batches: these see no simulator; leave one out")
        for name in ("replan", "max_batch"):
            try:
                number = own_number(policy, name)
            except VlaError as error:
                raise VlaError(f"{found}: {error}") from error
            if number is None and name == "max_batch":
                raise VlaError(f"{found}; its max_batch is None, and not the questions that it takes at once")
    elif not callable(policy):
        lacks = [name for name in ("begin", "act", "max_batch", "reads") if not hasattr(policy, name)]
        if len(lacks) < 4 and ("begin" not in lacks or "act" not in lacks):
            raise VlaError(f"{found}, which lacks {', '.join(lacks)} of a policy that answers in batches")
        raise VlaError(
            f"{found}, not callable; a policy is called with an episode and returns a session, which is called with an "
            "observation and returns actions"
        )
    return policy  # type: ignore[no-any-return]


def module_digest(name: str) -> str | None:
    """sha256 (hex) of a loaded module's file; None where there is none."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return _file_digest(Path(file)) if file else None


def _file_digest(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        # A run's folder is many files.
        return None


def _random(text: str, spec: ModelSpec) -> "Policy":
    from pytest_vla.policies.random import random_policy

    return random_policy


def _expert(text: str, spec: ModelSpec) -> "Policy":
    from pytest_vla.expert.policy import expert_policy

    return expert_policy


def _expert_digest(text: str, spec: ModelSpec) -> str | None:
    import pytest_vla.expert
    from pytest_vla.sim import world_copy as rehearsal

    content = hashlib.sha256()
    files = [file for package in pytest_vla.expert.__path__ for file in sorted(Path(package).glob("*.py"))]
    for file in [*files, Path(rehearsal.__file__)]:
        content.update(file.read_bytes())
    return content.hexdigest()


def _replay(text: str, spec: ModelSpec) -> "Policy":
    from pytest_vla.policies.replay import replay_policy

    return replay_policy(spec.folder / text)


def _check_replay(text: str, spec: ModelSpec) -> None:
    from pytest_vla.policies.replay import check_replay

    check_replay(spec.folder / text)


def _openpi(text: str, spec: ModelSpec) -> "Policy":
    from pytest_vla.policies.openpi import openpi_policy

    return openpi_policy(text, spec.timeout)


def _check_openpi(text: str, spec: ModelSpec) -> None:
    from pytest_vla.policies.openpi import check_openpi

    if not _in_worker():
        check_openpi(text)


def _vla_eval(text: str, spec: ModelSpec) -> "Policy":
    from pytest_vla.policies.vla_eval import vla_eval_policy

    return vla_eval_policy(text, spec.timeout)


def _check_vla_eval(text: str, spec: ModelSpec) -> None:
    from pytest_vla.policies.vla_eval import check_vla_eval

    if not _in_worker():
        check_vla_eval(text)


def _in_worker() -> bool:
    """Whether the process that started this one has called the server already, which may be busy by now."""
    return "PYTEST_XDIST_WORKER" in os.environ


def _lerobot(text: str, spec: ModelSpec) -> "BatchPolicy":
    from pytest_vla.policies.lerobot import load

    return load(text, spec.device, folder=spec.folder)


def _check_lerobot(text: str, spec: ModelSpec) -> None:
    from pytest_vla.policies.lerobot import check

    check(text, spec.folder)


def _lerobot_digest(text: str, spec: ModelSpec) -> str | None:
    from pytest_vla.policies.lerobot import digest

    return digest(text, spec.folder)


def _checkpoint(checkpoint: Checkpoint) -> Kind:
    """A published checkpoint by the name that people type."""

    def load(text: str, spec: ModelSpec) -> "BatchPolicy":
        from pytest_vla.policies.lerobot import load

        return load(checkpoint.hub_id, spec.device, folder=spec.folder, replan=checkpoint.replan)

    return Kind(
        checkpoint.name,
        checkpoint.name,
        None,
        load,
        lambda text, spec: _check_lerobot(checkpoint.hub_id, spec),
        lambda text, spec: _lerobot_digest(checkpoint.hub_id, spec),
        batches=True,
    )


def _declared_kind(name: str, entries: list[EntryPoint]) -> Kind:
    def check(text: str, spec: ModelSpec) -> None:
        if len(entries) > 1:
            listed = ", ".join(sorted(map(_origin, entries)))
            raise VlaError(f"--vla-model={name}: several packages declare it: {listed}; uninstall all but one")

    def load(text: str, spec: ModelSpec) -> "Policy | BatchPolicy":
        check(text, spec)
        return _load_declared(f"{name}:{text}" if text else name, entries[0], text)

    def digest(text: str, spec: ModelSpec) -> str | None:
        return module_digest(entries[0].module)

    return Kind(name, f"{name}[:TEXT]", "TEXT", load, check, digest, required=False, batches=None)


def _load_declared(model: str, entry: EntryPoint, text: str) -> "Policy | BatchPolicy":
    doing = f"importing {_origin(entry)}"
    try:
        make = entry.load()
        doing = f"{_origin(entry)}, called with {text!r},"
        policy = make(text)
    except VlaError:
        raise
    except (Exception, SystemExit) as error:
        raise VlaError(f"--vla-model={model}: {doing} raised {describe(error)}") from error
    return checked_policy(policy, f"--vla-model={model}: {_origin(entry)} made {type(policy).__name__}")


def _origin(entry: EntryPoint) -> str:
    return f"{entry.value} of {entry.dist.name} {entry.dist.version}" if entry.dist else entry.value


KINDS = (
    Kind("expert", "expert", None, _expert, digest=_expert_digest),
    Kind("random", "random", None, _random),
    Kind("replay", "replay:PATH", "PATH", _replay, _check_replay, lambda text, spec: _file_digest(spec.folder / text)),
    Kind("openpi", "openpi:HOST[:PORT]", "HOST", _openpi, _check_openpi),
    Kind("vla-eval", "vla-eval:HOST[:PORT]", "HOST", _vla_eval, _check_vla_eval),
    Kind(
        "lerobot",
        "lerobot:PATH_OR_HUB_ID",
        "PATH_OR_HUB_ID",
        _lerobot,
        _check_lerobot,
        _lerobot_digest,
        batches=True,
    ),
    *map(_checkpoint, CHECKPOINTS),
)
