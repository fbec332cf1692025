"""`make demo`: the suite tabletop with the expert, with the small learned policy, and at random, on all cores.

Leaves a picture sheet of the three and a video. The learned one is tried under variations and paraphrases too, and the
expert does a task of each hazard of tabletop_safety; a report tells what the variations did, with a picture of an
episode that they broke, above its twin. Exits with 0 where the expert reached the
success rate that is promised of it, every episode of the other two ran to its end, the learned one did half of the
tasks, random moves hardly one, and no hazard cost anything.
"""

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pytest_vla.metrics.rates import interval_text, rate_of, share_text
from pytest_vla.metrics.safety import excess_cost, is_safe
from pytest_vla.records.names import DEFAULT_RESULTS
from pytest_vla.records.record import Record
from pytest_vla.records.runs import Run
from pytest_vla.records.store import open_store

SUITE = "tabletop"
PROMISED, TOO_MUCH = "95%", 0.2
LEARNED, ENOUGH = "tiny", 0.5
EXPERT_EPISODES, LEARNED_EPISODES, RANDOM_EPISODES = 1, 1, 1
# What the learned policy is tried under, and with how many episodes.
# Of ten or so each: one that harms it, one that does not, and texts.
VARIED, SAMPLE = "robot:4-5,light:4-5,language.paraphrase", 33
# A task of each hazard, where it is on the way.
SAFETY, SAFETY_LEVEL = "tabletop_safety", "L1"
SAFETY_TASKS = (
    "put_the_bowl_on_the_rack,put_the_bottle_on_the_plate,put_the_box_in_the_bowl,put_the_cup_on_the_plate,"
    "put_the_bottle_on_the_rack"
)
BROKEN = "demo-broken.png"
QUIET = ("--no-header", "--tb=no", "-rN", "-n", "auto")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The demo of pytest-vla.")
    parser.add_argument("--tasks", help="only these, as --vla-tasks")
    parser.add_argument("--episodes", type=int, default=EXPERT_EPISODES, help="of the expert, for each task")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    results = Path(DEFAULT_RESULTS)
    expert, reached = run("expert", options.episodes, options.tasks, results, f"--vla-min-success={PROMISED}")
    learned = run(LEARNED, LEARNED_EPISODES, options.tasks, results)[0] if expert else None
    random = run("random", RANDOM_EPISODES, options.tasks, results)[0] if learned else None
    if expert is None or learned is None or random is None:
        return 1
    sheet, video = results / "demo.png", results / "demo.mp4"
    with open_store(results, create=False) as store:
        shown = worth_seeing(list(store.records(expert.name)))
    told("pytest-vla", "show", expert.name, learned.name, random.name, "-o", str(sheet))
    told("pytest-vla", "show", expert.name, f"--tasks={shown.task}", f"--seeds={shown.seed}", "-o", str(video))
    problems = verdict(reached, learned, random)
    # Of some tasks alone there is nothing to see of the others.
    safe, all_safe = (None, True) if options.tasks else hazards(results)
    by_dimension = {} if options.tasks else varied(results)
    problems += [] if all_safe else ["The expert was not safe among hazards."]
    print(f"\nThe demo took {time.monotonic() - began:.0f} s. {' '.join(problems) or 'All is well.'}")
    for ended in (expert, learned, random):
        rate = rate_of(ended)
        print(f"  {ended.model:<16} {rate.successes}/{rate.counted} = {share_text(rate)} {interval_text(rate)}")
    for dimension, (done, number) in by_dimension.items():
        print(f"  {f'{LEARNED}, {dimension}':<16} {done}/{number}")
    if safe is not None:
        print(f"  {'among hazards':<16} {safe}")
    print(f"  {sheet!s:<16} each task: its start and its end, by the expert, as learned, and at random")
    print(f"  {video!s:<16} {shown.instruction}")
    if by_dimension and (results / BROKEN).is_file():
        print(f"  {results / BROKEN!s:<16} an episode that a variation broke, and its twin as the task is")
    print(NEXT.format(activate=Path(sys.executable).with_name("activate"), suite=SUITE, task=shown.task))
    return int(bool(problems))


NEXT = """
What to type next, after `. {activate}`:
  pytest-vla show {suite}
      the tasks, as a policy first sees them
  pytest-vla view {suite}/{task}
      one of them in MuJoCo's viewer
  pytest --vla-suite={suite} --vla-model=my_policy:policy
      your own policy, ten lines: see docs/how-to/policy.md
  pytest-vla fetch libero
      LIBERO's suites, with your consent"""


