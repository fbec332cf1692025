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

import numpy as np

from pytest_vla.errors import VlaError
from pytest_vla.policies.files import module_digest
from pytest_vla.util.tracebacks import describe

_LONGEST = 200


def live_digest(policy: object, given: object = None) -> str:
    """The digest for the records of a policy in memory.

    Args:
        policy: the policy.
        given: a text that names the weights, or the weights themselves, as for `weights_digest`; None: those that the
            policy shows: its attribute ``weights``, or itself where it is a torch module, and beside them its text
            ``digest`` and the file of its class; else that text alone, which is the policy's word that it names what is
            in memory now; else a text that no other call has.

    Raises:
        VlaError: what is given is neither.
    """
    if isinstance(given, str):
        if not given.strip() or len(given) > _LONGEST or not given.isprintable():
            expected = f"expected a text of 1 to {_LONGEST} printable characters"
            raise VlaError(f"evaluate: digest is {given!r:.60}, {expected}")
        return given
    if given is not None:
        try:
            return weights_digest(given)
        except Exception as error:
            expected = "expected a text, a torch module, or arrays or tensors by name"
            raise VlaError(f"evaluate: digest is {type(given).__name__}, {expected}: {describe(error)}") from error
    own = getattr(policy, "digest", None)
    own = own if isinstance(own, str) and own else None
    weights = getattr(policy, "weights", None)
    if weights is None and is_torch_module(policy):
        weights = policy
    if weights is None:
        return own or secrets.token_hex(32)
    try:
        of_weights = weights_digest(weights)
    except Exception:
        # Of a kind that cannot be read; nobody knows whether it changes.
        return secrets.token_hex(32)
    code = module_digest(type(policy).__module__)
    return hashlib.sha256(repr((of_weights, own, code)).encode()).hexdigest()


def weights_digest(weights: Any) -> str:
    """sha256 (hex) over names, types, shapes and content of weights, wherever they are.

    Args:
        weights: a torch module (its ``state_dict``), or arrays or tensors by name.

    Raises:
        TypeError: it is something else, or has something else in it.
    """
    table = weights.state_dict() if hasattr(weights, "state_dict") else weights
    if not isinstance(table, Mapping) or not table:
        raise TypeError(f"{type(weights).__name__} has no weights by name")
    content = hashlib.sha256()
    for name in sorted(table, key=str):
        kind, shape, data = _content(table[name])
        content.update(repr((str(name), kind, shape)).encode())
        content.update(data)
    return content.hexdigest()


def is_torch_module(policy: object) -> bool:
    """Whether it is a ``torch.nn.Module``; torch is not imported for it."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and hasattr(torch, "nn") and isinstance(policy, torch.nn.Module)


def _content(value: Any) -> tuple[str, tuple[int, ...], Any]:
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        flat = value.detach().cpu().contiguous().reshape(-1)
        # numpy knows no bfloat16.
        return str(value.dtype), tuple(value.shape), flat.view(torch.uint8).numpy().data
    array = np.asarray(value)
    if array.dtype.kind not in "buifc":
        raise TypeError(f"{type(value).__name__} is no array of numbers")
    return str(array.dtype), array.shape, np.ascontiguousarray(array).tobytes()
