"""``pytest-vla bisect``: finds the first regressed checkpoint of a list, by gates against a good one.

Exit codes: 0 if exactly one checkpoint may be the first bad one, 1 if several may, 2 if the search failed.
"""

import argparse
import glob
import hashlib
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pytest_vla.commands.gate import number
from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.gate.choices import ALPHA, BEYOND, BY, FIXED, LABELS, MARGIN, REGRESSIONS, RULES
from pytest_vla.run.arguments import declare_results
from pytest_vla.util.text import counted, numbers_in_order

if TYPE_CHECKING:
    from pytest_vla.gate.verdicts import GateJudgement, Terms
    from pytest_vla.records.runs import Run


# Heavy imports are inside the functions, so that --help is fast.

FOLDER = "bisect"
"""The folder of the runs, in the results folder, with one subfolder for each checkpoint."""

_OURS = (
    "--vla-model",
    "--vla-baseline",
    "--vla-results",
    "--vla-resume",
    "--vla-gate",
    "--vla-margin",
    "--vla-regression",
)
"""Options that are refused among pytest's: this command sets them, or has its own option for them."""


@dataclass(frozen=True)
class BisectRequest:
    """A search for the first regressed checkpoint: its checkpoints, and how each is compared.

    Attributes:
        models: texts for ``--vla-model``, the good one first and the bad one last.
        options: the options for pytest.
        baseline: a baseline file or a run; None to run the good checkpoint first and use that run.
        terms: the terms of each gate.
        rule: one of `RULES`.
        results: the folder of all runs.
    """

    models: tuple[str, ...]
    options: tuple[str, ...]
    baseline: str | None
    terms: "Terms"
    rule: str
    results: Path


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.usage = "pytest-vla bisect --good MODEL --bad MODEL --models GLOB [options] -- PYTEST_OPTION ..."
    parser.epilog = (
        "Checkpoints are sorted by the numbers in their names. The search assumes that all are good up to one of them, "
        "and bad from it on. It runs the good checkpoint first, as the baseline for all others; then it checks that "
        "the bad one is a regression, and halves the rest. A checkpoint whose gate is undecided is skipped. Each gate "
        "is wrong in at most 5% of searches, as with `pytest-vla gate`, and the whole search in at most 5% times the "
        "number of gates; the last line has the bound. With --gate=sequential a run stops as soon as its gate is "
        "decided. Runs are kept: after Ctrl-C, the same command resumes the search. "
        "Example: pytest-vla bisect --good=tiny:ckpt/step-100.npz "
        "--bad=tiny:ckpt/step-900.npz --models='tiny:ckpt/*.npz' -- --vla-suite=tabletop --vla-episodes=10 -n 2. Exit "
        "code: 0 if exactly one checkpoint may be the first bad one, 1 if several may, 2 if the search failed."
    )
    parser.add_argument("--good", metavar="MODEL", required=True, help="a good policy, as for --vla-model")
    parser.add_argument("--bad", metavar="MODEL", required=True, help="a later policy that regressed")
    parser.add_argument(
        "--models",
        metavar="GLOB",
        action="append",
        required=True,
        help="checkpoints, such as 'tiny:ckpt/*.npz' (quoted); can be repeated",
    )
    parser.add_argument(
        "--baseline",
        metavar="FILE|RUN",
        help="baseline of the good policy: a file from `pytest-vla baseline save`, or a run (default: run it first)",
    )
    parser.add_argument(
        "--margin",
        metavar="POINTS",
        type=number,
        default=MARGIN,
        help="percentage points of success that may be lost (default: 5)",
    )
    parser.add_argument(
        "--regression",
        choices=REGRESSIONS,
        default=BEYOND,
        help="which loss is a regression: margin, a significant loss beyond --margin; or any significant loss "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--by",
        metavar="LABEL[,LABEL]",
        default=",".join(BY),
        help=f"group by: {', '.join(LABELS)} (default: %(default)s)",
    )
    parser.add_argument(
        "--gate",
        dest="rule",
        choices=RULES,
        default=FIXED,
        help="when to judge each checkpoint: fixed, after all its episodes, or sequential, which stops a run as soon "
        "as its gate is decided (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON on the last line")
    declare_results(parser)
    parser.add_argument(
        "options",
        metavar="PYTEST_OPTION",
        nargs="*",
        help="after --: pytest's options for the runs, such as --vla-suite",
    )


