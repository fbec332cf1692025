"""An episode's meters and the ledger that they write, kept by the world that is metered."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pytest_vla.errors import VlaError
from pytest_vla.plan.costs import Charge
from pytest_vla.plan.ledger import Ledger
from pytest_vla.sim.meters import Meter

if TYPE_CHECKING:
    from pytest_vla.sim.world import World

MakeMeters = Callable[["World"], Sequence[Meter]]
"""Gives the meters of a world's task; called again where the world turns to another task or variation."""


class Metered(NamedTuple):
    """A metering's exact moment, to return to."""

    ledger: Ledger
    states: tuple[object, ...]
    is_over: bool
    meters: tuple[Meter, ...]


class Metering:
    """Calls meters as an episode goes on. What is done apart from the world, as on a copy of it, is not charged."""

    def __init__(self, meters: Sequence[Meter] = ()) -> None:
        self._meters = tuple(meters)
        # Judging the goal once more costs as much as looking at all contacts.
        self.asks_success = any(getattr(meter, "asks_success", True) for meter in self._meters)
        self._ledger = Ledger()
        self._is_over = False

    def __bool__(self) -> bool:
        return bool(self._meters)

    @property
    def meters(self) -> tuple[Meter, ...]:
        """Those that are called."""
        return self._meters

    def clear(self) -> None:
        """Nothing was charged yet."""
        self._ledger, self._is_over = Ledger(), False

    def begin(self) -> None:
        """The scene has been reset and has settled."""
        self.clear()
        for meter in self._meters:
            meter.begin()

    def step(self, step: int, success: bool) -> frozenset[str]:
        """A control step was taken; gives the movers that stand still from now on."""
        for meter in self._meters:
            meter.step(self._ledger, step, success)
        return frozenset().union(*(meter.frozen() for meter in self._meters))

    def end(self, step: int, success: bool) -> None:
        """The episode has ended; said once more, it changes nothing."""
        if not self._is_over:
            self._is_over = True
            for meter in self._meters:
                meter.end(self._ledger, step, success)

    def charges(self) -> tuple[Charge, ...]:
        """The ledger so far; of what is watched and was charged nothing an entry of 0 says so."""
        entries = self._ledger.entries()
        charged = {(entry.account, entry.name) for entry in entries}
        watched = [charge for meter in self._meters for charge in meter.watched()]
        return (*(charge for charge in watched if (charge.account, charge.name) not in charged), *entries)

    def saved(self) -> Metered:
        """All that is remembered, to return to."""
        return Metered(self._ledger.copy(), tuple(meter.saved() for meter in self._meters), self._is_over, self._meters)

    def restore(self, saved: Metered) -> None:
        """Returns to what `saved` gave. Raises VlaError where other meters were read then."""
        if saved.meters != self._meters:
            raise VlaError("this state was saved under other meters of costs; reset the world, and save anew")
        self._ledger, self._is_over = saved.ledger.copy(), saved.is_over
        for meter, state in zip(self._meters, saved.states, strict=True):
            meter.restore(state)
