"""A suite for each of robosuite's tasks; ``robosuite`` is imported when one of them is used."""

from pytest_vla.entries import SuiteEntry

TASKS = {
    "Lift": "lift the cube",
    "Stack": "stack the red cube on the green cube",
    "Door": "open the door",
    "NutAssembly": "put both nuts on their pegs",
    "NutAssemblySquare": "put the square nut on its peg",
    "NutAssemblyRound": "put the round nut on its peg",
    "PickPlace": "put each object into its bin",
    "PickPlaceMilk": "put the milk into its bin",
    "PickPlaceBread": "put the bread into its bin",
    "PickPlaceCereal": "put the cereal into its bin",
    "PickPlaceCan": "put the can into its bin",
}
"""robosuite's names, and instructions, which robosuite has none of."""


def pytest_vla_suites() -> list[SuiteEntry]:
    """Return the suites: ``robosuite:Lift`` is ``robosuite_lift``, and ``robosuite`` stands for all."""
    return [
        SuiteEntry(
            suite_name(task),
            f"robosuite's {task}: {instruction}",
            f"pytest_vla.suites.robosuite.tasks:{suite_name(task)}",
            aliases=(f"robosuite:{task}", "robosuite"),
        )
        for task, instruction in TASKS.items()
    ]


def suite_name(task: str) -> str:
    """Return the name of a task's suite: ``robosuite_nut_assembly`` for ``NutAssembly``."""
    return "robosuite" + "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in task)
