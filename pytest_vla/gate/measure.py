"""The numbers that a gate can judge beside success, as they are asked for. Light: no numpy."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_vla.errors import VlaError

STEPS, COST, PRIDE = "steps", "cost", "pride"
USAGE = (
    "steps, cost, cost.ACCOUNT, cost.ACCOUNT.NAME, pride, lower:NAME or higher:NAME, each with a margin as in steps=10"
)

_WAYS = {"lower": True, "higher": False}


@dataclass(frozen=True)
class Measure:
    """A number of an episode.

    Attributes:
        name: as it was asked for.
        lower_is_better: whether a rise is bad.
        margin: in its own unit, how far it may get worse; None: no worse is not claimed.
        is_own: whether it is a number that others keep (`pytest_vla.entries.MetricEntry`), by its name.
    """

    name: str
    lower_is_better: bool
    margin: float | None = None
    is_own: bool = False

    @property
    def text(self) -> str:
        """As it is asked for; `parse_measure` reads it."""
        way = ("lower:" if self.lower_is_better else "higher:") if self.is_own else ""
        return f"{way}{self.name}{'' if self.margin is None else f'={self.margin:g}'}"

    @property
    def is_of_costs(self) -> bool:
        """Whether it is of what was charged."""
        return not self.is_own and self.name.partition(".")[0] == COST


def parse_measure(text: str) -> Measure:
    """A measure, from ``steps``, ``cost.collisions``, ``lower:jerk=0.1``. Raises VlaError."""
    named, sign, number = text.partition("=")
    margin = _margin(number) if sign else None
    way, colon, own = named.partition(":")
    if (sign and margin is None) or not named:
        raise VlaError(f"measure {text!r}: expected a margin above 0 behind its =, such as steps=10")
    if colon:
        if way not in _WAYS or not own:
            raise VlaError(f"measure {text!r}: expected {USAGE}")
        return Measure(own, _WAYS[way], margin, is_own=True)
    if named in (STEPS, PRIDE) or (named.partition(".")[0] == COST and all(named.split("."))):
        return Measure(named, named != PRIDE, margin)
    raise VlaError(f"measure {text!r}: expected {USAGE}")


def parse_measures(texts: Iterable[str]) -> tuple[Measure, ...]:
    """Several. Raises VlaError: one cannot be read, or is named twice."""
    found: dict[tuple[str, bool], Measure] = {}
    for measure in map(parse_measure, texts):
        if (key := (measure.name, measure.is_own)) in found:
            raise VlaError(f"measure {measure.name}: it is asked for twice; expected each once")
        found[key] = measure
    return tuple(found.values())


def _margin(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) and found > 0 else None
