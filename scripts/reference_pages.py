"""`make docs`: pages of docs/reference that say what the code says, made from it; a test compares those committed."""

import argparse
import dataclasses
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pytest_vla import entries, extensions, hookspecs
from pytest_vla.cli import command_of, parser_of
from pytest_vla.errors import ERROR_REASONS, INVALID_REASONS
from pytest_vla.plan.costs import Charge
from pytest_vla.plan.manifests import Suite, aliases_of, load_suite, suite_names
from pytest_vla.plan.task import with_protocol
from pytest_vla.policies.fit import CODES
from pytest_vla.policies.load import all_kinds
from pytest_vla.records import record
from pytest_vla.records.checks import OUTCOMES
from pytest_vla.records.record import SCHEMA, Record
from pytest_vla.run.constants import MODELS_KEY
from pytest_vla.run.options import OPTIONS, RESUMED, TOPICS
from pytest_vla.scene.lint.reading import CODES as LINT_CODES
from pytest_vla.util.text import ranges_text
from pytest_vla.vary.registry import KIND_COLUMNS, PARAMETER_COLUMNS, kind_row, kinds, parameter_rows

MADE = "<!-- Made by scripts/reference_pages.py. Do not edit. -->"
WIDTH = 100
"""Columns of a command's help."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Make the reference pages from the code.")
    parser.add_argument("folder", type=Path, help="where to write them, such as docs/reference")
    folder: Path = parser.parse_args(arguments).folder
    write_pages(folder)
    return 0


def write_pages(folder: Path) -> None:
    """Write every page into a folder, which is made where it is not there. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in PAGES.items():
        (folder / name).write_text("\n".join((*make(), "")))


def options_page() -> Iterator[str]:
    yield from _head(
        "Options",
        "Every option that pytest-vla adds to `pytest`, by topic, and its key in the ini file if it has one. "
        "Command-line options override the ini file. Paths in the ini file are relative to it.",
    )
    topic = ""
    for option in OPTIONS:
        if option.topic != topic:
            topic = option.topic
            yield from (f"## {TOPICS[option.topic]}", "")
        value = "" if option.metavar is None else f"={option.metavar}"
        told = f"{_sentence(option.help)} {RESUMED[option.belongs]}".rstrip()
        yield from (f"### {option.flag}", "", f"`{option.flag}{value}`", "", told, "")
        if option.ini is not None:
            yield from (f"Ini key `{option.key}`: {option.ini_help.replace('%%', '%')}.", "")
    yield from (f"## {MODELS_KEY}", "", "An ini key without an option: your own names for policies, one a line.", "")
    yield from ("```ini", "[pytest]", f"{MODELS_KEY} =", "    ours = my_package.policies:best", "```", "")
    yield from ("## Policies", "", "What `--vla-model` takes:", "")
    offered = [(f"`{k.usage}`", _batches(k.batches)) for k in all_kinds() if k.offered]
    yield from _table(("policy", "answers in batches"), offered)


def suites_page() -> Iterator[str]:
    yield from _head("Suites", "What `--vla-suite` takes, from the suites' own manifests (`suites/*/*.toml`).")
    rows = []
    for name in suite_names():
        suite = load_suite(name)
        protocol = suite.protocol
        seeds = ranges_text(suite.seeds or (0,))
        start = "seed modulo " + str(protocol.init_states) if protocol.init_state is None else str(protocol.init_state)
        levels = [f"{sum(task.task_level == level for task in suite.tasks)} {level}" for level in suite.task_levels]
        tasks = f"{len(suite.tasks)} ({', '.join(levels)})" if levels else str(len(suite.tasks))
        aliases = ", ".join(f"`{alias}`" for alias in aliases_of(name))
        rows.append((f"`{name}`", aliases, suite.title, tasks, _steps(suite), seeds, start))
    yield from _table(("suite", "also", "title", "tasks", "steps at most", "seeds by default", "init state"), rows)
    protocol = load_suite("tabletop").protocol
    yield from ("## Protocol", "", "What a suite's protocol says; the values are those of `tabletop`.", "")
    values = [(f"`{field.name}`", f"`{getattr(protocol, field.name)}`") for field in dataclasses.fields(protocol)]
    yield from _table(("field", "value"), values)


def _steps(suite: Suite) -> str:
    """The step budgets, which may differ by level."""
    return ", ".join(str(steps) for steps in sorted({task.protocol.max_steps for task in suite.tasks}))


