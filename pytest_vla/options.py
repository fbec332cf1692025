"""Every ``--vla-*`` option and ini key, declared once; read into frozen `Settings`."""

import argparse
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.arguments import (
    comma_list,
    device_list,
    episode_count,
    one_of,
    one_seed,
    question_count,
    seconds_of,
    seed_list,
    share_of_one,
    some_text,
    step_count,
)
from pytest_vla.errors import VlaError
from pytest_vla.folders import expanded
from pytest_vla.policies.spec import AUTO, REQUEST_TIMEOUT, ModelSpec
from pytest_vla.store import DEFAULT_RESULTS, LAST_RUN

VIDEOS = ("none", "failed", "all")
TWINS = ("none", "auto")
PROTOCOLS = ("paper", "upstream")
LIST = "list"
"""In the place of variations: list what there is."""
DEFAULT_BATCH = 32


@dataclass(frozen=True)
class Option:
    """One ``--vla-NAME``; with `ini`, the help of an ini key ``vla_NAME`` beside it.

    No `metavar`: a switch. `bare` is what the option means where it is given without a value.
    """

    name: str
    help: str
    metavar: str | None = None
    parse: Callable[[str], Any] = str
    ini: str | None = None
    bare: str | None = None

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return f"--vla-{self.name}"

    @property
    def key(self) -> str:
        """The ini key, and the name in pytest's options."""
        return f"vla_{self.name.replace('-', '_')}"


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
        protocol: of suites that are varied by themselves; one of `PROTOCOLS`.
        twins: of which varied episodes the benign twin is run too; one of `TWINS`.
        feasible: whether the expert tries changed scenes first.
        data: the folder of task files and assets; None: the default roots.
        results: the folder of all runs.
        allow_versions: run with another simulator version than the supported one.
        replan: how many steps of a chunk are executed; None: all.
        run_seed: seeds the policy's noise.
        timeout: seconds of wall time that an episode may take; None: no limit.
        video: of which episodes videos are made; one of `VIDEOS`.
        resume: the run to go on with: a name, the beginning of one, or `LAST_RUN`; None: a new run.
        min_success: the success rate that each suite has to reach; None: every failed episode fails the run.
        min_success_typed: whether it was given for this invocation, and not by the ini file.
        given: the options that an episode's outcome depends on, as typed, without suites, tasks and seeds.
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
    protocol: str
    twins: str
    feasible: bool
    data: Path | None
    results: Path
    allow_versions: bool
    replan: int | None
    run_seed: int
    timeout: float | None
    video: str
    resume: str | None
    min_success: float | None
    min_success_typed: bool
    given: tuple[str, ...]

    @property
    def spec(self) -> ModelSpec:
        """What the policy is loaded from, on the first device; there has to be one."""
        timeout = self.policy_timeout or REQUEST_TIMEOUT
        return ModelSpec(str(self.model_text), self.model_folder, self.devices[0], timeout, self.model_names)

    def command(self, node_id: str) -> str:
        """The command line that runs just this item again, and shows it."""
        return shlex.join(["pytest", node_id, *self.given, "--vla-video=all"])


