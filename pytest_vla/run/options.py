"""Every ``--vla-*`` option and ini key, declared once.

pytest's options, the values in `Settings`, what a resumed run keeps, and the reference page are all made from these
tables. A new option is one attribute here, and the code that uses it. ``pytest --help`` shows the options by topic.
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
from pytest_vla.plan.choices import CLIENTS, COSTS, MEASURED, PREMISES, SKIP, TEXTURES
from pytest_vla.policies.devices import AUTO, DEFAULT_BATCH, REQUEST_TIMEOUT
from pytest_vla.records.names import DEFAULT_RESULTS, LAST_RUN
from pytest_vla.run.arguments import (
    JoinAction,
    budget_text,
    comma_list,
    cost_amount,
    cpu_count,
    device_list,
    dimension_list,
    episode_count,
    evaluator_text,
    file_list,
    first_seeds,
    folder_of,
    gate_labels,
    gate_measures,
    hours_of,
    latency_text,
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
    settle_count,
    shard,
    shard_text,
    share_of_runs,
    some_text,
    step_count,
    success_text,
    tracker_names,
    variation_labels,
)
from pytest_vla.run.constants import ALL, LIST, MODELS_KEY

# Light: every project that has pytest-vla installed imports this at pytest's start.

Value = TypeVar("Value")

Belongs = Literal["case", "run", "resumption", "invocation"]
"""To what an option belongs, which says what a resumed run does with it.

case: an episode's outcome depends on it; run: it says which episodes there are. A resumed run is the same in both.
resumption: how episodes are run and judged, as before where nothing else is said. invocation: of this call of pytest.
"""

Topic = Literal["main", "episodes", "variations", "policy", "judging", "safety", "machines", "output"]
"""The group of ``--help`` and of the reference page in which an option is."""

TOPICS: Mapping[Topic, str] = {
    "main": "robot policies as tests (pytest-vla)",
    "episodes": "pytest-vla: which episodes",
    "variations": "pytest-vla: variations and searches",
    "policy": "pytest-vla: the policy and its answers",
    "judging": "pytest-vla: judging a run",
    "safety": "pytest-vla: costs and safety",
    "machines": "pytest-vla: time, workers and machines",
    "output": "pytest-vla: output",
}
"""The title of each topic, in the order of ``--help``: what a newcomer needs is in the first."""

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


# No `__eq__` or `__repr__` here and in the tables below: making them would cost every project's pytest time.
@dataclass(frozen=True, eq=False, repr=False)
class Option(Generic[Value]):
    """One ``--vla-NAME``, and the ini key ``vla_NAME`` where it has one.

    Attributes:
        name: as in ``--vla-NAME``; the attribute that has the value is called the same, with ``_``.
        help: for ``--help`` and the reference page.
        metavar: how its value is shown; None: a switch.
        parse: a text as the value. Raises ArgumentTypeError or VlaError. A relative path is relative to where it is
            typed.
        default: the value where nothing is said; a relative path is relative to the rootdir.
        belongs: see `Belongs`.
        topic: the group of ``--help`` that it is in.
        ini: what the ini key's help adds to "default of --vla-NAME"; without an ini key None.
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
    topic: Topic
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
    def ini_help(self) -> str:
        """The help of the ini key."""
        return f"default of {self.flag}" + (f"; {self.ini}" if self.ini else "")

    @property
    def kept_in(self) -> str:
        """The attribute that has its value, or that of the option that it is another way to say."""
        return self.attribute if self.into is None else self.into

    def text(self, value: Any) -> str:
        """Return a value as the text that `parse` reads."""
        if self.write is not None:
            return self.write(value)
        return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)

    def typed(self, value: Any) -> str:
        """Return a value as the option is typed on the command line."""
        return self.flag if self.metavar is None else f"{self.flag}={self.text(value)}"


def option(
    help: str,
    metavar: str,
    parse: Callable[[str], Value],
    *,
    default: Value,
    belongs: Belongs,
    topic: Topic,
    ini: str | None = None,
    bare: str | None = None,
    joined: bool = False,
    checked: Callable[[str], Any] | None = None,
    write: Callable[[Any], str] | None = None,
    again: bool | None = None,
    asks: bool = False,
    into: str | None = None,
) -> Value:
    """Return an attribute of a table of options, see `Option`.

    `again` is by default true for the options that a case's outcome depends on.
    """
    again = belongs == "case" if again is None else again
    declared = Option(
        "", help, metavar, parse, default, belongs, topic, ini, bare, joined, checked, write, again, asks, into
    )
    return _attribute(declared)


