"""The beginning of an episode: its world's reset under a variation, drawn anew if it cannot be measured."""

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import numpy as np

from pytest_vla.episode.trace import EpisodeWorld, Trace
from pytest_vla.errors import (
    GOAL_AT_START,
    INFEASIBLE,
    NO_DRAW,
    OUT_OF_SIGHT,
    PREMISE_BROKEN,
    EpisodeError,
    RedrawError,
)
from pytest_vla.plan.case import Case, init_state_of
from pytest_vla.plan.choices import RELATIVE
from pytest_vla.plan.premises import broken, known_broken
from pytest_vla.plan.task import Task
from pytest_vla.policies.base import Episode, Observation
from pytest_vla.policies.generators import noise_generator
from pytest_vla.records.counting import INIT_STATE_DIGEST, PLACED, digest_number
from pytest_vla.scene.variation import Variation, joined
from pytest_vla.vary.kind import MOST_DRAWS
from pytest_vla.versions import DEFAULT

if TYPE_CHECKING:
    from pytest_vla.sim.world import World


OpenWorld = Callable[[Task, Variation | None], EpisodeWorld]
"""Opens the world of a task under a variation, or of the unvaried task if there is none."""


class NothingToMeasure(Exception):
    """The episode is invalid, for a reason of `pytest_vla.errors` that the message tells in words."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason, self.message = reason, message


def begin(
    trace: Trace, case: Case, task: Task, open_world: OpenWorld, *, feasible: bool = False, premises: bool = True
) -> Observation:
    """Reset the world of a case under the trace's variation, and record its first state.

    The parts of a joint variation are first drawn as they are alone.

    Args:
        trace: of the episode; its world and seeds are set, and its variation if it was drawn anew.
        case, task: of the episode.
        open_world: called once for each draw.
        feasible: whether the expert tries a changed scene first.
        premises: whether the episode needs the task's premises to hold (`pytest_vla.plan.premises`).

    Raises:
        NothingToMeasure: a premise is broken, the goal holds already, no draw fits the scene, no draw has the
            task's objects in sight and in reach, or the expert could not do it.
        VlaError: the world cannot be built or reset.
    """
    variation = trace.variation
    if trace.started is not None and (task.world is not None or (variation is not None and variation.changes_scene)):
        where = "under a variation that changes the scene" if task.world is None else "in a suite's own world"
        raise EpisodeError("replay-unfit", f"{trace.started.of} cannot be played back {where}")
    if variation is not None and any(part.redraw for part in variation.parts):
        parts: list[Variation] = []
        for trace.variation in variation.parts:
            if trace.variation.redraw is not None:
                _drawn(trace, case, task, open_world)
            parts.append(trace.variation)
        trace.variation = joined(variation.label, tuple(parts))
    observation = _drawn(trace, case, task, open_world)
    # A probe does not ask whether the task can be done.
    changed = trace.variation
    is_harder = changed is not None and (
        changed.changes_scene or changed.changes_physics or bool(task.world is not None and changed.actions)
    )
    if feasible and changed is not None and is_harder and not changed.probe:
        if undone := _infeasible(trace, case, task, open_world):
            raise NothingToMeasure(INFEASIBLE, undone)
        observation = _reset(trace, case, task, open_world)
    if premises and trace.started is None and (broken := _broken_premises(trace, task)):
        mujoco, default = trace.provenance()["mujoco"], DEFAULT["mujoco"]
        raise NothingToMeasure(
            PREMISE_BROKEN,
            f"{', '.join(broken)} does not hold under mujoco {mujoco}, and does under {default}, of which published "
            "numbers are: install that, or count such episodes with --vla-premises=ignore",
        )
    trace.record_step(observation)
    assert trace.world is not None, "it was reset"
    if trace.world.success():
        raise NothingToMeasure(GOAL_AT_START, "the goal holds already after settling")
    return observation


def _drawn(trace: Trace, case: Case, task: Task, open_world: OpenWorld) -> Observation:
    """Reset the world under the first draw of the trace's variation in which the task can be measured."""
    first, reason, unseen = trace.variation, OUT_OF_SIGHT, ""
    for time in range(MOST_DRAWS):
        if time and first is not None:
            if first.redraw is None:
                break
            trace.variation = first.redraw(time)
        try:
            observation = _reset(trace, case, task, open_world)
        except RedrawError as error:
            reason, unseen = NO_DRAW, str(error)
            continue
        looks = trace.variation is not None and trace.variation.in_sight
        reason, unseen = OUT_OF_SIGHT, _out_of_sight(trace.world) if looks and trace.world else ""
        if not unseen:
            return observation
    draws = f" (the last of {MOST_DRAWS} draws)" if first is not None and first.redraw is not None else ""
    raise NothingToMeasure(reason, f"{unseen}{draws}")


