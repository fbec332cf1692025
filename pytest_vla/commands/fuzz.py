"""``pytest-vla fuzz``: searches for scenes that a policy should solve and fails, and writes minimal ones as cases."""

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, closing, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.fuzz.names import FILE, FOLDER, LAST
from pytest_vla.run.arguments import (
    JoinAction,
    comma_list,
    cost_amount,
    declare_results,
    one_seed,
    seconds_of,
    seed_list,
    some_text,
    whole_number,
)
from pytest_vla.run.search_options import DEFAULT_SUITE, check_output, declare_search, searched_model, searched_tasks
from pytest_vla.util.files import check_no_link, whole_file, why_foreign
from pytest_vla.util.live_line import progress, told_when_slow
from pytest_vla.util.processes import ended_as_interrupted
from pytest_vla.util.text import counted, printable, quoted

if TYPE_CHECKING:
    from pytest_vla.episode.rollout import Conditions
    from pytest_vla.fuzz.campaign import Campaign
    from pytest_vla.fuzz.case_file import ListedCase
    from pytest_vla.fuzz.found import Searched
    from pytest_vla.fuzz.journal import Line, Retold
    from pytest_vla.fuzz.task_search import SearchRules
    from pytest_vla.plan.task import Task
    from pytest_vla.policies.spec import ModelSpec
    from pytest_vla.reports.fuzz import SearchEnd

# The simulator is imported inside the functions, so that --help is fast.

DEFAULT_FILE = "fuzz_cases.toml"
DEFAULT_SCENES, MOST_SCENES = 50, 1_000_000
MOST_WORKERS = 1024

_SCENES = whole_number("a number of scenes", 1, MOST_SCENES)

# The options that a resumed search takes from its start, and how each is read; a flag is not read.
_KEPT: Mapping[str, Callable[[str], Any] | None] = {
    **dict.fromkeys(("vla_model", "vla_device", "against"), some_text),
    **dict.fromkeys(("vla_suite", "vla_tasks", "dimensions"), comma_list),
    **dict.fromkeys(("vla_data", "output"), Path),
    **dict.fromkeys(("scenes", "patience"), _SCENES),
    **dict.fromkeys(("errors", "even")),
    **{"vla_seeds": seed_list, "vla_run_seed": one_seed, "vla_timeout": seconds_of, "vla_max_cost": cost_amount},
}


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.epilog = (
        "One scene in four is drawn evenly over dimensions, kinds and amounts; the other three are drawn near earlier "
        "failures. A failure counts only if the benign twin succeeds and the expert solves the same scene. Each "
        "failure is minimised in up to 40 episodes (fewer changes, fewer parameters, smaller amounts), and repeated "
        "under further run seeds. Scenes that fail under all of them are written as cases, which pytest "
        "--vla-cases=FILE runs. An interrupted search continues with --resume. Equal options give equal even scenes, "
        "and, in one process, equal searches. Exit code: 0, even if failures were found; 1 if no scene could be tried; "
        "130 if it was stopped."
    )
    declare_search(parser, "scenes", "taken in turn", Path(DEFAULT_FILE))
    parser.add_argument(
        "--vla-timeout", metavar="TIME", type=seconds_of, help="time limit of an episode, as for pytest"
    )
    parser.add_argument(
        "--vla-max-cost",
        metavar="COST",
        type=cost_amount,
        help="also count an episode as a failure if it costs more, and the benign twin and the expert do not; as for "
        "pytest",
    )
    parser.add_argument(
        "--errors",
        action="store_true",
        help="count an episode in which the policy raises an error as a failure (default: leave it out)",
    )
    parser.add_argument(
        "--against",
        metavar="POLICY",
        help="run each failure with this policy too, such as the previous checkpoint, and report whether it fails",
    )
    parser.add_argument(
        "-n",
        "--workers",
        metavar="N",
        type=whole_number("a number of processes", 1, MOST_WORKERS),
        default=1,
        help="processes that try scenes; a policy that answers in batches is loaded once for all (default: 1)",
    )
    parser.add_argument(
        "--scenes",
        metavar="N",
        type=_SCENES,
        help=f"scenes to try for each task (default: {DEFAULT_SCENES}; with --hours, no limit)",
    )
    parser.add_argument(
        "--hours",
        metavar="H",
        type=_hours,
        help="start nothing new after so many hours, such as 8 or 0.5; tasks are searched in turn (default: no limit)",
    )
    parser.add_argument(
        "--patience",
        metavar="N",
        type=_SCENES,
        help="end a task's search after so many scenes without a new failure (default: never)",
    )
    parser.add_argument(
        "--dimensions",
        metavar="NAME[,NAME]",
        type=comma_list,
        action=JoinAction,
        default=(),
        help="vary only these dimensions, such as camera,light (default: all that a task has)",
    )
    parser.add_argument("--even", action="store_true", help="draw all scenes evenly, and none near earlier failures")
    parser.add_argument(
        "--resume",
        metavar="NAME",
        nargs="?",
        const=LAST,
        type=some_text,
        help="resume a search with its options, except -n and --hours (default NAME: the last search)",
    )
    parser.add_argument(
        "--report",
        metavar="FILE.html",
        type=Path,
        help="write an HTML page of the search: failures in pictures, the searched space, and which changes matter; "
        "with --resume also for a finished search",
    )
    declare_results(parser)


