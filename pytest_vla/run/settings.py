"""What the command line and the ini file ask for, as one value."""

import argparse
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_vla import extensions
from pytest_vla.errors import VlaError
from pytest_vla.kernels import KERNELS
from pytest_vla.plan.choices import PREMISES, TEXTURES
from pytest_vla.plan.labels import PROTOCOLS
from pytest_vla.policies.choices import AUTO, REQUEST_TIMEOUT
from pytest_vla.policies.spec import ARGUMENTS_MARK, ModelSpec
from pytest_vla.records.names import DEFAULT_RESULTS
from pytest_vla.run.about import LIST, MODELS_KEY
from pytest_vla.run.arguments import (
    comma_list,
    device_list,
    episode_count,
    min_success,
    one_of,
    question_count,
    seconds_of,
)
from pytest_vla.run.options import DEFAULT_BATCH, OPTIONS, TWINS, VIDEOS
from pytest_vla.run.project import named_models
from pytest_vla.util.folders import expanded


@dataclass(frozen=True)
class Settings:
    """What the command line and the ini file ask for.

    Attributes:
        model: ``--vla-model``, the text; None: not given.
        model_typed: whether it was given for this invocation, and not by the ini file.
        model_text: what `model` stands for: itself, or what the ini file says of that name.
        model_folder: what paths and modules in it are relative to: where pytest was started, or the ini file's folder.
        model_names: the ini file's names for policies.
        devices: of ``--vla-device``: one policy on each.
        batch: questions in a batch, at most.
        policy_timeout: seconds that an answer of the policy may take; None: not said.
        suites: the suites asked for by name.
        tasks: the patterns of ``--vla-tasks``; empty: all tasks.
        seeds: which seeds of each task; None: not said.
        sample: how many episodes of each suite are drawn; None: all.
        vary: labels of the variations that each task gets; empty: tasks as they are.
        vary_typed: whether they were given for this invocation, and not by the ini file.
        protocol: of a benchmark's variations; one of `PROTOCOLS`.
        twins: of which varied episodes the benign twin is run too; one of `TWINS`.
        feasible: whether the expert tries changed scenes first.
        data: the folder of task files and assets; None: the default roots.
        premises: whether an episode needs its task's premises to hold; one of `pytest_vla.plan.premises.PREMISES`.
        textures: how they are drawn; one of `pytest_vla.plan.task.TEXTURES`; None: as each suite says.
        results: the folder of all runs.
        allow_versions: run with another simulator version than the supported one.
        kernels: which machine code does the arithmetic; one of `pytest_vla.kernels.KERNELS`.
        replan: how many steps of a chunk are executed; None: all.
        run_seed: seeds the policy's noise.
        timeout: seconds of wall time that an episode may take; None: no limit.
        video: of which episodes videos are made; one of `VIDEOS`.
        resume: the run to go on with: a name, the beginning of one, or `LAST_RUN`; None: a new run.
        min_success: the success rate that each suite has to reach; None: every failed episode fails the run.
        min_success_lower: whether the lower end of the rate's interval has to reach it.
        min_success_typed: whether it was given for this invocation, and not by the ini file.
        given: the options that an episode's outcome depends on, as typed, without suites, tasks and seeds.
        plugins: modules with our hooks that ``-p`` names, for the policy's process.
    """

    model: str | None
    model_typed: bool
    model_text: str | None
    model_folder: Path
    model_names: tuple[str, ...]
    devices: tuple[str, ...]
    batch: int
    policy_timeout: float | None
    suites: tuple[str, ...]
    tasks: tuple[str, ...]
    seeds: tuple[int, ...] | None
    sample: int | None
    vary: tuple[str, ...]
    vary_typed: bool
    protocol: str
    twins: str
    feasible: bool
    data: Path | None
    premises: str
    textures: str | None
    results: Path
    allow_versions: bool
    kernels: str
    replan: int | None
    run_seed: int
    timeout: float | None
    video: str
    resume: str | None
    min_success: float | None
    min_success_lower: bool
    min_success_typed: bool
    given: tuple[str, ...]
    plugins: tuple[str, ...] = ()

    @property
    def spec(self) -> ModelSpec:
        """What the policy is loaded from, on the first device; there has to be one."""
        timeout = self.policy_timeout or REQUEST_TIMEOUT
        return ModelSpec(
            str(self.model_text), self.model_folder, self.devices[0], timeout, self.model_names, plugins=self.plugins
        )

    def command(self, node_id: str) -> str:
        """The command line that runs just this item again, and shows it."""
        return shlex.join(["pytest", node_id, *self.given, "--vla-video=all"])


