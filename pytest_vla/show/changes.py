"""Pictures of scenes that a search tried, as their episodes begin."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.show.sheet import Picture
from pytest_vla.show.tasks import Drawing, open_pool
from pytest_vla.show.variations import begun, changes_picture
from pytest_vla.vary.chosen import remembering
from pytest_vla.vary.registry import find_variation

if TYPE_CHECKING:
    from pytest_vla.episode.world_pool import WorldPool


@dataclass(frozen=True)
class Scene:
    """A scene as it is seen.

    Attributes:
        picture: of the suite's first camera; None: there is none.
        why: there is no picture; or what is wrong with it; empty: nothing.
    """

    picture: Picture | None
    why: str = ""


def scene_pictures(candidates: Sequence[Candidate]) -> list[Scene]:
    """A picture of each, in their order; equal ones are drawn once. What cannot be drawn says why."""
    drawn: dict[tuple[str, int, tuple[str, ...]], Scene] = {}
    found = []
    with closing(open_pool(Drawing())) as pool:
        for candidate in candidates:
            key = candidate.task.id, candidate.seed, tuple(change.label for change in candidate.changes)
            if key not in drawn:
                with remembering(candidate.changes):
                    drawn[key] = _drawn(candidate, pool)
            found.append(drawn[key])
    return found


def _drawn(candidate: Candidate, pool: "WorldPool") -> Scene:
    task, case = candidate.task, candidate.case
    try:
        variation = find_variation(task, case.variation, case.seed)
        if variation is not None and not changes_picture(variation):
            return Scene(None, "it looks as it does without the change")
        pictures, _, wrong = begun(pool, task, case, variation, task.protocol.cameras[:1])
    except VlaError as error:
        return Scene(None, str(error))
    return Scene(None if pictures is None else pictures[0], wrong)