def switch(help: str, *, belongs: Belongs, topic: Topic) -> bool:
    """Return an attribute of a table of options for an option without a value, which is given or not."""
    return _attribute(Option("", help, None, bool, False, belongs, topic, again=belongs == "case"))


def _attribute(declared: Option[Value]) -> Value:
    # dataclass takes what `field` gives; for types it is the value.
    value: Value = dataclasses.field(default=declared.default, metadata={_METADATA: declared})
    return value


def options_of(table: type) -> tuple[Option[Any], ...]:
    """Return the options of a table, named by its attributes."""
    return tuple(
        dataclasses.replace(field.metadata[_METADATA], name=field.name.replace("_", "-"))
        for field in dataclasses.fields(table)
        if _METADATA in field.metadata
    )


def declare(options: tuple[Option[Any], ...], parser: pytest.Parser) -> None:
    """Declare options and ini keys to pytest, in a group of ``--help`` for each topic."""
    groups = {topic: parser.getgroup(f"vla {topic}", title) for topic, title in TOPICS.items()}
    for each in options:
        group = groups[each.topic]
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
            parser.addini(each.key, each.ini_help, default="")


def said(options: tuple[Option[Any], ...], typed: argparse.Namespace) -> dict[str, Any]:
    """Return the values that were typed, by attribute; 0 is a value, a switch that was not given is none."""
    values = {each.attribute: getattr(typed, each.key, None) for each in options}
    return {name: value for name, value in values.items() if value is not None and value is not False}


def in_folder(value: Any, folder: Path) -> Any:
    """Return a path, or each of several, relative to a folder; any other value unchanged."""
    if isinstance(value, tuple):
        return tuple(in_folder(each, folder) for each in value)
    return folder / value if isinstance(value, Path) else value


# The options of gates: what a run is compared with, and how.


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class GateOptions:
    """Their values; the help of each says what it means."""

    baseline: Path | None = option(
        "compare the run, case by case, with a baseline file (`pytest-vla baseline save`) or an earlier run. "
        "Without --vla-episodes or --vla-seeds, a file's seeds are run. Each group of episodes is an item at the "
        "end, such as gate::libero_goal[camera]. A failed suite episode is then reported as `not done` and does "
        "not fail the run by itself",
        "FILE|RUN",
        folder_of,
        default=None,
        belongs="run",
        topic="main",
        ini="a file is relative to the ini file",
        checked=some_text,
    )
    gate: str = option(
        "when --vla-baseline judges the run: fixed (default: once, after all episodes) or sequential (after "
        "each round of one seed per task; a decided group stops and its remaining episodes are skipped). Both "
        "have the same error rates",
        "|".join(RULES),
        one_of(RULES),
        default=FIXED,
        belongs="run",
        topic="judging",
        ini="",
    )
    margin: float = option(
        "acceptable loss of success against --vla-baseline, in percentage points (default: 5); a loss shown "
        "to exceed it is a regression",
        "POINTS",
        points_of_success,
        default=MARGIN,
        belongs="run",
        topic="judging",
        ini="",
        write=plain_number,
    )
    regression: str = option(
        "which loss counts as a regression: margin (default: one shown to exceed --vla-margin) or any (any "
        "loss that is shown). A shown loss that is not a regression is reported",
        "|".join(REGRESSIONS),
        one_of(REGRESSIONS),
        default=BEYOND,
        belongs="run",
        topic="judging",
        ini="",
    )
    gate_alpha: float = option(
        "error rate of the gate's claims, per side (default: .05)",
        "A",
        share_of_runs,
        default=ALPHA,
        belongs="run",
        topic="judging",
        ini="",
        write=plain_number,
    )
    gate_by: tuple[str, ...] = option(
        f"labels that define a group of the gate: some of {', '.join(LABELS)} (default: {','.join(BY)})",
        "LABEL[,LABEL]",
        gate_labels,
        default=BY,
        belongs="run",
        topic="judging",
        ini="",
    )
    gate_require: str = option(
        "what the gate requires of every group: no-regression (default; an undecided group passes), no-worse, better",
        "|".join(REQUIRED),
        one_of(tuple(REQUIRED)),
        default=NO_REGRESSION,
        belongs="run",
        topic="judging",
        ini="",
    )
    gate_measure: tuple[str, ...] = option(
        "also judge this measure on pairs: steps (if both succeed), cost, cost.ACCOUNT, cost.ACCOUNT.NAME, "
        "pride, or a number that a plugin records, as lower:NAME or higher:NAME (which is better). With a "
        "margin: steps=10 accepts 10 more steps. Requires --vla-gate=fixed",
        "NAME[=MARGIN][,...]",
        gate_measures,
        default=(),
        belongs="run",
        topic="judging",
        ini="",
        joined=True,
        checked=some_text,
    )
    gate_summary: tuple[Path, ...] = option(
        "write the gate's verdict to these files: .json for programs; Markdown is appended to any other file, "
        "such as $GITHUB_STEP_SUMMARY",
        "FILE[,FILE]",
        file_list,
        default=(),
        belongs="invocation",
        topic="judging",
        ini="files are relative to the ini file",
        joined=True,
        checked=some_text,
    )


