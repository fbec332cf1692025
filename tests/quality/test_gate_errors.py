"""How often the gate errs: simulated policies whose difference is known, by the functions that verdicts rest on.

`benchmarks/gate.py` simulates, and prints what it finds; here the promise is held: at most alpha, with three standard
errors of so many runs for luck.
"""

import importlib.util
import re
import subprocess
import sys
from math import sqrt
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pytest_vla.gate.score import unpaired_p
from pytest_vla.gate.wealth import running_p
from pytest_vla.metrics.clustered import Unit

RUNS = 10_000
CLAIMS = ("regression", "no worse", "better")


def most(runs: int) -> float:
    return 0.05 + 3 * sqrt(0.05 * 0.95 / runs)


def load() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "gate.py"
    spec = importlib.util.spec_from_file_location("gate_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gate_benchmark"] = module
    spec.loader.exec_module(module)
    return module


gate = load()


def test_a_quick_look() -> None:
    """Each claim of three designs, in 2,000 runs; the slow tests take five times as many, and more designs."""
    for design in (gate.Design(10, 10, discordance=0.1), gate.Design(2, 25, discordance=0.4, effect=0.15)):
        for claim in CLAIMS:
            fixed, ever = gate.errors(design, claim, 2000)
            assert max(fixed, ever) <= most(2000), (design, claim)
    fixed, ever = gate.errors(gate.Design(2, 8, kinds=3, discordance=0.3, alike=0.7), "regression", 1000)
    assert max(fixed, ever) <= most(1000)


def test_a_loss_of_just_the_margin_is_no_regression() -> None:
    """Of single pairs and of units of four, at the end and at any time."""
    for design in (gate.Design(10, 10, discordance=0.1), gate.Design(10, 10, kinds=4, discordance=0.2, alike=0.5)):
        pairs = gate.draw(design, -gate.MARGIN, 1000, np.random.default_rng(4))
        sums = pairs.reshape(len(pairs), -1, design.kinds).sum(-1)
        fixed = float((gate.change_of(sums, design.kinds, beyond=gate.MARGIN) <= 0.05).mean())
        ever = float((running_p(pairs.mean(axis=-1), "regression", gate.MARGIN)[:, -1] <= 0.05).mean())
        assert max(fixed, ever) <= most(1000), design
        assert float((gate.change_of(sums, design.kinds) <= 0.05).mean()) > 2 * fixed, "any loss is found more often"


def test_what_is_true_is_found() -> None:
    """Errors that are rare because nothing is ever said would be worth nothing."""
    design = gate.Design(10, 20, discordance=0.2)
    worse = gate.power(design, -0.1, "regression", 500)
    assert worse.fixed > 0.8
    assert worse.sequential > 0.6
    assert worse.pairs < 0.8 * worse.of
    assert gate.power(design, 0.1, "better", 500).fixed > 0.8
    alike = gate.power(gate.Design(10, 30, discordance=0.06), 0.0, "no worse", 500)
    assert alike.fixed > 0.85
    assert alike.sequential > 0.75
    assert alike.pairs < 0.8 * alike.of


@pytest.mark.parametrize("margin", [0.02, 0.05, 0.1, 0.3])
def test_the_paired_bound_never_errs_more_often(margin: float) -> None:
    """Exactly, over all tables of single pairs: no worse at the margin, and a loss beyond it."""
    for n in (10, 23, 52, 105):
        for discordance in (margin, margin + 0.03, 0.4, 0.6):
            found = gate.single_errors(n, margin, discordance)
            assert max(found) <= 0.05, (n, discordance)
    assert gate.single_errors(105, margin, 0.4)[1] > 0.01


def test_starts_of_several_pairs_in_short() -> None:
    """False claims of few starts and of many, and what they find; the slow test takes all shapes."""
    few, many = gate.start_errors(10, 25, 400), gate.start_errors(30, 5, 400)
    now, flips, beyond = range(3)
    assert max(few.equal[now], few.small[now], few.no_worse, many.rare[now], many.no_worse) <= most(400)
    assert min(few.rare[flips], many.rare[flips]) > 0.1, "the plain flip test errs more often"
    found = gate.start_power(10, 25, 0.9, 0.7, 400)
    assert found[now] > 0.8
    assert found[beyond] > 0.25, "a loss beyond the margin"
    assert gate.start_power(5, 20, 1.0, 0.0, 50) == (1.0, 1.0, 1.0), "the loss of everything was passed"


