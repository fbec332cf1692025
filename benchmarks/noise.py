"""What noise costs a 256x256 picture, on one core, beside drawing the picture and a control step without any.

python benchmarks/noise.py
"""

import functools
import os
import statistics
import time
from collections.abc import Callable, Iterator

import cv2
import numpy as np
from upstream import table

from pytest_vla import World, load_suite
from pytest_vla.plan.labels import level_of
from pytest_vla.vary.axes.noise import KINDS
from pytest_vla.vary.kind import Draw

ROUNDS = 15
BOUND = 15.0
"""Milliseconds a picture, of any kind and severity."""


def labels() -> Iterator[tuple[str, str]]:
    """Kinds and the labels of their variations; published noise of the wrist's camera is the other one's."""
    for kind in KINDS:
        if kind.name != "noise.plus_wrist":
            yield from ((kind.name, label) for label in kind.labels())


def main() -> None:
    # Before the first world: software GL settles on the cores that it has then.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    cv2.setNumThreads(1)
    task = load_suite("tabletop").tasks[0]
    world = World(task)
    picture = world.reset(0)["agentview_image"]
    kinds = {kind.name: kind for kind in KINDS}
    changes = {}
    for name, label in labels():
        level = level_of(label)
        (edit,) = kinds[name].make(Draw(task, label, 0, level, label.removeprefix(f"{name}."))).pictures
        changes[label] = edit()
    times: dict[str, list[float]] = {label: [] for label in ("a step", "a step and a picture", *changes)}

    def timed(label: str, number: int, work: Callable[[], object]) -> None:
        # The processor's time, as others may use the core; the first time compiles and fills tables.
        start = time.process_time()
        work()
        if number:
            times[label].append(1e3 * (time.process_time() - start))

    for number in range(ROUNDS + 1):
        timed("a step", number, lambda: world.step(np.zeros(7)))
        timed("a step and a picture", number, lambda: world.step(np.zeros(7))["agentview_image"])
    for label, change in changes.items():
        for number in range(ROUNDS + 1):
            timed(label, number, functools.partial(change, picture, "agentview", number))
    fastest = {label: min(taken) for label, taken in times.items()}
    median = {label: statistics.median(taken) for label, taken in times.items()}
    rows: list[tuple[str, ...]] = [("noise", "ms, fastest", "ms, median", "of a step and a picture")]
    for label in times:
        ratio = median[label] / median["a step and a picture"]
        rows.append((label, f"{fastest[label]:.2f}", f"{median[label]:.2f}", f"{ratio:.2f}"))
    table(
        f"noise on one {picture.shape[1]}x{picture.shape[0]} picture, processor time on one core, {ROUNDS} rounds", rows
    )
    slow = [label for label in changes if median[label] > BOUND]
    print(f"\nabove {BOUND:g} ms: {', '.join(slow) or 'none'}")


if __name__ == "__main__":
    main()
