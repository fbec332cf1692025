"""What is foreseen of a scene that was not tried: how near the policy comes to failing in it, and how sure that is.

A Gaussian process whose kernel adds up what single changes do and what pairs of them do (Duvenaud, Nickisch and
Rasmussen, Additive Gaussian Processes, NeurIPS 2011, equation 7, first and second degree): most of what breaks a policy
is one change or two, whatever else is in the scene.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.scene.variation import Params
from pytest_vla.vary.space import ANGLE, CHOICE, NUMBER, WHOLE, Parameter

Spaces = Mapping[str, Sequence[Parameter]]
"""By the name of a kind, its parameters."""

Row = Mapping[str, NDArray[np.float64]]
"""A scene as numbers: of each kind that it has, an array."""

_LENGTH = 0.4
"""Over how much of a parameter's range trials say something of each other, standard deviation of the kernel."""

_SINGLE, _PAIR, _NOISE = 0.1, 0.1, 0.02
"""Variances, of numbers from 0 to 1."""

MOST_ROWS = 300
"""So many scenes are kept: each that is foreseen is compared with all."""

_MOST_CHOICES = 12


def row_of(candidate: Candidate, spaces: Spaces) -> Row:
    """A scene as numbers: amounts as shares of their ranges, angles as points of a circle, choices each by itself."""
    return {change.kind: np.array(_numbers(spaces[change.kind], change.params)) for change in candidate.changes}


class Surrogate:
    """What was tried, and what is foreseen from it; it holds `MOST_ROWS` scenes at most."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._seen: list[float] = []
        self._within = np.zeros((0, 0))

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: Row, seen: float) -> None:
        """A scene was tried; `seen`: from 0 to 1, how near the policy came to failing."""
        if len(self._rows) >= MOST_ROWS:
            self._keep(self._best())
        across = _kernel([row], self._rows)
        self._within = np.block([[self._within, across.T], [across, np.full((1, 1), _own(row))]])
        self._rows.append(row)
        self._seen.append(seen)

    def foreseen(self, asked: Sequence[Row]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """How near the policy comes to failing in scenes, and the standard deviation of that: (len(asked),) each.

        Raises:
            ValueError: nothing was tried yet.
        """
        if not self._rows:
            raise ValueError("nothing was tried, so nothing is foreseen")
        numbers = np.array(self._seen)
        mean = float(numbers.mean())
        across = _kernel(asked, self._rows)
        factor = cho_factor(self._within + _NOISE * np.eye(len(numbers)), lower=True)
        expected = mean + across @ cho_solve(factor, numbers - mean)
        own = np.array([_own(row) for row in asked])
        spread = own - np.einsum("ij,ji->i", across, cho_solve(factor, across.T))
        return expected, np.sqrt(np.maximum(spread, 0.0))

    def _best(self) -> list[int]:
        """What is near failing says most; of the rest the latest."""
        half = MOST_ROWS // 2
        latest = range(len(self._rows) - half, len(self._rows))
        older = sorted(range(latest.start), key=lambda at: -self._seen[at])
        return [*sorted(older[: half // 2]), *latest]

    def _keep(self, places: Sequence[int]) -> None:
        self._rows = [self._rows[at] for at in places]
        self._seen = [self._seen[at] for at in places]
        self._within = self._within[np.ix_(places, places)]


def _kernel(first: Sequence[Row], second: Sequence[Row]) -> NDArray[np.float64]:
    single, squares = np.zeros((len(first), len(second))), np.zeros((len(first), len(second)))
    columns_of: dict[str, list[int]] = {}
    for place, row in enumerate(second):
        for name in row:
            columns_of.setdefault(name, []).append(place)
    rows_of: dict[str, list[int]] = {}
    for place, row in enumerate(first):
        for name in row:
            rows_of.setdefault(name, []).append(place)
    for name, rows in rows_of.items():
        columns = columns_of.get(name)
        if not columns:
            continue
        one, other = np.array([first[at][name] for at in rows]), np.array([second[at][name] for at in columns])
        # Of all pairs at once the squared distances.
        apart = np.square(one).sum(axis=1)[:, None] + np.square(other).sum(axis=1) - 2 * one @ other.T
        alike = np.exp(-np.maximum(apart, 0.0) / (2 * _LENGTH**2 * max(one.shape[1], 1)))
        both = np.ix_(rows, columns)
        single[both] += alike
        squares[both] += alike**2
    return _SINGLE * single + _PAIR * (single**2 - squares) / 2


def _own(row: Row) -> float:
    """The kernel of a scene with itself."""
    return _SINGLE * len(row) + _PAIR * len(row) * (len(row) - 1) / 2


def _numbers(space: Sequence[Parameter], params: Params) -> list[float]:
    found: list[float] = []
    for each in space:
        value = params.get(each.name)
        if each.parts or each.many:
            found.append(float(bool(value)))
        elif each.form in (NUMBER, WHOLE) and each.benign is not None:
            found += [_share(each, one) for one in _flat(each, value)]
        elif each.form == ANGLE:
            turns = [math.tau * (one - each.low) / (each.high - each.low) for one in _flat(each, value)]
            found += [part for turn in turns for part in (math.sin(turn), math.cos(turn))]
        elif each.form == CHOICE and len(each.choices) <= _MOST_CHOICES:
            found += [float(value == choice) for choice in each.choices]
    return found


def _share(parameter: Parameter, value: float) -> float:
    end = parameter.high if value > parameter.benign else parameter.low
    return float((value - parameter.benign) / (abs(end - parameter.benign) or 1.0))


def _flat(parameter: Parameter, value: Any) -> list[Any]:
    """As many values as the parameter has; of one that is left out the benign one."""
    if value is None:
        return [parameter.benign or 0.0] * math.prod(parameter.shape)
    return list(np.ravel(value)) if parameter.shape else [value]
