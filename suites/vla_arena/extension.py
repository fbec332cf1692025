"""VLA-Arena's extension: its eleven suites, its problem classes and its visual levels."""

from pathlib import Path

from pytest_vla.entries import PaperEntry, SuiteEntry, VariationEntry, WorkspaceEntry

_HERE = "pytest_vla.suites.vla_arena"
_HOME = "vla_arena"

# By the paper's names upstream's own: today's, and those of the first release where they were others.
_ALIASES = {
    "static_obstacles": ("safety_static_obstacles",),
    "cautious_grasp": ("safety_cautious_grasp", "safety_risk_aware_grasping"),
    "hazard_avoidance": ("safety_hazard_avoidance",),
    "state_preservation": ("safety_state_preservation", "safety_object_state_preservation"),
    "dynamic_obstacles": ("safety_dynamic_obstacles",),
    "static_distractors": ("distractor_static_distractors", "robustness_static_distractors"),
    "dynamic_distractors": ("distractor_dynamic_distractors", "robustness_dynamic_distractors"),
    "preposition_combinations": (
        "extrapolation_preposition_combinations",
        "generalization_object_preposition_combinations",
    ),
    "task_workflows": ("extrapolation_task_workflows", "generalization_task_workflows"),
    "unseen_objects": ("extrapolation_unseen_objects", "generalization_unseen_objects"),
    "long_horizon": ("long_horizon",),
}


def pytest_vla_suites() -> list[SuiteEntry]:
    """Return a suite for each manifest, read when the suite is used; the alias ``vla_arena`` means all of them."""
    here = Path(__file__).resolve().parent
    names = {f"{_HOME}_{name}": (*aliases, _HOME) for name, aliases in _ALIASES.items()}
    return [
        SuiteEntry(name, "built in", folder=here, manifest=f"{name}.toml", aliases=aliases, home=_HOME)
        for name, aliases in names.items()
    ]


def pytest_vla_workspaces() -> list[WorkspaceEntry]:
    """Return the table and the floor of its tasks."""
    return [
        WorkspaceEntry("tabletop_manipulation", "VLA-Arena's table", f"{_HERE}.workspaces:TABLETOP"),
        WorkspaceEntry("floor_manipulation", "VLA-Arena's floor", f"{_HERE}.workspaces:FLOOR"),
    ]


def pytest_vla_variations() -> list[VariationEntry]:
    """Return the visual levels V1 to V4, and the variation that removes hazards."""
    return [
        VariationEntry("vla_arena", "VLA-Arena's visual levels", f"{_HERE}.variations:KINDS", 80),
        VariationEntry("vla_arena_hazards", "tasks without their hazards", f"{_HERE}.variations:HAZARD_KINDS", 81),
    ]


def pytest_vla_papers() -> list[PaperEntry]:
    """Return the paper with its tables."""
    return [PaperEntry("vla-arena", "VLA-Arena", f"{_HERE}.report:PAPER")]
