"""Going on with a run: what of an invocation is kept for it, and which of its items are left to do."""

import dataclasses
import os
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
from pytest_vla.run.invocation import Invocation, read_invocation
from pytest_vla.run.nodes import counted_node
from pytest_vla.run.option import KEPT, Option, said
from pytest_vla.run.options import OPTIONS
from pytest_vla.run.settings import Settings
from pytest_vla.versions import SUPPORTED, installed

if TYPE_CHECKING:
    from pytest_vla.records.runs import Run


@dataclass(frozen=True)
class Resumption:
    """A run to go on with; builtin types only, since workers are given it.

    Attributes:
        run: its name.
        command: the command line that it was started with.
        invocation: of `invocation_of`.
        left: node ids of the items that are missing, ended as errors, failed for another reason than the policy, or
            were skipped as their group was decided.
    """

    run: str
    command: str
    invocation: Mapping[str, Any]
    left: tuple[str, ...]


def find_resumption(settings: Settings, arguments: Sequence[str]) -> Resumption:
    """The run that ``--vla-resume`` names.

    Raises:
        VlaError: there is no such run, it is still running, the store cannot be read, or `arguments` has other paths
            or ids than the run, or the results say what code is to run and may be somebody else's.
    """
    from pytest_vla.records.names import LAST_RUN
    from pytest_vla.records.runs import is_alive
    from pytest_vla.records.store import open_store

    with open_store(settings.results, create=False) as store:
        # Nobody can go on with what was imported.
        ours = [run.name for run in store.runs() if "imported" not in run.invocation]
        run = store.run(ours[0] if settings.resume == LAST_RUN and ours else str(settings.resume))
        if is_alive(run):
            raise VlaError(f"--vla-resume: run {run.name} is still running, as process {run.pid} on {run.host}")
        # They may stand in the ini file, and be given each time.
        if arguments and list(arguments) != run.invocation.get("arguments"):
            raise VlaError(
                f"--vla-resume goes on with what the run was started with: leave {' '.join(arguments)} out, or write "
                "--vla-resume=RUN with = where that is the name of a run"
            )
        _check_trust(settings, run, read_invocation(run.name, run.invocation), bool(arguments))
        _check_simulator(run.name, store.records(run.name))
        _check_costs(run, store.records(run.name))
        left = tuple(item.node for item in store.items(run.name) if item.is_left or item.status == DECIDED)
        return Resumption(run.name, run.command, run.invocation, left)


def _check_trust(settings: Settings, run: "Run", kept: Invocation, paths_typed: bool) -> None:
    """Raises VlaError where the run names code that may come from whoever made the results, and nobody typed it."""
    from pytest_vla.policies.load import module_places
    from pytest_vla.records.store import STORE

    results = settings.results.resolve()
    why = ""
    for place in (settings.results, settings.results / STORE):
        if hasattr(os, "geteuid") and place.stat().st_uid != os.geteuid():
            why = f"{place} belongs to another user"
    spec = ModelSpec(kept.model_text, kept.model_folder)
    places = module_places(spec)
    # Whatever it imports would come from its folder first.
    for place in (*places, *([spec.folder] if places else [])):
        if place.resolve().is_relative_to(results):
            why = f"{place} lies in the results"
    if why and not settings.model_typed:
        policy = _named(kept.values["model"], kept)
        raise VlaError(
            f"--vla-resume: run {run.name} says that the policy {policy} is to be loaded, and {why}: what others wrote "
            f"is not run unasked. Look at it, and add --vla-model={run.model} to run it all the same"
        )
    if paths_typed:
        return
    for argument in anchored(Resumption(run.name, run.command, run.invocation, ()), Path.cwd()):
        path = Path(argument.partition("::")[0])
        if os.path.exists(path) and path.resolve().is_relative_to(results):
            raise VlaError(
                f"--vla-resume: run {run.name} says that the tests of {path} are to be run, and that lies in the "
                "results: what others wrote is not run unasked. Look at it, and give the run's paths again to run "
                f"them all the same: {shlex.join(kept.arguments)}"
            )


