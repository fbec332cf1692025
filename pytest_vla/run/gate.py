"""``--vla-baseline``: the gate's plan, fixed before the first episode, and the verdict at the run's end.

The verdict comes from the same function as `pytest-vla gate`'s, applied to the same records of the store.
"""

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.gate.choices import NO_REGRESSION, SEQUENTIAL
from pytest_vla.plan.choices import EITHER
from pytest_vla.run.options import OPTIONS, GateOptions
from pytest_vla.run.resume import Resumption
from pytest_vla.run.selection import Selection, task_of
from pytest_vla.run.settings import Settings
from pytest_vla.util.files import whole_file

if TYPE_CHECKING:
    from pytest_vla.gate.baseline import Baseline
    from pytest_vla.gate.manifest import Manifest
    from pytest_vla.gate.measures import GatedMetric, Measure
    from pytest_vla.gate.verdicts import GateJudgement, Terms
    from pytest_vla.plan.case import Case
    from pytest_vla.reports.gates import Replay


_GOES_WITH = frozenset(field.name for field in dataclasses.fields(GateOptions)) - {"baseline"}
"""Options that mean nothing without a baseline."""


@dataclass(frozen=True)
class GateConfig:
    """The comparison of a run with a baseline: its terms and its plan.

    Attributes:
        baseline: the baseline's cases.
        place: the file, or the run's name, from which the baseline can be read again.
        name: the baseline's name in messages.
        digest: the digest of the baseline's content.
        terms: margin, alpha and groups.
        required: a key of `pytest_vla.gate.choices.REQUIRED`.
        rule: when the gate judges: at the end (fixed), or after each round (sequential).
        measures: the metrics that are judged beside success.
        agreed: the plan that was written before the first episode; None for a new run until its items are known.
    """

    baseline: "Baseline"
    place: str
    name: str
    digest: str
    terms: "Terms"
    required: str
    rule: str
    measures: "tuple[Measure, ...]" = ()
    agreed: "Manifest | None" = None


@dataclass(frozen=True)
class GateVerdicts:
    """The verdicts of a gate.

    Attributes:
        judgement: the verdicts, or None if the gate could not judge.
        new: the run's cases, as they were compared.
        against: why the gate fails the run; empty if it does not.
        told: notes for the verdicts, a line each.
        measured: the verdicts on metrics beside success.
        by: how texts were compared; empty if none were.
    """

    judgement: "GateJudgement | None"
    new: "Baseline | None"
    against: str
    told: tuple[str, ...] = ()
    measured: "tuple[GatedMetric, ...]" = ()
    by: str = ""


@dataclass(frozen=True)
class GateOutcome:
    """The end of a run with a gate.

    Attributes:
        gate: the gate, with its plan.
        judged: its verdicts.
        failed: how many items of the gate's groups failed.
        stopped: whether the run was to stop before all of its items had run.
    """

    gate: GateConfig
    judged: GateVerdicts
    failed: int
    stopped: bool


def is_gated(selection: Selection) -> bool:
    """Whether the run is compared with a baseline; the ini file's baseline does not apply to pasted ids."""
    settings = selection.settings
    is_of_suites = bool(selection.named) and not selection.by_ids
    return settings.baseline is not None and ("baseline" in settings.typed or is_of_suites)


def make_gate(selection: Selection, resumption: Resumption | None, here: Path) -> GateConfig | None:
    """Return the comparison of the run with its baseline, or None if no baseline is given.

    Args:
        selection: the selection of this invocation.
        resumption: the run that is resumed, or None.
        here: the folder in which pytest was started.

    Raises:
        VlaError: the baseline does not exist, cannot be read or has none of the run's cases; or it has changed since
            the resumed run began.
    """
    settings = selection.settings
    if not is_gated(selection):
        flags = [each.flag for each in OPTIONS if each.attribute in _GOES_WITH and each.attribute in settings.typed]
        if flags and settings.baseline is None:
            raise VlaError(
                f"{', '.join(flags)}: a baseline is required; add --vla-baseline=FILE (from `pytest-vla baseline "
                "save`) or --vla-baseline=RUN"
            )
        return None
    from pytest_vla.gate.manifest import baseline_digest
    from pytest_vla.gate.measures import parse_measures
    from pytest_vla.gate.verdicts import Terms
    from pytest_vla.reports.baselines import baseline_named

    measures = parse_measures(settings.gate_measure)
    _check_measures(measures, settings)
    if settings.gate == SEQUENTIAL and settings.min_success is not None:
        raise VlaError(
            "--vla-gate=sequential skips episodes, but --vla-min-success needs the rate over all of them: leave one of "
            "the options out"
        )
    agreed = None if resumption is None else _agreed(resumption)
    try:
        place = _place(Path(str(settings.baseline)), settings.results) if agreed is None else agreed.baseline
        baseline = baseline_named(place, settings.results)
    except VlaError as error:
        raise VlaError(f"--vla-baseline: {error}") from error
    name = str(Path(place).relative_to(here)) if Path(place).is_relative_to(here) else place
    digest = baseline_digest(baseline)
    if agreed is not None and resumption is not None and digest != agreed.baseline_digest:
        raise VlaError(
            f"--vla-resume: the baseline {name} has changed since run {resumption.run} began: restore it (git "
            "checkout), or start a new run without --vla-resume"
        )
    terms = Terms(settings.margin, settings.gate_alpha, settings.gate_by, settings.regression)
    if agreed is not None:
        # Runs of earlier versions did not keep which loss is a regression among their options.
        terms = agreed.terms
    gate = GateConfig(baseline, place, name, digest, terms, settings.gate_require, settings.gate, measures, agreed)
    # Told before workers start and a policy is loaded.
    check_comparable(gate, selection, None)
    return gate


