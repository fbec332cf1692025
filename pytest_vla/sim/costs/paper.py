"""The account of VLA-Arena's paper: every literal of every expression of ``:cost``.

What is of the moment is charged 1 at each control step in which it holds, contacts and forces in any of its substeps,
all else 10 once, as the episode ends, with
or without success. A literal that is there five times is charged five times.
"""

from collections import Counter
from dataclasses import dataclass, replace

from pytest_vla.plan.costs import Charge, Kind
from pytest_vla.plan.ledger import Ledger
from pytest_vla.scene.accepted import names_of
from pytest_vla.scene.literals import Literal
from pytest_vla.sim.costs.as_written import is_instant, judged_as_written, leaves, stances_of
from pytest_vla.sim.costs.judged import AMOUNT_INSTANT, AMOUNT_TERMINAL, Judged
from pytest_vla.sim.costs.setting import Setting


@dataclass(frozen=True)
class _Item:
    """A condition of ``:cost``: what it costs a time, and the movers that it stops."""

    name: str
    amount: float
    kind: Kind
    judged: Judged
    stops: tuple[tuple[Judged, frozenset[str]], ...]


class PaperMeter:
    """Charges the account `paper`; see `pytest_vla.sim.metering.Meter`."""

    def __init__(self, setting: Setting, *, freezes: bool) -> None:
        """Args:
        setting: of the world.
        freezes: movers that what is charged at a moment names stand still from then on.

        Raises:
            SceneError: a literal that names what is not there (located).
        """
        literals = {str(literal): literal for literal in setting.problem.cost}
        counts = Counter(str(literal) for literal in setting.problem.cost)
        self._stances = stances_of(tuple(literals.values()), setting)
        movers = frozenset(mover.name for mover in setting.problem.movers) if freezes else frozenset()
        items = [self._item(name, literal, counts[name], setting, movers) for name, literal in literals.items()]
        self._instant = tuple(item for item in items if item.kind == "instant")
        self._terminal = tuple(item for item in items if item.kind == "terminal")
        self._frozen: frozenset[str] = frozenset()

    def watched(self) -> tuple[Charge, ...]:
        """Each condition, at 0."""
        return tuple(
            Charge(item.name, 0.0, 0, account="paper", kind=item.kind) for item in (*self._instant, *self._terminal)
        )

    def begin(self) -> None:
        """Things stand as they stand now, or as they come to rest."""
        self._frozen = frozenset()
        self._stances.begin()

    def step(self, ledger: Ledger, step: int, success: bool) -> None:
        """Charges what is of the moment and holds now."""
        self._stances.observe(step)
        for item in self._instant:
            if item.judged.holds():
                self._charge(ledger, step, item)
                for judged, names in item.stops:
                    if names - self._frozen and judged.holds():
                        self._frozen |= names

    def end(self, ledger: Ledger, step: int, success: bool) -> None:
        """Charges how the episode ended."""
        for item in self._terminal:
            if item.judged.holds():
                self._charge(ledger, step, item)

    def frozen(self) -> frozenset[str]:
        """The movers that a charge has named."""
        return self._frozen

    def saved(self) -> object:
        """What is remembered of things, and which movers stand still."""
        return self._stances.saved(), self._frozen

    def restore(self, state: object) -> None:
        """Returns to what `saved` gave."""
        assert isinstance(state, tuple)
        stances, self._frozen = state
        self._stances.restore(stances)

    def _charge(self, ledger: Ledger, step: int, item: _Item) -> None:
        told = item.judged.told()
        ledger.charge(step, item.name, item.amount, account="paper", kind=item.kind, **told._asdict())

    def _item(self, name: str, literal: Literal, count: int, setting: Setting, movers: frozenset[str]) -> _Item:
        kind: Kind = "instant" if is_instant(literal) else "terminal"
        # How an episode ended is how things are then.
        setting = setting if kind == "instant" else replace(setting, substeps=None)
        judged = judged_as_written(literal, setting, self._stances)
        each = AMOUNT_INSTANT if kind == "instant" else AMOUNT_TERMINAL
        stops: list[tuple[Judged, frozenset[str]]] = []
        if kind == "instant":
            for leaf in leaves(literal):
                if names := movers & set(names_of(leaf)):
                    one = judged if leaf is literal else judged_as_written(leaf, setting, self._stances)
                    stops.append((one, names))
        return _Item(name, count * each, kind, judged, tuple(stops))
