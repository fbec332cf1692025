"""``--vla-model``: from the text that people type to a policy. Loads numpy or a user's module only when asked to."""

import importlib.util
import os
import sys
from dataclasses import replace
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pytest_vla import extensions, hook_modules
from pytest_vla.errors import VlaError
from pytest_vla.policies.arguments import (
    check_is_called_with_an_episode,
    digest_with,
    policy_with_arguments,
    split_arguments,
)
from pytest_vla.policies.choices import DEVICE
from pytest_vla.policies.devices import resolved
from pytest_vla.policies.files import module_digest
from pytest_vla.policies.kind import Kind
from pytest_vla.policies.registry import checked_policy, find_kind, kind_names, usages
from pytest_vla.policies.spec import ARGUMENTS_MARK as MARK
from pytest_vla.policies.spec import ModelSpec
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
    kind, text, spec = _parse(spec)
    if kind is None:
        _check_module(spec)
    else:
        kind.check(text, spec)


def module_places(spec: ModelSpec) -> tuple[Path, ...]:
    """Where the module of ``module:callable`` would be imported from: its file, or its package's folders.

    Imports nothing. Empty where the policy is of a kind that has no module, or where none is found.
    """
    name, colon, _ = spec.text.partition(":")
    if not colon or find_kind(name) is not None:
        return ()
    try:
        found = PathFinder.find_spec(name.partition(".")[0], [str(spec.folder), *sys.path])
    except (ImportError, ValueError):
        found = None
    if found is None:
        return ()
    return tuple(
        map(Path, [*filter(None, [found.has_location and found.origin]), *(found.submodule_search_locations or ())])
    )


def may_batch(spec: ModelSpec) -> bool | None:
    """Whether the policy answers in batches, as far as is known without loading it; None: it may. Raises VlaError."""
    kind, _, _ = _parse(spec)
    return kind.batches if kind else None


def known_to_draw(spec: ModelSpec) -> bool | None:
    """Whether the policy samples its actions, if that is known without loading it; else None. Raises VlaError."""
    kind, _, _ = _parse(spec)
    return kind.draws if kind else None


def resolve_policy(spec: ModelSpec) -> "Policy":
    """The policy of a spec, loaded; one that answers in batches with one question at a time. Raises VlaError."""
    from pytest_vla.policies.base import is_batch_policy, one_by_one

    policy = load_policy(spec)
    return one_by_one(policy) if is_batch_policy(policy) else cast("Policy", policy)


def load_policy(spec: ModelSpec) -> "Policy | BatchPolicy":
    """The policy of a spec, as it is. Raises VlaError."""
    kind, text, spec = _parse(spec)
    if kind is None or not extensions.is_built_in(extensions.policies()[kind.name]):
        # Code that is not ours is told nothing else.
        os.environ[DEVICE] = resolved(spec.device)
    return kind.load(text, spec) if kind else _load_callable(spec, text)


def digest_of(policy: object, spec: ModelSpec) -> str | None:
    """What a loaded policy says that it is made of, or else `policy_digest`. Raises VlaError."""
    own = getattr(policy, "digest", None)
    return digest_with(own, _parse(spec)[2].arguments, spec.folder) if isinstance(own, str) else policy_digest(spec)


def policy_digest(spec: ModelSpec) -> str | None:
    """Names the content of what makes a policy, so that records tell one version of it from the next.

    sha256 (hex) of the file of ``module:callable``'s module, or of the played npz file, or over a checkpoint's files;
    arguments are in it, with the content of files that they name. None where no one file is it, where the module is
    not loaded, or where a server on the network has the weights and says nothing of them. Raises VlaError.
    """
    kind, text, spec = _parse(spec)
    digest = kind.digest(text, spec) if kind else module_digest(spec.text.partition(":")[0])
    return digest_with(digest, spec.arguments, spec.folder)


def _usage(names: tuple[str, ...]) -> str:
    return ", ".join([*names, *usages()]) + ", module:callable[?NAME=VALUE&...] (yours)"


