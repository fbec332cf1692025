"""Pictures of what can be seen are, pixel for pixel, those of everything."""

import functools
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla import World, load_suite
from pytest_vla.errors import RedrawError, UnfitError, VlaError
from pytest_vla.plan.task import Task
from pytest_vla.sim import culling
from pytest_vla.sim.cameras import Cameras
from pytest_vla.sim.culling import SceneGeoms, View, view_of
from pytest_vla.vary.registry import find_variation, kinds
from tests.support.data import data_root, libero_data
from tests.support.examples import scaled
from tests.support.worlds import tabletop_world

import mujoco  # isort: skip: after World, which chooses the OpenGL
from tests.support.slow import slow

CAMERAS = ("agentview", "robot0_eye_in_hand")
ARM = slice(0, 7)
HEIGHT, WIDTH = 48, 80


@contextmanager
def drawing_all(cameras: Cameras) -> Iterator[None]:
    cameras.draws_all = True
    try:
        yield
    finally:
        cameras.draws_all = False


def looking(cameras: Cameras, data: mujoco.MjData, camera: str = "eye") -> View:
    cameras._look(data, camera)
    return view_of(cameras._scene, cameras._geoms, WIDTH, HEIGHT, reflections=True, shadows=cameras.shadows)


def check(cameras: Cameras, data: mujoco.MjData, camera: str, told: Any = "") -> None:
    """A picture, and which body each pixel is of, are those of everything."""
    # MuJoCo lays endless planes out around the place where the camera was in the picture before.
    cameras._look(data, camera)
    picture, bodies = cameras.picture(data, camera), cameras.segmentation(data, camera)
    with drawing_all(cameras):
        assert np.array_equal(picture, cameras.picture(data, camera)), (camera, told)
        assert np.array_equal(bodies, cameras.segmentation(data, camera)), (camera, told)


def check_world(world: World, told: Any = "") -> None:
    readings = world._readings
    for camera in CAMERAS:
        check(readings._drawing(), readings._seen(), camera, told)


def look_about(world: World, generator: np.random.Generator, count: int, told: Any = "") -> None:
    """As `check_world`, with the arm anywhere, and every other time the third person's camera too."""
    readings, model = world._readings, world.model
    camera = model.camera("agentview").id
    place, quaternion, view = model.cam_pos[camera].copy(), model.cam_quat[camera].copy(), model.cam_fovy[camera]
    try:
        for number in range(count):
            qpos = world.data.qpos.copy()
            qpos[ARM] += generator.normal(0, 0.5, 7)
            readings.sampled = (qpos, qpos, readings.sampled[2])
            if number % 2:
                model.cam_pos[camera] = place * generator.uniform(0.2, 1.3, 3) + generator.normal(0, 0.3, 3)
                turned = quaternion + generator.normal(0, 0.4, 4)
                model.cam_quat[camera] = turned / np.linalg.norm(turned)
                model.cam_fovy[camera] = generator.uniform(20, 90)
            check_world(world, (told, number))
    finally:
        model.cam_pos[camera], model.cam_quat[camera], model.cam_fovy[camera] = place, quaternion, view


