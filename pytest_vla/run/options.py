"""Every ``--vla-*`` option and ini key, declared once: here, those of searches in `fuzz_options`, of runs on many
machines or that time may end in `scale_options`, and of gates in `gate_options`; these come last in help and in the
reference: a policy and what it runs on are read first.

What pytest is told, what `Settings` have, what a resumed run keeps, and the reference page: all is made from this
table. A new option is one attribute more, and whatever is to heed it.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_vla.kernels import KERNELS
from pytest_vla.plan.choices import COSTS, PREMISES, TEXTURES
from pytest_vla.plan.labels import PROTOCOLS
from pytest_vla.policies.choices import AUTO, DEFAULT_BATCH, REQUEST_TIMEOUT
from pytest_vla.records.names import DEFAULT_RESULTS, LAST_RUN
from pytest_vla.run.about import ALL, LIST, MODELS_KEY
from pytest_vla.run.arguments import (
    comma_list,
    cost_amount,
    cpu_count,
    device_list,
    dimension_list,
    episode_count,
    first_seeds,
    folder_of,
    hours_of,
    level_list,
    metric_names,
    min_success,
    min_success_text,
    one_of,
    one_seed,
    picture_count,
    plain_number,
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
    some_text,
    step_count,
    tracker_names,
    variation_labels,
)
from pytest_vla.run.gate_options import GateOptions
from pytest_vla.run.option import declare, option, options_of, switch

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
