"""``pytest-vla check-policy``: check whether a policy fits suites, by its traits and a trial, and its latency."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pytest_vla.entries import Command
from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.task import OWN_EVALUATOR
from pytest_vla.run.arguments import JoinAction, comma_list
from pytest_vla.util.live_line import output_aside, progress
from pytest_vla.util.text import printable

if TYPE_CHECKING:
    from pytest_vla.plan.manifests import Suite
    from pytest_vla.policies.base import BatchPolicy, Policy
    from pytest_vla.policies.fit import FitFinding, Traits
    from pytest_vla.policies.trial import Latency
    from pytest_vla.serving.throughput import EpisodeDemand, Forecast


# The forecast of episodes per hour, by number of workers, for this machine and for sixteen cores.

WORKERS = (1, 8, 16, 32)
CORES_OF_A_SERVER = 16

UNEVEN = 2.0
"""The ratio of the slowest answer to the median from which on the time is said to depend on the question."""

SLOW_SECONDS = 5.0
"""Seconds of one question from which on the duration of an episode is reported."""


@dataclass(frozen=True)
class Machines:
    """The machines that a forecast of episodes per hour is made for.

    Attributes:
        workers: numbers of workers.
        cores: numbers of CPU cores.
        costs: seconds of a core per step, picture or reset, by that name; only those that the user gave.
    """

    workers: tuple[int, ...]
    cores: tuple[int, ...]
    costs: Mapping[str, float]


@dataclass(frozen=True)
class Hourly:
    """The forecast of episodes per hour for one suite.

    Attributes:
        suite: the suite's name.
        plan: the demand of one episode, or None if it is not known.
        forecasts: one for each pair of cores and workers, sorted by cores, then by workers.
        notes: remarks for the reader.
    """

    suite: str
    plan: "EpisodeDemand | None"
    forecasts: tuple["Forecast", ...]
    notes: tuple[str, ...]


def declare_hourly(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the forecast of episodes per hour."""
    parser.add_argument(
        "--workers",
        metavar="N[,N]",
        type=_numbers,
        default=WORKERS,
        help=f"numbers of workers to forecast episodes per hour for (default: {','.join(map(str, WORKERS))})",
    )
    parser.add_argument(
        "--cores",
        metavar="N[,N]",
        type=_numbers,
        help=f"numbers of CPU cores to forecast for (default: this machine's, and {CORES_OF_A_SERVER})",
    )
    for name, what in (
        ("step", "of a control step"),
        ("picture", "of a picture"),
        ("reset", "of a reset with settling"),
    ):
        parser.add_argument(
            f"--{name}-ms",
            metavar="MS",
            type=_milliseconds,
            help=f"core time {what} in the forecast (default: measured on another machine)",
        )


def machines_of(options: argparse.Namespace) -> Machines:
    """Return the machines that the command line names."""
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    typed = {name: getattr(options, f"{name}_ms") for name in ("step", "picture", "reset")}
    costs = {name: value / 1000 for name, value in typed.items() if value is not None}
    return Machines(options.workers, options.cores or tuple(sorted({here, CORES_OF_A_SERVER})), costs)


