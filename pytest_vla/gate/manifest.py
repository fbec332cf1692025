"""A gate's terms, fixed before the first episode, so that nobody can choose them by the outcomes.

A run keeps them with its invocation. They are checked when they are read back, since the file may have been edited.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.gate.baseline import GIVEN, SHORT, Baseline, CaseResult, Conditions
from pytest_vla.gate.baseline_file import text_of
from pytest_vla.gate.choices import ANY, BEYOND, NO_REGRESSION, RULES, SEQUENTIAL, STOPS
from pytest_vla.gate.comparable import labels_of, lines_of, matched, unpaired
from pytest_vla.gate.measures import Measure, parse_measures
from pytest_vla.gate.verdicts import Terms, group_name, terms_text
from pytest_vla.plan.case import Case
from pytest_vla.util.text import counted
from pytest_vla.versions import SUPPORTED, installed

MANIFEST = "gate"
"""The key of a run's invocation under which it stands."""


@dataclass(frozen=True)
class Manifest:
    """The plan of a gate, as agreed before the first episode.

    Attributes:
        baseline: a file or a run's name from which the baseline is read again.
        baseline_digest: digest of its content, see `baseline_digest`.
        rule: when the run is judged, one of `pytest_vla.gate.choices.RULES`.
        margin, alpha, by, regression: as in `Terms`.
        required: a key of `pytest_vla.gate.choices.REQUIRED`.
        cases: number of cases in the run.
        cases_digest: digest of their node ids, see `cases_digest`.
        measures: measures judged beside success, as given by ``--vla-gate-measure``.
        is_paired: whether the baseline has cases of the run; else it has their tasks with other seeds.
        groups: number of compared cases by group name.
        run_seed: for a sequential gate, the seed from which its order is drawn.
        order: for a sequential gate, the order's digest (`pytest_vla.gate.order.order_digest`); else empty.
        rounds: for a sequential gate, the number of rounds by group.
        looks: at this comparison: a text for each, see `looks_at`.
    """

    baseline: str
    baseline_digest: str
    rule: str
    margin: float
    alpha: float
    by: tuple[str, ...]
    required: str
    cases: int
    cases_digest: str
    is_paired: bool
    groups: Mapping[str, int]
    measures: tuple[str, ...] = ()
    regression: str = BEYOND
    run_seed: int = 0
    order: str = ""
    rounds: Mapping[str, int] = field(default_factory=dict)
    looks: tuple[str, ...] = ()

    @property
    def terms(self) -> Terms:
        """The terms by which the run is judged."""
        return Terms(self.margin, self.alpha, self.by, self.regression)

    @property
    def is_sequential(self) -> bool:
        """Whether the run was stopped by its outcomes."""
        return self.rule == SEQUENTIAL


_OF_ORDER = ("run_seed", "order", "rounds")
"""What is written of sequential gates alone."""


Known = Callable[[Case], Conditions]
"""Returns the conditions of a case that are known before it runs, such as its protocol's; equal ones are one object."""


def planned_baseline(
    cases: Iterable[Case] | Mapping[str, Case], run_seed: int, known: Known = lambda case: {}
) -> Baseline:
    """Return cases that are to run as a `Baseline` without outcomes, with the simulator versions that will run them.

    Args:
        cases: of suites' own items; or by the node ids of their items, some of which may be tests of the user's.
        run_seed: under which they run.
        known: their further conditions.
    """
    nodes = cases if isinstance(cases, Mapping) else {case.node_id: case for case in cases}
    simulator = {f"provenance.{name}": version for name in SUPPORTED if (version := installed(name)) is not None}
    own = {"run_seed": run_seed, **simulator}
    return Baseline("", None, "", (), ("", ""), tuple(_planned(*each, own, known) for each in nodes.items()))


