"""How well answers fit demonstrated actions, the skill in them whatever their units are, and what would mend them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.transform import Rotation

from pytest_vla.doctor.action_tables import ActionTable
from pytest_vla.doctor.answers import MOST_METRES, MOST_RADIANS, Pairs, made_relative

Array = NDArray[np.float64]

DIMENSIONS = ("x", "y", "z", "roll", "pitch", "yaw", "gripper")
_STILL = 0.02
"""The standard deviation of a demonstrated dimension below which it says nothing."""
_DRAWS = 1000


@dataclass(frozen=True)
class ActionFit:
    """How well answers are executed as they are: what is left of the demonstrated actions' variance, or deviation.

    Attributes:
        left: (b, 7) sums of squared errors, by block; or of absolute ones.
        total: (b, 7) sums of squares about the mean of all blocks; or of deviations from their median.
        judged: (7,) whether a dimension moves enough to be judged.
    """

    left: Array
    total: Array
    judged: NDArray[np.bool_]

    def by_dimension(self, weights: Array | None = None) -> Array:
        """Return the share of each dimension that is explained, (..., 7), from -1; NaN if it is not judged.

        Args:
            weights: (..., b) how often each block counts; None for once.
        """
        weights = np.ones(len(self.left)) if weights is None else weights
        total = weights @ self.total
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = np.maximum(1 - (weights @ self.left) / total, -1.0)
        return np.where(self.judged & (total > 0), shares, np.nan)


def as_executed(pairs: Pairs) -> ActionFit:
    """Return the fit of answers as they are executed, clipped to [-1, 1]: shares of the variance."""
    return _fit(pairs, pairs.shown.mean(axis=0), np.square)


def closeness(pairs: Pairs) -> ActionFit:
    """Return the fit of answers as they are executed: shares of the absolute deviation from the median.

    Two wirings are told apart by it: a few large errors, such as a gripper that closes a step late, hide the rest of a
    variance. (On tiny behind wrong pictures, with 128 questions: gains of 2.8 to 4.5 standard errors, and 1.6 to 3.3
    of the variance.)
    """
    return _fit(pairs, np.median(pairs.shown, axis=0), np.abs)


def _fit(pairs: Pairs, middle: Array, size: Callable[[Array], Array]) -> ActionFit:
    left, total = np.zeros((pairs.blocks, 7)), np.zeros((pairs.blocks, 7))
    np.add.at(left, pairs.block, size(np.clip(pairs.answered, -1, 1) - pairs.shown))
    np.add.at(total, pairs.block, size(pairs.shown - middle))
    return ActionFit(left, total, pairs.shown.std(axis=0) > _STILL)


@dataclass(frozen=True)
class Skill:
    """How answers correlate with demonstrated actions, whatever their units, signs, order and frame are.

    What does not correlate, no change of the actions mends: the policy does not know it, or is shown something wrong.

    Attributes:
        moments: (b, 6, 7) by block and dimension: count, sums of answers and actions, of their squares and product.
        judged: (7,) whether a dimension moves enough to be judged.
    """

    moments: Array
    judged: NDArray[np.bool_]

    def by_dimension(self, weights: Array | None = None) -> Array:
        """Return the absolute correlation of each dimension, (..., 7), as `ActionFit` does its shares."""
        weights = np.ones(len(self.moments)) if weights is None else weights
        sums = np.moveaxis(np.tensordot(weights, self.moments, axes=1), -2, 0)
        count, one, other, squares, others, product = sums
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = (squares - one**2 / count) * (others - other**2 / count)
            found = np.abs(product - one * other / count) / np.sqrt(spread)
        return np.where(self.judged, np.where(spread > 1e-12, found, 0.0), np.nan)


def skill_of(pairs: Pairs) -> Skill:
    """Return the skill of answers: of the frame and order of dimensions that correlate best."""
    moving = np.flatnonzero(pairs.shown.std(axis=0) > _STILL)
    best, answers = -1.0, pairs.answered
    for answered in _frames(pairs):
        both = np.abs(_correlations(answered, pairs.shown[:, moving]))
        rows, columns = linear_sum_assignment(-both)
        # The order as it is, unless another one is clearly better.
        plain = float(both[np.arange(len(moving)), moving].sum())
        total = float(both[rows, columns].sum())
        order = np.arange(7)
        if total > plain + 0.5:
            order[moving[rows]] = columns
        found = max(total if total > plain + 0.5 else plain, 0.0) - (0.0 if answered is pairs.answered else 0.3)
        if found > best:
            best, answers = found, answered[:, order]
    moments = np.zeros((pairs.blocks, 6, 7))
    ones = np.ones_like(answers)
    values = (ones, answers, pairs.shown, answers**2, pairs.shown**2, answers * pairs.shown)
    for number, each in enumerate(values):
        np.add.at(moments[:, number], pairs.block, each)
    return Skill(moments, pairs.shown.std(axis=0) > _STILL)


def _frames(pairs: Pairs) -> Iterator[Array]:
    """Yield the answers, as they are and turned between the world's frame and the hand's; and poses made relative."""
    yield pairs.answered
    turns = Rotation.from_quat(pairs.poses[:, 3:])
    for inverse in (False, True):
        answered = pairs.answered.copy()
        answered[:, :3] = turns.apply(answered[:, :3], inverse=inverse)
        answered[:, 3:6] = turns.apply(answered[:, 3:6], inverse=inverse)
        yield answered
    if looks_absolute(pairs):
        yield relative(pairs)


def _correlations(one: Array, other: Array) -> Array:
    """Return the correlations (b, a) of columns (m, a) and (m, b); 0 where one is constant."""
    one, other = ((each - each.mean(axis=0)) / np.maximum(each.std(axis=0), 1e-9) for each in (one, other))
    return np.asarray(other.T @ one / len(one))


@dataclass(frozen=True)
class Gain:
    """By how much more is explained, with a bootstrap interval of 95% over blocks.

    Attributes:
        value: the gain.
        low, high: its interval.
        likely: that it exceeds in nine of ten draws.
    """

    value: float
    low: float
    high: float
    likely: float


def score(fit: ActionFit | Skill, dimensions: Sequence[int] = range(7)) -> float:
    """Return the mean over those dimensions that are judged; NaN if none is."""
    return mean_of(fit.by_dimension(), dimensions)


def mean_of(shares: Array, dimensions: Sequence[int] = range(7)) -> float:
    """Return the mean over those dimensions (7,) that are no NaN; NaN if all are."""
    return float(means_of(shares, dimensions))


def means_of(shares: Array, dimensions: Sequence[int] = range(7)) -> Array:
    """Return the means (...,) over those of some dimensions (..., 7) that are no NaN."""
    some = shares[..., list(dimensions)]
    judged = ~np.isnan(some)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(judged, some, 0.0).sum(axis=-1) / judged.sum(axis=-1))


def gain_of(
    better: ActionFit | Skill,
    worse: ActionFit | Skill,
    generator: np.random.Generator,
    dimensions: Sequence[int] = range(7),
) -> Gain:
    """Return by how much a score is better than another one of the same blocks."""
    count = len(better.moments if isinstance(better, Skill) else better.left)
    drawn = generator.multinomial(count, np.full(count, 1 / count), size=_DRAWS).astype(np.float64)
    values = means_of(better.by_dimension(drawn), dimensions) - means_of(worse.by_dimension(drawn), dimensions)
    values = values[~np.isnan(values)]
    low, likely, high = np.quantile(values, [0.025, 0.1, 0.975]) if len(values) else (0.0, 0.0, 0.0)
    return Gain(score(better, dimensions) - score(worse, dimensions), float(low), float(high), float(likely))


# What may be done with answers before they are executed.


Change = Callable[[Pairs], Array]
"""Returns changed answers (m, 7)."""


@dataclass(frozen=True)
class Mending:
    """A change of a policy's actions, which may fit the demonstrated ones better.

    Attributes:
        code: of the finding, one of `pytest_vla.doctor.findings.CODES`.
        name: what it does, in words.
        lines: of an adapter in Python, which change ``chunk`` (k, 7).
        change: does it.
        dimensions: that it changes.
        numbers: evidence.
        cost: what it has to gain beyond one without parameters of its own, over all dimensions.
        least: what it has to gain of the variance of its dimensions. Less is what a weak policy gains by anything that
            is fitted to it.
    """

    code: str
    name: str
    lines: tuple[str, ...]
    change: Change
    dimensions: tuple[int, ...]
    numbers: Mapping[str, float] = field(default_factory=dict)
    cost: float = 0.0
    least: float = 0.15

    def apply(self, pairs: Pairs) -> Pairs:
        """Return the pairs after it."""
        return pairs.with_answers(self.change(pairs))


def mendings(pairs: Pairs, tables: Sequence[ActionTable] = ()) -> Iterator[Mending]:
    """Yield the changes of actions that may be tried; scales and offsets are those that fit these pairs.

    Args:
        pairs: answers beside demonstrated actions.
        tables: of normalisation, one of which may have been taken for another.
    """
    yield from _of_gripper(pairs)
    yield from _of_order(pairs)
    yield from _of_frame(pairs)
    if looks_absolute(pairs):
        yield _absolute(pairs)
    yield from _of_tables(pairs, tables)
    yield from _of_scale(pairs)


def _on(columns: Sequence[int], change: Callable[[Array], Array]) -> Change:
    """Return a change of some dimensions."""

    def apply(pairs: Pairs) -> Array:
        answered = pairs.answered.copy()
        answered[:, list(columns)] = change(answered[:, list(columns)])
        return answered

    return apply


def _of_gripper(pairs: Pairs) -> Iterator[Mending]:
    values = pairs.answered[:, 6]
    rules: dict[str, tuple[str, str, Callable[[Array], Array]]] = {}
    if is_share(values):
        rules["the gripper from 0 (opens) to 1 (closes)"] = ("VLA-D041", "2 * {} - 1", lambda value: 2 * value - 1)
        rules["the gripper from 0 (closes) to 1 (opens)"] = ("VLA-D041", "1 - 2 * {}", lambda value: 1 - 2 * value)
    rules["the gripper's sign inverted"] = ("VLA-D040", "-{}", lambda value: -value)
    correlation = float(_correlations(pairs.answered[:, 6:], pairs.shown[:, 6:])[0, 0])
    numbers = {"correlation": correlation, "least": float(values.min()), "most": float(values.max())}
    for name, (code, line, change) in rules.items():
        yield gripper_mending(code, name, line, change, numbers)


def gripper_mending(
    code: str, name: str, line: str, change: Callable[[Array], Array], numbers: Mapping[str, float]
) -> Mending:
    """Return a change of the gripper, the last value of an action, by a line with ``{}`` for it."""
    text = "chunk[:, -1]"
    return Mending(code, name, (f"{text} = {line.format(text)}",), _on([-1], change), (6,), numbers)


def is_share(values: Array) -> bool:
    """Whether gripper values are from 0 to 1, or a little beyond: those of a policy that opens by -1 are not."""
    return bool(values.min() >= -0.25 and values.max() <= 1.25 and values.std() > 0.05)


def _of_order(pairs: Pairs) -> Iterator[Mending]:
    """Yield the order of dimensions that correlates best, if it is another one."""
    both = _correlations(pairs.answered, pairs.shown)
    moving = [number for number in range(7) if pairs.shown[:, number].std() > _STILL]
    rows, columns = linear_sum_assignment(-both[moving])
    order = np.arange(7)
    order[[moving[row] for row in rows]] = columns
    left = [number for number in range(7) if number not in {*columns}]
    for number in set(range(7)) - {*moving}:
        order[number] = left.pop(0)
    if (order == np.arange(7)).all():
        return
    was, now = (float(sum(both[n, each[n]] for n in moving)) for each in (np.arange(7), order))
    numbers = {"sum_of_correlations": was, "sum_of_correlations_mended": now}
    dimensions = tuple(int(each) for each in np.flatnonzero(order != np.arange(7)))
    name = f"the dimensions in the order {', '.join(DIMENSIONS[each] for each in order)}"
    line = f"chunk = chunk[:, {order.tolist()}]"
    yield Mending("VLA-D047", name, (line,), lambda pairs: pairs.answered[:, order], dimensions, numbers, cost=0.04)


def _turned(columns: Sequence[Sequence[int]], inverse: bool) -> Change:
    def apply(pairs: Pairs) -> Array:
        answered, turns = pairs.answered.copy(), Rotation.from_quat(pairs.poses[:, 3:])
        for some in columns:
            answered[:, list(some)] = turns.apply(answered[:, list(some)], inverse=inverse)
        return answered

    return apply


def _of_frame(pairs: Pairs) -> Iterator[Mending]:
    for name, columns in {
        "translation and rotation": ((0, 1, 2), (3, 4, 5)),
        "translation": ((0, 1, 2),),
        "rotation": ((3, 4, 5),),
    }.items():
        for way, inverse in (("from the hand's frame to the world's", False), ("from the world's to the hand's", True)):
            parts = [f"chunk[:, {some[0]}:{some[-1] + 1}]" for some in columns]
            lines = [f"{part} = turn.apply({part}{', inverse=True' * inverse})" for part in parts]
            first = 'turn = Rotation.from_quat(seen["robot0_eef_quat"])'
            dimensions = tuple(each for some in columns for each in some)
            yield Mending(
                "VLA-D046", f"the {name} {way}", (first, *lines), _turned(columns, inverse), dimensions, cost=0.02
            )
    for axis in range(6):
        name, line = f"{DIMENSIONS[axis]} inverted", f"chunk[:, {axis}] *= -1"
        yield Mending("VLA-D046", name, (line,), _on([axis], np.negative), (axis,), cost=0.02)


def looks_absolute(pairs: Pairs) -> bool:
    """Whether answers are positions near the hand, rather than changes of it."""
    away = np.abs(pairs.answered[:, :3] - pairs.poses[:, :3]).mean(axis=0)
    return bool(away.max() < 0.3 and np.abs(pairs.poses[:, 2]).mean() > 2 * away[2])


def relative(pairs: Pairs) -> Array:
    """Return answers that are poses in the world as relative actions (m, 7), each from the one before it.

    Where a shift in time left poses of a chunk out, an action is the mean of those that lead to its pose.
    """
    begins = np.flatnonzero(np.append(True, (np.diff(pairs.place) <= 0) | (np.diff(pairs.block) != 0)))
    found = []
    for chunk, places, pose in zip(
        np.split(pairs.answered, begins[1:]), np.split(pairs.place, begins[1:]), pairs.poses[begins], strict=True
    ):
        actions = made_relative(chunk, pose[:3], pose[3:])
        actions[:, :6] /= np.diff(places, prepend=-1)[:, None]
        found.append(actions)
    return np.vstack(found)


def _absolute(pairs: Pairs) -> Mending:
    away = np.abs(pairs.answered[:, :3] - pairs.poses[:, :3]).mean(axis=0)
    lines = (
        'places = np.vstack([seen["robot0_eef_pos"], chunk[:, :3]])',
        'now = Rotation.from_quat(seen["robot0_eef_quat"]).as_rotvec()',
        "turns = Rotation.from_rotvec(np.vstack([now, chunk[:, 3:6]]))",
        "chunk[:, :3] = np.diff(places, axis=0) / 0.05",
        "chunk[:, 3:6] = (turns[1:] * turns[:-1].inv()).as_rotvec() / 0.5",
        "# or traits = {'action_convention': 'absolute'}, if poses are what the policy was trained on",
    )
    numbers = {"metres_from_hand": float(np.linalg.norm(away))}
    return Mending("VLA-D045", "absolute poses made relative", lines, relative, tuple(range(6)), numbers)


_NOISE = 0.8
"""A factor below it is one of scale, where noise in answers is no reason for it.

