"""The settings of an invocation, from the command line and the ini file."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vla import extensions, hook_modules
from pytest_vla.errors import VlaError
from pytest_vla.plan.choices import LONGEST, Realtime, parse_latency, steps_late, steps_to_hold
from pytest_vla.plan.task import OWN_EVALUATOR, Task, with_protocol
from pytest_vla.policies.devices import REQUEST_TIMEOUT
from pytest_vla.policies.spec import ARGUMENTS_MARK, ModelSpec
from pytest_vla.run.command_lines import pytest_command
from pytest_vla.run.constants import MODELS_KEY, shard_folder
from pytest_vla.run.options import OPTIONS, Option, Options, in_folder, said
from pytest_vla.run.project import named_models

if TYPE_CHECKING:
    from pytest_vla.plan.evaluators import Evaluator
    from pytest_vla.plan.manifests import Suite

SHOWN_ALONE = "--vla-video=all"
"""With what else an episode is run again alone: to be looked at."""


@dataclass(frozen=True, kw_only=True)
class Settings(Options):
    """The settings of an invocation: the value of every option, and values derived from them.

    Attributes:
        model_text: the policy that `model` means: itself, or the ini file's text for that name.
        model_folder: the folder for the policy's paths and modules: where pytest was started, or the ini file's folder.
        model_names: the ini file's names for policies.
        typed: the options, by attribute, that were given on the command line.
        given: the options for a command that runs an episode again, unchanged, without suites, tasks and seeds.
        plugins: modules with our hooks that ``-p`` names, for the policy's process.
        model_within: `ModelSpec.within`.
        ini_file: the path of the ini file, for messages; empty without one.
    """

    model_text: str | None
    model_folder: Path
    model_names: tuple[str, ...]
    typed: frozenset[str]
    given: tuple[str, ...]
    plugins: tuple[str, ...] = ()
    model_within: str = ""
    ini_file: str = ""

    @property
    def model_typed(self) -> bool:
        """Whether --vla-model was given on the command line (not by the ini file)."""
        return "model" in self.typed

    @property
    def vary_typed(self) -> bool:
        """Whether --vla-vary was given on the command line (not by the ini file)."""
        return "vary" in self.typed

    @property
    def min_success_typed(self) -> bool:
        """Whether --vla-min-success was given on the command line (not by the ini file)."""
        return "min_success" in self.typed

    @property
    def latency(self) -> Realtime | None:
        """The meaning of --vla-realtime, or None without it."""
        return None if self.realtime is None else parse_latency(self.realtime)

    @property
    def implied_evaluator(self) -> str:
        """The evaluator that the kind of policy implies, for the suites that it knows; empty for none."""
        entry = extensions.policies().get(str(self.model_text).partition(":")[0]) if self.model_text else None
        return "" if entry is None or self.evaluator is not None else entry.evaluator

    def evaluator_of(self, task: Task) -> "Evaluator":
        """Return the evaluator of a task's episodes. Raises VlaError."""
        from pytest_vla.plan.evaluators import load_evaluator

        if self.evaluator is not None:
            return load_evaluator(str(self.evaluator))
        implied = load_evaluator(self.implied_evaluator or OWN_EVALUATOR)
        return implied if implied.knows(task) else load_evaluator(OWN_EVALUATOR)

    def as_run(self, task: Task) -> Task:
        """Return a task as this invocation runs it: under its evaluator, with what the options replace.

        Raises:
            VlaError: there is no such evaluator, it is not for the task's suite, or no episode can succeed.
        """
        from pytest_vla.plan.evaluators import longest_steps

        steps = longest_steps(task) if self.steps == LONGEST else self.steps
        replaced = {"textures": self.textures, "settle_steps": self.settle_steps, "success": self.success}
        try:
            meant = self.evaluator_of(task).task(task)
        except VlaError as error:
            if self.evaluator is None or "evaluator" in self.typed:
                raise
            raise VlaError(f"{error}, which overrides vla_evaluator = {self.evaluator} in {self.ini_file}") from error
        found = with_protocol(meant, max_steps=steps, **replaced)
        if (steps_to_hold(found.protocol.success) or 1) > found.protocol.max_steps:
            raise VlaError(
                f"--vla-success={found.protocol.success}: no episode of {task.suite} can succeed in "
                f"{found.protocol.max_steps} steps. Use fewer consecutive steps, or a larger budget (--vla-steps)"
            )
        late = 0 if self.latency is None or self.latency.seconds is None else self.latency.seconds
        if steps_late(late, found.protocol.control_freq) >= found.protocol.max_steps:
            raise VlaError(
                f"--vla-realtime={self.realtime}: the first answer comes after the last of the "
                f"{found.protocol.max_steps} steps of {task.suite}, at {found.protocol.control_freq} per second. Use a "
                "shorter latency, or a larger budget (--vla-steps)"
            )
        return found

    def load_suite(self, name: str) -> "Suite":
        """Return a suite with its tasks as this invocation runs them. Raises VlaError as `as_run`, or for no suite."""
        from pytest_vla.plan.manifests import load_suite, suite_with

        return suite_with(load_suite(name, data=self.data), self.as_run)

    @property
    def spec(self) -> ModelSpec:
        """The specification of the policy, on the first device. There has to be a policy."""
        of_policy = (str(self.model_text), self.model_folder, self.device[0], self.policy_timeout or REQUEST_TIMEOUT)
        return ModelSpec(*of_policy, self.model_names, plugins=self.plugins, within=self.model_within)

    def command(self, ids: Sequence[str], config: pytest.Config) -> str:
        """Return the command line that runs just these items again, with videos."""
        return pytest_command(config, *ids, *self.given, SHOWN_ALONE)