def forecast_hourly(
    policy: object,
    suite: "Suite",
    latencies: Sequence["Latency"],
    machines: Machines,
    *,
    is_served: bool,
    breaks: bool = False,
) -> Hourly:
    """Forecast the episodes per hour of one suite.

    Args:
        policy: the policy that was measured.
        suite: the suite.
        latencies: one for each batch size, at least one.
        machines: workers and cores.
        is_served: whether the policy answers from another process.
        breaks: whether the policy failed at a batch larger than those in `latencies`.
    """
    from pytest_vla.policies.base import is_batch_policy
    from pytest_vla.policies.devices import DEFAULT_BATCH, REQUEST_TIMEOUT
    from pytest_vla.serving.throughput import forecast, forecast_alone

    plan, why = _plan(policy, suite, latencies[0], machines.costs)
    if plan is None:
        return Hourly(suite.name, None, (), (f"no forecast: {why}",))
    notes = []
    if uneven := [each for each in latencies if each.slowest > UNEVEN * each.median and each.slowest > 0.005]:
        worst = max(uneven, key=lambda each: each.slowest / each.median)
        notes.append(
            f"{worst.batch} at once took {_ms(worst.median)} to {_ms(worst.slowest)} ms. If the time depends on the "
            "question, the forecast is rough"
        )
    alone = latencies[0]
    if alone.mean >= SLOW_SECONDS:
        minutes = plan.questions * (alone.mean + plan.thinking) / 60
        notes.append(f"slow: an episode of {plan.questions} questions takes {minutes:.0f} min")
    if max(each.slowest for each in latencies) >= REQUEST_TIMEOUT:
        notes.append(f"slower than --vla-policy-timeout ({REQUEST_TIMEOUT:g} s): episodes would end as errors")
    device = str(getattr(policy, "device", "cpu"))
    if is_served:
        why = "no forecast: the server's throughput with several workers is not known"
        return Hourly(suite.name, plan, (), (*notes, why))
    numbers = [(each, some) for each in machines.cores for some in machines.workers]
    if is_batch_policy(policy):
        times, most = {each.batch: each.mean for each in latencies}, min(policy.max_batch, DEFAULT_BATCH)
        if breaks and max(times) < most:
            most = max(times)
            notes.append(f"forecast for batches of at most {most}, since larger ones failed")
        found = [forecast(plan, times, most, some, each) for each, some in numbers]
    elif device.startswith("cpu"):
        found = [forecast_alone(plan, alone.mean, some, each) for each, some in numbers]
        notes.append("each worker has its own policy, which computes on the worker's core")
    else:
        why = f"no forecast: each worker loads the policy to {device}, where they compete"
        return Hourly(suite.name, plan, (), (*notes, why))
    return Hourly(suite.name, plan, tuple(found), tuple(notes))


def _plan(
    policy: object, suite: "Suite", alone: "Latency", costs: Mapping[str, float]
) -> "tuple[EpisodeDemand | None, str]":
    from pytest_vla.policies.devices import AUTO, resolved
    from pytest_vla.serving.throughput import IN_SOFTWARE, ON_A_GPU, EpisodeDemand

    if len(costs) < 3 and any(task.world is not None for task in suite.tasks):
        return None, "the times of its own world are not known. Give --step-ms, --picture-ms and --reset-ms"
    reads = getattr(policy, "reads", None)
    pictures = {f"{camera}_image" for camera in suite.protocol.cameras}
    read = pictures if reads is None else pictures & {*reads}
    assumed = IN_SOFTWARE if resolved(AUTO) == "cpu" else ON_A_GPU
    return EpisodeDemand(suite.protocol.max_steps, alone.executed, len(read), replace(assumed, **costs)), ""


def hourly_text(hourly: Hourly, given: Mapping[str, float]) -> Iterator[str]:
    """Yield the lines of a forecast for the terminal."""
    from pytest_vla.reports.text import aligned, wrapped

    plan = hourly.plan
    if plan is not None and hourly.forecasts:
        costs = asdict(plan.costs)
        said = ", ".join(f"a {name} {1000 * costs[name]:.3g} ms{'' if name in given else '*'}" for name in costs)
        yield from wrapped(
            f"{hourly.suite}: forecast of episodes per hour, for {plan.steps} steps, {plan.questions} questions, "
            f"{plan.pictures} picture{'s' * (plan.pictures != 1)} each; {said}"
        )
        cores = dict.fromkeys(each.cores for each in hourly.forecasts)
        rows = [["workers", *(text for each in cores for text in (f"{each} cores", "scarce"))]]
        for workers in dict.fromkeys(each.workers for each in hourly.forecasts):
            some = [each for each in hourly.forecasts if each.workers == workers]
            told = [text for each in some for text in (f"{each.episodes_per_hour:.0f}", each.scarce)]
            rows.append([str(workers), *told])
        yield from (f"  {line}" for line in aligned(rows, 0))
        if given.keys() != costs.keys():
            yield "  * measured on another machine. Set your own by --step-ms, --picture-ms and --reset-ms"
    for note in hourly.notes:
        yield from wrapped(f"{'' if hourly.forecasts else f'{hourly.suite}: '}{note}")


