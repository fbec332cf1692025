"""What ``pytest-vla check-policy`` foresees: episodes an hour by number of workers, here and on sixteen cores."""

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_vla.plan.suite import Suite
    from pytest_vla.policies.trial import Latency
    from pytest_vla.serving.forecast import Forecast, Plan

WORKERS = (1, 8, 16, 32)
CORES_OF_A_SERVER = 16

UNEVEN = 2.0
"""Times the median, that the slowest answer takes where time depends on the question."""

SLOW_SECONDS = 5.0
"""Of one question, from which on people should know what an episode takes."""


@dataclass(frozen=True)
class Machines:
    """What episodes an hour are foreseen for.

    Attributes:
        workers, cores: numbers of them.
        costs: of worlds, seconds by name, as far as they are given.
    """

    workers: tuple[int, ...]
    cores: tuple[int, ...]
    costs: Mapping[str, float]


@dataclass(frozen=True)
class Hourly:
    """What is foreseen of a suite.

    Attributes:
        suite: its name.
        plan: of an episode; None: it is not known.
        forecasts: by cores, then by workers.
        notes: what a reader has to know.
    """

    suite: str
    plan: "Plan | None"
    forecasts: tuple["Forecast", ...]
    notes: tuple[str, ...]


def declare_hourly(parser: argparse.ArgumentParser) -> None:
    """The options of it."""
    parser.add_argument(
        "--workers",
        metavar="N[,N]",
        type=_numbers,
        default=WORKERS,
        help=f"numbers of workers whose episodes an hour are foreseen (default: {','.join(map(str, WORKERS))})",
    )
    parser.add_argument(
        "--cores",
        metavar="N[,N]",
        type=_numbers,
        help=f"of the machines that they are foreseen for (default: this one's, and {CORES_OF_A_SERVER})",
    )
    for name, what in (
        ("step", "a control step takes"),
        ("picture", "a picture takes"),
        ("reset", "a reset takes, with settling"),
    ):
        parser.add_argument(
            f"--{name}-ms",
            metavar="MS",
            type=_milliseconds,
            help=f"of a core, that {what}, instead of what was measured elsewhere",
        )


def machines_of(options: argparse.Namespace) -> Machines:
    """What was typed."""
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    typed = {name: getattr(options, f"{name}_ms") for name in ("step", "picture", "reset")}
    costs = {name: value / 1000 for name, value in typed.items() if value is not None}
    return Machines(options.workers, options.cores or tuple(sorted({here, CORES_OF_A_SERVER})), costs)


def foreseen(
    policy: object,
    suite: "Suite",
    latencies: Sequence["Latency"],
    machines: Machines,
    *,
    is_served: bool,
    breaks: bool = False,
) -> Hourly:
    """Episodes an hour of a suite.

    Args:
        policy: that was measured.
        suite: which.
        latencies: of each size; not empty.
        machines: workers and cores.
        is_served: whether another machine answers.
        breaks: whether it broke where more were asked at once than `latencies` has.
    """
    from pytest_vla.policies.base import is_batch_policy
    from pytest_vla.policies.choices import DEFAULT_BATCH, REQUEST_TIMEOUT
    from pytest_vla.serving.forecast import forecast, forecast_alone

    plan, why = _plan(policy, suite, latencies[0], machines.costs)
    if plan is None:
        return Hourly(suite.name, None, (), (f"not foreseen: {why}",))
    notes = []
    if uneven := [each for each in latencies if each.slowest > UNEVEN * each.median and each.slowest > 0.005]:
        worst = max(uneven, key=lambda each: each.slowest / each.median)
        notes.append(
            f"{worst.batch} at once took {_ms(worst.median)} to {_ms(worst.slowest)} ms: where the time depends on the "
            "question this is rough"
        )
    alone = latencies[0]
    if alone.mean >= SLOW_SECONDS:
        minutes = plan.questions * (alone.mean + plan.thinking) / 60
        notes.append(f"slow: one episode of {plan.questions} questions takes {minutes:.0f} min")
    if max(each.slowest for each in latencies) >= REQUEST_TIMEOUT:
        notes.append(f"too slow for --vla-policy-timeout, which is {REQUEST_TIMEOUT:g} s: episodes would end as errors")
    device = str(getattr(policy, "device", "cpu"))
    if is_served:
        why = "not foreseen: how its server answers several workers is not known"
        return Hourly(suite.name, plan, (), (*notes, why))
    numbers = [(each, some) for each in machines.cores for some in machines.workers]
    if is_batch_policy(policy):
        times, most = {each.batch: each.mean for each in latencies}, min(policy.max_batch, DEFAULT_BATCH)
        if breaks and max(times) < most:
            most = max(times)
            notes.append(f"foreseen for {most} at once at most, since more broke")
        found = [forecast(plan, times, most, some, each) for each, some in numbers]
    elif device.startswith("cpu"):
        found = [forecast_alone(plan, alone.mean, some, each) for each, some in numbers]
        notes.append("each worker has a policy of its own, which computes on its core")
    else:
        why = f"not foreseen: each worker loads it to {device}, where they get into each other's way"
        return Hourly(suite.name, plan, (), (*notes, why))
    return Hourly(suite.name, plan, tuple(found), tuple(notes))


def _plan(policy: object, suite: "Suite", alone: "Latency", costs: Mapping[str, float]) -> "tuple[Plan | None, str]":
    from pytest_vla.policies.choices import AUTO
    from pytest_vla.policies.devices import resolved
    from pytest_vla.serving.forecast import IN_SOFTWARE, ON_A_GPU, Plan

    if len(costs) < 3 and any(task.world is not None for task in suite.tasks):
        return None, "what its own world takes is not known: give --step-ms, --picture-ms and --reset-ms"
    reads = getattr(policy, "reads", None)
    pictures = {f"{camera}_image" for camera in suite.protocol.cameras}
    read = pictures if reads is None else pictures & {*reads}
    assumed = IN_SOFTWARE if resolved(AUTO) == "cpu" else ON_A_GPU
    return Plan(suite.protocol.max_steps, alone.executed, len(read), replace(assumed, **costs)), ""


def hourly_text(hourly: Hourly, given: Mapping[str, float]) -> Iterator[str]:
    """For people, line by line."""
    from pytest_vla.reports.text import aligned, wrapped

    plan = hourly.plan
    if plan is not None and hourly.forecasts:
        costs = asdict(plan.costs)
        said = ", ".join(f"a {name} {1000 * costs[name]:.3g} ms{'' if name in given else '*'}" for name in costs)
        yield from wrapped(
            f"{hourly.suite}: episodes an hour, foreseen for {plan.steps} steps, {plan.questions} questions, "
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
            yield "  * measured elsewhere: --step-ms, --picture-ms and --reset-ms say your own"
    for note in hourly.notes:
        yield from wrapped(f"{'' if hourly.forecasts else f'{hourly.suite}: '}{note}")


def hourly_table(hourly: Hourly, given: Mapping[str, float]) -> dict[str, Any]:
    """For programs."""
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
            raise argparse.ArgumentTypeError(f"{each!r} is no number, 1 to 1024")
    return tuple(sorted({int(each) for each in numbers}))


def _milliseconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 60_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of milliseconds, 0 to 60000")
    return value
