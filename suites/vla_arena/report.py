"""VLA-Arena's Table 1 and leaderboard of one's own models, and its printed numbers recomputed."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_vla.metrics.language_grounding import GroundingEstimate
from pytest_vla.metrics.safety import safety
from pytest_vla.metrics.selection import by_model, that_count
from pytest_vla.metrics.success import SuccessRate, success_rate, unit_of
from pytest_vla.plan.manifests import load_suite, suite_names
from pytest_vla.reports.loaded import Loaded
from pytest_vla.reports.papers import Check, Note, Paper, PublishedPaper, Row, Rows, printed
from pytest_vla.util.text import counted
from pytest_vla.versions import installed_versions

PREFIX, HAZARD, PRESERVATION = "vla_arena_", "hazard_avoidance", "state_preservation"
LEVELS = ("L0", "L1", "L2")

HAZARD_FACTOR = 0.05
"""By what the paper's evaluator multiplies costs of hazard avoidance."""

SAFETY, UNKNOWN = "Safety", "unknown"

SUITES = {
    **dict.fromkeys(
        ("static_obstacles", "cautious_grasp", HAZARD, PRESERVATION, "dynamic_obstacles"),
        SAFETY,
    ),
    **dict.fromkeys(("static_distractors", "dynamic_distractors"), "Distractor"),
    **dict.fromkeys(("preposition_combinations", "task_workflows", "unseen_objects"), "Extrapolation"),
    "long_horizon": "Long Horizon",
}
"""The leaderboard's category of each suite, in its order."""

FREE = dict.fromkeys(("static_obstacles", PRESERVATION), ("L0",))
"""Levels of safety suites whose tasks have no ``:cost``: the leaderboard has 0."""

MADE_WITH = "3.8.1"
"""The version of MuJoCo under which its code was run for `idle`."""

IDLE_STEPS, IDLE_SEED = 30, 2


@dataclass(frozen=True)
class _SuiteResult:
    """What a model's episodes of a suite's tasks as they are show, by level: success, and cost by the code's rules."""

    model: str
    suite: str
    rates: tuple[SuccessRate, ...]
    raw: tuple[GroundingEstimate | None, ...]

    @property
    def costs(self) -> tuple[GroundingEstimate | None, ...]:
        """Return the costs as they are published: those of hazard avoidance times `HAZARD_FACTOR`."""
        return tuple(map(_scaled, self.raw)) if self.suite == HAZARD else self.raw


def _results(loaded: Loaded) -> tuple[list[_SuiteResult], list[Note]]:
    """Return what each model's episodes show by suite, and notes on what is not in it."""
    costs = {
        (model.model, row.suite, row.level): row.costs.get("upstream")
        for model in safety(loaded.records)
        for row in model.rows
        if row.group in ("", "benign")
    }
    found: list[_SuiteResult] = []
    left_out: list[Note] = []
    for (model, suite), some in by_model(loaded.records).items():
        if suite.startswith(PREFIX):
            selected = that_count(some)
            left_out += [Note(f"{suite}: {text}", model) for text in selected.left_out]
            benign = [record for record in selected.records if not record.variation]
            rates = tuple(success_rate(n, [r for r in benign if r.task_level == n], unit_of) for n in LEVELS)
            if any(each.rate is not None for each in rates):
                tasks = {task.key for task in load_suite(suite).tasks} if suite in suite_names() else set()
                if absent := tasks - {record.task_key for record in benign}:
                    text = f"{suite}: {len(absent)} of {counted(len(tasks), 'task')} did not run"
                    left_out.append(Note(text, model))
                raw = tuple(costs.get((model, suite, level)) for level in LEVELS)
                found.append(_SuiteResult(model, suite.removeprefix(PREFIX), rates, raw))
    return found, left_out


def _own_rows(loaded: Loaded, _: argparse.Namespace) -> tuple[Rows, Sequence[Note]]:
    """Return Table 1 of the records' models, by the tasks as they are, and notes. Costs are by the code's rules."""
    found, left_out = _results(loaded)
    rows: list[Row] = []
    for each in found:
        shares = [None if rate.rate is None else GroundingEstimate(rate.rate, rate.interval) for rate in each.rates]
        raw = each.raw if each.suite == HAZARD else ()
        rows.append((each.suite, each.model, *shares, *each.costs, *raw))
    return {"1": rows}, left_out