# A room of all that is drawn. What reflects comes first, second or last; a plane shows its back, too.
ROOM = """
<mujoco>
  <visual><quality offsamples="4" shadowsize="256"/><map znear="0.02" zfar="20"/></visual>
  <asset>
    <texture name="sky" type="skybox" builtin="gradient" rgb1="0.3 0.5 0.7" rgb2="0 0 0" width="32" height="32"/>
    <texture name="checks" type="2d" builtin="checker" rgb1="0.2 0.3 0.4" rgb2="0.8 0.7 0.6" width="64" height="64"/>
    <texture name="cube" type="cube" builtin="flat" mark="cross" rgb1="0.6 0.2 0.3" width="32" height="32"/>
    <material name="checks" texture="checks" texrepeat="3 3"/>
    <material name="cube" texture="cube" reflectance="0.6"/>
    <material name="mirror" reflectance="0.7" rgba="0.3 0.3 0.4 1"/>
    <material name="glass" rgba="0.2 0.8 0.4 0.4" reflectance="0.5"/>
    <mesh name="wedge" vertex="0 0 0 0.6 0 0 0 0.4 0 0 0 0.5 0.5 0.5 0.6"/>
  </asset>
  <default><geom group="1" contype="0" conaffinity="0"/></default>
  <worldbody>
    <light pos="1 -1 3" dir="-0.3 0.3 -1" diffuse="0.7 0.7 0.7" {shadows}/>
    <light pos="-2 2 2.5" dir="0.5 -0.5 -1" castshadow="false" directional="true" diffuse="0.3 0.3 0.4"/>
    <camera name="eye" pos="0 0 1" fovy="60"/>
    {first}
    <geom type="plane" size="{floor}" material="checks" pos="0 0 -0.5"/>
    <geom name="a" type="box" size="0.3 0.2 0.1" material="cube" pos="0.8 0.1 0"/>
    <geom name="b" type="sphere" size="0.2" pos="-0.7 0.4 0.2" rgba="0.9 0.4 0.1 1"/>
    <geom name="c" type="capsule" size="0.1 0.5" pos="0.2 -0.8 0.4" euler="40 20 0" rgba="0.2 0.4 0.9 1"/>
    <geom name="d" type="cylinder" size="0.15 0.4" pos="-0.3 -0.5 0.1" euler="70 0 30" material="checks"/>
    <geom name="e" type="ellipsoid" size="0.3 0.1 0.2" pos="0.5 0.7 0.5" rgba="0.8 0.8 0.2 1"/>
    <geom name="f" type="mesh" mesh="wedge" pos="-0.5 0.9 0" euler="10 20 30" material="checks"/>
    <geom name="g" type="box" size="0.4 0.4 0.02" material="glass" pos="0.1 0.2 0.4" euler="0 30 0"/>
    <geom name="h" type="sphere" size="0.3" material="glass" pos="-0.2 0 0.7"/>
    <geom name="k" type="box" size="0.7 0.5 0.03" material="checks" pos="0.1 0 -0.3"/>
    <site name="i" type="capsule" size="0.05 0.3" pos="0.4 0.4 0.9" rgba="1 0 0 0.6"/>
    <body pos="0 0.6 0.3"><joint type="ball"/><geom name="j" type="mesh" mesh="wedge" rgba="0.9 0.9 0.9 1"/></body>
    {last}
  </worldbody>
</mujoco>
"""
MIRRORS = {
    "none": "",
    "box": 'type="box" size="0.3 0.5 0.05" pos="0 0 -0.1" euler="15 10 0"',
    "small box": 'type="box" size="0.1 0.08 0.05" pos="0.2 0 0" euler="0 10 40"',
    "plane": 'type="plane" size="0.4 0.3 1" pos="0 0 0.05" euler="0 70 0"',
    "endless plane": 'type="plane" size="0 0 1" pos="0 0 -0.3"',
}


@functools.cache
def room(mirror: str, first: bool, shadows: bool) -> tuple[mujoco.MjModel, mujoco.MjData, Cameras]:
    geom = f'<geom name="mirror" material="mirror" {MIRRORS[mirror]}/>' if MIRRORS[mirror] else ""
    text = ROOM.format(
        shadows=f'castshadow="{str(shadows).lower()}"',
        first=geom if first else "",
        last="" if first else geom,
        floor="0 0 1" if mirror == "endless plane" else "3 3 1",
    )
    model = mujoco.MjModel.from_xml_string(text)
    return model, mujoco.MjData(model), Cameras(model, HEIGHT, WIDTH)


def place_things(model: mujoco.MjModel, generator: np.random.Generator, names: str) -> None:
    for name in names:
        model.geom(name).pos[:] = generator.uniform(-1, 1, 3) * [1, 1, 0.6]


def place_camera(model: mujoco.MjModel, generator: np.random.Generator) -> None:
    """Somewhere in the room, in things or below the floor at times, looking towards its middle."""
    eye, towards = generator.uniform([-1.6, -1.6, -0.4], [1.6, 1.6, 1.5]), generator.uniform(-0.4, 0.4, 3)
    back = (eye - towards) / np.linalg.norm(eye - towards)
    right = np.cross(generator.normal([0, 0, 1], 0.3), back)
    right /= np.linalg.norm(right)
    model.cam_pos[0] = eye
    mujoco.mju_mat2Quat(model.cam_quat[0], np.column_stack([right, np.cross(back, right), back]).ravel())
    model.cam_fovy[0] = generator.uniform(15, 100)


def turn(data: mujoco.MjData, generator: np.random.Generator) -> None:
    data.qpos[:] = generator.normal(size=4)
    data.qpos[:] /= np.linalg.norm(data.qpos)


