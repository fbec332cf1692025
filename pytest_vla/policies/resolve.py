"""``--vla-model``: from the text that people type to a policy. Loads numpy or a user's module only when asked to."""

import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pytest_vla.errors import VlaError
from pytest_vla.mishaps import describe
from pytest_vla.policies.names import CHECKPOINTS
from pytest_vla.suite import did_you_mean

if TYPE_CHECKING:
    from pytest_vla.policies.base import BatchPolicy, Policy


GROUP = "pytest_vla.policies"
"""The entry-point group of other packages' kinds: name -> a callable that takes the text after the colon (empty where
there is none) and returns a policy. A kind of ours goes before one of the same name."""


@dataclass(frozen=True)
class Kind:
    """A kind of ``--vla-model``: how it is written, and how the text after the colon becomes a policy.

    The three functions take that text, and the folder that relative paths in it are relative to.

    Attributes:
        name: what stands before the colon.
        usage: how it is written, for messages.
        takes: what the text after the colon is; None: there is none.
        load: gives the policy; raises VlaError.
        check: refuses early what cannot be loaded, by a VlaError.
        digest: names the content that the policy is made of; None: not known.
        required: whether the text has to be there.
    """

    name: str
    usage: str
    takes: str | None
    load: Callable[[str, Path], "Policy | BatchPolicy"]
    check: Callable[[str, Path], None] = lambda text, folder: None
    digest: Callable[[str, Path], str | None] = lambda text, folder: None
    required: bool = True


def check_model(model: str, folder: Path) -> None:
    """Refuse what cannot be a policy, without loading it.

    Args:
        model: the text of ``--vla-model``.
        folder: what relative paths and the user's modules are relative to.

    Raises:
        VlaError: unknown kind (with close matches), a missing file, a module that cannot be found, a server that does
            not answer.
    """
    kind, text = _parse(model)
    if kind is None:
        _check_module(model, folder)
    else:
        kind.check(text, folder)


def resolve_policy(model: str, folder: Path) -> "Policy":
    """The policy that a ``--vla-model`` names, one that answers in batches with one question at a time.

    Arguments as for `check_model`. Raises VlaError.
    """
    from pytest_vla.policies.base import is_batch_policy, one_by_one

    policy = load_policy(model, folder)
    return one_by_one(policy) if is_batch_policy(policy) else cast("Policy", policy)


def load_policy(model: str, folder: Path) -> "Policy | BatchPolicy":
    """The policy that a ``--vla-model`` names, as it is. Arguments as for `check_model`. Raises VlaError."""
    kind, text = _parse(model)
    return kind.load(text, folder) if kind else _load_callable(model, folder)


def policy_digest(model: str, folder: Path) -> str | None:
    """Names the content of what makes a policy, so that records tell one version of it from the next.

    sha256 (hex) of the file of ``module:callable``'s module, or of the played npz file. None where no one file is it,
    where the module is not loaded, or where a server on the network has the weights and says nothing of them.
    Arguments as for `check_model`. Raises VlaError.
    """
    kind, text = _parse(model)
    return kind.digest(text, folder) if kind else _module_digest(model.partition(":")[0])


def _module_digest(name: str) -> str | None:
    file = getattr(sys.modules.get(name), "__file__", None)
    return _file_digest(Path(file)) if file else None