def run(options: argparse.Namespace) -> int:
    """Search, and return 0 if exactly one checkpoint may be the first bad one, or 1 if several may.

    Raises:
        VlaError: no checkpoint matches, pytest ended before all episodes had run, checkpoints cannot be compared, or
            the bad one is not shown to be worse.
    """

    search = _search(options)
    models, last = search.models, len(search.models) - 1
    print(
        f"bisect: {len(models)} checkpoints, {models[0]} (good) to {models[-1]} (bad), about {at_most(last) + 1} gates",
        flush=True,
    )
    baseline = search.baseline or _whole_run(search, models[0])
    found: dict[int, Finding] = {0: "good"}
    place: int | None = last
    while place is not None:
        finding, told = _finding(search, models[place], baseline)
        print(f"bisect: {models[place]}: {finding} ({told})", flush=True)
        if place == last and finding != "bad":
            raise VlaError(
                f"The gate could not show that --bad={models[-1]} is worse than {models[0]} ({told}). Use more episodes"
            )
        found[place] = finding
        place = next_to_try(found)
    left = [models[place] for place in suspects(found)]
    good = models[suspects(found).start - 1]
    if len(left) == 1:
        print(f"first bad: {left[0]}; the last good one is {good}")
    else:
        print(
            f"first bad: one of {', '.join(left)}; the last good one is {good}. All but the last of these are "
            "undecided. Use more episodes (--vla-episodes)"
        )
    gates = len(found) - 1
    most = min(gates * search.terms.alpha, 1.0)
    print(
        f"error bound: {most:.0%} of such searches ({counted(gates, 'gate')}, {search.terms.alpha:.0%} each); a good "
        f"checkpoint may have lost up to {search.terms.margin:g} points"
    )
    if options.json:
        by_model = {models[place]: finding for place, finding in sorted(found.items())}
        print(json.dumps({"schema": 1, "first_bad": left, "last_good": good, "found": by_model, "wrong_at_most": most}))
    return int(len(left) != 1)


def models_of(good: str, bad: str, patterns: Sequence[str]) -> tuple[str, ...]:
    """Return the models from the good one to the bad one, both included.

    Args:
        good: a policy's text; if no pattern matches it, it is placed first.
        bad: a policy's text; if no pattern matches it, it is placed last.
        patterns: policies' texts with ``*``, ``?`` or ``[...]`` in the part that is a file's path.

    Raises:
        VlaError: a pattern matches nothing, or the good model comes after the bad one.
    """

    matched: list[str] = []
    for pattern in patterns:
        some = [*_expanded(pattern)]
        if not some:
            raise VlaError(f"--models={pattern}: no such file. Expected a pattern such as 'tiny:ckpt/*.npz'")
        matched += some
    models = in_order(matched)
    first = models.index(good) if good in models else -1
    last = models.index(bad) if bad in models else len(models)
    if good == bad or first >= last:
        raise VlaError(
            f"--good={good} and --bad={bad}: the good one must come before the bad one in the order of the "
            "checkpoints: " + ", ".join(models)
        )
    return (good, *models[first + 1 : last], bad)


def _expanded(pattern: str) -> Iterator[str]:
    """Yield the policies' texts that a pattern matches."""
    # The file's path is the whole pattern, or the part after a kind's colon or an argument's equals sign.
    before, path = re.fullmatch(r"(.*[:=])?([^:=]*)", pattern, re.DOTALL).groups(default="")  # type: ignore[union-attr]
    if not any(sign in path for sign in "*?["):
        # A name without wildcards, such as tiny@early, matches itself.
        yield pattern
        return
    for file in glob.glob(path, recursive=True):
        yield f"{before}{file}"


def _search(options: argparse.Namespace) -> BisectRequest:
    from pytest_vla.gate.verdicts import Terms

    for text in options.options:
        if (name := text.partition("=")[0]) in _OURS:
            raise VlaError(f"{name} is set by bisect for each run. Leave it out of pytest's options")
    if not options.options:
        raise VlaError("expected pytest's options after --, such as: -- --vla-suite=tabletop --vla-episodes=10")
    terms = Terms(options.margin, ALPHA, tuple(name.strip() for name in options.by.split(",")), options.regression)
    models = models_of(options.good, options.bad, options.models)
    return BisectRequest(models, tuple(options.options), options.baseline, terms, options.rule, options.results)