OPTIONS = (
    Option(
        "model",
        "the policy to test: module:callable, your own (called once an episode, returns a callable from observation to "
        "actions); expert, a script that sees the simulator's state; random; replay:PATH, recorded actions (an npz "
        "file, or the folder of a run such as .vla/RUN); openpi:HOST[:PORT], vla-eval:HOST[:PORT], served elsewhere; "
        "lerobot:PATH_OR_HUB_ID, any policy of lerobot, and pi0, pi05, smolvla, its LIBERO checkpoints",
        "POLICY",
        some_text,
        ini="policy to test where --vla-model is not given; modules and paths are relative to the ini file",
    ),
    Option(
        "suite",
        "run these suites, and nothing else unless paths are given too: tabletop (needs no data), libero_spatial, "
        "libero_object, libero_goal, libero_10, libero_90, libero_para, libero_plus_spatial, libero_plus_object, "
        "libero_plus_goal, libero_plus_10",
        "NAME[,NAME]",
        comma_list,
        ini="suites to run where --vla-model is given without --vla-suite and without paths",
    ),
    Option(
        "tasks",
        "only these tasks: names, parts of names, or patterns with * and ?",
        "TASK[,TASK]",
        comma_list,
    ),
    Option(
        "seeds",
        "seeds of each task, such as 0-9 or 0,3,7 or 0-4,10; seed s starts from init state s (default: 0, or the "
        "suite's own)",
        "SEEDS",
        seed_list,
    ),
    Option(
        "episodes",
        "episodes of each task: seeds 0 to N-1 (default: 1)",
        "N",
        episode_count,
    ),
    Option(
        "vary",
        "run each task under these variations: kinds or whole dimensions, with levels, such as "
        "camera,light:3,noise:1-5, and several at once, such as camera+light:3; pairs, every two of six dimensions; "
        f"--vla-vary={LIST} lists them. What a task cannot have is left out and named",
        "KIND[:LEVELS][+...][,...]",
        some_text,
        ini="variations where --vla-vary is not given",
    ),
    Option(
        "protocol",
        "of suites that are varied by themselves, such as libero_plus_goal, where a paper and its code disagree: paper "
        "(default) or upstream, its code with its bugs",
        "|".join(PROTOCOLS),
        one_of(PROTOCOLS),
        ini="as --vla-protocol, where that is not given",
    ),
    Option(
        "sample",
        "of each suite only N episodes, drawn by --vla-run-seed: as many of each kind of variation (of each task, "
        "where nothing is varied)",
        "N",
        episode_count,
        ini="episodes to draw of each suite where --vla-sample is not given",
    ),
    Option(
        "twins",
        "what varied episodes are compared with, the same task and seed without the variation, and of several at once "
        "each by itself: none (default); auto, each once",
        "|".join(TWINS),
        one_of(TWINS),
        ini="as --vla-twins, where that is not given",
    ),
    Option(
        "feasible",
        "let the expert try first each scene that a variation changes; what it cannot do is in no rate (invalid, "
        "infeasible)",
    ),
    Option(
        "data",
        "folder with the suite's task files, init states and assets, searched first; then PYTEST_VLA_DATA, LIBERO's "
        "own config file, an installed hf-libero",
        "DIR",
        some_text,
        ini="folder with task files, init states and assets, relative to the ini file",
    ),
    Option(
        "results",
        f"folder for records: one results.sqlite for all runs, and a folder a run (default: {DEFAULT_RESULTS})",
        "DIR",
        some_text,
        ini="folder for records, relative to the ini file",
    ),
    Option(
        "replan",
        "steps to execute of each chunk of actions before the policy is asked again (default: the policy's own number, "
        "or the whole chunk)",
        "K",
        step_count,
    ),
    Option(
        "run-seed",
        "seed of the policy's noise, which is drawn from (run seed, case, step) (default: 0)",
        "N",
        one_seed,
    ),
    Option(
        "device",
        "where the policy's weights go: auto (default: cuda, mps, cpu, the first there is), or torch's name; with "
        "several, as in cuda:0,cuda:1, a policy on each, and the workers are shared out among them",
        "DEVICE[,DEVICE]",
        device_list,
        ini="where the policy's weights go, where --vla-device is not given",
    ),
    Option(
        "batch",
        f"questions of episodes that the policy answers at once, at most (default: {DEFAULT_BATCH}, or the policy's "
        "own limit)",
        "N",
        question_count,
        ini="questions that the policy answers at once, at most, where --vla-batch is not given",
    ),
    Option(
        "policy-timeout",
        "time that one answer of the policy may take, such as 90, 5m or 1h; its episode then ends as an error "
        f"(default: {REQUEST_TIMEOUT:g}s for a policy in another process, else no limit)",
        "TIME",
        seconds_of,
        ini="time that one answer of the policy may take, where --vla-policy-timeout is not given",
    ),
    Option(
        "timeout",
        "wall time that one episode may take, such as 90, 5m or 1h; it then ends as an error, and a worker that hangs "
        "is replaced (default: no limit)",
        "TIME",
        seconds_of,
        ini="wall time that one episode may take, where --vla-timeout is not given",
    ),
    Option(
        "video",
        "of which episodes to make a video, after each from its recorded states: none (default), failed (errors too), "
        "all",
        "|".join(VIDEOS),
        one_of(VIDEOS),
        ini="of which episodes to make a video, where --vla-video is not given",
    ),
    Option(
        "resume",
        "go on with a run that was stopped: what is missing or ended as an error, and your own tests that failed, "
        "under the --vla options that it was started with; RUN is its name or the beginning of it (default: "
        f"{LAST_RUN}); `pytest-vla runs` lists them. Write it with =",
        "RUN",
        some_text,
        bare=LAST_RUN,
    ),
    Option(
        "min-success",
        "success rate that each suite has to reach, such as 0.8 or 80%%; failed episodes of suites then do not fail "
        "the run by themselves",
        "RATE",
        share_of_one,
        ini="success rate that each suite of a run has to reach, where --vla-min-success is not given",
    ),
    Option(
        "allow-versions",
        "run with another mujoco or robosuite than the supported ones: physics and pictures are then not upstream's",
    ),
)


