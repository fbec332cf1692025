"""What a pair of pictures costs, part by part, and which way of drawing it is fastest where many processes draw.

    python benchmarks/drawing.py [--suite libero_spatial] [--processes 1,4,16,4x4,1x16] [--seconds 2]

All ways give the same pixels, which is checked before anything is timed. On a graphics card that is shared by many
processes, a pair is two times a wait for the card's turn: the ways tell what of that a change would spare, and 4x4,
four processes that each draw for four worlds, tells beside 16 what fewer processes would. Where OpenGL draws on the
processor, they tell that it would spare little.
"""

import argparse
import ctypes
import dataclasses
import itertools
import multiprocessing
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt
from upstream import libero_data, machine, table

from pytest_vla import World, load_suite
from pytest_vla.sim.cameras import Cameras, Picture
from pytest_vla.sim.visible import SECOND_PASS, Pass, view_of

from OpenGL import GL  # isort: skip: after World, which chooses the OpenGL

VIEWS = ("agentview", "robot0_eye_in_hand")
SIDE, MOMENTS, REPLAN = 256, 12, 10

Pair = tuple[Picture, Picture]
Way = Callable[[Cameras, mujoco.MjData], Pair]


class PixelBuffer:
    """Memory of the graphics side that pixels are put into without waiting for them."""

    def __init__(self, size: int) -> None:
        self._name = int(GL.glGenBuffers(1))
        self._bound()
        GL.glBufferData(GL.GL_PIXEL_PACK_BUFFER, size, None, GL.GL_STREAM_READ)
        self._unbound()

    def _bound(self) -> None:
        GL.glBindBuffer(GL.GL_PIXEL_PACK_BUFFER, self._name)

    def _unbound(self) -> None:
        # Else mjr_readPixels would write to it.
        GL.glBindBuffer(GL.GL_PIXEL_PACK_BUFFER, 0)

    def put(self, context: mujoco.MjrContext, window: tuple[int, int, int, int], offset: int) -> None:
        """What mjr_readPixels does (src/render/render_gl3.c): samples are resolved, then pixels are read."""
        left, bottom, width, height = window
        GL.glBindFramebuffer(GL.GL_READ_FRAMEBUFFER, context.offFBO)
        GL.glReadBuffer(GL.GL_COLOR_ATTACHMENT0)
        if context.offSamples:
            box = left, bottom, left + width, bottom + height
            GL.glBindFramebuffer(GL.GL_DRAW_FRAMEBUFFER, context.offFBO_r)
            GL.glDrawBuffer(GL.GL_COLOR_ATTACHMENT0)
            GL.glBlitFramebuffer(*box, *box, GL.GL_COLOR_BUFFER_BIT, GL.GL_NEAREST)
            GL.glBindFramebuffer(GL.GL_READ_FRAMEBUFFER, context.offFBO_r)
            GL.glReadBuffer(GL.GL_COLOR_ATTACHMENT0)
        GL.glPixelStorei(GL.GL_PACK_ALIGNMENT, 1)
        self._bound()
        GL.glReadPixels(left, bottom, width, height, GL.GL_RGB, GL.GL_UNSIGNED_BYTE, ctypes.c_void_p(offset))
        self._unbound()
        mujoco.mjr_restoreBuffer(context)

    def get(self, size: int) -> npt.NDArray[np.uint8]:
        """Waits until all is there."""
        pixels = np.empty(size, np.uint8)
        self._bound()
        GL.glGetBufferSubData(GL.GL_PIXEL_PACK_BUFFER, 0, size, pixels)
        self._unbound()
        return pixels


def passes_of(cameras: Cameras, data: mujoco.MjData, view: str, second_pass: float) -> tuple[Any, list[Pass]]:
    """What a camera sees, which becomes the scene to draw."""
    cameras._look(data, view)
    seen = view_of(cameras._scene, cameras._geoms, SIDE, SIDE, reflections=True, shadows=cameras.shadows)
    return seen, seen.passes(second_pass)


def everything(cameras: Cameras, data: mujoco.MjData) -> Pair:
    """As robosuite draws."""
    cameras.draws_all = True
    try:
        return seen(cameras, data)
    finally:
        cameras.draws_all = False


def seen(cameras: Cameras, data: mujoco.MjData) -> Pair:
    """As a world draws: what is seen of the scene, one camera after the other."""
    one, other = (cameras.picture(data, view) for view in VIEWS)
    return one, other


def mirror_apart(cameras: Cameras, data: mujoco.MjData) -> Pair:
    """A second pass for a small mirror: what is drawn anyway on the processor, and on a graphics card is not."""
    return _with_second_pass(cameras, data, SECOND_PASS)


def mirror_together(cameras: Cameras, data: mujoco.MjData) -> Pair:
    """One pass a camera: what is drawn anyway on a graphics card."""
    return _with_second_pass(cameras, data, np.inf)


