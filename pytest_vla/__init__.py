"""pytest-vla: robot-policy benchmarks as test suites, every episode a pytest item."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_vla.doctor.examine import diagnose
    from pytest_vla.errors import EpisodeError, SceneError, VlaError
    from pytest_vla.evaluation import Evaluation, evaluate
    from pytest_vla.plan.manifests import load_suite
    from pytest_vla.scene.problem import parse_problem
    from pytest_vla.sim.world import World

__all__ = [
    "EpisodeError",
    "Evaluation",
    "SceneError",
    "VlaError",
    "World",
    "diagnose",
    "evaluate",
    "load_suite",
    "parse_problem",
]

_HOMES = {
    "EpisodeError": "pytest_vla.errors",
    "Evaluation": "pytest_vla.evaluation",
    "SceneError": "pytest_vla.errors",
    "VlaError": "pytest_vla.errors",
    "World": "pytest_vla.sim.world",
    "diagnose": "pytest_vla.doctor.examine",
    "evaluate": "pytest_vla.evaluation",
    "load_suite": "pytest_vla.plan.manifests",
    "parse_problem": "pytest_vla.scene.problem",
}


def __getattr__(name: str) -> Any:
    # Lazy: the plugin is imported in every project that has it installed, and a world costs a second.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
