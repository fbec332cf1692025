"""``--vla-model=expert``."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.policies.kind import Kind
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.util.text import did_you_mean

if TYPE_CHECKING:
    from pytest_vla.policies.base import Policy


_SAID = {"yes": True, "no": False, "true": True, "false": False}


def _load(text: str, spec: ModelSpec) -> "Policy":
    # It brings MuJoCo with it.
    from pytest_vla.expert.policy import careless_policy, expert_policy

    return expert_policy if _careful(text, spec) else careless_policy


def _careful(text: str, spec: ModelSpec) -> bool:
    """What the arguments say. Raises VlaError."""
    for name, value in spec.arguments:
        if name != "careful":
            close = did_you_mean(name, ["careful"])
            raise VlaError(f"--vla-model={spec.text}: the expert takes no argument {name!r}.{close} It takes careful.")
        if value.lower() not in _SAID:
            raise VlaError(f"--vla-model={spec.text}: careful is {value!r}, expected yes or no")
    return all(_SAID[value.lower()] for _, value in spec.arguments)


def _check(text: str, spec: ModelSpec) -> None:
    _careful(text, spec)


def _digest(text: str, spec: ModelSpec) -> str | None:
    import pytest_vla.expert
    from pytest_vla.sim import world_copy

    content = hashlib.sha256()
    files = [file for package in pytest_vla.expert.__path__ for file in sorted(Path(package).glob("*.py"))]
    # What declares it to others is not what it does.
    files = [file for file in files if file.name not in ("extension.py", "model.py")]
    for file in [*files, Path(world_copy.__file__)]:
        content.update(file.read_bytes())
    return content.hexdigest()


EXPERT = Kind("expert", "expert", None, _load, check=_check, digest=_digest, arguments=True, draws=False)