def read_settings(config: pytest.Config) -> Settings:
    """The settings of this invocation. Depends on the command line and the ini file alone, as workers replay them.

    Raises:
        VlaError: an ini value cannot be used.
    """
    typed: dict[str, Any] = {option.name: config.getoption(option.key) for option in OPTIONS}
    here, ini_folder = config.invocation_params.dir, config.inipath.parent if config.inipath else config.rootpath
    ini = {option.name: _ini_text(config, option.key) for option in OPTIONS if option.ini is not None}

    def folder(name: str) -> Path | None:
        if typed[name] is not None:
            return here / (expanded(typed[name]) or typed[name])
        return ini_folder / (expanded(ini[name]) or ini[name]) if ini[name] else None

    suites = typed["suite"] or ()
    no_paths = config.args_source != pytest.Config.ArgsSource.ARGS
    if not suites and typed["model"] and no_paths and ini["suite"]:
        suites = _from_ini(config, "vla_suite", comma_list, ini["suite"])

    def typed_or_ini(name: str, parse: Callable[[str], Any]) -> Any:
        if typed[name] is not None or not ini[name]:
            return typed[name]
        return _from_ini(config, f"vla_{name.replace('-', '_')}", parse, ini[name])

    model = typed["model"] or ini["model"] or None
    wanted = typed_or_ini("min-success", min_success)
    named = named_models(config.getini(MODELS_KEY), config.inipath)
    base = model and model.partition(ARGUMENTS_MARK)[0]
    return Settings(
        model=model,
        model_typed=typed["model"] is not None,
        model_text=model and _model_text(model, named),
        model_folder=here if base not in named and (typed["model"] or not model) else ini_folder,
        model_names=tuple(named),
        devices=typed_or_ini("device", device_list) or (AUTO,),
        batch=typed_or_ini("batch", question_count) or DEFAULT_BATCH,
        policy_timeout=typed_or_ini("policy-timeout", seconds_of),
        suites=suites,
        tasks=typed["tasks"] or (),
        seeds=_seeds_of(typed["seeds"], typed["episodes"]),
        sample=typed_or_ini("sample", episode_count),
        vary=_vary(config, typed["vary"], ini["vary"]),
        vary_typed=typed["vary"] is not None,
        protocol=typed_or_ini("protocol", one_of(PROTOCOLS)) or PROTOCOLS[0],
        twins=typed_or_ini("twins", one_of(TWINS)) or TWINS[0],
        feasible=typed["feasible"],
        data=folder("data"),
        premises=typed_or_ini("premises", one_of(PREMISES)) or PREMISES[0],
        textures=typed_or_ini("textures", one_of(TEXTURES)),
        # As pytest's own cache: the same from every folder of the project.
        results=folder("results") or config.rootpath / DEFAULT_RESULTS,
        allow_versions=typed["allow-versions"],
        kernels=typed_or_ini("kernels", one_of(KERNELS)) or KERNELS[0],
        replan=typed["replan"],
        run_seed=typed["run-seed"] or 0,
        timeout=typed_or_ini("timeout", seconds_of),
        video=typed_or_ini("video", one_of(VIDEOS)) or VIDEOS[0],
        resume=typed["resume"],
        min_success=wanted[0] if wanted else None,
        min_success_lower=bool(wanted and wanted[1]),
        min_success_typed=typed["min-success"] is not None,
        given=_given(typed),
        plugins=extensions.consented(),
    )


def _ini_text(config: pytest.Config, key: str) -> str:
    value = config.getini(key)
    if not isinstance(value, str):
        # Of pyproject.toml, where a list looks right.
        raise VlaError(f"{config.inipath}: {key} = {value!r}: expected a text, with commas where several stand in it")
    return value.strip()


def _from_ini(config: pytest.Config, key: str, parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except argparse.ArgumentTypeError as error:
        raise VlaError(f"{config.inipath}: {key}: {error}") from error


def _vary(config: pytest.Config, typed: str | None, ini: str) -> tuple[str, ...]:
    text = ini if typed is None else typed
    if not text or (typed is not None and LIST in map(str.strip, text.split(","))):
        return ()
    from pytest_vla.vary.parse import parse_vary

    try:
        return parse_vary(text)
    except VlaError as error:
        where = f"{config.inipath}: vla_vary: " if typed is None else f"--vla-vary={text}: "
        raise VlaError(f"{where}{error}") from error


def _model_text(model: str, named: Mapping[str, str]) -> str:
    """What a name of the ini file stands for, with the arguments that are typed after it. Raises VlaError."""
    base, mark, query = model.partition(ARGUMENTS_MARK)
    if base not in named:
        return model
    if not mark:
        return named[base]
    # Of few runs; importing it costs every project.
    from pytest_vla.policies.arguments import merged

    return merged(named[base], query)


def _seeds_of(seeds: tuple[int, ...] | None, episodes: int | None) -> tuple[int, ...] | None:
    if episodes is None:
        return seeds
    if seeds is not None and sorted(seeds) != list(range(episodes)):
        raise VlaError(
            f"--vla-episodes={episodes} means seeds 0 to {episodes - 1}, and --vla-seeds says others: give one of them"
        )
    return seeds or tuple(range(episodes))


def _given(typed: dict[str, Any]) -> tuple[str, ...]:
    wanted = {
        # The ini file's is relative to it, and found without being typed.
        "model": typed["model"],
        "data": typed["data"],
        "results": typed["results"],
        "premises": typed["premises"],
        "textures": typed["textures"],
        "kernels": typed["kernels"],
        "replan": typed["replan"],
        "run-seed": typed["run-seed"],
        "device": ",".join(typed["device"] or ()),
    }
    given = [f"--vla-{name}={value}" for name, value in wanted.items() if value]
    return (*given, *(f"--vla-{name}" for name in ("feasible", "allow-versions") if typed[name]))
