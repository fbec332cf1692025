"""Headless rendering: finds an OpenGL that MuJoCo can use without a window system, or names what to install.

MuJoCo and robosuite read `MUJOCO_GL` when they are imported, and PyOpenGL binds to one platform for good. So the choice
is made before, by calling the libraries through ctypes: `select_gl` first, then `import mujoco`.
"""

import atexit
import ctypes
import functools
import importlib
import os
import platform
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from pytest_vla.errors import VlaError
from pytest_vla.util.extras import DEBIAN, FEDORA

Loader = Callable[[str], Any]
"""Loads a shared library by name and returns an object with its functions; OSError where it is absent."""
Probe = Callable[[], str | None]
"""None where a backend works, otherwise what is missing."""


RENDER_HINT = "MUJOCO_GL=egl or MUJOCO_GL=osmesa draws without a window system; unset, one that works is found"

_MODULES = {"egl": "mujoco.egl", "osmesa": "mujoco.osmesa", "cgl": "mujoco.cgl"}
_BACKENDS = {"Linux": ("egl", "osmesa", "glfw", "glx"), "Darwin": ("cgl", "glfw"), "Windows": ("wgl", "glfw")}
_AUTOMATIC = ("", "enable", "enabled", "on", "true", "1")
_DISABLED = ("disable", "disabled", "off", "false", "0")


# The extensions by which EGL describes devices, and the attribute for the number that CUDA gives one.
_EGL_EXTENSIONS, _EGL_CUDA_DEVICE_NV = 0x3055, 0x323A


def is_software(renderer: str) -> bool:
    """Return whether a driver of this name draws on the processor."""
    return any(name in renderer for name in ("llvmpipe", "softpipe", "swrast", "SWR", "Software Rasterizer"))


class EglDevice(NamedTuple):
    """A device that EGL can draw on.

    Attributes:
        is_software: whether it is no graphics card.
        cuda: the number that CUDA gives it, or None for a card of another make.
    """

    is_software: bool
    cuda: int | None


class GLContext(Protocol):
    """An OpenGL context of one thread, as MuJoCo's own classes are."""

    def make_current(self) -> None: ...
    def free(self) -> None: ...


@functools.cache
def select_gl() -> str:
    """Return the OpenGL backend of this process: `egl`, `osmesa`, `cgl`, `wgl`, or the value of `MUJOCO_GL`.

    Call it before mujoco or robosuite is imported. It sets `MUJOCO_GL` for them and for child processes; `disable` is
    kept. The result does not change while the process lives. Raises VlaError with the packages to install if no backend
    works.
    """
    choice = choose_gl(platform.system(), os.environ, {"egl": probe_egl, "osmesa": probe_osmesa})
    os.environ["MUJOCO_GL"] = choice
    return choice


def choose_gl(system: str, environ: Mapping[str, str], probes: Mapping[str, Probe]) -> str:
    """Choose the backend for an operating system (a name from platform.system), an environment and its probes.

    `MUJOCO_GL` wins; without it `PYOPENGL_PLATFORM` narrows the choice; otherwise EGL, then OSMesa on Linux. Raises
    VlaError.
    """
    wanted = environ.get("MUJOCO_GL", "").lower().strip()
    backends = _BACKENDS.get(system, ("glfw",))
    if wanted in _DISABLED:
        return "disable"
    if wanted not in _AUTOMATIC and wanted not in backends:
        raise VlaError(
            f"MUJOCO_GL={wanted} is no backend of {system}: expected one of {', '.join(backends)}. "
            "Unset it to have one found."
        )
    candidates = [wanted] if wanted in backends else [name for name in backends if name in probes] or [backends[0]]
    bound = environ.get("PYOPENGL_PLATFORM", "").lower().strip()
    if bound in probes:
        candidates = [name for name in candidates if name == bound or name not in probes]
        if not candidates:
            raise VlaError(f"MUJOCO_GL={wanted} and PYOPENGL_PLATFORM={bound} contradict each other: unset one.")
    missing: list[str] = []
    for name in candidates:
        problem = probes[name]() if name in probes else None
        if problem is None:
            return name
        missing.append(f"{name}: {problem}")
    chosen = f" MUJOCO_GL={wanted} allows no other backend; unset it to have one found." if wanted in backends else ""
    raise VlaError(
        f"MuJoCo cannot render on this machine ({'; '.join(missing)}).{chosen} "
        f"Debian, Ubuntu: {DEBIAN}. Fedora: {FEDORA}."
    )