def varied(results: Path) -> dict[str, tuple[int, int]]:
    """The learned policy under variations, beside benign twins; how many it did of how many, by dimension."""
    ended, _ = run(LEARNED, 1, None, results, f"--vla-vary={VARIED}", f"--vla-sample={SAMPLE}", "--vla-twins=auto")
    if ended is None:
        return {}
    with open_store(results, create=False) as store:
        records = list(store.records(ended.name))
    broken = worst(records)
    if broken is not None:
        only = (f"--tasks={broken.task}", f"--seeds={broken.seed}", f"--vary={broken.variation['label']},benign")
        told("pytest-vla", "show", ended.name, *only, "--frames=5", "-o", str(results / BROKEN))
    told("pytest-vla", "report", ended.name)
    found: dict[str, tuple[int, int]] = {}
    for record in records:
        dimension = str(record.variation.get("dimension", "as the tasks are"))
        done, number = found.get(dimension, (0, 0))
        found[dimension] = done + (record.outcome == "success"), number + 1
    return found


def worst(records: Sequence[Record]) -> Record | None:
    """The first varied episode that failed where its twin succeeded; None: there is none."""
    done = {(record.task, record.seed) for record in records if not record.variation and record.outcome == "success"}
    failed = (record for record in records if record.variation and record.outcome == "failure")
    return next((record for record in failed if (record.task, record.seed) in done), None)


def hazards(results: Path) -> tuple[str | None, bool]:
    """What came of the expert among hazards, and whether all of it was safe; None: it did not come to a run."""
    ended, _ = run("expert", 1, SAFETY_TASKS, results, f"--vla-task-levels={SAFETY_LEVEL}", suite=SAFETY)
    if ended is None:
        return None, False
    with open_store(results, create=False) as store:
        records = list(store.records(ended.name))
    costs = [excess_cost(record, "paper") for record in records]
    safe = sum(record.outcome == "success" and is_safe(cost) for record, cost in zip(records, costs, strict=True))
    told = f"{safe}/{len(records)} done at a cost of 0; {sum(costs):g} in all"
    return told, safe == ended.planned


def run(
    model: str, episodes: int, tasks: str | None, results: Path, *more: str, suite: str = SUITE
) -> tuple[Run | None, bool]:
    """A suite's run with a model, and whether pytest was content; None: it did not come to a run."""
    command = [f"--vla-suite={suite}", f"--vla-model={model}", f"--vla-episodes={episodes}", *more]
    before = newest(results)
    ended = told("pytest", *command, *([f"--vla-tasks={tasks}"] if tasks else []), *QUIET)
    after = newest(results)
    if after is None or (before is not None and after.name == before.name):
        print(f"the demo ends here: pytest ended with {ended} and left no run", file=sys.stderr)
        return None, False
    return after, ended == 0


def newest(results: Path) -> Run | None:
    """The run that began last; None: there is none."""
    if not results.is_dir():
        return None
    with open_store(results, create=True) as store:
        runs = store.runs()
    return runs[0] if runs else None


def told(program: str, *arguments: str) -> int:
    """Show a command line, run it, and return its exit code."""
    print(f"\n$ {shlex.join([program, *arguments])}", flush=True)
    module = {"pytest": "pytest", "pytest-vla": "pytest_vla.cli"}[program]
    environ = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    return subprocess.run([sys.executable, "-m", module, *arguments], env=environ, check=False).returncode


def worth_seeing(records: Sequence[Record]) -> Record:
    """The success that took longest; where there is none, the first episode."""
    successes = [record for record in records if record.outcome == "success"]
    return max(successes, key=lambda record: record.steps) if successes else records[0]


def verdict(reached: bool, learned: Run, random: Run) -> list[str]:
    """What went wrong, a sentence each."""
    problems = [] if reached else [f"The expert did not reach {PROMISED}."]
    for ended in (learned, random):
        errors = sum(count.episodes for count in ended.counts if count.outcome == "error")
        if errors or ended.done < ended.planned or ended.status != "finished":
            told_of = f"{ended.done} of {ended.planned} episodes ran, and {errors} were errors."
            problems.append(f"With {ended.model}, {told_of}")
    rate = rate_of(learned)
    if rate.counted > 1 and rate.successes < ENOUGH * rate.counted:
        problems.append(f"The learned policy did {rate.successes} of {rate.counted} episodes, less than half.")
    rate = rate_of(random)
    if rate.counted and rate.successes > TOO_MUCH * rate.counted:
        problems.append(f"Random moves did {rate.successes} of {rate.counted} episodes: what does this suite measure?")
    return problems


if __name__ == "__main__":
    sys.exit(main())
