"""Command lines that are shown to be copied: each starts pytest with the ``-p`` plugins of this run."""

import itertools
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_vla.run.arguments import shard_text


def pytest_command(config: pytest.Config, *arguments: str) -> str:
    """Return a pytest command that can be run in the folder in which this pytest was started.

    Args:
        config: the run's config. Its ``-p MODULE`` options are repeated, as they may define suites and policies.
        arguments: further arguments for pytest.
    """
    plugins = [name for name in config.option.plugins or () if not name.startswith("no:")]
    return command_line(arguments, plugins, config.invocation_params.dir, bool(config.getini("pythonpath")))


def command_line(arguments: Sequence[str], plugins: Sequence[str], folder: Path, has_pythonpath: bool = False) -> str:
    """Return a pytest command that can be run in a folder.

    Args:
        arguments: arguments for pytest.
        plugins: modules for ``-p``.
        folder: the folder in which the command is run.
        has_pythonpath: whether the project's ini file sets ``pythonpath``.
    """
    # Python looks for modules where it is started only as `python -m pytest`.
    is_here = any(_lies_in(folder, name) for name in plugins) and not has_pythonpath
    program = ["python", "-m", "pytest"] if is_here else ["pytest"]
    return shlex.join([*program, *arguments, *(text for name in dict.fromkeys(plugins) for text in ("-p", name))])


def named_plugins(command: str) -> tuple[str, ...]:
    """Return the plugins that a run's command names by ``-p``, including ``no:NAME``."""
    try:
        words = shlex.split(command)
    except ValueError:
        # What stands in a store may be anything.
        return ()
    named = [after for word, after in itertools.pairwise(words) if word == "-p"]
    named += [word[2:] for word in words if word.startswith("-p") and not word.startswith("--") and len(word) > 2]
    return tuple(dict.fromkeys(named))


def resume_command(config: pytest.Config, run: str) -> str:
    """Return the command that resumes a run."""
    results = config.getoption("vla_results")
    shard = config.getoption("vla_shard")
    if shard is not None and not results:
        # Its folder follows from it.
        return pytest_command(config, f"--vla-resume={run}", f"--vla-shard={shard_text(shard)}")
    return pytest_command(config, f"--vla-resume={run}", *([f"--vla-results={results}"] if results else []))


def lacking_plugins(config: pytest.Config, command: str) -> str:
    """Return the hint to repeat the ``-p`` modules of a resumed run, if this invocation lacks any; else an empty text.

    Args:
        config: the config of this invocation.
        command: the command that started the run.
    """
    lacking = [name for name in named_plugins(command) if name not in (config.option.plugins or ())]
    return f" The run was started with {' '.join(f'-p {name}' for name in lacking)}: give it again" if lacking else ""


def _lies_in(folder: Path, module: str) -> bool:
    place = folder.joinpath(*module.split("."))
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()