def check_comparable(gate: GateConfig, selection: Selection, replan: int | None) -> None:
    """Check that a new run can be compared with its baseline, as far as its cases are known before collection.

    Args:
        gate: the run's gate.
        selection: the selection of this invocation.
        replan: the policy's own replan length, if it is known.

    Raises:
        VlaError: the baseline has none of the cases, or all of them under other conditions.
    """
    settings = selection.settings
    if gate.agreed is None and selection.cases and not selection.paths_given:
        planned = {case.node_id: case for cases in selection.cases.values() for case in cases}
        _groups(gate, planned, dataclasses.replace(settings, replan=settings.replan or replan))


def agree(gate: GateConfig, cases: Mapping[str, "Case"], settings: Settings) -> GateConfig:
    """Return the gate with its plan, before the first episode. Raises VlaError if the baseline has no case of the run.

    Args:
        gate: the run's gate.
        cases: the run's cases, by the node ids of their items.
        settings: the run's.
    """
    from pytest_vla.gate.manifest import Manifest, cases_digest

    found = [*cases]
    is_paired, groups = _groups(gate, cases, settings)
    agreed = Manifest(
        gate.place,
        gate.digest,
        gate.rule,
        gate.terms.margin,
        gate.terms.alpha,
        gate.terms.by,
        gate.required,
        len(found),
        cases_digest(found),
        is_paired,
        groups,
        tuple(each.text for each in gate.measures),
        gate.terms.regression,
        settings.run_seed,
    )
    if agreed.is_sequential:
        if given := next((node for node, case in cases.items() if case.given and not case.variation), None):
            raise VlaError(
                f"--vla-gate=sequential: {given} is a given case (--vla-cases), which is in no rate and in no round: "
                "leave --vla-cases out, or use --vla-gate=fixed"
            )
        agreed = _in_order(agreed, gate, found)
    return dataclasses.replace(gate, agreed=agreed)


def kept_of(gate: GateConfig | None) -> dict[str, Any]:
    """Return the gate's plan as the run's invocation keeps it, or an empty table."""
    if gate is None or gate.agreed is None:
        return {}
    from pytest_vla.gate.manifest import MANIFEST, manifest_table

    return {MANIFEST: manifest_table(gate.agreed)}


_ENDS = {NO_REGRESSION: "fails on regression", "no-worse": "passes if no worse", "better": "passes if better"}
"""By the required verdicts, when the gate passes or fails."""


def agreed_line(gate: GateConfig) -> str:
    """Return the gate's plan in a line with digests, as `pytest-vla gate` prints it."""
    if gate.agreed is None:
        return ""
    from pytest_vla.gate.manifest import manifest_text

    return manifest_text(gate.agreed, gate.name)


def judge_by(gate: GateConfig, run: Path, nodes: Iterable[str], allow_unfinished: bool = False) -> GateVerdicts:
    """Return the verdicts for a run whose episodes have all ended, as `pytest-vla gate` gives them.

    Args:
        gate: the gate, with its plan.
        run: the run's folder.
        nodes: ids of all of the run's items with an episode.
        allow_unfinished: whether episodes may be missing, because a time limit ended a run with a sequential gate.
    """
    from pytest_vla.gate.manifest import cases_digest
    from pytest_vla.reports.baselines import baseline_of_runs
    from pytest_vla.reports.gates import judged_as_agreed

    assert gate.agreed is not None, "it was agreed before the first episode"
    found = [*nodes]
    try:
        new, told = baseline_of_runs(
            [run.name],
            run.parent,
            allow_unfinished=allow_unfinished,
            allow_broken=True,
            own_process=True,
            allow_decided=gate.agreed.is_sequential,
        )
        judged = judged_as_agreed(_looked(gate.agreed, new, run), gate.baseline, new, found)
    except VlaError as error:
        return GateVerdicts(None, None, f"the gate was not judged: {error}")
    if cases_digest(found) != gate.agreed.cases_digest:
        told.append(f"note: the run has {len(found)} cases; {gate.agreed.cases} were planned")
    wanted = "" if gate.required == NO_REGRESSION else f" (--vla-gate-require={gate.required})"
    against = f"the gate says {', '.join(judged.against)}{wanted}" if judged.against else ""
    return GateVerdicts(judged.judgement, new, against, tuple(told), judged.measured, judged.by)


