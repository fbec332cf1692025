"""Feasibility of a scene: the expert tries it, with the simulator's full state."""

import numpy as np

from pytest_vla.errors import (
    EpisodeError,
)
from pytest_vla.expert.policy import expert_policy
from pytest_vla.plan.choices import RELATIVE
from pytest_vla.policies.base import Episode
from pytest_vla.policies.generators import noise_generator
from pytest_vla.sim.world import World


def infeasible(world: World) -> str:
    """Return why the expert fails from the world's present state, or "" if it succeeds.

    The world returns to this state, but observations made before can no longer be read. The variation's changes of
    pictures and actions do not apply.

    Args:
        world: reset; stepped and restored.

    Raises:
        VlaError: the world was not reset.
    """
    if world.success():
        return ""
    task, before = world.task, world.save()
    name = f"{task.suite}/{task.name}/feasible"
    episode = Episode(name, task.suite, task.name, task.language, 0, noise_generator(0, name), world=world)
    try:
        session = expert_policy(episode)
        for _ in range(task.protocol.max_steps):
            world.step(np.asarray(session({})), RELATIVE)
            if world.success():
                return ""
    except EpisodeError as error:
        return f"the expert's episode breaks: {error}"
    finally:
        world.restore(before)
    open_ = ", ".join(literal for literal, held in world.predicates().items() if not held)
    return f"the expert does not do it in {task.protocol.max_steps} steps: {open_}"
