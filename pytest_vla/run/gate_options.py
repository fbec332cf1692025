"""The options of gates: what a run is compared with, and how. `options` has them among all others."""

from dataclasses import dataclass
from pathlib import Path

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
from pytest_vla.run.arguments import (
    file_list,
    folder_of,
    gate_labels,
    gate_measures,
    one_of,
    plain_number,
    points_of_success,
    share_of_runs,
    some_text,
)
from pytest_vla.run.option import option


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
