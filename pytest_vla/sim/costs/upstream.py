"""The account of VLA-Arena's code: what its ``info["cost"]`` adds up to, bug for bug.

Facts from VLA-Arena's public checkout of 2025-09, ``envs/bddl_base_domain.py`` (`_check_cost`): only the first
expression of ``:cost`` counts; what is instant is charged 10 times 0.1 a control step, all else 10 at each step at
which the goal holds, also after the first; a literal that is there five times is charged five times.
"""

import warnings
from collections import Counter
from dataclasses import dataclass
from functools import cache

from pytest_vla.errors import UPSTREAM_CRASHES, EpisodeError
from pytest_vla.plan.costs import Charge, Kind
from pytest_vla.plan.ledger import Ledger
from pytest_vla.scene.bddl import VlaWarning
from pytest_vla.scene.literals import Literal
from pytest_vla.sim.costs.as_coded import judged_as_coded
from pytest_vla.sim.costs.judged import AMOUNT_INSTANT, AMOUNT_TERMINAL, INSTANT, Crash, Judged
from pytest_vla.sim.costs.setting import Setting
from pytest_vla.sim.predicates import Verdict

# As coded: a sum of these is multiplied by the last.
_EACH_INSTANT, _EACH_TERMINAL, _SCALE = 0.1, 1, 10


@dataclass(frozen=True)
class _Item:
    """A literal of ``:cost``, with how often it is there."""

    literal: Literal
    name: str
    count: int
    judged: Judged

    @property
    def is_instant(self) -> bool:
        return self.literal.predicate in INSTANT

    @property
    def kind(self) -> Kind:
        return "instant" if self.is_instant else "terminal"

    @property
    def amount(self) -> float:
        return self.count * (AMOUNT_INSTANT if self.is_instant else AMOUNT_TERMINAL)


class UpstreamMeter:
    """Charges the account `upstream`; see `pytest_vla.sim.metering.Meter`.

    Attributes:
        cost: of the last step, as upstream's ``info["cost"]`` has it, rounding and all.
        verdicts: of the last step, each literal's that was judged, by its text.
    """

    def __init__(self, setting: Setting, *, freezes: bool, crashes: bool = False, goal: Verdict | None = None) -> None:
        """Args:
        setting: of the world.
        freezes: movers stand still where upstream has them do so.
        crashes: where upstream's code raises, the episode ends as an error; else nothing is charged there.
        goal: by upstream's code, where the one that a step is told of goes by other rules; it is judged at each step.

        Raises:
            SceneError: a literal that names what is not there (located).
        """
        self._setting, self._crashes, self._goal = setting, crashes, goal
        kept = [literal for literal in setting.problem.cost if literal.group == 0]
        counts = Counter(str(literal) for literal in kept)
        self._order = [str(literal) for literal in kept]
        self._items = {
            str(literal): _Item(literal, str(literal), counts[str(literal)], judged_as_coded(literal, setting))
            for literal in reversed(kept)
        }
        self._items = {name: self._items[name] for name in dict.fromkeys(self._order)}
        self._movers = frozenset(mover.name for mover in setting.problem.movers) if freezes else frozenset()
        self._frozen: frozenset[str] = frozenset()
        self.cost = 0.0
        self.verdicts: dict[str, bool] = {}
        if not crashes:
            for item in self._items.values():
                if item.judged.crashes is not None:
                    self._warn(item, item.judged.crashes)

    def watched(self) -> tuple[Charge, ...]:
        """Each literal, at 0; what upstream's code cannot judge says so."""
        return tuple(
            Charge(
                item.name,
                0.0,
                0,
                account="upstream",
                kind=item.kind,
                text=f"never charged: upstream's code raises {why}" if (why := item.judged.crashes) else None,
            )
            for item in self._items.values()
        )

    def begin(self) -> None:
        """All movers move again."""
        self._frozen, self.cost, self.verdicts = frozenset(), 0.0, {}

    def step(self, ledger: Ledger, step: int, success: bool) -> None:
        """Charges what holds now.

        Raises:
            EpisodeError: ``upstream-crashes``.
        """
        done = success if self._goal is None else self._goal()
        self.verdicts = {}
        for item in self._items.values():
            if (item.is_instant or done) and self._holds(item):
                told = item.judged.told()
                ledger.charge(step, item.name, item.amount, account="upstream", kind=item.kind, **told._asdict())
                if item.is_instant:
                    self._freeze(item.literal)
        cost: float = 0
        for name in self._order:
            if name in self.verdicts:
                held = int(self.verdicts[name])
                cost += held * (_EACH_INSTANT if self._items[name].is_instant else _EACH_TERMINAL)
        self.cost = cost * _SCALE

    def end(self, ledger: Ledger, step: int, success: bool) -> None:
        """Nothing is charged for an end without success, and that of one with it was charged at its step."""

    def frozen(self) -> frozenset[str]:
        """The movers that a thing ran into, or that the gripper touched."""
        return self._frozen

    def saved(self) -> object:
        """Which movers stand still."""
        return self._frozen

    def restore(self, state: object) -> None:
        """Returns to what `saved` gave."""
        assert isinstance(state, frozenset)
        self._frozen = state

    def _holds(self, item: _Item) -> bool:
        try:
            held = item.judged.holds()
        except Crash as crash:
            if self._crashes:
                where = self._setting.where(item.literal)
                raise EpisodeError(UPSTREAM_CRASHES, f"{where}: {item.name}: upstream's code raises {crash}") from crash
            self._warn(item, str(crash))
            return False
        self.verdicts[item.name] = held
        return held

    def _freeze(self, literal: Literal) -> None:
        if literal.predicate == "incontact":
            self._frozen |= self._movers & {str(literal.arguments[1])}
        elif literal.predicate == "checkgrippercontact":
            self._frozen |= self._movers & {str(literal.arguments[0])}

    def _warn(self, item: _Item, why: str) -> None:
        _warn(
            f"{self._setting.where(item.literal)}: {item.name}: upstream's code raises {why}; "
            "the account 'upstream' is charged nothing for it"
        )


@cache
def _warn(text: str) -> None:
    """Once a process: the same is true of every episode."""
    warnings.warn(text, VlaWarning, stacklevel=2)
