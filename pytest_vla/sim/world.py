"""A world: one task's compiled scene, reset and stepped in place, with upstream's physics bit for bit."""

import itertools
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Self

from pytest_vla.sim.gl import select_gl

select_gl()  # MuJoCo chooses its OpenGL while it is imported.

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.errors import VlaError
from pytest_vla.plan.choices import ABSOLUTE, DRAWN, RELATIVE, SEED, TRAINED
from pytest_vla.plan.costs import Charge
from pytest_vla.plan.data_roots import task_roots
from pytest_vla.plan.task import Task
from pytest_vla.scene.cache import compiled_scene, scene_key
from pytest_vla.scene.placement import draw_placement, plan_placement
from pytest_vla.scene.problem import Problem, read_problem
from pytest_vla.scene.variation import Variation, changed_problem
from pytest_vla.scene.workspaces import workspace
from pytest_vla.sim.arm import HAND_BODY, Arm, ArmState, reset_warm_start
from pytest_vla.sim.cameras import ignore_colour_spaces
from pytest_vla.sim.faults import check_physics, redirect_warnings
from pytest_vla.sim.lazy_observation import Observation
from pytest_vla.sim.looks import looks_of
from pytest_vla.sim.meters import MakeMeters, Meter, Metering, cost_meters
from pytest_vla.sim.movers import Movement, plan_movers
from pytest_vla.sim.native import copy_data
from pytest_vla.sim.observations import Readings, Sampled, alphas_at, find_burners, get_alphas, light
from pytest_vla.sim.own_models import ModelChanges
from pytest_vla.sim.start_states import (
    Point,
    Starts,
    checked_action,
    checked_seed,
    checked_size,
    hide_sites,
    is_index,
    place_fixtures,
    place_objects,
    placed_number,
    site_positions,
    take_away,
    vector,
)
from pytest_vla.sim.substeps import SUBSTEPS, NativeSubsteps, Substeps
from pytest_vla.sim.verdicts import all_of, compile_verdicts, each_of
from pytest_vla.sim.world_state import (
    WorldState,
    copied_data,
    copied_samples,
    fixture_poses,
    put_fixtures,
)
from pytest_vla.versions import check_versions

Array = npt.NDArray[np.float64]

# robosuite samples an observation once a control step: in the last substep, or, once an init state was set (which
# samples out of turn), in the one before it.
_SAMPLE_AFTER_RESET = SUBSTEPS - 1
_SAMPLE_AFTER_INIT_STATE = SUBSTEPS - 2


