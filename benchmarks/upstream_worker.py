"""Upstream's loop, timed: answers one JSON line a request. Runs in the reference environment (`make reference`).

{"do": "open", "task": path, "assets": folder, "cameras": side or 0}   a new environment
{"do": "reset"}           env.reset() and set_init_state, seconds
{"do": "steps", "n": n}   n control steps, seconds
{"do": "episode", "n": n} seed, reset, set_init_state, 10 settle steps and n steps, seconds
{"do": "memory"}          resident bytes of this process
"""

import json
import logging
import os
import sys
import time

import libero.libero
import numpy as np
from libero.libero.envs.env_wrapper import ControlEnv

logging.disable(logging.WARNING)
SETTLE = [0.0] * 6 + [-1.0]


class Worker:
    """One environment and a stream of zero-cost actions."""

    def open(self, task: str, assets: str, cameras: int, init_state: list) -> float:
        libero.libero._assets_path_cache = assets
        start = time.perf_counter()
        self.env = ControlEnv(
            bddl_file_name=task,
            use_camera_obs=bool(cameras),
            has_offscreen_renderer=bool(cameras),
            has_renderer=False,
            camera_heights=cameras or 64,
            camera_widths=cameras or 64,
        )
        self.env.seed(0)
        self.init_state = np.asarray(init_state)
        self.actions = np.random.default_rng(0)
        return time.perf_counter() - start

    def reset(self) -> float:
        start = time.perf_counter()
        self.env.reset()
        self.env.set_init_state(self.init_state)
        return time.perf_counter() - start

    def steps(self, n: int) -> float:
        actions = self.actions.uniform(-0.3, 0.3, (n, 7))
        actions[:, 6] = -1
        start = time.perf_counter()
        for action in actions:
            self.env.step(action)
        return time.perf_counter() - start

    def episode(self, n: int) -> float:
        start = time.perf_counter()
        self.env.seed(0)
        self.reset()
        for _ in range(10):
            self.env.step(SETTLE)
        self.steps(n)
        return time.perf_counter() - start

    def memory(self) -> float:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    # robosuite and LIBERO print; answers must stay alone on their line.
    os.dup2(2, 1)
    worker = Worker()
    for line in sys.stdin:
        request = json.loads(line)
        answer = getattr(worker, request.pop("do"))(**request)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    # EGL's destructors print harmless errors at a normal exit.
    os._exit(0)


if __name__ == "__main__":
    main()