def make_gl_context(width: int, height: int) -> GLContext:
    """Make an offscreen context for pictures up to `width` x `height` pixels, freed at exit at the latest.

    Make it current before MuJoCo draws: making another context on this thread releases it.
    Raises VlaError if the driver refuses or if rendering is switched off.
    """
    backend = select_gl()
    if backend == "disable":
        raise VlaError("MUJOCO_GL=disable switches rendering off, but a picture was asked for: unset MUJOCO_GL.")
    try:
        # Not mujoco.GLContext: that one was bound by whatever MUJOCO_GL was when mujoco was first imported.
        module = importlib.import_module(_MODULES.get(backend, "mujoco.glfw"))
        context: GLContext = module.GLContext(width, height)
    except Exception as error:  # a driver's refusal comes as ImportError, RuntimeError, or PyOpenGL's own kinds
        raise VlaError(f"no {backend} context of {width}x{height} could be made: {error}") from error
    _free_at_exit().add(context)
    return context


@functools.cache
def _free_at_exit() -> "weakref.WeakSet[GLContext]":
    """Return the live contexts.

    They are freed before MuJoCo terminates EGL at exit, which would print errors for each.
    """
    contexts: weakref.WeakSet[GLContext] = weakref.WeakSet()

    def free() -> None:
        for context in list(contexts):
            context.free()

    # Exit functions run last in, first out: this is registered after the first context, so it runs before MuJoCo's.
    atexit.register(free)
    return contexts


def _load(name: str) -> Any:
    # Local: MuJoCo takes whichever EGL or OSMesa function it finds among the global symbols, a failed EGL's included.
    return ctypes.CDLL(name, mode=ctypes.RTLD_LOCAL)


def _loads(load: Loader, *names: str) -> bool:
    for name in names:
        try:
            load(name)
        except OSError:
            continue
        return True
    return False


def probe_egl(load: Loader = _load) -> str | None:
    """Return the reason why EGL gives no context without a window system, or None if it does.

    The context is requested as MuJoCo does. Raises VlaError if `MUJOCO_EGL_DEVICE_ID` names no device. If a
    worker has a graphics card of its own (`card_of_worker`), it sets that variable, for MuJoCo to follow.
    """
    # NVIDIA's driver wants libOpenGL loaded before libEGL.
    if not _loads(load, "libOpenGL.so.0", "libOpenGL.so", "libGL.so.1", "libGL.so"):
        return "libGL.so.1 does not load (package libgl1)"
    try:
        egl = load("libEGL.so.1")
    except OSError:
        return "libEGL.so.1 does not load (package libegl1)"
    for name in ("eglGetProcAddress", "eglCreateContext"):
        getattr(egl, name).restype = ctypes.c_void_p
    query_address = egl.eglGetProcAddress(b"eglQueryDevicesEXT")
    display_address = egl.eglGetProcAddress(b"eglGetPlatformDisplayEXT")
    if not query_address or not display_address:
        return "libEGL.so.1 cannot render without a window system (no EGL_EXT_platform_device)"
    handle = ctypes.c_void_p
    query = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_int, ctypes.POINTER(handle), ctypes.POINTER(ctypes.c_int))
    get_display = ctypes.CFUNCTYPE(handle, ctypes.c_uint, handle, handle)
    devices = (handle * 10)()
    count = ctypes.c_int()
    if not query(query_address)(len(devices), devices, ctypes.byref(count)) or count.value < 1:
        return "EGL knows no device (package libegl-mesa0, or the graphics driver's EGL)"
    selected = os.environ.get("MUJOCO_EGL_DEVICE_ID", "")
    if selected and (not selected.isdigit() or int(selected) >= count.value):
        raise VlaError(f"MUJOCO_EGL_DEVICE_ID={selected}, but EGL has devices 0 to {count.value - 1}: unset it.")
    card = None if selected else card_of_worker(_egl_devices(egl, devices[: count.value]), os.environ)
    chosen = [int(selected)] if selected else [*([] if card is None else [card]), *range(count.value)]
    platform_device = 0x313F
    for index in chosen:
        display = get_display(display_address)(platform_device, devices[index], None)
        if display and egl.eglInitialize(handle(display), None, None):
            if index == card:
                os.environ["MUJOCO_EGL_DEVICE_ID"] = str(card)
            # The display stays initialised: MuJoCo is about to use it.
            return _egl_context_problem(egl, handle(display))
    return "no EGL device can be initialised (package libgl1-mesa-dri, or no right to use /dev/dri)"