def hourly_table(hourly: Hourly, given: Mapping[str, float]) -> dict[str, Any]:
    """Return a forecast for JSON."""
    plan = hourly.plan
    return {
        "suite": hourly.suite,
        "assumed": None
        if plan is None
        else {
            "steps": plan.steps,
            "questions": plan.questions,
            "pictures": plan.pictures,
            **{f"{name}_ms": round(1000 * value, 3) for name, value in asdict(plan.costs).items()},
            "given": sorted(given),
        },
        "foreseen": [
            {
                "workers": each.workers,
                "cores": each.cores,
                "episodes_per_hour": round(each.episodes_per_hour, 1),
                "device_busy": round(each.device_busy, 3),
                "cores_busy": round(each.cores_busy, 3),
                "scarce": each.scarce,
            }
            for each in hourly.forecasts
        ],
        "notes": list(hourly.notes),
    }


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f}" if seconds >= 0.01 else f"{1000 * seconds:.2g}"


def _numbers(text: str) -> tuple[int, ...]:
    numbers = [each.strip() for each in text.split(",")]
    for each in numbers:
        if not (each.isascii() and each.isdecimal() and 1 <= int(each) <= 1024):
            raise argparse.ArgumentTypeError(f"{each!r} is not a number from 1 to 1024")
    return tuple(sorted({int(each) for each in numbers}))


def _milliseconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 60_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of milliseconds from 0 to 60000")
    return value


# Heavy imports are inside the functions, so that --help is fast.

DEFAULT_SUITE = "tabletop"
DEFAULT_SIZES = (1, 2, 4, 8, 16, 32)

_SERVED = ("openpi", "vla-eval", "groot", "groot-n1.5", "x-vla", "starvla")


@dataclass(frozen=True)
class Fit:
    """The fit of a policy to one suite.

    Attributes:
        suite: the suite's name.
        findings: those from the policy's traits, then those from the trial.
        untried: why the trial was skipped, or empty if it ran.
    """

    suite: str
    findings: tuple["FitFinding", ...]
    untried: str = ""


