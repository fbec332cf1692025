"""What names the content of a policy in memory, which may be in the middle of its training.

Records of one name and one digest are taken for the same policy, and of repeats the first counts: a digest that stays
while weights change would hide later checkpoints behind the first. Where it is not sure, each call is a policy by
itself.
"""

import hashlib
import secrets
import sys
from collections.abc import Mapping
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.policies.live_content import array_content, content_digest, is_tensor, numbers_of
from pytest_vla.util.tracebacks import describe

_LONGEST = 200


def live_digest(policy: object, given: object = None) -> str:
    """The digest for the records of a policy in memory.

    Args:
        policy: the policy.
        given: a text that names what is in memory, or arrays or tensors by name, which are hashed, or a torch module,
            of which everything is; None: where the policy shows its weights, by its attribute ``weights`` or as a torch
            module, these and all else that it consists of, see `content_digest`; else its text ``digest`` alone, which
            is the policy's word that it names what is in memory now. A text that no other call has, where there is
            neither, or where something is of a kind whose content cannot be known.

    Raises:
        VlaError: what is given is nothing of that.
    """
    if isinstance(given, str):
        if not given.strip() or len(given) > _LONGEST or not given.isprintable():
            expected = f"expected a text of 1 to {_LONGEST} printable characters"
            raise VlaError(f"evaluate: digest is {given!r:.60}, {expected}")
        return given
    if given is not None and not is_torch_module(given):
        try:
            return weights_digest(given)
        except Exception as error:
            expected = "expected a text, a torch module, or arrays or tensors by name"
            raise VlaError(f"evaluate: digest is {type(given).__name__}, {expected}: {describe(error)}") from error
    try:
        if given is not None:
            return content_digest(given)
        weights = getattr(policy, "weights", None)
        if weights is not None or is_torch_module(policy):
            shown = weights if weights is None or is_torch_module(weights) else _by_name(weights)
            return content_digest(policy, shown, getattr(policy, "digest", None))
    except Exception:
        # Of a kind that cannot be read; nobody knows whether it changes.
        return secrets.token_hex(32)
    own = getattr(policy, "digest", None)
    return own if isinstance(own, str) and own else secrets.token_hex(32)


def weights_digest(weights: Any) -> str:
    """sha256 (hex) over names, types, shapes and content of weights, wherever they are.

    Args:
        weights: arrays or tensors by name, or what has them as its ``state_dict``.

    Raises:
        TypeError: it is something else, or has something else in it.
    """
    table = _by_name(weights)
    content = hashlib.sha256()
    for name in sorted(table, key=str):
        content.update(repr((str(name), *array_content(table[name]))).encode())
    return content.hexdigest()


def _by_name(weights: Any) -> dict[Any, Any]:
    """Weights as a table. Raises TypeError where they are none."""
    table = weights.state_dict() if hasattr(weights, "state_dict") else weights
    if not isinstance(table, Mapping) or not table:
        raise TypeError(f"{type(weights).__name__} has no weights by name")
    for value in table.values():
        if not is_tensor(value):
            numbers_of(value)
    return dict(table)


def is_torch_module(policy: object) -> bool:
    """Whether it is a ``torch.nn.Module``; torch is not imported for it."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and hasattr(torch, "nn") and isinstance(policy, torch.nn.Module)
