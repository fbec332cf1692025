"""What episodes cost in all, beyond what is unavoidable, and success without it."""

import dataclasses

from pytest_vla.metrics.safety import cost_summaries, deciding_account, safety
from pytest_vla.plan.costs import DECLARED, Charge
from pytest_vla.records.record import Record
from pytest_vla.reports.terminal import cost_notes
from tests.support.records import record_of


def costly(seed: int, outcome: str, *amounts: float, account: str = "paper") -> Record:
    charges = [Charge("touch", amount, step, account=account) for step, amount in enumerate(amounts, 1)]
    return record_of(seed, outcome, costs=(Charge("fall", 0.0, 0, account=account), *charges))


def test_costs_by_other_rules_are_in_no_mean_together() -> None:
    mixed = [costly(0, "success", 3.0), costly(1, "success", account="collisions"), record_of(2, "success")]
    found = {each.account: (each.episodes, each.mean, each.safe) for each in cost_summaries(mixed)}
    assert found == {"paper": (1, 3.0, 0), "collisions": (1, 0.0, 1)}


def test_every_account_that_judges_has_a_line_and_a_say() -> None:
    """A harmless rule of one's own hides no collision, and a task's own costs hide no rule."""
    for account in ("paper", "collisions"):
        charges = (Charge("never", 0.0, account="declared"), Charge("hit", 5.0, 3, account=account))
        found = cost_summaries([record_of(0, "success", costs=charges)])
        assert {(each.account, each.mean, each.charged, each.safe) for each in found} == {
            ("declared", 0.0, 0, 0), (account, 5.0, 1, 0)
        }  # fmt: skip


def test_safe_success_stands_on_the_account_that_decides_it() -> None:
    """Two successes are safe by the task's own costs, and one of them hit something."""
    ledgers = [(0.0, 0.0), (0.0, 7.0), (3.0, 0.0), (0.0, 2.0)]
    records = [
        record_of(
            seed,
            "success",
            costs=(Charge("own", own, 1, account="declared"), Charge("hit", hit, 3, account="collisions")),
        )
        for seed, (own, hit) in enumerate(ledgers)
    ]
    found = {each.account: each for each in cost_summaries(records)}
    assert {account: (each.safe, each.decides) for account, each in found.items()} == {
        "declared": (1, False),
        "collisions": (1, True),
    }
    assert deciding_account(records) == "collisions"
    (note, other) = sorted(cost_notes(records), key=lambda text: "safe success" not in text)
    assert "(collisions)" in note
    assert "safe success 1/4" in note
    assert "safe success" not in other
    (model,) = safety(records)
    assert [row.safe_by for row in model.rows] == ["collisions"]
    # A failure is not safe whatever it costs, and decides nothing.
    assert deciding_account([costly(0, "failure", 9.0)]) == "paper"


def test_means_and_safe_success_are_over_what_counts() -> None:
    records = [
        costly(0, "success"),
        costly(1, "success", 3.0, 1.0),
        costly(2, "failure", 2.0),
        costly(3, "error", 100.0),
        costly(4, "invalid"),
    ]
    (summary,) = cost_summaries(records)
    assert (summary.name, summary.account, summary.episodes, summary.charged) == (records[0].suite, "paper", 3, 2)
    assert (summary.mean, summary.excess) == (2.0, 2.0)
    assert (summary.safe, summary.episodes) == (1, 3)
    assert summary.interval is not None
    (tolerant,) = cost_summaries(records, threshold=4.0)
    assert tolerant.safe == 2


def test_what_an_idle_arm_is_charged_is_no_excess() -> None:
    records = [costly(0, "success", 3.0), costly(1, "success", 5.0)]
    (summary,) = cost_summaries(records, unavoidable=lambda record, account: 3.0)
    assert (summary.mean, summary.excess, summary.charged, summary.safe) == (4.0, 1.0, 1, 1)


def test_no_mean_is_over_costs_that_were_declared_otherwise() -> None:
    one, other = costly(0, "success", account="declared"), costly(1, "success", account="declared")
    other = dataclasses.replace(other, provenance={**other.provenance, DECLARED: "abc"})
    assert [each.episodes for each in cost_summaries([one])] == [1]
    assert [each.episodes for each in cost_summaries([one, other])] == [1, 1]
