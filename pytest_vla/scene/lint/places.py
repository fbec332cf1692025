"""What a problem's class brings, where it is known."""

from contextlib import suppress

from pytest_vla.errors import VlaError
from pytest_vla.scene.catalog import CATEGORIES, Categories
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.workspaces import Workspace, workspace


def place_of(problem: Problem) -> Workspace | None:
    """The workspace of a problem; None where its class is not known."""
    with suppress(VlaError):
        return workspace(problem.name, problem.source)
    return None


def catalogue_of(problem: Problem) -> Categories:
    """The categories that a problem's class knows, beside those of files."""
    place = place_of(problem)
    return CATEGORIES if place is None or place.categories is None else place.categories