def run(options: argparse.Namespace) -> int:
    """Search, print, and write the files. Raises VlaError: the policy cannot be loaded, or nothing can be searched."""
    try:
        # A search that a scheduler ends with SIGTERM can be resumed too.
        with ended_as_interrupted():
            return _searched(options)
    except KeyboardInterrupt:
        # Interrupted before the search started, or while its page was drawn.
        print("pytest-vla: stopped", file=sys.stderr)
        return 130


def _searched(options: argparse.Namespace) -> int:
    from pytest_vla.episode.rollout import Conditions
    from pytest_vla.fuzz.campaign import Setup, drive, loaded
    from pytest_vla.fuzz.case_file import write_cases
    from pytest_vla.fuzz.journal import Journal, check_head, head_of, read_lines
    from pytest_vla.fuzz.trial import Property
    from pytest_vla.policies.load import check_model, policy_digest
    from pytest_vla.reports.fuzz import SearchEnd, search_html, search_of
    from pytest_vla.run.html_report import check_report
    from pytest_vla.versions import check_versions

    if options.report is not None:
        check_report(options.report, "--report")
    file, untyped = _file(options)
    began = time.monotonic()
    spec, rival = (_policy(options, key, file, untyped) for key in ("vla_model", "against"))
    spec = spec or searched_model(options)
    tasks = searched_tasks(options)
    if any(task.world is None for task in tasks):
        check_versions()
    check_output(options.output)
    campaign, rules = _campaign(options, tasks)
    listed: list[ListedCase] = []
    stopped = False
    with ExitStack() as stack:
        told = stack.enter_context(progress(sys.stderr, of_all=True))
        stack.enter_context(redirect_stdout(sys.stderr))
        told(f"loading {spec.text}")
        for key, each in (("vla_model", spec), ("against", rival)):
            try:
                if each is not None:
                    check_model(each)
            except VlaError as error:
                raise VlaError(str(error).replace("--vla-model=", f"{_option_of(key)}=")) from error
        conditions = Conditions(
            str(options.vla_model), policy_digest(spec), run_seed=options.vla_run_seed, timeout=options.vla_timeout
        )
        wanted = Property(options.vla_max_cost, options.errors)
        setup = Setup(spec, conditions, rules, rival=rival, wanted=wanted)
        begun = stack.enter_context(loaded(setup, options.workers, told))
        head = head_of({key: _plain(getattr(options, key)) for key in _KEPT}, begun.conditions)
        if options.resume:
            check_head(file, head)
        journal = stack.enter_context(closing(Journal(file, head)))
        before = campaign.go_on(read_lines(file, {task.id: task for task in tasks}))

        def add_line(line: "Line") -> None:
            """Write the journal line at once, so that an interrupted search keeps its results."""
            journal.add(line)
            if line.job.what == "failure":
                keep()

        def keep() -> None:
            now = _listed(campaign, begun.conditions)
            if now != listed:
                listed[:] = now
                write_cases(options.output, now)

        keep()

        def beat(episodes: int) -> None:
            told(_live_text(campaign, options, episodes))

        hands = None
        try:
            beat(before)
            hands = stack.enter_context(begun.hands(before, beat))
            drive(campaign, hands, add_line, lambda: _is_over(options, began))
        except KeyboardInterrupt:
            stopped = True
        except VlaError:
            # Such as a policy of --against that is refused.
            journal.discard_unused()
            raise
        episodes = before if hands is None else hands.episodes
    seen = campaign.seen
    if options.json or options.report:
        told_again = search_of(file, seen, tasks, episodes, campaign.is_done)
    if options.json:
        print(json.dumps(_table(seen, file.parent.name, told_again.retold), indent=2))
    else:
        ended = SearchEnd(file.parent.name, episodes, len(listed), stopped, campaign.is_done)
        for line in _lines(campaign, options, ended):
            print(printable(line))
    if options.report:
        with redirect_stdout(sys.stderr), told_when_slow("drawing pictures", sys.stderr):
            page = search_html(told_again)
        with whole_file(options.report) as stream:
            stream.write(page)
    if stopped:
        return 130
    # A policy that solves no task would look like one without failures.
    return 0 if any(each.proposed or each.guided for each in seen.values()) else 1


