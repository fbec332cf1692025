"""When a group of a sequential gate is decided: by its longest complete prefix of rounds, never by what ended first.

All groups are looked at after each round, as if they stood still until the round of every group that goes on is
complete. A group stops at the first round after which what is asked for is settled (`STOPS`), and keeps the p values
that it has there; Holm's correction among groups is valid of p values that stopped (`pytest_vla.gate.wealth`). It is
always made among all groups that were agreed. What ends beyond that, such as episodes that were on their way, changes
nothing; nor does it matter in which order episodes end.

Errors and invalid episodes hide nothing: what they could have been is taken for both, all failures and all successes
(of the baseline's side the other way round), and a group stops only where both say the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pytest_vla.gate.choices import BEYOND, STOPS, Verdict
from pytest_vla.gate.evidence import AS_THEY_ARE, BEST, WORST, Fills
from pytest_vla.gate.order import Order, Unit
from pytest_vla.gate.verdicts import Terms, verdict_of
from pytest_vla.gate.wealth import Floats, running_p
from pytest_vla.metrics.paired import holm

COUNTED = ("success", "failure")

Outcomes = Mapping[str, str]
"""By case how it ended: ``success``, ``failure``, ``error`` or ``invalid``; what has not ended stands in none."""


@dataclass(frozen=True)
class Standing:
    """Where a group stands.

    Attributes:
        verdict: after `rounds`.
        is_decided: whether the group stopped there.
        rounds: complete ones that are looked at.
        of: rounds of the group in all.
        p_worse: that success did not fall, with Holm's correction among the groups.
        p_better: that it did not rise, likewise.
        p_no_worse: that it fell by the margin or more.
        p_beyond: that it did not fall by more than the margin, with Holm's correction.
        reason: why, in a line; empty where the numbers say it.
    """

    verdict: Verdict
    is_decided: bool
    rounds: int
    of: int
    p_worse: float
    p_better: float
    p_no_worse: float
    p_beyond: float
    reason: str


class _Ps(NamedTuple):
    """The p values of a group, before its first round and after each complete one."""

    worse: Floats
    beyond: Floats
    better: Floats
    no_worse: Floats


def standings(order: Order, baseline: Outcomes, new: Outcomes, terms: Terms, required: str) -> dict[str, Standing]:
    """Where each group stands, by name.

    Args:
        order: that was agreed.
        baseline: of all cases of the order.
        new: of the run, so far.
        terms: margin and alpha.
        required: a key of `STOPS`.
    """
    complete = {group: complete_rounds(order, group, new) for group in order.rounds}
    ended = [case for group, rounds in complete.items() for case in order.cases(group, rounds)]
    is_whole = all(baseline[case] in COUNTED and new[case] in COUNTED for case in ended)
    scenarios = {
        fills: {
            group: _ps(differences_of(order, group, rounds, baseline, new, fills), terms)
            for group, rounds in complete.items()
        }
        for fills in ((AS_THEY_ARE,) if is_whole else (AS_THEY_ARE, WORST, BEST))
    }
    return _decided(
        {group: len(rounds) for group, rounds in order.rounds.items()}, complete, scenarios, terms, required
    )


def complete_rounds(order: Order, group: str, new: Outcomes) -> int:
    """How many rounds of a group have ended, before the first that has not."""
    rounds = order.rounds[group]
    return next(
        (n for n, each in enumerate(rounds) if any(case not in new for unit in each for case in unit)), len(rounds)
    )


def differences_of(order: Order, group: str, rounds: int, baseline: Outcomes, new: Outcomes, fills: Fills) -> Floats:
    """The mean differences (rounds, tasks) of a group's first rounds; NaN: in a unit nothing was measured."""
    some = order.rounds[group][:rounds]
    found = np.array([[_mean_difference(unit, baseline, new, fills) for unit in each] for each in some], float)
    return found.reshape(rounds, len(some[0]) if some else 1)


def _mean_difference(unit: Unit, baseline: Outcomes, new: Outcomes, fills: Fills) -> float:
    found = []
    for case in unit:
        ours, theirs = _filled(new[case], fills[0]), _filled(baseline[case], fills[1])
        if ours is not None and theirs is not None:
            found.append(ours - theirs)
    return sum(found) / len(found) if found else np.nan


def _filled(outcome: str, fill: int | None) -> int | None:
    return int(outcome == "success") if outcome in COUNTED else fill


def _ps(differences: Floats, terms: Terms) -> _Ps:
    margin = terms.margin / 100
    before = np.ones(1)
    if not len(differences):
        return _Ps(before, before, before, before)
    no_worse = running_p(differences, "no worse", margin) if margin < 1.0 else np.zeros(len(differences))
    beyond = running_p(differences, "regression", margin) if margin < 1.0 else np.ones(len(differences))
    worse, better = running_p(differences, "regression"), running_p(differences, "better")
    return _Ps(*(np.concatenate([before, each]) for each in (worse, beyond, better, no_worse)))


def _decided(
    of: Mapping[str, int],
    complete: Mapping[str, int],
    scenarios: Mapping[Fills, Mapping[str, _Ps]],
    terms: Terms,
    required: str,
) -> dict[str, Standing]:
    found: dict[str, Standing] = {}
    stopped: dict[str, int] = {}
    for number in range(max(of.values(), default=0) + 1):
        going_on = [group for group in of if group not in stopped]
        if any(complete[group] < min(number, of[group]) for group in going_on):
            break
        at = {group: stopped.get(group, min(number, of[group])) for group in of}
        verdicts = {fills: _verdicts(ps, at, terms) for fills, ps in scenarios.items()}
        for group in going_on:
            found[group] = _standing(group, at[group], of[group], verdicts, scenarios, required)
        stopped |= {group: at[group] for group in going_on if found[group].is_decided}
    return found


class _Said(NamedTuple):
    """The verdict on a group, and its p values with Holm's correction."""

    verdict: Verdict
    worse: float
    beyond: float
    better: float


def _verdicts(ps: Mapping[str, _Ps], at: Mapping[str, int], terms: Terms) -> dict[str, _Said]:
    """Judge each group at its round."""
    worse, beyond, better = (
        holm([float(getattr(ps[group], way)[rounds]) for group, rounds in at.items()])
        for way in ("worse", "beyond", "better")
    )
    found = {}
    for group, *p in zip(at, worse, beyond, better, strict=True):
        p_regression = p[1] if terms.regression == BEYOND else p[0]
        found[group] = _Said(verdict_of(p_regression, p[2], float(ps[group].no_worse[at[group]]), terms), *p)
    return found


def _standing(
    group: str,
    rounds: int,
    of: int,
    verdicts: Mapping[Fills, Mapping[str, _Said]],
    scenarios: Mapping[Fills, Mapping[str, _Ps]],
    required: str,
) -> Standing:
    verdict, p_worse, p_beyond, p_better = verdicts[AS_THEY_ARE][group]
    said = {fills: each[group].verdict for fills, each in verdicts.items()}
    reason = ""
    if {*said.values()} != {verdict}:
        reason = f"errors: {said[WORST]} if all that broke had failed, {said[BEST]} if all of it had succeeded"
        verdict = "undecided"
    p_no_worse = float(scenarios[AS_THEY_ARE][group].no_worse[rounds])
    is_decided = verdict in STOPS[required]
    return Standing(verdict, is_decided, rounds, of, p_worse, p_better, p_no_worse, p_beyond, reason)
