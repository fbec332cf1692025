"""Item response: how hard each case is, and how able each model, from which models succeed in which cases.

The one-parameter model (Rasch, 1960) has P(success) = s(ability - difficulty), with s the logistic function; the
two-parameter model (Birnbaum, 1968) has s(discrimination * (ability - difficulty)). Models are few and cases many, so
abilities are no sample to integrate over: all parameters are those of the largest posterior density, under priors that
keep a case finite that all models solve, or none does. Counts of models that fail say less: they depend on which models
ran, and treat a case that only the best model fails as one that only the worst fails.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import VlaError

if TYPE_CHECKING:
    from collections.abc import Hashable

ABILITY_SPREAD, DIFFICULTY_SPREAD, LOG_DISCRIMINATION_SPREAD = 1.5, 1.5, 0.5
"""Standard deviations of the priors, in logits; of the discrimination its logarithm's."""

FEWEST_MODELS = 2
FEWEST_FOR_DISCRIMINATION = 8
"""Models from which a case's discrimination is fitted: with fewer, its estimate is little but the prior."""

_ROUNDS, _CLOSE = 500, 1e-6

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ItemResponse:
    """A fit.

    Attributes:
        abilities: by model, logits; their mean is 0. Each with its standard error.
        difficulties: by case, logits: the ability at which half of the episodes succeed. Each with its standard error.
        discriminations: by case; all 1 in the one-parameter model.
        log_likelihood: of the outcomes under these parameters.
        responses: the number of outcomes.
    """

    abilities: Mapping[str, tuple[float, float]]
    difficulties: "Mapping[Hashable, tuple[float, float]]"
    discriminations: "Mapping[Hashable, float]"
    log_likelihood: float
    responses: int


def item_response(
    outcomes: "Mapping[tuple[str, Hashable], Sequence[float]]", *, with_discrimination: bool = False
) -> ItemResponse:
    """Fit the one-parameter model, or the two-parameter model.

    Args:
        outcomes: by model and case 1 for each success and 0 for each failure, one or more; cases that a model has not
            run are missing.
        with_discrimination: whether each case has a discrimination of its own.

    Raises:
        VlaError: there are fewer than `FEWEST_MODELS` models.
    """
    models = tuple(dict.fromkeys(model for model, _ in outcomes))
    cases = tuple(dict.fromkeys(case for _, case in outcomes))
    if len(models) < FEWEST_MODELS:
        raise VlaError(f"difficulty needs the outcomes of {FEWEST_MODELS} models or more, found {len(models)}")
    done, ran = np.zeros((2, len(models), len(cases)))
    rows, columns = ({name: place for place, name in enumerate(names)} for names in (models, cases))
    for (model, case), some in outcomes.items():
        done[rows[model], columns[case]], ran[rows[model], columns[case]] = sum(some), len(some)
    ability, difficulty, log_slope = _fitted(done, ran, with_discrimination)
    slope = np.exp(log_slope)
    chance = _chances(ability, difficulty, slope)
    weight = ran * chance * (1 - chance)
    ability_error = 1 / np.sqrt((weight * slope**2).sum(1) + ABILITY_SPREAD**-2)
    difficulty_error = 1 / np.sqrt((weight * slope**2).sum(0) + DIFFICULTY_SPREAD**-2)
    likelihood = (done * np.log(chance) + (ran - done) * np.log1p(-chance)).sum()
    return ItemResponse(
        {str(name): each for name, each in _by_name(models, ability, ability_error).items()},
        _by_name(cases, difficulty, difficulty_error),
        dict(zip(cases, slope.tolist(), strict=True)),
        float(likelihood),
        int(ran.sum()),
    )


def _fitted(done: Array, ran: Array, with_discrimination: bool) -> tuple[Array, Array, Array]:
    """Return abilities, difficulties and logarithms of discriminations: each improved in turn, by Newton's steps."""
    ability, difficulty, log_slope = np.zeros(len(done)), np.zeros(done.shape[1]), np.zeros(done.shape[1])
    for _ in range(_ROUNDS):
        before = np.concatenate([ability, difficulty, log_slope])
        slope = np.exp(log_slope)
        off, weight = _residuals(done, ran, ability, difficulty, slope)
        ability = ability + _step(
            (off * slope).sum(1) - ability * ABILITY_SPREAD**-2, (weight * slope**2).sum(1) + ABILITY_SPREAD**-2
        )
        # Outcomes only say how far abilities and difficulties are apart. The priors say where both are: were abilities
        # held at a mean of 0 here, the difficulties' prior would take a case for harder than it is where most succeed.
        shift = (ability.sum() * ABILITY_SPREAD**-2 + difficulty.sum() * DIFFICULTY_SPREAD**-2) / (
            len(ability) * ABILITY_SPREAD**-2 + len(difficulty) * DIFFICULTY_SPREAD**-2
        )
        ability, difficulty = ability - shift, difficulty - shift
        off, weight = _residuals(done, ran, ability, difficulty, slope)
        difficulty = difficulty + _step(
            -(off * slope).sum(0) - difficulty * DIFFICULTY_SPREAD**-2,
            (weight * slope**2).sum(0) + DIFFICULTY_SPREAD**-2,
        )
        if with_discrimination:
            off, weight = _residuals(done, ran, ability, difficulty, slope)
            apart = slope * (ability[:, None] - difficulty)
            log_slope = log_slope + _step(
                (off * apart).sum(0) - log_slope * LOG_DISCRIMINATION_SPREAD**-2,
                (weight * apart**2).sum(0) + LOG_DISCRIMINATION_SPREAD**-2,
            )
        if np.abs(np.concatenate([ability, difficulty, log_slope]) - before).max() < _CLOSE:
            break
    mean = ability.mean()
    return ability - mean, difficulty - mean, log_slope


def _step(gradient: Array, curvature: Array) -> Array:
    """Return Newton's step, at most 1, since the chances are far from linear beyond."""
    return np.clip(gradient / curvature, -1.0, 1.0)


def _residuals(done: Array, ran: Array, ability: Array, difficulty: Array, slope: Array) -> tuple[Array, Array]:
    chance = _chances(ability, difficulty, slope)
    return done - ran * chance, ran * chance * (1 - chance)


def _chances(ability: Array, difficulty: Array, slope: Array) -> Array:
    """Return the chance of success (models, cases)."""
    found: Array = 1 / (1 + np.exp(-np.clip(slope * (ability[:, None] - difficulty), -30.0, 30.0)))
    return found


def _by_name(names: "tuple[Hashable, ...]", values: Array, errors: Array) -> "dict[Hashable, tuple[float, float]]":
    return {name: (float(value), float(error)) for name, value, error in zip(names, values, errors, strict=True)}


def own_level(failed: float, models: int) -> int:
    """Return LIBERO-Plus's difficulty, L1 to L5, from one's own models: 1 and how many of them failed, out of four.

    Args:
        failed: how many models failed; of one with several episodes, the share that failed.
        models: how many ran; with other numbers than four, the share is rounded to a quarter, a half upwards.
    """
    return 1 + int(4 * failed / models + 0.5)
