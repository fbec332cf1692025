"""Every ``--vla-*`` option and ini key, declared once; `Settings` has their values."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_vla.kernels import KERNELS
from pytest_vla.plan.choices import PREMISES, TEXTURES
from pytest_vla.plan.labels import PROTOCOLS
from pytest_vla.policies.choices import REQUEST_TIMEOUT
from pytest_vla.records.names import DEFAULT_RESULTS, LAST_RUN
from pytest_vla.run.about import LIST, MODELS_KEY
from pytest_vla.run.arguments import (
    Joined,
    comma_list,
    device_list,
    episode_count,
    min_success,
    one_of,
    one_seed,
    question_count,
    seconds_of,
    seed_list,
    some_text,
    step_count,
)

VIDEOS = ("none", "failed", "all")
TWINS = ("none", "auto")
DEFAULT_BATCH = 32


@dataclass(frozen=True)
class Option:
    """One ``--vla-NAME``; with `ini`, the help of an ini key ``vla_NAME`` beside it.

    No `metavar`: a switch. `bare` is what the option means where it is given without a value. `joined`: several of them
    mean all; of any other option the last stands.
    """

    name: str
    help: str
    metavar: str | None = None
    parse: Callable[[str], Any] = str
    ini: str | None = None
    bare: str | None = None
    joined: bool = False

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return f"--vla-{self.name}"

    @property
    def key(self) -> str:
        """The ini key, and the name in pytest's options."""
        return f"vla_{self.name.replace('-', '_')}"


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
        joined=True,
    ),
    Option(
        "tasks",
        "only these tasks: names, parts of names, or patterns with * and ?",
        "TASK[,TASK]",
        comma_list,
        joined=True,
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
        joined=True,
    ),
    Option(
        "protocol",
        "where we, a benchmark's paper and its code differ: ours (default), which is the paper's but for words that "
        "would make another task of it; paper, with VLA-Arena's words as published (language.words); upstream, of "
        "suites that are varied by themselves, such as libero_plus_goal, the code with its bugs",
        "|".join(PROTOCOLS),
        one_of(PROTOCOLS),
        ini="as --vla-protocol, where that is not given",
    ),
    Option(
        "sample",
        "of each suite only N episodes, drawn by --vla-run-seed: evenly over dimensions of variation, then kinds, "
        "levels and tasks (over tasks where nothing is varied); a smaller sample is part of a larger one",
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
        f"folder for records: one results.sqlite for all runs, and a folder a run (default: {DEFAULT_RESULTS} in "
        "the rootdir)",
        "DIR",
        some_text,
        ini="folder for records, relative to the ini file",
    ),
    Option(
        "premises",
        "what tasks take for granted, such as a bowl on a ramekin, which some versions of mujoco let slip: check "
        "(default), episodes without it are in no rate (invalid, premise-broken); or ignore",
        "|".join(PREMISES),
        one_of(PREMISES),
        ini="as --vla-premises, where that is not given",
    ),
    Option(
        "textures",
        "how textures are drawn: trained (default), as published checkpoints saw them, or installed, as the installed "
        "mujoco draws them, which is darker from 3.3.3 on",
        "|".join(TEXTURES),
        one_of(TEXTURES),
        ini="as --vla-textures, where that is not given",
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
        "success rate that each suite has to reach, such as 0.8 or 80%%, or 0.8:lower, the lower end of its 95%% "
        "interval; failed episodes of suites then do not fail the run by themselves",
        "RATE[:lower]",
        min_success,
        ini="success rate that each suite of a run has to reach, where --vla-min-success is not given",
    ),
    Option(
        "kernels",
        "machine code for matrices: pinned (default), the same on every x86-64 processor with AVX2, so that equal "
        "actions give equal records; or native, what numpy and scipy choose for this one",
        "|".join(KERNELS),
        one_of(KERNELS),
        ini="as --vla-kernels, where that is not given",
    ),
    Option(
        "allow-versions",
        "run with another mujoco or robosuite than the supported ones: physics and pictures are then not upstream's",
    ),
)


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
            if option.joined:
                value |= {"action": Joined}
            if option.bare is not None:
                value |= {"nargs": "?", "const": option.bare}
            group.addoption(option.flag, dest=option.key, help=option.help, **value)
        if option.ini is not None:
            parser.addini(option.key, option.ini, default="")
