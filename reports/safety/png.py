"""The plane of safety and performance, and the curves of cost over an episode."""

from collections.abc import Sequence
from typing import Any

from pytest_vla.metrics.safety import Safety, SafetyRow, pareto
from pytest_vla.reports.figures import new_figure, png_of

PLANE, CURVES = "safety-plane", "safety-curves"
"""Names of the pictures."""

_MARKERS = "os^Dv<>Pp*hX"
_MOST_CURVES = 12


def pictures(found: Sequence[Safety]) -> dict[str, bytes]:
    """PNG by name: the plane, and the curves where anything was charged."""
    drawn = {PLANE: _plane(found)}
    if any(row.curve[-1] > 0 for model in found for row in model.rows):
        drawn[CURVES] = _curves(found)
    return drawn


def _plane(found: Sequence[Safety]) -> bytes:
    """Success rate against mean cumulative cost: a point each model, suite and level, and the line that none beats."""
    figure = new_figure(8.0, 5.5)
    axes = figure.add_subplot()
    points: list[tuple[float, float]] = []
    suites = list(dict.fromkeys(row.suite for model in found for row in model.rows))
    for number, model in enumerate(found):
        for row in model.rows:
            cost, rate = row.costs[row.account].value, row.success.count / row.success.of
            points.append((cost, rate))
            axes.errorbar(
                cost,
                100 * rate,
                xerr=_arms(cost, row.costs[row.account].interval, 1.0),
                yerr=_arms(rate, row.success.interval, 100.0),
                color=f"C{number}",
                marker=_MARKERS[suites.index(row.suite) % len(_MARKERS)],
                alpha=0.85,
                elinewidth=0.6,
            )
            axes.annotate(
                _label(row, len(found) > 1 or len(suites) > 1),
                (cost, 100 * rate),
                fontsize=6,
                alpha=0.8,
                xytext=(4, 3),
                textcoords="offset points",
            )
    front = pareto(points)
    axes.plot(
        [points[index][0] for index in front],
        [100 * points[index][1] for index in front],
        color="0.5",
        linewidth=1,
        linestyle="--",
        label="no other is as cheap and as good",
    )
    for number, model in enumerate(found):
        axes.plot([], [], color=f"C{number}", marker="o", linestyle="", label=model.model)
    axes.set_xlabel(f"mean cumulative cost of an episode ({_account(found)})")
    axes.set_ylabel("success rate, %")
    axes.set_ylim(-3, 103)
    axes.set_xlim(left=min(-0.02 * max((cost for cost, _ in points), default=1.0), -0.05))
    axes.legend(fontsize=7)
    axes.set_title("Success against what it cost; bars: 95% intervals over these tasks")
    return png_of(figure)


def _curves(found: Sequence[Safety]) -> bytes:
    """How cost mounts over an episode, of the rows that cost most."""
    rows = [(model.model, row) for model in found for row in model.rows if row.curve[-1] > 0]
    rows.sort(key=lambda each: -each[1].curve[-1])
    figure = new_figure(8.0, 4.5)
    axes = figure.add_subplot()
    for name, row in rows[:_MOST_CURVES]:
        axes.plot(range(len(row.curve)), row.curve, linewidth=1.2, label=f"{name}, {row.title}")
    axes.set_xlabel("control step")
    axes.set_ylabel(f"mean cumulative cost ({_account(found)})")
    axes.legend(fontsize=6)
    left_out = len(rows) - _MOST_CURVES
    axes.set_title("Cost over an episode" + (f" (the {_MOST_CURVES} dearest of {len(rows)})" if left_out > 0 else ""))
    return png_of(figure)


def _label(row: SafetyRow, several: bool) -> str:
    short = row.suite.removeprefix("vla_arena_") if several else ""
    return " ".join(filter(None, (short, row.level, row.group)))


def _account(found: Sequence[Safety]) -> str:
    return ", ".join(dict.fromkeys(row.account or "own" for model in found for row in model.rows))


def _arms(value: float, interval: tuple[float, float] | None, scale: float) -> Any:
    """How far an error bar reaches down and up."""
    if interval is None:
        return None
    return [[max(value - interval[0], 0.0) * scale], [max(interval[1] - value, 0.0) * scale]]
