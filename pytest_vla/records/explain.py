"""Short descriptions of records for people: one episode, its charges, and notes about a run."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import JOINT
from pytest_vla.plan.costs import Charge, accounts_of, cumulative, of_account, predicate_of
from pytest_vla.plan.manifests import instruction_of, load_suite, suite_names
from pytest_vla.plan.premises import defects, episodes_text, known_broken, thrown, thrown_by_default
from pytest_vla.plan.task import Task
from pytest_vla.records.record import CLIPPED, DRIFT, FIRST_SUCCESS, LARGEST_ACTION, LARGEST_DRIFT, Record
from pytest_vla.util.text import counted, printable_lines
from pytest_vla.versions import DEFAULT

# Descriptions of an episode's charges.

MOST_LINES = 5

# Texts by predicate or rule, with up to two names.
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
# Texts by predicate if the second name is a link of the arm.
_BY_A_LINK = {
    "checkgrippercontact": "{1} touched {0}",
    "checkgripperdistance": "{1} came close to {0}",
    "checkgripperdist": "{1} came close to {0}",
}
_LINKS = "robot0_"
_NAMED = 2


def amount_text(amount: float) -> str:
    """Return a cost as a short text."""
    return f"{amount:.6g}"


def charge_text(charge: Charge) -> str:
    """Describe a charge without its amount: ``robot0_link5 touched bottle_1 at steps 24 to 45, 62.2 N``."""
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
    """Return an account's charges with an amount, the largest first; by default the headline account's."""
    account = next(iter(accounts_of(charges)), "") if account is None else account
    found = [charge for charge in of_account(charges, account) if charge.amount]
    return sorted(found, key=lambda charge: -charge.amount)


def account_text(account: str) -> str:
    """Return an account's name in brackets, or an empty text for a suite's own world, whose account has no name."""
    return f" ({account})" if account else ""


def cost_lines(charges: Sequence[Charge]) -> list[str]:
    """Return lines on an episode's charges by its headline account, the largest first; empty if it cost nothing."""
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
    """Return why an episode's cost by one account exceeds the limit, or an empty text if it does not.

    Args:
        charges: the episode's charges.
        most: the limit.
        account: the account whose rules apply.
        unavoidable: the cost of an idle arm in this task, which is subtracted.
    """
    total = cumulative(charges, account)
    # The tolerance is for rounding: a charge is at least a tenth.
    if total is None or total - unavoidable <= most + 1e-9:
        return ""
    found = largest(charges, account)
    without = f" ({amount_text(total)} less {amount_text(unavoidable)}, which is unavoidable)" if unavoidable else ""
    cost = f"cost {amount_text(total - unavoidable)}{account_text(account)}{without}"
    cost = f"{cost}, more than --vla-max-cost={amount_text(most)}"
    return f"{cost}: {'; '.join(map(charge_text, found[:MOST_LINES]))}"


MUCH_CLIPPED = 0.5
"""The share of clipped actions from which on the headline reports them."""

_ROUNDING = 1.001
"""Values up to this magnitude are outside of [-1, 1] only by rounding."""


def explain(record: Record, command: str = "") -> str:
    """Describe a record in a few lines; the outcome comes first, since pytest shows the first line twice."""
    lines = [headline(record)]
    if record.variation:
        own = instruction_of(record.suite, record.task, record.task_level)
        lines.append(f"  varied: {record.variation['label']}")
        lines += [f"  instruction {record.instruction!r} instead of {own!r}"] if record.instruction != own else []
    if clipped_share(record):
        clipped = f"{record.metrics[CLIPPED]:.0f} of {record.steps}, the largest value {largest_action([record])}"
        lines.append(f"  actions clipped to [-1, 1]: {clipped}")
    lines += [f"  {'holds' if held else 'does not hold':13}  {literal}" for literal, held in record.held.items()]
    if record.outcome == "failure" and "success" in record.protocol:
        first = record.metrics.get(FIRST_SUCCESS)
        held = "never held" if first is None else f"held first at step {first:.0f}"
        lines.append(f"  success asked for is {record.protocol['success']}; the goal {held}")
    lines += cost_lines(record.costs)
    if DRIFT in record.metrics:
        drift, largest = (record.metrics[name] for name in (DRIFT, LARGEST_DRIFT))
        lines.append(f"  the end effector drifted {drift:.3g} mm from the recorded states, {largest:.3g} mm at most")
    if record.eef_pos is not None:
        lines.append("  end effector at ({:.3f}, {:.3f}, {:.3f}) m".format(*record.eef_pos))
    if command:
        lines.append(f"  run it alone: {command}")
    return printable_lines("\n".join(lines))