def _file_digest(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        # A run's folder is many files.
        return None


def _expert(text: str, folder: Path) -> "Policy":
    from pytest_vla.expert.policy import expert_policy

    return expert_policy


def _expert_digest(text: str, folder: Path) -> str | None:
    import pytest_vla.expert
    from pytest_vla.sim import rehearsal

    content = hashlib.sha256()
    files = [file for package in pytest_vla.expert.__path__ for file in sorted(Path(package).glob("*.py"))]
    for file in [*files, Path(rehearsal.__file__)]:
        content.update(file.read_bytes())
    return content.hexdigest()


def _lerobot(text: str, folder: Path) -> "BatchPolicy":
    from pytest_vla.policies.lerobot import load

    return load(text, folder=folder)


def _check_lerobot(text: str, folder: Path) -> None:
    from pytest_vla.policies.lerobot import check

    check(text, folder)


def _lerobot_digest(text: str, folder: Path) -> str | None:
    from pytest_vla.policies.lerobot import digest

    return digest(text, folder)


def _checkpoint(name: str, hub_id: str) -> Kind:
    """A published checkpoint by the name that people type."""

    def load(text: str, folder: Path) -> "BatchPolicy":
        from pytest_vla.policies.lerobot import load_checkpoint

        return load_checkpoint(name)

    return Kind(
        name,
        name,
        None,
        load,
        lambda text, folder: _check_lerobot(hub_id, folder),
        lambda text, folder: _lerobot_digest(hub_id, folder),
    )


def _random(text: str, folder: Path) -> "Policy":
    from pytest_vla.policies.random import random_policy

    return random_policy


def _replay(text: str, folder: Path) -> "Policy":
    from pytest_vla.policies.replay import replay_policy

    return replay_policy(folder / text)


def _check_replay(text: str, folder: Path) -> None:
    from pytest_vla.policies.replay import check_replay

    check_replay(folder / text)


def _openpi(text: str, folder: Path) -> "Policy":
    from pytest_vla.policies.openpi import openpi_policy

    return openpi_policy(text)


def _check_openpi(text: str, folder: Path) -> None:
    from pytest_vla.policies.openpi import check_openpi

    if not _in_worker():
        check_openpi(text)


def _vla_eval(text: str, folder: Path) -> "Policy":
    from pytest_vla.policies.vla_eval import vla_eval_policy

    return vla_eval_policy(text)


def _check_vla_eval(text: str, folder: Path) -> None:
    from pytest_vla.policies.vla_eval import check_vla_eval

    if not _in_worker():
        check_vla_eval(text)


def _in_worker() -> bool:
    """Whether the process that started this one has called the server already, which may be busy by now."""
    return "PYTEST_XDIST_WORKER" in os.environ


KINDS = (
    Kind("expert", "expert", None, _expert, digest=_expert_digest),
    Kind("random", "random", None, _random),
    Kind("replay", "replay:PATH", "PATH", _replay, _check_replay, lambda text, folder: _file_digest(folder / text)),
    Kind("openpi", "openpi:HOST[:PORT]", "HOST", _openpi, _check_openpi),
    Kind("vla-eval", "vla-eval:HOST[:PORT]", "HOST", _vla_eval, _check_vla_eval),
    Kind("lerobot", "lerobot:PATH_OR_HUB_ID", "PATH_OR_HUB_ID", _lerobot, _check_lerobot, _lerobot_digest),
    *(_checkpoint(checkpoint.name, checkpoint.hub_id) for checkpoint in CHECKPOINTS),
)


def _kinds() -> tuple[Kind, ...]:
    """Ours, and those that other packages declare."""
    ours = {kind.name for kind in KINDS}
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        if entry.name not in ours:
            found.setdefault(entry.name, []).append(entry)
    return (*KINDS, *(_declared_kind(name, entries) for name, entries in sorted(found.items())))


def _declared_kind(name: str, entries: list[EntryPoint]) -> Kind:
    def check(text: str, folder: Path) -> None:
        if len(entries) > 1:
            listed = ", ".join(sorted(map(_origin, entries)))
            raise VlaError(f"--vla-model={name}: several packages declare it: {listed}; uninstall all but one")

    def load(text: str, folder: Path) -> "Policy":
        check(text, folder)
        return _load_declared(f"{name}:{text}" if text else name, entries[0], text)

    def digest(text: str, folder: Path) -> str | None:
        return _module_digest(entries[0].module)

    return Kind(name, f"{name}[:TEXT]", "TEXT", load, check, digest, required=False)


def _load_declared(model: str, entry: EntryPoint, text: str) -> "Policy":
    doing = f"importing {_origin(entry)}"
    try:
        make = entry.load()
        doing = f"{_origin(entry)}, called with {text!r},"
        policy = make(text)
    except VlaError:
        raise
    except (Exception, SystemExit) as error:
        raise VlaError(f"--vla-model={model}: {doing} raised {describe(error)}") from error
    return _checked(policy, f"--vla-model={model}: {_origin(entry)} made {type(policy).__name__}")


def _origin(entry: EntryPoint) -> str:
    return f"{entry.value} of {entry.dist.name} {entry.dist.version}" if entry.dist else entry.value


def _usage() -> str:
    return ", ".join(kind.usage for kind in _kinds()) + ", module:callable (yours)"


def _parse(model: str) -> tuple[Kind | None, str]:
    """The kind and the text after the colon; no kind for ``module:callable``."""
    name, colon, text = model.partition(":")
    kind = next((kind for kind in KINDS if kind.name == name), None)
    # Other packages are looked through only where the name is none of ours.
    kind = kind or next((kind for kind in _kinds() if kind.name == name), None)
    if kind is None and colon and name and text:
        return None, text
    if kind is None:
        close = did_you_mean(name, (kind.name for kind in _kinds()))
        raise VlaError(f"--vla-model={model}: no such policy.{close} Known: {_usage()}.")
    if kind.takes is None and colon:
        raise VlaError(f"--vla-model={model}: {kind.name} takes nothing after it; write --vla-model={kind.usage}")
    if kind.takes and kind.required and not text:
        raise VlaError(f"--vla-model={model}: {kind.takes} is missing; write --vla-model={kind.usage}")
    return kind, text


def _check_module(model: str, folder: Path) -> None:
    _put_on_path(folder)
    name = model.partition(":")[0]
    try:
        # Of a dotted name, only the first part can be looked for without importing anything.
        found = importlib.util.find_spec(name.partition(".")[0])
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise VlaError(_no_module(model, name, folder))


def _load_callable(model: str, folder: Path) -> "Policy | BatchPolicy":
    _put_on_path(folder)
    module_name, _, attribute = model.partition(":")
    try:
        loaded: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise VlaError(_no_module(model, error.name, folder)) from error
        raise VlaError(_import_failed(model, module_name, error)) from error
    except (Exception, SystemExit) as error:
        raise VlaError(_import_failed(model, module_name, error)) from error
    place = getattr(loaded, "__file__", None) or module_name
    for part in attribute.split("."):
        if not hasattr(loaded, part):
            names = [name for name in vars(loaded) if not name.startswith("_")] if hasattr(loaded, "__dict__") else []
            raise VlaError(f"--vla-model={model}: {place} has no {part!r}.{did_you_mean(part, names)}")
        loaded = getattr(loaded, part)
    return _checked(loaded, f"--vla-model={model}: {attribute} of {place} is {type(loaded).__name__}")


def _checked(policy: object, found: str) -> "Policy":
    from pytest_vla.policies.base import is_batch_policy

    if not callable(policy) and not is_batch_policy(policy):
        raise VlaError(
            f"{found}, not callable; a policy is called with an episode and returns a session, which is called with an "
            "observation and returns actions"
        )
    return cast("Policy", policy)


def _put_on_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _no_module(model: str, name: str, folder: Path) -> str:
    close = did_you_mean(name, [kind.name for kind in _kinds()] + sorted(file.stem for file in folder.glob("*.py")))
    return (
        f"--vla-model={model}: there is no module {name!r} in {folder} or on Python's path.{close} Known: {_usage()}."
    )


def _import_failed(model: str, module_name: str, error: BaseException) -> str:
    return f"--vla-model={model}: importing {module_name} raised {describe(error)}"
