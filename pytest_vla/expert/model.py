"""``--vla-model=expert``."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.policies.kind import Kind
from pytest_vla.policies.spec import ModelSpec

if TYPE_CHECKING:
    from pytest_vla.policies.base import Policy


def _load(text: str, spec: ModelSpec) -> "Policy":
    # It brings MuJoCo with it.
    from pytest_vla.expert.policy import expert_policy

    return expert_policy


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


EXPERT = Kind("expert", "expert", None, _load, digest=_digest)
