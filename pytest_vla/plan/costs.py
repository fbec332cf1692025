"""The ledger of an episode's costs: an entry a charge, which says what cost how much, at which step and by what."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_CHARGES = 100_000
"""Of an episode."""

LARGEST_AMOUNT = 1e12
"""Of a charge: sums of more would be no numbers."""


@dataclass(frozen=True)
class Charge:
    """An entry of the ledger.

    Attributes:
        name: of what was charged: a predicate's, a literal's, or what a suite calls it.
        amount: how much, from 0, in the unit that the name's suite says; 0: it was looked at, and cost nothing.
        step: the control step, from 1; 0: the reset; None: not known, as in records of schema 3. A world that gives
            none means the present one.
        by: what caused it, such as a body or an object; None: not said.
        text: more on it, for people; None: there is none.
        unknown: what a later version wrote beside these, as JSON has it.
    """

    name: str
    amount: float
    step: int | None = None
    by: str | None = None
    text: str | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def table(self) -> dict[str, Any]:
        """As JSON has it; what is not said is left out."""
        said = {name: value for name, value in (("by", self.by), ("text", self.text)) if value is not None}
        return {**self.unknown, "name": self.name, "step": self.step, "amount": self.amount, **said}


def charge_of(table: Mapping[str, Any]) -> Charge:
    """The charge of `Charge.table`, whose types have been looked at."""
    names = ("name", "amount", "step", "by", "text")
    known = {name: table[name] for name in names if name in table}
    return Charge(**known, unknown={name: value for name, value in table.items() if name not in names})


def totals(charges: Iterable[Charge]) -> dict[str, float]:
    """The sum of each name's charges, in the order in which names were first charged."""
    found: dict[str, float] = {}
    for charge in charges:
        found[charge.name] = found.get(charge.name, 0.0) + charge.amount
    return found
