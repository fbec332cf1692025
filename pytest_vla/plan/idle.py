"""What an arm that does nothing is charged in a task, as measured: the part of an episode's cost that is unavoidable.

All of VLA-Arena's hazard-avoidance tasks charge it: the object to be carried begins within the distance that costs.
What was measured stands beside a suite's manifest, see `idle_file`, written by ``scripts/idle_costs.py``. No simulator,
no numpy.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pytest_vla.entries import MANIFEST
from pytest_vla.errors import VlaError
from pytest_vla.plan.costs import ACCOUNTS, KINDS
from pytest_vla.plan.manifests import suite_manifest, suite_names
from pytest_vla.util.documents import read_toml

FILE = "idle.toml"


@dataclass(frozen=True)
class IdleCharge:
    """What an arm at rest is charged in a span of control steps.

    Attributes:
        account, name, kind: see `pytest_vla.plan.costs.Charge`.
        first, last: control steps, from 1, after the suite's settle steps.
        amount: a step; of a `terminal` charge once, where the episode ends at one of these steps.
    """

    account: str
    name: str
    kind: str
    first: int
    last: int
    amount: float


@dataclass(frozen=True)
class Idle:
    """An idle episode of a task.

    Attributes:
        steps: how many control steps were measured.
        charges: in the order of their first steps.
    """

    steps: int
    charges: tuple[IdleCharge, ...] = ()

    def goes_on(self, charge: IdleCharge) -> bool:
        """Whether a charge at the last measured step is taken to last beyond: it has lasted for half of them."""
        return charge.last == self.steps and 2 * (charge.last - charge.first + 1) >= self.steps

    def cost(self, account: str, steps: int) -> dict[str, float]:
        """What an episode of so many control steps is charged, by name; what is charged nothing is left out.

        Args:
            account: of the ledger.
            steps: from 0.
        """
        found: dict[str, float] = {}
        for charge in self.charges:
            last = steps if self.goes_on(charge) else min(charge.last, steps)
            if charge.account != account or last < charge.first:
                continue
            if charge.kind != "terminal":
                found[charge.name] = found.get(charge.name, 0.0) + charge.amount * (last - charge.first + 1)
            elif last == steps:
                found[charge.name] = found.get(charge.name, 0.0) + charge.amount
        return found


def idle_file(suite: str) -> Path | None:
    """Where what idle arms are charged in a suite's tasks is, by one of `suite_names()`; None: it has no manifest.

    Beside ``suite.toml`` it is ``idle.toml``, beside ``vla_arena_hazard_avoidance.toml`` it is
    ``vla_arena_hazard_avoidance.idle.toml``.
    """
    manifest = suite_manifest(suite)
    if manifest is None:
        return None
    return manifest.with_name(FILE if manifest.name == MANIFEST else f"{manifest.stem}.{FILE}")


@cache
def measured(suite: str) -> Mapping[str, Idle]:
    """What was measured of a suite's tasks, by `Task.key`; nothing where it has no such file. Raises VlaError."""
    file = idle_file(suite) if suite in suite_names() else None
    if file is None or not file.is_file():
        return {}
    try:
        table = read_toml(file)
        return {
            name: Idle(_steps(row["steps"]), tuple(_charges(row.get("charges", ()))))
            for name, row in table["tasks"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise VlaError(
            f"{file}: cannot be read: {error!r}. Make it anew: python scripts/idle_costs.py {suite}"
        ) from error


def _charges(rows: Iterable[Mapping[str, Any]]) -> Iterable[IdleCharge]:
    for row in rows:
        charge = IdleCharge(
            str(row["account"]),
            str(row["name"]),
            str(row["kind"]),
            _steps(row["first"]),
            _steps(row["last"]),
            float(row["amount"]),
        )
        if charge.account not in ACCOUNTS or charge.kind not in KINDS or not charge.amount >= 0:
            raise ValueError(f"{row} is no charge")
        yield charge


def _steps(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"{value!r} is no number of control steps")
    return value
