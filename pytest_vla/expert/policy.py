"""The expert as a policy, ``--vla-model=expert``: the script that sees the simulator's state, or a world's own one."""

import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.choices import RELATIVE
from pytest_vla.policies.base import Episode, Session
from pytest_vla.policies.fit import OPENS, Traits
from pytest_vla.policies.spec import ModelSpec, PolicyType
from pytest_vla.util.text import did_you_mean

if TYPE_CHECKING:
    from pytest_vla.policies.base import Policy


def expert_policy(episode: Episode) -> Session:
    """Return a session that does the task by its goal literals, with the simulator's full state.

    The expert draws no random number. It keeps away from hazards in the task's costs and movers, and carries gently
    things that may spill. For a suite's own world it is the session that the world's ``expert()`` returns.

    Raises:
        EpisodeError: ``policy-privileged``: the world is not in this process, or is a suite's own without an expert.
    """
    own = getattr(episode.world, "expert", None)
    if callable(own):
        # `begin_session` checks it, as any policy's.
        session: Session = own()
        return session
    return _session(episode, careful=True)


def careless_policy(episode: Episode) -> Session:
    """Return a session like `expert_policy`'s that ignores costs, movers and hazards outside its goal.

    In a task with neither costs nor movers, both do the same. Raises as `expert_policy`.
    """
    own = getattr(episode.world, "expert", None)
    return expert_policy(episode) if callable(own) else _session(episode, careful=False)


def _session(episode: Episode, careful: bool) -> Session:
    world = episode.world
    if world is None:
        raise EpisodeError("policy-privileged", "the expert reads the simulator's state, and was given no world")
    # A suite's own world may be there without a simulator of ours, and then without this module too.
    ours = sys.modules.get("pytest_vla.sim.world")
    if ours is None or not isinstance(world, ours.World):
        what = f"{type(world).__module__}.{type(world).__qualname__}"
        raise EpisodeError(
            "policy-privileged",
            f"{episode.suite} has its own world, {what}, without an expert; a world may have a method expert() that "
            "returns a session",
        )
    from pytest_vla.expert.rehearsal import Expert

    return Expert(world, careful)


for _policy in (expert_policy, careless_policy):
    _policy.privileged = True  # type: ignore[attr-defined]
    _policy.traits = Traits(action_convention=RELATIVE, gripper=OPENS)  # type: ignore[attr-defined]


_SAID = {"yes": True, "no": False, "true": True, "false": False}


def _load(text: str, spec: ModelSpec) -> "Policy":
    return expert_policy if _careful(text, spec) else careless_policy


def _careful(text: str, spec: ModelSpec) -> bool:
    """Parse the arguments: whether the expert is careful. Raises VlaError."""
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
    home = Path(__file__).parent
    content = hashlib.sha256()
    files = sorted(home.glob("*.py"))
    # The policy's declaration is not part of its behaviour.
    files = [file for file in files if file.name not in ("extension.py", "policy.py")]
    for file in [*files, home.with_name("sim") / "world_state.py"]:
        content.update(file.read_bytes())
    return content.hexdigest()


EXPERT = PolicyType("expert", "expert", None, _load, check=_check, digest=_digest, arguments=True, draws=False)
