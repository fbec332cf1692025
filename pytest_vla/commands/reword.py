"""``pytest-vla reword``: finds, for each task, the closest rewording that the policy fails, and writes it as a case."""

import argparse
import json
import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.run.arguments import whole_number
from pytest_vla.run.search_options import check_output, declare_search, searched_model, searched_tasks
from pytest_vla.util.live_line import progress
from pytest_vla.util.text import counted, digest_text, printable

if TYPE_CHECKING:
    from pytest_vla.episode.rollout import Conditions
    from pytest_vla.fuzz.case_file import ListedCase
    from pytest_vla.fuzz.reword import Break, Ranked, Reworded
    from pytest_vla.fuzz.trial import Trials
    from pytest_vla.language.backends import Backend
    from pytest_vla.plan.task import Task

# The simulator is imported inside the functions, so that --help is fast.

DEFAULT_FILE = "reworded_cases.toml"
DEFAULT_TRIES, MOST_TRIES = 40, 1_000_000


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.epilog = (
        "For each task that the policy solves, all rewordings are sorted by PRIDE's distance from the task's own "
        "instruction: LIBERO-Para's 43 kinds of paraphrase by a grammar, each verified to have the same meaning, and "
        "WordNet synonyms that were screened by hand. Half of the tries are drawn evenly over kinds, for a failure "
        "rate. The others search for the closest rewording that fails, nearest first. It is repeated under further run "
        "seeds and on the other seeds; a rewording that fails under all run seeds is written as a case, which pytest "
        "--vla-cases=FILE runs. Equal options give equal files. Exit code: 0, even if a rewording fails; 1 if the "
        "policy solves no task; 130 if it was stopped."
    )
    seeds = "the first solved one is searched, the others are repeats"
    declare_search(parser, "rewordings", seeds, Path(DEFAULT_FILE))
    parser.add_argument(
        "--tries",
        metavar="N",
        type=whole_number("a number of tries", 1, MOST_TRIES),
        default=DEFAULT_TRIES,
        help=f"rewordings to try for each task (default: {DEFAULT_TRIES})",
    )
    parser.add_argument(
        "--backend",
        metavar="NAME",
        help="backend of the distances, as for pytest-vla pride (default: the best available)",
    )


def run(options: argparse.Namespace) -> int:
    """Search, print, and write the file. Raises VlaError: the policy cannot be loaded, or no task has a rewording."""
    from pytest_vla.episode.rollout import Conditions
    from pytest_vla.episode.world_pool import WorldPool
    from pytest_vla.fuzz.case_file import write_cases
    from pytest_vla.fuzz.trial import Trials
    from pytest_vla.language.backends import choose_backend
    from pytest_vla.policies.load import check_model, digest_of, resolve_policy
    from pytest_vla.versions import check_versions

    spec, tasks = searched_model(options), searched_tasks(options)
    if any(task.world is None for task in tasks):
        check_versions()
    check_output(options.output)
    backend = choose_backend(options.backend).backend
    found: dict[str, Reworded] = {}
    passed_over: dict[str, str] = {}
    listed: list[ListedCase] = []
    stopped = False
    with progress(sys.stderr, of_all=True) as told, redirect_stdout(sys.stderr), closing(WorldPool(False)) as worlds:
        told(f"loading {spec.text}")
        check_model(spec)
        policy = resolve_policy(spec)
        conditions = Conditions(
            model=str(options.vla_model), policy_digest=digest_of(policy, spec), run_seed=options.vla_run_seed
        )
        trials = Trials(policy, worlds, conditions)

        def keep(task: "Task", seen: "Reworded") -> None:
            """Write the cases found so far, so that an interrupted search keeps them."""
            told(f"{task.id}: {len(seen.tried)} of {options.tries} rewordings")
            found[task.id] = seen
            now = _listed(found.values(), conditions, backend)
            if now != listed:
                listed[:] = now
                write_cases(options.output, now)

        try:
            for task in tasks:
                told(f"{task.id}: rewordings")
                try:
                    some = _ranked(task, backend)
                except VlaError as error:
                    passed_over[task.id] = str(error)
                    continue
                told(f"{task.id}: benign twins")
                _search(task, options, some, trials, keep)
        except KeyboardInterrupt:
            stopped = True
    if not found and passed_over and not stopped:
        raise VlaError("; ".join(passed_over.values()))
    if options.json:
        print(json.dumps(as_table(found, passed_over, backend), indent=2))
    else:
        for line in (
            *_lines(found, passed_over, backend),
            *_end(options, len(listed), trials.episodes, stopped),
        ):
            print(printable(line))
    if stopped:
        return 130
    # A policy that does nothing would look like one that no words break.
    return 0 if any(seen.seed is not None for seen in found.values()) else 1


