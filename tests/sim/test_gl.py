"""Headless rendering is found by itself, gives the same pictures everywhere, and says what is missing."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.sim import gl, observations
from tests.support.worlds import tabletop_world

FRAME = """
import hashlib, sys
from pytest_vla.sim.gl import make_gl_context, select_gl
backend = select_gl()
assert "mujoco" not in sys.modules, "the choice comes before MuJoCo"
import mujoco, numpy as np
model = mujoco.MjModel.from_xml_string('''
<mujoco>
  <asset>
    <texture name="grid" type="2d" builtin="checker" width="64" height="64" rgb1=".2 .3 .4" rgb2=".7 .8 .9"/>
    <material name="grid" texture="grid" texrepeat="4 4" reflectance=".3"/>
  </asset>
  <worldbody>
    <light pos="0 -1 2" dir="0 .4 -1"/>
    <geom type="plane" size="1 1 .1" material="grid"/>
    <geom type="box" size=".1 .2 .1" pos="0 0 .3" euler="20 30 40" rgba="1 0 0 1"/>
    <geom type="sphere" size=".2" pos=".4 .3 .2" rgba="0 1 0 .5"/>
    <camera name="eye" pos="0 -2 1" xyaxes="1 0 0 0 .4 1"/>
  </worldbody>
</mujoco>''')
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
context = make_gl_context(96, 64)
context.make_current()
drawing = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, drawing)
camera = mujoco.MjvCamera()
camera.type, camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, 0
scene, option = mujoco.MjvScene(model, maxgeom=100), mujoco.MjvOption()
mujoco.mjv_updateScene(model, data, option, None, camera, mujoco.mjtCatBit.mjCAT_ALL, scene)
picture, viewport = np.zeros((64, 96, 3), np.uint8), mujoco.MjrRect(0, 0, 96, 64)
mujoco.mjr_render(viewport, scene, drawing)
mujoco.mjr_readPixels(picture, None, viewport, drawing)
assert len(np.unique(picture)) > 100, "an empty picture"
print(backend, hashlib.sha256(picture).hexdigest())
"""


def run(script: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    """A fresh interpreter without a window system and without a choice of OpenGL, but for what `environ` sets."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    headless = {k: v for k, v in inherited.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR")}
    return subprocess.run([sys.executable, "-c", script], env=headless | environ, capture_output=True, text=True)


def frame(**environ: str) -> tuple[str, str]:
    result = run(FRAME, **environ)
    assert result.returncode == 0, result.stderr
    assert result.stderr == "", "a rendering process ends silently"
    backend, picture = result.stdout.split()
    return backend, picture


needs_egl = pytest.mark.skipif(gl.probe_egl() is not None, reason=f"EGL does not work here: {gl.DEBIAN}")
needs_osmesa = pytest.mark.skipif(gl.probe_osmesa() is not None, reason=f"OSMesa does not work here: {gl.DEBIAN}")


@needs_egl
@needs_osmesa
def test_egl_and_osmesa_give_the_same_picture_without_a_window_system() -> None:
    renderer = os.environ.get("__EGL_VENDOR_LIBRARY_FILENAMES", "")
    if "nvidia" in renderer or os.path.exists("/dev/nvidiactl"):
        pytest.skip("EGL draws on the GPU here, OSMesa in software: their rounding differs")
    by_egl, by_osmesa = frame(MUJOCO_GL="egl"), frame(MUJOCO_GL="osmesa")
    assert by_egl[0] == "egl"
    assert by_osmesa[0] == "osmesa"
    assert by_egl[1] == by_osmesa[1]


@needs_egl
def test_egl_is_found_without_being_asked_for() -> None:
    assert frame()[0] == "egl"


@needs_osmesa
def test_osmesa_draws_where_egl_has_no_vendor() -> None:
    assert frame(__EGL_VENDOR_LIBRARY_FILENAMES="/dev/null")[0] == "osmesa"


@needs_osmesa
def test_osmesa_draws_where_egl_has_no_driver() -> None:
    result = run(FRAME, LIBGL_DRIVERS_PATH="/nonexistent")
    if result.stdout.startswith("egl "):
        pytest.skip("this EGL needs no DRI driver")
    assert result.stdout.startswith("osmesa "), result.stderr


