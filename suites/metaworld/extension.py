"""Meta-World's suites; the package ``metaworld`` is imported when one of them is used."""

from pytest_vla.entries import SuiteEntry

_GROUPS = {
    "metaworld_easy": "Meta-World's 28 easy tasks, as lerobot groups them",
    "metaworld_medium": "Meta-World's 11 tasks of medium difficulty",
    "metaworld_hard": "Meta-World's 6 hard tasks",
    "metaworld_very_hard": "Meta-World's 5 very hard tasks",
}


def pytest_vla_suites() -> list[SuiteEntry]:
    """Return the suites; ``metaworld`` stands for all fifty tasks (MT50)."""
    here = "pytest_vla.suites.metaworld.tasks"
    groups = [SuiteEntry(name, about, f"{here}:{name}", aliases=("metaworld",)) for name, about in _GROUPS.items()]
    return [
        *groups,
        SuiteEntry("metaworld_mt10", "Meta-World's MT10: ten of the fifty tasks", f"{here}:metaworld_mt10"),
        SuiteEntry("metaworld_ml45_test", "the five tasks that ML45 holds out", f"{here}:metaworld_ml45_test"),
    ]
