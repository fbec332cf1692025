"""The policy types of this room, which `pytest_vla.policies.extension` lists."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_vla.errors import VlaError
from pytest_vla.policies.in_memory import LIVE as LIVE_NAME
from pytest_vla.policies.in_memory import live_policy
from pytest_vla.policies.spec import ModelSpec, PolicyType, file_digest
from pytest_vla.util.text import did_you_mean

if TYPE_CHECKING:
    from pytest_vla.policies.base import BatchPolicy, Policy


# Short names for published checkpoints: ``--vla-model=pi05`` is lerobot's checkpoint for LIBERO.


@dataclass(frozen=True)
class Checkpoint:
    """A published checkpoint with a short name.

    Attributes:
        name: the name for ``--vla-model``.
        hub_id: the id of the model on https://huggingface.co.
        source: the page that names the checkpoint for LIBERO.
        replan: the number of steps of a chunk that its publishers execute if their evaluation differs from the
            checkpoint's config, or None to use the config.
    """

    name: str
    hub_id: str
    source: str
    replan: int | None = None


_DOCS = "https://huggingface.co/docs/lerobot"

CHECKPOINTS = (
    Checkpoint("pi0", "lerobot/pi0_libero_finetuned", "https://huggingface.co/lerobot/pi0_libero_finetuned"),
    # "We set n_action_steps=10, matching the original OpenPI implementation"; the config says 50.
    Checkpoint("pi05", "lerobot/pi05_libero_finetuned", f"{_DOCS}/libero", replan=10),
    Checkpoint("smolvla", "HuggingFaceVLA/smolvla_libero", "https://github.com/huggingface/lerobot/issues/1369"),
    # Gives absolute poses: lerobot-eval runs it with --env.control_mode=absolute.
    Checkpoint("xvla", "lerobot/xvla-libero", f"{_DOCS}/xvla"),
)


# Each policy type imports its dependencies when it is loaded.


def _random(text: str, spec: ModelSpec) -> "Policy":
    from pytest_vla.policies.random_and_replay import random_policy

    return random_policy


def _recorded(name: str, takes: str, *, is_memoriser: bool = False) -> PolicyType:
    """Return the policy type of recorded actions: as they are, or of a run's unvaried episodes under any variation."""

    def load(text: str, spec: ModelSpec) -> "Policy":
        from pytest_vla.policies.random_and_replay import memoriser_policy, read_no_ops, replay_policy

        path = spec.folder / text
        return memoriser_policy(path) if is_memoriser else replay_policy(path, read_no_ops(spec.arguments, path))

    def check(text: str, spec: ModelSpec) -> None:
        from pytest_vla.policies.random_and_replay import check_memoriser, check_replay, read_no_ops

        (check_memoriser if is_memoriser else check_replay)(spec.folder / text)
        if not is_memoriser:
            read_no_ops(spec.arguments, spec.folder / text)

    return PolicyType(
        *(name, f"{name}:{takes}", takes, load, check),
        lambda text, spec: file_digest(spec.folder / text),
        arguments=not is_memoriser,
        draws=False,
        is_data=True,
    )


def _served(name: str) -> PolicyType:
    """Return the policy type of servers of one kind, one of `pytest_vla.policies.policy_servers.PROTOCOLS`."""

    def load(text: str, spec: ModelSpec) -> "Policy":
        from pytest_vla.policies.policy_servers import server_policies

        return server_policies(name, text, spec.timeout, _number())

    def check(text: str, spec: ModelSpec) -> None:
        from pytest_vla.policies.policy_servers import check_server

        if not _in_worker():
            check_server(name, text)

    return PolicyType(name, f"{name}:HOST[:PORT][,...]", "HOST", load, check, is_remote=_is_elsewhere)


def _lerobot_server(text: str, spec: ModelSpec) -> "Policy":
    raise VlaError(
        f"--vla-model={spec.text}: lerobot's async inference server sends pickles, which could run any code here, so "
        "they are not read. Serve the checkpoint by `pytest-vla serve --vla-model=lerobot:PATH`, or load it by "
        "--vla-model=lerobot:PATH"
    )


def _check_lerobot_server(text: str, spec: ModelSpec) -> None:
    _lerobot_server(text, spec)


def _is_elsewhere(text: str, spec: ModelSpec) -> bool:
    """Whether a server's address is not certainly this machine's."""
    try:
        hosts = [urlsplit(each if "//" in each else f"//{each.strip()}").hostname or "" for each in text.split(",")]
    except ValueError:
        return True
    return not all(re.fullmatch(r"localhost|::1|127(\.[0-9]{1,3}){3}", host) for host in hosts)


def _in_worker() -> bool:
    """Whether this is a worker: its parent process has already contacted the server, which may be busy now."""
    return "PYTEST_XDIST_WORKER" in os.environ


def _number() -> int:
    """Return the number of this worker (``gw3``) or multiprocessing child (``vla-fuzz-3``), or 0 elsewhere."""
    import multiprocessing

    name = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not name and multiprocessing.parent_process() is not None:
        name = multiprocessing.current_process().name
    return int("".join(filter(str.isdecimal, name)) or 0)


