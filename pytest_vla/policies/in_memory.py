"""A policy in the memory of the process that started pytest, such as a training script (``live:NAME``).

`pytest_vla.evaluate` starts pytest, and writes the policy's address to a file that the environment variable `CALLER`
names. The file's folder serves one call and is accessible to this user only; pytest writes the run's folder to it.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.util.files import whole_file

CALLER = "PYTEST_VLA_CALLER"
"""The environment variable that names the file."""

LIVE = "live"
"""The text before the colon."""

_FILE, _RUN = "caller.json", "run"


@dataclass(frozen=True)
class LivePolicy:
    """A policy that answers in the process that started pytest.

    Attributes:
        name: the text after ``live:``.
        socket: the path of the Unix-domain socket where it answers.
        secret: the secret that workers authenticate with, in hex.
        about: its description, as a table of `pytest_vla.serving.process.About`.
    """

    name: str
    socket: str
    secret: str
    about: Mapping[str, Any]


@dataclass(frozen=True)
class Caller:
    """The process that started pytest by `pytest_vla.evaluate`.

    Attributes:
        folder: the folder of the file that describes it.
        pid: its process id.
        pipe: an open file that reaches its end as soon as that process ends.
        policy: the policy in its memory, or None if ``--vla-model`` names a different one.
    """

    folder: Path
    pid: int
    pipe: int
    policy: LivePolicy | None


def write_caller(caller: Caller) -> dict[str, str]:
    """Write the file, and return the environment variable that names it. Raises VlaError."""
    file = caller.folder / _FILE
    with whole_file(file) as stream:
        # Only this user may read the folder and the secret in this file.
        os.fchmod(stream.fileno(), 0o600)
        stream.write(json.dumps({**asdict(caller), "folder": str(caller.folder)}).encode())
    return {CALLER: str(file)}


def find_caller() -> Caller | None:
    """Return the caller that started this process, or None if there is none.

    Children of this process inherit the variable, but the caller did not start them.
    """
    file = os.environ.get(CALLER)
    if not file:
        return None
    try:
        table = json.loads(Path(file).read_text(encoding="utf-8"))
        policy = table["policy"] and LivePolicy(**table["policy"])
        caller = Caller(Path(table["folder"]), table["pid"], table["pipe"], policy)
    except (OSError, ValueError, KeyError, TypeError):
        # The caller ended long ago.
        return None
    return caller if caller.pid == os.getppid() else None


def tell_run(caller: Caller, run: Path) -> None:
    """Write the folder of this run for the caller. Raises VlaError."""
    with whole_file(caller.folder / _RUN) as stream:
        stream.write(os.fsencode(run))


def told_run(folder: Path) -> Path | None:
    """Return the folder of the run that pytest has written, or None if it has not come so far."""
    try:
        return Path(os.fsdecode((folder / _RUN).read_bytes()))
    except OSError:
        return None


def live_policy(spec: ModelSpec) -> LivePolicy | None:
    """Return the caller's policy that a spec names, or None if the spec names another type of policy.

    Raises:
        VlaError: no caller has a policy of that name.
    """
    kind, _, name = spec.text.partition(":")
    if kind != LIVE:
        return None
    caller = find_caller()
    if caller is None or caller.policy is None or caller.policy.name != name:
        raise VlaError(
            f"--vla-model={spec.text}: this policy was in the memory of a script that called pytest_vla.evaluate, and "
            "exists only there. Call evaluate again, replay its actions with replay:RUN_FOLDER, or load a checkpoint, "
            "such as lerobot:PATH."
        )
    return caller.policy