def _whole_run(search: BisectRequest, model: str) -> str:
    """Return the folder of a run of all cases; start the run, or resume it if it is incomplete."""
    folder = _folder(search, model, ())
    found = _newest(folder)
    if _lacking(folder, found):
        _call(search, model, folder, (), found)
        found = _newest(folder)
    if found is None or (lacking := _lacking(folder, found)):
        told = "pytest ended before all episodes had run" if found is None else lacking
        raise VlaError(f"{model}: {told}. Run the same command again to resume")
    return str(folder / found.name)


def _lacking(folder: Path, run: "Run | None") -> str:
    """Return why a run cannot be a baseline, or an empty text if it can."""
    from pytest_vla.records.store import open_store

    if run is None or run.done < run.planned:
        return "pytest ended before all episodes had run"
    with open_store(folder, create=False) as store:
        broken = [record.reason for record in store.records(run.name) if record.outcome == "error"]
    if not broken:
        return ""
    return f"{len(broken)} of its {run.planned} episodes ended as errors ({', '.join(sorted(set(map(str, broken))))})"


def _finding(search: BisectRequest, model: str, baseline: str) -> "tuple[Finding, str]":
    """Return the gate's finding for a checkpoint, and the numbers behind it."""
    from pytest_vla.reports.gates import group_reason

    gate = (
        f"--vla-baseline={baseline}",
        f"--vla-gate={search.rule}",
        f"--vla-margin={search.terms.margin:g}",
        f"--vla-regression={search.terms.regression}",
        f"--vla-gate-by={','.join(search.terms.by)}",
    )
    folder = _folder(search, model, gate)
    found = _newest(folder)
    judgement = None
    if found is not None:
        # A stopped run cannot be judged, and is resumed below.
        with suppress(VlaError):
            judgement = _judged(search, folder, found, baseline)
    if judgement is None:
        _call(search, model, folder, gate, found)
        found = _newest(folder)
        if found is None:
            raise VlaError(f"{model}: pytest ended before the first episode")
        try:
            judgement = _judged(search, folder, found, baseline)
        except VlaError as error:
            raise VlaError(f"{model}: {error}\nRun the same command again to resume") from error
    if judgement.verdict not in FINDINGS:
        reasons = "; ".join(f"{group.name}: {group_reason(group, judgement)}" for group in judgement.groups)
        raise VlaError(f"{model} cannot be compared with {baseline}: {reasons}")
    meant = [group for group in judgement.groups if group.verdict == judgement.verdict]
    return FINDINGS[judgement.verdict], "; ".join(f"{group.name} {group_reason(group, judgement)}" for group in meant)


def _judged(search: BisectRequest, folder: Path, run: "Run", baseline: str) -> "GateJudgement":
    """Return the gate's judgement of a run. Raises VlaError if the run was stopped early."""
    from pytest_vla.gate.manifest import read_manifest
    from pytest_vla.gate.sequential import judge_as_agreed
    from pytest_vla.gate.verdicts import judge
    from pytest_vla.records.store import open_store
    from pytest_vla.reports.baselines import baseline_named, baseline_of_runs

    new, _ = baseline_of_runs([run.name], folder, allow_broken=True, allow_decided=True)
    good, manifest = baseline_named(baseline, search.results), read_manifest(run.invocation)
    if manifest is None or not manifest.is_sequential:
        return judge(good, new, search.terms)
    with open_store(folder, create=False) as store:
        nodes = [item.node for item in store.items(run.name) if item.episode]
    return judge_as_agreed(manifest, good, new, nodes)


def _call(search: BisectRequest, model: str, folder: Path, gate: Sequence[str], before: "Run | None") -> None:
    """Run pytest on a checkpoint, or resume its stopped run. Raises VlaError if pytest fails."""
    fresh = [*search.options, f"--vla-model={model}", *gate]
    # The selection is stored with the run; options such as -n are not, and are given again.
    again = ["--vla-resume", f"--vla-model={model}", *_given_again(search.options)]
    options = fresh if before is None else again
    command = [sys.executable, "-m", "pytest", *options, f"--vla-results={folder}"]
    print(f"bisect: $ {shlex.join(['pytest', *command[3:]])}", flush=True)
    with subprocess.Popen(command) as process:
        try:
            ended = process.wait()
        except KeyboardInterrupt:
            # pytest gets the same Ctrl-C, and keeps the finished episodes.
            process.wait()
            raise
    if ended not in (0, 1):
        raise VlaError(f"{model}: pytest exited with code {ended}; see its output above")