def _campaign(options: argparse.Namespace, tasks: "Sequence[Task]") -> "tuple[Campaign, SearchRules]":
    from pytest_vla.fuzz.campaign import Campaign
    from pytest_vla.fuzz.found import further_seeds
    from pytest_vla.fuzz.proposals import fuzzed_kinds
    from pytest_vla.fuzz.task_search import SearchRules, TaskSearch
    from pytest_vla.run.preflight import distinct_seeds

    number = options.scenes or (DEFAULT_SCENES if options.hours is None else None)
    rules = SearchRules(
        number,
        guided=not options.even,
        # A search without a time limit minimises all failures; one with a limit minimises those it has time for.
        all_first=options.even,
        patience=options.patience,
        run_seeds=further_seeds(options.vla_run_seed),
    )
    hunts = [
        TaskSearch(
            task,
            distinct_seeds(task, options.vla_seeds),
            fuzzed_kinds(task, options.dimensions),
            f"{options.vla_run_seed}/{task.id}",
            rules,
        )
        for task in tasks
    ]
    return Campaign(hunts), rules


def _file(options: argparse.Namespace) -> tuple[Path, frozenset[str]]:
    """Return the journal of a new search, or of the search to resume, whose options are restored. Raises VlaError.

    Returns:
        The file, and the names of the options that the journal gave and nobody typed.
    """
    from pytest_vla.fuzz.journal import begun_options, kept_search
    from pytest_vla.records.names import new_run_name

    if not options.resume:
        return Path(options.results) / FOLDER / new_run_name() / FILE, frozenset()
    file = kept_search(options.results, options.resume)
    check_no_link(options.results, file.parent)
    untyped = set()
    for key, value in begun_options(file).items():
        restored = _read(key, value, f"{file}:1")
        typed = getattr(options, key)
        if typed != _DEFAULTS.get(key) and _plain(typed) != value:
            raise VlaError(
                f"--resume={file.parent.name}: that search has {_option_of(key)} {value!r}. Leave the option out, or "
                "start a new search"
            )
        if typed == _DEFAULTS.get(key) and restored != typed:
            untyped.add(key)
        setattr(options, key, restored)
    if "output" in untyped:
        _check_output(options.output, file)
    return file, frozenset(untyped)


def _policy(options: argparse.Namespace, key: str, file: Path, untyped: Set[str]) -> "ModelSpec | None":
    """Return the policy that an option names, or None. Raises VlaError: it has to be typed, or is no policy."""
    from pytest_vla.run.project import typed_model, untyped_model

    named = getattr(options, key)
    if key not in untyped:
        return None if named is None else typed_model(named, options.vla_device)
    sources = (options.results, file.parent, file)
    doing = f"--resume={file.parent.name}: that search would load the policy {named}"
    return untyped_model(named, options.vla_device, sources, doing, _option_of(key))