def _with_second_pass(cameras: Cameras, data: mujoco.MjData, second_pass: float) -> Pair:
    before, cameras._second_pass = cameras._second_pass, second_pass
    try:
        return seen(cameras, data)
    finally:
        cameras._second_pass = before


class OneWait:
    """Both cameras are drawn, and their pixels put into a buffer, before the first is waited for."""

    def __init__(self) -> None:
        self._buffers: dict[int, PixelBuffer] = {}

    def __call__(self, cameras: Cameras, data: mujoco.MjData) -> Pair:
        cameras._gl.make_current()
        # A context's names are its own. Two passes a camera at most, none larger than its picture.
        buffer = self._buffers.get(id(cameras)) or PixelBuffer(4 * 3 * SIDE * SIDE)
        self._buffers[id(cameras)] = buffer
        wanted: list[list[tuple[Pass, int]]] = []
        offset = 0
        for view in VIEWS:
            found, passes = passes_of(cameras, data, view, cameras._second_pass)
            wanted.append([])
            for one in passes:
                cameras._geoms.keep(found.geoms.rows[one.geoms])
                cameras._render(one.reflects)
                buffer.put(cameras._context, one.window, offset)
                wanted[-1].append((one, offset))
                offset += 3 * one.window[2] * one.window[3]
        pixels = buffer.get(offset)
        first, second = (_assembled(pixels, parts) for parts in wanted)
        return first, second


def _assembled(pixels: npt.NDArray[np.uint8], parts: list[tuple[Pass, int]]) -> Picture:
    raw = np.empty((SIDE, SIDE, 3), np.uint8)
    for one, offset in parts:
        left, bottom, width, height = one.window
        part = pixels[offset : offset + 3 * width * height].reshape(height, width, 3)
        raw[bottom : bottom + height, left : left + width][one.taken] = part[one.taken]
    return np.ascontiguousarray(raw[::-1])


WAYS: dict[str, Callable[[], Way]] = {
    "everything": lambda: everything,
    "seen (a world's way)": lambda: seen,
    "seen, mirror apart": lambda: mirror_apart,
    "seen, mirror together": lambda: mirror_together,
    "seen, one wait for both": OneWait,
}


class Moments:
    """A world at moments of an episode, `REPLAN` steps of random actions apart; drawn from in turn."""

    def __init__(self, suite: str) -> None:
        libero_data()
        self._world = World(load_suite(suite).tasks[0], image_size=(SIDE, SIDE))
        self._world.reset(0)
        generator = np.random.default_rng(0)
        self._poses = []
        for _ in range(MOMENTS):
            action = np.append(generator.uniform(-0.5, 0.5, 6), -1.0)
            for _ in range(REPLAN):
                self._world.step(action)
            self._poses.append(self._world.data.qpos.copy())
        self._number = 0
        self.readings = self._world._readings
        self.cameras = self.readings._drawing()

    def next(self) -> mujoco.MjData:
        """Poses of the next moment."""
        pose = self._poses[self._number % MOMENTS]
        self._number += 1
        self.readings.sampled = (pose, pose, self.readings.sampled[2])
        return self.readings._seen()

    def check(self) -> None:
        """Raises AssertionError where a way's pixels are others than everything's."""
        ways = {name: make() for name, make in WAYS.items()}
        for _ in range(MOMENTS):
            data = self.next()
            expected = everything(self.cameras, data)
            for name, way in ways.items():
                found = way(self.cameras, data)
                assert all(map(np.array_equal, found, expected)), f"{name}: other pixels than everything's"


def parts(moments: Moments, rounds: int) -> dict[str, float]:
    """Milliseconds of a pair by part: sums over both cameras, medians over moments. Each part is waited for."""
    cameras = moments.cameras
    taken: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        times: dict[str, float] = defaultdict(float)
        last = time.perf_counter()

        def tick(name: str, times: dict[str, float] = times) -> None:
            nonlocal last
            now = time.perf_counter()
            times[name] += now - last
            last = now

        for view in VIEWS:
            last = time.perf_counter()
            data = moments.next() if view == VIEWS[0] else moments.readings._seen()
            tick("poses")
            cameras._look(data, view)
            tick("mjv_updateScene")
            found = view_of(cameras._scene, cameras._geoms, SIDE, SIDE, reflections=True, shadows=cameras.shadows)
            passes = found.passes(cameras._second_pass)
            tick("what is seen")
            raw = np.empty((SIDE, SIDE, 3), np.uint8)
            for one in passes:
                cameras._geoms.keep(found.geoms.rows[one.geoms])
                tick("copies, flip")
                cameras._render(one.reflects)
                tick("mjr_render")
                GL.glFinish()
                tick("OpenGL, waited for")
                left, bottom, width, height = one.window
                pixels = np.empty((height, width, 3), np.uint8)
                mujoco.mjr_readPixels(pixels, None, mujoco.MjrRect(*one.window), cameras._context)
                tick("mjr_readPixels")
                raw[bottom : bottom + height, left : left + width][one.taken] = pixels[one.taken]
            np.ascontiguousarray(raw[::-1])
            tick("copies, flip")
        for name, seconds in times.items():
            taken[name].append(1000 * seconds)
    return {name: statistics.median(all_taken) for name, all_taken in taken.items()}