def _reset(trace: Trace, case: Case, task: Task, open_world: OpenWorld) -> Observation:
    variation = trace.variation
    trace.world = world = open_world(task, variation if variation is not None and variation.changes_world else None)
    if trace.started is not None:
        return _reset_to_recorded(trace, case, cast("World", world))
    init_state = init_state_of(case.seed, world.init_state_count, task.protocol.init_state)
    trace.seeds = {"init_state": init_state, "init_states": world.init_state_count}
    observation = world.reset(init_state=init_state, scene_seed=case.seed, settle=True)
    # A suite's own world does not tell.
    for name in (PLACED, INIT_STATE_DIGEST):
        if (number := getattr(world, name, None)) is not None:
            trace.seeds[name] = int(number)
    return observation


def _reset_to_recorded(trace: Trace, case: Case, world: "World") -> Observation:
    """Reset the world to the start that the policy has recorded. Raises EpisodeError: it is of another scene."""
    from pytest_vla.episode.resimulate import began_metrics, reset_to

    started, model = trace.started, world.model
    assert started is not None, "the policy brings its start"
    joints = tuple(model.joint(number).name for number in range(model.njnt))
    if started.joints and joints != started.joints:
        differing = next(
            (f"{one} and not {other}" for one, other in zip(started.joints, joints, strict=False) if one != other),
            f"{len(started.joints)} and not {len(joints)}",
        )
        raise EpisodeError("replay-unfit", f"{started.of}: its model has other joints than the task's: {differing}")
    if started.states.shape[1] != 1 + model.nq + model.nv:
        expected = f"1 + {model.nq} + {model.nv} numbers a state"
        raise EpisodeError("replay-unfit", f"{started.of}: expected {expected}, found {started.states.shape[1]}")
    bodies = {body.name: body.root_body for body in world.scene.bodies if body.is_fixture}
    if started.joints and (missing := [name for name, body in bodies.items() if body not in started.bodies]):
        raise EpisodeError("replay-unfit", f"{started.of}: its model has no body of {missing[0]} with pos and quat")
    # Without a model, fixtures stand where the seed places them.
    fixtures = {name: started.bodies[body] for name, body in bodies.items() if started.joints}
    observation = reset_to(world, started.states[0], fixtures, started.gripper, case.seed)
    for name, root in bodies.items():
        body = model.body(root)
        fixtures.setdefault(name, np.concatenate([body.pos, body.quat]))
    content = np.concatenate([started.states[0], *fixtures.values()]) + 0.0
    trace.seeds = {PLACED: world.placed, INIT_STATE_DIGEST: digest_number(content)}
    trace.began = began_metrics(started, fixtures)
    return observation


def _broken_premises(trace: Trace, task: Task) -> tuple[str, ...]:
    """Return the premises that this version of MuJoCo breaks.

    For a changed scene, those broken in the unvaried task.
    """
    mujoco = trace.provenance().get("mujoco", DEFAULT["mujoco"])
    if mujoco == DEFAULT["mujoco"] or trace.world is None:
        return ()
    init_state = trace.seeds["init_state"]
    found = broken(task, init_state, trace.world.premises(), mujoco)
    if trace.variation is not None and trace.variation.changes_scene:
        known = known_broken(task, init_state, mujoco)
        return tuple(premise for premise in found if premise in known)
    return found


def _infeasible(trace: Trace, case: Case, task: Task, open_world: OpenWorld) -> str:
    """Return why the expert fails under the variation although it succeeds without, or ""."""
    assert trace.world is not None
    undone = _undone(trace.world)
    if not undone:
        return ""
    varied, trace.variation = trace.variation, None
    try:
        _reset(trace, case, task, open_world)
        # A task that the expert never solves shows nothing about the scene.
        return "" if _undone(trace.world) else undone
    finally:
        trace.variation = varied


def _out_of_sight(world: EpisodeWorld) -> str:
    """Return why the task cannot be measured from the present state, or "".

    Another simulator's world may decide.
    """
    own = getattr(world, "out_of_sight", None)
    if own is not None:
        return str(own())
    from pytest_vla.episode.visibility import unseen_at_start

    return unseen_at_start(cast("World", world))


def _undone(world: EpisodeWorld) -> str:
    """Return why the task cannot be done from the present state, or ""; another simulator's world may decide."""
    own = getattr(world, "infeasible", None)
    return infeasible(cast("World", world)) if own is None else str(own())


def infeasible(world: "World") -> str:
    """Return why the expert fails from the world's present state, or "" if it succeeds.

    The world returns to this state, but observations made before can no longer be read. The variation's changes of
    pictures and actions do not apply.

    Args:
        world: reset; stepped and restored.

    Raises:
        VlaError: the world was not reset.
    """
    from pytest_vla.expert.policy import expert_policy

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
