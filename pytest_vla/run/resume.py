"""Resuming a run: the parts of an invocation that are kept for it, and the items that are left."""

import argparse
import dataclasses
import json
import os
import reprlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.plan.costs import DECLARED
from pytest_vla.plan.select import DEFAULT_SEEDS
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.records.counting import is_complete
from pytest_vla.records.items import DECIDED
from pytest_vla.records.record import Record
from pytest_vla.run.arguments import folder_of
from pytest_vla.run.nodes import counted_node
from pytest_vla.run.options import KEPT, OPTIONS, Option, said
from pytest_vla.run.project import find_project
from pytest_vla.run.settings import Settings
from pytest_vla.util.files import check_no_link
from pytest_vla.util.text import printable
from pytest_vla.versions import SUPPORTED, installed

if TYPE_CHECKING:
    from pytest_vla.records.runs import Run


# What a run keeps of its invocation, for one that goes on with it: written as JSON, and read as what others wrote.

MOST_CHARACTERS = 10_000
"""Of any text that is kept. What is longer no person typed, and it would be shown."""

_SHOWN = 60

# What runs of earlier versions call otherwise.
_RENAMED = {"suites": "suite", "devices": "device"}


@dataclass(frozen=True)
class Invocation:
    """The invocation that started a run, as the store has it.

    Attributes:
        values: by attribute, the options that a resumed run takes over.
        typed: the options that were given on the command line.
        given, model_text, model_folder: as in `Settings`.
        arguments: the paths and ids that the user gave to pytest, unchanged.
        folder: the folder for relative paths.
    """

    values: Mapping[str, Any]
    typed: frozenset[str]
    given: tuple[str, ...]
    model_text: str
    model_folder: Path
    arguments: tuple[str, ...]
    folder: Path


def taken_over() -> tuple[Option[Any], ...]:
    """Return the options that a resumed run takes over."""
    return tuple(option for option in OPTIONS if option.belongs != "invocation" and option.into is None)


def invocation_of(settings: Settings, arguments: Sequence[str], folder: Path) -> dict[str, Any]:
    """Return the table that a later invocation needs to resume this run; it can be written as JSON.

    Args:
        settings: the settings of this invocation.
        arguments: the paths and ids that the user gave to pytest, unchanged.
        folder: the folder for relative paths.
    """
    options = taken_over()
    kept = {option.attribute: _plain(getattr(settings, option.attribute)) for option in options}
    kept |= {"typed": sorted(settings.typed & {option.attribute for option in options}), "given": list(settings.given)}
    kept |= {"model_text": settings.model_text, "model_folder": str(settings.model_folder)}
    return {"settings": kept, "arguments": list(arguments), "folder": str(folder)}


def read_invocation(run: str, stored: Mapping[str, Any]) -> Invocation:
    """Read the table that `invocation_of` wrote, and check it like user input, as others may have written it.

    A missing option is newer than the run, and has its default.

    Raises:
        VlaError: the table has another form, or values that this version does not know.
    """
    if "imported" in stored:
        raise VlaError(f"--vla-resume: run {run} was imported, so it cannot be resumed")
    try:
        return _read(stored)
    except VlaError as error:
        raise VlaError(
            f"--vla-resume: run {run} cannot be resumed: {error}. It is damaged, or another version of pytest-vla "
            "wrote it: start a new run without --vla-resume"
        ) from error


def _read(stored: Mapping[str, Any]) -> Invocation:
    kept = stored.get("settings")
    if not isinstance(kept, dict):
        raise VlaError("its settings are missing")
    kept = _of_this_version(kept)
    options = taken_over()
    names = [option.attribute for option in options]
    if unknown := sorted(kept.keys() - {*names, "typed", "given", "model_text", "model_folder"}):
        raise VlaError(f"its option {_shown(unknown[0])} is unknown")
    for needed in "model", "given", "model_text", "model_folder":
        if kept.get(needed) is None:
            raise VlaError(f"its {needed} is missing")
    values = {o.attribute: _value(o, kept[o.attribute]) if o.attribute in kept else o.default for o in options}
    given = _texts("given", kept["given"])
    for each in given:
        _check_given(each)
    return Invocation(
        values,
        frozenset(_texts("typed", kept.get("typed", []))) & set(names),
        given,
        _invocation_text("model_text", kept["model_text"]),
        _folder("model_folder", kept["model_folder"]),
        _texts("arguments", stored.get("arguments")),
        _folder("folder", stored.get("folder")),
    )


