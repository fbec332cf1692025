"""The commands of this package: one module each, imported when the command is run."""

import keyword

from pytest_vla.entries import CommandEntry

_ABOUT = {
    "show": "pictures of tasks, or of a run's episodes, on one sheet",
    "view": "a task in MuJoCo's viewer",
    "check-policy": "whether a policy fits a suite: what it says, what a trial shows, how long answers take",
    "fuzz": "scenes that a policy should do and does not, each at its smallest, as cases to run again",
    "reword": "of each task the closest rewording that breaks it, as cases to run again",
    "serve": "a policy for other machines, in openpi's protocol",
    "runs": "the runs, newest first: how far they came, and their success rates",
    "merge": "the runs of shards (--vla-shard) as one run; says what is missing",
    "durations": "how long episodes took, as a file by which shards are balanced",
    "label": "a local page on which you say how well a run's successes were done",
    "report": "what runs say beyond their rates: success under paraphrases and variations, failure types, benchmarks' "
    "own tables",
    "site": "runs as a static site for CI pages, which grows from job to job: trends, checkpoints, a page of each run",
    "export": "the episodes of a run as a table for other programs",
    "baseline": "what later runs are compared with: make it of a run, look at it, bring it up to date",
    "gate": "whether a run is worse than a baseline: better, no worse, regression, undecided or not comparable",
    "plan": "how many episodes a gate takes, simulated from a baseline before they run",
    "bisect": "the first checkpoint of a list that regressed, by gates against a good one",
    "import": "published logs as a run",
    "rescore": "a run's episodes charged anew, by other costs, from their recorded states",
    "rm": "remove runs: their records and their files",
    "prune": "remove the runs that are old, broken or too many",
    "pride": "how far a paraphrase is from its original, with the parts of the distance",
    "fetch": "LIBERO's data from where its authors put it, with your consent",
    "cache": "what the cache of compiled scenes holds; clear it",
    "init-states": "make the init states of your own tasks",
    "lint": "what is wrong with task files: costs that are cut off, goals that crash, prompts of another task",
    "premises": "measure which premises of tasks hold after settling",
}
"""In the order in which they are told: looking, policies, runs, language, data."""


def module_of(name: str) -> str:
    """Return the module that declares a command: its name, with ``_`` appended if the name is a Python keyword."""
    plain = name.replace("-", "_")
    return f"pytest_vla.commands.{plain}{'_' * keyword.iskeyword(plain)}"


def pytest_vla_commands() -> list[CommandEntry]:
    """Return the entries of this package's commands."""
    return [CommandEntry(name, about, f"{module_of(name)}:COMMAND") for name, about in _ABOUT.items()]
