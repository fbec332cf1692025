"""Nine planted bugs for searches, on a world without a simulator, so that an episode takes milliseconds.

The policy is scripted: it pushes a point to its goal and stands still where the bug is. With some bugs it is slower the
nearer a scene comes to the bug. Physics, pictures and the expert take no part.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from unittest import mock

import numpy as np

from pytest_vla.episode.rollout import Conditions
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.found import Found, further_seeds
from pytest_vla.fuzz.proposals import SHARES_OF_NUMBERS, drawn_change, fuzzed_kinds
from pytest_vla.fuzz.task_search import SearchRules, TaskSearch, perform
from pytest_vla.fuzz.trial import Trial, Trials
from pytest_vla.plan.manifests import load_suite
from pytest_vla.policies.base import Episode
from pytest_vla.testing import World
from pytest_vla.vary.kind import VariationKind

TASK = load_suite("tabletop").task("turn_on_the_stove")
KINDS = fuzzed_kinds(TASK)

Params = Mapping[str, Mapping[str, Any]]
"""By kind, the parameters of a scene's changes."""

MOST_EPISODES = 1_500

_PUSH = np.array([[1.0, 0, 0, 0, 0, 0, 0]] * 10)


@dataclass(frozen=True)
class Bug:
    """Something that a policy cannot do.

    Attributes:
        fails: whether it fails in a scene.
        causes: the kinds that it is to be shrunk to; several: any of these sets.
        edge: the smallest's distance from the planted boundary, as a share of that; None: it has none.
        near: how near a scene comes to it, from 0 to 1; the policy is slower there. None: nothing shows it.
    """

    fails: Callable[[Params], bool]
    causes: tuple[frozenset[str], ...]
    edge: Callable[[Params], float] | None = None
    near: Callable[[Params], float] | None = None


def _number(params: Params, kind: str, name: str, benign: float = 0.0) -> float:
    return float(params.get(kind, {}).get(name, benign))


def _azimuth(params: Params) -> float:
    return _number(params, "camera.azimuth", "azimuth_deg")


def _turn(params: Params) -> float:
    return _number(params, "light.direction", "turn_deg")


def _joint(params: Params) -> float:
    return float(params.get("robot.joints", {}).get("offset", [0.0] * 7)[3])


def _text(params: Params) -> str:
    return str(params.get("language.words", {}).get("instruction", TASK.language))


def _objects(params: Params) -> list[Sequence[Any]]:
    return [each for each in params.get("layout.distractors", {}).values() if isinstance(each, (list, tuple))]


def _is_red(params: Params) -> bool:
    """Of the table's first colour."""
    some = [params.get(kind, {}) for kind in ("background.table", "background.theme")]
    return any(
        each["share"] > 0.4 and each["table_colours"][0][0] > 170 and each["table_colours"][0][2] < 120
        for each in some
        if each
    )


def _delayed(params: Params) -> bool:
    return _number(params, "action.delay", "steps") >= 4 and len(_objects(params)) >= 4


def _over(value: float, limit: float) -> float:
    return value / limit - 1


BUGS: Mapping[str, Bug] = {
    "a camera angle": Bug(
        lambda params: _azimuth(params) > 66,
        (frozenset({"camera.azimuth"}),),
        lambda params: _over(_azimuth(params), 66),
        lambda params: max(_azimuth(params), 0) / 66,
    ),
    "a joint's angle": Bug(
        lambda params: _joint(params) > 0.2,
        (frozenset({"robot.joints"}),),
        lambda params: _over(_joint(params), 0.2),
        lambda params: max(_joint(params), 0) / 0.2,
    ),
    "a band of camera distances": Bug(
        lambda params: 1.6 < _number(params, "camera.distance", "factor", 1.0) < 1.68,
        (frozenset({"camera.distance"}),),
        None,
        lambda params: 1 - min(abs(_number(params, "camera.distance", "factor", 1.0) - 1.64) / 0.64, 1),
    ),
    "light from one side": Bug(
        lambda params: _turn(params) > 30 and 60 < _number(params, "light.direction", "heading_deg") < 110,
        (frozenset({"light.direction"}),),
        lambda params: _over(_turn(params), 30),
    ),
    "a colour of the table": Bug(_is_red, (frozenset({"background.table"}), frozenset({"background.theme"}))),
    "a word": Bug(lambda params: "range" in _text(params).split(), (frozenset({"language.words"}),)),
    "an object behind": Bug(
        lambda params: any(each[1] > 0.2 and each[2] > 0.3 for each in _objects(params)),
        (frozenset({"layout.distractors"}),),
    ),
    "two at once": Bug(
        lambda params: _azimuth(params) > 30 and _turn(params) > 25,
        (frozenset({"camera.azimuth", "light.direction"}),),
        lambda params: max(_over(_azimuth(params), 30), _over(_turn(params), 25)),
    ),
    "late among many objects": Bug(_delayed, (frozenset({"action.delay", "layout.distractors"}),)),
}