def _of_this_version(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return stored settings under their present names and in their present form."""
    found = {_RENAMED.get(name, name): value for name, value in kept.items()}
    lower = found.pop("min_success_lower", False)
    if isinstance(found.get("min_success"), float):
        found["min_success"] = [found["min_success"], lower]
    marks = {name: found.pop(name) for name in ("vary_typed", "min_success_typed") if name in found}
    found.setdefault("typed", [name.removesuffix("_typed") for name, mark in marks.items() if mark is True])
    return found


def _value(option: Option[Any], stored: Any) -> Any:
    """Return an option's stored value, checked by parsing the text that it is written as."""
    wrong = VlaError(f"its {option.attribute} is {_shown(stored)}, no value of {option.flag}")
    for each in stored if isinstance(stored, list) else [stored]:
        if not isinstance(each, str | int | float | None):
            raise wrong
        if isinstance(each, str):
            _invocation_text(option.attribute, each)
    written = json.dumps(stored)
    if written == json.dumps(_plain(option.default)):
        return option.default
    if option.metavar is None:
        if stored is not True:
            raise wrong
        return True
    try:
        value = option.parse(option.text(stored))
    except (VlaError, argparse.ArgumentTypeError, TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise wrong from error
    if json.dumps(_plain(value)) != written:
        raise wrong
    return value


def _check_given(text: str) -> None:
    """Check that a stored argument is one of our options, as it is shown in commands that users copy."""
    flag, separator, value = text.partition("=")
    option = next((each for each in OPTIONS if each.flag == flag and each.again), None)
    if option is not None and bool(separator) is (option.metavar is not None):
        try:
            if option.metavar is not None:
                (option.checked or option.parse)(value)
        except (VlaError, argparse.ArgumentTypeError):
            pass
        else:
            return
    raise VlaError(f"its given has {_shown(text)}, no option of an episode")


def _folder(name: str, value: Any) -> Path:
    text = _invocation_text(name, value)
    try:
        folder = folder_of(text)
    except argparse.ArgumentTypeError as error:
        raise VlaError(f"its {name} is {_shown(value)}, no path") from error
    if str(folder) != text or not folder.is_absolute():
        raise VlaError(f"its {name} is {_shown(value)}, no absolute path")
    return folder


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise VlaError(f"its {name} is {_shown(value)}, no list")
    return tuple(_invocation_text(name, each) for each in value)


def _invocation_text(name: str, value: Any) -> str:
    """Return a stored text, if a command line can have it."""
    if not isinstance(value, str) or "\0" in value or len(value) > MOST_CHARACTERS:
        raise VlaError(f"its {name} is {_shown(value)}, no text that was typed")
    try:
        os.fsencode(value)
    except UnicodeEncodeError as error:
        raise VlaError(f"its {name} is {_shown(value)}, no text that was typed") from error
    return value


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold."""
    return str(value) if isinstance(value, Path) else value


def _shown(value: Any) -> str:
    # Shortens, and needs no more than a few levels of what is nested.
    text = printable(reprlib.repr(value))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


@dataclass(frozen=True)
class Resumption:
    """The run that is resumed; builtin types only, as it is sent to workers.

    Attributes:
        run: its name.
        command: the command line that started it.
        invocation: the table of `invocation_of`.
        left: node ids of the items that have no result, ended as errors, failed for a reason other than the policy, or
            were skipped because their group was decided.
        within: `ModelSpec.within`.
        policies: the known digests of the policy in the run's complete episodes, sorted.
    """

    run: str
    command: str
    invocation: Mapping[str, Any]
    left: tuple[str, ...]
    policies: tuple[str, ...] = ()
    within: str = ""


def find_resumption(settings: Settings, arguments: Sequence[str], rootdir: Path) -> Resumption:
    """Find the run that ``--vla-resume`` names; the user's project is pytest's rootdir, or a folder above it to be in.

    Raises:
        VlaError: there is no such run, it is still running, the store cannot be read, `arguments` differ from the run's
            paths and ids, or the results name code to run that nobody typed and that others may have written.
    """
    from pytest_vla.records.names import LAST_RUN
    from pytest_vla.records.runs import is_alive
    from pytest_vla.records.store import STORE, open_store

    project = Path.cwd() if rootdir.is_relative_to(Path.cwd()) else rootdir
    with open_store(settings.results, create=False) as store:
        # Nobody can go on with what was imported.
        ours = [run.name for run in store.runs() if "imported" not in run.invocation]
        run = store.run(ours[0] if settings.resume == LAST_RUN and ours else str(settings.resume))
        if is_alive(run):
            raise VlaError(f"--vla-resume: run {run.name} is still running, as process {run.pid} on {run.host}")
        # They may stand in the ini file, and be given each time.
        if arguments and list(arguments) != run.invocation.get("arguments"):
            raise VlaError(
                f"--vla-resume repeats the run's own arguments: leave {' '.join(arguments)} out. If that is the run's "
                "name, write --vla-resume=RUN (with =)"
            )
        check_no_link(settings.results, settings.results / STORE, settings.results / run.name)
        kept = read_invocation(run.name, run.invocation)
        within = _check_trust(settings, run, kept, project)
        if not arguments:
            _check_tests(settings.results, run, kept, project)
        _check_simulator(run.name, store.records(run.name))
        _check_costs(run, store.records(run.name))
        left = tuple(item.node for item in store.items(run.name) if item.is_left or item.status == DECIDED)
        complete = (each for each in store.records(run.name) if is_complete(each.outcome) and each.policy == run.model)
        policies = {each.policy_digest for each in complete} - {None}
        return Resumption(run.name, run.command, run.invocation, left, tuple(sorted(map(str, policies))), within)


def check_same_policy(resumption: Resumption, digest: str | None) -> None:
    """Check that a policy on servers is the one that a resumed run began with; a file that changed is a note.

    Args:
        resumption: the run.
        digest: the present digest, or None if it is not known.

    Raises:
        VlaError: the digests differ.
    """
    if digest is not None and resumption.policies and digest not in resumption.policies:
        began = ", ".join(each[:8] for each in resumption.policies)
        raise VlaError(
            f"--vla-resume: the server has another policy ({digest[:8]}) than when run {resumption.run} began "
            f"({began}). Serve that one again to resume the run, or evaluate this one in a new run"
        )


def _check_trust(settings: Settings, run: "Run", kept: Invocation, project: Path) -> str:
    """Return the folder that has to define the policy, empty if it was typed, or raise VlaError if it has to be."""
    from pytest_vla.policies.load import check_untyped
    from pytest_vla.records.store import STORE

    # What the project's own ini file says is as good as typed.
    named = [(text, project) for text in find_project(project).models.values()]
    own = (kept.model_text, kept.model_folder) in [(settings.model_text, settings.model_folder), *named]
    if settings.model_typed or own:
        return ""
    spec, sources = ModelSpec(kept.model_text, kept.model_folder), (settings.results, settings.results / STORE)
    doing = f"--vla-resume: run {run.name} would load the policy {_named(kept.values['model'], kept)}"
    return check_untyped(spec, project, sources, doing, f"--vla-model={shlex.quote(run.model)}").within


def _check_tests(results: Path, run: "Run", kept: Invocation, project: Path) -> None:
    """Raise VlaError if the run names tests that the user's project does not have."""
    from pytest_vla.policies.load import is_of_project, why_beside

    for argument in anchored(Resumption(run.name, run.command, run.invocation, ()), Path.cwd()):
        path = Path(argument.partition("::")[0])
        if not os.path.exists(path):
            continue
        if why := why_beside(path, results) or ("" if is_of_project(path, project) else f"is not in {project}"):
            raise VlaError(
                f"--vla-resume: run {run.name} would run the tests of {path}, which {why.removeprefix(f'{path} ')}, so "
                f"others may have written it. Inspect it, then give the run's paths again: {shlex.join(kept.arguments)}"
            )


def policy_note(settings: Settings, resumption: Resumption) -> str | None:
    """Return a note on the policy that a resumed run loads, or None if its name says it all.

    Args:
        settings: the settings of `resumed_settings`.
        resumption: the run.
    """
    plain = settings.model == settings.model_text
    if plain and (":" not in str(settings.model) or str(settings.model_folder) == resumption.invocation["folder"]):
        return None
    return f"run {resumption.run} is resumed with the policy {_named(settings.model, settings)}"


def _named(model: str | None, loaded: Settings | Invocation) -> str:
    """Return the policy's name with the text and the folder that it is loaded from."""
    text = loaded.model_text
    return f"{text if model == text else f'{model} = {text}'} (of {loaded.model_folder})"


def anchored(resumption: Resumption, here: Path) -> list[str]:
    """Return the run's paths and ids such that they mean the same from this folder."""
    folder, arguments = Path(resumption.invocation["folder"]), resumption.invocation["arguments"]
    if folder == here:
        return list(arguments)
    parts = [argument.partition("::") for argument in arguments]
    # A suite's name is no path.
    # Of too long a name `Path.exists` raises OSError.
    return ["".join([str(folder / path) if os.path.exists(folder / path) else path, *names]) for path, *names in parts]


def _check_simulator(run: str, records: Iterator[Record]) -> None:
    """Raise VlaError if the run's episodes ran in another version of the simulator than the installed one."""
    known = next((record.provenance for record in records if is_complete(record.outcome)), {})
    for name in SUPPORTED:
        before, now = known.get(name), installed(name)
        if before is not None and now is not None and before != now:
            raise VlaError(
                f"--vla-resume: run {run} used {name} {before}, but {now} is installed. Install the run's version "
                f"(pip install {name}=={before}), or start a new run without --vla-resume"
            )


def _check_costs(run: "Run", records: Iterator[Record]) -> None:
    """Raise VlaError if the run's cost file has changed since its episodes were charged."""
    file = read_invocation(run.name, run.invocation).values["cost_file"]
    before = next((r.provenance.get(DECLARED) for r in records if is_complete(r.outcome)), None)
    if file is None or before is None:
        return
    from pytest_vla.scene.cost_rules import read_costs

    if read_costs(file).digest != before:
        raise VlaError(
            f"--vla-resume: {file} has changed since run {run.name} charged its episodes by it. Restore the file, or "
            "start a new run without --vla-resume"
        )


def resumed_settings(settings: Settings, resumption: Resumption, config: pytest.Config) -> Settings:
    """Return the settings of the run, with those options of this invocation that a resumed run may change.

    Args:
        settings: the settings of this invocation.
        resumption: the run.
        config: pytest's, with the options on the command line.

    Raises:
        VlaError: an option differs from the run's, or another version wrote the run.
    """
    kept = read_invocation(resumption.run, resumption.invocation)
    if kept.values["kernels"] != settings.kernels:
        # They are chosen before anybody can ask the store.
        raise VlaError(
            f"--vla-resume: run {resumption.run} was started with --vla-kernels={kept.values['kernels']}: add it here"
        )
    values = dict(kept.values)
    typed = kept.typed
    now = said(OPTIONS, config.option)
    for option in OPTIONS:
        if option.attribute not in now:
            continue
        if option.belongs in KEPT:
            _check_same(resumption.run, option, kept, settings)
        elif option.belongs == "resumption":
            values[option.kept_in] = getattr(settings, option.kept_in)
            typed |= {option.kept_in}
    # What was typed is what is loaded, whatever the results say that it stands for.
    loaded: Settings | Invocation = settings if settings.model_typed else kept
    return dataclasses.replace(
        settings,
        **values,
        typed=typed | {"model"},
        given=kept.given,
        model_text=loaded.model_text,
        model_folder=loaded.model_folder,
        model_within=resumption.within,
    )


def _check_same(run: str, option: Option[Any], kept: Invocation, settings: Settings) -> None:
    """Raise VlaError if an option on the command line differs from the resumed run's."""
    before, now = kept.values[option.kept_in], getattr(settings, option.kept_in)
    if before == now or (option.kept_in == "seeds" and kept.values["suite"] and not before and now == DEFAULT_SEEDS):
        return
    # A tuple that is no list has a way of its own to be written.
    text = option.text if option.write is not None and option.into is None else _text
    nothing = before is None or before is False or before in ((), "")
    was = f"without {option.flag}" if nothing else f"with {option.flag}={text(before)}"
    raise VlaError(
        f"--vla-resume: run {run} was started {was}, not with {text(now)}: leave {option.flag} out, or start a new run "
        "without --vla-resume"
    )


def keep_left(config: pytest.Config, items: list[pytest.Item], resumption: Resumption) -> None:
    """Deselect all items but those that are left."""
    wanted = set(resumption.left)
    left = [item for item in items if counted_node(item) in wanted]
    if len(left) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if counted_node(item) not in wanted])
        items[:] = left


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