def variations_page() -> Iterator[str]:
    yield from _head(
        "Variations",
        "Every kind that `--vla-vary` takes. `pytest --vla-vary=list` prints the same list. A dimension's name takes "
        "all of its kinds, but for those that are marked *by name only*. Under *edits* is what a kind changes: the "
        "*scene* before it is compiled, the *state* that an episode starts from, the looks of the compiled *model*, "
        "*pictures* after they are drawn, *actions*, or the *instruction*. Tables of parameters have the names and "
        "bounds that a [file of cases](../how-to/fuzz.md#keep-failures-as-tests) takes, and the value that changes "
        "nothing. Bounds and names of objects that differ between tasks are those of the first task of `tabletop` or "
        "`tabletop_safety` that can have the kind, and for `background.floor` those of a task with a further camera, "
        "which sees the floor. Kinds that need a benchmark's files have no table.",
    )
    tasks = [task for suite in ("tabletop", "tabletop_safety") for task in load_suite(suite).tasks]
    tasks.append(with_protocol(tasks[0], cameras=(*tasks[0].protocol.cameras, "frontview")))
    for dimension, group in itertools.groupby(kinds(), key=lambda kind: kind.dimension):
        some = list(group)
        yield from (f"## {dimension}", "", *_table(KIND_COLUMNS, (kind_row(kind, tasks) for kind in some)))
        if parameters := [row for kind in some for row in parameter_rows(kind, tasks)]:
            yield from _table(PARAMETER_COLUMNS, parameters)


def codes_page() -> Iterator[str]:
    yield from _head(
        "Reason codes",
        "Codes are stable: a program may compare them. An episode ends as `success`, `failure`, `error` or `invalid`. "
        "The last two have a reason, and are in no rate.",
    )
    yield from ("## Why an episode is an error", "")
    yield from _table(("code", "meaning"), [(f"`{code}`", told) for code, told in ERROR_REASONS.items()])
    yield from ("## Why an episode is invalid", "")
    yield from _table(("code", "meaning"), [(f"`{code}`", told) for code, told in INVALID_REASONS.items()])
    yield from ("## Why a policy does not fit a suite", "")
    yield from ("`pytest-vla check-policy` finds them, and a run does before its first episode.", "")
    rows = [(f"`{code.name}`", code.severity, code.meaning, _sentence(code.mend)) for code in CODES.values()]
    yield from _table(("code", "severity", "meaning", "how to mend it"), rows)


def lint_page() -> Iterator[str]:
    yield from _head(
        "Lint codes",
        "What `pytest-vla lint` finds in task files. Codes are stable: a program may compare them. Upstream is "
        "LIBERO's code, or VLA-Arena's where the file has costs or movers. An error makes the exit code 1; notes are "
        "shown with `--level=note`. Codes marked *simulated* are found with `--simulate` alone.",
    )
    for letter, subject in LINT_SUBJECTS.items():
        yield from (f"## {letter}: {subject}", "")
        codes = [code for code in LINT_CODES.values() if code.name.startswith(letter)]
        rows = [(f"`{c.name}`", f"{c.level}{', *simulated*' * c.simulated}", c.meaning, c.why) for c in codes]
        yield from _table(("code", "level", "meaning", "what upstream does, or what follows"), rows)


LINT_SUBJECTS: Mapping[str, str] = {
    "S": "the text",
    "G": "the goal",
    "C": "costs",
    "O": "objects and fixtures",
    "R": "regions",
    "M": "movers",
    "P": "the prompt",
    "I": "what the task begins with",
}


def records_page() -> Iterator[str]:
    yield from _head(
        "Records",
        f"What an episode leaves: schema {SCHEMA}. `pytest-vla export --format=jsonl` prints records as they are kept; "
        "[a run and what it leaves](../how-to/resume.md) says where they lie.",
    )
    rule = (inspect.getdoc(record) or "").split("\n\n")[1]
    yield from ("## Versions", "", _code(" ".join(rule.split())).replace("this module", f"`{record.__name__}`"), "")
    yield from (
        f"Records of schema {min(record.STEPS)} to {SCHEMA} are read; one of a later schema is refused by name. A "
        "results folder of an earlier version is read as it is, and becomes this version's when a run is written.",
        "",
    )
    yield from ("## Record", "")
    told = attributes_of(Record)
    types = {field.name: _type_of(field) for field in dataclasses.fields(Record)}
    told["outcome"] = "one of " + ", ".join(f"`{outcome}`" for outcome in OUTCOMES) + "."
    rows = [(f"`{name}`", f"`{type_}`", _code(told[name])) for name, type_ in types.items()]
    yield from _table(("field", "type", "meaning"), rows)
    yield from ("## Charge", "", "An entry of `costs`.", "")
    told = attributes_of(Charge)
    rows = [(f"`{each.name}`", f"`{_type_of(each)}`", _code(told[each.name])) for each in dataclasses.fields(Charge)]
    yield from _table(("field", "type", "meaning"), rows)
    yield from (
        *("## Trajectory", ""),
        "The npz file beside it: row 0 is the state after settling, row i the state after control step i, of n.",
        "",
    )
    yield from _table(
        ("array", "shape", "unit"),
        (
            ("`qpos`", "(n+1, nq)", "MuJoCo's: m and rad; of a suite with a world of its own that world's state"),
            ("`qvel`", "(n+1, nv)", "m/s and rad/s; of a world of its own (n+1, 0)"),
            ("`eef_pos`", "(n+1, 3)", "m, world frame"),
            (
                "`actions`",
                "(n, k)",
                "of the suite's k numbers, 7 of most; as the policy gave them, clipped to [-1, 1] if they are scaled",
            ),
            ("`outcome`", "()", "the episode's outcome, a text"),
            ("any other", "(n, ...)", "a series of numbers or truths, a row a control step; not there: not measured"),
        ),
    )