def planned_groups(
    baseline: Baseline,
    cases: Iterable[Case] | Mapping[str, Case],
    run_seed: int,
    by: Sequence[str],
    known: Known = lambda case: {},
) -> tuple[bool, dict[str, int]]:
    """Return whether the cases that are to run are compared as pairs, and how many are compared in each group.

    Raises:
        VlaError: the baseline has none of the cases, and none of their tasks under the same variation; or nothing will
            be comparable, since every case ran under a different simulator than the installed one, or is known to run
            under other conditions.
    """
    planned = planned_baseline(cases, run_seed, known)
    # Whether a suite's own world uses MuJoCo is known when it is open; earlier records have its version in any case.
    own = {case.suite for case in baseline.cases if case.condition("world.world") is not None}
    planned = replace(
        planned, cases=tuple(_without_simulator(each) if each.suite in own else each for each in planned.cases)
    )
    found = matched(baseline, planned)
    # A list's entry is varied as its record says, which the baseline has and the case's id has not.
    compared, agreement = [(pair.baseline, 1) for pair in found.pairs], found.agreement
    in_rates = {pair.case for pair in found.pairs}
    is_paired = bool(compared)
    if not is_paired:
        others = unpaired(baseline, planned)
        compared = [(stratum.baseline[0], len(stratum.new)) for stratum in others.strata]
        in_rates = {case.case for stratum in others.strata for case in stratum.new}
        agreement = others.agreement
    refused = agreement.of("refuses")
    if refused and in_rates <= {case for each in refused for case in each.cases}:
        install = any(each.name.startswith("provenance.") for each in refused)
        mend = "Install the versions of the baseline, or save" if install else "Or save"
        raise VlaError(
            "\n".join(["not comparable, whatever the outcomes:", *lines_of(refused)])
            + f"\n{mend} a new baseline: pytest-vla baseline save RUN"
        )
    names: Counter[str] = Counter()
    for case, number in compared:
        if not case.in_no_rate:
            names[group_name(labels_of(case), by)] += number
    if not names:
        raise VlaError("the run and the baseline share only probes and given cases, which are not part of any rate")
    return is_paired, dict(sorted(names.items()))


def baseline_digest(baseline: Baseline) -> str:
    """Return the digest of a baseline's content."""
    return _digest(text_of(baseline))


def cases_digest(nodes: Iterable[str]) -> str:
    """Return the digest of the cases that run, independent of their order."""
    return _digest("\n".join(sorted(nodes)))


def looks_at(digest: str, groups: Iterable[str], new: Baseline, manifests: Iterable[Manifest]) -> tuple[str, ...]:
    """Return the looks at a comparison, the run's own last: one policy against one baseline, in a group of both.

    Outcomes that were looked at before are no further look, such as those of a policy that does not draw. A run whose
    episodes all broke is none.

    Args:
        digest: of the baseline, see `baseline_digest`.
        groups: that are judged.
        new: the run, as it is compared.
        manifests: of runs that may have looked before, the oldest first.
    """
    policy = _digest(json.dumps((new.model, new.policy_digest)))
    outcomes = sorted({(case.case, case.test, case.listed, *case.did) for case in new.cases if case.is_counted})
    look = f"{policy} {_digest(json.dumps(outcomes))}"
    if not outcomes:
        return ()
    own = {*groups}
    same = (each for each in manifests if each.baseline_digest == digest and own & each.groups.keys())
    looks = [*dict.fromkeys(text for each in same for text in each.looks if text.startswith(f"{policy} "))]
    return (*looks[: looks.index(look)], look) if look in looks else (*looks, look)


def manifest_table(manifest: Manifest) -> dict[str, Any]:
    """Return the manifest as JSON has it."""
    table = {**asdict(manifest), "by": list(manifest.by), "groups": dict(manifest.groups)}
    table |= {"measures": list(manifest.measures), "looks": list(manifest.looks)}
    return {name: value for name, value in table.items() if name not in _OF_ORDER or manifest.is_sequential}


