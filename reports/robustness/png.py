"""Pictures of a model's success under variations: curves by level, and a grid of pairs of dimensions."""

from collections.abc import Iterator, Sequence
from math import ceil
from typing import TYPE_CHECKING

from pytest_vla.metrics.clustered import CONFIDENCE, THESE_TASKS
from pytest_vla.metrics.composition import Composition
from pytest_vla.metrics.robustness import FEWEST_PAIRS
from pytest_vla.metrics.robustness_curves import Curve
from pytest_vla.metrics.robustness_results import ModelRobustness
from pytest_vla.reports.figures import file_names, new_figure, png_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = 4
# Told apart by all kinds of colour vision: Okabe and Ito's palette.
_CURVE, _BENIGN = "#0072B2", "#999999"


def pictures(models: Sequence[ModelRobustness]) -> dict[str, bytes]:
    """All pictures, PNG: of each model ``...-robustness``, its curves, and ``...-pairs``."""
    return {name: png_of(figure) for name, figure in _figures(models)}


def _figures(models: Sequence[ModelRobustness]) -> Iterator[tuple[str, "Figure"]]:
    names = file_names([(each.model, "-".join(filter(None, (each.suite, each.protocol)))) for each in models])
    for found, name in zip(models, names, strict=True):
        curves = [
            curve
            for curve in found.curves
            if any(rate.counted >= FEWEST_PAIRS for level, rate in curve.points if level)
        ]
        if curves:
            yield f"{name}-robustness", _curves(found, curves)
        if found.pairs:
            yield f"{name}-pairs", _pairs(found, found.pairs)


def _curves(found: ModelRobustness, curves: Sequence[Curve]) -> "Figure":
    columns = min(_COLUMNS, len(curves))
    rows = ceil(len(curves) / columns)
    figure = new_figure(3.4 * columns + 0.6, 2.8 * rows + 0.8)
    last = max(level for curve in curves for level, _ in curve.points)
    for place, curve in enumerate(curves):
        axes = figure.add_subplot(rows, columns, place + 1)
        _draw(axes, curve)
        axes.set(xlim=(-0.2, last + 0.2), ylim=(-3, 103), xticks=range(last + 1))
        axes.set_xticklabels(["benign", *(f"L{level}" for level in range(1, last + 1))], fontsize=7)
        axes.tick_params(axis="y", labelsize=7)
        if place % columns == 0:
            axes.set_ylabel("success, %", fontsize=8)
    harm = found.harm
    worst = "" if harm is None or harm.why else f"; most harmful: {harm.dimension}"
    suite = f"{found.suite} {found.protocol}".rstrip()
    figure.suptitle(
        f"{found.model}, {suite}: success by level, {CONFIDENCE:.0%} intervals over {THESE_TASKS}{worst}", fontsize=9
    )
    return figure


def curve_title(curve: Curve) -> tuple[str, str]:
    """What stands over a curve: its dimension, and what is known of where it halves, by name where that is nothing."""
    level, why = curve.halving.level, curve.halving.why
    return curve.dimension, f"half of benign success: {why if level is None else f'at L{level:.1f}'}"


def _draw(axes: "Axes", curve: Curve) -> None:
    # Of a few episodes there is no rate, and no point.
    measured = [(level, rate) for level, rate in curve.points if rate.counted >= FEWEST_PAIRS]
    known = [(level, rate.rate, rate.interval) for level, rate in measured if rate.rate is not None]
    levels, values = [level for level, _, _ in known], [100 * rate for _, rate, _ in known]
    bounds = [
        (value, 100 * interval[0], 100 * interval[1])
        for value, (_, _, interval) in zip(values, known, strict=True)
        if interval is not None
    ]
    errors = [[value - low for value, low, _ in bounds], [high - value for value, _, high in bounds]]
    axes.errorbar(levels, values, yerr=errors, color=_CURVE, marker="o", markersize=4, linewidth=1.5, capsize=2)
    if levels[0] == 0:
        axes.axhline(values[0] / 2, color=_BENIGN, linestyle=":", linewidth=1)
    halving = curve.halving
    if halving.level is not None and halving.interval is not None:
        axes.axvline(halving.level, color=_BENIGN, linestyle=":", linewidth=1)
        axes.axvspan(*halving.interval, color=_BENIGN, alpha=0.15, linewidth=0)
    axes.set_title("\n".join(curve_title(curve)), fontsize=8)


def _pairs(found: ModelRobustness, pairs: Sequence[Composition]) -> "Figure":
    """Above the diagonal the joint success that independence lets expect, below it the measured one."""
    import numpy as np

    names = sorted({name for pair in pairs for name in pair.dimensions})
    values = np.full((len(names), len(names)), np.nan)
    texts = {}
    for pair in pairs:
        row, column = (names.index(name) for name in pair.dimensions)
        joint = 100 * pair.rates[3]
        star = "*" * (pair.verdict != "not determined")
        values[column, row], texts[column, row] = joint, f"{joint:.0f}{star}\n(n={pair.n})"
        texts[row, column] = "-"
        if pair.expected is not None:
            # Beyond 100 where the singles did better than the benign twins.
            values[row, column], texts[row, column] = min(100 * pair.expected, 100), f"{100 * pair.expected:.0f}"
    size = 1.1 * len(names) + 2.2
    figure = new_figure(max(size, 6), max(size - 0.8, 4.5))
    axes = figure.add_subplot()
    image = axes.imshow(values, cmap="viridis", vmin=0, vmax=100)
    for (row, column), text in texts.items():
        dark = values[row, column] < 50
        axes.text(column, row, text, ha="center", va="center", fontsize=8, color="white" if dark else "black")
    axes.set_xticks(range(len(names)), names, rotation=20, ha="right", fontsize=8)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    figure.colorbar(image, ax=axes, label="success, %")
    axes.set_title(
        f"{found.model}, {found.suite}: two dimensions at once\nbelow the diagonal measured, above it expected of "
        "independent ones; *: the interval of the gap excludes 0",
        fontsize=8,
    )
    return figure
