"""Drawings of a metric's values by outcome: failures above the line, successes below it; and both over time."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from pytest_vla.reports.html.svg import LINE, TEXT, drawing, framed
from pytest_vla.reports.html.written import NONE, number_text

Found = Mapping[str, Any]

_WIDTH, _HEIGHT = 300, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 10, 290, 38, 164
_AXIS = 46
_AREA = Markup('<path class="{kind}" d="{way}"/>')
_SIDES = (("failures", "failed"), ("successes", "done"))


def distributions(each: Found, below: str) -> Markup:
    """The values of one metric: of failures upwards, of successes downwards, each as shares of its own number.

    Args:
        each: of `pytest_vla.reports.foretelling.separation_table`.
        below: a line below the title.
    """
    middle, half = (_TOP + _BOTTOM) / 2, (_BOTTOM - _TOP) / 2 - 8
    shares = {name: [count / max(sum(each[name]["counts"]), 1) for count in each[name]["counts"]] for name, _ in _SIDES}
    most = max(max(some) for some in shares.values()) or 1.0
    span = each["high"] - each["low"]
    inside = framed(each["metric"], below)
    told = []
    for (name, kind), sign in zip(_SIDES, (-1, 1), strict=True):
        width, scale = (_RIGHT - _LEFT) / len(shares[name]), sign * half / most
        bars = [(_LEFT + width * place, scale * share) for place, share in enumerate(shares[name]) if share]
        way = "".join(f"M{x:.1f} {middle:.1f}h{width - 0.6:.1f}v{tall:.1f}h{0.6 - width:.1f}z" for x, tall in bars)
        inside += _AREA.format(kind=f"bins {kind}", way=way)
        number, median = sum(each[name]["counts"]), each[name]["median"]
        if median is not None:
            x = _LEFT + (_RIGHT - _LEFT) * min(max((median - each["low"]) / span, 0), 1)
            inside += LINE.format(kind=f"median {kind}", x1=x, y1=middle, x2=x, y2=middle + sign * (half + 5))
        y = middle + sign * (half + 6) + (4 if sign < 0 else 6)
        inside += TEXT.format(kind="tick", x=_LEFT, y=y, anchor="start", text=f"{number} {name}")
        told.append(f"{number} {name}, median {number_text(median)}")
    inside += LINE.format(kind="axis", x1=_LEFT, y1=middle, x2=_RIGHT, y2=middle)
    for value, x, anchor in ((each["low"], _LEFT, "start"), (each["high"], _RIGHT, "end")):
        inside += TEXT.format(kind="tick", x=x, y=_HEIGHT - 6, anchor=anchor, text=f"{value:.3g}")
    said = f"{each['metric']} by outcome, {each['low']:.3g} to {each['high']:.3g}: {'; '.join(told)}"
    return drawing("chart", _WIDTH, _HEIGHT, said, inside)


def courses(each: Found) -> Markup | None:
    """One metric over time: medians, and bands of the middle half; None: no part has enough episodes."""
    known = [ends for name, _ in _SIDES for ends in each[name]["quartiles"] if ends is not None]
    if not known:
        return None
    low, high = min(ends[0] for ends in known), max(ends[2] for ends in known)
    span = high - low or 1.0
    inside = framed(f"{each['metric']} over time", "")
    for share in (0.0, 1.0):
        y = _BOTTOM - (_BOTTOM - _TOP) * share
        inside += LINE.format(kind="grid", x1=_AXIS, y1=y, x2=_RIGHT, y2=y)
        inside += TEXT.format(kind="tick", x=_AXIS - 4, y=y + 4, anchor="end", text=f"{low + span * share:.3g}")
    parts = len(each["failures"]["quartiles"])
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        x = _AXIS + (_RIGHT - _AXIS) * share
        text = f"{share:.0%}" + " of the steps" * (share == 1)
        inside += TEXT.format(kind="tick", x=x, y=_HEIGHT - 6, anchor=anchor, text=text)
    told = []
    for name, kind in _SIDES:
        points = [
            (
                _AXIS + (_RIGHT - _AXIS) * (place + 0.5) / parts,
                *(_BOTTOM - (_BOTTOM - _TOP) * (end - low) / span for end in ends),
            )
            for place, ends in enumerate(each[name]["quartiles"])
            if ends is not None
        ]
        if not points:
            continue
        inside += _AREA.format(kind=f"band {kind}", way=_band(points))
        inside += _AREA.format(kind=f"trend {kind}", way=_line([(x, y) for x, _, y, _ in points]))
        medians = [ends[1] for ends in each[name]["quartiles"] if ends is not None]
        told.append(f"{name} from {medians[0]:.3g} to {medians[-1]:.3g}, {100 * len(medians) // parts}% of the time")
    inside += _legend()
    said = f"{each['metric']} over time: {'; '.join(told) or NONE}"
    return drawing("chart", _WIDTH, _HEIGHT, said, inside)


def _legend() -> Markup:
    inside = Markup()
    for (name, kind), x in zip(_SIDES, (8, 100), strict=True):
        inside += LINE.format(kind=f"trend {kind}", x1=x, y1=23, x2=x + 22, y2=23)
        inside += TEXT.format(kind="tick", x=x + 26, y=27, anchor="start", text=name)
    return inside


def _line(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _band(points: Sequence[tuple[float, ...]]) -> str:
    there = [(x, first) for x, first, _, _ in points]
    back = [(x, third) for x, _, _, third in reversed(points)]
    return f"{_line([*there, *back])}z"
