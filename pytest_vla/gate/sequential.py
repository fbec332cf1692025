"""The sequential gate: judge a run by its complete rounds, in the same way while it runs and afterwards.

A run that its outcomes stopped is judged by running p values alone (`pytest_vla.gate.wealth`): a test with a fixed
number of episodes errs more often than its alpha if it is repeated after every round.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pytest_vla.errors import VlaError
from pytest_vla.gate.baseline import Baseline
from pytest_vla.gate.bounded import Bounds
from pytest_vla.gate.choices import BEYOND, SEQUENTIAL, STOPS, Verdict
from pytest_vla.gate.comparable import ComparableEpisodes, Pair, matched, paired
from pytest_vla.gate.evidence import AS_THEY_ARE, BEST, WORST, Evidence, Fills, sample_of
from pytest_vla.gate.manifest import Manifest, planned_baseline
from pytest_vla.gate.order import Order, Unit, draw_order, generator_of, order_digest, planned_of
from pytest_vla.gate.verdicts import (
    NOT_MEASURED,
    GateGroup,
    GateJudgement,
    GroupProgress,
    Terms,
    errors_text,
    flipped_cases,
    flips_of,
    is_loss_shown,
    not_judged_text,
    over_all,
    task_changes,
    uncounted_of,
    verdict_of,
)
from pytest_vla.gate.wealth import Floats, running_bounds, running_p
from pytest_vla.metrics.statistics import holm
from pytest_vla.plan.case import Case, parse_node_id
from pytest_vla.util.text import counted

# When a group of a sequential gate is decided: by its longest complete prefix of rounds, never by what ended first.
#
# All groups are looked at after each round, as if they stood still until the round of every group that goes on is
# complete. A group stops at the first round after which what is asked for is settled (`STOPS`), and keeps the p
# values that it has there; Holm's correction among groups is valid of p values that stopped
# (`pytest_vla.gate.wealth`). It is always made among all groups that were agreed. What ends beyond that, such as
# episodes that were on their way, changes nothing; nor does it matter in which order episodes end.
#
# Errors and invalid episodes hide nothing: what they could have been is taken for both, all failures and all
# successes (of the baseline's side the other way round), and a group stops only where both say the same.

COUNTED = ("success", "failure")

Outcomes = Mapping[str, str]
"""By case how it ended: ``success``, ``failure``, ``error`` or ``invalid``; what has not ended stands in none."""


@dataclass(frozen=True)
class GroupStatus:
    """The status of a group in a sequential gate.

    Attributes:
        verdict: after `rounds`.
        is_decided: whether the group stopped there.
        rounds: number of complete rounds that are judged.
        of: total number of the group's rounds.
        p_worse: p value of "success did not fall", with Holm's correction among the groups.
        p_better: p value of "it did not rise", with Holm's correction.
        p_no_worse: p value of "it fell by the margin or more".
        p_beyond: p value of "it did not fall by more than the margin", with Holm's correction.
        reason: the reason in a line; an empty text if the numbers show it.
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


def standings(order: Order, baseline: Outcomes, new: Outcomes, terms: Terms, required: str) -> dict[str, GroupStatus]:
    """Compute the status of each group, by name.

    Args:
        order: that was agreed.
        baseline: outcomes of all cases of the order.
        new: outcomes of the run so far.
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
    """Return how many rounds of a group have ended, before the first that has not."""
    rounds = order.rounds[group]
    return next(
        (n for n, each in enumerate(rounds) if any(case not in new for unit in each for case in unit)), len(rounds)
    )


def differences_of(order: Order, group: str, rounds: int, baseline: Outcomes, new: Outcomes, fills: Fills) -> Floats:
    """Compute the mean differences (rounds, tasks) of a group's first rounds, NaN for units without a measurement."""
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
) -> dict[str, GroupStatus]:
    found: dict[str, GroupStatus] = {}
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
) -> GroupStatus:
    verdict, p_worse, p_beyond, p_better = verdicts[AS_THEY_ARE][group]
    said = {fills: each[group].verdict for fills, each in verdicts.items()}
    reason = ""
    if {*said.values()} != {verdict}:
        reason = errors_text(said[WORST], said[BEST])
        verdict = "undecided"
    p_no_worse = float(scenarios[AS_THEY_ARE][group].no_worse[rounds])
    is_decided = verdict in STOPS[required]
    return GroupStatus(verdict, is_decided, rounds, of, p_worse, p_better, p_no_worse, p_beyond, reason)