@dataclass(frozen=True)
class Report:
    """The result of checking a policy.

    Attributes:
        model: the text of ``--vla-model``.
        traits: the policy's declared traits.
        fits: one for each suite.
        max_batch: the largest batch that the policy answers, or None if it answers one question at a time.
        device: the device of its weights, or None if the policy does not declare it.
        latencies: one for each batch size that was measured.
        trouble: the error that ended the measurement early, or empty.
        hourly: a forecast for each suite that the policy answered.
        costs: seconds of a core per step, picture or reset, as far as the user gave them.
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
        """The codes of severity error, by suite; suites without errors are left out."""
        found = {fit.suite: [each.code for each in fit.findings if each.severity == "error"] for fit in self.fits}
        return {suite: list(dict.fromkeys(codes)) for suite, codes in found.items() if codes}


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.epilog = (
        "Prints the policy's traits, mismatches with each suite, the results of a trial of a few dozen questions with "
        "random pictures, latencies, and a forecast of episodes per hour. No world is built, and no data is needed. A "
        "policy declares its traits in an attribute `traits`, see pytest_vla.policies.fit. Exit code: 0 without errors "
        "(warnings are allowed), else 1."
    )
    parser.add_argument(
        "--vla-model", metavar="POLICY", help="policy to check, as for pytest (required without --codes)"
    )
    parser.add_argument(
        "--vla-suite",
        metavar="NAME[,NAME]",
        type=comma_list,
        action=JoinAction,
        default=(DEFAULT_SUITE,),
        help=f"suites to check it against, as for pytest (default: {DEFAULT_SUITE})",
    )
    parser.add_argument(
        "--vla-evaluator",
        metavar="NAME|FILE",
        help="published evaluator whose protocol the policy has to fit, as for pytest (default: each suite's own)",
    )
    parser.add_argument(
        "--vla-device", metavar="DEVICE", help="device of the policy, as for pytest, but only one (default: auto)"
    )
    parser.add_argument(
        "--batch",
        metavar="N[,N]",
        type=_sizes,
        default=DEFAULT_SIZES,
        help="batch sizes to measure latencies at, if the policy answers in batches (default: "
        f"{','.join(map(str, DEFAULT_SIZES))})",
    )
    declare_hourly(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--codes", action="store_true", help="print all codes with their meanings, and exit")


def run(options: argparse.Namespace) -> None:
    """Check the policy and print the report. Raises VlaError: the policy cannot be loaded, or does not fit a suite."""
    from pytest_vla.plan.evaluators import load_evaluator
    from pytest_vla.plan.manifests import load_suite, named_suites, suite_with
    from pytest_vla.policies.load import check_model, load_policy
    from pytest_vla.run.project import typed_model

    if options.codes:
        print(codes_json() if options.json else "\n".join(codes_table()))
        return
    if options.vla_model is None:
        raise VlaError(
            "which policy? Add --vla-model=POLICY, such as --vla-model=my_policy:policy (not needed with --codes)"
        )
    evaluator = load_evaluator(options.vla_evaluator or OWN_EVALUATOR)
    names = (name for text in options.vla_suite for name in named_suites(text))
    suites = [suite_with(load_suite(name), evaluator.task) for name in names]
    spec = typed_model(options.vla_model, options.vla_device)
    # The policy's own output must not mix with the report.
    with progress(sys.stderr) as told, output_aside():
        told(f"loading {spec.text}")
        check_model(spec)
        report = check(load_policy(spec), spec.text, suites, options.batch, machines_of(options), told=told)
    print(json.dumps(as_table(report), indent=2) if options.json else "\n".join(as_text(report)))
    if report.errors:
        # The error goes to another stream.
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
    """Check a loaded policy against suites.

    Args:
        policy: the policy.
        model: the text of ``--vla-model`` that it was loaded from.
        suites: at least one.
        sizes: the batch sizes to measure.
        machines: the machines to forecast episodes per hour for, or None for no forecast.
        told: called with a line about each next step.

    Raises:
        VlaError: the policy's declared traits cannot be understood.
    """
    from pytest_vla.policies import fit, trial
    from pytest_vla.policies.base import is_batch_policy
    from pytest_vla.policies.fit import traits_of

    traits, kind = traits_of(policy), model.partition(":")[0]
    untried = ""
    if getattr(policy, "privileged", False):
        untried = "the policy reads the simulator's state, which does not exist here"
    elif kind == "replay":
        untried = "recorded actions belong to their episodes"
    fits, answering = [], []
    for suite in suites:
        suite = replace(suite, protocol=fit.controlled(suite.protocol, traits))
        found = fit.check_fit(traits, suite)
        why = untried
        if not why and any(each.code == fit.OBSERVATION.name for each in found):
            why = "the suite lacks observations that the policy reads"
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
        told("computing the forecast")
        how = {"is_served": kind in _SERVED, "breaks": bool(trouble)}
        hourly = tuple(forecast_hourly(policy, each, latencies, machines, **how) for each in answering)
    most = policy.max_batch if is_batch_policy(policy) else None
    device = getattr(policy, "device", None)
    where, costs = None if device is None else str(device), {} if machines is None else machines.costs
    return Report(model, traits, tuple(fits), most, where, tuple(latencies), trouble, hourly, costs)


def as_text(report: Report) -> Iterator[str]:
    """Yield the lines of a report for the terminal."""
    said = ", ".join(f"{name} {_shown(value)}" for name, value in report.traits.table().items())
    yield printable(f"{report.model} declares: {said or 'nothing, so only the trial can find mismatches'}")
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
        yield "The policy answers one question at a time."
    for hourly in report.hourly:
        yield ""
        yield from hourly_text(hourly, report.costs)


def as_table(report: Report) -> dict[str, Any]:
    """Return a report for JSON: tables, lists, texts and numbers."""
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
    """Yield the lines of all codes, with their meanings and cures."""
    from pytest_vla.policies.fit import CODES

    for code in CODES.values():
        yield f"{code.name}  {code.severity:7}  {code.meaning}"
        yield f"{'':19}{code.mend[0].upper()}{code.mend[1:]}."


def codes_json() -> str:
    """Return all codes as JSON text."""
    from pytest_vla.policies.fit import CODES

    return json.dumps([asdict(code) for code in CODES.values()], indent=2)


def _counted(findings: Sequence["FitFinding"]) -> str:
    numbers = {severity: sum(each.severity == severity for each in findings) for severity in ("error", "warning")}
    words = [f"{number} {severity}{'s' if number > 1 else ''}" for severity, number in numbers.items() if number]
    return ", ".join(words) or "no findings"


def _sizes(text: str) -> tuple[int, ...]:
    sizes = comma_list(text)
    for size in sizes:
        if not (size.isascii() and size.isdecimal() and 1 <= int(size) <= 9999):
            raise argparse.ArgumentTypeError(f"{size!r} is not a number of questions from 1 to 9999")
    return tuple(sorted({int(size) for size in sizes}))


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(str, value[:5]))}{f', and {len(value) - 5} more' if len(value) > 5 else ''}]"
    return repr(value) if isinstance(value, str) else str(value)


COMMAND = Command(declare, run)