class World:
    """A task's scene, ready to run episodes. Belongs to the thread that first reads a picture.

    Attributes:
        task, problem: the task, and its file as parsed and changed by the variation.
        variation: of the task, or None if it is unvaried.
        scene: the bodies, sites and joints of the compiled model.
        model, data: MuJoCo's own objects; reset and stepped in place.
        steps: control steps since the reset, settling not counted.
        movement: the movers' progress since the reset.
        substeps: contacts and motion within the last control step, as far as a meter requests them.
        profile: the version of robosuite that is reproduced.
        scene_digest: digest of everything that made the compiled model.
        init_state_digest: number that identifies the content of the init state of the last reset as its file has it, or
            None if it is from no file.
    """

    def __init__(
        self,
        task: Task,
        variation: Variation | None = None,
        *,
        image_size: tuple[int, int] | None = None,
        allow_versions: bool = False,
    ) -> None:
        """Load the task's scene from the cache, or compile it.

        Args:
            task: from `load_suite(...).task(...)`.
            variation: of the task, or None for the unvaried task. The world does not apply its changes of
                instructions and actions.
            image_size: height and width of pictures, or None for the suite's.
            allow_versions: accept another robosuite or MuJoCo than the supported pair.

        Raises:
            VlaError: unsupported versions, missing data or assets, an invalid task file, no such picture size.
        """
        self._versions = check_versions(allow=allow_versions)
        redirect_warnings()
        self._image_size = checked_size(task.protocol.image_size if image_size is None else image_size)
        self._roots = task_roots(task)
        original = read_problem(task, self._roots)
        problem = changed_problem(original, variation)
        compiled = compiled_scene(problem, self._roots)
        self.scene, self._scene_key, self.scene_digest = compiled.scene, scene_key(problem), compiled.digest
        self._stand_ins, self._compiled = compiled.stand_ins, compiled.compiled
        self.init_state_digest: int | None = None
        self.model: mujoco.MjModel = compiled.model
        if task.protocol.textures == TRAINED:
            ignore_colour_spaces(self.model)
        self.data = mujoco.MjData(self.model)
        self._compiled_poses = fixture_poses(self.model)
        self._burners = find_burners(self.model, self.scene)
        place = workspace(problem.name, problem.source)
        self.profile = place.profile
        self._arm = Arm(self.model, self.data, place.profile, place.rest_joints)
        self._warm_start = reset_warm_start(self.model, self._arm.rest_joints)
        hand = self.model.body(HAND_BODY).id
        self._readings = Readings(
            self.model, self._image_size, self._burners, self._arm.site, hand, self._arm.controller_pose
        )
        self._moment = itertools.count()
        self._changes = ModelChanges(self.model)
        self._make_meters: MakeMeters = cost_meters
        self._take(task, variation, original, problem)
        self._sample_at = _SAMPLE_AFTER_RESET

    def _take(self, task: Task, variation: Variation | None, original: Problem, problem: Problem) -> None:
        if task.protocol.control == ABSOLUTE and self.profile.goals_in_base_frame:
            raise VlaError(
                f"{task.id}: absolute control is robosuite 1.4.0's, and this scene runs as robosuite "
                f"{self.profile.robosuite}: use a policy with relative actions"
            )
        rules = task.protocol.rules
        verdicts = compile_verdicts(problem, variation, self.scene, self.model, self.data, rules, lambda: self._drawn)
        movers = plan_movers(problem, rules, self.scene, self.model)
        looks = looks_of(problem, self.model)
        self._placement_plan = plan_placement(problem, self.scene)
        self._verdicts, self._movers, self.movement = verdicts, movers, Movement()
        self._looks = looks
        self.task, self.problem, self.variation = task, problem, variation
        self._taken = task, variation, original, problem
        self._starts = Starts(self, original, self._roots)
        self._began: tuple[int, int] = (0, 0)
        self._vacated: dict[str, Point] = {}
        self._drawn: Mapping[str, tuple[Array, Array]] = {}
        self._placed = 0
        self._leave()
        self.steps = 0
        self._meter()

    def _meter(self) -> None:
        # Meters request recordings of substeps when they are made.
        self.substeps, self._metering = Substeps(self.model, self.data), Metering()
        self._metering = Metering(self._make_meters(self))

    def switch(self, task: Task, variation: Variation | None = None) -> bool:
        """Turn to another task of the same scene, or another variation, without loading the model anew.

        Returns:
            Whether it was possible. If the task has another scene, data, picture size or textures, the world is
                unchanged.

        Raises:
            VlaError: the task file is missing or invalid, the variation does not apply to it, or a meter does not fit
                it; the world is then unchanged but has to be reset.
        """
        if _loaded_as(task) != _loaded_as(self.task):
            return False
        original = read_problem(task, self._roots)
        problem = changed_problem(original, variation)
        if scene_key(problem) != self._scene_key:
            return False
        before = self._taken
        try:
            self._take(task, variation, original, problem)
        except VlaError:
            self._take(*before)
            raise
        return True

    @property
    def init_states(self) -> Array:
        """The init states (n, 1+nq+nv) of the unvaried task: [time, qpos, qvel]. Raises SceneError if unusable."""
        return self._starts.own

    @property
    def init_state_count(self) -> int:
        """The number of the task's init states; if a variation moves things, the number that its suite's tasks have.

        If starts are drawn, the number of seeds.
        """
        drawn = self.task.protocol.starts == DRAWN
        return self.task.protocol.init_states if drawn else self._starts.count

    def reset(
        self,
        init_state: int | npt.ArrayLike | None = None,
        scene_seed: int = 0,
        settle: bool = True,
        *,
        fixtures: Mapping[str, tuple[Array, Array]] | None = None,
        ran: tuple[int, float] | None = None,
    ) -> Observation:
        """Start an episode. Nothing of an earlier one remains, and nothing is rendered.

        Args:
            init_state: index of the task's init states, in which the variation makes its changes; or the flat vector
                [time, qpos, qvel]; or None to place objects where `scene_seed` draws them, as after upstream's
                ``env.reset()``. If the protocol's starts are drawn, an index is the same as None.
            scene_seed: fixture poses (and, without an init state, object poses) are those of upstream's
                ``env.seed(s); env.reset()`` on a new environment; or, with an index, as the protocol's `scenes` says.
            settle: run the suite's settle steps.
            fixtures: where fixtures stand by name, position (3,) m and quaternion wxyz (4,), instead of the scene
                seed's poses.
            ran: for a vector that was recorded within an episode, the control steps before it (1 and up) and the
                gripper's command in them. The controller then goes on from the present pose; else it is at rest.

        Raises:
            VlaError: no such init state or scene seed, or no placement without overlap.
            RedrawError: the variation's draw is impossible in this init state.
            EpisodeError: physics broke while settling.
        """
        self._metering.clear()
        scene_seed, state = checked_seed(scene_seed), None
        scenes = self.task.protocol.scenes if is_index(init_state) else SEED
        if self.task.protocol.starts == DRAWN and is_index(init_state):
            init_state = None
        self.init_state_digest = self._starts.digest(init_state)
        if init_state is not None:
            start = self._starts.start(init_state, scene_seed)
            state = start.state
            if start.scene_seed is not None:
                # Made with a changed scene, so that fixtures stand where it came to rest.
                scene_seed, scenes = start.scene_seed, SEED
        self._leave()
        model, data = self.model, self.data
        put_fixtures(model, self._compiled_poses)
        placement = draw_placement(
            self._placement_plan, scene_seed, partial(site_positions, model, self._readings.view), scenes
        )
        if fixtures:
            placement = replace(placement, fixtures={**placement.fixtures, **fixtures})
        self._drawn = placement.objects
        place_fixtures(model, self.scene, placement)
        hide_sites(model, self.scene)
        self._dress(scene_seed)
        self._vacated = {}
        if state is not None and is_index(init_state):
            state = self._starts.changed(state)
            if self.variation is not None and self.variation.removed:
                state = state.copy()
                self._vacated = take_away(model, self.scene, state, self.variation.removed)
        mujoco.mj_resetData(model, data)
        if self._warm_start is not None:
            data.qacc_warmstart[:] = self._warm_start
        if state is None or self._warm_start is not None:
            place_objects(model, data.qpos, self.scene, placement, self._arm.rest_joints)
        stands = data.qpos if state is None else state[1 : 1 + model.nq]
        self.movement = self._movers.begin(data, placement.objects, stands, self._vacated)
        if state is None:
            self._sample_at = _SAMPLE_AFTER_RESET
        else:
            if self._warm_start is not None:
                # Upstream resets before it sets its init state, and old versions of MuJoCo keep the reset's warm start.
                mujoco.mj_forward(model, data)
            data.time = state[0]
            data.qpos[:] = state[1 : 1 + model.nq]
            data.qvel[:] = state[1 + model.nq :]
            self._sample_at = _SAMPLE_AFTER_INIT_STATE
        self._placed = placed_number(model, data, scene_seed if self._looks.are_drawn else -1)
        mujoco.mj_forward(model, data)
        self._arm.state = self._arm.rest() if ran is None else self._arm.running(*ran)
        if state is not None:
            # Upstream reads knobs when it sets an init state and after steps, but not in a reset.
            light(model, self._burners, data.qpos)
        self._is_reset = True
        self.steps, self._began = 0, (init_state if is_index(init_state) else 0, scene_seed)
        observation = self._observe((data.qpos.copy(), data.qpos.copy(), get_alphas(model, self._burners)))
        if settle:
            action = np.array(self.task.protocol.settle_action)
            for _ in range(self.task.protocol.settle_steps):
                observation = self._step(action, RELATIVE)
        self._metering.begin()
        return observation

    def step(self, action: npt.ArrayLike, control: str | None = None) -> Observation:
        """Run one 20 Hz control step: 25 substeps of 2 ms.

        Args:
            action: (7,), each in [-1, 1] (clipped): position change x 0.05 m, axis-angle x 0.5 rad, both in the world
                frame, and the gripper (-1 open, 1 close). Under absolute control the pose itself, position in m and
                axis-angle in rad, not clipped.
            control: what the action is, one of `pytest_vla.plan.choices.CONTROLS`; None for the protocol's.

        Raises:
            EpisodeError: ``action-dtype``, ``action-shape``, ``action-nan``, or a ``physics-...`` reason; after the
                latter the world must be reset.
            VlaError: the world was not reset yet, or broke before.
        """
        values = checked_action(action)
        self._require_reset()
        observation = self._step(values, control or self.task.protocol.control, self.substeps.native)
        self.steps += 1
        if self._metering:
            success = self._metering.asks_success and self.success()
            self.freeze(self._metering.step(self.steps, success))
        return observation

    def freeze(self, names: Collection[str]) -> None:
        """Stop the movers of these names from the next step until a reset; other names are ignored."""
        self.movement = self.movement.without(names)

    def meter(self, make: MakeMeters) -> None:
        """Set the meters that charge events from the next reset on, whatever task the world turns to.

        Meters do not change what happens, except for movers that a charge stops.

        Raises:
            VlaError: a meter does not fit the task; the world then keeps its previous meters.
        """
        before = self._make_meters, self.substeps, self._metering
        self._leave()
        self._make_meters = make
        try:
            self._meter()
        except VlaError:
            self._make_meters, self.substeps, self._metering = before
            raise

    @property
    def meters(self) -> tuple[Meter, ...]:
        """The meters that charge the episode: by default those of the costs that the task states."""
        return self._metering.meters

    def charged(self) -> tuple[Charge, ...]:
        """Return the ledger of the episode so far, in the order of steps; empty without meters."""
        return self._metering.charges()

    def conclude(self) -> None:
        """End the episode here and charge how it ended; a second call does nothing until the next reset."""
        if self._metering:
            self._metering.end(self.steps, self.success())

    def success(self) -> bool:
        """Whether all goal literals hold, on the state that upstream judges (that of the last mj_step1)."""
        return all_of(self._verdicts.goal)

    def asked_done(self) -> bool:
        """Whether the goal holds that the instruction asks for; the task's own, unless the variation says another."""
        return all_of(self._verdicts.asked)

    def vacated(self) -> dict[str, Point]:
        """Return where the removed objects were before the last reset took them away (m, world), by name."""
        return dict(self._vacated)

    def drawn_poses(self) -> Mapping[str, tuple[Array, Array]]:
        """Return where the last reset drew the free objects: position (3,) m and quaternion wxyz (4,), by name.

        The poses follow from the reset's scene seed. An init state puts the objects elsewhere, but upstream's check for
        fallen objects compares with these poses.
        """
        return self._drawn

    def predicates(self) -> dict[str, bool]:
        """Return the verdict of each goal literal, by its text."""
        return each_of(self._verdicts.goal)

    def premises(self) -> dict[str, bool]:
        """Return the verdict of each premise, by its text.

        Premises are the statements of the task file's ``:init`` about two things or a joint.
        """
        return each_of(self._verdicts.premises())

    def save(self) -> WorldState:
        """Return the exact state, including the controller's and the gripper's.

        Raises:
            VlaError: the world was not reset yet, or broke.
        """
        self._require_reset()
        return WorldState(
            copied_data(self.model, self.data),
            self._arm.state.copy(),
            fixture_poses(self.model),
            copied_samples(self._readings.sampled),
            self.steps,
            self._sample_at,
            self.movement,
            self._began,
            id(self),
            self.variation,
            self._metering.saved(),
        )

    def restore(self, state: WorldState) -> Observation:
        """Return to a saved state; the same actions then give the same states bit for bit.

        Raises:
            VlaError: the state was saved by another world, or under another variation.
        """
        if state.owner != id(self):
            raise VlaError("this state was saved by another world; a state belongs to the world that made it")
        self._leave()
        if state.variation is not self.variation:
            raise VlaError("this state was saved under another variation; switch the world to it and save again")
        put_fixtures(self.model, state.fixtures)
        copy_data(self.data, self.model, state.data)
        self._arm.state = state.arm.copy()
        self.steps, self._sample_at, self.movement = state.steps, state.sample_at, state.movement
        if state.began != self._began:
            self._began = state.began
            if self._looks.are_drawn:
                self._dress(state.began[1])
        self._metering.restore(state.metered)
        self._is_reset = True
        return self._observe(copied_samples(state.sampled))

    @property
    def rest_joints(self) -> Array:
        """The arm's pose (7,) rad at the last reset, to which its controller keeps; not to be written to."""
        return self._arm.rest_joints

    def arm_state(self) -> ArmState:
        """Return a copy of the arm controller's state, which is not part of `data`."""
        return self._arm.state.copy()

    def show(self, qpos: npt.ArrayLike, step: int = 0) -> Observation:
        """Return a recorded state as an observation: poses alone, without physics, and burners lit as after a step.

        Fixtures stand where the last reset put them; `data`, `success` and `steps` are not touched. The world must be
        reset before its next step.

        Args:
            qpos: (nq,), as `data.qpos` was.
            step: the control step after which it was recorded; it determines the noise of pictures.

        Raises:
            VlaError: not such a vector of finite numbers.
        """
        pose = vector(qpos, self.model.nq, "a recorded state is qpos")
        self._leave()
        return self._observe((pose, pose.copy(), alphas_at(self.model, self._burners, pose)), step)

    @property
    def grip_site(self) -> int:
        """The number of the site between the fingers."""
        return int(self._arm.site)

    @property
    def began(self) -> tuple[int, int]:
        """The init state's index (0 if it was none of the task's own) and the scene seed of the last reset."""
        return self._began

    @property
    def placed(self) -> int:
        """A number that identifies the poses and colours with which the last reset began to settle."""
        return self._placed

    def segmentation(
        self, camera: str, only: Collection[int] | None = None, widened: float = 1.0
    ) -> npt.NDArray[np.int32]:
        """Render the ids (H, W) of the bodies that a camera's present picture shows, -1 for none.

        Args:
            camera: its name.
            only: ids of the bodies to draw, as if there were no other body, or None for all.
            widened: factor by which the view's height and width exceed the camera's picture.
        """
        return self._readings.segmentation(camera, only, widened)

    def provenance(self) -> dict[str, str]:
        """Return a record's entries about this world: the scene's digest, the simulator's versions and the renderer.

        ``stand_ins`` are the scene's assets that are known to be no originals, and ``compiled`` is the digest of the
        compiled model itself. ``renderer`` is the OpenGL backend, with
        the driver's name once a picture was drawn. ``ledger`` is present if meters look at all substeps.
        """
        driver = f": {self._readings.renderer}" if self._readings.renderer is not None else ""
        assets = {"scene": self.scene_digest, "stand_ins": ", ".join(self._stand_ins) or "none"}
        assets["compiled"] = self._compiled
        # Older records used one substep per control step.
        ledger = {"ledger": "substeps"} if self.substeps.native is not None else {}
        return {**assets, **ledger, **self._versions, "renderer": f"{select_gl()}{driver}"}

    def close(self) -> None:
        """Free the graphics side; the world can still be stepped, and a picture makes it anew."""
        self._readings.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _leave(self) -> None:
        """Leave the present moment: its observation can no longer be made.

        The world counts as reset again once the step or reset that follows has ended.
        """
        self._now = next(self._moment)
        self._is_reset = False

    def _require_reset(self) -> None:
        if not self._is_reset:
            raise VlaError("reset the world first: it was never reset, or its last step or reset failed")

    def _dress(self, scene_seed: int) -> None:
        """Apply the picture settings and rest pose of the task's file and the variation for an episode."""
        variation = self.variation
        rest = variation.rest_joints if variation is not None else None
        self._arm.rest_at(rest)
        pictures = tuple(begin() for begin in variation.pictures) if variation is not None else ()
        self._readings.changes = (*self._looks.pictures(scene_seed), *pictures)
        own = self._looks.model(scene_seed)
        varied = variation.model if variation is not None else ()
        self._readings.repainted(self._changes.replace((*own, *varied) if own else varied, self.scene))

    def _step(self, action: Array, control: str, record: NativeSubsteps | None = None) -> Observation:
        time_before = self.data.time
        self._leave()
        alphas = get_alphas(self.model, self._burners)
        self.movement = self.movement.advanced(self.data)
        before, after = self._arm.step(
            action.astype(self.task.protocol.action_precision), self._sample_at, record, control == ABSOLUTE
        )
        check_physics(self.data, time_before)
        light(self.model, self._burners, self.data.qpos)
        self._is_reset = True
        return self._observe((before, after, alphas))

    def _observe(self, sampled: Sampled, step: int | None = None) -> Observation:
        moment = self._now = next(self._moment)
        return self._readings.observation(
            sampled,
            self.task.protocol.cameras,
            lambda: self._now == moment,
            lambda: self.steps if step is None else step,
            is_live=step is None,
        )


def _loaded_as(task: Task) -> tuple[object, ...]:
    """Return the properties, beside the scene, that all tasks of one world share."""
    return task.data, task.protocol.image_size, task.protocol.textures
