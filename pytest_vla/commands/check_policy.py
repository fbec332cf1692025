"""``pytest-vla check-policy``: a policy against suites, by what it says of itself, by trial, and how long it takes."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_vla.entries import Command
from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.run.arguments import Joined, comma_list
from pytest_vla.run.hourly import (
    Hourly,
    Machines,
    declare_hourly,
    foreseen,
    hourly_table,
    hourly_text,
    machines_of,
)
from pytest_vla.util.live_line import progress
from pytest_vla.util.text import printable

if TYPE_CHECKING:
    from pytest_vla.plan.suite import Suite
    from pytest_vla.policies.base import BatchPolicy, Policy
    from pytest_vla.policies.fit import Finding
    from pytest_vla.policies.traits import Traits
    from pytest_vla.policies.trial import Latency

# What the command needs is imported when it runs: --help has to come at once.

DEFAULT_SUITE = "tabletop"
DEFAULT_SIZES = (1, 2, 4, 8, 16, 32)

_SERVED = ("openpi", "vla-eval")


@dataclass(frozen=True)
class Fit:
    """A policy against one suite.

    Attributes:
        suite: its name.
        findings: by what the policy says of itself, then by trial.
        untried: why nothing was asked; empty: it was asked.
    """

    suite: str
    findings: tuple["Finding", ...]
    untried: str = ""


@dataclass(frozen=True)
class Report:
    """What was found.

    Attributes:
        model: the text of ``--vla-model``.
        traits: what the policy says of itself.
        fits: of each suite.
        max_batch: questions that it takes at once; None: it takes one at a time.
        device: where its weights are; None: it does not say.
        latencies: of each batch size that was measured.
        trouble: what ended the measurement early; empty: nothing did.
        hourly: what is foreseen of each suite that the policy answered.
        costs: of worlds, seconds by name, as far as they were given for that.
    """

    model: str
    traits: "Traits"
    fits: tuple[Fit, ...]
    max_batch: int | None = None
    device: str | None = None
    latencies: tuple["Latency", ...] = ()
    trouble: str = ""
    hourly: tuple[Hourly, ...] = ()
    costs: Mapping[str, float] = field(default_factory=dict)

    @property
    def errors(self) -> dict[str, list[str]]:
        """Of each suite that the policy does not fit, the codes of severity error."""
        found = {fit.suite: [each.code for each in fit.findings if each.severity == "error"] for fit in self.fits}
        return {suite: list(dict.fromkeys(codes)) for suite, codes in found.items() if codes}


def declare(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = (
        "It prints what the policy says of itself, what does not fit each suite, what a few dozen questions with drawn "
        "pictures show, how long answers take, and how many episodes an hour may be had. No world is made, and no data "
        "is needed. The exit code is 0 where there are at most warnings, else 1. A policy says of itself what it wants "
        "in an attribute `traits`, see pytest_vla.policies.traits."
    )
    parser.add_argument("--vla-model", metavar="POLICY", help="as pytest's")
    parser.add_argument(
        "--vla-suite",
        metavar="NAME[,NAME]",
        type=comma_list,
        action=Joined,
        default=(DEFAULT_SUITE,),
        help=f"as pytest's (default: {DEFAULT_SUITE})",
    )
    parser.add_argument("--vla-device", metavar="DEVICE", help="as pytest's, one device (default: auto)")
    parser.add_argument(
        "--batch",
        metavar="N[,N]",
        type=_sizes,
        default=DEFAULT_SIZES,
        help="questions at once that the time is taken of, where the policy batches (default: "
        f"{','.join(map(str, DEFAULT_SIZES))})",
    )
    declare_hourly(parser)
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--codes", action="store_true", help="print all codes with their meanings, and do nothing else")


def run(options: argparse.Namespace) -> None:
    """Do what the arguments say. Raises VlaError: the policy cannot be loaded, or does not fit a suite."""
    from pytest_vla.plan.manifests import load_suite, named_suites
    from pytest_vla.policies.load import check_model, load_policy
    from pytest_vla.run.project import typed_model

    if options.codes:
        print(codes_json() if options.json else "\n".join(codes_table()))
        return
    if options.vla_model is None:
        raise VlaError(
            "which policy? Add --vla-model=POLICY, such as --vla-model=my_policy:policy (--codes needs none)"
        )
    suites = [load_suite(name) for text in options.vla_suite for name in named_suites(text)]
    spec = typed_model(options.vla_model, options.vla_device)
    # What a policy prints is not the report.
    with progress(sys.stderr) as told, redirect_stdout(sys.stderr):
        told(f"loading {spec.text}")
        check_model(spec)
        report = check(load_policy(spec), spec.text, suites, options.batch, machines_of(options), told=told)
    print(json.dumps(as_table(report), indent=2) if options.json else "\n".join(as_text(report)))
    if report.errors:
        # Written to another stream.
        sys.stdout.flush()
        listed = "; ".join(f"{suite} ({', '.join(codes)})" for suite, codes in report.errors.items())
        raise VlaError(f"{spec.text} does not fit {listed}")


def check(
    policy: "Policy | BatchPolicy",
    model: str,
    suites: Sequence["Suite"],
    sizes: Sequence[int] = DEFAULT_SIZES,
    machines: Machines | None = None,
    *,
    told: Callable[[str], None] = lambda line: None,
) -> Report:
    """A loaded policy against suites.

    Args:
        policy: which.
        model: the text of ``--vla-model`` that it was loaded from.
        suites: at least one.
        sizes: questions at once to measure.
        machines: that episodes an hour are foreseen for; None: for none.
        told: called with what is done next.

    Raises:
        VlaError: what the policy says of itself cannot be understood.
    """
    from pytest_vla.policies import fit, trial
    from pytest_vla.policies.base import is_batch_policy
    from pytest_vla.policies.traits import traits_of

    traits, kind = traits_of(policy), model.partition(":")[0]
    untried = ""
    if getattr(policy, "privileged", False):
        untried = "the policy looks at the simulator itself, which is not here"
    elif kind == "replay":
        untried = "recorded actions belong to their episodes"
    fits, answering = [], []
    for suite in suites:
        found = fit.check_fit(traits, suite)
        why = untried
        if not why and any(each.code == fit.OBSERVATION.name for each in found):
            why = "it would miss what it reads"
        if not why:
            shown = trial.try_policy(policy, suite, served=kind in _SERVED, told=told)
            if not {each.code for each in shown} & {code.name for code in (fit.ANSWER, fit.NOT_FINITE, fit.RAISES)}:
                answering.append(suite)
            found += shown
        fits.append(Fit(suite.name, found, why))
    latencies, trouble = [], ""
    if answering:
        try:
            for latency in trial.measure(policy, answering[0], sizes, told=told):
                latencies.append(latency)
        except EpisodeError as error:
            trouble = str(error)
    hourly: tuple[Hourly, ...] = ()
    if latencies and machines is not None:
        told("foreseeing episodes an hour")
        how = {"is_served": kind in _SERVED, "breaks": bool(trouble)}
        hourly = tuple(foreseen(policy, each, latencies, machines, **how) for each in answering)
    most = policy.max_batch if is_batch_policy(policy) else None
    device = getattr(policy, "device", None)
    where, costs = None if device is None else str(device), {} if machines is None else machines.costs
    return Report(model, traits, tuple(fits), most, where, tuple(latencies), trouble, hourly, costs)


def as_text(report: Report) -> Iterator[str]:
    """A report for people, line by line."""
    said = ", ".join(f"{name} {_shown(value)}" for name, value in report.traits.table().items())
    yield printable(
        f"{report.model} says of itself: {said or 'nothing, so that only a trial can show what does not fit'}"
    )
    for fit in report.fits:
        yield ""
        yield f"{fit.suite}: {_counted(fit.findings)}"
        for each in fit.findings:
            yield f"  {each.severity:7}  {each}"
        if fit.untried:
            yield f"  no trial: {fit.untried}"
    if report.latencies or report.trouble:
        yield ""
        where = printable(f"  on {report.device}") if report.device else ""
        yield f"{'at once':>7}  {'median':>10}  {'slowest':>10}  {'actions/s':>10}{where}"
    for latency in report.latencies:
        median, slowest = (
            f"{1000 * seconds:.{1 if seconds > 0.01 else 3}f} ms" for seconds in (latency.median, latency.slowest)
        )
        yield f"{latency.batch:>7}  {median:>10}  {slowest:>10}  {latency.actions:>10.0f}"
    if report.trouble:
        yield printable(f"then {report.trouble}")
    elif report.latencies and (report.max_batch or 1) == 1:
        yield "It takes one question at a time."
    for hourly in report.hourly:
        yield ""
        yield from hourly_text(hourly, report.costs)


def as_table(report: Report) -> dict[str, Any]:
    """A report for programs: tables, lists, texts and numbers."""
    return {
        "model": report.model,
        "traits": report.traits.table(),
        "suites": [
            {"suite": fit.suite, "findings": [asdict(each) for each in fit.findings], "untried": fit.untried or None}
            for fit in report.fits
        ],
        "max_batch": report.max_batch,
        "device": report.device,
        "latency": [
            {
                "batch": latency.batch,
                "median_ms": round(1000 * latency.median, 3),
                "slowest_ms": round(1000 * latency.slowest, 3),
                "actions_per_second": round(latency.actions, 1),
            }
            for latency in report.latencies
        ],
        "latency_ended": report.trouble or None,
        "hourly": [hourly_table(each, report.costs) for each in report.hourly],
    }


def codes_table() -> Iterator[str]:
    """All codes, line by line."""
    from pytest_vla.policies.fit import CODES

    for code in CODES.values():
        yield f"{code.name}  {code.severity:7}  {code.meaning}"
        yield f"{'':19}{code.mend[0].upper()}{code.mend[1:]}."


def codes_json() -> str:
    """All codes for programs."""
    from pytest_vla.policies.fit import CODES

    return json.dumps([asdict(code) for code in CODES.values()], indent=2)


def _counted(findings: Sequence["Finding"]) -> str:
    numbers = {severity: sum(each.severity == severity for each in findings) for severity in ("error", "warning")}
    words = [f"{number} {severity}{'s' if number > 1 else ''}" for severity, number in numbers.items() if number]
    return ", ".join(words) or "no findings"


def _sizes(text: str) -> tuple[int, ...]:
    sizes = comma_list(text)
    for size in sizes:
        if not (size.isascii() and size.isdecimal() and 1 <= int(size) <= 9999):
            raise argparse.ArgumentTypeError(f"{size!r} is not a number of questions, 1 to 9999")
    return tuple(sorted({int(size) for size in sizes}))


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(str, value[:5]))}{f', and {len(value) - 5} more' if len(value) > 5 else ''}]"
    return repr(value) if isinstance(value, str) else str(value)


COMMAND = Command(declare, run)