def policy_note(settings: Settings, resumption: Resumption) -> str | None:
    """What the policy's name stands for, where a run that is gone on with says it; None: for what it says.

    Args:
        settings: of `resumed_settings`.
        resumption: the run.
    """
    plain = settings.model == settings.model_text
    if plain and (":" not in str(settings.model) or str(settings.model_folder) == resumption.invocation["folder"]):
        return None
    return f"run {resumption.run} goes on with the policy {_named(settings.model, settings)}"


def _named(model: str | None, loaded: Settings | Invocation) -> str:
    """What is really loaded of what a run's settings name."""
    text = loaded.model_text
    return f"{text if model == text else f'{model} = {text}'} (of {loaded.model_folder})"


def anchored(resumption: Resumption, here: Path) -> list[str]:
    """The run's paths and ids, such as they mean the same here as where it was started."""
    folder, arguments = Path(resumption.invocation["folder"]), resumption.invocation["arguments"]
    if folder == here:
        return list(arguments)
    parts = [argument.partition("::") for argument in arguments]
    # A suite's name is no path.
    # Of too long a name `Path.exists` raises OSError.
    return ["".join([str(folder / path) if os.path.exists(folder / path) else path, *names]) for path, *names in parts]


def _check_simulator(run: str, records: Iterator[Record]) -> None:
    """Raises VlaError where the run's episodes ended in another version of the simulator than the one installed."""
    known = next((record.provenance for record in records if is_complete(record.outcome)), {})
    for name in SUPPORTED:
        before, now = known.get(name), installed(name)
        if before is not None and now is not None and before != now:
            raise VlaError(
                f"--vla-resume: run {run} has episodes of {name} {before}, and {now} is installed: no rate is of both."
                f" Install it (pip install {name}=={before}), or leave --vla-resume out for a new run"
            )


def _check_costs(run: "Run", records: Iterator[Record]) -> None:
    """Raises VlaError where the run's file of costs says something else now than when its episodes were charged."""
    file = read_invocation(run.name, run.invocation).values["cost"]
    before = next((r.provenance.get(DECLARED) for r in records if is_complete(r.outcome)), None)
    if file is None or before is None:
        return
    from pytest_vla.scene.cost_rules import read_costs

    if read_costs(file).digest != before:
        raise VlaError(
            f"--vla-resume: run {run.name} charged its episodes by {file} as that was then, and it was changed: bring "
            "the file back as it was, or leave --vla-resume out for a new run"
        )


def resumed_settings(settings: Settings, resumption: Resumption, config: pytest.Config) -> Settings:
    """The settings of the run, with those of this invocation that a run may change.

    Args:
        settings: of this invocation.
        resumption: the run.
        config: says which options were typed.

    Raises:
        VlaError: an option asks for another run, or the run was written by another version.
    """
    kept = read_invocation(resumption.run, resumption.invocation)
    if kept.values["kernels"] != settings.kernels:
        # They are chosen before anybody can ask the store.
        raise VlaError(
            f"--vla-resume: run {resumption.run} was started with --vla-kernels={kept.values['kernels']}: add that"
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
    )


def _check_same(run: str, option: Option[Any], kept: Invocation, settings: Settings) -> None:
    """Raises VlaError where an option that was typed asks for another run than the one that is gone on with."""
    before, now = kept.values[option.kept_in], getattr(settings, option.kept_in)
    if before == now or (option.kept_in == "seeds" and kept.values["suite"] and not before and now == DEFAULT_SEEDS):
        return
    # A tuple that is no list has a way of its own to be written.
    text = option.text if option.write is not None and option.into is None else _text
    nothing = before is None or before is False or before in ((), "")
    was = f"without {option.flag}" if nothing else f"with {option.flag}={text(before)}"
    raise VlaError(
        f"--vla-resume: run {run} was started {was}, and not with {text(now)}: leave {option.flag} out, or leave "
        "--vla-resume out for a new run"
    )


def keep_left(config: pytest.Config, items: list[pytest.Item], resumption: Resumption) -> None:
    """Take out all items but those that are left to do."""
    wanted = set(resumption.left)
    left = [item for item in items if counted_node(item) in wanted]
    if len(left) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if counted_node(item) not in wanted])
        items[:] = left


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
