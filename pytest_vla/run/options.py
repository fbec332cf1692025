"""Every ``--vla-*`` option and ini key, declared once: here, those of searches in `fuzz_options`, of runs on many
machines or that time may end in `scale_options`, and of gates in `gate_options`; these come last in help and in the
reference: a policy and what it runs on are read first.

What pytest is told, what `Settings` have, what a resumed run keeps, and the reference page: all is made from this
table. A new option is one attribute more, and whatever is to heed it.
"""

import argparse
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import pytest

from pytest_vla.gate.choices import (
    ALPHA,
    BEYOND,
    BY,
    FIXED,
    LABELS,
    MARGIN,
    NO_REGRESSION,
    REGRESSIONS,
    REQUIRED,
    RULES,
)
from pytest_vla.kernels import KERNELS
from pytest_vla.plan.case import PROTOCOLS
from pytest_vla.plan.choices import COSTS, PREMISES, TEXTURES
from pytest_vla.policies.devices import AUTO, DEFAULT_BATCH, REQUEST_TIMEOUT
from pytest_vla.records.runs import DEFAULT_RESULTS, LAST_RUN
from pytest_vla.run.arguments import (
    JoinAction,
    comma_list,
    cost_amount,
    cpu_count,
    device_list,
    dimension_list,
    episode_count,
    file_list,
    first_seeds,
    folder_of,
    gate_labels,
    gate_measures,
    hours_of,
    level_list,
    metric_names,
    min_success,
    min_success_text,
    one_of,
    one_seed,
    picture_count,
    plain_number,
    points_of_success,
    question_count,
    ray_address,
    replica_count,
    rule_text,
    scene_count,
    seconds_of,
    seconds_text,
    seed_list,
    shard,
    shard_text,
    share_of_runs,
    some_text,
    step_count,
    tracker_names,
    variation_labels,
)
from pytest_vla.run.constants import ALL, LIST, MODELS_KEY

# What an option is: all that is known of one, and how pytest is told of it. Light, as every project imports it.

Value = TypeVar("Value")

Belongs = Literal["case", "run", "resumption", "invocation"]
"""To what an option belongs, which says what a resumed run does with it.

case: an episode's outcome depends on it; run: it says which episodes there are. A resumed run is the same in both.
resumption: how episodes are run and judged, as before where nothing else is said. invocation: of this call of pytest.
"""

RESUMED: Mapping[Belongs, str] = {
    "case": "A resumed run keeps it.",
    "run": "A resumed run keeps it.",
    "resumption": "A resumed run keeps it unless it is given again.",
    "invocation": "",
}
"""What a resumed run does with an option, for the reference page."""

KEPT: tuple[Belongs, ...] = ("case", "run")
"""To what those belong in which a resumed run is the same."""

_METADATA = "option"


# Methods that nobody calls take every project's time to make.
@dataclass(frozen=True, eq=False, repr=False)
class Option(Generic[Value]):
    """One ``--vla-NAME``, and the ini key ``vla_NAME`` where it has one.

    Attributes:
        name: as in ``--vla-NAME``; the attribute that has the value is called the same, with ``_``.
        help: for ``--help`` and the reference page.
        metavar: how its value is shown; None: a switch.
        parse: a text as the value. Raises ArgumentTypeError or VlaError. A relative path is relative to where it is
            said.
        default: the value where nothing is said; a relative path is relative to the rootdir.
        belongs: see `Belongs`.
        ini: the ini key's help; None: it has no key.
        bare: what the option means where it is given without a value; None: it needs one.
        joined: several of them mean all; of any other option the last stands.
        checked: what reads the text at pytest's start instead, where `parse` is more than every project shall wait for.
        write: the value as a text that `parse` reads.
        again: whether the command that runs one episode again has it as it was typed.
        asks: whether it asks for episodes by itself.
        into: the name of the option that it is another way to say; its value is kept there.
    """

    name: str
    help: str
    metavar: str | None
    parse: Callable[[str], Value]
    default: Value
    belongs: Belongs
    ini: str | None = None
    bare: str | None = None
    joined: bool = False
    checked: Callable[[str], Any] | None = None
    write: Callable[[Any], str] | None = None
    again: bool = False
    asks: bool = False
    into: str | None = None

    @property
    def attribute(self) -> str:
        """The attribute that has its value."""
        return self.name.replace("-", "_")

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return f"--vla-{self.name}"

    @property
    def key(self) -> str:
        """The ini key, and the name in pytest's options."""
        return f"vla_{self.attribute}"

    @property
    def kept_in(self) -> str:
        """The attribute that has its value, or that of the option that it is another way to say."""
        return self.attribute if self.into is None else self.into

    def text(self, value: Any) -> str:
        """A value of it as it could be typed; `parse` reads it."""
        if self.write is not None:
            return self.write(value)
        return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)

    def typed(self, value: Any) -> str:
        """A value of it as pytest has it, as it could be typed: with the option."""
        return self.flag if self.metavar is None else f"{self.flag}={self.text(value)}"