def as_table(found: "dict[str, Reworded]", passed_over: dict[str, str], backend: "Backend") -> dict[str, Any]:
    """Return the results for JSON; ``evenly`` marks the tries whose rates are over all rewordings."""
    from pytest_vla.fuzz.reword import rates_by_sort

    return {
        "distances": str(backend),
        "low_fidelity": backend.low_fidelity,
        "tasks": [_task_table(name, seen) for name, seen in found.items()],
        "without_rewordings": passed_over,
        "rates": [
            {"axis": axis, "sort": sort, "breaks": failed, "tried": number}
            for (axis, sort), (failed, number) in rates_by_sort(found.values()).items()
        ],
    }


def changes_text(original: str, text: str) -> str:
    """Return the words that differ, in the order of the texts: ``bowl -> dish``, ``+ please``."""
    from difflib import SequenceMatcher

    before, now = original.split(), text.split()
    matcher = SequenceMatcher(None, [each.lower() for each in before], [each.lower() for each in now], autojunk=False)
    runs = [(" ".join(before[a:b]), " ".join(now[c:d])) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]
    return "; ".join(f"{old} -> {new}" if old and new else f"+ {new}" if new else f"- {old}" for old, new in runs)


def _task_table(name: str, seen: "Reworded") -> dict[str, Any]:
    return {
        "task": name,
        "rewordings": len(seen.ranked),
        "seed": seen.seed,
        "twins_left_out": [{"seed": seed, "why": why} for seed, why in seen.left_out],
        "closest": None if seen.closest is None else _break_table(seen, seen.closest),
        "nearer": seen.nearer,
        "nearer_untried": len(seen.untried),
        "nothing_nearer_than": seen.cleared,
        "flaky": [_break_table(seen, each) for each in seen.flaky],
        "tried": [
            {
                "text": seen.ranked[each.place].rewording.text,
                "distance": seen.ranked[each.place].distance,
                "place": each.place,
                "sorts": dict(seen.ranked[each.place].rewording.sorts),
                "way": each.way,
                "outcome": each.outcome,
                "why": each.why,
            }
            for each in seen.tried
        ],
    }


def _break_table(seen: "Reworded", found: "Break") -> dict[str, Any]:
    ranked = seen.ranked[found.place]
    return {
        "label": found.candidate.label,
        "seed": found.candidate.seed,
        "original": found.candidate.task.language,
        "text": ranked.rewording.text,
        "distance": ranked.distance,
        "sorts": dict(ranked.rewording.sorts),
        "changed": changes_text(found.candidate.task.language, ranked.rewording.text),
        "failed_run_seeds": found.failed,
        "run_seeds": found.tried,
        "failed_other_seeds": found.failed_elsewhere,
        "other_seeds": found.tried_elsewhere,
    }


def _ranked(task: "Task", backend: "Backend") -> "tuple[Ranked, ...]":
    from pytest_vla.fuzz.reword import ranked, rewordings

    return ranked(task, rewordings(task), backend)


def _search(task: "Task", options: argparse.Namespace, some: "tuple[Ranked, ...]", trials: "Trials", keep: Any) -> None:
    from functools import partial

    from pytest_vla.fuzz.found import further_seeds
    from pytest_vla.fuzz.reword import find_closest

    generator = random.Random(f"{options.vla_run_seed}/{task.id}")
    told, further = partial(keep, task), further_seeds(options.vla_run_seed)
    told(find_closest(task, options.vla_seeds, some, trials, options.tries, generator, told, further))