# The options of runs on many machines, and of limits of time.


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScaleOptions:
    """Their values; the help of each says what it means."""

    shard: tuple[int, int] | None = option(
        "run only shard N of COUNT (e.g. 3/16). Shards are balanced and deterministic, and keep scenes "
        "together; tests without episodes are in the first. Without --vla-results, a shard's records are in "
        ".vla/shards/3-of-16. `pytest-vla merge` makes one run of all shards and judges it",
        "N/COUNT",
        shard,
        default=None,
        belongs="run",
        topic="machines",
        write=shard_text,
        asks=True,
    )
    shard_durations: Path | None = option(
        "file of durations that balances the shards, the same for all of them; `pytest-vla durations` writes "
        "it (default: the suites' step budgets)",
        "FILE",
        folder_of,
        default=None,
        belongs="run",
        topic="machines",
        checked=some_text,
    )
    max_hours: float | None = option(
        "longest wall time of this invocation, such as 8, 0.5, 90m. No episode starts that would not end in "
        "time, and the order keeps each task's and variation's share, so the episodes that ran are a valid "
        "sample. --vla-resume continues",
        "HOURS",
        hours_of,
        default=None,
        belongs="invocation",
        topic="machines",
        write=seconds_text,
    )
    worker_hours: float | None = option(
        "the same limit in worker-hours: workers (-n; 1 without it) times wall time from pytest's start. -n 8 "
        "with --vla-worker-hours=4 ends after half an hour",
        "HOURS",
        hours_of,
        default=None,
        belongs="invocation",
        topic="machines",
        write=seconds_text,
    )
    ray: str | None = option(
        "run the workers of -n N on a Ray cluster: auto (default of the bare option: the cluster of this "
        "machine, else a new local one), local, or HOST:PORT of the head. Write an address with =. Requires "
        "pytest-vla[ray]",
        "ADDRESS",
        ray_address,
        default=None,
        belongs="invocation",
        topic="machines",
        ini="",
        bare="auto",
    )
    ray_cpus: float = option(
        "processors of the cluster per worker (default: 1); with 0.5 two workers share one, which helps if "
        "they wait for the policy",
        "N",
        cpu_count,
        default=1.0,
        belongs="invocation",
        topic="machines",
        ini="",
    )
    ray_replicas: int | None = option(
        "copies of the policy in the cluster, each on its own GPU if the cluster has any (default: one per "
        "GPU, or one without GPUs; never more than workers)",
        "N",
        replica_count,
        default=None,
        belongs="invocation",
        topic="machines",
        ini="",
    )


# The options of searches as items of a run.


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FuzzOptions:
    """Their values; the help of each says what it means."""

    fuzz: int | None = option(
        "search each selected task for scenes that the policy fails and the expert can do, in N scenes, "
        "instead of running the suites' episodes. Each task is an item, such as "
        "tabletop::test_fuzz[turn_on_the_stove], which fails if failures are found. Each failure is shrunk "
        "and written to fuzz_cases.toml in the run's folder, for --vla-cases",
        "N",
        scene_count,
        default=None,
        belongs="run",
        topic="variations",
        again=True,
        asks=True,
    )
    fuzz_dimensions: tuple[str, ...] = option(
        "change only these dimensions in --vla-fuzz, such as camera,light (default: all that a task has)",
        "NAME[,NAME]",
        dimension_list,
        default=(),
        belongs="run",
        topic="variations",
        joined=True,
        again=True,
    )


