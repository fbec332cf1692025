"""The native step is made for what worlds call it with: a process that opens one and steps compiles nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_vla.commands.cache import WITH_CODE
from pytest_vla.plan.manifests import load_suite
from pytest_vla.util.machine_code import codes_of
from tests.support.data import REPOSITORY, arena_data, data_root

# What numba compiles in a process is printed, then the digest of some steps.
STEPS = """
import hashlib
from numba.core import event

class Listener(event.Listener):
    def on_start(self, happened):
        print("compiled", happened.data["dispatcher"].py_func.__name__)
    def on_end(self, happened):
        pass

event.register("numba:compile", Listener())
from pytest_vla import World, kernels, load_suite
import numpy as np
digest = hashlib.sha256()
for suite in {suites}:
    world = World(load_suite(suite).tasks[0])
    observation = world.reset(0)
    rng = np.random.default_rng(0)
    for _ in range({steps}):
        observation = world.step(rng.uniform(-1, 1, 7))
        digest.update(world.data.qpos.tobytes() + world.data.ctrl.tobytes())
    for name in observation:
        if not name.endswith("image"):
            observation[name]
print("digest", digest.hexdigest())
"""


def said(code: str, **environ: str) -> list[list[str]]:
    """What a Python of its own prints, as lines of words."""
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environ, capture_output=True, text=True, check=True
    )
    return [line.split() for line in done.stdout.splitlines()]


def test_a_process_that_opens_a_world_and_steps_compiles_nothing() -> None:
    ((word, _),) = said(STEPS.format(suites=["tabletop"], steps=3))
    assert word == "digest"


@pytest.mark.slow
def test_nor_does_one_with_jacobians_of_the_other_layout() -> None:
    arena_data()
    assert load_suite("vla_arena_static_obstacles").tasks
    ((word, _),) = said(STEPS.format(suites=["vla_arena_static_obstacles"], steps=3), PYTEST_VLA_DATA=str(data_root()))
    assert word == "digest"


@pytest.mark.slow
def test_code_for_this_processor_gives_the_same_bits_as_code_for_any(tmp_path: Path) -> None:
    arena_data()
    steps = STEPS.format(suites=["tabletop", "vla_arena_static_obstacles"], steps=40)
    pinned = said(steps, PYTEST_VLA_DATA=str(data_root()))
    alone = (
        "from pytest_vla.util import machine_code\n"
        "machine_code.SHIPPED, machine_code._folders = machine_code.Path('/nowhere'), lambda: iter(())\n"
    )
    here = said(alone + steps, PYTEST_VLA_DATA=str(data_root()))
    assert ["compiled", "control_step"] in here
    assert here[-1] == pinned[-1]


def test_all_functions_that_are_kept_are_made_beforehand() -> None:
    keeping = {
        ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
        for path in (REPOSITORY / "pytest_vla").rglob("*.py")
        if "keep(__name__" in path.read_text().replace("keep(\n    __name__", "keep(__name__")
    }
    assert keeping == set(WITH_CODE)
    assert all(codes_of(module) for module in WITH_CODE)


def test_no_function_of_ours_is_left_to_numbas_own_cache() -> None:
    """Which each process fills for itself."""
    for folder in ("pytest_vla", "suites", "fixtures", "reports"):
        for path in (REPOSITORY / folder).rglob("*.py"):
            assert "cache=True" not in path.read_text(), path