def option(
    help: str,
    metavar: str,
    parse: Callable[[str], Value],
    *,
    default: Value,
    belongs: Belongs,
    ini: str | None = None,
    bare: str | None = None,
    joined: bool = False,
    checked: Callable[[str], Any] | None = None,
    write: Callable[[Any], str] | None = None,
    again: bool | None = None,
    asks: bool = False,
    into: str | None = None,
) -> Value:
    """An attribute of a table of options, see `Option`; what a case depends on is `again` unless it is said."""
    again = belongs == "case" if again is None else again
    declared = Option("", help, metavar, parse, default, belongs, ini, bare, joined, checked, write, again, asks, into)
    return _attribute(declared)


def switch(help: str, *, belongs: Belongs) -> bool:
    """Likewise, an option without a value: given or not."""
    return _attribute(Option("", help, None, bool, False, belongs, again=belongs == "case"))


def _attribute(declared: Option[Value]) -> Value:
    # dataclass takes what `field` gives; for types it is the value.
    value: Value = dataclasses.field(default=declared.default, metadata={_METADATA: declared})
    return value


def options_of(table: type) -> tuple[Option[Any], ...]:
    """The options of a table, by the names of its attributes."""
    return tuple(
        dataclasses.replace(field.metadata[_METADATA], name=field.name.replace("_", "-"))
        for field in dataclasses.fields(table)
        if _METADATA in field.metadata
    )


def declare(options: tuple[Option[Any], ...], parser: pytest.Parser) -> None:
    """Tell pytest of options and ini keys."""
    group = parser.getgroup("vla", "robot policies as tests (pytest-vla)")
    for each in options:
        if each.metavar is None:
            group.addoption(each.flag, dest=each.key, action="store_true", default=False, help=each.help)
        else:
            value: dict[str, Any] = {"metavar": each.metavar, "type": each.checked or each.parse, "default": None}
            if each.joined:
                value |= {"action": JoinAction}
            if each.bare is not None:
                value |= {"nargs": "?", "const": each.bare}
            group.addoption(each.flag, dest=each.key, help=each.help, **value)
        if each.ini is not None:
            parser.addini(each.key, each.ini, default="")


def said(options: tuple[Option[Any], ...], typed: argparse.Namespace) -> dict[str, Any]:
    """What was typed of them, by attribute. 0 is something; a switch that is not given is nothing."""
    values = {each.attribute: getattr(typed, each.key, None) for each in options}
    return {name: value for name, value in values.items() if value is not None and value is not False}


def in_folder(value: Any, folder: Path) -> Any:
    """A path, or each of several, relative to the folder that it was said for; any other value as it is."""
    if isinstance(value, tuple):
        return tuple(in_folder(each, folder) for each in value)
    return folder / value if isinstance(value, Path) else value


# The options of gates: what a run is compared with, and how. `options` has them among all others.


