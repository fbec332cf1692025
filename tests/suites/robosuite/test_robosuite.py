"""robosuite's own tasks as suites, and beside robosuite itself."""

import subprocess
import sys

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite, named_suites
from pytest_vla.suites.robosuite.extension import TASKS
from pytest_vla.vary.registry import kinds


def test_each_task_is_a_suite_under_robosuites_name() -> None:
    assert named_suites("robosuite:NutAssembly") == ("robosuite_nut_assembly",)
    assert len(named_suites("robosuite")) == len(TASKS) == 11
    for name in named_suites("robosuite"):
        (task,) = load_suite(name).tasks
        protocol = task.protocol
        assert (protocol.max_steps, protocol.control_freq, protocol.action_size) == (500, 20, 7)
        assert (protocol.out_of_range, protocol.cameras) == ("clip", ("agentview", "robot0_eye_in_hand"))
        assert dict(protocol.vectors)["state"] == 9
    with pytest.raises(VlaError, match=r"there is no suite 'robosuite:Lif'. Did you mean robosuite:Lift"):
        named_suites("robosuite:Lif")


def test_a_door_is_no_object() -> None:
    fit = {
        each: {kind.name for kind in kinds() if not kind.misfit(load_suite(f"robosuite:{each}").tasks[0])}
        for each in ("Door", "Stack")
    }
    assert {"camera.azimuth", "background.wall", "robot.joints"} <= fit["Door"]
    assert fit["Stack"] - fit["Door"] >= {"object.mass", "layout.displacement"}


def test_an_episode_runs_and_its_object_is_varied_in_the_model_made_anew() -> None:
    """In a process of its own: robosuite keeps its graphics."""
    code = (
        "import numpy as np\n"
        "from pytest_vla.episode.world_pool import WorldPool\n"
        "from pytest_vla.plan.manifests import load_suite\n"
        "from pytest_vla.vary.registry import find_variation\n"
        "(task,) = load_suite('robosuite:Lift').tasks\n"
        "pool, masses = WorldPool(allow_versions=True), []\n"
        "for variation in (None, find_variation(task, 'object.mass-L5', 3), None):\n"
        "    world = pool(task, variation)\n"
        "    world.reset(3, 3)\n"
        "    for _ in range(3):\n"
        "        seen = world.step(np.zeros(7))\n"
        "    masses.append(float(world.inner.mujoco()[0].body('cube_main').mass[0]))\n"
        "print(seen['state'].shape, masses[0] == masses[2], max(masses[1] / masses[0], masses[0] / masses[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    words = done.stdout.strip().rpartition(" ")
    assert words[0].endswith("(9,) True"), done.stdout + done.stderr
    assert float(words[2]) == pytest.approx(3, rel=1e-3)


BESIDE = """
import sys
import numpy as np
from pytest_vla.sim.gl import select_gl
select_gl()
import robosuite
from pytest_vla.episode.world_pool import OwnWorld
from pytest_vla.plan.manifests import load_suite
from pytest_vla.sim.own_models import _check_scene

CAMERAS = ("agentview", "robot0_eye_in_hand")

def played(reset, step):
    for seed in (3, 4):
        yield reset(seed)
        drawn = np.random.default_rng(seed)
        for _ in range(100):
            yield step(drawn.uniform([-1] * 7, [1, 1, 0.4, 1, 1, 1, 1]))

def theirs(task):
    controller = robosuite.load_controller_config(default_controller="OSC_POSE")
    env = robosuite.make(task, robots="Panda", controller_configs=controller, has_renderer=False,
                         has_offscreen_renderer=True, use_camera_obs=False, ignore_done=True, control_freq=20)
    count = iter(range(1000))

    def seen(found):
        names = ("robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos", "object-state")
        pictures = [env.sim.render(camera_name=each, width=256, height=256)[::-1] for each in CAMERAS]
        pictures = [] if next(count) % 25 else pictures
        return [*(found[name] for name in names), env.sim.data.qpos.copy(), env._check_success(), *pictures]

    def reset(seed):
        np.random.seed(seed)
        return seen(env.reset())

    yield from played(reset, lambda action: seen(env.step(action)[0]))
    env.close()

def ours(task):
    (of_task,) = load_suite(f"robosuite:{task}").tasks
    world, count = OwnWorld(of_task), iter(range(1000))

    def seen(found):
        pictures = [] if next(count) % 25 else [np.array(found[f"{each}_image"]) for each in CAMERAS]
        state = np.split(found["state"], [3, 7])
        return [*state, found["object_state"], world.inner.mujoco()[1].qpos.copy(), world.success(), *pictures]

    yield from played(lambda seed: seen(world.reset(seed, seed)), lambda action: seen(world.step(action)))
    _check_scene(of_task.id, world.inner.mujoco()[0], of_task.scene)
    world.close()

for task in sys.argv[1:]:
    # One after the other: robosuite renders in the context that is current, whosever it is.
    expected, found = list(theirs(task)), list(ours(task))
    assert len(expected) == len(found) == 202
    for step, (one, other) in enumerate(zip(expected, found)):
        assert len(one) == len(other) and all(map(np.array_equal, one, other)), (task, step)
    print("equal:", task)
"""


@pytest.mark.slow
@pytest.mark.parametrize("task", ["Lift", "Door"])
def test_states_and_pictures_are_robosuites(task: str) -> None:
    """Two episodes one after the other, whose objects differ in size, too."""
    done = subprocess.run([sys.executable, "-c", BESIDE, task], capture_output=True, text=True)
    assert done.stdout.endswith(f"equal: {task}\n"), done.stdout + done.stderr
