"""The arguments of a policy: ``--vla-model='module:policy?ckpt=best.pt&temperature=0.5'``."""

import functools
import hashlib
import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pytest_vla.errors import VlaError
from pytest_vla.policies.spec import ARGUMENTS_MARK as MARK
from pytest_vla.policies.spec import file_digest
from pytest_vla.util.text import did_you_mean
from pytest_vla.util.warnings import describe

Arguments = tuple[tuple[str, str], ...]
"""Names and texts, sorted by name."""

_SAYS_OF_ITSELF = ("privileged", "replan", "digest", "traits")


def split_arguments(model: str) -> tuple[str, Arguments]:
    """Split the text of a policy into the text without its arguments and the arguments.

    Raises:
        VlaError: the arguments are not written as NAME=VALUE&NAME=VALUE, or a name is given twice.
    """
    text, mark, query = model.partition(MARK)
    found: dict[str, str] = {}
    for part in query.split("&") if mark and query else ():
        name, equals, value = part.partition("=")
        if not equals or not name.isidentifier():
            raise VlaError(
                f"--vla-model={model}: expected NAME=VALUE&NAME=VALUE after the {MARK}, got {part!r}. Within a "
                "value, write %26 for & and %25 for %."
            )
        if name in found:
            raise VlaError(f"--vla-model={model}: {name} is given twice")
        found[name] = unquote(value)
    return text, tuple(sorted(found.items()))


def merged(model: str, query: str) -> str:
    """Return the text of a policy with the arguments of `query` added; they override arguments of the same name.

    Raises:
        VlaError: as for `split_arguments`.
    """
    text, own = split_arguments(model)
    _, further = split_arguments(f"{text}{MARK}{query}")
    together = {**dict(own), **dict(further)}
    listed = "&".join(f"{name}={_quoted(value)}" for name, value in sorted(together.items()))
    return f"{text}{MARK}{listed}"


def with_arguments(target: Any, arguments: Arguments, found: str, model: str, *, before: int = 0) -> Any:
    """Return `target` with these arguments bound as keywords.

    A text that is written as a number, True or False becomes one, unless the parameter is annotated ``str``.

    Args:
        target: a function, a class, or another callable object.
        arguments: the arguments as written.
        found: a description of `target`, for messages.
        model: the text that names the policy.
        before: how many positional arguments `target` is called with.

    Raises:
        VlaError: `target` takes no such argument (with close matches), or a required one is missing.
    """
    signature = _signature(target, found)
    keywords = _keywords(signature, arguments, found, before)
    if lacking := _lacking(signature, keywords)[before:]:
        raise VlaError(_lacks(found, [each.name for each in lacking], model))
    return functools.partial(target, **keywords)


def check_is_called_with_an_episode(target: Any, found: str, model: str) -> None:
    """Check that a user's own policy without arguments can be called with an episode and nothing else.

    Args:
        target: the object that ``module:callable`` names.
        found: a description of `target`, for messages.
        model: the text that names the policy.

    Raises:
        VlaError: it requires more arguments, or takes no episode. Without this check every episode would fail.
    """
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None)
        return
    except TypeError:
        pass
    lacking = _lacking(signature, {})
    if lacking[_takes_episode(lacking) :]:
        raise VlaError(_lacks_beside_episode(found, lacking, model))
    raise VlaError(f"{found} takes no episode. If it returns the policy, have it called: --vla-model='{model}{MARK}'")


def is_called_without_arguments(target: object) -> bool:
    """Whether ``module:callable`` names a class whose arguments all have defaults, and none is named for the episode.

    Such a class is called once and its instance is the policy. A class that takes the episode makes the sessions.
    """
    if not isinstance(target, type):
        return False
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return False
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(
        each.kind in optional or (each.default is not inspect.Parameter.empty and each.name != "episode")
        for each in parameters
    )


