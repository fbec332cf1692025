"""A policy's noise: generators seeded by run, case and step, and the encoding of their state in messages."""

import hashlib
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pytest_vla.errors import WireError


def noise_generator(run_seed: int, case_id: str) -> np.random.Generator:
    """Return the generator of an episode at its begin; it is reseeded before every question."""
    return np.random.Generator(_noise(run_seed, case_id, None))


def reseed(noise: np.random.Generator, run_seed: int, case_id: str, step: int) -> None:
    """Seed an episode's generator for the question after control step `step`.

    A policy's draws are thereby a function of run seed, case and step, independent of earlier draws.
    """
    noise.bit_generator.state = _noise(run_seed, case_id, step).state


def _noise(run_seed: int, case_id: str, step: int | None) -> np.random.PCG64:
    case = int.from_bytes(hashlib.sha256(case_id.encode()).digest()[:16], "big")
    moment = (0,) if step is None else (1, step)
    return np.random.PCG64(np.random.SeedSequence([run_seed, case], spawn_key=moment))


def pack_noise(noise: np.random.Generator) -> list[Any]:
    """Return the state of a PCG64 generator as values for a message."""
    state = noise.bit_generator.state
    numbers = state["state"]
    wide = [number.to_bytes(16, "big") for number in (numbers["state"], numbers["inc"])]
    return [*wide, state["has_uint32"], state["uinteger"]]


def set_noise(noise: np.random.Generator, packed: Any) -> None:
    """Set a PCG64 generator to a state from `pack_noise`. Raises WireError if it is not one."""
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


# Python's, numpy's and torch's global generators, seeded for a policy that draws from them, not from `Episode.rng`.


def seed_globals(noises: Sequence[np.random.Generator]) -> None:
    """Seed the global generators from the generators of the episodes that ask; nothing is drawn from these.

    torch's generators are seeded if torch is already imported, including those of devices in use.

    Args:
        noises: the generator of one episode, or of all episodes of a batch in its order: the draws then depend
            on all of them. If empty, nothing is seeded.
    """
    if not noises:
        return
    states = [noise.bit_generator.state["state"] for noise in noises]
    seed = int.from_bytes(hashlib.sha256(repr(states).encode()).digest()[:8], "big")
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch, generator = _torch()
    if generator is not None:
        generator.manual_seed(seed % 2**63)
        # A device that is not in use yet starts with a fixed seed of its own.
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(seed % 2**63)
        if torch.backends.mps.is_available():
            torch.mps.manual_seed(seed % 2**63)


@contextmanager
def globals_put_back() -> Iterator[None]:
    """Restore the global generators after a block, except for those of torch's devices.

    Reading the state of a device would have to wait for it. Restoring takes ten times as long as seeding, so it
    surrounds an episode, not a question.
    """
    python, numpy = random.getstate(), np.random.get_state()
    _, generator = _torch()
    before = None if generator is None else generator.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if generator is not None:
            generator.set_state(before)


@contextmanager
def all_globals_put_back() -> Iterator[None]:
    """Restore the global generators after a block, including torch's on devices.

    For rare use: reading the state of a device waits for it.
    """
    torch, _ = _torch()
    cuda = mps = None
    if torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized():
        cuda = torch.cuda.get_rng_state_all()
    if torch is not None and hasattr(torch, "backends") and torch.backends.mps.is_available():
        mps = torch.mps.get_rng_state()
    with globals_put_back():
        try:
            yield
        finally:
            if cuda is not None:
                torch.cuda.set_rng_state_all(cuda)
            if mps is not None:
                torch.mps.set_rng_state(mps)


def _torch() -> tuple[Any, Any]:
    """Return torch and its CPU generator, or None for each that is not imported."""
    torch = sys.modules.get("torch")
    # The module may be a different one of that name, or may still be importing.
    return torch, getattr(torch, "default_generator", None)