def _given_again(options: Sequence[str]) -> list[str]:
    """Return the pytest options that a run does not store: plugins, workers and verbosity."""
    found = []
    for text, after in zip(options, [*options[1:], ""], strict=True):
        if text in ("-n", "--numprocesses", "-p"):
            found += [text, after]
        elif re.match(r"-n.|--numprocesses=|--dist=|-p.|-q|-v|--quiet|--verbose", text):
            found.append(text)
    return found


_SHOWN_BY = r"--(?:color|code-highlight|tb|show-capture|verbosity)"
_DISPLAY = rf"-[qv]+|--quiet|--verbose|--no-header|--no-summary|-r[a-zA-Z]+|{_SHOWN_BY}=.*"
"""Options of pytest that change only what is shown; the values of some may be the next word."""


def _decisive(options: Sequence[str]) -> list[str]:
    """Return the pytest options without those that change only what is shown, so that runs are found again."""
    return [
        text
        for before, text in zip(["", *options], options, strict=False)
        if not re.fullmatch(rf"{_DISPLAY}|{_SHOWN_BY}|-r", text) and not re.fullmatch(rf"{_SHOWN_BY}|-r", before)
    ]


def _folder(search: BisectRequest, model: str, gate: Sequence[str]) -> Path:
    """Return the results folder of a checkpoint, which depends on its weights, the pytest options and the gate."""
    from pytest_vla.policies.load import policy_digest
    from pytest_vla.policies.spec import ModelSpec

    weights = policy_digest(ModelSpec(model, Path.cwd()))
    said = "\n".join([model, str(weights), *_decisive(search.options), *gate])
    plain = re.sub(r"[^A-Za-z0-9]+", "-", model).strip("-")[-40:]
    return search.results / FOLDER / f"{plain}-{hashlib.sha256(said.encode()).hexdigest()[:8]}"


def _newest(folder: Path) -> "Run | None":
    from pytest_vla.records.store import open_store

    if not folder.is_dir():
        return None
    with open_store(folder, create=True) as store:
        runs = store.runs()
    return runs[0] if runs else None


COMMAND = Command(declare, run, trouble=2)


# The search for the first regressed checkpoint: bisection by the verdicts of gates.
#
# It assumes that checkpoints are good up to one of them and bad from it on, as ``git bisect`` does of commits. A
# checkpoint with an undecided gate is skipped, and remains a suspect.

Finding = Literal["good", "bad", "undecided"]

FINDINGS: dict[str, Finding] = {
    "better": "good",
    "no worse": "good",
    "regression": "bad",
    "undecided": "undecided",
}
"""The finding for each `pytest_vla.gate.choices.Verdict`, except not comparable."""


def in_order(names: Iterable[str]) -> list[str]:
    """Return each name once, sorted with numbers by value: ``step-800`` before ``step-12000``."""
    # Equal values, such as 0 and 00, by their texts: the order is the same whatever order they come in.
    return sorted(dict.fromkeys(names), key=lambda name: (numbers_in_order(name), name))


def suspects(found: Mapping[int, Finding]) -> range:
    """Return the positions of the checkpoints that may be the first bad one.

    Args:
        found: the findings so far, by position; at least one is good, and a later one bad.

    Raises:
        ValueError: no good checkpoint precedes a bad one.
    """
    bad = min((place for place, finding in found.items() if finding == "bad"), default=None)
    good = max(
        (place for place, finding in found.items() if finding == "good" and (bad is None or place < bad)), default=None
    )
    if bad is None or good is None:
        raise ValueError("expected a good checkpoint before a bad one")
    return range(good + 1, bad + 1)


def next_to_try(found: Mapping[int, Finding]) -> int | None:
    """Return the position of the untried suspect nearest to the middle, or None if none is left between good and bad.

    Args:
        found: the findings so far, as in `suspects`.

    Raises:
        ValueError: no good checkpoint precedes a bad one.
    """
    left = suspects(found)
    # The last suspect is known to be bad.
    open_ = [place for place in left[:-1] if place not in found]
    middle = (left.start + left.stop - 2) / 2
    return min(open_, key=lambda place: (abs(place - middle), place), default=None)


def at_most(checkpoints: int) -> int:
    """Return how many gates find the first bad one of so many suspects, if no gate is undecided."""
    return (checkpoints - 1).bit_length()
