"""A search told again from its file: the same numbers as it had, in any order that its scenes were answered in."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.found import Searched
from pytest_vla.fuzz.journal import Line, retell
from pytest_vla.fuzz.sampler import EVEN, SOURCES, Proposal, TriedProposal
from pytest_vla.fuzz.shrink import Outcome
from pytest_vla.fuzz.task_search import Job
from pytest_vla.plan.manifests import load_suite
from pytest_vla.vary.chosen import Change
from tests.support.searches import Params, searched

TASK = load_suite("tabletop").task("put_the_bowl_on_the_stove")
DIMENSIONS = ("camera", "light", "action")


def breaks(params: Params) -> bool:
    return bool(abs(params.get("camera.azimuth", {}).get("azimuth_deg", 0)) > 20)


def tried(number: int, source: str = EVEN, outcome: Outcome = "passes", degrees: float = 10.0) -> Line:
    candidate = Candidate(TASK, 0, (Change("camera.azimuth", {"azimuth_deg": degrees}),))
    proposal = Proposal(number, source, candidate)
    return Line(TASK.id, Job("scene", proposal), TriedProposal(proposal, outcome, "", seconds=0.5), number + 1)


def test_it_has_the_searchs_own_numbers(tmp_path: Path) -> None:
    search = searched(
        tmp_path, [TASK], breaks, 120, DIMENSIONS, aside=lambda params: "it is undone" * ("action.noise" in params)
    )
    seen, told = search.seen[TASK.id], search.retold.tasks[TASK.id]
    even = told.sources[EVEN]
    assert (even.tried, even.failed, even.aside) == (seen.proposed, seen.failed, sum(seen.aside.values()))
    assert even.aside > 0
    assert (told.shares.scenes, told.shares.failed) == (even.counted, seen.failed)
    assert tuple(told.sources) == SOURCES
    assert sum(each.tried for each in told.sources.values()) == 120
    assert seen.guided_failed == sum(told.sources[source].failed for source in SOURCES[1:])
    azimuth = told.coverage.kinds["camera.azimuth"]
    assert azimuth.tried == sum(each.tried for each in told.coverage.bins["camera.azimuth"])
    assert azimuth.failed == seen.failed + seen.guided_failed
    # Nothing within 15 degrees fails, and all beyond 30 does.
    assert [each.failed for each in told.coverage.bins["camera.azimuth"]][4:6] == [0, 0]
    growth = search.retold.growth
    assert growth[0] == (0, 0)
    assert growth[-1] == (search.episodes, len(seen.found))
    assert list(growth) == sorted(growth)


def test_what_comes_late_is_not_left_out_of_shares() -> None:
    """An even scene without an answer hides those behind it; all of it counts as covered."""
    seen = {TASK.id: Searched()}
    lines = [tried(0), tried(8, outcome="fails"), tried(1, SOURCES[1]), tried(12)]
    told = retell(lines, seen, [TASK], DIMENSIONS, True).tasks[TASK.id]
    assert (told.shares.scenes, told.shares.failed) == (1, 0)
    assert told.coverage.kinds["camera.azimuth"].even.tried == 3
    assert told.coverage.kinds["camera.azimuth"].guided.tried == 1
    told = retell([*lines, tried(4)], seen, [TASK], DIMENSIONS, True).tasks[TASK.id]
    assert (told.shares.scenes, told.shares.failed, told.seconds) == (4, 1, 2.5)


def test_memory_does_not_grow_with_a_search() -> None:
    def lines(number: int) -> Iterator[Line]:
        for place in range(number):
            yield tried(place, outcome="fails" if place % 7 == 0 else "passes", degrees=float(place % 70))

    def peak(number: int) -> int:
        tracemalloc.start()
        retell(lines(number), {TASK.id: Searched()}, [TASK], DIMENSIONS, False)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(10)
    assert peak(3000) < 1.2 * peak(300) + 100_000


def test_equal_searches_are_told_alike(tmp_path: Path) -> None:
    first, other = (searched(tmp_path / name, [TASK], breaks, 160, DIMENSIONS, False) for name in ("a", "b"))
    assert first.retold.tasks[TASK.id].shares == other.retold.tasks[TASK.id].shares
    shares = first.retold.tasks[TASK.id].shares
    assert shares.why == ""
    assert shares.single[0].of == ("camera",)
    assert shares.single[0].adjusted is not None
    assert shares.single[0].adjusted < 0.01
