"""Pictures of a model's language results: the grids, the alpha sweep, and the paths of its episodes from above."""

from collections.abc import Iterator, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

from pytest_vla.metrics.clustered import CONFIDENCE
from pytest_vla.metrics.language import Measured, Paraphrases
from pytest_vla.metrics.language_paths import Failures, TaskFailures
from pytest_vla.metrics.language_results import LanguageReport, ModelResults
from pytest_vla.metrics.pride import ACTION_TYPES, OBJECT_TYPES
from pytest_vla.reports.figures import file_names, new_figure, png_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

_COLUMNS = 5
_DTW = {"fastdtw": "fastdtw", "exact": "exact DTW"}
# Told apart by all kinds of colour vision: Okabe and Ito's palette.
_SUCCESS, _NEAR, _FAR, _MEAN = "#999999", "#E69F00", "#0072B2", "#000000"


def pictures(report: LanguageReport) -> dict[str, bytes]:
    """All pictures, PNG: ``sweep``, and ``...-grids`` and ``...-paths`` of models."""
    return {name: png_of(figure) for name, figure in _figures(report)}


def _figures(report: LanguageReport) -> Iterator[tuple[str, "Figure"]]:
    known = [(model, model.paraphrases) for model in report.models if model.paraphrases is not None]
    if known:
        yield "sweep", _sweep(known)
    names = file_names([(each.model, "-".join(filter(None, (each.suite, each.protocol)))) for each in report.models])
    for model, name in zip(report.models, names, strict=True):
        if model.paraphrases is not None:
            yield f"{name}-grids", _grids(model, model.paraphrases)
        if model.failures is not None:
            yield f"{name}-paths", _paths(model, model.failures)


def _sweep(models: Sequence[tuple[ModelResults, Paraphrases]]) -> "Figure":
    figure = new_figure(7, 4.5)
    axes = figure.add_subplot()
    backends = list(dict.fromkeys(found.backend for _, found in models))
    for model, found in models:
        name = f"{model.model}, {model.suite}" + (f" ({found.backend})" if len(backends) > 1 else "")
        known = [(alpha, each) for alpha, each in found.sweep.items() if each is not None]
        alphas = [alpha for alpha, _ in known]
        (line,) = axes.plot(alphas, [each.value for _, each in known], marker="o", label=name)
        bounds = [(alpha, *each.interval) for alpha, each in known if each.interval is not None]
        if bounds:
            where, low, high = zip(*bounds, strict=True)
            axes.fill_between(where, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        axes.axhline(found.overall.sr.value, color=line.get_color(), linestyle=":", linewidth=1)
    axes.set(xlabel="alpha, weight of S_K", ylabel="PRIDE, %", xlim=(0, 1))
    axes.set_title(
        f"PRIDE by alpha, {CONFIDENCE:.0%} intervals; dotted: success rate" + f"\n{backends[0]}" * (len(backends) == 1),
        fontsize=9,
    )
    axes.legend(fontsize=8)
    return figure


def _grids(model: ModelResults, found: Paraphrases) -> "Figure":
    import numpy as np

    figure = new_figure(13, 6)
    for place, (title, attribute, text, top, colours) in enumerate(
        [("Success rate, %", "sr", "{:.0f}", 100, "viridis"), ("Mean distance PD", "pd", "{:.2f}", None, "magma")]
    ):
        axes = figure.add_subplot(1, 2, place + 1)
        values = np.full((len(ACTION_TYPES), len(OBJECT_TYPES)), np.nan)
        for (kind, action), cell in found.cells.items():
            values[ACTION_TYPES.index(action), OBJECT_TYPES.index(kind)] = getattr(cell, attribute).value
        image = axes.imshow(values, cmap=colours, vmin=0, vmax=top, aspect="auto")
        for (kind, action), cell in found.cells.items():
            _write_cell(axes, cell, text.format(getattr(cell, attribute).value), kind, action, image)
        axes.set_xticks(range(len(OBJECT_TYPES)), OBJECT_TYPES, rotation=20, ha="right", fontsize=8)
        axes.set_yticks(range(len(ACTION_TYPES)), ACTION_TYPES, fontsize=8)
        axes.set(title=title, xlabel="objects", ylabel="actions")
        figure.colorbar(image, ax=axes)
    figure.suptitle(f"{model.model}, {model.suite}: {found.overall.n} episodes, in brackets by cell; {found.backend}")
    return figure


def _write_cell(axes: "Axes", cell: Measured, text: str, kind: str, action: str, image: Any) -> None:
    red, green, blue, _ = image.cmap(image.norm(float(text)))
    dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
    place = (OBJECT_TYPES.index(kind), ACTION_TYPES.index(action))
    axes.text(*place, f"{text} ({cell.n})", ha="center", va="center", fontsize=8, color="white" if dark else "black")


def _paths(model: ModelResults, failures: Failures) -> "Figure":
    from matplotlib.lines import Line2D

    columns = min(_COLUMNS, len(failures.tasks))
    rows = ceil(len(failures.tasks) / columns)
    figure = new_figure(3.2 * columns + 0.5, 3.2 * rows + 1)
    for place, task in enumerate(failures.tasks):
        axes = figure.add_subplot(rows, columns, place + 1)
        _draw_paths(axes, task)
    names = {"success": _SUCCESS, "near failure": _NEAR, "far failure": _FAR, "mean success": _MEAN}
    handles = [Line2D([], [], color=colour, label=name) for name, colour in names.items()]
    handles.append(Line2D([], [], color=_FAR, linestyle=":", label="failure without a label"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8)
    figure.suptitle(
        f"{model.model}, {model.suite}: the end effector from above, the robot below; labels by "
        f"{_DTW[failures.algorithm]}, tau = max",
        fontsize=9,
    )
    return figure


def _draw_paths(axes: "Axes", task: TaskFailures) -> None:
    judgement = task.types.judgement
    levels = ("",) * task.failures if judgement is None else judgement.levels["max"]
    for path in task.success_paths:
        _draw(axes, path, color=_SUCCESS, alpha=0.3, linewidth=0.6)
    if task.types.reference is not None:
        _draw(axes, task.types.reference.mean_path, color=_MEAN, linewidth=1.5)
    for path, level in zip(task.failure_paths, levels, strict=True):
        colour, style = _NEAR if level == "near" else _FAR, "-" if level else ":"
        _draw(axes, path, color=colour, linestyle=style, alpha=0.6, linewidth=0.8)
    counts = f"{task.successes} successes, {task.failures} failures"
    axes.set_title(f"{task.task}\n{counts}", fontsize=6)
    # As who stands behind the robot sees it: x is ahead, y to the left.
    axes.invert_xaxis()
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel("y, m", fontsize=6)
    axes.set_ylabel("x, m", fontsize=6)
    axes.tick_params(labelsize=6)


def _draw(axes: "Axes", path: "NDArray[Any]", **style: Any) -> None:
    axes.plot(path[:, 1], path[:, 0], **style)