def hooks_page() -> Iterator[str]:
    yield from _head(
        "Hooks",
        "What a package or a project's `conftest.py` may define: [Extend](../how-to/extend.md) shows how. The entries "
        f"that hooks give are of `pytest_vla.entries`; their names are of {entries.NAMES}.",
    )
    hooks = [each for name, each in vars(hookspecs).items() if name.startswith("pytest_vla_")]
    rows = []
    for hook in hooks:
        signature = inspect.signature(hook)
        gives = re.sub(r"Sequence\[(.+)\]", r"\1", str(signature.return_annotation or ""))
        names = re.findall(r"\w+Entry", gives)
        told = (inspect.getdoc(hook) or "").split("\n\n")
        listed = ", ".join(f"[`{name}`](#{name.lower()})" for name in names)
        called = f"`{hook.__name__}({', '.join(signature.parameters)})`"
        rows.append((called, listed, _code(" ".join(" ".join(told).split()))))
    yield from _table(("hook", "entries", "what it adds"), rows)
    for name, entry in vars(entries).items():
        if not name.endswith("Entry"):
            continue
        meanings = attributes_of(entry)
        fields = [field for field in dataclasses.fields(entry) if field.name != "origin"]
        yield from (f"## {name}", "", _code((inspect.getdoc(entry) or "").partition("\n")[0]), "")
        rows = [(f"`{field.name}`", _default(field), _sentence(_code(meanings[field.name]))) for field in fields]
        yield from _table(("field", "default", "meaning"), rows)


def commands_page() -> Iterator[str]:
    yield from _head("Commands", "Every `pytest-vla` command, as its `--help` says it. Runs are begun by `pytest`.")
    commands = extensions.commands().values()
    yield from _table(("command", "what it does"), [(f"[`{c.name}`](#{c.name})", c.about) for c in commands])
    for entry in commands:
        yield from (f"## {entry.name}", "", "```text", help_of(entry), "```", "")


PAGES: Mapping[str, Callable[[], Iterable[str]]] = {
    "options.md": options_page,
    "suites.md": suites_page,
    "variations.md": variations_page,
    "codes.md": codes_page,
    "lint.md": lint_page,
    "records.md": records_page,
    "hooks.md": hooks_page,
    "commands.md": commands_page,
}
"""The pages by file name."""


def help_of(entry: entries.CommandEntry) -> str:
    """What ``pytest-vla COMMAND --help`` prints, `WIDTH` columns wide, and then that of each command of its own."""
    parser = parser_of(entry, command_of(entry))
    own = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    found = [parser, *(each for action in own for each in action.choices.values())]
    for each in found:
        each.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=WIDTH)
    return "\n\n".join(each.format_help().rstrip() for each in found)


def attributes_of(cls: type) -> dict[str, str]:
    """What a class's docstring says of each attribute, under "Attributes:"."""
    body = textwrap.dedent((inspect.getdoc(cls) or "").partition("Attributes:\n")[2])
    names = re.findall(r"^(\w+): ((?:.+\n?(?: +.+\n?)*))", body, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in names}


def _head(title: str, told: str) -> Iterator[str]:
    yield from (f"# {title}", "", MADE, "", told, "")


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(titles)} |"
    yield f"|{'---|' * len(titles)}"
    for row in rows:
        # A bar within a cell would begin another one.
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |"
    yield ""


def _sentence(text: str) -> str:
    text = text.replace("%%", "%").strip()
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def _batches(batches: bool | None) -> str:
    return {True: "yes", False: "no", None: "some"}[batches]


def _type_of(field: "dataclasses.Field[object]") -> str:
    return field.type if isinstance(field.type, str) else getattr(field.type, "__name__", None) or str(field.type)


def _default(field: "dataclasses.Field[object]") -> str:
    return "" if field.default is dataclasses.MISSING else f"`{field.default!r}`"


def _code(text: str) -> str:
    """Docstrings write code in two backticks, names in one: both are code here."""
    return text.replace("``", "`")


if __name__ == "__main__":
    raise SystemExit(main())