AGREED_ALONE = "a run with a sequential gate can only be judged by its own gate plan"


def order_of(baseline: Baseline, cases: Iterable[Case], run_seed: int, by: Sequence[str]) -> Order:
    """Draw the order in which cases that are to run are judged.

    Args:
        baseline: with which they are compared.
        cases: all that are to run, in any order.
        run_seed: under which they run; the order is drawn from it too.
        by: labels of groups.
    """
    planned = planned_of(matched(baseline, planned_baseline(cases, run_seed)).pairs, by)
    return draw_order(planned, generator_of(run_seed, (each.case for each in planned)))


def agreed_order(manifest: Manifest, baseline: Baseline, cases: Iterable[Case]) -> Order:
    """Draw the order that a run agreed on again. Raises VlaError if it differs from the agreed one.

    Args:
        manifest: of a sequential run.
        baseline: the run's baseline, with the content that it had.
        cases: all of the run, in any order.
    """
    order = order_of(baseline, cases, manifest.run_seed, manifest.by)
    if order_digest(order) != manifest.order:
        raise VlaError(
            f"the planned order {manifest.order[:8]} is now {order_digest(order)[:8]}: {AGREED_ALONE}. Restore its "
            "baseline and cases, or start a new run"
        )
    return order


def cases_of(nodes: Iterable[str]) -> list[Case]:
    """Return the cases of items. Raises VlaError if one is a test of the user's own."""
    found = []
    for node in nodes:
        case = parse_node_id(node)
        if case is None:
            raise VlaError(
                f"--vla-gate=sequential: {node} is one of your own tests, and its assertions would be skipped: leave "
                "such tests out, or use --vla-gate=fixed"
            )
        found.append(case)
    return found


def judge_as_agreed(manifest: Manifest, baseline: Baseline, new: Baseline, nodes: Iterable[str]) -> GateJudgement:
    """Judge a run by its manifest.

    Args:
        manifest: of a sequential run.
        baseline: the run's baseline, with the content that it had.
        new: the run, as far as it has come.
        nodes: ids of all of its items with an episode.

    Raises:
        VlaError: the baseline or the cases differ from the agreed ones, or there is no common case.
    """
    terms = manifest.terms
    order = agreed_order(manifest, baseline, cases_of(nodes))
    return judge_in_order(baseline, new, terms, order, manifest.required)


def outcomes_of(baseline: Baseline, cases: Iterable[Case], run_seed: int) -> Outcomes:
    """Return the baseline's outcomes of cases that are to run, by case id."""
    pairs = matched(baseline, planned_baseline(cases, run_seed)).pairs
    return {pair.case: pair.baseline.outcome for pair in pairs}


def judge_in_order(baseline: Baseline, new: Baseline, terms: Terms, order: Order, required: str) -> GateJudgement:
    """Judge each group, and all groups together, by the rounds that are complete.

    Args:
        baseline: with which the run is compared.
        new: the run, as far as it has come.
        terms: that were agreed.
        order: that was agreed.
        required: a key of `pytest_vla.gate.choices.STOPS`, as agreed.

    Raises:
        VlaError: there is no common case.
    """
    found = paired(baseline, new)
    pairs = {pair.case: pair for pair in found.pairs}
    sides = [{case: getattr(pair, side).outcome for case, pair in pairs.items()} for side in ("baseline", "new")]
    places = standings(order, sides[0], sides[1], terms, required)
    groups = tuple(
        _group(name, order, places[name], pairs, sides, terms, found.agreement) for name in sorted(order.rounds)
    )
    groups = tuple(_or_not_judged(group, order, sides[0], terms) for group in groups)
    # What was skipped is told with its group.
    skipped = {case for name in order.rounds for case in order.all_cases(name)}
    left = tuple(key for key in found.agreement.only_baseline if key[0] not in skipped)
    agreement = replace(found.agreement, only_baseline=left)
    judged = {
        group.name: [pairs[case] for case in order.cases(group.name, places[group.name].rounds)]
        for group in groups
        if not group.refused
    }
    tasks = task_changes(judged)
    verdict = over_all([group.verdict for group in groups])
    return GateJudgement(verdict, groups, terms, True, agreement, tasks, flips_of(judged, tasks), SEQUENTIAL)


