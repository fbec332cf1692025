"""What names the content of a policy in memory: it may not stay while weights change."""

import functools
import logging
import math
import os
import random
import re
import subprocess
import sys
import threading
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from threading import Condition
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import VlaError
from pytest_vla.policies import in_memory_digest
from pytest_vla.policies.in_memory_digest import content_digest, live_digest, weights_digest

REPOSITORY = Path(__file__).parents[2]
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


class Scaled(Weighted):
    """Acts by more than its weights."""

    kind = "class"

    def __init__(self, **attributes: Any) -> None:
        super().__init__(arrays())
        self.scale, self.inner = 1.0, Plain()
        vars(self).update(attributes)


class Slotted:
    __slots__ = ("scale", "weights")

    def __init__(self, scale: float) -> None:
        self.weights, self.scale = arrays(), scale


@dataclass
class Config:
    horizon: int = 8
    names: tuple[str, ...] = ("state",)
    table: dict[str, Any] = field(default_factory=lambda: {"mean": np.zeros(2)})


class Mode(Enum):
    FAST = 1
    SLOW = 2


class Unit(np.ndarray):
    pass


def unit(name: str) -> Unit:
    made = np.zeros(2).view(Unit)
    made.unit = name  # type: ignore[attr-defined]
    return made


def doubled(value: float) -> float:
    return 2 * value


def times(factor: float) -> Any:
    return lambda value: factor * value


def inner(**attributes: Any) -> Plain:
    made = Plain()
    vars(made).update(attributes)
    return made


@pytest.mark.parametrize(
    "found",
    [
        [1, 1.0, True, None, "1", b"1", -1],
        [[1, 2], (1, 2), {1, 2}, [2, 1], [[1], 2], [[1, 2]], [], deque([1, 2]), deque([1, 2], 2)],
        [{"a": 1}, {"a": 2}, {"b": 1}, OrderedDict(a=1), defaultdict(int, a=1), defaultdict(list, a=1)],
        [np.zeros(2).view(Unit), unit("m"), unit("mm"), np.zeros(2)],
        [np.zeros(2), np.ones(2), np.zeros((2, 1)), np.float32(0), np.float32(1), np.dtype("f4"), np.array([None])],
        [Config(), Config(9), Config(names=()), Config(table={"mean": np.ones(2)})],
        [Mode.FAST, Mode.SLOW, Mode],
        [doubled, times, Config, abs, math.sin, np.sin, np.cos, math],
        [times(2), times(3), partial(doubled, 2), partial(doubled, 3), partial(times, 2)],
        [inner(), inner(a=1), inner(a=2), inner(a=inner(a=1)), inner(a=inner(a=2))],
        [Config().__eq__, Config(9).__eq__, [1].append, [2].append],
        [random.Random(1), random.Random(2), np.random.default_rng(1), np.random.default_rng(2)],
        [Path("a"), Path("b"), re.compile("a"), re.compile("b"), range(2), slice(2), 2j],
    ],
    ids=lambda found: type(found[0]).__name__,
)
def test_whatever_makes_a_policy_act_otherwise_makes_another_digest(found: list[Any]) -> None:
    digests = [live_digest(Scaled(scale=each)) for each in found]
    assert digests == [live_digest(Scaled(scale=each)) for each in found], "and what is the same makes the same"
    assert len(set(digests)) == len(found)


def test_attributes_of_any_depth_and_place_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = Scaled()
    found = [live_digest(policy)]
    policy.scale = -1.0
    found.append(live_digest(policy))
    policy.inner.active = "b"
    found.append(live_digest(policy))
    policy.itself = [policy]
    found.append(live_digest(policy))
    monkeypatch.setattr(Scaled, "kind", "another")
    found.append(live_digest(policy))
    monkeypatch.setattr(Scaled, "act", times(2), raising=False)
    found.append(live_digest(policy))
    monkeypatch.setattr(Scaled, "act", times(3))
    found.append(live_digest(policy))
    found += [live_digest(Slotted(1)), live_digest(Slotted(2))]
    assert len(set(found)) == len(found)
    assert live_digest(Slotted(2)) == found[-1]


def test_what_is_harmless_does_not_make_each_call_another_policy() -> None:
    harmless = [threading.Lock(), threading.RLock(), logging.getLogger("x"), Condition(), weakref.ref(doubled), cached]
    assert live_digest(Scaled(more=harmless)) == live_digest(Scaled(more=harmless))


@functools.lru_cache
def cached() -> int:
    return 3


def opaque() -> list[Any]:
    class Local(dict[str, int]):
        def __reduce__(self) -> Any:
            return dict, ()

    class Rng(random.Random):
        pass

    unfiled: dict[str, Any] = {"__name__": "of_a_notebook"}
    exec("class Cell:\n    pass\ndef call():\n    pass", unfiled)
    generator = (each for each in "ab")
    file = memoryview(b"12")
    return [
        unfiled["Cell"](),
        unfiled["call"],
        generator,
        file,
        Rng(1),
        np.frompyfunc(doubled, 1, 1),
        weakref.proxy(opaque),
    ]


