"""The ledger of an episode's costs: one entry per charge, with its cause, amount and time.

An entry is a charge that lasts: consecutive control steps in which the same thing was charged the same amount are one
entry, so that the curve of an episode's cost can be drawn from its ledger alone. An episode may be charged by several
accounts, such as a paper's rules and its code's; their sums are never added together.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pytest_vla.errors import VlaError
from pytest_vla.util.text import did_you_mean

MOST_CHARGES = 100_000
"""Of an episode."""

LARGEST_AMOUNT = 1e12
"""Of a charge: sums of more would be no numbers."""

DECLARED = "declared_costs"
"""In a record's provenance: names what the user's file of costs said."""

Account = Literal["", "paper", "upstream", "declared", "collisions"]
"""By whose rules is charged.

"": what a suite's own world says; paper, upstream: a benchmark's costs by its paper, and by its code bug for bug;
declared: what the user's ``--vla-cost-file`` says; collisions: unintended contacts and displaced bystanders, of any
suite.
"""

ACCOUNTS: tuple[Account, ...] = ("", "paper", "upstream", "declared", "collisions")

Kind = Literal["", "instant", "terminal", "rule"]
"""instant: charged at each control step in which it holds; terminal: charged for how the episode ended; rule: by a
user's rule or of an account of collisions; "": not said."""

KINDS: tuple[Kind, ...] = ("", "instant", "terminal", "rule")

Point = tuple[float, float, float]


@dataclass(frozen=True)
class Charge:
    """An entry of the ledger.

    Attributes:
        name: a literal as the task file has it (`str(Literal)`), a rule's name, or the suite's own name for the charge.
        amount: for all of its steps together, from 0, in the account's unit; 0 if it was watched and cost nothing.
        step: the first control step of the charge, from 1; 0 for the reset, None if unknown, as in records of schema 3.
            A world that gives none means the present one.
        by: the cause, such as a body or an object, or None if not given.
        text: an explanation for people, or None if there is none.
        account: by whose rules it was charged.
        kind: how it is charged.
        last_step: the last control step of the charge, with a charge in every step between, or None for `step`.
        bodies: names of the two things that met, as the task file has them, or the model's names of the robot's bodies.
        force: the largest normal contact force between them while charged, N, or None if not measured.
        position: of the contact, m, world frame, when the force was largest, or None if not measured.
        impulse: N s, of all its steps together, over their substeps, or None if not measured, as in ``upstream``, which
            looks at one moment a control step.
        peak: the control step and its substep (from 1, of 25) when the force was largest, or None if not measured.
        unknown: fields that a later version wrote, as JSON has them.
    """

    name: str
    amount: float
    step: int | None = None
    by: str | None = None
    text: str | None = None
    account: str = ""
    kind: str = ""
    last_step: int | None = None
    bodies: tuple[str, ...] = ()
    force: float | None = None
    position: Point | None = None
    impulse: float | None = None
    peak: tuple[int, int] | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """The number of control steps that it lasted; 1 if its steps are unknown."""
        return 1 if self.step is None or self.last_step is None else self.last_step - self.step + 1

    def table(self) -> dict[str, Any]:
        """Return the charge as JSON has it, without fields that have their default."""
        said: dict[str, Any] = {}
        for name in _SAID:
            value = getattr(self, name)
            if value != _DEFAULTS[name]:
                said[name] = list(value) if isinstance(value, tuple) else value
        return {**self.unknown, "name": self.name, "step": self.step, "amount": self.amount, **said}


_SAID = ("by", "text", "account", "kind", "last_step", "bodies", "force", "position", "impulse", "peak")
_DEFAULTS: Mapping[str, Any] = {name: getattr(Charge, name) for name in _SAID}
_NAMES = ("name", "amount", "step", *_SAID)


def charge_of(table: Mapping[str, Any]) -> Charge:
    """Make the charge from a checked `Charge.table`."""
    known: dict[str, Any] = {
        name: tuple(table[name]) if isinstance(table[name], list) else table[name] for name in _NAMES if name in table
    }
    return Charge(**known, unknown={name: value for name, value in table.items() if name not in _NAMES})


def of_account(charges: Iterable[Charge], account: str) -> tuple[Charge, ...]:
    """Return the charges of one account, in their order."""
    return tuple(charge for charge in charges if charge.account == account)


def totals(charges: Iterable[Charge]) -> dict[str, float]:
    """Return the sum of each name's charges, in the order in which names were first charged."""
    found: dict[str, float] = {}
    for charge in charges:
        found[charge.name] = found.get(charge.name, 0.0) + charge.amount
    return found


_HEADLINES: tuple[Account, ...] = ("paper", "", "upstream", "declared", "collisions")
"""Whose sum stands for an episode: the first of these that it has."""

_LITERAL = re.compile(r"\(\s*([^\s()]+)")


def accounts_of(charges: Iterable[Charge]) -> tuple[str, ...]:
    """Return the accounts of an episode, the headline's first, in the order of `_HEADLINES`; unknown ones last."""
    return in_order(charge.account for charge in charges)


def in_order(accounts: Iterable[str]) -> tuple[str, ...]:
    """Return each account once, the headline's first, as `accounts_of`."""
    found = {*accounts}
    return (*(account for account in _HEADLINES if account in found), *sorted(found - {*_HEADLINES}))


ARM_CONTACT, HELD_CONTACT, IMPACT, DISPLACED = COLLISIONS = ("arm_contact", "held_contact", "impact", "displaced")
"""What the account of collisions charges for."""

TOUCHING = "touching"
"""What a charge for coming close says of steps in which there was contact: these are never unavoidable."""