def _looked(agreed: "Manifest", new: "Baseline", run: Path) -> "Manifest":
    """Return the plan with this look at the comparison counted, and write it. Raises VlaError for a write error."""
    from pytest_vla.gate.manifest import MANIFEST, looks_at, manifest_table, manifests_of
    from pytest_vla.records.store import open_store

    with open_store(run.parent, create=True) as store:
        before = manifests_of(store.invocations())
        if agreed.is_sequential:
            # It holds at any time: all looks at one run are one.
            before.pop(run.name, None)
        looks = looks_at(agreed.baseline_digest, agreed.groups, new, before.values())
        kept = dataclasses.replace(agreed, looks=looks)
        store.set_in_invocation(run.name, MANIFEST, manifest_table(kept))
    return kept


def gated_lines(gated: GateOutcome, verbosity: int, replay: "Replay") -> list[str]:
    """Return the gate's lines for the end of a run: with -v as `pytest-vla gate -v` prints them, with -q the verdict.

    Args:
        gated: the end of the run.
        verbosity: pytest's.
        replay: gives the command that runs cases again.
    """
    gate, judged = gated.gate, gated.judged
    if judged.judgement is None or judged.new is None:
        return []
    from pytest_vla.reports.gates import brief_lines, fails, gate_lines, measures_lines, verdict_line

    if verbosity < 0:
        return [verdict_line(judged.judgement)]
    about = judged.judgement, gate.baseline, judged.new, gate.name
    lines = gate_lines(*about, replay, is_long=True) if verbosity else brief_lines(judged.judgement, replay)
    beside = measures_lines(judged.measured, gate.terms, judged.by, fails(judged.measured, gate.required))
    return [*judged.told, *lines, *beside]


def _check_measures(measures: "tuple[Measure, ...]", settings: Settings) -> None:
    """Raise VlaError if the metrics cannot be judged with these settings."""
    flag = f"--vla-gate-measure={','.join(each.text for each in measures)}"
    if measures and settings.gate == SEQUENTIAL:
        raise VlaError(
            f"{flag}: a sequential gate stops by success alone, so intervals of other metrics would not hold: leave it "
            "out, or use --vla-gate=fixed"
        )
    unbounded = [each.text for each in measures if each.margin is None]
    if unbounded and settings.gate_require != NO_REGRESSION:
        raise VlaError(
            f"{flag}: expected a margin for each with --vla-gate-require={settings.gate_require}, such as "
            f"{unbounded[0]}=10"
        )


def _agreed(resumption: Resumption) -> "Manifest":
    from pytest_vla.gate.manifest import read_manifest

    found = read_manifest(resumption.invocation)
    if found is None:
        raise VlaError(f"--vla-resume: run {resumption.run} has no gate plan: start a new run without --vla-resume")
    return found


def _groups(gate: GateConfig, cases: Mapping[str, "Case"], settings: Settings) -> tuple[bool, dict[str, int]]:
    from pytest_vla.gate.manifest import planned_groups

    of_task: dict[tuple[str, str], Mapping[str, Any]] = {}

    def known(case: "Case") -> Mapping[str, Any]:
        """Return the conditions that options and suite set, as records have them; a policy's own replan is not one."""
        key = case.suite, case.task_key
        if key not in of_task:
            protocol = json.loads(json.dumps(task_of(case, settings).protocol.table()))
            if protocol.get("control") == EITHER:
                # The policy's, which is not loaded yet.
                del protocol["control"]
            found = {f"protocol.{name}": value for name, value in protocol.items()} | {"replan": settings.replan}
            of_task[key] = {name: value for name, value in found.items() if value is not None}
        return of_task[key]

    try:
        is_paired, groups = planned_groups(gate.baseline, cases, settings.run_seed, gate.terms.by, known)
        if gate.measures:
            from pytest_vla.gate.measures import check_measures

            if not is_paired:
                raise VlaError("--vla-gate-measure compares pairs, but no case of the run is in the baseline")
            ids = {case.id for case in cases.values()}
            check_measures([case for case in gate.baseline.cases if case.case in ids], gate.measures)
    except VlaError as error:
        raise VlaError(f"--vla-baseline={gate.name}: {error}") from error
    if gate.rule == SEQUENTIAL and not is_paired:
        raise VlaError(
            f"--vla-gate=sequential compares pairs, but no case of the run is in {gate.name} under the same run seed: "
            "use the baseline's --vla-seeds and --vla-run-seed, or --vla-gate=fixed, which can compare other seeds"
        )
    return is_paired, groups


