"""A policy in the memory of the process that started pytest, such as a training script: ``--vla-model=live:NAME``.

`pytest_vla.evaluate` starts pytest and says in a file, which `CALLER` names, where that policy answers. The file's
folder is for one call and for this user alone; pytest says in it which run it is.
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
"""What stands before the colon."""

_FILE, _RUN = "caller.json", "run"


@dataclass(frozen=True)
class LivePolicy:
    """A policy that answers in the process that started pytest.

    Attributes:
        name: what stands after ``live:``.
        socket: of the Unix-domain socket where it answers.
        secret: what a worker has to know, in hex.
        about: what it says of itself, as a table of `pytest_vla.serving.process.About`.
    """

    name: str
    socket: str
    secret: str
    about: Mapping[str, Any]


@dataclass(frozen=True)
class Caller:
    """Who started pytest by `pytest_vla.evaluate`.

    Attributes:
        folder: of the file that says so.
        pid: of the process.
        pipe: an open file that comes to its end as soon as that process does.
        policy: that it has; None: ``--vla-model`` says another.
    """

    folder: Path
    pid: int
    pipe: int
    policy: LivePolicy | None


def write_caller(caller: Caller) -> dict[str, str]:
    """Writes the file, and gives the environment variable that names it. Raises VlaError."""
    file = caller.folder / _FILE
    with whole_file(file) as stream:
        # The folder is this user's alone; others may not even know that there is a secret.
        os.fchmod(stream.fileno(), 0o600)
        stream.write(json.dumps({**asdict(caller), "folder": str(caller.folder)}).encode())
    return {CALLER: str(file)}


def find_caller() -> Caller | None:
    """Who started this process; None: nobody who says so.

    What this process starts itself inherits the variable, and is nothing of the caller's.
    """
    file = os.environ.get(CALLER)
    if not file:
        return None
    try:
        table = json.loads(Path(file).read_text(encoding="utf-8"))
        policy = table["policy"] and LivePolicy(**table["policy"])
        caller = Caller(Path(table["folder"]), table["pid"], table["pipe"], policy)
    except (OSError, ValueError, KeyError, TypeError):
        # It is long gone.
        return None
    return caller if caller.pid == os.getppid() else None


def tell_run(caller: Caller, run: Path) -> None:
    """Tells the caller which run this is, by its folder. Raises VlaError."""
    with whole_file(caller.folder / _RUN) as stream:
        stream.write(os.fsencode(run))


def told_run(folder: Path) -> Path | None:
    """The run that pytest told of; None: it did not come so far."""
    try:
        return Path(os.fsdecode((folder / _RUN).read_bytes()))
    except OSError:
        return None


def live_policy(spec: ModelSpec) -> LivePolicy | None:
    """The policy that a text names, where the caller has it; None for a text of another kind. Raises VlaError."""
    kind, _, name = spec.text.partition(":")
    if kind != LIVE:
        return None
    caller = find_caller()
    if caller is None or caller.policy is None or caller.policy.name != name:
        raise VlaError(
            f"--vla-model={spec.text}: this policy was in the memory of a script that called pytest_vla.evaluate, and "
            "nothing else can ask it. Call evaluate again; replay:RUN_FOLDER plays what it did; a checkpoint has a "
            "text of its own, such as lerobot:PATH"
        )
    return caller.policy