def read_settings(config: pytest.Config) -> Settings:
    """Return the settings of this invocation, from the command line and the ini file alone: workers replay them.

    Raises:
        VlaError: a value cannot be used.
    """
    typed = said(OPTIONS, config.option)
    here, ini_folder = config.invocation_params.dir, config.inipath.parent if config.inipath else config.rootpath
    ini = {option.attribute: _ini_text(config, option.key) for option in OPTIONS if option.ini is not None}
    if "model" not in typed or config.args_source == pytest.Config.ArgsSource.ARGS:
        # Where paths are given, or nothing but the ini file asks for episodes, its suites do not.
        ini["suite"] = ""
    values = {}
    for option in OPTIONS:
        name = option.attribute
        if name in typed:
            values[name] = in_folder(_typed_value(option, typed[name]), here)
        elif text := ini.get(name):
            values[name] = in_folder(_read(option.parse, text, f"{config.inipath}: {option.key}"), ini_folder)
        else:
            # As pytest's own cache: the same from every folder of the project.
            values[name] = in_folder(option.default, config.rootpath)
    if values["shard"] is not None and "results" not in typed:
        values["results"] = shard_folder(values["results"], values["shard"])
    _check_seeds(values["seeds"], values["episodes"])
    if values["evaluator"] is not None:
        from pytest_vla.plan.evaluators import load_evaluator

        # An unknown one is refused before anything runs. Its own number of steps goes before the policy's.
        values["replan"] = values["replan"] or load_evaluator(str(values["evaluator"])).replan
    for option in OPTIONS:
        if option.into is not None and option.attribute in typed and option.into not in typed:
            values[option.into] = values[option.attribute]
    if values["cost_file"] is not None:
        from pytest_vla.scene.cost_rules import read_costs

        # What is wrong in it is told before anything runs.
        read_costs(values["cost_file"])
    model = values["model"]
    named = named_models(config.getini(MODELS_KEY), config.inipath)
    base = model and model.partition(ARGUMENTS_MARK)[0]
    return Settings(
        **values,
        model_text=model and _model_text(model, named),
        model_folder=here if base not in named and ("model" in typed or not model) else ini_folder,
        model_names=tuple(named),
        typed=frozenset(typed),
        given=tuple(each.typed(typed[each.attribute]) for each in OPTIONS if each.again and each.attribute in typed),
        plugins=hook_modules.consented(),
        ini_file=str(config.inipath or ""),
    )


def _ini_text(config: pytest.Config, key: str) -> str:
    value = config.getini(key)
    if not isinstance(value, str):
        # Of pyproject.toml, where a list looks right.
        raise VlaError(f"{config.inipath}: {key} = {value!r}: expected a text; separate several values by commas")
    return value.strip()


def _typed_value(option: Option[Any], value: Any) -> Any:
    return value if option.checked is None else _read(option.parse, value, f"{option.flag}={value}")


def _read(parse: Callable[[str], Any], text: str, where: str) -> Any:
    try:
        return parse(text)
    except (argparse.ArgumentTypeError, VlaError) as error:
        raise VlaError(f"{where}: {error}") from error


def _model_text(model: str, named: Mapping[str, str]) -> str:
    """Return the policy of an ini file's name, with the arguments after the name. Raises VlaError."""
    base, mark, query = model.partition(ARGUMENTS_MARK)
    if base not in named:
        return model
    if not mark:
        return named[base]
    # Of few runs; importing it costs every project.
    from pytest_vla.policies.arguments import merged

    return merged(named[base], query)


def _check_seeds(seeds: tuple[int, ...] | None, of_episodes: tuple[int, ...] | None) -> None:
    if seeds is not None and of_episodes is not None and sorted(seeds) != list(of_episodes):
        raise VlaError(
            f"--vla-episodes={len(of_episodes)} means seeds 0 to {len(of_episodes) - 1}, but --vla-seeds differs: "
            "give only one of them"
        )