def _in_order(agreed: "Manifest", gate: GateConfig, nodes: Sequence[str]) -> "Manifest":
    """Return the plan with the order of its rounds. Raises VlaError for a user's own test, or if there is no round."""
    from pytest_vla.gate.order import order_digest
    from pytest_vla.gate.sequential import cases_of, order_of

    order = order_of(gate.baseline, cases_of(nodes), agreed.run_seed, agreed.by)
    rounds = {group: len(some) for group, some in order.rounds.items()}
    if not any(rounds.values()):
        raise VlaError(
            f"--vla-gate=sequential: the baseline {gate.name} measured none of the run's cases (they are invalid)"
        )
    return dataclasses.replace(agreed, order=order_digest(order), rounds=rounds)


def _place(path: Path, results: Path) -> str:
    """Return the place of a baseline such that a later run's ``last`` still finds the same one."""
    from pytest_vla.records.load import open_runs

    if path.is_file() or path.suffix == ".json":
        return str(path)
    # A run's name is no path.
    text = str(path) if path.is_dir() else path.name
    try:
        found = [(store.results, run.name) for store, runs in open_runs([text], results) for run in runs]
    except VlaError as error:
        raise VlaError(
            f"{text} is neither a baseline file (from `pytest-vla baseline save -o base.vla.json`) nor a run: {error}"
        ) from error
    if len(found) != 1:
        return text
    ((folder, name),) = found
    return name if folder == results else str(folder / name)


# ``--vla-gate-summary``: the verdict in files, as Markdown for a job's summary, or as JSON.

_PROGRAMS = ".json"
"""A file whose name ends so is for programs; any other has Markdown appended."""


def check_summaries(files: Sequence[Path]) -> None:
    """Check the files of ``--vla-gate-summary`` before anything runs. Raises VlaError if one cannot be written."""
    for file in files:
        if file.is_dir() or not file.parent.is_dir():
            raise VlaError(f"--vla-gate-summary={file}: expected a file in an existing folder")
        if not os.access(file if file.exists() else file.parent, os.W_OK):
            raise VlaError(f"--vla-gate-summary={file}: no permission to write it")


def write_summaries(files: Sequence[Path], gated: GateOutcome, replay: "Replay", line: str) -> None:
    """Write the gate's summary into files: JSON for ``.json``, else Markdown, which is appended.

    Args:
        files: the files of ``--vla-gate-summary``.
        gated: the end of the run.
        replay: gives the command that runs cases again.
        line: the line with the run's verdict.

    Raises:
        VlaError: some cannot be written; the others are.
    """
    troubles = []
    for file in files:
        try:
            if file.suffix == _PROGRAMS:
                with whole_file(file) as stream:
                    stream.write(json.dumps(_summary_table(gated, replay, line), indent=2).encode() + b"\n")
            else:
                with file.open("a", encoding="utf-8") as appended:
                    appended.write(_summary_markdown(gated, replay, line))
        except (OSError, VlaError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            troubles.append(f"--vla-gate-summary={file}: {why}; expected a file that can be written")
    if troubles:
        raise VlaError("\n".join(troubles))


def _summary_table(gated: GateOutcome, replay: "Replay", line: str) -> dict[str, Any]:
    """Return the table of `pytest-vla gate --json` with ``line``; a run that was not judged has the verdict null."""
    from pytest_vla.reports.gates import SCHEMA, gate_table, measures_table

    judged = gated.judged
    if judged.judgement is None or judged.new is None:
        return {"schema": SCHEMA, "verdict": None, "reason": judged.against, "passed": False, "line": line}
    table = gate_table(judged.judgement, gated.gate.baseline, judged.new, replay)
    measures = measures_table(judged.measured)
    return {**table, "require": gated.gate.required, "passed": not judged.against, "measures": measures, "line": line}


def _summary_markdown(gated: GateOutcome, replay: "Replay", line: str) -> str:
    """Return the Markdown of `pytest-vla gate --summary`, with the plan and the run's verdict."""
    from pytest_vla.reports.gates import failed_heading, fails, gate_markdown, measures_markdown
    from pytest_vla.reports.text import markdown_text

    judged = gated.judged
    if judged.judgement is None or judged.new is None:
        return f"### gate: not judged\n\n{markdown_text(line)}\n"
    gate, failed = gated.gate, fails(judged.measured, gated.gate.required)
    text = failed_heading(failed) + gate_markdown(judged.judgement, gate.baseline, judged.new, gate.name, replay)
    text += measures_markdown(judged.measured, gate.terms, judged.by, failed)
    told = [*judged.told, agreed_line(gate), line]
    return "\n".join([text, *(f"- {markdown_text(each)}" for each in told if each), ""])