# Whether pytest ran what was picked by the outcomes of an earlier run: ``--lf``, ``--sw``, and the cases that a gate
# found lost.
#
# Such a run is of what failed, so that its rate says nothing of the policy: where the same policy has tried a case
# before, that record counts. With these options pytest also runs everything, where nothing is known to have failed;
# that is a run as any other.

LAST_FAILED, STEPWISE = "--lf", "--sw"

REPLAYED = "replay.txt"
"""The file in a run's folder with the ids that a printed command runs again, which pytest reads as ``@FILE``."""

# Where pytest's cacheprovider and stepwise keep what failed; read before they write it anew at the end of the run.
_FAILED_KEY, _STEP_KEY = "cache/lastfailed", "cache/stepwise"


def picking_option(config: pytest.Config, nodes: Sequence[str], results: Path) -> str | None:
    """Return the argument of pytest that selects items by earlier outcomes, or None if none does.

    Args:
        config: pytest's; with workers, the controller's.
        nodes: ids of the items to run, in their order.
        results: the folder of all runs, whose files of lost cases (`REPLAYED`) pick too.
    """
    given = config.invocation_params
    if nodes and any(_is_replay(given.dir, str(argument), results) for argument in given.args):
        return REPLAYED
    cache: Any = getattr(config, "cache", None)
    if cache is None or not nodes:
        return None
    if config.getoption("lf", False):
        # Where none of those that failed is selected, pytest runs all that are.
        failed = cache.get(_FAILED_KEY, {})
        return LAST_FAILED if all(node in failed for node in nodes) else None
    if config.getoption("stepwise", False) and not config.getoption("stepwise_reset", False):
        known = cache.get(_STEP_KEY, None)
        # Also where nothing had passed before it: whoever goes on until nothing fails picks the end of the run.
        return STEPWISE if isinstance(known, dict) and known.get("last_failed") == nodes[0] else None
    return None


def _is_replay(here: Path, argument: str, results: Path) -> bool:
    """Whether an argument, of which `config.args` has the lines only, is a file of lost cases of a run."""
    path = (here / argument[1:]).resolve()
    return argument.startswith("@") and path.name == REPLAYED and path.is_relative_to(results.resolve())