def headline(record: Record) -> str:
    """Describe the episode's outcome in one line."""
    steps = f"{record.steps} of {record.protocol['max_steps']} steps"
    if record.outcome == "failure":
        share = clipped_share(record)
        return f"not done after {steps}" + (f", {share:.0%} of actions clipped" if share >= MUCH_CLIPPED else "")
    if record.reason is None:
        return f"{record.outcome} after {steps}"
    return printable_lines(f"{record.outcome} {record.reason} after {steps}: {record.message}")


def clipped_share(record: Record) -> float:
    """Return the share of the episode's actions, 0..1, with values outside of [-1, 1] by more than rounding."""
    # Records of earlier versions lack the largest value.
    if not record.steps or record.metrics.get(LARGEST_ACTION, 0.0) <= _ROUNDING:
        return 0.0
    return record.metrics.get(CLIPPED, 0.0) / record.steps


def largest_action(records: Iterable[Record]) -> str:
    """Return the magnitude of the largest clipped value, as a text."""
    return f"{max(record.metrics.get(LARGEST_ACTION, 0.0) for record in records):.3g}"


def clipped_note(records: Sequence[Record]) -> str:
    """Return the summary's note about clipped actions, or an empty text if no episode had many."""
    clipped = [record for record in records if clipped_share(record) >= MUCH_CLIPPED]
    if not clipped:
        return ""
    share = sum(record.metrics[CLIPPED] for record in clipped) / sum(record.steps for record in clipped)
    return (
        f"{share:.0%} of actions clipped to [-1, 1] in {len(clipped)} of {len(records)} episodes, the largest value "
        f"{largest_action(clipped)}: check the policy's answers by `pytest-vla check-policy`"
    )


# Notes about records that rest on a false premise.

_LAYOUT = frozenset(("layout", "pro"))
"""Dimensions of variations that change the layout."""


def notes_after(records: Iterable[Record]) -> tuple[str, ...]:
    """Return a line for each known defect of the benchmark or the simulator that affects these records.

    Args:
        records: the records that a report covers; varied layouts and suites that are not installed are skipped.
    """
    number: Counter[str] = Counter()
    for record in records:
        task, init_state = _task_of(record), record.seeds.get("init_state")
        if task is None or init_state is None or record.outcome not in ("success", "failure"):
            continue
        mujoco = str(record.provenance.get("mujoco"))
        flies, always = set(thrown(task, init_state, mujoco)), thrown_by_default(task, init_state)
        number["false"] += bool(defects(task, init_state))
        number["thrown"] += bool(flies & always)
        number["broken"] += bool(known_broken(task, init_state, mujoco) or flies - always)
    lines = []
    if number["broken"]:
        lines.append(
            f"{episodes_text(number['broken'])} started differently than under mujoco {DEFAULT['mujoco']}: objects are "
            "elsewhere, or are thrown about; published numbers do not include such scenes"
        )
    if number["false"]:
        lines.append(
            f"{episodes_text(number['false'])} of tasks whose file states a position that, by upstream's own rule, no "
            "version of MuJoCo reproduces: a known defect of the benchmark"
        )
    if number["thrown"]:
        lines.append(
            f"{episodes_text(number['thrown'])} from init states in which objects overlap and are thrown apart: a "
            "known defect of the benchmark"
        )
    return tuple(lines)


def _task_of(record: Record) -> Task | None:
    """Return the task of a record, or None if its layout is varied or its suite cannot be loaded here."""
    moved = _LAYOUT.intersection(str(record.variation.get("dimension")).split(JOINT))
    return None if moved else _tasks(record.suite).get(record.task_key)


@cache
def _tasks(suite: str) -> Mapping[str, Task]:
    try:
        return {task.key: task for task in load_suite(suite).tasks} if suite in suite_names() else {}
    except VlaError:
        # Its simulator is not installed here; what it was is in the records.
        return {}