def _parse(spec: ModelSpec) -> tuple[Kind | None, str, ModelSpec]:
    """The kind, the text after the colon, and the spec with its arguments; no kind for ``module:callable``."""
    hook_modules.consent(spec.plugins, spec.folder)
    model = spec.text
    bare, mark, _ = model.partition(MARK)
    name, colon, text = bare.partition(":")
    kind = find_kind(name)
    before, at, _ = name.partition("@")
    if kind is None and at and (not colon or find_kind(before) is not None):
        return _checkpoint(spec, name, after=f"{colon}{text}" or mark)
    if kind is None and colon and name and text:
        return None, text, replace(spec, arguments=split_arguments(model)[1])
    if kind is None:
        close = did_you_mean(name, [*spec.names, *kind_names()])
        known = f"Known: {_usage(spec.names)}.{hook_modules.of_a_conftest()}"
        raise VlaError(f"--vla-model={model}: no such policy.{close} {known}")
    if kind.arguments:
        spec = replace(spec, arguments=split_arguments(model)[1])
    elif mark and (kind.takes is None or not kind.required):
        # Where a text has to be there, the mark may be part of it.
        raise VlaError(f"--vla-model={model}: {kind.name} takes no arguments; write --vla-model={kind.usage}")
    else:
        _, colon, text = model.partition(":")
    if kind.takes is None and colon:
        raise VlaError(f"--vla-model={model}: {kind.name} takes nothing after it; write --vla-model={kind.usage}")
    if kind.takes and not text and (kind.required or (colon and kind.checkpoints)):
        raise VlaError(f"--vla-model={model}: {kind.takes} is missing; write --vla-model={kind.usage}")
    return kind, text, spec


def _checkpoint(spec: ModelSpec, name: str, after: str) -> tuple[Kind, str, ModelSpec]:
    """The kind of ``NAME@CHECKPOINT``, and ``@CHECKPOINT`` as its text; `after` is what must not stand behind it."""
    name, _, checkpoint = name.partition("@")
    kind = find_kind(name)
    if kind is None or checkpoint not in kind.checkpoints:
        with_some = [each for known in kind_names() if (each := find_kind(known)) is not None and each.checkpoints]
        known = [f"{each.name}@{one}" for each in with_some for one in each.checkpoints]
        raise VlaError(f"--vla-model={spec.text}: no such checkpoint. Known: {', '.join(known)}")
    if after:
        takes = "takes no arguments" if after == MARK else "takes nothing after it"
        raise VlaError(f"--vla-model={spec.text}: {name}@{checkpoint} {takes}; write --vla-model={name}@{checkpoint}")
    return kind, f"@{checkpoint}", spec


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


def _load_callable(spec: ModelSpec, attribute: str) -> "Policy | BatchPolicy":
    from pytest_vla.policies.base import is_batch_policy

    model = spec.text
    _put_on_path(spec.folder)
    module_name = model.partition(":")[0]
    try:
        loaded: Any = hook_modules.imported(module_name, spec.folder)
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
    found = f"--vla-model={model}: {attribute} of {place} is {type(loaded).__name__}"
    if MARK in model:
        loaded = policy_with_arguments(loaded, spec.arguments, found, model)
        found = f"--vla-model={model}: {attribute} of {place}, with its arguments, is {type(loaded).__name__}"
    policy = checked_policy(loaded, found)
    if not is_batch_policy(policy) and MARK not in model:
        check_is_called_with_an_episode(policy, found, model)
    return policy


def _put_on_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _no_module(spec: ModelSpec, name: str) -> str:
    files = sorted(file.stem for file in spec.folder.glob("*.py"))
    close = did_you_mean(name, [*spec.names, *kind_names(), *files])
    return (
        f"--vla-model={spec.text}: there is no module {name!r} in {spec.folder} or on Python's path.{close} Known: "
        f"{_usage(spec.names)}."
    )


def _import_failed(model: str, module_name: str, error: BaseException) -> str:
    return f"--vla-model={model}: importing {module_name} raised {describe(error)}"