rooms = {
    "mirror": st.sampled_from(list(MIRRORS)),
    "first": st.booleans(),
    "shadows": st.sampled_from([False, False, False, True]),
    "seed": st.integers(0, 2**32 - 1),
}


@pytest.mark.slow
@settings(max_examples=scaled(100))
@given(**rooms, card=st.sampled_from([False, False, True]))
def test_a_picture_shows_what_one_of_everything_shows(
    mirror: str, first: bool, shadows: bool, card: bool, seed: int
) -> None:
    model, data, cameras = room(mirror, first, shadows)
    generator = np.random.default_rng(seed)
    # Without a second pass, as on a graphics card, or with one wherever one can be.
    cameras._second_pass = np.inf if card else -1e9
    place_things(model, generator, "abcdefgh")
    place_camera(model, generator)
    turn(data, generator)
    mujoco.mj_forward(model, data)
    check(cameras, data, "eye", (mirror, first, shadows, seed))


def test_what_is_behind_the_camera_is_not_drawn_and_a_mirror_in_sight_is() -> None:
    model, data, cameras = room("small box", True, False)
    for name in "abcdefgh":
        model.geom(name).pos[:] = [0, 0, 9]
    model.geom("a").pos[:] = [0.2, 0.0, 0.6]
    model.cam_pos[0] = [0.2, -1.0, 0.5]
    model.cam_quat[0] = [np.cos(0.6), np.sin(0.6), 0, 0]
    model.cam_fovy[0] = 60
    mujoco.mj_forward(model, data)
    view = looking(cameras, data)
    whole, part = view.passes(-1e9)
    names = [model.geom(number).name for number in view.geoms.integer("objid")]
    assert whole.geoms is not None
    assert part.geoms is not None
    drawn = {name for name, kept in zip(names, whole.geoms, strict=False) if kept}
    assert {"mirror", "a"} <= drawn
    assert not {"b", "c", "d", "e", "f", "g", "h"} & drawn
    assert (whole.reflects, part.reflects) == (False, True)
    assert isinstance(part.taken, np.ndarray)
    assert part.taken.shape == part.window[:1:-1]
    assert 0 < part.taken.sum() < part.taken.size < WIDTH * HEIGHT / 4
    assert "mirror" in {name for name, kept in zip(names, part.geoms, strict=False) if kept}
    # On a graphics card both are drawn at once.
    (one,) = view.passes(np.inf)
    assert one.reflects
    model.cam_quat[0] = [1, 0, 0, 0]
    model.cam_pos[0] = [0.2, 0, -0.2]
    mujoco.mj_forward(model, data)
    view = looking(cameras, data)
    (below,) = view.passes(-1e9)
    assert not below.reflects, "a box reflects by its upper side"


def drawn_names(model: mujoco.MjModel, view: View) -> set[str]:
    (only,) = view.passes(np.inf)
    names = [model.geom(number).name for number in view.geoms.integer("objid")]
    return {name for name, kept in zip(names, only.geoms, strict=False) if kept}


def test_what_is_behind_a_table_is_not_drawn() -> None:
    model, data, cameras = room("none", True, False)
    model.cam_pos[0], model.cam_quat[0], model.cam_fovy[0] = [0.1, 0, 0.5], [1, 0, 0, 0], 80
    for name in "abcdefgh":
        model.geom(name).pos[:] = [0.1, 0, 9]
    place = {"b": [0.1, 0, -0.6], "c": [0.5, 0, -0.8], "e": [0.9, 0, -0.6], "h": [0.1, 0.1, -0.3]}
    for name, position in place.items():
        model.geom(name).pos[:] = position
    mujoco.mj_forward(model, data)
    drawn = drawn_names(model, looking(cameras, data))
    assert "b" not in drawn
    assert {"e", "h", "k"} <= drawn, "one looks out beside it, one through it"
    check(cameras, data, "eye")
    table = model.geom("k")
    alpha, material = table.rgba[3], table.matid.item()
    try:
        model.mat_rgba[material, 3] = 0.5
        assert "b" in drawn_names(model, looking(cameras, data)), "a table of glass hides nothing"
        check(cameras, data, "eye")
    finally:
        model.mat_rgba[material, 3] = alpha


