"""Hints on ini keys and options of ours that are misspelt, or that have no effect in this invocation."""

import shlex
from collections.abc import Iterable, Iterator

import pytest

from pytest_vla import hook_modules
from pytest_vla.run.constants import KEY_START, MODELS_KEY
from pytest_vla.run.context import RunContext
from pytest_vla.run.options import OPTIONS
from pytest_vla.util.text import did_you_mean


def unknown_keys(config: pytest.Config) -> list[str]:
    """Return the ini keys that begin like ours and that no plugin has declared."""
    # pytest has no public way to list them from pytest 9 on.
    given = config._inicfg if hasattr(config, "_inicfg") else config.inicfg
    declared = {MODELS_KEY, *(each.key for each in OPTIONS if each.ini is not None)}
    return [key for key in given if key.lower().startswith(KEY_START) and key not in declared and not _has(config, key)]


def _has(config: pytest.Config, key: str) -> bool:
    try:
        config.getini(key)
    except ValueError:
        return False
    # Another plugin's.
    return True


# Ini keys and hooks that are named as ours are, and are none: a line each that says what may be meant.


def key_notes(config: pytest.Config) -> Iterator[str]:
    """Yield a note for each undeclared ini key, with a close name; pytest only warns, without one."""
    prefix = f"{KEY_START}_"
    known = [MODELS_KEY, *(option.key for option in OPTIONS if option.ini is not None)]
    where = config.inipath.name if config.inipath else "-o"
    for key in unknown_keys(config):
        meant = prefix + key.lower().replace("-", "_").removeprefix(KEY_START).lstrip("_")
        only_typed = next((option.flag for option in OPTIONS if option.key == meant and option.ini is None), None)
        if only_typed is not None:
            yield f"{where}: {key} is not an ini key: put {only_typed}=... into addopts"
        else:
            close = did_you_mean(meant, known, prefix) or " `pytest --help` lists them"
            yield f"{where}: {key} is not an ini key of pytest-vla and has no effect.{close}"


def hook_complaint(config: pytest.Config, names: Iterable[str]) -> str:
    """Return an error message for unknown hooks; pytest would end with an internal error."""
    lines = []
    for name in names:
        for implementation in getattr(config.hook, name).get_hookimpls():
            origin = getattr(implementation.plugin, "__file__", None) or implementation.plugin_name
            lines.append(f"{origin}: {name} is not a hook of pytest-vla.{hook_modules.hooks_meant(name)}")
    return "\n".join(lines)


# Options and ini keys of episodes where pytest collects none: a line that says what would run them.


def unheeded(context: RunContext) -> str:
    """Return the warning line; empty if no option asked for episodes, or if another message covers it."""
    selection, config = context.selection, context.config
    if selection.named or selection.settings.model_typed or context.resumption is not None:
        return ""
    typed = [str(argument).partition("=")[0] for argument in config.invocation_params.args]
    # What names episodes is told otherwise, and where records would lie changes nothing of what is run.
    heeded = [option for option in OPTIONS if option.asks or option.belongs == "invocation"]
    flags = [option.flag for option in OPTIONS if option.flag in typed and option not in heeded]
    suites, model = config.getini("vla_suite").strip(), config.getini("vla_model").strip()
    command = shlex.join(["pytest", f"--vla-suite={suites or 'SUITE'}", *([] if model else ["--vla-model=POLICY"])])
    if flags:
        return f"vla: {', '.join(flags)} had no effect: no episode was collected. `{command} ...` runs some"
    if suites and model and not selection.paths_given and config.inipath is not None:
        name = config.inipath.name
        return f"vla: {name} sets vla_suite and vla_model, but a plain `pytest` does not run them. Use `{command}`"
    return ""