@pytest.mark.slow
@pytest.mark.parametrize("starts", gate.STARTS)
def test_starts_of_several_pairs(starts: int) -> None:
    """As ``benchmarks/gate.py --quick --only starts`` prints it: at most alpha, but where the page says otherwise.

    The largest of many designs is looked at, so that luck is allowed for once more.
    """
    for size in gate.PAIRS:
        found = gate.start_errors(starts, size, 500)
        print(f"{starts} x {size}: {found}")
        assert max(found.equal[0], found.no_worse) <= most(500)
        assert found.small[0] <= most(500) + 0.01
        assert found.rare[0] <= (most(500) + 0.01 if starts >= 20 or size <= 5 else 0.35)
        assert found.rare[0] <= found.rare[1] + 1e-9, "the test that flips signs"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        pytest.param(
            "gate",
            [r" +10 x +25 .* / .*", "False regressions against a kept baseline", r" 0\.20 regression"],
            marks=pytest.mark.study,
        ),
        (
            "intervals",
            [r"copies, each taken for one +1 x 20 starts x 10 copies +0\.[3-7]", "called a difference at 5%"],
        ),
    ],
)
def test_the_simulations_print_their_tables(name: str, shown: list[str]) -> None:
    """As ``python benchmarks/NAME.py --quick``."""
    file = Path(__file__).parents[2] / "benchmarks" / f"{name}.py"
    ended = subprocess.run([sys.executable, str(file), "--quick"], capture_output=True, text=True)
    print(ended.stdout)
    assert ended.returncode == 0, ended.stderr
    assert [each for each in shown if not re.search(each, ended.stdout)] == []


@pytest.mark.slow
@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("design", gate.DESIGNS, ids=str)
def test_no_claim_is_made_too_often(design: object, claim: str) -> None:
    fixed, ever = gate.errors(design, claim, RUNS)
    print(f"{design}, {claim}: {fixed:.4f} at the end, {ever:.4f} ever")
    assert max(fixed, ever) <= most(RUNS)


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "shared"), [(2, 0.0), (5, 0.5), (20, 0.0)])
def test_none_of_several_groups_is_called_worse_too_often(groups: int, shared: float) -> None:
    fixed, ever = gate.familywise(groups, RUNS, shared=shared)
    print(f"{groups} groups, {shared:.0%} in common: {fixed:.4f} at the end, {ever:.4f} ever")
    assert 0 < max(fixed, ever) <= most(RUNS)


@pytest.mark.slow
@pytest.mark.parametrize("mean", [0.0, -0.05, -0.2])
@pytest.mark.parametrize("design", gate.DESIGNS, ids=str)
def test_the_paired_interval_holds_its_mean(design: Any, mean: float) -> None:
    # Where units hold several pairs hardly two runs are alike, and each takes its own bounds: 20 ms.
    held, width = gate.coverage(design, mean, RUNS if design.kinds == 1 else RUNS // 25)
    print(f"{design}, {mean}: held {held:.4f}, mean width {width:.3f}")
    assert held >= (0.94 if design.kinds == 1 else 0.93)


@pytest.mark.slow
@pytest.mark.parametrize("sides", gate.SIDES, ids=str)
def test_unpaired_claims_are_not_made_too_often(sides: object) -> None:
    no_worse, *worse = gate.unpaired_errors(sides, RUNS)
    print(f"{sides}: no worse {no_worse:.4f}, worse by both tests and the exact one {worse}")
    assert no_worse <= most(RUNS)
    assert not worse or worse[0] <= most(RUNS)


@pytest.mark.slow
def test_unpaired_units_of_several_episodes() -> None:
    """Four tasks, 6 units of one policy and 12 of the other, of three episodes that are alike in half of the units."""
    generator, runs, wrong = np.random.default_rng(5), 4000, 0
    rates = np.array([0.95, 0.5, 0.8, 0.1])
    sides = []
    for number, drop in ((6, 0.05), (12, 0.0)):
        lot = generator.random((runs, 4, number, 3))
        alike = generator.random((runs, 4, number)) < 0.5
        lot[alike] = lot[alike][:, :1]
        done = (lot < (rates - drop)[:, None, None]).reshape(runs, -1).astype(int).tolist()
        units: list[Unit] = [(f"task {t}", (number, s)) for t in range(4) for s in range(number) for _ in range(3)]
        sides.append((done, units))
    (new, new_units), (baseline, baseline_units) = sides
    for ours, theirs in zip(new, baseline, strict=True):
        wrong += unpaired_p(ours, new_units, theirs, baseline_units, 0.05) <= 0.05
    print(f"no worse: {wrong / runs:.4f}")
    assert wrong / runs <= most(runs)