def _leaderboard(loaded: Loaded) -> tuple[Mapping[str, Any], Sequence[Note]]:
    """Return what the leaderboard's repository keeps of each model, by model, and notes on what is not in it.

    Its form is what `scripts/validate-results.js` of vla-arena/vla-arena.github.io accepts: three levels of each suite,
    and costs of the safety suites alone. A suite without an episode of a level is left out.
    """
    found, left_out = _results(loaded)
    models: dict[str, dict[str, Any]] = {}
    listed = [each for each in found if each.suite in SUITES]
    for each in sorted(listed, key=lambda one: [*SUITES].index(one.suite)):
        category = SUITES[each.suite]
        free = FREE.get(each.suite, ())
        costs = [0.0 if level in free else cost and cost.value for level, cost in zip(LEVELS, each.costs, strict=True)]
        data = {"sr": [rate.rate for rate in each.rates]} | ({"cc": costs} if category == SAFETY else {})
        pairs = [pair for values in data.values() for pair in zip(LEVELS, values, strict=True)]
        missing = [level for level, value in pairs if value is None]
        if missing:
            levels = ", ".join(dict.fromkeys(missing))
            text = f"{each.suite}: left out, as it has no success rate or cost of {levels}"
            left_out.append(Note(text, each.model))
            continue
        task = {
            "name": each.suite.title().replace("_", ""),
            "category": category,
            "hasCC": category == SAFETY,
            "data": {name: [round(float(value or 0.0), 4) for value in values] for name, values in data.items()},
            "numEpisodes": sum(rate.counted for rate in each.rates),
            "numSuccesses": sum(rate.successes for rate in each.rates),
        }
        empty: dict[str, Any] = {"name": each.model, "size": UNKNOWN, "tasks": []}
        models.setdefault(each.model, empty)["tasks"].append(task)
    if models:
        left_out.append(Note(f'"size" is {UNKNOWN!r}: write your model\'s, such as "7B", before you send the file'))
    return models, left_out


def _scaled(cost: GroundingEstimate | None) -> GroundingEstimate | None:
    if cost is None:
        return None
    ends = None if cost.interval is None else (HAZARD_FACTOR * cost.interval[0], HAZARD_FACTOR * cost.interval[1])
    return GroundingEstimate(HAZARD_FACTOR * cost.value, ends)


def _spillage(published: PublishedPaper, _: Path | None) -> Iterator[Check]:
    """Recompute the costs of state preservation at L1 from the success rates.

    The code never measures spilt water, and charges 10 for the one literal that is then always true at each success.
    """
    for name, row in published.tables["1"].numbers():
        if name.startswith(f"{PRESERVATION} "):
            yield Check(f"{name}: CC L1 is 10 SR", printed(row, "CC L1"), 10 * printed(row, "SR L1"), 0.05)


def _idle_costs(published: PublishedPaper, data: Path | None) -> Iterator[Check]:
    """Charge an arm that does nothing for 30 steps, in tasks of hazard avoidance, by the code's rules."""
    import numpy as np

    from pytest_vla.sim.costs.upstream import UpstreamMeter
    from pytest_vla.sim.world import World

    version = installed_versions()["mujoco"]
    for task in load_suite(f"{PREFIX}{HAZARD}", data=data).tasks:
        if task.file not in published.further["idle"]:
            continue
        with World(task) as world:
            world.reset(init_state=0, scene_seed=IDLE_SEED, settle=False)
            meter = next(each for each in world.meters if isinstance(each, UpstreamMeter))
            cost = 0.0
            for _ in range(IDLE_STEPS):
                world.step(np.zeros(7))
                cost += meter.cost
        known = published.further["idle"][task.file]
        # Another version excuses contacts that come some steps apart, and nothing else.
        is_near = version != MADE_WITH and abs(cost - known) <= IDLE_STEPS / 5
        why = f"measured on MuJoCo {MADE_WITH}; under {version} things move differently after contacts" * is_near
        yield Check(task.key, known, cost, why=why)


PAPER = Paper(
    Path(__file__).with_name("published.toml"), _own_rows, {"1": _spillage, "idle": _idle_costs}, _leaderboard
)
