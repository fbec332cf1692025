"""What LIBERO-PRO's kinds draw for a task, with a file of the user's or without."""

from pathlib import Path

from pytest_vla.plan.manifests import load_suite
from pytest_vla.scene.problem import Problem, problem_of
from pytest_vla.scene.variation import Variation
from pytest_vla.suites.libero_pro.tables import FILES, Name
from pytest_vla.vary.registry import find_variation

FILE = FILES["semantic"]

STOVE = "libero_goal:\n  turn_on_the_stove:\n"
SCENE5 = "LIVING_ROOM_SCENE5_put_the_white_mug_on_the_left_plate_and_put_the_yellow_and_white_mug_on_the_right_plate"


def drawn(
    label: str, data: Path | None, seed: int = 0, suite: str = "tabletop", task: str = "turn_on_the_stove"
) -> Variation:
    """The variation of a label."""
    found = find_variation(load_suite(suite, data=data).task(task), label, seed)
    assert found is not None
    return found


def changed(
    variation: Variation, data: Path | None, suite: str = "tabletop", task: str = "turn_on_the_stove"
) -> Problem:
    """The problem under a variation."""
    problem = problem_of(load_suite(suite, data=data).task(task))
    for edit in variation.problem:
        problem = edit(problem)
    return problem


def given(folder: Path, name: Name, content: str) -> Path:
    """A data folder with one of LIBERO-PRO's files."""
    (folder / "assets").mkdir(exist_ok=True)
    (folder / FILES[name]).write_text(content)
    return folder