@needs_osmesa
def test_pyopengl_platform_narrows_the_choice() -> None:
    assert frame(PYOPENGL_PLATFORM="osmesa")[0] == "osmesa"


@needs_egl
def test_a_real_exception_at_exit_is_still_seen() -> None:
    result = run(FRAME + "\nimport atexit\natexit.register(lambda: 1 / 0)")
    assert "ZeroDivisionError" in result.stderr
    assert "EGL" not in result.stderr


@needs_egl
def test_contexts_come_and_go() -> None:
    script = """
from pytest_vla.sim.gl import make_gl_context
contexts = [make_gl_context(32, 32) for _ in range(3)]
for context in contexts:
    context.make_current()
contexts.pop().free()
contexts.pop()
make_gl_context(32, 32).make_current()
"""
    result = run(script)
    assert (result.returncode, result.stderr) == (0, "")


def nothing_loads(name: str) -> Any:
    raise OSError(f"{name}: cannot open shared object file")


def loads_only(*names: str) -> Callable[[str], Any]:
    def load(name: str) -> Any:
        return object() if name in names else nothing_loads(name)

    return load


@pytest.mark.parametrize(
    ("load", "package"),
    [(nothing_loads, "libgl1"), (loads_only("libOpenGL.so.0"), "libegl1"), (loads_only("libGL.so.1"), "libegl1")],
)
def test_egl_names_the_package_of_a_missing_library(load: Callable[[str], Any], package: str) -> None:
    assert f"package {package})" in str(gl.probe_egl(load))


SOFTWARE, OTHER = gl.EglDevice(True, None), gl.EglDevice(False, None)
CARDS = [gl.EglDevice(False, 0), gl.EglDevice(False, 1), gl.EglDevice(False, 2), SOFTWARE]


@pytest.mark.parametrize(
    ("devices", "environ", "cards"),
    [
        (CARDS, {}, [0, 1, 2, 0]),
        # In EGL's order, which need not be CUDA's.
        ([SOFTWARE, *reversed(CARDS[:3])], {"CUDA_VISIBLE_DEVICES": "0,2"}, [1, 3, 1, 3]),
        (CARDS, {"CUDA_VISIBLE_DEVICES": "1"}, [1, 1, 1, 1]),
        (CARDS, {"CUDA_VISIBLE_DEVICES": "GPU-8932f937"}, [0, 1, 2, 0]),
        # No card is visible, as a policy on the processor has it.
        (CARDS, {"CUDA_VISIBLE_DEVICES": ""}, [0, 1, 2, 0]),
        ([OTHER, OTHER], {"CUDA_VISIBLE_DEVICES": "1"}, [0, 1, 0, 1]),
        # Nothing to choose.
        ([CARDS[0], SOFTWARE], {}, [None] * 4),
        ([SOFTWARE, SOFTWARE], {}, [None] * 4),
    ],
)
def test_workers_are_spread_over_the_graphics_cards(
    devices: list[gl.EglDevice], environ: dict[str, str], cards: list[int | None]
) -> None:
    found = [gl.card_of_worker(devices, {**environ, "PYTEST_XDIST_WORKER": f"gw{number}"}) for number in range(4)]
    assert found == cards


def test_a_process_whose_workers_would_inherit_its_card_chooses_none_of_several() -> None:
    assert gl.card_of_worker(CARDS, {}) is None
    assert gl.card_of_worker(CARDS, {"CUDA_VISIBLE_DEVICES": "1"}) == 1


@needs_egl
def test_egl_describes_this_machine_s_devices_as_they_are() -> None:
    script = """
from pytest_vla.sim import gl
seen = []
gl.card_of_worker = lambda devices, environ: seen.extend(devices)
context = gl.make_gl_context(8, 8)
context.make_current()
from OpenGL import GL
print(len(seen), seen[0].is_software, gl.is_software(GL.glGetString(GL.GL_RENDERER).decode()))
"""
    number, said, drawn = run(script, MUJOCO_GL="egl").stdout.split()
    assert int(number) >= 1
    assert said == drawn


