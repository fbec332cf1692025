"""A record in a few lines, for a person."""

from pytest_vla.plan.task import language_of
from pytest_vla.records.record import Record


def explain(record: Record, command: str = "") -> str:
    """A record in a few lines, for a person: what happened comes first, since pytest shows the first line twice."""
    lines = [headline(record)]
    if record.variation:
        own = language_of(record.task)
        lines.append(f"  varied: {record.variation['label']}")
        lines += [f"  told {record.instruction!r} instead of {own!r}"] if record.instruction != own else []
    lines += [f"  {'holds' if held else 'does not hold':13}  {literal}" for literal, held in record.held.items()]
    if record.eef_pos is not None:
        lines.append("  end effector at ({:.3f}, {:.3f}, {:.3f}) m".format(*record.eef_pos))
    if command:
        lines.append(f"  run it alone: {command}")
    return "\n".join(lines)


def headline(record: Record) -> str:
    """How the episode ended, in a line."""
    steps = f"{record.steps} of {record.protocol['max_steps']} steps"
    if record.outcome == "failure":
        return f"not done after {steps}"
    if record.reason is None:
        return f"{record.outcome} after {steps}"
    return f"{record.outcome} {record.reason} after {steps}: {record.message}"