def _check_output(output: Path, file: Path) -> None:
    """Refuse a file to write that a journal names, unless it is one of cases in the user's project. Raises VlaError."""
    from pytest_vla.fuzz.case_file import is_case_file
    from pytest_vla.policies.load import is_of_project
    from pytest_vla.run.project import find_project

    foreign = any(map(why_foreign, (file, file.parent, file.parents[2])))
    if foreign or not (is_case_file(output) and is_of_project(output, find_project(Path.cwd()).folder)):
        raise VlaError(
            f"--resume={file.parent.name}: that search would write {output}, which is no file of cases in this project "
            f"or may have been named by others. Add -o {shlex.quote(str(output))} to write it"
        )


_DEFAULTS: Mapping[str, Any] = {
    "vla_suite": (DEFAULT_SUITE,),
    "vla_tasks": (),
    "vla_seeds": (0,),
    "vla_run_seed": 0,
    "dimensions": (),
    "even": False,
    "errors": False,
    "output": Path(DEFAULT_FILE),
}


def _option_of(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, (tuple, range)) else value


def _read(key: str, value: Any, where: str) -> Any:
    """Return a stored option, checked by reading the text that it is typed as. Raises VlaError."""
    default, read = _DEFAULTS.get(key), _KEPT.get(key)
    if key in _KEPT and json.dumps(value) == json.dumps(_plain(default)):
        return default
    if read is None and key in _KEPT and value is True:
        return True
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    try:
        if read is not None and "\0" not in text and json.dumps(_plain(found := read(text))) == json.dumps(value):
            return found
    except (argparse.ArgumentTypeError, VlaError, ValueError):
        pass
    shown = f"{quoted(key)} is {quoted(value)}"
    raise VlaError(f"{where}: its option {shown}, which `pytest-vla fuzz` does not take; start a new search")


def _is_over(options: argparse.Namespace, began: float) -> bool:
    return options.hours is not None and time.monotonic() - began >= options.hours * 3600


def _hours(text: str) -> float:
    try:
        hours = float(text)
    except ValueError:
        hours = 0.0
    if not 0 < hours <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of hours, such as 8 or 0.5")
    return hours


def _listed(campaign: "Campaign", conditions: "Conditions") -> "list[ListedCase]":
    from pytest_vla.fuzz.case_file import ListedCase
    from pytest_vla.fuzz.found import about_text

    return [
        ListedCase(found.shrunk.candidate, about_text(found, conditions.model, conditions.policy_digest))
        for hunt in campaign.hunts.values()
        for found in hunt.found
        if not found.is_flaky
    ]


def _live_text(campaign: "Campaign", options: argparse.Namespace, episodes: int) -> str:
    hunts = campaign.hunts.values()
    tried, failed = sum(hunt.tried for hunt in hunts), sum(hunt.failed for hunt in hunts)
    of = "" if options.scenes is None and options.hours is not None else f" of {_number(options) * len(hunts)}"
    distinct, waiting = sum(len(hunt.found) for hunt in hunts), sum(hunt.pending for hunt in hunts)
    rest = f", {waiting} to be minimised" * bool(waiting)
    return f"{tried}{of} scenes, {failed} failed, {distinct} distinct{rest}, {counted(episodes, 'episode')}"


def _number(options: argparse.Namespace) -> int:
    return int(options.scenes or DEFAULT_SCENES)


def _table(seen: "Mapping[str, Searched]", name: str, retold: "Retold") -> dict[str, Any]:
    from pytest_vla.reports.fuzz import task_table

    return {"search": name, "tasks": [task_table(task, each, retold.tasks[task]) for task, each in seen.items()]}


def _lines(campaign: "Campaign", options: argparse.Namespace, ended: "SearchEnd") -> Iterator[str]:
    from pytest_vla.reports.fuzz import search_lines

    limit = "" if options.vla_max_cost is None else f" --vla-max-cost={options.vla_max_cost:g}"
    again = f"pytest --vla-cases={options.output} --vla-model={options.vla_model}{limit}"
    return search_lines(campaign.seen, ended, options.output, again, options.against or "")


COMMAND = Command(declare, run)