MODELS_KEY = "vla_models"
"""The ini key of a project's own names for policies."""


def add_options(parser: pytest.Parser) -> None:
    """Declare all options and ini keys."""
    parser.addini(
        MODELS_KEY,
        "names for --vla-model, one a line, NAME = POLICY, such as pi0 = lerobot:checkpoints/mine; before the built-in "
        "ones; modules and paths are relative to the ini file",
        type="linelist",
    )
    group = parser.getgroup("vla", "robot policies as tests (pytest-vla)")
    for option in OPTIONS:
        if option.metavar is None:
            group.addoption(option.flag, dest=option.key, action="store_true", default=False, help=option.help)
        else:
            value: dict[str, Any] = {"metavar": option.metavar, "type": option.parse, "default": None}
            if option.bare is not None:
                value |= {"nargs": "?", "const": option.bare}
            group.addoption(option.flag, dest=option.key, help=option.help, **value)
        if option.ini is not None:
            parser.addini(option.key, option.ini, default="")


def read_settings(config: pytest.Config) -> Settings:
    """The settings of this invocation. Depends on the command line and the ini file alone, as workers replay them.

    Raises:
        VlaError: an ini value cannot be used.
    """
    typed: dict[str, Any] = {option.name: config.getoption(option.key) for option in OPTIONS}
    here, ini_folder = config.invocation_params.dir, config.inipath.parent if config.inipath else config.rootpath
    ini = {option.name: str(config.getini(option.key)).strip() for option in OPTIONS if option.ini is not None}

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
    named = _models(config)
    return Settings(
        model=model,
        model_typed=typed["model"] is not None,
        model_text=model and named.get(model, model),
        model_folder=here if model not in named and (typed["model"] or not model) else ini_folder,
        model_names=tuple(named),
        devices=typed_or_ini("device", device_list) or (AUTO,),
        batch=typed_or_ini("batch", question_count) or DEFAULT_BATCH,
        policy_timeout=typed_or_ini("policy-timeout", seconds_of),
        suites=suites,
        tasks=typed["tasks"] or (),
        seeds=_seeds_of(typed["seeds"], typed["episodes"]),
        sample=typed_or_ini("sample", episode_count),
        vary=_vary(config, typed["vary"], ini["vary"]),
        protocol=typed_or_ini("protocol", one_of(PROTOCOLS)) or PROTOCOLS[0],
        twins=typed_or_ini("twins", one_of(TWINS)) or TWINS[0],
        feasible=typed["feasible"],
        data=folder("data"),
        results=folder("results") or here / DEFAULT_RESULTS,
        allow_versions=typed["allow-versions"],
        replan=typed["replan"],
        run_seed=typed["run-seed"] or 0,
        timeout=typed_or_ini("timeout", seconds_of),
        video=typed_or_ini("video", one_of(VIDEOS)) or VIDEOS[0],
        resume=typed["resume"],
        min_success=typed_or_ini("min-success", share_of_one),
        min_success_typed=typed["min-success"] is not None,
        given=_given(typed),
    )


def _from_ini(config: pytest.Config, key: str, parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except argparse.ArgumentTypeError as error:
        raise VlaError(f"{config.inipath}: {key}: {error}") from error


def _vary(config: pytest.Config, typed: str | None, ini: str) -> tuple[str, ...]:
    text = ini if typed is None else typed
    if not text or text.strip() == LIST:
        return ()
    from pytest_vla.vary.registry import parse_vary

    try:
        return parse_vary(text)
    except VlaError as error:
        where = f"{config.inipath}: vla_vary: " if typed is None else f"--vla-vary={text}: "
        raise VlaError(f"{where}{error}") from error


def _models(config: pytest.Config) -> dict[str, str]:
    """The project's own names for policies. Raises VlaError."""
    models = {}
    for line in config.getini(MODELS_KEY):
        name, separator, text = (part.strip() for part in line.partition("="))
        if not separator or re.fullmatch(r"[\w.-]+", name) is None or not text:
            raise VlaError(f"{config.inipath}: {MODELS_KEY}: expected NAME = POLICY, got {line!r}")
        models[name] = text
    return models


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
        "replan": typed["replan"],
        "run-seed": typed["run-seed"],
        "device": ",".join(typed["device"] or ()),
    }
    given = [f"--vla-{name}={value}" for name, value in wanted.items() if value]
    return (*given, *(["--vla-allow-versions"] if typed["allow-versions"] else []))
