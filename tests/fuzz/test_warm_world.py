"""Scenes one after the other in the real simulator: the world is reset, other objects are compiled once."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.episode.world_pool import WorldPool
from pytest_vla.errors import RedrawError
from pytest_vla.fuzz.candidate import Scene, candidate_of
from pytest_vla.scene import cache
from pytest_vla.sim.world import World
from pytest_vla.vary.registry import find_variation

STOVE = Scene("tabletop", "turn_on_the_stove")


def with_bottle(x: float) -> Scene:
    return Scene(
        STOVE.suite, STOVE.task, changes={"layout.distractors": {"distractor_1": ["glass_bottle", x, 0.3, 0.0]}}
    )


def test_a_world_is_reset_and_a_set_of_objects_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path))
    compiled: list[str] = []
    opened: list[World] = []
    compile_, make = cache._compile, World.__init__

    def counted_compile(problem: Any, roots: Any, folder: Any, key: str) -> Any:
        compiled.append(key)
        return compile_(problem, roots, folder, key)

    def counted_make(self: World, *arguments: Any, **named: Any) -> None:
        opened.append(self)
        make(self, *arguments, **named)

    monkeypatch.setattr(cache, "_compile", counted_compile)
    monkeypatch.setattr(World, "__init__", counted_make)
    worlds = WorldPool(False)

    def reset(scene: Scene) -> None:
        candidate = candidate_of(scene)
        variation = find_variation(candidate.task, candidate.label, candidate.seed)
        world = worlds(candidate.task, variation if variation is not None and variation.changes_world else None)
        # Where a bottle would stand in something, the world was opened all the same.
        with suppress(RedrawError):
            world.reset(init_state=candidate.seed, scene_seed=candidate.seed, settle=True)

    for degrees in (-8.0, 3.0):
        reset(STOVE)
        reset(Scene(STOVE.suite, STOVE.task, 2, {"camera.azimuth": {"azimuth_deg": degrees}}))
        reset(STOVE.told("start the stove"))
    assert (len(opened), len(compiled)) == (1, 1)
    for x in (-0.1, -0.05):
        reset(with_bottle(x))
    assert (len(opened), len(compiled)) == (2, 2)
    reset(STOVE)
    reset(with_bottle(0.0))
    assert len(compiled) == 2, "the compiled scenes are kept"
    worlds.close()