@pytest.mark.parametrize("number", range(len(opaque())))
def test_of_what_cannot_be_known_each_call_is_a_policy_by_itself(number: int) -> None:
    policy = Scaled(inner=[{"deep": opaque()[number]}])
    with pytest.raises(TypeError):
        content_digest(policy)
    assert HEX.fullmatch(live_digest(policy))
    assert live_digest(policy) != live_digest(policy)
    assert live_digest(policy, "step 3") == "step 3"


def test_digests_are_those_of_another_process() -> None:
    """Whatever seeds hashes there, and wherever objects are."""
    script = """
import re, random, sys
from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
import numpy as np
from pytest_vla.policies.in_memory_digest import content_digest
from pytest_vla.policies.fit import Traits
some = [Traits(7), re.compile("a"), random.Random(3), np.arange(3.0), OrderedDict(a=Path), {"b", "a", ("c", 1)}]
found = content_digest(SimpleNamespace(some=some, again=some[0]))
"""
    own: dict[str, Any] = {}
    exec(script, own)
    env = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-c", f"{script}print(found)"]
    assert subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.strip() == own["found"]


class Tensor:
    """As far as a digest looks at torch's."""

    def __init__(self, numbers: Any) -> None:
        self.numbers = np.asarray(numbers, np.float32)
        self.dtype, self.shape, self.device = "torch.float32", self.numbers.shape, "cpu"

    def __getattr__(self, name: str) -> Any:
        if name not in ("detach", "cpu", "contiguous"):
            raise AttributeError(name)
        return lambda: self

    def reshape(self, size: int) -> "Tensor":
        return Tensor(self.numbers.reshape(size))

    def view(self, kind: Any) -> "Tensor":
        return self

    def numpy(self) -> np.ndarray:
        return self.numbers

    def stride(self) -> tuple[int, ...]:
        return self.numbers.strides

    def data_ptr(self) -> int:
        return int(self.numbers.__array_interface__["data"][0])


class Module:
    """A layer that keeps what torch's do, where they do."""

    def __init__(self) -> None:
        self.training = False
        self._parameters = {"weight": Tensor([1, 2])}
        self._buffers = {"mean": Tensor([0, 0])}
        self._non_persistent_buffers_set = {"mean"}
        self._modules: dict[str, Module] = {}
        self._forward_hooks: dict[int, Any] = {}
        self._state_dict_hooks: dict[int, Any] = {}
        self.active, self.scale = "a", 1.0

    def state_dict(self) -> Mapping[str, Any]:
        return dict(self._parameters)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    torch: Any = ModuleType("torch")
    torch.Tensor, torch.uint8, torch.nn = Tensor, "uint8", ModuleType("torch.nn")
    torch.nn.Module, torch.nn.Parameter = Module, Tensor
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch


CHANGES: dict[str, Callable[[Module], object]] = {
    "weights": lambda layer: layer._parameters.update(weight=Tensor([1, 3])),
    "in place": lambda layer: layer._parameters["weight"].numbers.__iadd__(1),
    "active adapter": lambda layer: setattr(layer, "active", "b"),
    "scale": lambda layer: setattr(layer, "scale", 2.0),
    "a buffer that is not saved": lambda layer: layer._buffers["mean"].numbers.__iadd__(1),
    "training": lambda layer: setattr(layer, "training", True),
    "hook": lambda layer: layer._forward_hooks.update({0: doubled}),
    "class": lambda layer: setattr(layer, "__class__", Wider),
}


class Wider(Module):
    pass


@pytest.mark.parametrize("change", CHANGES)
def test_a_module_is_all_that_it_has_not_only_its_weights(torch: Any, change: str) -> None:
    for place in ("itself", "layer of it"):
        model = Module()
        model._modules["layer"] = Module()
        holder = Weighted(None)
        vars(holder).update(model=model, weights=model)
        before = [live_digest(model), live_digest(holder), live_digest(None, model)]
        assert before == [live_digest(model), live_digest(holder), live_digest(None, model)]
        CHANGES[change](model if place == "itself" else model._modules["layer"])
        after = [live_digest(model), live_digest(holder), live_digest(None, model)]
        assert not set(before) & set(after), place


def test_how_a_module_is_saved_is_not_how_it_acts(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    own = in_memory_digest._NOT_OF_ANSWERS
    monkeypatch.setitem(own, Module.__module__.partition(".")[0], own["torch"])
    model = Module()
    before = live_digest(model)
    model._state_dict_hooks[0] = doubled
    assert live_digest(model) == before
    model._forward_hooks[0] = doubled
    assert live_digest(model) != before


class Covered(Tensor):
    pass


def test_a_tensor_that_covers_others_is_unknown(torch: Any) -> None:
    model = Module()
    model._parameters["weight"] = Covered([1, 2])
    assert live_digest(model) != live_digest(model)