def params_of(candidate: Candidate) -> Params:
    """By kind, the parameters of a scene's changes."""
    return {change.kind: change.params for change in candidate.changes}


@dataclass(frozen=True)
class Search:
    """How a search for a bug went.

    Attributes:
        scenes: that were tried until the first failed, that one too; None: none did.
        episodes: until the bug was known at its smallest; None: it was not.
        found: the bug at its smallest; None: it was not found.
    """

    scenes: int | None
    episodes: int | None
    found: Found | None


def search_for(bug: Bug, seed: int, most: int = MOST_EPISODES, guided: bool = True) -> Search:
    """Search for a bug, until it is found or so many episodes have run."""
    rules = SearchRules(None, guided, run_seeds=further_seeds(0))
    hunt, attempt = TaskSearch(TASK, (0, 1), KINDS, str(seed), rules), _Attempt(bug)
    tried, first = 0, None
    while attempt.episodes < most:
        job = hunt.next()
        assert job is not None, "such a search has no end"
        result = perform(job, attempt, rules)
        hunt.add_result(job, result)
        tried += job.what == "scene"
        if first is None and job.what == "scene" and getattr(result, "outcome", "") == "fails":
            first = tried
        for found in hunt.seen.found:
            if {change.kind for change in found.shrunk.candidate.changes} in bug.causes:
                return Search(first, attempt.episodes, found)
    return Search(first, None, None)


def evenly_met(number: int = 1_500) -> dict[str, float]:
    """Of each bug, the share of scenes drawn evenly that meet it.

    Few scenes have the kinds of a rare bug, so that these are drawn by themselves: how often a scene has them is known.

    Args:
        number: changes of each kind that are drawn.
    """
    found = {}
    for name, bug in BUGS.items():
        generator = Random(5)
        some = [[kind for kind in KINDS if kind.name in cause] for cause in bug.causes]
        found[name] = sum(_having(kinds) * _failing(bug, kinds, number, generator) for kinds in some)
    return found


def _having(kinds: Sequence[VariationKind]) -> float:
    """How often an evenly drawn scene has these kinds, of different dimensions."""
    by_dimension = Counter(kind.dimension for kind in KINDS)
    dimensions = len(by_dimension)
    sizes = enumerate(SHARES_OF_NUMBERS, 1)
    chosen = sum(share * math.comb(size, len(kinds)) / math.comb(dimensions, len(kinds)) for size, share in sizes)
    return chosen / math.prod(by_dimension[kind.dimension] for kind in kinds)


def _failing(bug: Bug, kinds: Sequence[VariationKind], number: int, generator: Random) -> float:
    met = 0
    for _ in range(number):
        changes = tuple(drawn_change(TASK, kind, generator) for kind in kinds)
        met += bug.fails(params_of(Candidate(TASK, 0, changes)))
    return met / number


class _Attempt:
    """Tries a candidate with the scripted policy; what can be done at all is no question here."""

    def __init__(self, bug: Bug) -> None:
        self._scene: Params = {}
        self._bug = bug
        self._trials = Trials(
            self._policy,
            lambda task, variation: World(task, variation),
            Conditions(model="planted"),
            solver=lambda episode: lambda observation: _PUSH,
        )

    @property
    def episodes(self) -> int:
        return self._trials.episodes

    def __call__(self, candidate: Candidate, run_seed: int | None = None) -> Trial:
        self._scene = params_of(candidate)
        # Without pictures nobody can say what is in sight.
        with mock.patch("pytest_vla.episode.start._out_of_sight", return_value=""):
            return self._trials(candidate, run_seed)

    def _policy(self, episode: Episode) -> Callable[[Any], Any]:
        if self._bug.fails(self._scene):
            speed = 0.0
        else:
            near = 0.0 if self._bug.near is None else min(self._bug.near(self._scene), 1.0)
            speed = 0.1 / (1 + 4 * near)
        return lambda observation: speed * _PUSH
