"""``--vla-model``: from the text that people type to a policy. Loads numpy or a user's module only when asked to."""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pytest_vla.errors import VlaError
from pytest_vla.mishaps import describe
from pytest_vla.suite import did_you_mean

if TYPE_CHECKING:
    from pytest_vla.policies.base import Policy


@dataclass(frozen=True)
class Kind:
    """A kind of ``--vla-model``: how it is written, and how the path after the colon becomes a policy.

    `check` refuses a path early, `load` gives the policy, `digest` names the content that it is made of.
    """

    name: str
    usage: str
    takes: str | None
    load: Callable[[Path], "Policy"]
    check: Callable[[Path], None] = lambda path: None
    digest: Callable[[Path], str | None] = lambda path: None


def check_model(model: str, folder: Path) -> None:
    """Refuse what cannot be a policy, without loading it.

    Args:
        model: the text of ``--vla-model``.
        folder: what relative paths and the user's modules are relative to.

    Raises:
        VlaError: unknown kind (with close matches), a missing file, a module that cannot be found.
    """
    kind, where = _parse(model)
    if kind is None:
        _check_module(model, folder)
    else:
        kind.check(folder / where)


def resolve_policy(model: str, folder: Path) -> "Policy":
    """The policy that a ``--vla-model`` names. Arguments as for `check_model`. Raises VlaError."""
    kind, where = _parse(model)
    return kind.load(folder / where) if kind else _load_callable(model, folder)


def policy_digest(model: str, folder: Path) -> str | None:
    """Names the content of what makes a policy, so that records tell one version of it from the next.

    sha256 (hex) of the file of ``module:callable``'s module, or of the played npz file. None where no one file is it,
    or where the module is not loaded. Arguments as for `check_model`. Raises VlaError.
    """
    kind, where = _parse(model)
    if kind is not None:
        return kind.digest(folder / where)
    file = getattr(sys.modules.get(model.partition(":")[0]), "__file__", None)
    return _file_digest(Path(file)) if file else None


def _file_digest(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        # A run's folder is many files.
        return None


def _expert(path: Path) -> "Policy":
    from pytest_vla.expert.policy import expert_policy

    return expert_policy


def _expert_digest(path: Path) -> str | None:
    import pytest_vla.expert

    content = hashlib.sha256()
    for folder in pytest_vla.expert.__path__:
        for file in sorted(Path(folder).glob("*.py")):
            content.update(file.read_bytes())
    return content.hexdigest()


def _random(path: Path) -> "Policy":
    from pytest_vla.policies.random import random_policy

    return random_policy


def _replay(path: Path) -> "Policy":
    from pytest_vla.policies.replay import replay_policy

    return replay_policy(path)


def _check_replay(path: Path) -> None:
    from pytest_vla.policies.replay import check_replay

    check_replay(path)


KINDS = (
    Kind("expert", "expert", None, _expert, digest=_expert_digest),
    Kind("random", "random", None, _random),
    Kind("replay", "replay:PATH", "PATH", _replay, _check_replay, _file_digest),
)
_USAGE = ", ".join(kind.usage for kind in KINDS) + ", module:callable (yours)"


def _parse(model: str) -> tuple[Kind | None, str]:
    """The kind and the text after the colon; no kind for ``module:callable``."""
    name, colon, where = model.partition(":")
    kind = next((kind for kind in KINDS if kind.name == name), None)
    if kind is None and colon and name and where:
        return None, where
    if kind is None:
        raise VlaError(
            f"--vla-model={model}: no such policy.{did_you_mean(name, (kind.name for kind in KINDS))} Known: {_USAGE}."
        )
    if kind.takes is None and colon:
        raise VlaError(f"--vla-model={model}: {kind.name} takes nothing after it; write --vla-model={kind.usage}")
    if kind.takes and not where:
        raise VlaError(f"--vla-model={model}: {kind.takes} is missing; write --vla-model={kind.usage}")
    return kind, where


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


def _load_callable(model: str, folder: Path) -> "Policy":
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
    if not callable(loaded):
        raise VlaError(
            f"--vla-model={model}: {attribute} of {place} is {type(loaded).__name__}, not callable; a policy is called "
            "with an episode and returns a session, which is called with an observation and returns actions"
        )
    return cast("Policy", loaded)


def _put_on_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _no_module(model: str, name: str, folder: Path) -> str:
    close = did_you_mean(name, [kind.name for kind in KINDS] + sorted(file.stem for file in folder.glob("*.py")))
    return f"--vla-model={model}: there is no module {name!r} in {folder} or on Python's path.{close} Known: {_USAGE}."


def _import_failed(model: str, module_name: str, error: BaseException) -> str:
    return f"--vla-model={model}: importing {module_name} raised {describe(error)}"
