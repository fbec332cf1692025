"""A literal as it is judged: its verdict, and what there is to tell of it while it holds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from pytest_vla.plan.costs import Point


class Crash(Exception):
    """Upstream's code raises here; the message says why."""


class Told(NamedTuple):
    """What a charge says beside its literal; see `pytest_vla.plan.costs.Charge`."""

    bodies: tuple[str, ...] = ()
    force: float | None = None
    position: Point | None = None
    by: str | None = None
    text: str | None = None
    impulse: float | None = None
    substep: int | None = None


@dataclass(frozen=True)
class Judged:
    """A literal that can be judged.

    Attributes:
        holds: its verdict on the present state; raises `Crash` where upstream raises.
        told: what there is to tell of it, asked for while it holds.
        crashes: why upstream raises whatever the state; None: it may be judged.
        measured: the number (m, N) that is compared with the literal's; None: there is none.
    """

    holds: Callable[[], bool]
    told: Callable[[], Told]
    crashes: str | None = None
    measured: Callable[[], float] | None = None


INSTANT = frozenset(
    {
        *("incontact", "on", "up", "checkforce", "incontactpart", "checkdistance", "checkgrippercontact"),
        *("checkgrippercontactpart", "checkgripperdistance", "checkgripperdistancepart"),
    }
)
"""Predicates that are charged at each control step in which they hold; upstream's TEMPORAL_PREDICATE_FN_LIST."""

AMOUNT_INSTANT = 1.0
AMOUNT_TERMINAL = 10.0
