"""The command line ``pytest-vla``. Each command is a module of `pytest_vla.commands`."""

import argparse
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from pytest_vla import extensions, hook_modules, kernels
from pytest_vla.commands.extension import TOPICS, pytest_vla_commands
from pytest_vla.entries import Command, CommandEntry
from pytest_vla.errors import VlaError
from pytest_vla.util.extras import extra_of
from pytest_vla.util.text import did_you_mean, printable_lines

# A command's module is imported when the command is run, so that --help is fast.

_ABOUT = (
    "Look at the tasks of robot-policy tests and at the records of their runs. pytest runs the tests: "
    "`pytest --vla-suite=SUITE --vla-model=POLICY`; see `pytest --help` for all --vla options."
)

_OTHERS = "added by suites and packages"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit code: 0, 1 if it failed, 2 if the arguments are wrong, or one of its own."""
    typed = sys.argv[1:] if arguments is None else list(arguments)
    plugins, rest = _plugins_of(typed)
    trouble = 1
    name = rest[0] if rest and not rest[0].startswith("-") else ""
    try:
        if name:
            # Simulation and serving must use the same kernels as pytest's runs. Pinned before anything imports numpy.
            kernels.pin()
        if plugins:
            sys.path.insert(0, os.getcwd())
            hook_modules.consent(plugins, Path.cwd())
        found = _entries(name)
        if name not in found:
            parser = _parser(found)
            if not name:
                # Help and wrong arguments exit here.
                parser.parse_args(typed)
            known = f"Commands: {', '.join(found)}.{hook_modules.of_a_conftest()}"
            parser.error(f"there is no command {name!r}.{did_you_mean(name, found)} {known}")
        command = command_of(found[name])
        trouble = command.trouble
        code = command.run(_parsed(parser_of(found[name], command), rest[1:]))
        sys.stdout.flush()
    except (VlaError, OSError) as error:
        return _refuse(error, trouble)
    except ModuleNotFoundError as error:
        if (cure := extra_of(error)) is None:
            raise
        return _refuse(f"`pytest-vla {name}` needs {error.name}, which is not installed: {cure}", trouble)
    except KeyboardInterrupt:
        return _refuse("interrupted", trouble)
    return code if isinstance(code, int) else 0


def _entries(name: str) -> Mapping[str, CommandEntry]:
    """Return the commands by name; those of other packages are added only if `name` is not one of ours."""
    ours = {entry.name: entry for entry in pytest_vla_commands()}
    if name in ours:
        return ours
    # A broken package must not break --help.
    found, troubles = extensions.usable_commands()
    for trouble in troubles:
        _refuse(trouble)
    return {**ours, **found}


def command_of(entry: CommandEntry) -> Command:
    """Return the command that an entry names. Raises VlaError: it cannot be loaded, or is no Command."""
    found = extensions.load(entry)
    if not isinstance(found, Command):
        raise VlaError(f"{entry.origin}: {entry.load} is {type(found).__name__}, expected pytest_vla.entries.Command")
    return found


def parser_of(entry: CommandEntry, command: Command) -> argparse.ArgumentParser:
    """Return a command's own parser. Raises VlaError if its options cannot be determined."""
    parser = argparse.ArgumentParser(
        prog=f"pytest-vla {entry.name}", description=f"{entry.about[:1].upper()}{entry.about[1:]}."
    )
    command.declare(parser)
    return parser


def _parsed(parser: argparse.ArgumentParser, typed: Sequence[str]) -> argparse.Namespace:
    """Return a command's arguments; exit with 2 if one is unknown, with a hint if it is ``-p``."""
    options, unknown = parser.parse_known_args(typed)
    if not unknown:
        return options
    modules = " ".join(f"-p {name}" for name in _modules_in(typed))
    told = f". put -p before the command: pytest-vla {modules or '-p MODULE'} {parser.prog.partition(' ')[2]} ..."
    minus_p = any(text.startswith("-p") for text in unknown)
    parser.error(f"unrecognized arguments: {' '.join(unknown)}{told * minus_p}")


def _modules_in(typed: Sequence[str]) -> Iterator[str]:
    for text, after in zip(typed, [*typed[1:], ""], strict=True):
        if text.startswith("-p") and (name := text[2:] or after):
            yield name


def _parser(found: Mapping[str, CommandEntry]) -> argparse.ArgumentParser:
    """Return the parser for what precedes a command's own arguments."""
    width = shutil.get_terminal_size().columns - 2
    parser = argparse.ArgumentParser(
        prog="pytest-vla",
        usage="%(prog)s [-h] [--version] [-p MODULE] COMMAND ...",
        description=textwrap.fill(_ABOUT, width),
        epilog="\n".join(_table(found, width)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"pytest-vla {version('pytest-vla')}")
    parser.add_argument(
        "-p",
        metavar="MODULE",
        action="append",
        help="load suites and other extensions from this module, such as -p conftest; the current folder is searched "
        "first. Write it before the command",
    )
    parser.add_argument("command", metavar="COMMAND", help="one of the commands below; see `pytest-vla COMMAND --help`")
    return parser


def _table(found: Mapping[str, CommandEntry], width: int) -> Iterator[str]:
    """Yield the lines of the commands' list, by topic."""
    column = max(map(len, found)) + 4
    known = {name for commands in TOPICS.values() for name in commands}
    topics = {topic: [name for name in found if name in commands] for topic, commands in TOPICS.items()}
    yield "commands:"
    for topic, names in {**topics, _OTHERS: [name for name in found if name not in known]}.items():
        if names:
            yield from ("", f"{topic}:")
        for name in names:
            about = textwrap.wrap(found[name].about, max(width - column, 11))
            yield f"  {name}".ljust(column) + about[0]
            yield from (" " * column + line for line in about[1:])


def _plugins_of(typed: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Split the arguments into the modules of ``-p MODULE`` before the command, and the rest."""
    names, rest = [], list(typed)
    while rest and rest[0].startswith("-p") and rest != ["-p"]:
        names.append(rest.pop(0)[2:] or rest.pop(0))
    return names, rest


def _refuse(error: Exception | str, code: int = 1) -> int:
    if isinstance(error, OSError):
        # Standard output cannot be written. Python would report this again when it closes it.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    # The reader, such as head, has closed the pipe: no message.
    if not isinstance(error, BrokenPipeError):
        print(printable_lines(f"pytest-vla: {error}"), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