def read_manifest(invocation: Mapping[str, Any]) -> Manifest | None:
    """Read the manifest from a run's invocation, or return None if it has none. Raises VlaError if it is damaged."""
    table = invocation.get(MANIFEST)
    if table is None:
        return None
    try:
        groups = {str(name): int(number) for name, number in table["groups"].items()}
        by = tuple(map(str, table["by"]))
        # Checks what it is given.
        # Runs of earlier versions took any loss for one that was not shown to be within the margin.
        terms = Terms(float(table["margin"]), float(table["alpha"]), by, str(table.get("regression", ANY)))
        texts = {name: str(table[name]) for name in ("baseline", "baseline_digest", "rule", "required", "cases_digest")}
        if texts["rule"] not in RULES or texts["required"] not in STOPS:
            raise ValueError(f"rule {texts['rule']}, {texts['required']} required")
        is_sequential = texts["rule"] == SEQUENTIAL
        # Runs of earlier versions agreed on none.
        measures = tuple(map(str, table.get("measures", ())))
        parse_measures(measures)
        looks = table.get("looks", [])
        if not isinstance(looks, list):
            raise ValueError(f"looks {looks!r}")
        return Manifest(
            **texts,
            margin=terms.margin,
            alpha=terms.alpha,
            by=by,
            regression=terms.regression,
            cases=int(table["cases"]),
            is_paired=bool(table["is_paired"]),
            groups=groups,
            measures=measures,
            run_seed=int(table["run_seed"]) if is_sequential else 0,
            order=str(table["order"]) if is_sequential else "",
            rounds={str(name): int(number) for name, number in table["rounds"].items()} if is_sequential else {},
            looks=tuple(map(str, looks)),
        )
    except (VlaError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise VlaError(f"the run's gate plan cannot be read: {error}") from error


def manifests_of(invocations: Mapping[str, Mapping[str, Any]]) -> dict[str, Manifest]:
    """Return by run what it agreed on; without those that agreed on nothing, and what cannot be read."""
    found = {}
    for run, invocation in invocations.items():
        with suppress(VlaError):
            if (manifest := read_manifest(invocation)) is not None:
                found[run] = manifest
    return found


def manifest_text(manifest: Manifest, name: str) -> str:
    """Return the plan in a line: ``gate plan: 36 cases vs stove.vla.json; margin 5 points, alpha 5% per side; ...``."""
    how = "" if manifest.is_paired else " (the same tasks, other seeds)"
    measures = f"; also judged: {', '.join(manifest.measures)}" if manifest.measures else ""
    return (
        f"gate plan: {counted(manifest.cases, 'case')} vs {name}{how}; {terms_text(manifest.terms)}; "
        f"{_rule_text(manifest)}; {_FAILS[manifest.required]}{measures}"
    )


def manifest_details(manifest: Manifest) -> str:
    """Return the rest of the plan in a line: digests, groups, and for a sequential gate its stops and its order."""
    groups = ", ".join(f"{group} {number}" for group, number in manifest.groups.items())
    return (
        f"gate plan details: cases {manifest.cases_digest[:8]}, baseline {manifest.baseline_digest[:8]}; cases by "
        f"group: {groups}{_order_text(manifest)}"
    )


_FAILS = {
    NO_REGRESSION: "fails on regression",
    "no-worse": "fails unless no worse or better",
    "better": "fails unless better",
}


def _rule_text(manifest: Manifest) -> str:
    if not manifest.is_sequential:
        return manifest.rule
    fewest, most = min(manifest.rounds.values(), default=0), max(manifest.rounds.values(), default=0)
    return (
        f"{manifest.rule}, {counted(most, 'round')}"
        if fewest == most
        else f"{manifest.rule}, {fewest} to {most} rounds"
    )


def changes(
    manifest: Manifest, terms: Terms, required: str, digest: str, measures: Sequence[Measure] = ()
) -> list[str]:
    """Return a text for each of the gate's settings that differs from the manifest.

    Args:
        manifest: as agreed before the first episode.
        terms: by which the run is judged.
        required: a key of `pytest_vla.gate.choices.REQUIRED`.
        digest: of the baseline with which the run is compared.
        measures: judged beside success.
    """
    used, planned = ", ".join(each.text for each in measures) or "none", ", ".join(manifest.measures) or "none"
    sides = [
        ("margin", f"{terms.margin:g} points", f"{manifest.margin:g} points"),
        ("alpha", f"{terms.alpha:g}", f"{manifest.alpha:g}"),
        ("grouping", ",".join(terms.by), ",".join(manifest.by)),
        ("what counts as a regression", _loss_text(terms), _loss_text(manifest.terms)),
        ("requirement", required, manifest.required),
        ("set of measures", used, planned),
        ("baseline content", digest[:8], manifest.baseline_digest[:8]),
    ]
    is_changed = (
        manifest.margin != terms.margin,
        manifest.alpha != terms.alpha,
        manifest.by != terms.by,
        manifest.regression != terms.regression,
        manifest.required != required,
        {*parse_measures(manifest.measures)} != {*measures},
        manifest.baseline_digest != digest,
    )
    return [change_text(*each) for each, other in zip(sides, is_changed, strict=True) if other]


def change_text(what: str, used: str, planned: str) -> str:
    """Return the sentence on a setting that differs from the plan of a run."""
    return f"{what} differs from the run's gate plan: using {used}; planned {planned}"


def _loss_text(terms: Terms) -> str:
    return "a loss beyond the margin" if terms.regression == BEYOND else "any loss"


def _order_text(manifest: Manifest) -> str:
    if not manifest.is_sequential:
        return ""
    rounds = ", ".join(f"{group} {number}" for group, number in manifest.rounds.items())
    stops = " or ".join([", ".join(STOPS[manifest.required][:-1]), STOPS[manifest.required][-1]])
    return (
        f"; rounds: {rounds}; a group stops after the round that shows {stops}; order {manifest.order[:8]} from run "
        f"seed {manifest.run_seed}"
    )


def _planned(node: str, case: Case, own: Mapping[str, Any], known: Known) -> CaseResult:
    """Return a planned case without an outcome."""
    test = "" if node == case.node_id else node
    own = {**own, GIVEN: True} if case.given else own
    return CaseResult(case.id, "", None, 0, None, {}, {}, "", "", "", test, known(case), own)


def _without_simulator(case: CaseResult) -> CaseResult:
    of = {f"provenance.{name}" for name in SUPPORTED}
    return replace(case, own={name: value for name, value in case.own.items() if name not in of})


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:SHORT]
