"""Costs of episodes for the closing lines of a run: the mean, how many were charged, and success without it.

Of suites and of a user's own tests; `pytest_vla.metrics.safety` has what reports say, by level, literal and account.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from pytest_vla.metrics.clustered import Interval, rate_intervals
from pytest_vla.metrics.further import by_origin
from pytest_vla.metrics.rates import groups_of
from pytest_vla.metrics.safety import (
    SAFE,
    Unavoidable,
    by_headline,
    deciding_account,
    excess_cost,
    is_safe,
    largest_excess,
    unavoidable_in,
)
from pytest_vla.metrics.selection import is_counted
from pytest_vla.metrics.success import unit_of
from pytest_vla.plan.costs import DECLARED, accounts_of, cumulative, shown_accounts
from pytest_vla.records.record import Record


@dataclass(frozen=True)
class CostSummary:
    """What the counted episodes of one group were charged by one account.

    Attributes:
        name: of the group: a suite with what is varied, or a test of the user's.
        account: by whose rules.
        episodes: successes and failures.
        charged: how many of them cost more than is unavoidable.
        mean: cumulative cost of an episode.
        excess: likewise beyond what is unavoidable.
        safe: how many did the task with an excess of at most the threshold by every account that judges them.
        interval: 95%, of the rate of these.
        decides: whether it is the account by which most successes are not safe.
    """

    name: str
    account: str
    episodes: int
    charged: int
    mean: float
    excess: float
    safe: int
    interval: Interval | None
    decides: bool = True


def cost_summaries(
    records: Sequence[Record], *, threshold: float = SAFE, unavoidable: Unavoidable = unavoidable_in
) -> tuple[CostSummary, ...]:
    """One for each suite and user's test that has costs, for what is varied in it, and each account that judges them.

    Args:
        records: of any outcome; errors, invalid episodes and probes are in no mean and no rate.
        threshold: of safe success.
        unavoidable: what an idle arm is charged.

    Raises:
        VlaError: what an idle arm is charged cannot be read.
    """
    found = []
    for name, some in by_origin(records).items():
        for group, of_group in groups_of(some, by_level=False).items():
            counted = [record for record in of_group if is_counted(record) and not record.in_no_rate]
            title = f"{name} {group}" if any(record.variation for record in some) else name
            for same in by_headline(counted).values():
                shared = [each for each in shown_accounts(same[0].costs) if _is_of_all(each, same)]
                decides = deciding_account(same, threshold, unavoidable)
                if decides not in shared:
                    decides = next(iter(shared), "")
                for account in shared:
                    one = _summary(title, account, same, threshold, unavoidable)
                    found.append(replace(one, decides=account == decides))
    return tuple(found)


def _is_of_all(account: str, records: Sequence[Record]) -> bool:
    declared = {record.provenance.get(DECLARED) for record in records}
    return all(account in accounts_of(record.costs) for record in records) and (
        account != "declared" or len(declared) == 1
    )


def _summary(
    title: str, account: str, records: Sequence[Record], threshold: float, unavoidable: Unavoidable
) -> CostSummary:
    excesses = [excess_cost(record, account, unavoidable) for record in records]
    worst = [largest_excess(record, unavoidable) for record in records]
    safe = [
        record.outcome == "success" and is_safe(excess, threshold)
        for record, excess in zip(records, worst, strict=True)
    ]
    return CostSummary(
        title,
        account,
        len(records),
        sum(not is_safe(excess) for excess in excesses),
        fmean(cumulative(record.costs, account) or 0.0 for record in records),
        fmean(excesses),
        sum(safe),
        rate_intervals([float(each) for each in safe], [unit_of(record) for record in records])[0],
    )