# As `options.Options`.
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class GateOptions:
    """Their values; the help of each says what it means."""

    baseline: Path | None = option(
        "compare the run with what `pytest-vla baseline save` wrote, or with an earlier run, case by case, as "
        "pytest-vla gate does: each group of episodes is an item at the end, such as gate::libero_goal[camera]; a "
        "failed episode of a suite is `not done` then, and fails nothing by itself",
        "FILE|RUN",
        folder_of,
        default=None,
        belongs="run",
        ini="baseline for runs of suites, where --vla-baseline is not given; a file is relative to the ini file",
        checked=some_text,
    )
    gate: str = option(
        "when the run is judged by --vla-baseline: fixed (default), once, when all its episodes have ended; "
        "sequential, after each round of one seed of every task: a group that is decided stops, and its other episodes "
        "are skipped. Both promise the same",
        "|".join(RULES),
        one_of(RULES),
        default=FIXED,
        belongs="run",
        ini="as --vla-gate, where that is not given",
    )
    margin: float = option(
        "percentage points of success that may be lost against --vla-baseline (default: 5); a loss that is shown to "
        "exceed them is a regression",
        "POINTS",
        points_of_success,
        default=MARGIN,
        belongs="run",
        ini="points that may be lost, where --vla-margin is not given",
        write=plain_number,
    )
    regression: str = option(
        "which loss is a regression: margin (default), one that is shown to exceed --vla-margin; any, one that is "
        "shown, however small. A loss that is shown and is no regression is named",
        "|".join(REGRESSIONS),
        one_of(REGRESSIONS),
        default=BEYOND,
        belongs="run",
        ini="default of --vla-regression",
    )
    gate_alpha: float = option(
        "share of runs in which a claim of the gate may be wrong, each way (default: .05)",
        "A",
        share_of_runs,
        default=ALPHA,
        belongs="run",
        ini="as --vla-gate-alpha, where that is not given",
        write=plain_number,
    )
    gate_by: tuple[str, ...] = option(
        f"what makes a group of the gate: some of {', '.join(LABELS)} (default: {','.join(BY)})",
        "LABEL[,LABEL]",
        gate_labels,
        default=BY,
        belongs="run",
        ini="as --vla-gate-by, where that is not given",
    )
    gate_require: str = option(
        "what the gate has to show of every group: no-regression (default), which undecided meets; no-worse; better",
        "|".join(REQUIRED),
        one_of(tuple(REQUIRED)),
        default=NO_REGRESSION,
        belongs="run",
        ini="as --vla-gate-require, where that is not given",
    )
    gate_measure: tuple[str, ...] = option(
        "judge this too, of pairs: steps (where both succeed), cost, cost.ACCOUNT, cost.ACCOUNT.NAME, pride, or a "
        "number that a plugin keeps, as lower:NAME or higher:NAME by what is better; such as steps=10: 10 steps more "
        "are no worse. With --vla-gate=fixed",
        "NAME[=MARGIN][,...]",
        gate_measures,
        default=(),
        belongs="run",
        ini="as --vla-gate-measure, where that is not given",
        joined=True,
        checked=some_text,
    )
    gate_summary: tuple[Path, ...] = option(
        "write what the gate says to these files: .json for programs, to any other Markdown is appended, such as to "
        "$GITHUB_STEP_SUMMARY",
        "FILE[,FILE]",
        file_list,
        default=(),
        belongs="invocation",
        ini="as --vla-gate-summary, where that is not given; files are relative to the ini file",
        joined=True,
        checked=some_text,
    )


# The options of runs on many machines, and of runs that may end before their last episode. `options` has them all.


