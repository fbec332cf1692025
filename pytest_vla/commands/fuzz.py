"""``pytest-vla fuzz``: scenes that a policy should do and does not, each at its smallest, as cases to run again."""

import argparse
import json
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.run.arguments import Joined, comma_list, one_seed, seed_list, whole_number
from pytest_vla.util.live_line import progress
from pytest_vla.util.text import counted, printable

if TYPE_CHECKING:
    from pytest_vla.episode.rollout import Conditions
    from pytest_vla.fuzz.case_file import ListedCase
    from pytest_vla.fuzz.search import Found, Searched
    from pytest_vla.fuzz.trial import Trials
    from pytest_vla.plan.task import Task
    from pytest_vla.policies.spec import ModelSpec
    from pytest_vla.scene.variation import Params
    from pytest_vla.vary.kind import Kind

# What simulates is imported when it runs: --help has to come at once.

DEFAULT_SUITE, DEFAULT_FILE = "tabletop", "fuzz_cases.toml"
DEFAULT_SCENES, MOST_SCENES = 50, 1_000_000


def declare(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = (
        "Of each task scenes are drawn evenly over dimensions, kinds and amounts, of one to three changes at once. A "
        "failure counts where the benign twin succeeds and the expert does the task in the same scene. Each is made "
        "smaller, in up to 40 episodes: fewer changes, fewer parameters, less of each; and it is tried under further "
        "run seeds. What always fails is written to a file of cases, which pytest --vla-cases=FILE runs. Equal options "
        "give equal files. The file has what was found so far, whatever ends the search. The exit code is 0, also "
        "where failures were found; 1 where no scene could be tried, and 130 where it was stopped."
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
    parser.add_argument(
        "--vla-tasks", metavar="TASK[,TASK]", type=comma_list, action=Joined, default=(), help="as pytest's"
    )
    parser.add_argument(
        "--vla-seeds", metavar="SEEDS", type=seed_list, default=None, help="as pytest's, taken in turn (default: 0)"
    )
    parser.add_argument(
        "--vla-run-seed",
        metavar="N",
        type=one_seed,
        default=0,
        help="as pytest's; other scenes are drawn by it too (default: 0)",
    )
    parser.add_argument("--vla-device", metavar="DEVICE", help="as pytest's, one device (default: auto)")
    parser.add_argument("--vla-data", metavar="DIR", type=Path, help="as pytest's")
    parser.add_argument(
        "--scenes",
        metavar="N",
        type=whole_number("a number of scenes", 1, MOST_SCENES),
        default=DEFAULT_SCENES,
        help=f"scenes that are drawn of each task (default: {DEFAULT_SCENES})",
    )
    parser.add_argument(
        "--dimensions",
        metavar="NAME[,NAME]",
        type=comma_list,
        action=Joined,
        default=(),
        help="only changes of these, such as camera,light (default: all that a task has)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        default=Path(DEFAULT_FILE),
        help=f"the file of cases; what was there is replaced (default: {DEFAULT_FILE})",
    )
    parser.add_argument("--json", action="store_true", help="print what was found for programs")


def run(options: argparse.Namespace) -> int:
    """Search, print, and write. Raises VlaError: the policy cannot be loaded, or nothing can be searched."""
    from pytest_vla.episode.rollout import Conditions
    from pytest_vla.episode.world_pool import WorldPool
    from pytest_vla.fuzz.case_file import write_cases
    from pytest_vla.fuzz.propose import fuzzed_kinds
    from pytest_vla.fuzz.trial import Trials
    from pytest_vla.policies.load import check_model, digest_of, resolve_policy
    from pytest_vla.versions import check_versions

    check_versions()
    spec, tasks = _spec(options), _tasks(options)
    kinds = {task.id: fuzzed_kinds(task, options.dimensions) for task in tasks}
    if options.output.is_dir() or not options.output.absolute().parent.is_dir():
        raise VlaError(f"{options.output}: expected a file in a folder that is there (-o)")
    searched: dict[str, Searched] = {}
    listed: list[ListedCase] = []
    stopped = False
    with progress(sys.stderr) as told, redirect_stdout(sys.stderr), closing(WorldPool(False)) as worlds:
        told(f"loading {spec.text}")
        check_model(spec)
        policy = resolve_policy(spec)
        conditions = Conditions(
            model=str(options.vla_model), policy_digest=digest_of(policy, spec), run_seed=options.vla_run_seed
        )
        trials = Trials(policy, worlds, conditions)

        def note(task: "Task", seen: "Searched") -> None:
            """Whatever ends the search, the file has what was found."""
            so_far = f"{seen.proposed} of {options.scenes} scenes, {seen.failed} failed, {len(seen.found)} distinct"
            told(f"{task.id}: {so_far}")
            searched[task.id] = seen
            now = _listed(searched.values(), conditions)
            if now != listed:
                listed[:] = now
                write_cases(options.output, now)

        try:
            for task in tasks:
                told(f"{task.id}: benign twins")
                _search(task, options, kinds[task.id], trials, partial(note, task))
        except KeyboardInterrupt:
            stopped = True
    if options.json:
        print(json.dumps({"tasks": [table_of(name, seen) for name, seen in searched.items()]}, indent=2))
    else:
        for line in _lines(searched, options, len(listed), trials.episodes, stopped):
            print(printable(line))
    if stopped:
        return 130
    # A policy that does nothing of it would look like one that nothing breaks.
    return 0 if any(seen.proposed for seen in searched.values()) else 1


def _listed(searched: "Iterable[Searched]", conditions: "Conditions") -> "list[ListedCase]":
    from pytest_vla.fuzz.case_file import ListedCase

    return [
        ListedCase(found.shrunk.candidate, about_text(found, conditions.model, conditions.policy_digest))
        for seen in searched
        for found in seen.found
        if not found.is_flaky
    ]


def about_text(found: "Found", model: str, digest: str | None) -> str:
    """What a file says of a case: how it fails, what passes, and of which policy that is."""
    return f"{boundary_text(found)}; {model} {(digest or 'of unknown content')[:12]}"


def boundary_text(found: "Found") -> str:
    """``camera.azimuth azimuth_deg=23.4 (does it at azimuth_deg=21.9)``: the least that fails, and what passes."""
    passes = {each.kind: each.passes for each in found.shrunk.boundaries}
    told = []
    for change in found.shrunk.candidate.changes:
        below = passes.get(change.kind)
        passing = "" if below is None else _params_text(below, [n for n in below if below[n] != change.params[n]])
        does_it = f" (does it at {passing})" * bool(passing)
        told.append(f"{change.kind} {_params_text(change.params, list(change.params))}{does_it}")
    return " with ".join(told)


def table_of(name: str, seen: "Searched") -> dict[str, Any]:
    """A task's search, for JSON: ``fails`` are shares of the scenes that were drawn evenly."""
    return {
        "task": name,
        "scenes": seen.proposed,
        "fails": seen.failed,
        "passes": seen.passed,
        "aside": dict(seen.aside),
        "twins_left_out": [{"seed": seed, "why": why} for seed, why in seen.left_out],
        "found": [
            {
                "label": each.shrunk.candidate.label,
                "seed": each.shrunk.candidate.seed,
                "changes": {change.kind: dict(change.params) for change in each.shrunk.candidate.changes},
                "first": {change.kind: dict(change.params) for change in each.first.changes},
                "passes": {side.kind: side.passes for side in each.shrunk.boundaries},
                "episodes": each.shrunk.tried,
                "complete": each.shrunk.complete,
                "failed_run_seeds": each.failed,
                "run_seeds": each.tried,
            }
            for each in seen.found
        ],
    }


def _spec(options: argparse.Namespace) -> "ModelSpec":
    from pytest_vla.run.project import typed_model

    if options.vla_model is None:
        raise VlaError("which policy? Add --vla-model=POLICY, such as --vla-model=tiny")
    return typed_model(options.vla_model, options.vla_device)


def _tasks(options: argparse.Namespace) -> "tuple[Task, ...]":
    from pytest_vla.plan.manifests import load_suite, named_suites
    from pytest_vla.plan.select import select_tasks

    names = [name for text in options.vla_suite for name in named_suites(text)]
    tasks = select_tasks([load_suite(name, data=options.vla_data) for name in names], options.vla_tasks)
    if varied := next((task for task in tasks if task.varied), None):
        raise VlaError(f"{varied.suite} is varied by itself; take the suite {varied.files} for others")
    return tasks


def _search(
    task: "Task",
    options: argparse.Namespace,
    kinds: "Sequence[Kind]",
    trials: "Trials",
    note: "Callable[[Searched], None]",
) -> None:
    from pytest_vla.fuzz.search import further_seeds, search

    generator = random.Random(f"{options.vla_run_seed}/{task.id}")
    seeds, further = options.vla_seeds or (0,), further_seeds(options.vla_run_seed)
    note(search(task, seeds, kinds, trials, options.scenes, generator, note, run_seeds=further))


def _lines(
    searched: "dict[str, Searched]", options: argparse.Namespace, written: int, episodes: int, stopped: bool
) -> Iterator[str]:
    from pytest_vla.metrics.statistics import wilson_interval

    for name, seen in searched.items():
        for seed, why in seen.left_out:
            yield f"{name}: seed {seed} is left out: without any change {why}"
        if not seen.proposed:
            yield f"{name}: no scene was tried"
            continue
        counted_ = seen.failed + seen.passed
        rate = (
            f" = {seen.failed / counted_:.1%} [{{:.1%}}, {{:.1%}}]".format(*wilson_interval(seen.failed, counted_))
            if counted_
            else ""
        )
        yield f"{name}: {seen.failed} of {counted_} scenes drawn evenly fail{rate}"
        reasons: dict[str, list[str]] = {}
        for why, number in seen.aside.items():
            reasons.setdefault(why.partition(":")[0], []).extend([why] * number)
        for some in sorted(reasons.values(), key=len, reverse=True):
            yield f"  {len(some)} aside: {some[0]}"
        for each in seen.found:
            often = f"under {each.failed} of {each.tried} run seeds" if each.is_flaky else "always"
            end = "" if each.shrunk.complete else "; not at its smallest, its episodes were at an end"
            yield f"  fails {often}: {boundary_text(each)}{end}"
    yield counted(episodes, "episode")
    if stopped:
        pending = sum(seen.pending for seen in searched.values())
        rest = f"; {counted(pending, 'failure')} were not made smaller" * bool(pending)
        yield f"stopped: what was found until then is here{rest}"
    if written:
        again = f"pytest --vla-cases={options.output} --vla-model={options.vla_model}"
        yield f"{options.output}: {counted(written, 'case')}: `{again}` runs {'it' if written == 1 else 'them'}"
    else:
        there = f"; {options.output} was there before, and is of another search" * options.output.exists()
        yield f"nothing was found that always fails, and no file was written{there}"


def _params_text(params: "Params", names: Sequence[str]) -> str:
    return " ".join(f"{name}={_shown(params[name])}" for name in names)


def _shown(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")) if isinstance(value, (list, tuple)) else str(value)


COMMAND = Command(declare, run)
