"""What an episode was charged, in words for a person."""

from collections.abc import Sequence

from pytest_vla.plan.costs import Charge, accounts_of, cumulative, of_account, predicate_of
from pytest_vla.util.text import counted

MOST_LINES = 5

# By predicate or rule: what happened, of up to two names.
_HAPPENED = {
    "armcontact": "{0} touched {1}",
    "heldcontact": "{0}, held, touched {1}",
    "impact": "{0} hit {1}",
    "displaced": "{0} was displaced",
    "incontact": "{0} touched {1}",
    "checkgrippercontact": "the gripper touched {0}",
    "checkforce": "{0} pressed {1}",
    "checkdistance": "{0} came close to {1}",
    "checkgripperdistance": "the gripper came close to {0}",
    "checkgripperdist": "the gripper came close to {0}",
    "fall": "{0} fell",
}
# Likewise where it was a link of the arm, the second name.
_BY_A_LINK = {
    "checkgrippercontact": "{1} touched {0}",
    "checkgripperdistance": "{1} came close to {0}",
    "checkgripperdist": "{1} came close to {0}",
}
_LINKS = "robot0_"
_NAMED = 2


def amount_text(amount: float) -> str:
    """A cost as short as it can be told."""
    return f"{amount:.6g}"


def charge_text(charge: Charge) -> str:
    """``robot0_link5 touched bottle_1 at steps 24 to 45, 62.2 N``, without what it cost."""
    predicate, names = predicate_of(charge.name), _names(charge)
    by_a_link = len(names) > 1 and names[1].startswith(_LINKS)
    form = (by_a_link and _BY_A_LINK.get(predicate)) or _HAPPENED.get(predicate)
    if form is not None and len(names) >= form.count("{"):
        happened = form.format(*names)
    else:
        happened = f"{charge.name}{f' ({_joined(names)})' if names and not charge.name.startswith('(') else ''}"
    told = [happened]
    if charge.step is not None:
        last = charge.last_step
        told[0] += f" at step {charge.step}" if last is None else f" at steps {charge.step} to {last}"
    if charge.force is not None:
        when = "" if charge.peak is None or charge.last_step is None else f" at step {charge.peak[0]}"
        told.append(f"{charge.force:.1f} N{when}")
    if charge.text:
        told.append(charge.text)
    return ", ".join(told)


def _names(charge: Charge) -> tuple[str, ...]:
    if charge.bodies:
        return charge.bodies
    words = charge.name.strip("() ").split()[1:]
    return tuple(words) if charge.name.startswith("(") else (() if charge.by is None else (charge.by,))


def _joined(names: Sequence[str]) -> str:
    return " and ".join(names[:_NAMED])


def largest(charges: Sequence[Charge], account: str | None = None) -> list[Charge]:
    """An account's charges that cost something, the largest first; None: the headline's."""
    account = next(iter(accounts_of(charges)), "") if account is None else account
    found = [charge for charge in of_account(charges, account) if charge.amount]
    return sorted(found, key=lambda charge: -charge.amount)


def account_text(account: str) -> str:
    """An account's name; of a suite's own world, which has none, nothing."""
    return f" ({account})" if account else ""


def cost_lines(charges: Sequence[Charge]) -> list[str]:
    """What an episode was charged by its headline account, the largest charges first; nothing where it cost nothing."""
    found = largest(charges)
    if not found:
        return []
    total = cumulative(charges, found[0].account)
    assert total is not None
    lines = [f"  cost {amount_text(total)}{account_text(found[0].account)}:"]
    lines += [f"    {amount_text(charge.amount):>5}  {charge_text(charge)}" for charge in found[:MOST_LINES]]
    return [
        *lines,
        *([f"    and {counted(len(found) - MOST_LINES, 'more charge')}"] if len(found) > MOST_LINES else []),
    ]


def over_text(charges: Sequence[Charge], most: float, account: str, unavoidable: float = 0.0) -> str:
    """Why an episode's cost by one account is more than it may be; empty: it is not.

    Args:
        charges: of the episode.
        most: what it may cost.
        account: by whose rules.
        unavoidable: what an arm that does nothing is charged in its task, which is not counted.
    """
    total = cumulative(charges, account)
    # But for rounding: a charge is a tenth at least.
    if total is None or total - unavoidable <= most + 1e-9:
        return ""
    found = largest(charges, account)
    without = f" ({amount_text(total)} less {amount_text(unavoidable)}, which is unavoidable)" if unavoidable else ""
    cost = f"cost {amount_text(total - unavoidable)}{account_text(account)}{without}"
    cost = f"{cost}, more than --vla-max-cost={amount_text(most)}"
    return f"{cost}: {'; '.join(map(charge_text, found[:MOST_LINES]))}"
