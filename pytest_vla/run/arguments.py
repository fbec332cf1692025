"""Parsers for command-line values, shared by pytest's options and the ``pytest-vla`` commands; cheap to import."""

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.gate.choices import LABELS, label_error
from pytest_vla.plan.case import parse_task_levels
from pytest_vla.plan.choices import LONGEST, MOST_SHARDS, latency_rule, success_rule
from pytest_vla.policies.devices import AUTO
from pytest_vla.util.text import LAST_SEED, MAX_SEEDS, parse_seeds

MOST_QUESTIONS = 9999

# Each takes a text and raises ArgumentTypeError, for argparse.


def some_text(text: str) -> str:
    """Return the text; an empty one is refused."""
    # An unset variable of a shell makes it empty, and an empty path would be the current folder.
    if not text.strip():
        raise argparse.ArgumentTypeError("a value is missing")
    return text


def comma_list(text: str) -> tuple[str, ...]:
    """Parse ``a, b`` into names, without duplicates."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise argparse.ArgumentTypeError(f"{text!r} has no name in it")
    return names


def dimension_list(text: str) -> tuple[str, ...]:
    """Parse names of dimensions, such as ``camera,light``; whether each one exists is checked later."""
    found = comma_list(text)
    if strange := next((name for name in found if re.fullmatch(r"\w{1,80}", name, re.ASCII) is None), None):
        raise argparse.ArgumentTypeError(f"{strange!r} is not the name of a dimension, such as camera")
    return found


class JoinAction(argparse.Action):
    """An argparse action that joins the values of a repeated option: texts by a comma, tuples without duplicates."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        """Add the values to those of earlier uses of the option."""
        before = getattr(namespace, self.dest, None)
        # The default stands only where nothing is given.
        if before is not None and before is not self.default:
            values = f"{before},{values}" if isinstance(values, str) else tuple(dict.fromkeys([*before, *values]))
        setattr(namespace, self.dest, values)


def seed_list(text: str) -> tuple[int, ...]:
    """Parse seeds with `parse_seeds`."""
    try:
        return parse_seeds(text)
    except VlaError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def level_list(text: str) -> tuple[str, ...]:
    """Parse task levels with `parse_task_levels`."""
    try:
        return parse_task_levels(text)
    except VlaError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def variation_labels(text: str) -> tuple[str, ...]:
    """Parse variation labels with `parse_vary`. Raises VlaError."""
    from pytest_vla.vary.registry import parse_vary

    return parse_vary(text)


def folder_of(text: str) -> Path:
    """Parse a path that the system accepts; ``~`` is replaced if there is a home folder."""
    from pytest_vla.util.files import expanded

    folder = expanded(text) or Path(text)
    try:
        folder.exists()
    except OSError as error:
        # Too long a name, for example.
        raise argparse.ArgumentTypeError(f"{text[:60]!r}... is not a folder: {error.strerror}") from error
    return folder


def file_list(text: str) -> tuple[Path, ...]:
    """Parse ``a.md,b.json`` into paths, without duplicates."""
    return tuple(map(folder_of, comma_list(text)))


def whole_number(what: str, least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a parser for whole numbers from `least` to `most`; `what` names the number in error messages."""

    def read(text: str) -> int:
        if re.fullmatch("[0-9]{1,10}", text) is None or int(text) < least or (most is not None and int(text) > most):
            bounds = f"{least} or more" if most is None else f"{least} to {most}"
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}, {bounds}")
        return int(text)

    return read


def evaluator_text(text: str) -> "str | Path":
    """Parse an evaluator's name, or the path of a TOML file."""
    if text.endswith(".toml"):
        return folder_of(text)
    if re.fullmatch(r"[\w.-]+", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r}: expected an evaluator's name, or the path of a TOML file")
    return text


def success_text(text: str) -> str:
    """Parse a rule of success."""
    try:
        return success_rule(text)
    except VlaError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def latency_text(text: str) -> str:
    """Parse a latency, or ``measured``, and how a late answer is used."""
    try:
        return latency_rule(text)
    except VlaError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def budget_text(text: str) -> int | str:
    """Parse a step budget, or ``longest``."""
    return text if text == LONGEST else step_budget(text)


step_count = whole_number("a number of steps", 1)
step_budget = whole_number("a number of steps", 1, 100_000)
settle_count = whole_number("a number of steps", 0, 1_000)
question_count = whole_number("a number of questions", 1, MOST_QUESTIONS)
episode_count = whole_number("a number of episodes", 1, MAX_SEEDS)
replica_count = whole_number("a number of copies", 1, 4096)
scene_count = whole_number("a number of scenes", 1, MAX_SEEDS)
picture_count = whole_number("a number of episodes", 0)
one_seed = whole_number("a seed", 0, LAST_SEED)


