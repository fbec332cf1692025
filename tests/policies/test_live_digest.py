"""What names the content of a policy in memory: it may not stay while weights change."""

import re
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import VlaError
from pytest_vla.policies.live_digest import live_digest, weights_digest

HEX = re.compile("[0-9a-f]{64}")


class Plain:
    pass


class Weighted:
    def __init__(self, weights: Any, digest: str | None = None) -> None:
        self.weights, self.digest = weights, digest


def arrays(value: float = 1.0) -> dict[str, np.ndarray]:
    return {"one": np.full((2, 3), value, np.float32), "two": np.zeros(2)}


def test_of_unknown_weights_each_call_is_a_policy_by_itself() -> None:
    policy = Plain()
    assert live_digest(policy) != live_digest(policy)
    assert HEX.fullmatch(live_digest(policy))
    assert live_digest(lambda episode: None) != live_digest(lambda episode: None)


def test_weights_that_are_shown_are_hashed() -> None:
    policy = Weighted(arrays())
    before = live_digest(policy)
    assert before == live_digest(policy) == live_digest(Weighted(arrays()))
    policy.weights["one"][0, 0] += 1
    assert live_digest(policy) != before
    # Its own word alone may be of what was loaded once.
    assert live_digest(Weighted(arrays(), "loaded")) != live_digest(Weighted(arrays(2), "loaded"))
    assert live_digest(Weighted(arrays(), "loaded")) != before


@pytest.mark.parametrize("weights", [3, {}, [], {"one": object()}, {"one": "text"}])
def test_weights_that_cannot_be_read_are_unknown(weights: Any) -> None:
    policy = Weighted(weights, "loaded")
    assert live_digest(policy) != live_digest(policy)
    with pytest.raises(TypeError):
        weights_digest(weights)


def test_a_policys_own_word_counts_where_it_shows_no_weights() -> None:
    policy = Weighted(None, "of this checkpoint")
    assert live_digest(policy) == "of this checkpoint"


def test_what_is_given_goes_first() -> None:
    policy = Weighted(arrays(), "loaded")
    assert live_digest(policy, "step 3") == "step 3"
    assert live_digest(policy, arrays()) == weights_digest(arrays()) != live_digest(policy, arrays(2))
    for wrong in ("", " ", "two\nlines", "x" * 201):
        with pytest.raises(VlaError, match=r"digest is .*, expected a text of 1 to 200"):
            live_digest(policy, wrong)
    with pytest.raises(VlaError, match="digest is Plain, expected a text, a torch module, or arrays or tensors"):
        live_digest(policy, Plain())


def test_name_type_and_shape_are_part_of_it() -> None:
    one = np.arange(6, dtype=np.float32)
    found = [
        {"a": one},
        {"b": one},
        {"a": one.reshape(2, 3)},
        {"a": one.reshape(3, 2)},
        {"a": one.view(np.int32)},
        {"a": one, "b": one},
    ]
    assert len({weights_digest(each) for each in found}) == len(found)
    assert weights_digest({"a": one, "b": one + 1}) == weights_digest({"b": one + 1, "a": one})
    columns = one.reshape(2, 3).T
    assert weights_digest({"a": columns}) == weights_digest({"a": np.ascontiguousarray(columns)})


def test_a_module_is_its_own_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = ModuleType("torch")
    torch.Tensor = type("Tensor", (), {})
    torch.nn = ModuleType("torch.nn")

    class Module:
        def __init__(self, value: float) -> None:
            self.value = value

        def state_dict(self) -> Mapping[str, Any]:
            return arrays(self.value)

    torch.nn.Module = Module
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert live_digest(Module(1)) == live_digest(Module(1)) != live_digest(Module(2))