def card_of_worker(devices: Sequence[EglDevice], environ: Mapping[str, str]) -> int | None:
    """Return the index of the device that a process draws on, or None to leave the choice to MuJoCo.

    Among several graphics cards the workers of pytest-xdist (`PYTEST_XDIST_WORKER`) take turns; MuJoCo would use the
    first one for all. `CUDA_VISIBLE_DEVICES` restricts the choice, as others may use the other cards.
    """
    cards = [index for index, device in enumerate(devices) if not device.is_software]
    if len(cards) < 2:
        return None
    visible = [text.strip() for text in environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    # It may also hold names of devices (GPU-8932f937, MIG-...), which say nothing about EGL's.
    if all(text.isdecimal() for text in visible):
        cards = [index for index in cards if str(devices[index].cuda) in visible] or cards
    worker = "".join(filter(str.isdecimal, environ.get("PYTEST_XDIST_WORKER", "")))
    # Workers would inherit the choice of the process that starts them.
    return cards[int(worker or 0) % len(cards)] if worker or len(cards) == 1 else None


def _egl_devices(egl: Any, devices: Sequence[int | None]) -> list[EglDevice]:
    """Describe devices; one that does not describe itself counts as software."""
    text_address = egl.eglGetProcAddress(b"eglQueryDeviceStringEXT")
    number_address = egl.eglGetProcAddress(b"eglQueryDeviceAttribEXT")
    handle, found = ctypes.c_void_p, []
    for device in devices:
        told = b""
        if text_address:
            told = ctypes.CFUNCTYPE(ctypes.c_char_p, handle, ctypes.c_int)(text_address)(device, _EGL_EXTENSIONS) or b""
        number, cuda = ctypes.c_ssize_t(), None
        if number_address and b"EGL_NV_device_cuda" in told.split():
            ask = ctypes.CFUNCTYPE(ctypes.c_uint, handle, ctypes.c_int, ctypes.POINTER(ctypes.c_ssize_t))
            if ask(number_address)(device, _EGL_CUDA_DEVICE_NV, ctypes.byref(number)):
                cuda = number.value
        found.append(EglDevice(not told or b"EGL_MESA_device_software" in told.split(), cuda))
    return found


def _egl_context_problem(egl: Any, display: ctypes.c_void_p) -> str | None:
    # 8 bits a colour, 24 of depth, 8 of stencil, a pbuffer, desktop OpenGL: MuJoCo's own request.
    wanted = (0x3024, 8, 0x3023, 8, 0x3022, 8, 0x3021, 8, 0x3025, 24, 0x3026, 8, 0x303F, 0x308E)
    attributes = (ctypes.c_int * 19)(*wanted, 0x3033, 0x0001, 0x3040, 0x0008, 0x3038)
    config, count = ctypes.c_void_p(), ctypes.c_int()
    egl.eglChooseConfig(display, attributes, ctypes.byref(config), 1, ctypes.byref(count))
    if count.value < 1:
        return "EGL has no framebuffer with 24 bits of depth for desktop OpenGL"
    opengl_api = 0x30A2
    egl.eglBindAPI(opengl_api)
    context = egl.eglCreateContext(display, config, None, None)
    if not context:
        return "EGL makes no desktop OpenGL context"
    egl.eglDestroyContext(display, ctypes.c_void_p(context))
    return None


def probe_osmesa(load: Loader = _load) -> str | None:
    """Return the reason why OSMesa gives no context, or None if it does."""
    for name in ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"):
        try:
            osmesa = load(name)
        except OSError:
            continue
        osmesa.OSMesaCreateContextExt.restype = ctypes.c_void_p
        rgba = 0x1908
        context = osmesa.OSMesaCreateContextExt(rgba, 24, 8, 0, None)
        if not context:
            return f"{name} makes no context"
        osmesa.OSMesaDestroyContext(ctypes.c_void_p(context))
        return None
    return "libOSMesa.so.8 does not load (package libosmesa6)"