def test_egl_without_a_driver_names_the_driver_package() -> None:
    script = "from pytest_vla.sim.gl import probe_egl; print(probe_egl())"
    result = run(script, __EGL_VENDOR_LIBRARY_FILENAMES="/dev/null")
    assert "package" in result.stdout
    assert "None" not in result.stdout


def test_osmesa_names_its_package() -> None:
    assert "package libosmesa6" in str(gl.probe_osmesa(nothing_loads))


def test_where_nothing_works_the_error_gives_the_line_that_mends_it() -> None:
    probes = {"egl": lambda: "libEGL.so.1 does not load", "osmesa": lambda: "libOSMesa.so.8 does not load"}
    with pytest.raises(VlaError) as caught:
        gl.choose_gl("Linux", {}, probes)
    message = str(caught.value)
    assert "egl: libEGL.so.1 does not load" in message
    assert "osmesa: libOSMesa.so.8 does not load" in message
    assert gl.DEBIAN in message
    assert gl.FEDORA in message


def works() -> None:
    return None


def broken() -> str:
    return "broken"


@pytest.mark.parametrize(
    ("system", "environ", "egl", "expected"),
    [
        ("Linux", {}, works, "egl"),
        ("Linux", {}, broken, "osmesa"),
        ("Linux", {"MUJOCO_GL": "on"}, broken, "osmesa"),
        ("Linux", {"MUJOCO_GL": " OSMesa "}, works, "osmesa"),
        ("Linux", {"MUJOCO_GL": "glfw"}, broken, "glfw"),
        ("Linux", {"PYOPENGL_PLATFORM": "osmesa"}, works, "osmesa"),
        ("Linux", {"PYOPENGL_PLATFORM": "x11"}, works, "egl"),
        ("Linux", {"MUJOCO_GL": "off"}, works, "disable"),
        ("Darwin", {}, broken, "cgl"),
        ("Windows", {}, broken, "wgl"),
    ],
)
def test_choice(system: str, environ: Mapping[str, str], egl: gl.Probe, expected: str) -> None:
    assert gl.choose_gl(system, environ, {"egl": egl, "osmesa": works}) == expected


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"MUJOCO_GL": "vulkan"}, ["MUJOCO_GL=vulkan", "egl, osmesa, glfw, glx"]),
        ({"MUJOCO_GL": "egl"}, ["egl: broken", "MUJOCO_GL=egl allows no other"]),
        ({"MUJOCO_GL": "egl", "PYOPENGL_PLATFORM": "osmesa"}, ["contradict each other"]),
    ],
)
def test_refusals_name_the_variable(environ: Mapping[str, str], words: list[str]) -> None:
    with pytest.raises(VlaError) as caught:
        gl.choose_gl("Linux", environ, {"egl": broken, "osmesa": works})
    for word in words:
        assert word in str(caught.value)


def test_a_wrong_egl_device_is_not_passed_over() -> None:
    if gl.probe_egl() is not None:
        pytest.skip("EGL does not work here")
    result = run("from pytest_vla.sim.gl import select_gl; select_gl()", MUJOCO_EGL_DEVICE_ID="99")
    assert "VlaError: MUJOCO_EGL_DEVICE_ID=99" in result.stderr


def test_switched_off_rendering_says_so_when_a_picture_is_wanted() -> None:
    result = run("from pytest_vla.sim.gl import make_gl_context; make_gl_context(8, 8)", MUJOCO_GL="off")
    assert "VlaError: MUJOCO_GL=disable switches rendering off" in result.stderr


def test_a_picture_that_cannot_be_drawn_is_no_error_of_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    world = tabletop_world()
    world.reset()
    world._readings.close()

    def broken(*about: Any) -> Any:
        raise RuntimeError("no display")

    monkeypatch.setattr(observations, "Cameras", broken)
    with pytest.raises(EpisodeError, match=r"no display.*MUJOCO_GL=egl") as raised:
        world.reset()["agentview_image"]
    assert raised.value.reason == "world-unusable"
