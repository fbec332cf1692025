"""``--vla-model``: from its text to a policy. Imports numpy or a user's module only on demand."""

import functools
import importlib.util
import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pytest_vla import extensions, hook_modules
from pytest_vla.entries import PolicyEntry
from pytest_vla.errors import VlaError
from pytest_vla.policies.arguments import (
    check_is_called_with_an_episode,
    digest_with,
    is_called_without_arguments,
    policy_with_arguments,
    split_arguments,
    with_arguments,
)
from pytest_vla.policies.devices import DEVICE, resolved
from pytest_vla.policies.own_files import is_installed, own_files_digest, reads_noted
from pytest_vla.policies.spec import ARGUMENTS_MARK as MARK
from pytest_vla.policies.spec import ModelSpec, PolicyType
from pytest_vla.util.files import why_foreign
from pytest_vla.util.text import did_you_mean
from pytest_vla.util.warnings import describe

if TYPE_CHECKING:
    from pytest_vla.policies.base import BatchPolicy, Policy


# The policy types of ``--vla-model=TYPE:TEXT``: those of pytest-vla, and those that packages and projects add.


def kind_names() -> tuple[str, ...]:
    """Return the names of all policy types, without importing them."""
    return tuple(extensions.policies())


def find_kind(name: str) -> PolicyType | None:
    """Return the policy type of this name, or None if there is none. Raises VlaError if its package is unusable."""
    entry = extensions.policies().get(name)
    return None if entry is None else _kind(entry)


def all_kinds() -> tuple[PolicyType, ...]:
    """Return every policy type. Raises VlaError if a package is unusable."""
    return tuple(kind for name in kind_names() if (kind := find_kind(name)) is not None)


def usages() -> tuple[str, ...]:
    """Return the usage of every policy type that is offered, for messages."""
    return tuple(kind.usage for kind in all_kinds() if kind.offered)


def checked_policy(policy: Any, found: str) -> "Policy | BatchPolicy":
    """Check that a user's object is a policy, and return it.

    Raises:
        VlaError: it is not a policy; the message begins with `found`.
    """
    from pytest_vla.policies.base import is_batch_policy, own_number

    if isinstance(policy, type) and hasattr(policy, "begin") and hasattr(policy, "act"):
        raise VlaError(f"{found}, a class; return an instance, {policy.__name__}()")
    if is_batch_policy(policy):
        if getattr(policy, "privileged", False):
            raise VlaError(
                f"{found}, which is privileged and answers in batches. Batches cannot access the simulator: drop one."
            )
        for name in ("replan", "max_batch"):
            try:
                number = own_number(policy, name)
            except VlaError as error:
                raise VlaError(f"{found}: {error}") from error
            if number is None and name == "max_batch":
                raise VlaError(
                    f"{found}; its max_batch is None, expected the number of questions that it takes at once"
                )
    elif not callable(policy):
        lacks = [name for name in ("begin", "act", "max_batch", "reads") if not hasattr(policy, name)]
        if len(lacks) < 4 and ("begin" not in lacks or "act" not in lacks):
            raise VlaError(f"{found}, which lacks {', '.join(lacks)}, required of a policy that answers in batches")
        raise VlaError(
            f"{found}, which is not callable. A policy is called with an episode and returns a session, which is "
            "called with an observation and returns actions."
        )
    return policy  # type: ignore[no-any-return]


@hook_modules.until_changed
def _kind(entry: PolicyEntry) -> PolicyType:
    if entry.kind:
        kind = extensions.load(replace(entry, load=entry.kind))
        if not isinstance(kind, PolicyType):
            whose = f"{entry.origin}: {entry.kind}"
            raise VlaError(f"{whose} is {type(kind).__name__}, expected pytest_vla.policies.spec.PolicyType")
        return kind

    def load(text: str, spec: ModelSpec) -> "Policy | BatchPolicy":
        doing = f"--vla-model={spec.text}: {entry.load} of {entry.origin}"
        try:
            make = extensions.load(entry)
        except VlaError as error:
            raise VlaError(f"--vla-model={spec.text}: {error}") from error
        if not callable(make):
            raise VlaError(
                f"{doing} is {type(make).__name__}, expected a function that takes a text and returns a policy"
            )
        if spec.arguments:
            make = with_arguments(make, spec.arguments, doing, spec.text, before=1)
        try:
            policy = make(text)
        except VlaError:
            raise
        except (Exception, SystemExit) as error:
            raise VlaError(f"{doing}, called with {text!r}, raised {describe(error)}") from error
        return checked_policy(policy, f"{doing} returned {type(policy).__name__}")

    def digest(text: str, spec: ModelSpec) -> str | None:
        return own_files_digest(spec, extensions.module_of(entry))

    # A worker that loads the policy itself finds hooks that the policy's process does not.
    batches = None if hook_modules.reaches_processes(entry.origin) else False
    return PolicyType(
        entry.name,
        f"{entry.name}[:TEXT][?NAME=VALUE]",
        "TEXT",
        load,
        digest=digest,
        required=False,
        batches=batches,
        arguments=True,
    )