def policy_with_arguments(target: Any, arguments: Arguments, found: str, model: str) -> Any:
    """Return a user's own policy with its arguments bound.

    A target that can be called with these arguments alone, such as a class, is called, and its result is the policy. A
    target that requires one more argument, the episode, is the policy itself; it gets the arguments beside the episode.

    Args:
        target: the object that ``module:callable`` names.
        arguments: the arguments as written; possibly none.
        found: a description of `target`, for messages.
        model: the text that names the policy.

    Raises:
        VlaError: as for `with_arguments`, or the call raised.
    """
    if not callable(target):
        raise VlaError(f"{found} takes no arguments. Name its class, or a function that returns a policy.")
    signature = _signature(target, found)
    keywords = _keywords(signature, arguments, found, 0)
    lacking = _lacking(signature, keywords)
    if len(lacking) == 1 and _takes_episode(lacking) and not isinstance(target, type):
        policy = functools.partial(target, **keywords)
        for name in _SAYS_OF_ITSELF:
            if hasattr(target, name):
                setattr(policy, name, getattr(target, name))
        return policy
    if lacking and isinstance(target, type):
        raise VlaError(_lacks(found, [each.name for each in lacking], model))
    if lacking:
        raise VlaError(_lacks_beside_episode(found, lacking, model))
    try:
        return target(**keywords)
    except VlaError:
        raise
    except (Exception, SystemExit) as error:
        given = ", ".join(f"{name}={value!r}" for name, value in keywords.items())
        raise VlaError(f"{found}({given}) raised {describe(error)}") from error


def digest_with(digest: str | None, arguments: Arguments, folder: Path) -> str | None:
    """Return the digest of a policy with its arguments and the content of the files that the arguments name.

    Args:
        digest: the digest of the policy without arguments, or None if it is not known.
        arguments: the arguments as written; without any, the digest is returned unchanged.
        folder: the folder that relative paths start from.
    """
    if not arguments or digest is None:
        return digest
    files = {name: _digest_of(folder / text) for name, text in arguments if text}
    told = json.dumps([digest, list(arguments), {name: each for name, each in files.items() if each}], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()


def _digest_of(path: Path) -> str | None:
    try:
        return file_digest(path) if path.is_file() else None
    except (OSError, ValueError):
        # Too long for a path, or with a zero byte in it.
        return None


def _signature(target: Callable[..., Any], found: str) -> inspect.Signature:
    try:
        return inspect.signature(target)
    except (TypeError, ValueError) as error:
        raise VlaError(f"{found}: its arguments cannot be read: {error}") from error


def _keywords(signature: inspect.Signature, arguments: Arguments, found: str, before: int) -> Mapping[str, Any]:
    parameters = list(signature.parameters.values())[before:]
    named = (each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY))
    # The caller of a policy provides the episode.
    known = {each.name: each for each in named if each.name != "episode"}
    takes_all = any(each.kind == each.VAR_KEYWORD for each in parameters)
    for name, _ in arguments:
        if name not in known and (name == "episode" or not takes_all):
            takes = f"It takes {', '.join(known)}." if known else "It takes none."
            raise VlaError(f"{found} takes no argument {name!r}.{did_you_mean(name, known)} {takes}")
    return {name: _value(text, known.get(name)) for name, text in arguments}


def _lacking(signature: inspect.Signature, keywords: Mapping[str, Any]) -> list[inspect.Parameter]:
    """Return the parameters that have neither a default nor one of these arguments."""
    return [
        each
        for each in signature.parameters.values()
        if each.default is each.empty
        and each.name not in keywords
        and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]


def _takes_episode(lacking: Sequence[inspect.Parameter]) -> bool:
    """Whether the first missing parameter can be the episode that a policy is called with."""
    return bool(lacking) and lacking[0].kind != lacking[0].KEYWORD_ONLY


def _lacks_beside_episode(found: str, lacking: Sequence[inspect.Parameter], model: str) -> str:
    names = [each.name for each in lacking[_takes_episode(lacking) :]]
    first = lacking[0].name
    if first in (*names, "episode"):
        return _lacks(found, names, model)
    return f"{_lacks(found, names, model)} ({first} receives the episode)"


def _lacks(found: str, names: Sequence[str], model: str) -> str:
    text, own = split_arguments(model)
    together = "&".join([*(f"{name}={_quoted(value)}" for name, value in own), *(f"{name}=..." for name in names)])
    listed = f"argument{'s' if len(names) > 1 else ''} {', '.join(names)}"
    return f"{found} requires the {listed}; write --vla-model='{text}{MARK}{together}'"


def _value(text: str, parameter: inspect.Parameter | None) -> Any:
    if parameter is not None and parameter.annotation in (str, "str"):
        return text
    if text in ("true", "True", "false", "False"):
        return text in ("true", "True")
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        return int(text)
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return float(text)
    return text


def _quoted(value: str) -> str:
    return value.replace("%", "%25").replace("&", "%26")