VIDEOS = ("none", "failed", "all")
TWINS = ("none", "auto")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Options(FuzzOptions, ScaleOptions, GateOptions):
    """The options, and their values: the help of each says what it means, None that nothing is said.

    `seeds` includes those of ``--vla-episodes``; `vary` has labels; `min_success` has the rate, 0..1, and whether the
    lower end of its interval must reach it; times are in seconds.
    """

    model: str | None = option(
        "policy to test: module:callable (your own; called once per episode, returns a callable from "
        "observation to actions), expert (a script that sees the simulator's state), random, tiny (a small "
        "learned policy that ships), replay:PATH (recorded actions: an npz file, a run's folder, or LIBERO's "
        "demonstrations in an hdf5 file), openpi:HOST[:PORT], vla-eval:, groot:, groot-n1.5:, x-vla: or "
        "starvla:HOST[:PORT] (a policy server; several with commas), "
        "lerobot:PATH_OR_HUB_ID (any lerobot policy), pi0, pi05, smolvla (lerobot's LIBERO checkpoints)",
        "POLICY",
        some_text,
        default=None,
        belongs="case",
        topic="main",
        ini="modules and paths are relative to the ini file",
        asks=True,
    )
    suite: tuple[str, ...] = option(
        "suites to run; without paths nothing else runs: tabletop, "
        "tabletop_safety (need no data), libero_spatial, libero_object, libero_goal, libero_10, libero_90, "
        "libero_para, libero_plus_spatial, libero_plus_object, libero_plus_goal, libero_plus_10, vla_arena "
        "(all eleven of its suites), vla_arena_static_obstacles, vla_arena_cautious_grasp, "
        "vla_arena_hazard_avoidance, vla_arena_state_preservation, vla_arena_dynamic_obstacles, "
        "vla_arena_static_distractors, vla_arena_dynamic_distractors, vla_arena_preposition_combinations, "
        "vla_arena_task_workflows, vla_arena_unseen_objects, vla_arena_long_horizon, metaworld (all of "
        "metaworld_easy, metaworld_medium, metaworld_hard, metaworld_very_hard), metaworld_mt10, metaworld_ml45_test, "
        "pusht, aloha (both of aloha_transfer_cube, aloha_insertion), robosuite (all of robosuite_lift, "
        "robosuite_stack, robosuite_door, robosuite_nut_assembly, robosuite_nut_assembly_square, "
        "robosuite_nut_assembly_round, robosuite_pick_place, robosuite_pick_place_milk, robosuite_pick_place_bread, "
        "robosuite_pick_place_cereal, robosuite_pick_place_can, or by robosuite's names, such as robosuite:Lift)",
        "NAME[,NAME]",
        comma_list,
        default=(),
        belongs="run",
        topic="main",
        ini="used if --vla-model is given without --vla-suite and without paths",
        joined=True,
        asks=True,
    )
    tasks: tuple[str, ...] = option(
        "run only these tasks: names, parts of names, or patterns with * and ?",
        "TASK[,TASK]",
        comma_list,
        default=(),
        belongs="run",
        topic="main",
        joined=True,
    )
    task_levels: tuple[str, ...] = option(
        "run only tasks of these levels, such as L0,L2 or 0-1, in suites whose tasks have levels (vla_arena, "
        "tabletop_safety); other suites then run nothing. For levels of variations use --vla-vary",
        "LEVELS",
        level_list,
        default=(),
        belongs="run",
        topic="episodes",
        joined=True,
    )
    seeds: tuple[int, ...] | None = option(
        "seeds per task, such as 0-9 or 0,3,7 or 0-4,10; seed s starts from init state s (default: 0, or the "
        "suite's own seeds)",
        "SEEDS",
        seed_list,
        default=None,
        belongs="run",
        topic="main",
    )
    episodes: tuple[int, ...] | None = option(
        "episodes per task: seeds 0 to N-1 (default: 1)",
        "N",
        first_seeds,
        default=None,
        belongs="run",
        topic="main",
        write=lambda seeds: str(len(seeds)),
        into="seeds",
    )
    vary: tuple[str, ...] = option(
        "run each task under these variations: kinds or whole dimensions, with levels, such as "
        "camera,light:3,noise:1-5; several at once, such as camera+light:3; pairs: every two of six "
        f"dimensions. --vla-vary={LIST} lists them. Variations that do not apply to a task are skipped and reported",
        "KIND[:LEVELS][+...][,...]",
        variation_labels,
        default=(),
        belongs="run",
        topic="main",
        ini="",
        joined=True,
        checked=some_text,
    )
    cases: Path | None = option(
        "run the cases of this TOML file: [[case]] tables with suite, task, seed and changes, with all "
        "parameters. Without --vla-suite, nothing else of the suites runs",
        "FILE",
        folder_of,
        default=None,
        belongs="run",
        topic="episodes",
        checked=some_text,
        again=True,
        asks=True,
    )
    protocol: str = option(
        "which definition to follow where paper and code disagree: ours (default: the paper's, minus "
        "rewordings that change the task), paper (VLA-Arena's words as published), upstream (the code, bugs "
        "included; for libero_plus suites and pro.environment)",
        "|".join(PROTOCOLS),
        one_of(PROTOCOLS),
        default=PROTOCOLS[0],
        belongs="run",
        topic="episodes",
        ini="",
    )
    sample: int | None = option(
        "run only N episodes per suite, drawn with --vla-run-seed evenly over dimensions of variation, then "
        "kinds, levels and tasks (without variations: over tasks). A smaller sample is part of a larger one",
        "N",
        episode_count,
        default=None,
        belongs="run",
        topic="episodes",
        ini="",
    )
    twins: str = option(
        "also run the unvaried counterpart of each varied episode and, for combined variations, each part "
        "alone: none (default) or auto",
        "|".join(TWINS),
        one_of(TWINS),
        default=TWINS[0],
        belongs="run",
        topic="variations",
        ini="",
    )
    check_feasible: bool = switch(
        "let the expert try each varied scene first; a scene that it cannot do is invalid (infeasible) and in no rate",
        belongs="case",
        topic="variations",
    )
    data: Path | None = option(
        "folder with the suite's task files, init states and assets. It is searched first; then "
        "PYTEST_VLA_DATA, LIBERO's config file, an installed hf-libero",
        "DIR",
        folder_of,
        default=None,
        belongs="case",
        topic="episodes",
        ini="relative to the ini file",
        checked=some_text,
    )
    results: Path = option(
        "folder for records: one results.sqlite for all runs, and one folder per run (default: "
        f"{DEFAULT_RESULTS} in the rootdir)",
        "DIR",
        folder_of,
        default=Path(DEFAULT_RESULTS),
        belongs="invocation",
        topic="output",
        ini="relative to the ini file",
        checked=some_text,
        again=True,
    )
    premises: str = option(
        "check each task's preconditions after settling, such as a bowl on a ramekin, which falls off in some "
        "MuJoCo versions: check (default; an episode without them is invalid and in no rate) or ignore",
        "|".join(PREMISES),
        one_of(PREMISES),
        default=PREMISES[0],
        belongs="case",
        topic="episodes",
        ini="",
    )
    textures: str | None = option(
        "how textures are drawn: trained (default: as published checkpoints saw them) or installed (as the "
        "installed mujoco draws them, darker from 3.3.3 on)",
        "|".join(TEXTURES),
        one_of(TEXTURES),
        default=None,
        belongs="case",
        topic="episodes",
        ini="",
    )
    evaluator: str | Path | None = option(
        "published evaluator whose protocol the episodes follow (scenes, pictures, state, step budgets, actions): "
        "openpi, openvla, openvla-oft, lerobot, groot-n1.5, groot-n1.7, x-vla, vla-eval, ours, or your own TOML file "
        "(default: ours, which is each suite's own; that of the same project with --vla-model=openpi:..., lerobot:..., "
        "groot:..., groot-n1.5:... or x-vla:...)",
        "NAME|FILE",
        evaluator_text,
        default=None,
        belongs="case",
        topic="episodes",
        ini="a path is relative to the ini file",
        checked=some_text,
    )
    steps: int | str | None = option(
        "step budget of every episode: a number, or longest, the largest of all evaluators, which shows the success "
        "rate under each of them (default: the evaluator's, else the suite's)",
        "N|longest",
        budget_text,
        default=None,
        belongs="case",
        topic="episodes",
    )
    settle_steps: int | None = option(
        "steps without the policy at an episode's begin (default: the suite's, which is 10 for LIBERO)",
        "N",
        settle_count,
        default=None,
        belongs="case",
        topic="episodes",
    )
    success: str | None = option(
        "when an episode succeeds: first (default: at the first step at which the goal holds), held:K (once it has "
        "held for K consecutive steps) or end (if it holds after the last step)",
        "first|held:K|end",
        success_text,
        default=None,
        belongs="case",
        topic="episodes",
    )
    replan: int | None = option(
        "steps to execute of each chunk of actions before the policy is queried again (default: the policy's "
        "own number, else the whole chunk)",
        "K",
        step_count,
        default=None,
        belongs="case",
        topic="policy",
    )
    realtime: str | None = option(
        "keep the world moving while the policy thinks: use each answer this many seconds after its observation, such "
        f"as 0.15 or 150ms, or {MEASURED} (also the bare option), as late as it took. Meanwhile the rest of the "
        "previous chunk is executed, then the arm holds. The robot's client may follow after a colon, as in 0.15:wait: "
        f"{', '.join(CLIENTS)} (default: {SKIP}). Write it with =. Default: the world waits for the policy. "
        "--vla-vary=action.latency gives a curve over latencies",
        f"SECONDS|{MEASURED}[:CLIENT]",
        latency_text,
        default=None,
        belongs="case",
        topic="policy",
        ini="",
        bare=MEASURED,
    )
    run_seed: int = option(
        "seed of the policy's noise, which is drawn from (run seed, case, step) (default: 0)",
        "N",
        one_seed,
        default=0,
        belongs="case",
        topic="episodes",
    )
    device: tuple[str, ...] = option(
        "device of the policy's weights: auto (default: the first of cuda, mps, cpu) or torch's name; with "
        "several, such as cuda:0,cuda:1, each runs one copy and the workers are divided among them",
        "DEVICE[,DEVICE]",
        device_list,
        default=(AUTO,),
        belongs="resumption",
        topic="policy",
        ini="",
        again=True,
    )
    max_batch: int = option(
        f"most observations that the policy answers at once (default: {DEFAULT_BATCH}, or the policy's own limit)",
        "N",
        question_count,
        default=DEFAULT_BATCH,
        belongs="resumption",
        topic="policy",
        ini="",
    )
    policy_timeout: float | None = option(
        "longest time for one answer of the policy, such as 90, 5m or 1h; a later answer ends the episode as "
        f"an error (default: {REQUEST_TIMEOUT:g}s for a policy in another process, else no limit)",
        "TIME",
        seconds_of,
        default=None,
        belongs="resumption",
        topic="policy",
        ini="",
        write=seconds_text,
    )
    timeout: float | None = option(
        "longest wall time of an episode, such as 90, 5m or 1h; a longer one ends as an error, and a worker "
        "that hangs is replaced (default: no limit)",
        "TIME",
        seconds_of,
        default=None,
        belongs="resumption",
        topic="machines",
        ini="",
        write=seconds_text,
    )
    video: str = option(
        "episodes to record as videos, drawn after each episode from its states: none (default), failed "
        "(errors too), all",
        "|".join(VIDEOS),
        one_of(VIDEOS),
        default=VIDEOS[0],
        belongs="resumption",
        topic="output",
        ini="",
    )
    resume: str | None = option(
        "continue a run that was stopped: run what is missing or ended as an error, and your own tests that "
        "failed, with the --vla options of that run. RUN is its name or the beginning of its name (default: "
        f"{LAST_RUN}); `pytest-vla runs` lists them. Write it with =",
        "RUN",
        some_text,
        default=None,
        belongs="invocation",
        topic="main",
        bare=LAST_RUN,
        asks=True,
    )
    min_success: tuple[float, bool] | None = option(
        "success rate that each suite must reach, such as 0.8 or 80%%; with 0.8:lower, the lower end of its "
        "95%% interval must reach it. Failed suite episodes then do not fail the run by themselves. Without a "
        "suite, the rate covers the episodes of your own tests",
        "RATE[:lower]",
        min_success,
        default=None,
        belongs="resumption",
        topic="main",
        ini="",
        write=min_success_text,
    )
    report: Path | None = option(
        "write the finished run as one HTML file that needs no network, as `pytest-vla report --format=html` does",
        "FILE",
        folder_of,
        default=None,
        belongs="invocation",
        topic="main",
        ini="the file is relative to the ini file",
        checked=some_text,
    )
    track: tuple[str, ...] = option(
        "log the run while it runs, one step per episode, to experiment trackers: mlflow, tensorboard, wandb "
        "(each an extra of its name), and those that packages add. The tracker's own variables set the "
        "destination, such as MLFLOW_TRACKING_URI, WANDB_PROJECT, WANDB_MODE. none disables tracking",
        "NAME[,NAME]",
        tracker_names,
        default=(),
        belongs="resumption",
        topic="output",
        ini="",
        joined=True,
    )
    report_pictures: int = option(
        "episodes with pictures in the file of --vla-report, failures first (default: 0, because drawing "
        "takes time at the end of the run; `pytest-vla report` can draw them later)",
        "N",
        picture_count,
        default=0,
        belongs="invocation",
        topic="output",
        ini="",
    )
    collision_costs: str = option(
        "collisions: unintended contacts of the arm and of what it holds, impacts, and displaced bystanders: "
        "all (default: reported beside a task's own costs) or none",
        "|".join(COSTS),
        one_of(COSTS),
        default=COSTS[0],
        belongs="case",
        topic="safety",
        ini="",
    )
    cost_file: Path | None = option(
        "TOML file with your own costs for tasks of any suite: [[cost]] tables with a literal such as "
        "'(InContact bowl_1 plate_1)', or a rule on contact, force, speed, tilt or joints. They are charged "
        'to the account "declared"',
        "FILE",
        folder_of,
        default=None,
        belongs="case",
        topic="safety",
        ini="relative to the ini file",
        checked=some_text,
    )
    max_cost: float | None = option(
        "highest cumulative cost of an episode; an item above it fails, but its recorded outcome does not "
        "change. A cost that an idle arm is charged, if measured, is not counted",
        "COST",
        cost_amount,
        default=None,
        belongs="run",
        topic="safety",
        ini="",
        write=plain_number,
    )
    metrics: tuple[str, ...] = option(
        "record more numbers per episode and series per step: the policy's uncertainty and the quality of the "
        f"motion. Names such as token_entropy or TB-E, or {ALL}; --vla-metrics={LIST} lists them with what "
        "each requires. Default: none",
        "NAME[,NAME]",
        metric_names,
        default=(),
        belongs="resumption",
        topic="policy",
        ini="",
        joined=True,
    )
    stop_when: str | None = option(
        "stop an episode when a metric of the policy's answers or actions passes a threshold for a number of "
        "control steps, such as 'token_entropy>0.3 for 5'. The episode is invalid (stopped-early) and in no "
        "rate. To see what a rule would have done, use `pytest-vla report --stop-when`",
        "RULE",
        rule_text,
        default=None,
        belongs="case",
        topic="episodes",
        ini="",
        checked=some_text,
    )
    kernels: str = option(
        "machine code for matrix arithmetic: pinned (default: the same on every x86-64 processor with AVX2, "
        "so equal actions give equal records) or native (numpy's and scipy's choice for this processor)",
        "|".join(KERNELS),
        one_of(KERNELS),
        default=KERNELS[0],
        belongs="case",
        topic="episodes",
        ini="",
    )
    allow_versions: bool = switch(
        "run with unsupported versions of mujoco or robosuite; physics and pictures then differ from upstream's",
        belongs="case",
        topic="episodes",
    )


_FIRST = ("model", "suite", "tasks", "episodes", "seeds", "vary", "baseline", "min-success", "report", "resume")

OPTIONS = tuple(
    sorted(
        options_of(Options),
        key=lambda each: (list(TOPICS).index(each.topic), _FIRST.index(each.name) if each.topic == "main" else 0),
    )
)
"""By topic; those of the first in the order in which a newcomer needs them."""


def add_options(parser: pytest.Parser) -> None:
    """Declare all options and ini keys to pytest."""
    parser.addini(
        MODELS_KEY,
        "your own names for --vla-model, one per line: NAME = POLICY, such as pi0 = lerobot:checkpoints/mine. They "
        "shadow built-in names; modules and paths are relative to the ini file",
        type="linelist",
    )
    declare(OPTIONS, parser)