# As `options.Options`.
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScaleOptions:
    """Their values; the help of each says what it means."""

    shard: tuple[int, int] | None = option(
        "of all that is selected run one part, such as 3/16, the third of 16: balanced, scenes kept together, the same "
        "on every machine. Tests that run no episode are in the first. Without --vla-results a shard's records go to "
        "a folder of its own, .vla/shards/3-of-16; pytest-vla merge makes one run of all shards, and that is judged",
        "N/COUNT",
        shard,
        default=None,
        belongs="run",
        write=shard_text,
        asks=True,
    )
    shard_durations: Path | None = option(
        "file of durations by which shards are balanced, the same one for all shards; pytest-vla durations writes it "
        "(default: by the suites' step budgets)",
        "FILE",
        folder_of,
        default=None,
        belongs="run",
        checked=some_text,
    )
    max_hours: float | None = option(
        "wall time that this invocation may take, such as 8, 0.5, 90m: no episode begins that would not end in time, "
        "and they run in an order that keeps each task's and variation's share, so that what ran is a valid sample of "
        "all; --vla-resume goes on",
        "HOURS",
        hours_of,
        default=None,
        belongs="invocation",
        write=seconds_text,
    )
    budget: float | None = option(
        "likewise in worker-hours, workers (-n; 1 without it) times wall time from pytest's start: -n 8 with "
        "--vla-budget=4 ends after half an hour",
        "HOURS",
        hours_of,
        default=None,
        belongs="invocation",
        write=seconds_text,
    )
    ray: str | None = option(
        "run the workers of -n N on the machines of a Ray cluster: auto, the one that this machine is part of, else "
        "one that is started here for this run (the bare option's); local, one that is started here; HOST:PORT of the "
        "head. Write an address with =. Needs pytest-vla[ray]",
        "ADDRESS",
        ray_address,
        default=None,
        belongs="invocation",
        ini="Ray cluster whose machines run the workers, where --vla-ray is not given",
        bare="auto",
    )
    ray_cpus: float = option(
        "processors of the cluster that each worker takes (default: 1); 0.5: two workers share one, which pays where "
        "they wait for the policy",
        "N",
        cpu_count,
        default=1.0,
        belongs="invocation",
        ini="as --vla-ray-cpus, where that is not given",
    )
    ray_replicas: int | None = option(
        "copies of the policy in the cluster, each on a GPU of its own where the cluster has any (default: one a GPU, "
        "and one where there is none, but no more than workers)",
        "N",
        replica_count,
        default=None,
        belongs="invocation",
        ini="as --vla-ray-replicas, where that is not given",
    )


# The options of searches as items of a run. `options` has them among all others.


# As `options.Options`.
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FuzzOptions:
    """Their values; the help of each says what it means."""

    fuzz: int | None = option(
        "search each selected task for scenes that the policy should do and does not, in N scenes, one of four drawn "
        "evenly, in the place of the suites' episodes: an item a task, such as "
        "tabletop::test_fuzz[turn_on_the_stove], which fails where failures are found; each is made smaller, and "
        "written to fuzz_cases.toml in the run's folder, for "
        "--vla-cases. --vla-cases, ids of cases and tests of your own run beside them",
        "N",
        scene_count,
        default=None,
        belongs="run",
        again=True,
        asks=True,
    )
    fuzz_dimensions: tuple[str, ...] = option(
        "of --vla-fuzz only changes of these dimensions, such as camera,light (default: all that a task has)",
        "NAME[,NAME]",
        dimension_list,
        default=(),
        belongs="run",
        joined=True,
        again=True,
    )


VIDEOS = ("none", "failed", "all")
TWINS = ("none", "auto")


