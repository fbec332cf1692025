"""PRIDE (LIBERO-Para, arXiv 2603.28301): success weighted by how far each paraphrase is from its original."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import TypeVar

NONE = "none"
OBJECT_TYPES = (NONE, "addition_deletion", "same_polarity_contextual", "same_polarity_habitual")
"""How a paraphrase names the objects; the published CSV's words, and ``none`` where it leaves them."""

ACTION_CATEGORIES: Mapping[str, str] = {
    "addition_deletion": "lexical",
    "same_polarity_contextual": "lexical",
    "same_polarity_habitual": "lexical",
    "coordination": "structural",
    "subordination": "structural",
    "embedded_imperative": "pragmatical",
    "hint": "pragmatical",
    "need_statement": "pragmatical",
    "permission_directive": "pragmatical",
    "question_directive": "pragmatical",
}
"""How a paraphrase says the action, each with its category."""

ACTION_TYPES = (NONE, *ACTION_CATEGORIES)

ALPHA = 0.5
"""The paper's weight of S_K; S_T has the rest."""

ALPHAS = tuple(tenths / 10 for tenths in range(11))

ROUNDING = 1e-6
"""A distance below this is none: published S_K is made in float32, where equal words are up to 1.2e-7 beside 1."""

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class ParaphraseOutcome:
    """An episode under a paraphrase.

    Attributes:
        success: whether the task was done.
        keyword: S_K of the paraphrase, 0..1.
        structural: S_T of the paraphrase, 0..1.
        object_type: one of `OBJECT_TYPES`.
        action_type: one of `ACTION_TYPES`.
        task: name.
        backend: name and version of what made both similarities.
    """

    success: bool
    keyword: float
    structural: float
    object_type: str
    action_type: str
    task: str
    backend: str


@dataclass(frozen=True)
class PrideGroup:
    """Episodes that belong together. Percentages are 0..100, as in the paper's tables.

    Attributes:
        n: episodes, at least 1.
        sr: success rate in percent.
        pd: mean distance of the paraphrases, 0..1; 0 where it is below `ROUNDING`.
        pride: in percent; None where the mean distance is 0.
    """

    n: int
    sr: float
    pd: float
    pride: float | None

    @property
    def overestimation(self) -> float | None:
        """The success rate's excess over PRIDE, in percent of the rate; None if PRIDE is undefined or the rate is 0."""
        return None if self.pride is None or self.sr == 0 else 100 * (self.sr - self.pride) / self.sr


@dataclass(frozen=True)
class Pride:
    """A model's table.

    Attributes:
        backend: name and version of what made the similarities.
        alpha: weight of S_K in all but `sweep`.
        overall: all episodes.
        sweep: PRIDE in percent for each of `ALPHAS`.
        cells: by object type and action type, in their order; those with episodes.
        objects: by object type.
        actions: by action type.
        categories: by category of the action, of paraphrases that leave the objects as they are.
        tasks: by task, in the order in which they came.
    """

    backend: str
    alpha: float
    overall: PrideGroup
    sweep: Mapping[float, float | None]
    cells: Mapping[tuple[str, str], PrideGroup]
    objects: Mapping[str, PrideGroup]
    actions: Mapping[str, PrideGroup]
    categories: Mapping[str, PrideGroup]
    tasks: Mapping[str, PrideGroup]


def paraphrase_distance(keyword: float, structural: float, alpha: float = ALPHA) -> float:
    """Compute PD of one paraphrase for display: 0 below `ROUNDING`. Raises ValueError as `paraphrase_weight` does."""
    distance = paraphrase_weight(keyword, structural, alpha)
    return 0.0 if distance < ROUNDING else distance


def paraphrase_weight(keyword: float, structural: float, alpha: float = ALPHA) -> float:
    """Compute PD as scores sum it: 1 - (alpha S_K + (1 - alpha) S_T), with float32 rounding, possibly below 0.

    Raises:
        ValueError: alpha or a similarity is not in 0..1.
    """
    _check_alpha(alpha)
    for name, value in (("S_K", keyword), ("S_T", structural)):
        if not -ROUNDING <= value <= 1 + ROUNDING:
            raise ValueError(f"{name} {value}: expected a number from 0 to 1")
    return 1 - (alpha * keyword + (1 - alpha) * structural)


