"""The device of a policy if ``--vla-device`` is ``auto``; found without importing torch if possible."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Names of devices, the environment variable with the device, and limits of questions.

REQUEST_TIMEOUT = 60.0
"""Default of ``--vla-policy-timeout``: seconds that a policy in another process has for an answer."""

DEFAULT_BATCH = 32
"""Questions that a policy answers at once, at most, where ``--vla-max-batch`` is not given."""

AUTO = "auto"
"""The first available device: cuda, mps or cpu."""

DEVICE = "PYTEST_VLA_DEVICE"
"""The environment variable with the device for a user's own policy: torch's name of one, never `AUTO`."""


_CPU = "cpu"
_NVIDIA = "nvidia[0-9]*"
_SIGNS = (_NVIDIA, "nvidiactl", "nvmap", "dxg", "kfd")
"""Drivers under ``/dev`` for NVIDIA (also Jetson, and in WSL) and AMD. Without any of them torch finds no device."""


def resolved(device: str, dev: Path = Path("/dev"), environment: Mapping[str, str] = os.environ) -> str:
    """Return the name of a device; for `AUTO`, the available one: ``cuda``, ``mps`` or ``cpu``.

    torch decides if it is installed. Its import takes seconds, so it happens only if torch may find a device.

    Args:
        device: the value of ``--vla-device``.
        dev: the folder of device files.
        environment: the environment of this process.
    """
    if device != AUTO:
        return device
    if "torch" in sys.modules:
        return first_there_is(sys.modules["torch"])
    if sys.platform == "linux" and not any(found for sign in _SIGNS for found in dev.glob(sign)):
        return _CPU
    if importlib.util.find_spec("torch") is None:
        # The policy may use jax, for example.
        hidden = environment.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1")
        return "cuda" if any(dev.glob(_NVIDIA)) and not hidden else _CPU
    try:
        return first_there_is(importlib.import_module("torch"))
    except Exception:
        # A broken torch is reported when the policy itself imports it.
        return _CPU


def first_there_is(torch: Any) -> str:
    """Return ``cuda``, ``mps`` or ``cpu``: the first device that torch has."""
    there = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available, _CPU: lambda: True}
    return next(name for name, is_there in there.items() if is_there())