def decided_text(name: str, verdict: str, pairs: int, of: int) -> str:
    """Return the decision as text: ``tabletop[benign] is no worse after 60 of 200 pairs``."""
    said = f"{name} is {verdict}" if verdict in ("no worse", "better") else f"{verdict} of {name}"
    return f"{said} after {pairs} of {counted(of, 'pair')}"


def _group(
    name: str,
    order: Order,
    place: GroupStatus,
    pairs: dict[str, Pair],
    sides: Sequence[Outcomes],
    terms: Terms,
    agreement: ComparableEpisodes,
) -> GateGroup:
    cases = order.cases(name, place.rounds)
    judged = [pairs[case] for case in cases]
    progress = GroupProgress(
        place.is_decided, place.rounds, place.of, len(cases), order.pairs(name), len(order.rest[name])
    )
    uncounted = uncounted_of(judged)
    refused = agreement.of("refuses", [case for case in order.all_cases(name) if case in pairs])
    if refused:
        return GateGroup(name, "not comparable", "", None, None, None, uncounted, refused, progress=progress)
    evidence = _evidence(name, order, place, judged, sides, terms)
    lost, gained = (flipped_cases(judged, way) for way in (-1, 1))
    reason = place.reason
    if evidence is None:
        reason = reason or NOT_MEASURED
        return GateGroup(name, place.verdict, reason, None, None, None, uncounted, (), progress=progress)
    ps = place.p_worse, place.p_better
    group = GateGroup(name, place.verdict, reason, evidence, *ps, uncounted, (), lost, gained, progress)
    shown = is_loss_shown(place.p_worse, place.verdict, terms)
    return replace(group, p_beyond=place.p_beyond, shown_loss=shown)


def _or_not_judged(group: GateGroup, order: Order, baseline: Outcomes, terms: Terms) -> GateGroup:
    """Return the group as not judged, if it is undecided and no round could have shown the loss of everything."""
    if group.verdict != "undecided" or group.reason or group.evidence is None:
        return group
    if can_find_in_rounds(order, group.name, baseline, terms):
        return group
    reason = not_judged_text(sum(map(len, order.rounds[group.name])))
    return replace(group, is_judged=False, reason=reason)


def can_find_in_rounds(order: Order, name: str, baseline: Outcomes, terms: Terms) -> bool:
    """Whether a sequential gate would call it a regression if a group lost all that the baseline does in its rounds."""
    rounds = len(order.rounds[name])
    if any(case not in baseline for case in order.cases(name)):
        # What has not ended is not known here.
        return True
    failed = dict.fromkeys(order.cases(name, rounds), "failure")
    lost = differences_of(order, name, rounds, baseline, failed, AS_THEY_ARE)
    measured = lost[~np.isnan(lost)]
    if not measured.size or terms.beyond >= 1.0:
        return False
    if -float(measured.mean()) <= terms.beyond:
        return True
    # Holm's correction leaves the smallest p of all groups times their number.
    return len(order.rounds) * float(running_p(lost, "regression", terms.beyond)[-1]) <= terms.alpha


def _evidence(
    name: str, order: Order, place: GroupStatus, judged: Sequence[Pair], sides: Sequence[Outcomes], terms: Terms
) -> Evidence | None:
    sample = sample_of(judged, AS_THEY_ARE)
    if not sample.new:
        return None
    n = len(sample.new)
    differences = [ours - theirs for ours, theirs in zip(sample.new, sample.baseline, strict=True)]
    rounds = differences_of(order, name, place.rounds, sides[0], sides[1], AS_THEY_ARE)
    lower, upper = running_bounds(rounds, terms.alpha)
    value = sum(differences) / n
    return Evidence(
        n,
        sum(sample.baseline) / n,
        sum(sample.new) / n,
        differences.count(-1),
        differences.count(1),
        Bounds(value, min(lower, value), max(upper, value)),
        None,
        place.p_worse,
        place.p_beyond,
        place.p_better,
        place.p_no_worse,
        len(set(sample.new_units)),
    )
