"""The generators that are nobody's own, around a question of a policy."""

import random
import sys
import types
from typing import Any

import numpy as np
import pytest

from pytest_vla.policies.generators import all_globals_put_back, globals_put_back, noise_generator, reseed, seed_globals


def noise(case: str = "goal/stove[seed0]", step: int = 3) -> np.random.Generator:
    generator = noise_generator(0, case)
    reseed(generator, 0, case, step)
    return generator


def drawn(*noises: np.random.Generator) -> tuple[float, float]:
    with globals_put_back():
        seed_globals(noises)
        return random.random(), float(np.random.random())


def test_what_is_drawn_follows_from_the_question() -> None:
    assert drawn(noise()) == drawn(noise())
    others = [drawn(noise(step=4)), drawn(noise("goal/bowl[seed0]")), drawn(noise(), noise(step=4))]
    assert len({drawn(noise()), *others}) == 4


def test_afterwards_all_is_as_it_was() -> None:
    random.seed(7)
    np.random.seed(7)
    expected = random.random(), float(np.random.random())
    random.seed(7)
    np.random.seed(7)
    own = noise()
    with globals_put_back():
        seed_globals([own])
        random.random(), np.random.random()
    assert (random.random(), float(np.random.random())) == expected
    assert own.random() == noise().random(), "nothing is drawn from the episode's"


def test_without_episodes_nothing_is_seeded() -> None:
    random.seed(7)
    seed_globals([])
    first = random.random()
    random.seed(7)
    assert random.random() == first


class Generator:
    def __init__(self) -> None:
        self.state = 0

    def get_state(self) -> int:
        return self.state

    def set_state(self, state: int) -> None:
        self.state = state

    manual_seed = set_state


@pytest.mark.parametrize("touched", [True, False])
def test_torchs_are_seeded_where_it_is_imported(monkeypatch: pytest.MonkeyPatch, touched: bool) -> None:
    torch: Any = types.ModuleType("torch")
    seeds: list[int] = []
    torch.default_generator = Generator()
    torch.cuda = types.SimpleNamespace(is_initialized=lambda: touched, manual_seed_all=seeds.append)
    torch.backends = types.SimpleNamespace(mps=types.SimpleNamespace(is_available=lambda: False))
    monkeypatch.setitem(sys.modules, "torch", torch)
    with globals_put_back():
        seed_globals([noise()])
        within = torch.default_generator.state
    assert within > 0
    assert torch.default_generator.state == 0
    assert seeds == ([within] if touched else [])


def test_a_module_of_its_name_that_is_none_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    assert len(drawn(noise())) == 2


@pytest.mark.parametrize("in_use", [False, True])
def test_those_of_devices_are_put_back_too(monkeypatch: pytest.MonkeyPatch, in_use: bool) -> None:
    torch: Any = types.ModuleType("torch")
    torch.default_generator = Generator()
    states = {"cuda": [5, 6], "mps": 7}

    def refused() -> None:
        raise AssertionError("a device that nobody uses is not to be used now")

    torch.cuda = types.SimpleNamespace(
        is_initialized=lambda: in_use,
        get_rng_state_all=(lambda: list(states["cuda"])) if in_use else refused,  # type: ignore[call-overload]
        set_rng_state_all=lambda state: states.update(cuda=state),
        manual_seed_all=lambda seed: states.update(cuda=[seed, seed]),
    )
    torch.backends = types.SimpleNamespace(mps=types.SimpleNamespace(is_available=lambda: in_use))
    torch.mps = types.SimpleNamespace(
        get_rng_state=lambda: states["mps"],
        set_rng_state=lambda state: states.update(mps=state),
        manual_seed=lambda seed: states.update(mps=seed),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    with all_globals_put_back():
        seed_globals([noise()])
        assert (states["cuda"] != [5, 6]) is in_use
    assert states == {"cuda": [5, 6], "mps": 7}
    assert torch.default_generator.state == 0
