"""What charges an episode for what happens in its world; each account of a ledger has a meter of its own."""

from typing import Protocol

from pytest_vla.plan.costs import Charge
from pytest_vla.plan.ledger import Ledger


class Meter(Protocol):
    """Reads a world's present state after each control step, and writes what that costs.

    Reading changes nothing: an episode is the same with any meters and with none, but for `frozen`. A meter reads the
    state that verdicts are given on, which is that of the last mj_step1.
    """

    def watched(self) -> tuple[Charge, ...]:
        """An entry of 0, at step 0, of each name that it may charge: an episode that was not charged says so."""

    def begin(self) -> None:
        """The scene has been reset and has settled; nothing is charged for what was before."""

    def step(self, ledger: Ledger, step: int, success: bool) -> None:
        """A control step was taken.

        Args:
            ledger: is written to.
            step: its number, from 1; settling is not counted.
            success: whether the goal holds now; False where no meter of the episode wants to know, which a meter says
                by an attribute ``asks_success`` that is False.
        """

    def end(self, ledger: Ledger, step: int, success: bool) -> None:
        """The episode has ended after this step; what is charged for how it ended."""

    def frozen(self) -> frozenset[str]:
        """The movers, by their objects' names, that stand still from now on because they were touched."""

    def saved(self) -> object:
        """What it remembers, to return to."""

    def restore(self, state: object) -> None:
        """Returns to what `saved` gave."""