def pride(outcomes: Iterable[ParaphraseOutcome], alpha: float = ALPHA) -> float | None:
    """Compute 100 * sum(success * PD) / sum(PD), or None if the mean PD is below `ROUNDING`.

    Raises ValueError as `pride_table` does.
    """
    outcomes = tuple(outcomes)
    _one_backend(outcomes)
    return _weighted(outcomes, [paraphrase_weight(each.keyword, each.structural, alpha) for each in outcomes])


def group(outcomes: Sequence[ParaphraseOutcome], alpha: float = ALPHA) -> PrideGroup:
    """Compute the numbers for a group of episodes, at least one. Raises ValueError as `pride_table` does."""
    if not outcomes:
        raise ValueError("a group of no episodes has no rate")
    _one_backend(outcomes)
    distances = [paraphrase_weight(each.keyword, each.structural, alpha) for each in outcomes]
    n = len(outcomes)
    sr = 100 * sum(each.success for each in outcomes) / n
    value = _weighted(outcomes, distances)
    return PrideGroup(n, sr, 0.0 if value is None else fsum(distances) / n, value)


def grouped(
    outcomes: Iterable[ParaphraseOutcome], key: Callable[[ParaphraseOutcome], Key], alpha: float = ALPHA
) -> dict[Key, PrideGroup]:
    """Compute the numbers for each group of episodes, in the order of the keys' first occurrence."""
    members: dict[Key, list[ParaphraseOutcome]] = {}
    for each in outcomes:
        members.setdefault(key(each), []).append(each)
    return {name: group(some, alpha) for name, some in members.items()}


def alpha_sweep(outcomes: Sequence[ParaphraseOutcome]) -> dict[float, float | None]:
    """Compute PRIDE at each of `ALPHAS`."""
    return {alpha: pride(outcomes, alpha) for alpha in ALPHAS}


def pride_table(outcomes: Sequence[ParaphraseOutcome], alpha: float = ALPHA) -> Pride:
    """Everything at once.

    Args:
        outcomes: at least one; those of several seeds are pooled.
        alpha: weight of S_K, 0..1.

    Raises:
        ValueError: there is no outcome; their similarities are of more than one backend; a type is not known; alpha or
            a similarity is not in 0..1.
    """
    if not outcomes:
        raise ValueError("PRIDE of no episodes")
    for each in outcomes:
        if each.object_type not in OBJECT_TYPES or each.action_type not in ACTION_TYPES:
            raise ValueError(f"no such types of paraphrase: {each.object_type!r} with {each.action_type!r}")
    cells = grouped(outcomes, lambda each: (each.object_type, each.action_type), alpha)
    objects = grouped(outcomes, lambda each: each.object_type, alpha)
    actions = grouped(outcomes, lambda each: each.action_type, alpha)
    acts = [each for each in outcomes if each.object_type == NONE and each.action_type != NONE]
    return Pride(
        backend=outcomes[0].backend,
        alpha=alpha,
        overall=group(outcomes, alpha),
        sweep=alpha_sweep(outcomes),
        cells={(o, a): cells[o, a] for o in OBJECT_TYPES for a in ACTION_TYPES if (o, a) in cells},
        objects={name: objects[name] for name in OBJECT_TYPES if name in objects},
        actions={name: actions[name] for name in ACTION_TYPES if name in actions},
        categories=grouped(acts, lambda each: ACTION_CATEGORIES[each.action_type], alpha),
        tasks=grouped(outcomes, lambda each: each.task, alpha),
    )


def _weighted(outcomes: Sequence[ParaphraseOutcome], distances: Sequence[float]) -> float | None:
    total = fsum(distances)
    if total < ROUNDING * len(outcomes):
        return None
    # In this order all of it is 100, and not a rounding beside.
    return 100 * (fsum(d for each, d in zip(outcomes, distances, strict=True) if each.success) / total)


def _check_alpha(alpha: float) -> None:
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha {alpha}: expected a number from 0 to 1")


def _one_backend(outcomes: Sequence[ParaphraseOutcome]) -> None:
    if len(names := {each.backend for each in outcomes}) > 1:
        raise ValueError(f"similarities of {len(names)} backends in one score: {', '.join(sorted(names))}")
