"""The kinds of ``--vla-model=KIND:TEXT``: those that come with pytest-vla, and those that packages and projects add."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_vla import extensions, hook_modules
from pytest_vla.entries import PolicyEntry
from pytest_vla.errors import VlaError
from pytest_vla.policies.arguments import with_arguments
from pytest_vla.policies.files import file_digest
from pytest_vla.policies.kind import Kind
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.util.tracebacks import describe

if TYPE_CHECKING:
    from pytest_vla.policies.base import BatchPolicy, Policy


def kind_names() -> tuple[str, ...]:
    """The names of all kinds. Imports none of them."""
    return tuple(extensions.policies())


def find_kind(name: str) -> Kind | None:
    """The kind of a name; None: there is none. Raises VlaError where its package cannot be used."""
    entry = extensions.policies().get(name)
    return None if entry is None else _kind(entry)


def all_kinds() -> tuple[Kind, ...]:
    """Every kind. Raises VlaError where a package cannot be used."""
    return tuple(kind for name in kind_names() if (kind := find_kind(name)) is not None)


def usages() -> tuple[str, ...]:
    """How every kind that is offered is written, for messages."""
    return tuple(kind.usage for kind in all_kinds() if kind.offered)


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


@hook_modules.until_changed
def _kind(entry: PolicyEntry) -> Kind:
    if entry.kind:
        kind = extensions.load(replace(entry, load=entry.kind))
        if not isinstance(kind, Kind):
            whose = f"{entry.origin}: {entry.kind}"
            raise VlaError(f"{whose} is {type(kind).__name__}, expected pytest_vla.policies.kind.Kind")
        return kind

    def load(text: str, spec: ModelSpec) -> "Policy | BatchPolicy":
        doing = f"--vla-model={spec.text}: {entry.load} of {entry.origin}"
        try:
            make = extensions.load(entry)
        except VlaError as error:
            raise VlaError(f"--vla-model={spec.text}: {error}") from error
        if not callable(make):
            raise VlaError(f"{doing} is {type(make).__name__}, expected a function of a text that returns a policy")
        if spec.arguments:
            make = with_arguments(make, spec.arguments, doing, spec.text, before=1)
        try:
            policy = make(text)
        except VlaError:
            raise
        except (Exception, SystemExit) as error:
            raise VlaError(f"{doing}, called with {text!r}, raised {describe(error)}") from error
        return checked_policy(policy, f"{doing} made {type(policy).__name__}")

    def digest(text: str, spec: ModelSpec) -> str | None:
        file = extensions.file_of(entry)
        return None if file is None else file_digest(file)

    # Who loads it where it is not shared finds hooks that the policy's process does not.
    batches = None if hook_modules.reaches_processes(entry.origin) else False
    return Kind(
        entry.name,
        f"{entry.name}[:TEXT][?NAME=VALUE]",
        "TEXT",
        load,
        digest=digest,
        required=False,
        batches=batches,
        arguments=True,
    )