def check_model(spec: ModelSpec) -> None:
    """Check early that a spec can be a policy, without loading it.

    Raises:
        VlaError: an unknown type (with close matches), a missing file, a module that cannot be found, or a
            server that does not answer.
    """
    kind, text, spec = _parse(spec)
    if kind is None:
        _check_module(spec)
    else:
        kind.check(text, spec)


# What results name: a store, a journal and all else that others may have written.


def check_untyped(spec: ModelSpec, project: Path, sources: Sequence[Path], doing: str, typed: str) -> ModelSpec:
    """Return the spec of a policy that results name and nobody typed, if it may be loaded.

    This is the one rule for what results name. Nothing of it is imported, called or connected to unless this user alone
    can write the results, and its module lies in the user's project: in no library, and not beside results that were
    put there. Neither its text nor its arguments may name a file beside such results, or another machine.

    The results may have been unpacked by this user, so that the owner alone proves nothing. Imports nothing;
    `load_policy` checks that the project also defines what is called with arguments.

    Args:
        spec: the policy.
        project: the folder of the user's project.
        sources: the folder of the results, then what of it names the policy.
        doing: what would load the policy, for the message.
        typed: the option by which the user names the policy.

    Raises:
        VlaError: it has to be typed.
    """
    kind, text, parsed = _parse(spec)
    values = [value for _, value in parsed.arguments] + [text] * (kind is not None)
    why = next(filter(None, map(why_foreign, sources)), "")
    if not why and kind is None:
        why = _why_no_module(spec, project, sources[0])
    if not why and not (kind is not None and kind.is_data):
        why = next((told for value in values if value and (told := _why_no_value(value, spec, sources[0]))), "")
    if not why and kind is not None and kind.is_remote(text, parsed):
        why = f"{text} is not on this machine"
    if why:
        raise VlaError(f"{doing}, but {why}, so others may have written it. Inspect it, then add {typed} to run it")
    return replace(spec, within=str(project))


def why_beside(place: Path, results: Path) -> str:
    """Return that a place came with results: it lies in them, or beside them where the user does not work; or empty."""
    place, results = place.resolve(), results.resolve()
    if place.is_relative_to(results):
        return f"{place} lies in the results"
    beside = results.parent
    is_brought = place.is_relative_to(beside) and not Path.cwd().resolve().is_relative_to(beside)
    return f"{place} lies beside the results" if is_brought else ""


def is_of_project(place: Path, project: Path) -> bool:
    """Whether a place lies in a project, and in no library that is installed in it."""
    place = place.resolve()
    return place.is_relative_to(project.resolve()) and not is_installed(place)


def _why_no_module(spec: ModelSpec, project: Path, results: Path) -> str:
    name = spec.text.partition(":")[0].partition(".")[0]
    try:
        found = PathFinder.find_spec(name, [str(spec.folder), *sys.path])
        if found is None:
            # Part of Python itself, or imported by another way. One that does not exist is told when it is loaded.
            return f"the module {name} is not in the project" if importlib.util.find_spec(name) else ""
    except (ImportError, ValueError):
        return f"the module {name} is not in the project"
    # Whatever it imports would come from its folder first.
    places = [*filter(None, [found.has_location and found.origin]), *(found.submodule_search_locations or ())]
    for place in (*map(Path, places), spec.folder):
        if told := why_beside(place, results):
            return told
        if not is_of_project(place, project):
            return f"{place} is not in the project {project}"
    return ""


def _why_no_value(value: str, spec: ModelSpec, results: Path) -> str:
    if re.search(r"://(?!(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]+)?(/|$))", value):
        return f"{value} is not on this machine"
    try:
        place = spec.folder / os.path.expanduser(value)
        return why_beside(place, results) if place.exists() else ""
    except (OSError, ValueError):
        # Too long for a path, or with a zero byte in it.
        return ""


def may_batch(spec: ModelSpec) -> bool | None:
    """Return whether the policy answers in batches, or None if that is unknown before loading. Raises VlaError."""
    kind, _, _ = _parse(spec)
    return kind.batches if kind else None


def known_to_draw(spec: ModelSpec) -> bool | None:
    """Return whether the policy samples its actions, or None if that is unknown before loading. Raises VlaError."""
    kind, _, _ = _parse(spec)
    return kind.draws if kind else None


def resolve_policy(spec: ModelSpec) -> "Policy":
    """Load the policy of a spec, adapted to one question at a time if it answers in batches. Raises VlaError."""
    from pytest_vla.policies.base import is_batch_policy, one_by_one

    policy = load_policy(spec)
    return one_by_one(policy) if is_batch_policy(policy) else cast("Policy", policy)


