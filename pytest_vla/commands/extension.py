"""The commands of this package: one module each, imported when the command is run."""

import keyword
from collections.abc import Mapping

from pytest_vla.entries import CommandEntry

TOPICS: Mapping[str, Mapping[str, str]] = {
    "run and resume": {
        "runs": "list runs, newest first, with their progress and success rates",
        "merge": "join the runs of shards (--vla-shard) into one run, and list missing episodes",
        "durations": "write how long episodes took to a file, to balance shards by",
    },
    "results": {
        "report": "report results beyond success rates: paraphrases, variations, failure types, benchmark tables",
        "reproduce": "recompute the numbers that a paper prints, from published data",
        "export": "export a run's episodes as a table or a training data set",
        "site": "write a static site of runs for CI pages, which grows from job to job",
        "label": "rate the quality of a run's successes on a local page",
        "rescore": "compute a run's costs anew by other cost rules, from its recorded states",
        "import": "import published logs as a run",
        "rm": "remove runs, with their records and files",
        "prune": "remove runs that are old, broken or too many",
    },
    "gate": {
        "baseline": "save, show or update the baseline that later runs are compared with",
        "gate": "judge whether a run is worse than a baseline",
        "plan": "compute how many episodes a gate needs, by simulation from a baseline",
        "bisect": "find the first regressed checkpoint of a list, by gates against a good one",
    },
    "tasks and scenes": {
        "show": "draw tasks, or a run's episodes, as a sheet of pictures",
        "view": "open a task in MuJoCo's viewer",
        "lint": "find mistakes in task files, such as costs that are cut off or goals that crash",
        "premises": "measure which of the tasks' preconditions hold after settling",
        "init-states": "make init states for your own tasks",
    },
    "policies": {
        "check-policy": "check whether a policy fits a suite, and how fast it answers",
        "doctor": "find out why a policy fails: its wiring, its weights, or neither",
        "serve": "serve a policy to other machines, by openpi's protocol",
    },
    "language and fuzzing": {
        "fuzz": "search for scenes that a policy should solve but fails, and write minimal ones as cases",
        "reword": "find the closest rewording of each task that the policy fails, and write it as a case",
        "pride": "compute the distance of a paraphrase from its original, with its parts",
    },
    "machine": {
        "fetch": "download LIBERO's data from its authors' servers, after asking you",
        "cache": "show, fill or empty this machine's cache of compiled scenes and machine code",
    },
}
"""The commands of this package with what they do, by topic, in the order of `pytest-vla --help`."""


def module_of(name: str) -> str:
    """Return the module that declares a command: its name, with ``_`` appended if the name is a Python keyword."""
    plain = name.replace("-", "_")
    return f"pytest_vla.commands.{plain}{'_' * keyword.iskeyword(plain)}"


def pytest_vla_commands() -> list[CommandEntry]:
    """Return the entries of this package's commands, by topic."""
    return [
        CommandEntry(name, about, f"{module_of(name)}:COMMAND")
        for commands in TOPICS.values()
        for name, about in commands.items()
    ]