Least squares makes answers with noise smaller, whatever their scale is. The factor that explains them without noise is
between that of answers to actions and the inverse of that of actions to answers: if 1 is between both, or nearly, the
answers may have noise alone.
"""


_TOLD, _CLOSE = 0.3, 0.7
"""The correlations with the demonstrated actions from which answers tell their scale at all, and well."""


def _of_scale(pairs: Pairs) -> Iterator[Mending]:
    parts = {"translation and rotation": (0, 1, 2, 3, 4, 5), "translation": (0, 1, 2), "rotation": (3, 4, 5)}
    moving = [
        number
        for number in range(6)
        if pairs.shown[:, number].std() > _STILL and pairs.answered[:, number].std() > 1e-9
    ]
    # A dimension that the policy does not know says nothing about the scale of the others.
    correlations = {each: _correlations(pairs.answered[:, [each]], pairs.shown[:, [each]])[0, 0] for each in moving}
    known = [each for each, value in correlations.items() if value > _TOLD]
    largest = np.array([MOST_METRES] * 3 + [MOST_RADIANS] * 3)
    for name, factors in {"from metres and radians": 1 / largest, "to metres and radians": largest}.items():
        change, line = _on(range(6), partial(np.multiply, factors)), f"chunk[:, :6] *= {factors.tolist()}"
        yield Mending("VLA-D043", f"the controller's scale, {name}", (line,), change, tuple(range(6)))
    for name, columns in parts.items():
        told = [each for each in columns if each in known]
        some, shown = pairs.answered[:, told], pairs.shown[:, told]
        both = float((some * shown).sum())
        if both <= 0:
            continue
        least, most = both / float((some**2).sum()), float((shown**2).sum()) / both
        if not (least >= 1.5 or most < _NOISE):
            continue
        # Least squares make actions smaller the more noise is in them, and their inverse makes them larger.
        factor = float(np.sqrt(least * most)) if least > _CLOSE**2 * most else least
        line = f"chunk[:, {columns[0]}:{columns[-1] + 1}] *= {factor:.3g}"
        name = f"the {name} times {factor:.3g}"
        change = _on(columns, partial(np.multiply, factor))
        numbers = {"factor": factor, "least_factor": least, "most_factor": most}
        yield Mending("VLA-D043", name, (line,), change, columns, numbers, cost=0.02)
    slopes, offsets, lines = np.ones(6), np.zeros(6), []
    for number in moving:
        one, shown = pairs.answered[:, number], pairs.shown[:, number]
        both = float(np.cov(one, shown)[0, 1])
        slope = both / one.var(ddof=1)
        if slope > 0:
            slopes[number] = slope if slope > 1 / _NOISE or shown.var(ddof=1) / both < _NOISE else 1.0
            slope = slopes[number]
            offsets[number] = float(shown.mean() - slope * one.mean())
            lines.append(f"chunk[:, {number}] = chunk[:, {number}] * {slope:.3g} + {offsets[number]:.3g}")
    if lines:
        name, all_six = "each dimension with a scale and an offset of its own", range(6)
        change = _on(all_six, lambda values: values * slopes + offsets)
        yield Mending("VLA-D044", name, tuple(lines), change, tuple(moving), cost=0.06)


_EQUAL = 0.002
"""The share of the variance by which two tables are told apart."""


def _of_tables(pairs: Pairs, tables: Sequence[ActionTable]) -> Iterator[Mending]:
    """Yield the table of normalisation in place of another one, or of none, with which answers fit best."""
    moving = np.flatnonzero(pairs.shown[:, :6].std(axis=0) > _STILL)
    if not tables or not len(moving):
        return
    used = [ActionTable("none", np.zeros(6), np.ones(6)), *tables]
    centres, scales = (np.array([getattr(each, name) for each in used]) for name in ("centre", "scale"))
    # (used, right, 6). A dimension that never moved in the data has no scale.
    slopes = np.where(scales[:, None] > 1e-9, scales[None] / np.maximum(scales[:, None], 1e-9), 1.0)
    offsets = centres[None] - slopes * centres[:, None]
    # The mean squared error of slope * answered + offset, before it is clipped: by the moments of both.
    one, other = pairs.answered[:, :6], pairs.shown[:, :6]
    squares, product, mean, wanted = (one**2).mean(0), (one * other).mean(0), one.mean(0), other.mean(0)
    left = slopes**2 * squares + 2 * slopes * (offsets * mean - product) + offsets * (offsets - 2 * wanted)
    error = (left[..., moving] / other[:, moving].var(axis=0)).mean(axis=-1)
    # Nothing is in place of itself, and the right one is not none.
    np.fill_diagonal(error, np.inf)
    error[:, 0] = np.inf
    at, right = np.unravel_index(int(error.argmin()), error.shape)
    # Tables are often two ways to write one: those that fit as well are named, too.
    close = map(tuple, np.argwhere(error <= error.min() + _EQUAL))
    equal = [f"{used[j].name} for {used[i].name}" for i, j in close if (i, j) != (at, right)]
    slope, offset = slopes[at, right], offsets[at, right]
    lines = [f"chunk[:, {n}] = chunk[:, {n}] * {slope[n]:.3g} + {offset[n]:.3g}" for n in range(6)]
    lines.append(f"# or un-normalise with {used[right].name}")
    name = f"actions un-normalised by {used[right].name}, where it is {used[at].name} now"
    name += f" (as well: {' or '.join(equal[:3])})" if equal else ""
    change = _on(range(6), lambda values: values * slope + offset)
    yield Mending("VLA-D044", name, tuple(lines), change, tuple(map(int, moving)), cost=0.02, least=0.05)
