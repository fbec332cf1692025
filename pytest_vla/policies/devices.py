"""Which device there is, for policies that are told ``auto``; finds it without torch where it can."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Names of devices and of what tells one, and how long a question may take.

REQUEST_TIMEOUT = 60.0
"""Seconds that a policy in another process has for an answer, where ``--vla-policy-timeout`` is not given."""

DEFAULT_BATCH = 32
"""Questions that a policy answers at once, at most, where ``--vla-max-batch`` is not given."""

AUTO = "auto"
"""The device that there is: cuda, mps, cpu."""

DEVICE = "PYTEST_VLA_DEVICE"
"""The environment variable in which a user's own policy finds its device: torch's name of one, never `AUTO`."""


_CPU = "cpu"
_NVIDIA = "nvidia[0-9]*"
_SIGNS = (_NVIDIA, "nvidiactl", "nvmap", "dxg", "kfd")
"""Under ``/dev``: drivers of NVIDIA's (also Jetson's, and in WSL) and AMD's. Where none is, torch finds no device."""


def resolved(device: str, dev: Path = Path("/dev"), environment: Mapping[str, str] = os.environ) -> str:
    """A device's name as it is, and for `AUTO` that of the device there is: ``cuda``, ``mps`` or ``cpu``.

    torch decides, where it is installed. It takes seconds to import, which is done only where it may find something.

    Args:
        device: of ``--vla-device``.
        dev: where devices are files.
        environment: of this process.
    """
    if device != AUTO:
        return device
    if "torch" in sys.modules:
        return first_there_is(sys.modules["torch"])
    if sys.platform == "linux" and not any(found for sign in _SIGNS for found in dev.glob(sign)):
        return _CPU
    if importlib.util.find_spec("torch") is None:
        # Such as a policy in jax.
        hidden = environment.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1")
        return "cuda" if any(dev.glob(_NVIDIA)) and not hidden else _CPU
    try:
        return first_there_is(importlib.import_module("torch"))
    except Exception:
        # One that is broken is told where the policy itself imports it.
        return _CPU


def first_there_is(torch: Any) -> str:
    """``cuda``, ``mps`` or ``cpu``: the first that torch has."""
    there = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available, _CPU: lambda: True}
    return next(name for name, is_there in there.items() if is_there())
