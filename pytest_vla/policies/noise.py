"""A policy's noise: generators seeded by run, case and step, and their state as a message holds it."""

import hashlib
from typing import Any

import numpy as np

from pytest_vla.errors import WireError


def noise_generator(run_seed: int, case_id: str) -> np.random.Generator:
    """The generator of an episode as it is when the episode begins; before every question it is seeded anew."""
    return np.random.Generator(_noise(run_seed, case_id, None))


def reseed(noise: np.random.Generator, run_seed: int, case_id: str, step: int) -> None:
    """Seed an episode's generator for the question after control step `step`.

    What a policy draws is thereby a function of run seed, case and step, however much it drew before.
    """
    noise.bit_generator.state = _noise(run_seed, case_id, step).state


def _noise(run_seed: int, case_id: str, step: int | None) -> np.random.PCG64:
    case = int.from_bytes(hashlib.sha256(case_id.encode()).digest()[:16], "big")
    moment = (0,) if step is None else (1, step)
    return np.random.PCG64(np.random.SeedSequence([run_seed, case], spawn_key=moment))


def pack_noise(noise: np.random.Generator) -> list[Any]:
    """The state of a PCG64 generator as a message can hold it."""
    state = noise.bit_generator.state
    numbers = state["state"]
    wide = [number.to_bytes(16, "big") for number in (numbers["state"], numbers["inc"])]
    return [*wide, state["has_uint32"], state["uinteger"]]


def set_noise(noise: np.random.Generator, packed: Any) -> None:
    """Gives a PCG64 generator the state that `pack_noise` read. Raises WireError where it is none."""
    try:
        value, increment, has_uint32, uinteger = packed
        noise.bit_generator.state = {
            "bit_generator": "PCG64",
            "state": {"state": int.from_bytes(value, "big"), "inc": int.from_bytes(increment, "big")},
            "has_uint32": has_uint32,
            "uinteger": uinteger,
        }
    except (TypeError, ValueError, OverflowError) as error:
        raise WireError(f"no state of a generator: {error}") from error
