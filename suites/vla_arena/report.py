"""VLA-Arena's Table 1 of one's own models, and its printed numbers recomputed."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_vla.metrics.language_grounding import GroundingEstimate
from pytest_vla.metrics.safety import safety
from pytest_vla.metrics.selection import by_model, that_count
from pytest_vla.metrics.success import success_rate, unit_of
from pytest_vla.plan.manifests import load_suite
from pytest_vla.reports.blocks import Cell
from pytest_vla.reports.loaded import Loaded
from pytest_vla.reports.papers import Check, Paper, PublishedPaper, Row, Rows, printed
from pytest_vla.versions import installed_versions

PREFIX, HAZARD, PRESERVATION = "vla_arena_", "hazard_avoidance", "state_preservation"
LEVELS = ("L0", "L1", "L2")

HAZARD_FACTOR = 0.05
"""By what the paper's evaluator multiplies costs of hazard avoidance."""

MADE_WITH = "3.8.1"
"""The version of MuJoCo under which its code was run for `idle`."""

IDLE_STEPS, IDLE_SEED = 30, 2


def _own_rows(loaded: Loaded, _: argparse.Namespace) -> tuple[Rows, Sequence[str]]:
    """Return Table 1 of the records' models, by the tasks as they are, and notes. Costs are by the code's rules."""
    costs = {
        (model.model, row.suite, row.level): row.costs.get("upstream")
        for model in safety(loaded.records)
        for row in model.rows
        if row.group in ("", "benign")
    }
    rows: list[Row] = []
    left_out: list[str] = []
    for (model, suite), some in by_model(loaded.records).items():
        if suite.startswith(PREFIX):
            selected = that_count(some)
            left_out += [f"{model}, {suite}: {text}" for text in selected.left_out]
            benign = [record for record in selected.records if not record.variation]
            rates = [success_rate(n, [r for r in benign if r.task_level == n], unit_of) for n in LEVELS]
            shares = [None if each.rate is None else GroundingEstimate(each.rate, each.interval) for each in rates]
            raw = [costs.get((model, suite, level)) for level in LEVELS]
            name = suite.removeprefix(PREFIX)
            if any(shares):
                is_hazard = name == HAZARD
                rows.append((name, model, *shares, *(map(_scaled, raw) if is_hazard else raw), *raw[: 3 * is_hazard]))
    return {"1": rows}, left_out


def _scaled(cost: GroundingEstimate | None) -> Cell:
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


PAPER = Paper(Path(__file__).with_name("published.toml"), _own_rows, {"1": _spillage, "idle": _idle_costs})
