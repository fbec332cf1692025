"""What a policy gave beside actions, as series of the trajectory: of each control step what belongs to its action."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pytest_vla.metrics import inputs
from pytest_vla.policies.base import Answer

Array = NDArray[np.float64]


def given_series(answers: Sequence[tuple[int, Answer]], steps: int) -> dict[str, Array]:
    """The series of `pytest_vla.metrics.inputs` that are made of answers; what nobody gave is not among them.

    The steps from one question to the next execute the answer's chunk from its first action on. What is told of its
    tokens is told of the whole chunk, and stands in each of these steps.

    Args:
        answers: with the control step that each was given at, from 0, in their order; also those that have only
            actions.
        steps: how many control steps were executed.
    """
    starts = [*(step for step, _ in answers), steps]
    executed = [(first, end, answer) for (first, answer), end in zip(answers, starts[1:], strict=True) if first < end]
    found: dict[str, Array] = {}
    tokens = {
        inputs.FIRST: [_of_tokens(answer, "first") for _, _, answer in executed],
        inputs.SECOND: [_of_tokens(answer, "second") for _, _, answer in executed],
        inputs.SQUARES: [_of_tokens(answer, "squares") for _, _, answer in executed],
        inputs.ENTROPY: [_of_tokens(answer, "entropy") for _, _, answer in executed],
        inputs.PROBABILITIES: [answer.token_probabilities for _, _, answer in executed],
    }
    for name, rows in tokens.items():
        if any(row is not None and len(row) for row in rows):
            most = max(len(row) for row in rows if row is not None)
            series = np.full((steps, most), np.nan)
            for (first, end, _), row in zip(executed, rows, strict=True):
                if row is not None:
                    series[first:end, : len(row)] = row
            found[name] = series
    if inputs.FIRST in found:
        found[inputs.VOCABULARY] = vocabulary = np.full(steps, np.nan)
        for first, end, answer in executed:
            if answer.token_statistics is not None:
                vocabulary[first:end] = answer.token_statistics.vocabulary
    draws = [(first, end, answer.samples) for first, end, answer in executed if answer.samples is not None]
    if draws:
        shape = (steps, max(len(each) for _, _, each in draws), draws[0][2].shape[2])
        found[inputs.SAMPLES] = samples = np.full(shape, np.nan)
        for first, end, each in draws:
            last = min(end, first + each.shape[1])
            samples[first:last, : len(each)] = each.transpose(1, 0, 2)[: last - first]
    return found


def _of_tokens(answer: Answer, name: str) -> Array | None:
    return None if answer.token_statistics is None else np.asarray(getattr(answer.token_statistics, name))
