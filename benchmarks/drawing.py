"""What a pair of pictures costs, part by part, and what drawing only what is seen spares where many processes draw.

    python benchmarks/drawing.py [--suite libero_spatial] [--processes 1,4,16,4x4,1x16] [--seconds 2]

Both ways give the same pixels, which is checked before anything is timed. On a graphics card that is shared by many
processes, a pair is two times a wait for the card's turn: 4x4, four processes that each draw for four worlds, tells
beside 16 what fewer processes would spare. Commit b9989a3 has three more ways, which were not told apart on software.
"""

import argparse
import itertools
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from typing import Any

import mujoco
import numpy as np
from upstream import libero_data, machine, side_by_side, table

from pytest_vla import World, load_suite
from pytest_vla.sim.cameras import Cameras, Picture
from pytest_vla.sim.culling import view_of

from OpenGL import GL  # isort: skip: after World, which chooses the OpenGL

VIEWS = ("agentview", "robot0_eye_in_hand")
SIDE, MOMENTS, REPLAN = 256, 12, 10

Pair = tuple[Picture, Picture]
Way = Callable[[Cameras, mujoco.MjData], Pair]


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


WAYS: dict[str, Way] = {"everything": everything, "seen (a world's way)": seen}


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
        """Raise AssertionError where a way's pixels are others than everything's."""
        for _ in range(MOMENTS):
            data = self.next()
            expected = everything(self.cameras, data)
            for name, way in WAYS.items():
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


def draw(suite: str, core: int, worlds: int, rounds: int, seconds: float, barrier: Barrier, told: Any) -> None:
    """A process: pairs by each way in turn, of its worlds in turn; tells pairs a second by way."""
    # Software GL draws with as many threads as the process has cores: a worker's neighbours have theirs.
    os.sched_setaffinity(0, {core})
    turns = itertools.cycle([Moments(suite) for _ in range(worlds)])
    for way in WAYS.values():
        for moments in itertools.islice(turns, worlds):
            way(moments.cameras, moments.next())
    pairs: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(rounds):
        for name, way in WAYS.items():
            barrier.wait()
            last = time.perf_counter()
            until = last + seconds
            while last < until:
                moments = next(turns)
                way(moments.cameras, moments.next())
                pairs[name].append(time.perf_counter() - last)
                last += pairs[name][-1]
    told.put({name: len(taken) / sum(taken) for name, taken in pairs.items()})


def rates(suite: str, processes: int, worlds: int, rounds: int, seconds: float) -> dict[str, float]:
    """Pairs a second by way, of all processes together, each of which draws for so many worlds."""
    cores = sorted(os.sched_getaffinity(0))
    of_each = [(suite, cores[number % len(cores)], worlds, rounds, seconds) for number in range(processes)]
    found = side_by_side(draw, of_each)
    return {name: sum(one[name] for one in found) for name in WAYS}


def main() -> None:
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="libero_spatial")
    parser.add_argument("--processes", default=",".join(str(2**n) for n in range(7) if 2**n <= cores))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of a way in a round")
    asked = parser.parse_args()
    # Such as 16, or 4x4: processes, and worlds of each.
    counts = {text: [int(part) for part in f"{text}x1".split("x")[:2]] for text in asked.processes.split(",")}
    many = {text: rates(asked.suite, *numbers, asked.rounds, asked.seconds) for text, numbers in counts.items()}
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
    busy = {name: graphics_ms(moments, way) for name, way in WAYS.items()}
    rows = [("way", "graphics busy, ms", *(f"{drawers} at once: pairs/s (ms)" for drawers in counts))]
    for name in WAYS:
        found_rates = {drawers: each[name] for drawers, each in many.items()}
        cells = (f"{rate:.1f} ({1000 * counts[drawers][0] / rate:.1f})" for drawers, rate in found_rates.items())
        rows.append((name, f"{busy[name]:.2f}", *cells))
    table(f"{told}: the same pixels by each way, in turn", rows)


if __name__ == "__main__":
    main()