def _listed(some: "Iterable[Reworded]", conditions: "Conditions", backend: "Backend") -> "list[ListedCase]":
    from pytest_vla.fuzz.case_file import ListedCase

    policy = f"{conditions.model} {digest_text(conditions.policy_digest)}"
    return [
        ListedCase(
            seen.closest.candidate,
            f"does it as {seen.closest.candidate.task.language!r}; {_distance(seen.ranked[seen.closest.place])} by "
            f"{backend}; {policy}",
        )
        for seen in some
        if seen.closest is not None
    ]


def _lines(found: "dict[str, Reworded]", passed_over: dict[str, str], backend: "Backend") -> Iterator[str]:
    from pytest_vla.fuzz.found import left_out_text
    from pytest_vla.fuzz.reword import rates_by_sort
    from pytest_vla.metrics.statistics import wilson_interval

    yield f"distances by {backend}"
    for name, why in passed_over.items():
        yield f"{name}: {why}"
    for name, seen in found.items():
        for seed, why in seen.left_out:
            yield f"{name}: {left_out_text(seed, why)}"
        if seen.seed is None:
            yield f"{name}: no rewording was tried"
            continue
        yield from _task_lines(name, seen)
    rates = rates_by_sort(found.values())
    if rates:
        yield ""
        yield "failure rates of rewordings drawn evenly over kinds, with 95% intervals over rewordings like these"
    for (axis, sort), (failed, number) in rates.items():
        low, high = wilson_interval(failed, number)
        what = f"{axis} {sort}" if axis else "all"
        yield f"  {what:34}{failed:4} of {number:<4} {failed / number:6.1%} [{low:.1%}, {high:.1%}]"


def _task_lines(name: str, seen: "Reworded") -> Iterator[str]:
    if seen.closest is None:
        tried = f"{len(seen.tried)} tried, of {len(seen.ranked)}"
        if seen.cleared is None:
            yield f"{name}: no rewording always fails: {tried}"
        else:
            yield f"{name}: no rewording closer than PD {seen.cleared:.4f} always fails, nor any other of {tried}"
    else:
        yield f"{name}: {_break_text(seen, seen.closest)}"
        if seen.untried:
            nearer = f"{len(seen.untried)} of {seen.nearer} closer ones were not tried"
            yield f"  {nearer}; none closer than PD {seen.cleared:.4f} always fails"
        else:
            yield f"  it is the closest: all {seen.nearer} closer ones were tried"
    for each in seen.flaky:
        yield f"  not always: {_break_text(seen, each)}"
    reasons = {each.why: 0 for each in seen.tried if each.outcome == "aside"}
    for why in reasons:
        number = sum(each.why == why for each in seen.tried)
        yield f"  {number} left out: {why}"


def _break_text(seen: "Reworded", found: "Break") -> str:
    ranked = seen.ranked[found.place]
    original, text = found.candidate.task.language, ranked.rewording.text
    often = f"under {found.failed} of {found.tried} run seeds"
    others = f", and {found.failed_elsewhere} of {found.tried_elsewhere} other seeds" * bool(found.tried_elsewhere)
    sorts = ", ".join(f"{axis} {sort}" for axis, sort in ranked.rewording.sorts)
    changed = changes_text(original, text)
    return f"{text!r} breaks {original!r}, at {_distance(ranked)}: {changed} ({sorts}); fails {often}{others}"


def _distance(ranked: "Ranked") -> str:
    return f"PD {ranked.distance:.4f}"


def _end(options: argparse.Namespace, written: int, episodes: int, stopped: bool) -> Iterator[str]:
    yield counted(episodes, "episode")
    if stopped:
        yield "stopped; the results so far are here"
    if written:
        again = f"pytest --vla-cases={options.output} --vla-model={options.vla_model}"
        yield f"{options.output}: {counted(written, 'case')}: `{again}` runs {'it' if written == 1 else 'them'}"
    else:
        there = f"; {options.output} is from an earlier search" * options.output.exists()
        yield f"no rewording always fails; no file was written{there}"


COMMAND = Command(declare, run)
