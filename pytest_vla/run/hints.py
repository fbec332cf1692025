"""Hints: ini keys and options of ours that are misspelt or have no effect, and what to do about a run at 0%."""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from pytest_vla import hook_modules
from pytest_vla.errors import VlaError
from pytest_vla.run.constants import KEY_START, MODELS_KEY
from pytest_vla.run.context import RunContext
from pytest_vla.run.options import OPTIONS
from pytest_vla.util.text import did_you_mean

if TYPE_CHECKING:
    from pytest_vla.records.record import Record
    from pytest_vla.run.settings import Settings


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


# A suite without a success: a line with the command that finds out why.

LEAST_EPISODES = 20
"""So many unvaried episodes without a success are no bad luck of a policy that mostly succeeds."""

_NOT_EXAMINED = ("expert", "random", "replay", "memoriser", "live")
"""Policies that read no pictures, so that nothing can be wired wrongly, and those that no command can load."""


def doctor_hint(records: "Sequence[Record]", settings: "Settings") -> str:
    """Return the line that names ``pytest-vla doctor`` for the first suite without a success; empty if there is none.

    Errors and invalid episodes do not count. Neither do varied ones, and suites with a world of their own.

    Args:
        records: of the run, each an observation of its own.
        settings: of the run.
    """
    from pytest_vla.metrics.rates import is_plain
    from pytest_vla.plan.manifests import load_suite

    if re.split("[:?]", str(settings.model_text))[0] in _NOT_EXAMINED:
        return ""
    plain = [each for each in records if each.of_suite and is_plain(each) and each.outcome in ("success", "failure")]
    for suite in dict.fromkeys(each.suite for each in plain):
        some = [each for each in plain if each.suite == suite]
        if len(some) < LEAST_EPISODES or any(each.outcome == "success" for each in some):
            continue
        with suppress(VlaError):
            if all(task.world is None for task in load_suite(suite, data=settings.data).tasks):
                command = _doctor_command(suite, settings)
                return f"{suite}: 0 of {len(some)} episodes succeeded. `{command}` looks for the cause"
    return ""


def _doctor_command(suite: str, settings: "Settings") -> str:
    plugins = [text for name in settings.plugins for text in ("-p", name)]
    words = ["pytest-vla", *plugins, "doctor", f"--vla-model={settings.model}", f"--vla-suite={suite}"]
    more = {"tasks": ",".join(settings.tasks), "evaluator": settings.evaluator, "replan": settings.replan}
    more |= {"data": settings.data, "device": settings.device[0] if settings.device != ("auto",) else None}
    return shlex.join([*words, *(f"--vla-{name}={value}" for name, value in more.items() if value)])