def first_seeds(text: str) -> tuple[int, ...]:
    """Parse a number N of episodes into the seeds 0 to N-1."""
    return tuple(range(episode_count(text)))


def device_list(text: str) -> tuple[str, ...]:
    """Parse ``auto``, or names of torch devices."""
    names = comma_list(text)
    wrong = [name for name in names if re.fullmatch("[a-z]+(:[0-9]+)?", name) is None]
    if wrong:
        raise argparse.ArgumentTypeError(f"{wrong[0]!r} is not a device; write auto, cpu, cuda or cuda:0,cuda:1")
    if len(names) > 1 and AUTO in names:
        raise argparse.ArgumentTypeError(f"{text!r}: name each of several devices, as in cuda:0,cuda:1")
    return names


def cpu_count(text: str) -> float:
    """Parse the number of processors that a worker takes; fractions such as 0.5 are allowed."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.01 <= number <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processors; write 1, 2 or 0.5")
    return number


def ray_address(text: str) -> str:
    """Check the address of a Ray cluster: ``auto``, ``local``, ``ray://...`` or ``HOST:PORT`` of its head."""
    host, _, port = text.rpartition(":")
    if text not in ("auto", "local") and not text.startswith("ray://") and not (host and port.isdigit()):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the address of a Ray cluster; write auto, local, or HOST:PORT of its head, after ="
        )
    return text


def seconds_of(text: str) -> float:
    """Parse ``90``, ``90s``, ``5m`` or ``1h`` into seconds."""
    match = re.fullmatch(r"\s*([0-9]{1,9}(?:\.[0-9]+)?)\s*([smh]?)\s*", text)
    seconds = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]] if match else 0.0
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; write 90, 90s, 5m or 1h")
    return seconds


def hours_of(text: str) -> float:
    """Parse hours, such as ``8`` or ``0.5``, or a time with a unit, such as ``90m``, into seconds."""
    if match := re.fullmatch(r"\s*([0-9]{1,6}(?:\.[0-9]+)?|\.[0-9]+)\s*", text):
        seconds = 3600 * float(match[1])
        if seconds:
            return seconds
    elif text.strip()[-1:].isalpha():
        return seconds_of(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a time; write hours, such as 8 or 0.5, or 90m, 8h")


def seconds_text(seconds: float) -> str:
    """Write a time so that `seconds_of` can parse it."""
    unit, size = next((each for each in (("s", 1), ("m", 60)) if seconds < each[1] * 10**9), ("h", 3600))
    return f"{_plain(seconds / size)}{unit}"


def _plain(number: float) -> str:
    """Return the shortest text of a number without an exponent."""
    text = repr(number)
    if "e" in text:
        from decimal import Decimal

        text = f"{Decimal(text):f}"
    return text.removesuffix(".0")


def shard(text: str) -> tuple[int, int]:
    """Parse ``3/16`` into the shard's number, counted from 1, and the number of shards."""
    match = re.fullmatch(r"\s*([0-9]{1,6})/([0-9]{1,6})\s*", text)
    number, count = map(int, match.groups()) if match else (0, 0)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a shard; write 3/16 for the third of 16")
    if not 1 <= number <= count <= MOST_SHARDS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a shard: write 1/{count} to {count}/{count}"
            if count
            else f"{text!r} is not a shard: write at least one, as in 1/4"
        )
    return number, count


def shard_text(wanted: tuple[int, int] | None) -> str:
    """Write a shard so that `shard` can parse it."""
    return "" if wanted is None else f"{wanted[0]}/{wanted[1]}"


def age_of(text: str) -> float:
    """Parse ``90m``, ``12h``, ``30d`` or ``8w`` into seconds."""
    match = re.fullmatch(r"\s*([0-9]{1,9})\s*([mhdw])\s*", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not an age; write 90m, 12h, 30d or 8w")
    return float(int(match[1]) * {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}[match[2]])


def one_of(choices: Sequence[str]) -> Callable[[str], str]:
    """Return a parser that accepts only the given words."""

    def read(text: str) -> str:
        if text not in choices:
            *others, last = map(repr, choices)
            expected = f"{', '.join(others)} or {last}" if others else last
            raise argparse.ArgumentTypeError(f"{text!r}: expected {expected}")
        return text

    return read


def share_of_one(text: str) -> float:
    """Parse ``0.8`` or ``80%``, rounded only once, so that 80% and 8 of 10 give the same number."""
    # With decimal it costs every project's start a millisecond or two.
    from fractions import Fraction

    match = re.fullmatch(r"\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*(%?)\s*", text)
    share = None if match is None else Fraction(match[1]) / (100 if match[2] else 1)
    if share is None or share > 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share; write 0.8 or 80%")
    return float(share)


def cost_amount(text: str) -> float:
    """Parse a cost, 0 or more."""
    if re.fullmatch(r"\s*([0-9]{1,12}\.?[0-9]{0,9}|\.[0-9]{1,9})\s*", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a cost; write 0 or 12.5")
    return float(text)


def points_of_success(text: str) -> float:
    """Parse percentage points, above 0 and at most 100."""
    points = float(text) if re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,6})?", text) else 0.0
    if not 0.0 < points <= 100.0:
        raise argparse.ArgumentTypeError(f"{text!r}: expected percentage points above 0, at most 100, such as 5")
    return points


