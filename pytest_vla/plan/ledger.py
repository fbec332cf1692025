"""How a ledger of costs is written: step by step, consecutive equal charges becoming one entry. Pure."""

from dataclasses import replace

from pytest_vla.plan.costs import MOST_CHARGES, Account, Charge, Kind, Point


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
        """Enters what one control step was charged; see `Charge`. A step is charged at most once for the same.

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
        """All so far, in the order of their first steps."""
        return tuple(sorted(self._entries, key=lambda charge: -1 if charge.step is None else charge.step))

    def copy(self) -> "Ledger":
        """An independent one, to return to."""
        other = Ledger()
        other._entries, other._latest = list(self._entries), dict(self._latest)
        return other
