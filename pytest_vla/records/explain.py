"""A record in a few lines, for a person."""

from collections.abc import Iterable, Sequence

from pytest_vla.plan.manifests import instruction_of
from pytest_vla.records.charges import cost_lines
from pytest_vla.records.record import CLIPPED, LARGEST_ACTION, Record
from pytest_vla.util.text import printable_lines

MUCH_CLIPPED = 0.5
"""The share of an episode's actions from which on it is said first that they were clipped."""

_ROUNDING = 1.001
"""Up to this size a value is one that only rounding took out of [-1, 1]."""


def explain(record: Record, command: str = "") -> str:
    """A record in a few lines, for a person: what happened comes first, since pytest shows the first line twice."""
    lines = [headline(record)]
    if record.variation:
        own = instruction_of(record.suite, record.task, record.task_level)
        lines.append(f"  varied: {record.variation['label']}")
        lines += [f"  told {record.instruction!r} instead of {own!r}"] if record.instruction != own else []
    if clipped_share(record):
        clipped = f"{record.metrics[CLIPPED]:.0f} of {record.steps}, the largest value {largest_action([record])}"
        lines.append(f"  actions clipped to [-1, 1]: {clipped}")
    lines += [f"  {'holds' if held else 'does not hold':13}  {literal}" for literal, held in record.held.items()]
    lines += cost_lines(record.costs)
    if record.eef_pos is not None:
        lines.append("  end effector at ({:.3f}, {:.3f}, {:.3f}) m".format(*record.eef_pos))
    if command:
        lines.append(f"  run it alone: {command}")
    return printable_lines("\n".join(lines))


def headline(record: Record) -> str:
    """How the episode ended, in a line."""
    steps = f"{record.steps} of {record.protocol['max_steps']} steps"
    if record.outcome == "failure":
        share = clipped_share(record)
        return f"not done after {steps}" + (f", {share:.0%} of actions clipped" if share >= MUCH_CLIPPED else "")
    if record.reason is None:
        return f"{record.outcome} after {steps}"
    return printable_lines(f"{record.outcome} {record.reason} after {steps}: {record.message}")


def clipped_share(record: Record) -> float:
    """Which share of the episode's actions, 0..1, had values outside of [-1, 1] by more than rounding."""
    # Records of earlier versions do not say how large values were.
    if not record.steps or record.metrics.get(LARGEST_ACTION, 0.0) <= _ROUNDING:
        return 0.0
    return record.metrics.get(CLIPPED, 0.0) / record.steps


def largest_action(records: Iterable[Record]) -> str:
    """The size of the largest value of their clipped actions, in words."""
    return f"{max(record.metrics.get(LARGEST_ACTION, 0.0) for record in records):.3g}"


def clipped_note(records: Sequence[Record]) -> str:
    """What a run's summary says of actions that were clipped; empty where in no episode many were."""
    clipped = [record for record in records if clipped_share(record) >= MUCH_CLIPPED]
    if not clipped:
        return ""
    share = sum(record.metrics[CLIPPED] for record in clipped) / sum(record.steps for record in clipped)
    return (
        f"{share:.0%} of actions clipped to [-1, 1] in {len(clipped)} of {len(records)} episodes, the largest value "
        f"{largest_action(clipped)}: `pytest-vla check-policy` looks at what a policy answers"
    )