def share_of_runs(text: str) -> float:
    """Parse a share of runs, above 0 and below .5."""
    share = float(text) if re.fullmatch(r"[0-9]?\.[0-9]{1,9}", text) else 0.0
    if not 0.0 < share < 0.5:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a share of runs above 0, below .5, such as .05")
    return share


def gate_measures(text: str) -> tuple[str, ...]:
    """Parse the metrics that a gate judges beside success, with their margins."""
    from pytest_vla.gate.measures import parse_measures

    names = comma_list(text)
    try:
        parse_measures(names)
    except VlaError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return names


def gate_labels(text: str) -> tuple[str, ...]:
    """Parse the labels by which a gate groups episodes."""
    names = comma_list(text)
    for name in names:
        if name not in LABELS:
            raise argparse.ArgumentTypeError(label_error(name))
    return names


def metric_names(text: str) -> tuple[str, ...]:
    """Parse names of metrics; whether each one exists is checked later, as packages can add metrics."""
    return _names_of(text, "metric")


def tracker_names(text: str) -> tuple[str, ...]:
    """Parse names of trackers; whether each one exists is checked later, as packages can add trackers."""
    return _names_of(text, "tracker")


def _names_of(text: str, what: str) -> tuple[str, ...]:
    names = comma_list(text)
    for name in names:
        if re.fullmatch(r"[A-Za-z0-9][\w.-]*", name, re.ASCII) is None:
            raise argparse.ArgumentTypeError(
                f"{name!r} is not the name of a {what}: expected letters, digits, _, - and ."
            )
    return names


def rule_text(text: str) -> str:
    """Check the syntax of an alarm rule; whether its metric exists is checked later."""
    from pytest_vla.metrics.alarms import parse_rule

    try:
        parse_rule(text)
    except VlaError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def plain_number(number: float) -> str:
    """Return the shortest text of a number without an exponent."""
    return _plain(number)


LOWER = "lower"
"""Behind a success rate and a colon: the lower end of its interval has to reach it."""


def min_success(text: str) -> tuple[float, bool]:
    """Parse ``0.8``, ``80%`` or ``0.8:lower`` into a share, and whether the interval's lower end has to reach it."""
    share, colon, which = text.partition(":")
    if colon and which.strip() != LOWER:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share; write 0.8 or 80%, or 0.8:{LOWER}")
    return share_of_one(share), bool(colon)


def min_success_text(wanted: tuple[float, bool] | None) -> str:
    """Write a minimum success rate so that `min_success` can parse it."""
    return "" if wanted is None else f"{_plain(wanted[0])}{f':{LOWER}' if wanted[1] else ''}"


_OF_THE_PROJECT = "\0"
"""No folder's name: argparse reads a default that is a text as if it were typed."""


def declare_results(parser: argparse.ArgumentParser, *further: str) -> None:
    """Declare ``--results`` for a command that reads or writes runs; the default is the project's own results folder.

    Args:
        parser: the command's parser.
        further: other names for the option.
    """
    from pytest_vla.records.names import DEFAULT_RESULTS

    parser.add_argument(
        *(*further, "--results", "--vla-results"),
        metavar="DIR",
        type=_results,
        default=_OF_THE_PROJECT,
        help=f"folder of all runs (default: vla_results of pytest's ini file, or {DEFAULT_RESULTS} beside it)",
    )


def declare_data(parser: argparse.ArgumentParser) -> None:
    """Declare ``--data`` and ``--allow-versions`` for a command that simulates."""
    parser.add_argument("--data", metavar="DIR", type=Path, help="folder with task files, init states and assets")
    parser.add_argument(
        "--allow-versions", action="store_true", help="accept unsupported versions of mujoco and robosuite"
    )


def _results(text: str) -> Path:
    if text != _OF_THE_PROJECT:
        return Path(some_text(text))
    from pytest_vla.run.project import find_project

    here = Path.cwd()
    try:
        folder = find_project(here).results
    except VlaError as error:
        raise argparse.ArgumentTypeError(f"the results folder is unknown: {error}") from error
    return folder.relative_to(here) if folder.is_relative_to(here) else folder
