"""``pytest-vla lint``: finds mistakes in task files, from their text and, on request, from their physics."""

import argparse
import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.kernels import pinned_processes
from pytest_vla.plan.case import PROTOCOLS
from pytest_vla.plan.manifests import load_suite, named_suites
from pytest_vla.run.arguments import JoinAction, comma_list, whole_number
from pytest_vla.scene.lint.reading import CODES, ERROR, LEVELS, LintFinding
from pytest_vla.util.text import counted, did_you_mean, printable

# The simulator is imported inside the functions, so that --help is fast.

FORMATS = ("text", "github", "json")
_ENDINGS = (".bddl", ".cbddl")
_GITHUB = {"error": "error", "warning": "warning", "note": "notice"}
_MOST = 1000


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.epilog = (
        "Checks task files (BDDL and CBDDL) for text that upstream's code ignores, cannot judge or judges differently, "
        "and reports stable codes (docs: Lint codes). An unreadable file is a finding, and the other files are still "
        "checked. Categories and models come from --data, PYTEST_VLA_DATA, or the file's folder with bddl_files. Exit "
        "code: 1 if an error is found, 0 with warnings and notes."
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="task files, or folders with task files")
    parser.add_argument(
        "--suite", action="append", default=[], metavar="NAME", help="also check a suite's task files; can be repeated"
    )
    parser.add_argument("--data", metavar="DIR", type=Path, help="data folder, as for pytest's --vla-data")
    parser.add_argument(
        "--protocol",
        choices=PROTOCOLS,
        default=PROTOCOLS[0],
        help="rules to check by, as for pytest's --vla-protocol: text on which VLA-Arena's code raises is an error "
        "with upstream, and a warning with ours and paper, which can judge it (default: ours)",
    )
    parser.add_argument(
        "--select",
        metavar="CODES",
        type=_codes,
        action=JoinAction,
        help="show only these codes, such as C001,G (a letter selects its group)",
    )
    parser.add_argument(
        "--ignore", metavar="CODES", type=_codes, action=JoinAction, default=(), help="hide these codes"
    )
    parser.add_argument(
        "--level", choices=LEVELS, default="warning", help="show findings of at least this severity (default: warning)"
    )
    parser.add_argument("--format", choices=FORMATS, default="text", help="output format (default: text)")
    parser.add_argument(
        "--simulate",
        action="store_true",
        help="also settle each scene, and check what holds at the start and which objects are thrown apart",
    )
    parser.add_argument(
        "--states",
        metavar="N",
        type=whole_number("a number of init states", 1, _MOST),
        default=5,
        help="with --simulate: settle the first N init states (default: 5)",
    )


def run(options: argparse.Namespace) -> int:
    """Check the files, print the findings, and return the exit code. Raises VlaError if there is no file."""
    from pytest_vla.episode.lint import lint_file

    files = list(dict.fromkeys((*_files(options.paths), *_of_suites(options.suite, options.data))))
    if not files:
        raise VlaError("no task files: give files, folders of them, or --suite=NAME")
    found = {finding for file in files for finding in lint_file(file, options.data, options.protocol)}
    if options.simulate:
        known = {(each.file, each.line, each.column, each.code) for each in found}
        new = _simulated(files, options.data, options.states)
        found.update(each for each in new if (each.file, each.line, each.column, each.code) not in known)
    shown = sorted(each for each in found if _is_wanted(each, options.select, options.ignore))
    told = [each for each in shown if LEVELS.index(each.level) <= LEVELS.index(options.level)]
    for line in _lines(told, options.format):
        print(line)
    if options.format != "json":
        print(_summary(shown, len(files), options.level))
    return int(any(each.level == ERROR for each in shown))


def _codes(text: str) -> tuple[str, ...]:
    names = tuple(name.upper() for name in comma_list(text))
    for name in names:
        if not any(code.startswith(name) for code in CODES):
            raise argparse.ArgumentTypeError(f"there is no code {name!r}.{did_you_mean(name, CODES)}")
    return names


def _is_wanted(finding: LintFinding, select: Sequence[str] | None, ignore: Sequence[str]) -> bool:
    selected = select is None or finding.code.startswith(tuple(select))
    return selected and not finding.code.startswith(tuple(ignore))


def _files(paths: Iterable[str]) -> Iterator[str]:
    """Yield the named task files, and those in named folders. Raises VlaError."""
    for path in paths:
        place = Path(path)
        if not place.is_dir():
            if not place.exists():
                raise VlaError(f"{path}: there is no such file or folder")
            yield path
            continue
        inside = sorted(str(file) for file in place.rglob("*") if file.suffix in _ENDINGS and file.is_file())
        if not inside:
            raise VlaError(f"{path}: no task file ({' or '.join(_ENDINGS)}) in this folder")
        yield from inside


def _of_suites(names: Iterable[str], data: Path | None) -> Iterator[str]:
    from pytest_vla.plan.data_roots import find_task_file, task_roots

    for name in (each for text in names for each in named_suites(text)):
        suite = load_suite(name, data=data)
        if any(task.world is not None for task in suite.tasks):
            raise VlaError(f"suite {name} has its own world, and no task files")
        roots = task_roots(suite.tasks[0])
        for task in suite.tasks:
            yield str(find_task_file(roots, task))


def _simulated(files: Sequence[str], data: Path | None, states: int) -> Iterator[LintFinding]:
    """Yield the findings from settling the scenes, on all processors."""
    from pytest_vla.episode.lint import simulate_file

    with pinned_processes(len(files)) as pool:
        for future in [pool.submit(simulate_file, file, data, states) for file in files]:
            yield from future.result()


def _lines(findings: Iterable[LintFinding], format: str) -> Iterator[str]:
    if format == "json":
        rows = [dataclasses.asdict(each) for each in findings]
        yield json.dumps(rows, indent=2)
        return
    for each in findings:
        if format == "github":
            place = f"file={_escaped(each.file)},line={each.line},col={each.column},title={each.code}"
            yield f"::{_GITHUB[each.level]} {place}::{_escaped(each.message, of_a_value=False)}"
        else:
            yield printable(f"{each.file}:{each.line}:{each.column}: {each.level} {each.code}: {each.message}")


def _escaped(text: str, of_a_value: bool = True) -> str:
    """Return the text escaped for GitHub's workflow commands."""
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if of_a_value else text


def _summary(findings: Sequence[LintFinding], files: int, level: str) -> str:
    count = Counter(each.level for each in findings)
    numbers = ", ".join(counted(count[name], name) for name in LEVELS if count[name])
    hidden = [name for name in LEVELS[LEVELS.index(level) + 1 :] if count[name]]
    more = f" (--level={hidden[-1]} shows all)" if hidden else ""
    return f"{counted(files, 'task file')}: {numbers or 'nothing found'}{more}"


COMMAND = Command(declare, run)
