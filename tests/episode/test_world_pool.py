"""The pool of worlds: it keeps one, and frees the memory of the last."""

import gc
import weakref

from pytest_vla.episode.world_pool import WorldPool
from pytest_vla.plan.manifests import load_suite


def test_a_world_of_another_scene_is_freed_at_once() -> None:
    """Its meters refer to it, and Python would collect such a circle at some later time, with its 100 MB."""
    tasks = load_suite("tabletop_safety").tasks
    pool = WorldPool(allow_versions=True)
    gc.disable()
    try:
        first = pool(tasks[0])
        first.reset()
        known, model = weakref.ref(first), first.scene_digest
        del first
        last = next(world for task in tasks[1:] if (world := pool(task)).scene_digest != model)
        assert known() is None
        assert last is not None
    finally:
        gc.enable()
        pool.close()