def test_where_geoms_lie_otherwise_in_memory_all_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    model = mujoco.MjModel.from_xml_string(ROOM.format(shadows="", first="", last="", floor="3 3 1"))
    scene = mujoco.MjvScene(model, maxgeom=50)
    assert SceneGeoms(model, scene).usable, "this MuJoCo keeps geoms as it always did"
    with monkeypatch.context() as patched:
        patched.setattr(culling, "_INTEGERS", (*culling._INTEGERS[1:], culling._INTEGERS[0]))
        assert not SceneGeoms(model, scene).usable
    with monkeypatch.context() as patched:
        patched.setattr(culling, "_WORDS", culling._WORDS + 1)
        assert not SceneGeoms(model, scene).usable
        assert Cameras(model, HEIGHT, WIDTH).draws_all


def test_a_driver_that_draws_on_the_processor_is_told_from_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    model = room("none", True, False)[0]
    for name, software in (("llvmpipe (LLVM 15.0.6, 256 bits)", True), ("NVIDIA H200/PCIe/SSE2", False)):
        monkeypatch.setattr("pytest_vla.sim.cameras._renderer", lambda name=name: name)
        assert np.isfinite(Cameras(model, HEIGHT, WIDTH)._second_pass) == software


@pytest.mark.parametrize("task", [0, 5])
def test_tabletops_pictures(task: int) -> None:
    world = tabletop_world()
    world.switch(load_suite("tabletop").tasks[task])
    world.reset(0)
    check_world(world)
    look_about(world, np.random.default_rng(task), 4)


# A stove that reflects; shelves, books and a floor.
@pytest.mark.parametrize(("suite", "task"), [("libero_goal", 0), slow("libero_10", 0), slow("libero_90", 40)])
def test_liberos_pictures(suite: str, task: int) -> None:
    libero_data()
    with World(load_suite(suite, data=data_root()).tasks[task], image_size=(96, 96)) as world:
        world.reset(0)
        check_world(world)
        look_about(world, np.random.default_rng(task), 3)


def vary(world: World, task: Task, label: str) -> bool:
    """Whether the world shows a task under a variation; False where there is none, or its scene is another."""
    for seed in range(5):
        try:
            if not world.switch(task, find_variation(task, label, seed)):
                return False
            world.reset(seed)
        except (RedrawError, UnfitError):
            continue
        return True
    return False


def labels(*, scene: bool) -> list[str]:
    """A label of each kind that changes what is seen, of a high level."""
    chosen = [kind for kind in kinds() if kind.dimension not in ("noise", "language", "action")]
    return [kind.labels()[-1] for kind in chosen if kind.scene == scene]


@pytest.mark.slow
def test_pictures_under_every_kind_of_variation() -> None:
    task, world, shown = load_suite("tabletop").tasks[0], tabletop_world(), 0
    for label in labels(scene=False):
        try:
            is_shown = vary(world, task, label)
        except VlaError:
            # It needs files, or another suite.
            continue
        if is_shown:
            shown += 1
            check_world(world, label)
    world.switch(task)
    assert shown > 15
    assert not world.model.light_castshadow.any(), "the next test has the scene as it was"


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["libero_goal", "libero_spatial", "libero_object", "libero_10", "libero_90"])
def test_pictures_of_every_scene(suite: str) -> None:
    libero_data()
    generator = np.random.default_rng(0)
    done: set[str] = set()
    tasks = load_suite(suite, data=data_root()).tasks
    # libero_90's 20 rooms recur with other things in them, and so does the one of libero_object.
    for task in tasks[:: {"libero_90": 9, "libero_object": 3, "libero_10": 2}.get(suite, 1)]:
        with World(task, image_size=(96, 96)) as world:
            if world._scene_key in done:
                continue
            done.add(world._scene_key)
            for init_state in (0, 7):
                world.reset(init_state)
                check_world(world, task.name)
            look_about(world, generator, 6, task.name)
    print(f"{suite}: {len(done)} scenes")
    assert done


@pytest.mark.slow
def test_pictures_of_a_libero_task_under_every_kind_of_variation() -> None:
    libero_data()
    task, shown = load_suite("libero_goal", data=data_root()).tasks[0], []
    for label in itertools.chain(labels(scene=False), labels(scene=True)):
        for seed in range(5):
            try:
                with World(task, find_variation(task, label, seed), image_size=(96, 96)) as world:
                    world.reset(0)
                    check_world(world, label)
                    shown.append(label)
                break
            except (RedrawError, UnfitError):
                continue
            except VlaError as error:
                print(f"{label}: {error}")
                break
    print(f"{len(shown)} kinds: {', '.join(shown)}")
    assert len(shown) > 20
