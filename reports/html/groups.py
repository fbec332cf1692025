"""The groups of a judgement as a table of a page."""

from pytest_vla.gate.choices import BEYOND
from pytest_vla.gate.verdicts import Group, Judgement
from pytest_vla.reports.blocks import Table, table_of
from pytest_vla.reports.html.written import NONE, p_text

MOST_FLIPPED = 300
"""Rows of cases that flipped; more are said to be there."""

_FLIPS = ("lost", "gained")


def groups_table(judgement: Judgement, one: str, other: str) -> Table:
    """The groups of a judgement, a row each; where no case is in both there are none that flipped.

    Args:
        judgement: of a run.
        one: what it is compared with.
        other: the run.
    """
    flips = _FLIPS if judgement.is_paired else ()
    head = (
        "group",
        f"{one}, %",
        f"{other}, %",
        "points",
        "bounds",
        *flips,
        "adj. p regression",
        "adj. p better",
        "verdict",
    )
    of = "cases that both have" if judgement.is_paired else "tasks that both have, from other seeds"
    caption = f"Success of the {of}; bounds each way at {judgement.terms.alpha * 100:g}% over these tasks"
    rows = tuple(_row(group, judgement) for group in judgement.groups)
    return table_of(caption, head, rows, 1, frozenset({len(head) - 1}))


def _row(group: Group, judgement: Judgement) -> tuple[str, ...]:
    evidence, is_paired = group.evidence, judgement.is_paired
    if evidence is None:
        return (group.name, *[NONE] * (8 if is_paired else 6), group.verdict)
    bounds = evidence.bounds
    flips = (f"{evidence.lost}/{evidence.pairs}", f"{evidence.gained}/{evidence.pairs}") if is_paired else ()
    return (
        group.name,
        f"{100 * evidence.baseline_rate:.1f}",
        f"{100 * evidence.new_rate:.1f}",
        f"{100 * bounds.value:+.1f}",
        f"[{100 * bounds.lower:+.1f}, {100 * bounds.upper:+.1f}]",
        *flips,
        p_text(group.p_beyond if judgement.terms.regression == BEYOND else group.p_worse),
        p_text(group.p_better),
        group.verdict,
    )