def load_policy(spec: ModelSpec | str) -> "Policy | BatchPolicy":
    """Load a policy, built-in or the user's, as to wrap it in code of one's own.

    Args:
        spec: what ``--vla-model`` takes, such as ``expert`` or ``tiny@early``; relative paths start from the current
            folder. A `ModelSpec` also has the device and the folder.

    Returns:
        A callable that is called with an episode, or an object that answers in batches, with ``begin`` and ``act``.

    Raises:
        VlaError: there is no such policy, or it cannot be loaded.
    """
    if isinstance(spec, str):
        spec = ModelSpec(spec, Path.cwd())
    kind, text, spec = _parse(spec)
    if kind is not None and extensions.is_built_in(extensions.policies()[kind.name]):
        return kind.load(text, spec)
    # The only way in which users' code learns the device.
    os.environ[DEVICE] = resolved(spec.device)
    with reads_noted(spec):
        return kind.load(text, spec) if kind else _load_callable(spec, text)


def digest_of(policy: object, spec: ModelSpec) -> str | None:
    """Return a loaded policy's own digest, or else `policy_digest`. Raises VlaError."""
    own = getattr(policy, "digest", None)
    return digest_with(own, _parse(spec)[2].arguments, spec.folder) if isinstance(own, str) else policy_digest(spec)


def policy_digest(spec: ModelSpec) -> str | None:
    """Return a digest of a policy's content, which distinguishes its versions in records.

    It is the sha256 (hex) over the user's own files of ``module:callable`` (`own_files_digest`), of the replayed npz
    file, or over a checkpoint's files; arguments are included, with the content of files that they name. It is None if
    no file defines the policy, if the module is not loaded, or if a server on the network has the weights and does not
    report a digest. Raises VlaError.
    """
    kind, text, spec = _parse(spec)
    if kind is not None:
        digest = kind.digest(text, spec)
    else:
        digest = own_files_digest(spec, sys.modules.get(spec.text.partition(":")[0]))
    return digest_with(digest, spec.arguments, spec.folder)


def _usage(names: tuple[str, ...]) -> str:
    return ", ".join([*names, *usages()]) + ", module:callable[?NAME=VALUE&...] (yours)"


def _parse(spec: ModelSpec) -> tuple[PolicyType | None, str, ModelSpec]:
    """Return the policy type, the text after the colon, and the spec with its arguments.

    The type is None for ``module:callable``.
    """
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
        # If a text is required, the mark may be part of it.
        raise VlaError(f"--vla-model={model}: {kind.name} takes no arguments; write --vla-model={kind.usage}")
    else:
        _, colon, text = model.partition(":")
    if kind.takes is None and colon:
        raise VlaError(f"--vla-model={model}: {kind.name} takes nothing after it; write --vla-model={kind.usage}")
    if kind.takes and not text and (kind.required or (colon and kind.checkpoints)):
        raise VlaError(f"--vla-model={model}: {kind.takes} is missing; write --vla-model={kind.usage}")
    return kind, text, spec


def _checkpoint(spec: ModelSpec, name: str, after: str) -> tuple[PolicyType, str, ModelSpec]:
    """Return the policy type of ``NAME@CHECKPOINT``, and ``@CHECKPOINT`` as its text; `after` has to be empty."""
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
    _check_within(loaded, spec)
    for part in attribute.split("."):
        if not hasattr(loaded, part):
            names = [name for name in vars(loaded) if not name.startswith("_")] if hasattr(loaded, "__dict__") else []
            raise VlaError(f"--vla-model={model}: {place} has no {part!r}.{did_you_mean(part, names)}")
        loaded = getattr(loaded, part)
    target = f"--vla-model={model}: {place}: {attribute}"
    if MARK in model or is_called_without_arguments(loaded):
        inner = loaded.func if isinstance(loaded, functools.partial) else loaded
        _check_within(sys.modules.get(str(getattr(inner, "__module__", ""))), spec)
        loaded = policy_with_arguments(loaded, spec.arguments, target, model)
        return checked_policy(loaded, f"{target} with its arguments is {type(loaded).__name__}")
    if isinstance(loaded, type) and hasattr(loaded, "begin") and hasattr(loaded, "act"):
        raise VlaError(
            f"{target} is a class that needs arguments. Expose an instance (policy = {loaded.__name__}(...)), or have "
            f"the class called with its arguments: --vla-model='{model}{MARK}NAME=VALUE'"
        )
    policy = checked_policy(loaded, f"{target} is {type(loaded).__name__}")
    if not is_batch_policy(policy):
        check_is_called_with_an_episode(policy, target, model)
    return policy


def _check_within(module: object, spec: ModelSpec) -> None:
    """Refuse what another module defines than one of the project, if results name it: it would get their arguments."""
    file = getattr(module, "__file__", None)
    if spec.within and not (file and is_of_project(Path(file), Path(spec.within))):
        where = f"{getattr(module, '__name__', 'its code')}, which is not in the project {spec.within}"
        raise VlaError(
            f"--vla-model={spec.text}: results name it, and it is of {where}, so others may have written it. Inspect "
            f"it, then add --vla-model={shlex.quote(spec.text)} to run it"
        )


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
