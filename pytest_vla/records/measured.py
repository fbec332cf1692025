"""What a metric says of an episode, where it says more than one number."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Measured:
    """What a metric says of an episode (`pytest_vla.entries.MetricEntry`).

    Attributes:
        value: the number that is kept under the metric's name; None: there is none.
        further: numbers that are kept under ``NAME.KEY``, such as ``.paper`` and ``.arm``.
        series: arrays (n, ...), a row a control step, that the trajectory gets: under the metric's name by the key
            ``""``, under ``NAME.KEY`` by another. Series are called in lower case, with ``_`` for ``-``.
        missing: what the metric needed and there was not, such as "samples"; empty: nothing was missing. It is the same
            text for every episode that lacks it.
    """

    value: float | None
    further: Mapping[str, float | None] = field(default_factory=dict)
    series: "Mapping[str, NDArray[Any]]" = field(default_factory=dict)
    missing: str = ""
