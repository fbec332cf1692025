"""``--vla-model``: from the text that people type to a policy. Loads numpy or a user's module only when asked to."""

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pytest_vla.errors import VlaError
from pytest_vla.policies.registry import Kind, all_kinds, checked_policy, find_kind, module_digest
from pytest_vla.policies.spec import DEVICE, ModelSpec
from pytest_vla.util.text import did_you_mean
from pytest_vla.util.tracebacks import describe

if TYPE_CHECKING:
    from pytest_vla.policies.base import BatchPolicy, Policy


def check_model(spec: ModelSpec) -> None:
    """Refuse what cannot be a policy, without loading it.

    Raises:
        VlaError: unknown kind (with close matches), a missing file, a module that cannot be found, a server that does
            not answer.
    """
    kind, text = _parse(spec)
    if kind is None:
        _check_module(spec)
    else:
        kind.check(text, spec)


def may_batch(spec: ModelSpec) -> bool | None:
    """Whether the policy answers in batches, as far as is known without loading it; None: it may. Raises VlaError."""
    kind, _ = _parse(spec)
    return kind.batches if kind else None


def resolve_policy(spec: ModelSpec) -> "Policy":
    """The policy of a spec, loaded; one that answers in batches with one question at a time. Raises VlaError."""
    from pytest_vla.policies.base import is_batch_policy, one_by_one

    policy = load_policy(spec)
    return one_by_one(policy) if is_batch_policy(policy) else cast("Policy", policy)


def load_policy(spec: ModelSpec) -> "Policy | BatchPolicy":
    """The policy of a spec, as it is. Raises VlaError."""
    kind, text = _parse(spec)
    # For code that is not ours, which is told nothing else.
    os.environ[DEVICE] = spec.device
    return kind.load(text, spec) if kind else _load_callable(spec)


def digest_of(policy: object, spec: ModelSpec) -> str | None:
    """What a loaded policy says that it is made of, or else `policy_digest`. Raises VlaError."""
    own = getattr(policy, "digest", None)
    return own if isinstance(own, str) else policy_digest(spec)


def policy_digest(spec: ModelSpec) -> str | None:
    """Names the content of what makes a policy, so that records tell one version of it from the next.

    sha256 (hex) of the file of ``module:callable``'s module, or of the played npz file, or over a checkpoint's files.
    None where no one file is it, where the module is not loaded, or where a server on the network has the weights and
    says nothing of them. Raises VlaError.
    """
    kind, text = _parse(spec)
    return kind.digest(text, spec) if kind else module_digest(spec.text.partition(":")[0])


def _usage(names: tuple[str, ...]) -> str:
    return ", ".join([*names, *(kind.usage for kind in all_kinds())]) + ", module:callable (yours)"


def _parse(spec: ModelSpec) -> tuple[Kind | None, str]:
    """The kind and the text after the colon; no kind for ``module:callable``."""
    model = spec.text
    name, colon, text = model.partition(":")
    kind = find_kind(name)
    if kind is None and colon and name and text:
        return None, text
    if kind is None:
        close = did_you_mean(name, [*spec.names, *(kind.name for kind in all_kinds())])
        raise VlaError(f"--vla-model={model}: no such policy.{close} Known: {_usage(spec.names)}.")
    if kind.takes is None and colon:
        raise VlaError(f"--vla-model={model}: {kind.name} takes nothing after it; write --vla-model={kind.usage}")
    if kind.takes and kind.required and not text:
        raise VlaError(f"--vla-model={model}: {kind.takes} is missing; write --vla-model={kind.usage}")
    return kind, text


def _check_module(spec: ModelSpec) -> None:
    _put_on_path(spec.folder)
    name = spec.text.partition(":")[0]
    try:
        # Of a dotted name, only the first part can be looked for without importing anything.
        found = importlib.util.find_spec(name.partition(".")[0])
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise VlaError(_no_module(spec, name))


def _load_callable(spec: ModelSpec) -> "Policy | BatchPolicy":
    model = spec.text
    _put_on_path(spec.folder)
    module_name, _, attribute = model.partition(":")
    try:
        loaded: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise VlaError(_no_module(spec, error.name)) from error
        raise VlaError(_import_failed(model, module_name, error)) from error
    except (Exception, SystemExit) as error:
        raise VlaError(_import_failed(model, module_name, error)) from error
    place = getattr(loaded, "__file__", None) or module_name
    for part in attribute.split("."):
        if not hasattr(loaded, part):
            names = [name for name in vars(loaded) if not name.startswith("_")] if hasattr(loaded, "__dict__") else []
            raise VlaError(f"--vla-model={model}: {place} has no {part!r}.{did_you_mean(part, names)}")
        loaded = getattr(loaded, part)
    return checked_policy(loaded, f"--vla-model={model}: {attribute} of {place} is {type(loaded).__name__}")


def _put_on_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _no_module(spec: ModelSpec, name: str) -> str:
    files = sorted(file.stem for file in spec.folder.glob("*.py"))
    close = did_you_mean(name, [*spec.names, *(kind.name for kind in all_kinds()), *files])
    return (
        f"--vla-model={spec.text}: there is no module {name!r} in {spec.folder} or on Python's path.{close} Known: "
        f"{_usage(spec.names)}."
    )


def _import_failed(model: str, module_name: str, error: BaseException) -> str:
    return f"--vla-model={model}: importing {module_name} raised {describe(error)}"
