"""LIBERO-Plus's tables from records: success by dimension, sub-dimension and difficulty, as its Table 10 has it.

Its rows are over episodes, not means of suites or tasks: a suite with more tasks of a dimension counts for more. Where
only a part of the list was run, `weighted_rate` weighs what was run by what the list has.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from pytest_vla.metrics import selection
from pytest_vla.metrics.selection import by_model, that_count
from pytest_vla.metrics.success import SuccessRate, success_rate
from pytest_vla.records import Record
from pytest_vla.suite import did_you_mean
from pytest_vla.vary.libero_plus_names import CATEGORIES, SUB_DIMENSIONS, SUITES, PlusTask, parse_name

Weights = Literal["list", "paper"]
"""How many tasks a suite has of a dimension: as in its list, or as in the paper's Table 6."""

LEVELS = (1, 2, 3, 4, 5, None)
"""Difficulties; None: the list does not say."""

# By suite as in `SUITES`.
_LISTED: Mapping[str, tuple[int, ...]] = {
    "camera": (376, 396, 408, 419),
    "robot": (350, 398, 409, 393),
    "language": (390, 354, 410, 383),
    "light": (292, 297, 279, 274),
    "background": (258, 248, 281, 289),
    "noise": (351, 422, 379, 449),
    "layout": (385, 403, 425, 312),
}
# The paper's Table 6 has two suites of Language exchanged, and those of Layout in the opposite order.
_TABLE_6: Mapping[str, tuple[int, ...]] = {**_LISTED, "language": (354, 390, 410, 383), "layout": (312, 425, 403, 385)}
_WEIGHTS: Mapping[Weights, Mapping[str, tuple[int, ...]]] = {"list": _LISTED, "paper": _TABLE_6}

DIMENSIONS = tuple(CATEGORIES.values())
"""In the order of its leaderboard."""


@dataclass(frozen=True)
class PlusRates:
    """One model under one protocol.

    Attributes:
        model: the policy's name.
        protocol: of `pytest_vla.vary.libero_plus.PROTOCOLS`.
        dimensions: the leaderboard's seven columns.
        total: over all episodes.
        levels: by difficulty.
        cells: by dimension and difficulty.
        suites: by dimension and suite of LIBERO.
        sub_dimensions: by what names tell apart within the dimensions.
        left_out: what was there and does not count, and why.
    """

    model: str
    protocol: str
    dimensions: Mapping[str, SuccessRate]
    total: SuccessRate
    levels: Mapping[int | None, SuccessRate]
    cells: Mapping[tuple[str, int | None], SuccessRate]
    suites: Mapping[tuple[str, str], SuccessRate]
    sub_dimensions: Mapping[str, SuccessRate]
    left_out: tuple[str, ...]

    def weighted(self, dimension: str | None = None, weights: Weights = "list") -> float | None:
        """`weighted_rate` of a dimension's suites, or of all; None where one of them was not run."""
        names = DIMENSIONS if dimension is None else (dimension,)
        keys = [(name, suite) for name in names for suite in SUITES]
        rates = {key: self.suites[key].rate for key in keys if key in self.suites}
        known = {key: rate for key, rate in rates.items() if rate is not None}
        return weighted_rate(known, weights) if len(known) == len(keys) else None


def task_counts(weights: Weights = "list") -> Mapping[tuple[str, str], int]:
    """How many tasks there are, by dimension and suite of LIBERO."""
    table = _WEIGHTS[weights]
    return MappingProxyType(
        {
            (dimension, suite): count
            for dimension in table
            for suite, count in zip(SUITES, table[dimension], strict=True)
        }
    )


def weighted_rate(rates: Mapping[tuple[str, str], float], weights: Weights = "list") -> float:
    """The mean of rates by dimension and suite, each counted as often as there are tasks.

    Args:
        rates: of any unit.
        weights: whose counts.

    Raises:
        ValueError: there is no rate, or one of no dimension or suite of LIBERO-Plus's.
    """
    counts = task_counts(weights)
    if unknown := [key for key in rates if key not in counts]:
        raise ValueError(f"weighted_rate: LIBERO-Plus has no {unknown[0]}.{did_you_mean(unknown[0][0], DIMENSIONS)}")
    if not rates:
        raise ValueError("weighted_rate: expected at least one rate")
    return sum(counts[key] * rate for key, rate in rates.items()) / sum(counts[key] for key in rates)


def plus_rates(records: Iterable[Record]) -> tuple[PlusRates, ...]:
    """The tables of each model and protocol, in the order in which they come.

    Args:
        records: of any runs, in the order of their ends; those of other suites and benign ones are passed over. Which
            count is `pytest_vla.metrics.selection.that_count`'s, under each protocol.
    """
    return tuple(_rates(model, protocol, found) for (model, protocol), found in by_protocol(records).items())


def by_protocol(records: Iterable[Record]) -> dict[tuple[str, str], list[Record]]:
    """The records of entries of LIBERO-Plus's list, by model and protocol, in the order in which they come."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for (model, _), some in by_model(records).items():
        for record in some:
            if (protocol := protocol_of(record)) is not None:
                groups.setdefault((model, protocol), []).append(record)
    return groups


def protocol_of(record: Record) -> str | None:
    """The protocol under which an entry of LIBERO-Plus's list was run; None for any other record."""
    return (selection.protocol_of(record) or None) if record.suite.startswith("libero_plus_") else None


def _rates(model: str, protocol: str, records: Sequence[Record]) -> PlusRates:
    counted: list[tuple[Record, PlusTask]] = []
    left_out: list[str] = []
    for (_, suite), found in by_model(records).items():
        selected = that_count(found)
        counted += [(record, parse_name(record.variation["parameters"]["name"])) for record in selected.records]
        left_out += [f"{suite}: {each}" for each in selected.left_out]

    def rate(
        name: str, dimension: str = "", suite: str = "", kind: str = "", levels: Sequence[int | None] = LEVELS
    ) -> SuccessRate:
        chosen = [
            record
            for record, task in counted
            if dimension in ("", task.dimension)
            and suite in ("", task.suite)
            and kind in ("", task.sub_dimension)
            and record.variation.get("level") in levels
        ]
        return success_rate(name, chosen)

    pairs = [(name, kind) for name, kinds in SUB_DIMENSIONS.items() for kind in kinds]
    cells = {
        (name, level): rate(f"{name} {_level(level)}", name, levels=[level]) for name in DIMENSIONS for level in LEVELS
    }
    suites = {(name, suite): rate(f"{name} {suite}", name, suite) for name in DIMENSIONS for suite in SUITES}
    return PlusRates(
        model,
        protocol,
        {name: rate(name, name) for name in DIMENSIONS},
        rate("total"),
        {level: rate(_level(level), levels=[level]) for level in LEVELS},
        {key: each for key, each in cells.items() if each.episodes},
        {key: each for key, each in suites.items() if each.episodes},
        {kind: each for name, kind in pairs if (each := rate(kind, name, kind=kind)).episodes},
        tuple(left_out),
    )


def _level(level: int | None) -> str:
    return "no level" if level is None else f"L{level}"