def graphics_ms(moments: Moments, way: Way) -> float:
    """Milliseconds of a pair that the graphics side says that it was busy for it (GL_TIME_ELAPSED)."""
    (query,) = np.atleast_1d(GL.glGenQueries(1)).tolist()
    taken = []
    for _ in range(MOMENTS):
        data = moments.next()
        GL.glBeginQuery(GL.GL_TIME_ELAPSED, query)
        way(moments.cameras, data)
        GL.glEndQuery(GL.GL_TIME_ELAPSED)
        taken.append(int(GL.glGetQueryObjectuiv(query, GL.GL_QUERY_RESULT)) / 1e6)
    return statistics.median(taken)


@dataclasses.dataclass(frozen=True)
class Drawers:
    """How many processes draw at once, and for how many worlds each of them does."""

    processes: int
    worlds: int = 1

    @classmethod
    def of(cls, text: str) -> "Drawers":
        """Of ``16`` or ``4x4``."""
        return cls(*map(int, text.split("x")))

    def __str__(self) -> str:
        return f"{self.processes}" if self.worlds == 1 else f"{self.processes}x{self.worlds}"


def draw(suite: str, core: int, worlds: int, rounds: int, seconds: float, barrier: Barrier, told: Any) -> None:
    """A process: pairs by each way in turn, of its worlds in turn; tells pairs a second by way."""
    # Software GL draws with as many threads as the process has cores: a worker's neighbours have theirs.
    os.sched_setaffinity(0, {core})
    turns = itertools.cycle([Moments(suite) for _ in range(worlds)])
    ways = {name: make() for name, make in WAYS.items()}
    for way in ways.values():
        for moments in itertools.islice(turns, worlds):
            way(moments.cameras, moments.next())
    pairs: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            barrier.wait()
            last = time.perf_counter()
            until = last + seconds
            while last < until:
                moments = next(turns)
                way(moments.cameras, moments.next())
                pairs[name].append(time.perf_counter() - last)
                last += pairs[name][-1]
    told.put({name: len(taken) / sum(taken) for name, taken in pairs.items()})


def rates(suite: str, drawers: Drawers, rounds: int, seconds: float) -> dict[str, float]:
    """Pairs a second by way, of all processes together."""
    spawn = multiprocessing.get_context("spawn")
    cores = sorted(os.sched_getaffinity(0))
    barrier, told = spawn.Barrier(drawers.processes), spawn.Queue()
    arguments = (drawers.worlds, rounds, seconds, barrier, told)
    all_of_them = [
        spawn.Process(target=draw, args=(suite, cores[number % len(cores)], *arguments))
        for number in range(drawers.processes)
    ]
    for drawer in all_of_them:
        drawer.start()
    found = [told.get() for _ in all_of_them]
    for drawer in all_of_them:
        drawer.join()
    return {name: sum(one[name] for one in found) for name in WAYS}


def main() -> None:
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="libero_spatial")
    parser.add_argument("--processes", default=",".join(str(2**n) for n in range(7) if 2**n <= cores))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of a way in a round")
    asked = parser.parse_args()
    counts = [Drawers.of(text) for text in asked.processes.split(",")]
    many = {drawers: rates(asked.suite, drawers, asked.rounds, asked.seconds) for drawers in counts}
    on = machine()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    moments = Moments(asked.suite)
    moments.check()
    told = f"{asked.suite}/0, two {SIDE}x{SIDE} pictures; {on}, drawn by {moments.cameras.renderer}"
    found = parts(moments, 3 * MOMENTS)
    whole = sum(found.values())
    rows = [("part of a pair", "ms", "share")]
    rows += [(name, f"{taken:.2f}", f"{taken / whole:.0%}") for name, taken in found.items()]
    table(f"{told}: each part waited for, one core, one process", [*rows, ("together", f"{whole:.2f}", "")])
    busy = {name: graphics_ms(moments, make()) for name, make in WAYS.items()}
    rows = [("way", "graphics busy, ms", *(f"{drawers} at once: pairs/s (ms)" for drawers in counts))]
    for name in WAYS:
        found_rates = {drawers: each[name] for drawers, each in many.items()}
        cells = (f"{rate:.1f} ({1000 * drawers.processes / rate:.1f})" for drawers, rate in found_rates.items())
        rows.append((name, f"{busy[name]:.2f}", *cells))
    table(f"{told}: the same pixels by each way, in turn", rows)


if __name__ == "__main__":
    main()
