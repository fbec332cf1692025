"""What a sequential gate says of a run, while it goes on and afterwards: by the same rounds, in the same words.

A run that its outcomes stopped is judged by running p values alone (`pytest_vla.gate.wealth`): a test of a fixed number
of episodes errs more often than it says where one looks after every round.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from pytest_vla.errors import VlaError
from pytest_vla.gate.baseline import Baseline
from pytest_vla.gate.bounded import Bounds
from pytest_vla.gate.choices import SEQUENTIAL
from pytest_vla.gate.comparable import Agreement, Pair, matched, paired
from pytest_vla.gate.evidence import AS_THEY_ARE, Evidence, sample_of
from pytest_vla.gate.losses import flips_of, task_changes
from pytest_vla.gate.manifest import Manifest, planned_baseline
from pytest_vla.gate.order import Order, draw_order, generator_of, order_digest, planned_of
from pytest_vla.gate.rounds import Outcomes, Standing, differences_of, standings
from pytest_vla.gate.verdicts import (
    Group,
    Judgement,
    Progress,
    Terms,
    flipped_cases,
    is_loss_shown,
    not_judged_text,
    over_all,
    uncounted_of,
)
from pytest_vla.gate.wealth import running_bounds, running_p
from pytest_vla.plan.case import Case, parse_node_id
from pytest_vla.util.text import counted

AGREED_ALONE = "a run that its outcomes stopped is judged by what was agreed before its first episode, and nothing else"


def order_of(baseline: Baseline, cases: Iterable[Case], run_seed: int, by: Sequence[str]) -> Order:
    """The order in which cases that are to run are looked at.

    Args:
        baseline: with which they are compared.
        cases: all that are to run, in any order.
        run_seed: under which; the order is drawn from it too.
        by: labels of groups.
    """
    planned = planned_of(matched(baseline, planned_baseline(cases, run_seed)).pairs, by)
    return draw_order(planned, generator_of(run_seed, (each.case for each in planned)))


def agreed_order(manifest: Manifest, baseline: Baseline, cases: Iterable[Case]) -> Order:
    """The order that a run agreed on. Raises VlaError: another one is drawn now.

    Args:
        manifest: of a sequential run.
        baseline: its, with the content that it had.
        cases: all of the run, in any order.
    """
    order = order_of(baseline, cases, manifest.run_seed, manifest.by)
    if order_digest(order) != manifest.order:
        raise VlaError(
            f"the order {manifest.order[:8]} that the run agreed on is not drawn any more, but "
            f"{order_digest(order)[:8]}: {AGREED_ALONE}. Give it the baseline and the cases that it had, or start a "
            "new run"
        )
    return order


def cases_of(nodes: Iterable[str]) -> list[Case]:
    """The cases of items. Raises VlaError: one is none of a suite's own."""
    found = []
    for node in nodes:
        case = parse_node_id(node)
        if case is None:
            raise VlaError(
                f"--vla-gate=sequential: {node} is a test of your own, and what it says beside the episode would be "
                "skipped: leave such tests out, or say --vla-gate=fixed"
            )
        found.append(case)
    return found


def judge_as_agreed(manifest: Manifest, baseline: Baseline, new: Baseline, nodes: Iterable[str]) -> Judgement:
    """The verdicts over a run as it agreed on them.

    Args:
        manifest: of a sequential run.
        baseline: its, with the content that it had.
        new: the run, as far as it has come.
        nodes: ids of all of its items with an episode.

    Raises:
        VlaError: the baseline or the cases are others, or there is no common case.
    """
    terms = manifest.terms
    order = agreed_order(manifest, baseline, cases_of(nodes))
    return judge_in_order(baseline, new, terms, order, manifest.required)


def outcomes_of(baseline: Baseline, cases: Iterable[Case], run_seed: int) -> Outcomes:
    """How cases that are to run ended in the baseline."""
    pairs = matched(baseline, planned_baseline(cases, run_seed)).pairs
    return {pair.case: pair.baseline.outcome for pair in pairs}


def judge_in_order(baseline: Baseline, new: Baseline, terms: Terms, order: Order, required: str) -> Judgement:
    """The verdict of each group, and over all, by the rounds that are complete.

    Args:
        baseline: what the run is compared with.
        new: the run, as far as it has come.
        terms: that were agreed.
        order: likewise.
        required: likewise, a key of `pytest_vla.gate.choices.STOPS`.

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
    return Judgement(verdict, groups, terms, True, agreement, tasks, flips_of(judged, tasks), SEQUENTIAL)


def decided_text(name: str, verdict: str, pairs: int, of: int) -> str:
    """``tabletop[benign] is no worse after 60 of 200 pairs``."""
    said = f"{name} is {verdict}" if verdict in ("no worse", "better") else f"{verdict} of {name}"
    return f"{said} after {pairs} of {counted(of, 'pair')}"


def _group(
    name: str,
    order: Order,
    place: Standing,
    pairs: dict[str, Pair],
    sides: Sequence[Outcomes],
    terms: Terms,
    agreement: Agreement,
) -> Group:
    cases = order.cases(name, place.rounds)
    judged = [pairs[case] for case in cases]
    progress = Progress(place.is_decided, place.rounds, place.of, len(cases), order.pairs(name), len(order.rest[name]))
    uncounted = uncounted_of(judged)
    refused = agreement.of("refuses", [case for case in order.all_cases(name) if case in pairs])
    if refused:
        return Group(name, "not comparable", "", None, None, None, uncounted, refused, progress=progress)
    evidence = _evidence(name, order, place, judged, sides, terms)
    lost, gained = (flipped_cases(judged, way) for way in (-1, 1))
    reason = place.reason
    if evidence is None:
        reason = reason or "nothing was measured on both sides"
        return Group(name, place.verdict, reason, None, None, None, uncounted, (), progress=progress)
    ps = place.p_worse, place.p_better
    group = Group(name, place.verdict, reason, evidence, *ps, uncounted, (), lost, gained, progress)
    shown = is_loss_shown(place.p_worse, place.verdict, terms)
    return replace(group, p_beyond=place.p_beyond, shown_loss=shown)


def _or_not_judged(group: Group, order: Order, baseline: Outcomes, terms: Terms) -> Group:
    """Return the group as not judged, if it is undecided and no round could have shown the loss of everything."""
    if group.verdict != "undecided" or group.reason or group.evidence is None:
        return group
    if can_find_in_rounds(order, group.name, baseline, terms):
        return group
    reason = not_judged_text(sum(map(len, order.rounds[group.name])), terms)
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
    name: str, order: Order, place: Standing, judged: Sequence[Pair], sides: Sequence[Outcomes], terms: Terms
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