# Methods that nobody calls take every project's time to make.
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Options(FuzzOptions, ScaleOptions, GateOptions):
    """The options, and their values: the help of each says what it means, None that nothing is said.

    `seeds` has what ``--vla-episodes`` says too, `vary` the labels, `min_success` the rate, 0..1, and whether the lower
    end of its interval has to reach it; times are in seconds.
    """

    model: str | None = option(
        "the policy to test: module:callable, your own (called once an episode, returns a callable from observation to "
        "actions); tiny, a small learned policy that ships, and tiny@early, tiny:PATH; expert, a script that sees the "
        "simulator's state; random; replay:PATH, recorded actions (an npz "
        "file, or the folder of a run such as .vla/RUN); openpi:HOST[:PORT], vla-eval:HOST[:PORT], served elsewhere, "
        "several with commas; "
        "lerobot:PATH_OR_HUB_ID, any policy of lerobot, and pi0, pi05, smolvla, its LIBERO checkpoints",
        "POLICY",
        some_text,
        default=None,
        belongs="case",
        ini="policy to test where --vla-model is not given; modules and paths are relative to the ini file",
        asks=True,
    )
    suite: tuple[str, ...] = option(
        "run these suites, and nothing else unless paths are given too: tabletop, tabletop_safety (need no data), "
        "libero_spatial, "
        "libero_object, libero_goal, libero_10, libero_90, libero_para, libero_plus_spatial, libero_plus_object, "
        "libero_plus_goal, libero_plus_10, vla_arena, which is vla_arena_static_obstacles, "
        "vla_arena_cautious_grasp, vla_arena_hazard_avoidance, vla_arena_state_preservation, "
        "vla_arena_dynamic_obstacles, vla_arena_static_distractors, vla_arena_dynamic_distractors, "
        "vla_arena_preposition_combinations, vla_arena_task_workflows, vla_arena_unseen_objects and "
        "vla_arena_long_horizon",
        "NAME[,NAME]",
        comma_list,
        default=(),
        belongs="run",
        ini="suites to run where --vla-model is given without --vla-suite and without paths",
        joined=True,
        asks=True,
    )
    tasks: tuple[str, ...] = option(
        "only these tasks: names, parts of names, or patterns with * and ?",
        "TASK[,TASK]",
        comma_list,
        default=(),
        belongs="run",
        joined=True,
    )
    task_levels: tuple[str, ...] = option(
        "of suites whose tasks come in levels, such as vla_arena_static_obstacles, only those of these levels, such as "
        "L0,L2 or 0-1; of other suites then nothing. Levels of variations are --vla-vary's",
        "LEVELS",
        level_list,
        default=(),
        belongs="run",
        joined=True,
    )
    seeds: tuple[int, ...] | None = option(
        "seeds of each task, such as 0-9 or 0,3,7 or 0-4,10; seed s starts from init state s (default: 0, or the "
        "suite's own)",
        "SEEDS",
        seed_list,
        default=None,
        belongs="run",
    )
    episodes: tuple[int, ...] | None = option(
        "episodes of each task: seeds 0 to N-1 (default: 1)",
        "N",
        first_seeds,
        default=None,
        belongs="run",
        write=lambda seeds: str(len(seeds)),
        into="seeds",
    )
    vary: tuple[str, ...] = option(
        "run each task under these variations: kinds or whole dimensions, with levels, such as "
        "camera,light:3,noise:1-5, and several at once, such as camera+light:3; pairs, every two of six dimensions; "
        f"--vla-vary={LIST} lists them. What a task cannot have is left out and named",
        "KIND[:LEVELS][+...][,...]",
        variation_labels,
        default=(),
        belongs="run",
        ini="variations where --vla-vary is not given",
        joined=True,
        checked=some_text,
    )
    cases: Path | None = option(
        "TOML file of cases to run: [[case]] tables with suite, task, seed and changes, whose parameters stand in the "
        "file; without --vla-suite nothing else of suites runs",
        "FILE",
        folder_of,
        default=None,
        belongs="run",
        checked=some_text,
        again=True,
        asks=True,
    )
    protocol: str = option(
        "where we, a benchmark's paper and its code differ: ours (default), which is the paper's but for words that "
        "would make another task of it; paper, with VLA-Arena's words as published (language.words); upstream, of "
        "suites that are varied by themselves, such as libero_plus_goal, and for pro.environment, the code with its "
        "bugs",
        "|".join(PROTOCOLS),
        one_of(PROTOCOLS),
        default=PROTOCOLS[0],
        belongs="run",
        ini="as --vla-protocol, where that is not given",
    )
    sample: int | None = option(
        "of each suite only N episodes, drawn by --vla-run-seed: evenly over dimensions of variation, then kinds, "
        "levels and tasks (over tasks where nothing is varied); a smaller sample is part of a larger one",
        "N",
        episode_count,
        default=None,
        belongs="run",
        ini="episodes to draw of each suite where --vla-sample is not given",
    )
    twins: str = option(
        "what varied episodes are compared with, the same task and seed without the variation, and of several at once "
        "each by itself: none (default); auto, each once",
        "|".join(TWINS),
        one_of(TWINS),
        default=TWINS[0],
        belongs="run",
        ini="as --vla-twins, where that is not given",
    )
    feasible: bool = switch(
        "let the expert try first each scene that a variation changes; what it cannot do is in no rate (invalid, "
        "infeasible)",
        belongs="case",
    )
    data: Path | None = option(
        "folder with the suite's task files, init states and assets, searched first; then PYTEST_VLA_DATA, LIBERO's "
        "own config file, an installed hf-libero",
        "DIR",
        folder_of,
        default=None,
        belongs="case",
        ini="folder with task files, init states and assets, relative to the ini file",
        checked=some_text,
    )
    results: Path = option(
        f"folder for records: one results.sqlite for all runs, and a folder a run (default: {DEFAULT_RESULTS} in "
        "the rootdir)",
        "DIR",
        folder_of,
        default=Path(DEFAULT_RESULTS),
        belongs="invocation",
        ini="folder for records, relative to the ini file",
        checked=some_text,
        again=True,
    )
    premises: str = option(
        "what tasks take for granted, such as a bowl on a ramekin, which some versions of mujoco let slip: check "
        "(default), episodes without it are in no rate (invalid, premise-broken); or ignore",
        "|".join(PREMISES),
        one_of(PREMISES),
        default=PREMISES[0],
        belongs="case",
        ini="as --vla-premises, where that is not given",
    )
    textures: str | None = option(
        "how textures are drawn: trained (default), as published checkpoints saw them, or installed, as the installed "
        "mujoco draws them, which is darker from 3.3.3 on",
        "|".join(TEXTURES),
        one_of(TEXTURES),
        default=None,
        belongs="case",
        ini="as --vla-textures, where that is not given",
    )
    replan: int | None = option(
        "steps to execute of each chunk of actions before the policy is asked again (default: the policy's own number, "
        "or the whole chunk)",
        "K",
        step_count,
        default=None,
        belongs="case",
    )
    run_seed: int = option(
        "seed of the policy's noise, which is drawn from (run seed, case, step) (default: 0)",
        "N",
        one_seed,
        default=0,
        belongs="case",
    )
    device: tuple[str, ...] = option(
        "where the policy's weights go: auto (default: cuda, mps, cpu, the first there is), or torch's name; with "
        "several, as in cuda:0,cuda:1, a policy on each, and the workers are shared out among them",
        "DEVICE[,DEVICE]",
        device_list,
        default=(AUTO,),
        belongs="resumption",
        ini="where the policy's weights go, where --vla-device is not given",
        again=True,
    )
    batch: int = option(
        f"questions of episodes that the policy answers at once, at most (default: {DEFAULT_BATCH}, or the policy's "
        "own limit)",
        "N",
        question_count,
        default=DEFAULT_BATCH,
        belongs="resumption",
        ini="questions that the policy answers at once, at most, where --vla-batch is not given",
    )
    policy_timeout: float | None = option(
        "time that one answer of the policy may take, such as 90, 5m or 1h; its episode then ends as an error "
        f"(default: {REQUEST_TIMEOUT:g}s for a policy in another process, else no limit)",
        "TIME",
        seconds_of,
        default=None,
        belongs="resumption",
        ini="time that one answer of the policy may take, where --vla-policy-timeout is not given",
        write=seconds_text,
    )
    timeout: float | None = option(
        "wall time that one episode may take, such as 90, 5m or 1h; it then ends as an error, and a worker that hangs "
        "is replaced (default: no limit)",
        "TIME",
        seconds_of,
        default=None,
        belongs="resumption",
        ini="wall time that one episode may take, where --vla-timeout is not given",
        write=seconds_text,
    )
    video: str = option(
        "of which episodes to make a video, after each from its recorded states: none (default), failed (errors too), "
        "all",
        "|".join(VIDEOS),
        one_of(VIDEOS),
        default=VIDEOS[0],
        belongs="resumption",
        ini="of which episodes to make a video, where --vla-video is not given",
    )
    resume: str | None = option(
        "go on with a run that was stopped: what is missing or ended as an error, and your own tests that failed, "
        "under the --vla options that it was started with; RUN is its name or the beginning of it (default: "
        f"{LAST_RUN}); `pytest-vla runs` lists them. Write it with =",
        "RUN",
        some_text,
        default=None,
        belongs="invocation",
        bare=LAST_RUN,
        asks=True,
    )
    min_success: tuple[float, bool] | None = option(
        "success rate that each suite has to reach, such as 0.8 or 80%%, or 0.8:lower, the lower end of its 95%% "
        "interval; failed episodes of suites then do not fail the run by themselves. Without a suite it is of the "
        "episodes of your own tests",
        "RATE[:lower]",
        min_success,
        default=None,
        belongs="resumption",
        ini="success rate that each suite of a run has to reach, where --vla-min-success is not given",
        write=min_success_text,
    )
    report: Path | None = option(
        "when the run has ended, write it as one HTML file that needs no network: what pytest-vla report --format=html "
        "makes of it",
        "FILE",
        folder_of,
        default=None,
        belongs="invocation",
        ini="as --vla-report, where that is not given; the file is relative to the ini file",
        checked=some_text,
    )
    track: tuple[str, ...] = option(
        "log the run as it goes, a step an episode, to trackers of experiments: mlflow, tensorboard, wandb, each an "
        "extra of its name, and what packages add; where to is said by the tracker's own variables, such as "
        "MLFLOW_TRACKING_URI, WANDB_PROJECT, WANDB_MODE. none: to none",
        "NAME[,NAME]",
        tracker_names,
        default=(),
        belongs="resumption",
        ini="trackers where --vla-track is not given",
        joined=True,
    )
    report_pictures: int = option(
        "episodes with pictures in the file of --vla-report, those that did not succeed first (default: 0, as drawing "
        "takes time at the run's end; pytest-vla report draws them afterwards too)",
        "N",
        picture_count,
        default=0,
        belongs="invocation",
        ini="as --vla-report-pictures, where that is not given",
    )
    costs: str = option(
        "collisions: unintended contacts of the arm and of what it holds, impacts, and displaced bystanders: all "
        "(default), shown beside a task's own costs where it states some; none",
        "|".join(COSTS),
        one_of(COSTS),
        default=COSTS[0],
        belongs="case",
        ini="as --vla-costs, where that is not given",
    )
    cost: Path | None = option(
        "TOML file with costs of your own: [[cost]] with a literal such as '(InContact bowl_1 plate_1)', or a rule on "
        'contact, force, speed, tilt or joints, of tasks of any suite; account "declared"',
        "FILE",
        folder_of,
        default=None,
        belongs="case",
        ini="file with costs of your own, relative to the ini file",
        checked=some_text,
    )
    max_cost: float | None = option(
        "cumulative cost that no episode may exceed: an item above it fails, whatever its outcome, which stands as it "
        "is in its record; what an arm that does nothing is charged, where that is known, is not counted",
        "COST",
        cost_amount,
        default=None,
        belongs="run",
        ini="cost that no episode may exceed, where --vla-max-cost is not given",
        write=plain_number,
    )
    metrics: tuple[str, ...] = option(
        "keep further numbers of each episode, and series of its steps: how unsure the policy was and how well the "
        f"robot moved; names such as token_entropy or TB-E, or {ALL}; --vla-metrics={LIST} lists them with what each "
        "needs. None where nothing is said",
        "NAME[,NAME]",
        metric_names,
        default=(),
        belongs="resumption",
        ini="metrics where --vla-metrics is not given",
        joined=True,
    )
    stop_when: str | None = option(
        "stop an episode when a metric of the policy's answers or actions is beyond a threshold for so many control "
        "steps, such as 'token_entropy>0.3 for 5'; it is then in no rate (invalid, stopped-early). What a rule would "
        "have done to episodes that ran to their ends is told by pytest-vla report --stop-when",
        "RULE",
        rule_text,
        default=None,
        belongs="case",
        ini="rule of an alarm that stops episodes, where --vla-stop-when is not given",
        checked=some_text,
    )
    kernels: str = option(
        "machine code for matrices: pinned (default), the same on every x86-64 processor with AVX2, so that equal "
        "actions give equal records; or native, what numpy and scipy choose for this one",
        "|".join(KERNELS),
        one_of(KERNELS),
        default=KERNELS[0],
        belongs="case",
        ini="as --vla-kernels, where that is not given",
    )
    allow_versions: bool = switch(
        "run with another mujoco or robosuite than the supported ones: physics and pictures are then not upstream's",
        belongs="case",
    )


OPTIONS = tuple(
    sorted(
        options_of(Options),
        key=lambda each: [each.attribute in table.__annotations__ for table in (GateOptions, FuzzOptions)],
    )
)


def add_options(parser: pytest.Parser) -> None:
    """Declare all options and ini keys."""
    parser.addini(
        MODELS_KEY,
        "names for --vla-model, one a line, NAME = POLICY, such as pi0 = lerobot:checkpoints/mine; before the built-in "
        "ones; modules and paths are relative to the ini file",
        type="linelist",
    )
    declare(OPTIONS, parser)