def _lerobot(text: str, spec: ModelSpec) -> "BatchPolicy":
    from pytest_vla.policies.lerobot import load

    cameras, base = _checkpoint_arguments(spec)
    return load(text, spec.device, folder=spec.folder, cameras=cameras, base=base)


def _checkpoint_arguments(spec: ModelSpec) -> tuple[dict[str, str], str | None]:
    """Return the arguments ``cameras``, read, and ``base``. Raises VlaError, also for any other argument."""
    from pytest_vla.policies.lerobot_inputs import BASE, CAMERAS, read_cameras

    cameras: dict[str, str] = {}
    base: str | None = None
    for name, value in spec.arguments:
        if name == BASE:
            base = value
            continue
        if name != CAMERAS:
            close = did_you_mean(name, [CAMERAS, BASE])
            raise VlaError(
                f"--vla-model={spec.text}: a checkpoint takes no argument {name!r}.{close} It takes {CAMERAS}, and an "
                f"adapter {BASE}."
            )
        try:
            cameras |= read_cameras(value)
        except VlaError as error:
            raise VlaError(f"--vla-model={spec.text}: {error}") from error
    return cameras, base


def _check_lerobot(text: str, spec: ModelSpec) -> None:
    from pytest_vla.policies.lerobot import check

    check(text, spec.folder, base=_checkpoint_arguments(spec)[1])


def _is_to_download(text: str, spec: ModelSpec) -> bool:
    from pytest_vla.policies.lerobot import find_here

    return find_here(text, spec.folder) is None


def _lerobot_digest(text: str, spec: ModelSpec) -> str | None:
    from pytest_vla.policies.lerobot import digest

    return digest(text, spec.folder, base=_checkpoint_arguments(spec)[1])


def _tiny_file(text: str, spec: ModelSpec) -> Path:
    from pytest_vla.policies.tiny.weights import shipped

    return spec.folder / os.path.expanduser(text) if text and not text.startswith("@") else shipped(text[1:])


def _tiny(text: str, spec: ModelSpec) -> "BatchPolicy":
    from pytest_vla.policies.tiny.policy import TinyPolicy
    from pytest_vla.policies.tiny.weights import load_shipped, load_weights

    named = text and not text.startswith("@")
    return TinyPolicy(load_weights(_tiny_file(text, spec)) if named else load_shipped(text[1:]))


def _check_tiny(text: str, spec: ModelSpec) -> None:
    path = _tiny_file(text, spec)
    if not path.is_file():
        found = f"{path} is a folder" if path.is_dir() else f"there is no file {path}"
        raise VlaError(f"--vla-model={spec.text}: {found}; expected an .npz written by scripts/train_tiny.py")


def _live(text: str, spec: ModelSpec) -> "BatchPolicy":
    live_policy(spec)
    raise VlaError(f"--vla-model={spec.text}: this policy is in another process, which answers workers only. Add -n 1.")


def _check_live(text: str, spec: ModelSpec) -> None:
    if not _in_worker():
        live_policy(spec)


def _live_digest(text: str, spec: ModelSpec) -> str | None:
    live = live_policy(spec)
    return None if live is None else live.about["digest"]


def _checkpoint(checkpoint: Checkpoint) -> PolicyType:
    """Return the policy type of a published checkpoint."""

    def load(text: str, spec: ModelSpec) -> "BatchPolicy":
        from pytest_vla.policies.lerobot import load

        return load(checkpoint.hub_id, spec.device, folder=spec.folder, replan=checkpoint.replan)

    return PolicyType(
        checkpoint.name,
        checkpoint.name,
        None,
        load,
        lambda text, spec: _check_lerobot(checkpoint.hub_id, spec),
        lambda text, spec: _lerobot_digest(checkpoint.hub_id, spec),
        batches=True,
    )


RANDOM = PolicyType("random", "random", None, _random, draws=True)
REPLAY = _recorded("replay", "PATH")
MEMORISER = _recorded("memoriser", "RUN", is_memoriser=True)
OPENPI, VLA_EVAL, GROOT, GROOT_N15, X_VLA, STARVLA = map(
    _served, ("openpi", "vla-eval", "groot", "groot-n1.5", "x-vla", "starvla")
)
LEROBOT_ASYNC = PolicyType(
    *("lerobot-async", "lerobot-async:HOST", "HOST", _lerobot_server, _check_lerobot_server),
    is_remote=_is_elsewhere,
    offered=False,
)
LEROBOT = PolicyType(
    "lerobot",
    "lerobot:PATH_OR_HUB_ID",
    "PATH_OR_HUB_ID",
    _lerobot,
    _check_lerobot,
    _lerobot_digest,
    batches=True,
    is_remote=_is_to_download,
    arguments=True,
)
TINY = PolicyType(
    "tiny",
    "tiny, tiny@early, tiny:PATH",
    "PATH",
    _tiny,
    _check_tiny,
    lambda text, spec: file_digest(_tiny_file(text, spec)),
    required=False,
    batches=True,
    checkpoints=("early",),
    draws=False,
    is_data=True,
)
# Only `pytest_vla.evaluate` uses this type.
LIVE = PolicyType(LIVE_NAME, "live:NAME", "NAME", _live, _check_live, _live_digest, batches=True, offered=False)
PI0, PI05, SMOLVLA, XVLA = map(_checkpoint, CHECKPOINTS)