def shown_accounts(charges: Iterable[Charge]) -> tuple[str, ...]:
    """Return the accounts that are shown, each by itself: all but ``upstream`` if ``paper`` is there."""
    found = accounts_of(charges)
    return tuple(account for account in found if account != "upstream" or "paper" not in found)


def judged_accounts(charges: Iterable[Charge]) -> tuple[str, ...]:
    """Return the accounts that decide, each by itself, whether an episode is safe.

    `shown_accounts`, without ``collisions`` if the task states costs of its own.
    """
    found = shown_accounts(charges)
    stated = {"paper", "upstream", ""} & {*found}
    return tuple(account for account in found if account != "collisions" or not stated)


def cumulative(charges: Iterable[Charge], account: str | None = None) -> float | None:
    """Return the total cost of an episode in one account, or None if it has no such account.

    Args:
        charges: of the episode.
        account: by whose rules, or None for the headline's, which is the first of `accounts_of`.
    """
    charges = tuple(charges)
    if account is None:
        account = next(iter(accounts_of(charges)), None)
    found = [charge.amount for charge in charges if charge.account == account]
    return math.fsum(found) if found else None


def account_cost(charges: Iterable[Charge], account: str | None = None) -> float:
    """Return `cumulative`. Raises VlaError if the episode has no such account, and names those that it has."""
    charges = tuple(charges)
    found = cumulative(charges, account)
    if found is None:
        known = ", ".join(map(repr, accounts_of(charges)))
        if not known:
            raise VlaError("no cost is recorded in this episode: its suite defines none, or --vla-collision-costs=none")
        raise VlaError(f"this episode has no cost account {account!r}; it has {known}")
    return found


def predicate_of(name: str) -> str:
    """Return the short name of a literal or rule: the predicate, or the rule's name, in lower case without ``_``.

    ``checkforce`` for ``(CheckForce cup_1 plate_1 5)``, ``check_force`` and ``CheckForce``.
    """
    literal = _LITERAL.match(name.strip())
    return re.sub(r"[_\s-]", "", literal[1] if literal else name).lower()


def cost_of(charges: Iterable[Charge], name: str, account: str | None = None) -> float:
    """Return the amount charged under a name: a literal's text, a predicate (all of its literals), or a rule's name.

    Args:
        charges: of the episode, those of 0 included.
        name: as written; letter case and the underscores of a predicate are ignored.
        account: by whose rules, or None for the first of `accounts_of` that has the name. Accounts are never added.

    Returns:
        0 if it is watched and was not charged.

    Raises:
        VlaError: there is no such name, or no such account; the message lists those that exist.
    """
    charges = tuple(charges)
    accounts = accounts_of(charges)
    if account is not None:
        account_cost(charges, account)
    for each in accounts if account is None else (account,):
        amounts = [charge.amount for charge in charges if charge.account == each and _is_called(charge.name, name)]
        if amounts:
            return math.fsum(amounts)
    names = dict.fromkeys(charge.name for charge in charges if account in (None, charge.account))
    raise VlaError(
        f"no cost is called {name!r} in this episode. Its costs: {', '.join(names) or 'none'}."
        f"{did_you_mean(name, names)}"
    )


def _is_called(known: str, name: str) -> bool:
    if name.lstrip().startswith("("):
        return _plain(known) == _plain(name)
    return known == name or predicate_of(known) == predicate_of(name)


def _plain(literal: str) -> str:
    return " ".join(re.sub(r"([()])", r" \1 ", literal).split()).lower()


# How a ledger of costs is written: step by step, consecutive equal charges becoming one entry. Pure.


class Ledger:
    """The entries of one episode, while it lasts."""

    def __init__(self) -> None:
        self._entries: list[Charge] = []
        # The entry that a charge of the next step may lengthen, by what it says, and what a step of it costs.
        self._latest: dict[tuple[object, ...], tuple[int, float]] = {}

    def charge(
        self,
        step: int,
        name: str,
        amount: float,
        *,
        account: Account,
        kind: Kind,
        bodies: tuple[str, ...] = (),
        force: float | None = None,
        position: Point | None = None,
        impulse: float | None = None,
        substep: int | None = None,
        by: str | None = None,
        text: str | None = None,
    ) -> None:
        """Enter the charge of one control step; see `Charge`. A step is charged at most once for the same thing.

        Args:
            substep: when the force was largest, from 1.

        Raises:
            OverflowError: there are more entries than a record can have.
        """
        peak = None if substep is None else (step, substep)
        what = (account, name, bodies, by, text)
        index, each = self._latest.get(what, (-1, 0.0))
        latest = self._entries[index] if index >= 0 else None
        if latest is not None and latest.step is not None and each == amount and step == latest.step + latest.steps:
            harder = force is not None and (latest.force is None or force > latest.force)
            self._entries[index] = replace(
                latest,
                # Not added up step by step: a sum of ten tenths is not one.
                amount=amount * (latest.steps + 1),
                last_step=step,
                force=force if harder else latest.force,
                position=position if harder or latest.position is None else latest.position,
                impulse=impulse if latest.impulse is None else latest.impulse + (impulse or 0.0),
                peak=peak if harder or latest.peak is None else latest.peak,
            )
            return
        if len(self._entries) == MOST_CHARGES:
            raise OverflowError(f"more than {MOST_CHARGES} charges in an episode")
        self._latest[what] = (len(self._entries), amount)
        self._entries.append(
            Charge(name, amount, step, by, text, account, kind, None, bodies, force, position, impulse, peak)
        )

    def entries(self) -> tuple[Charge, ...]:
        """Return all entries so far, in the order of their first steps."""
        return tuple(sorted(self._entries, key=lambda charge: -1 if charge.step is None else charge.step))

    def copy(self) -> "Ledger":
        """Return an independent copy, to return to."""
        other = Ledger()
        other._entries, other._latest = list(self._entries), dict(self._latest)
        return other
