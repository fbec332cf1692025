"""Cumulative cost beside success, for a terminal."""

from collections.abc import Iterator, Sequence

from pytest_vla.metrics.clustered import CONFIDENCE
from pytest_vla.metrics.listening import Estimate, Share
from pytest_vla.metrics.safety import Safety, SafetyRow
from pytest_vla.reports.tables import aligned, notes, printed, wrapped

ACCOUNTS = {
    "paper": "by the paper's rules: every literal; what is terminal once, also without success",
    "upstream": "by its code, bug for bug, as published numbers are: the first expression only, terminal only on "
    "success",
    "declared": "by your --vla-cost",
    "collisions": "unintended contacts of the arm and of what it holds, impacts, and what was displaced",
    "": "as the suite's own world says",
}
"""What each account is, in words."""

_MOST_LITERALS = 10


def safety_lines(found: Sequence[Safety], threshold: float, full: bool) -> Iterator[str]:
    """The section, line by line. Control characters are taken out.

    Args:
        found: of `pytest_vla.metrics.safety`.
        threshold: the excess up to which a success is safe.
        full: whether all literals are told.
    """
    yield from printed(_lines(found, threshold, full))


def _lines(found: Sequence[Safety], threshold: float, full: bool) -> Iterator[str]:
    yield from wrapped(
        "Safety: mean cumulative cost (CC) beside the success rate (SR), over successes and failures that have a "
        "ledger. Safe: success whose cost beyond what an idle arm is charged in the same steps is at most "
        f"{threshold:g}. In brackets: {CONFIDENCE:.0%} intervals over these tasks"
    )
    accounts = dict.fromkeys(account for model in found for row in model.rows for account in row.costs)
    for account in accounts:
        yield from wrapped(f"CC {account or '(own)'}: {ACCOUNTS.get(account, 'of a later version')}")
    for model in found:
        yield ""
        yield f"=== {model.model} ==="
        yield from notes(model.left_out)
        yield from _table(model.rows)
        yield from _literals(model.rows, full)


def _table(rows: Sequence[SafetyRow]) -> Iterator[str]:
    accounts = list(dict.fromkeys(account for row in rows for account in row.costs))
    # What is safe by one account need not be by another: the one that decides is named, once if it is the same.
    deciding = {row.safe_by for row in rows}
    differ = len(deciding) > 1
    head = ("suite", "level", "variation", "episodes", "SR", *(f"CC {account or '(own)'}" for account in accounts))
    head = (*head, "idle", "safe" if differ or deciding <= {""} else f"safe ({min(deciding)})")
    cells = [
        (
            row.suite,
            row.level,
            row.group,
            str(row.success.of),
            share_text(row.success),
            *(estimate_text(row.costs[account]) if account in row.costs else "-" for account in accounts),
            f"{row.unavoidable:.4g}" if row.unavoidable else "",
            share_text(row.safe) + (f" ({row.safe_by or 'own'})" if differ else ""),
        )
        for row in rows
    ]
    needed = {0, 3, 4, len(head) - 1, *range(5, 5 + len(accounts))}
    kept = [place for place in range(len(head)) if place in needed or any(row[place] for row in cells)]
    yield from aligned([[row[place] for place in kept] for row in (head, *cells)], sum(place < 3 for place in kept))


def share_text(share: Share) -> str:
    """``80.0% [56.6%, 100.0%]``."""
    told = f"{share.count / share.of:.1%}"
    return told if share.interval is None else f"{told} [{share.interval[0]:.1%}, {share.interval[1]:.1%}]"


def estimate_text(estimate: Estimate) -> str:
    """``6.6 [1.2, 12]``."""
    told = f"{estimate.value:.4g}"
    return told if estimate.interval is None else "{} [{:.4g}, {:.4g}]".format(told, *estimate.interval)


def _literals(rows: Sequence[SafetyRow], full: bool) -> Iterator[str]:
    """The dearest literals of each row, with what they came to."""
    found = [(row, literal) for row in rows for literal in row.literals if literal.mean > 0]
    if not found:
        return
    yield ""
    found.sort(key=lambda each: -each[1].mean * each[1].episodes)
    shown = found if full else found[:_MOST_LITERALS]
    head = ("charged", "in", "episodes", "cost an episode", "steps", "largest force")
    cells = [
        (
            literal.name,
            row.title,
            f"{literal.charged}/{literal.episodes}",
            f"{literal.mean:.4g}",
            f"{literal.steps:.4g}",
            "" if literal.force is None else f"{literal.force:.1f} N",
        )
        for row, literal in shown
    ]
    kept = [place for place in range(len(head)) if place < 5 or any(row[place] for row in cells)]
    yield from aligned([[row[place] for place in kept] for row in (head, *cells)], 2)
    if len(shown) < len(found):
        yield from notes([f"{len(found) - len(shown)} more literals were charged; --full has all"])
