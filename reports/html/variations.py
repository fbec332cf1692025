"""Robustness as a part of a page: curves by level beside benign twins, and tables. From the report's JSON."""

from collections.abc import Iterator, Mapping
from typing import Any

from markupsafe import Markup

from pytest_vla.reports.html.parts import Block, Table
from pytest_vla.reports.html.svg import Dot, curve
from pytest_vla.reports.html.written import NONE, number_text, p_text, percent_text, points_text, reasons_of

Found = Mapping[str, Any]


def robustness_blocks(title: str, found: Found) -> Iterator[Block]:
    """Of a model and suite.

    Args:
        title: names them.
        found: of `pytest_vla.reports.robustness.json.robustness_table`.
    """
    rows = tuple(map(_dimension_row, found["curves"]))
    by_dimension = Table(
        "By dimension; in brackets 95% intervals over these tasks; change against benign twins",
        (
            *("dimension", "episodes", "success, %", "benign twins, %", "change, points", "tasks like these"),
            *("adj. p", "lost", "gained", "half of success"),
        ),
        rows,
        left=frozenset({9}),
    )
    how = (_failures_table(found),) if any(map(_labelled, found["failures"])) else ()
    yield Block(
        title,
        texts=(_harm_text(found["most_harmful"]),),
        drawings=tuple(filter(None, map(_curve, found["curves"]))),
        tables=(*((by_dimension,) if rows else ()), *how),
        notes=tuple(found["left_out"]),
    )
    if found["dimensions"]:
        by_kind = Table(
            "By kind and level; few: too few episodes for a rate",
            (
                *("variation", "level", "episodes", "success, %", "benign twins, %", "change, points", "adj. p"),
                "not in the rate",
            ),
            tuple(map(_cell_row, found["dimensions"])),
            2,
            frozenset({7}),
        )
        yield Block(f"{title}: every kind and level", tables=(by_kind,), is_open=not rows)
    if found["pairs"]:
        at_once = Table(
            "Two dimensions at once; expected: if they were independent; gap: a covariance, -1/4 to 1/4",
            ("two at once", "pairs", "each alone, %", "both, %", "expected, %", "gap", "verdict", "adj. p"),
            tuple(map(_pair_row, found["pairs"])),
            left=frozenset({6}),
        )
        yield Block(f"{title}: two dimensions at once", tables=(at_once,))


def _labelled(failures: Found) -> int:
    """How many of a dimension's failures have a path."""
    return int(failures["near"] + failures["far"] + failures["unlabelled"])


def _failures_table(found: Found) -> Table:
    return Table(
        "How it failed: near the path of successes, or far from it (LIBERO-Para's Algorithm 1, "
        f"{found['failure_algorithm']} DTW); no label: too few successes of the task",
        ("dimension", "failures", "near", "far", "of these on another task's path", "no label", "no path"),
        tuple(
            (
                each["dimension"],
                str(_labelled(each) + each["without_path"]),
                *(str(each[name]) for name in ("near", "far", "another_task", "unlabelled", "without_path")),
            )
            for each in sorted(found["failures"], key=_labelled, reverse=True)
        ),
    )


def _harm_text(harm: Found | None) -> str:
    if harm is None:
        return "What harms most is not known: there are no benign twins to compare with (--vla-twins=auto runs them)."
    drop = percent_text(harm["drop"], harm["drop_interval"])
    if harm["why"]:
        return f"The largest drop is of {harm['largest']}, {drop} points; it is not told apart: {harm['why']}."
    return f"{harm['dimension']} harms most: it takes {drop} points."


def _rate(table: Found) -> str:
    """A rate with its interval; of few episodes there is none."""
    return f"few ({table['n']})" if table["few"] else percent_text(table["sr"], table["interval"])


def _curve(found: Found) -> Markup | None:
    known = [each for each in found["levels"] if each["sr"] is not None]
    if found["few"] or not any(each["level"] for each in known):
        return None
    dots = [Dot(each["level"], each["sr"], each["interval"], _dot_title(each), None) for each in known]
    last = max(each["level"] for each in known)
    benign = next((each["sr"] for each in known if each["level"] == 0), None)
    # The whole reason is in the table below.
    why = (found["why"] or "").partition(":")[0]
    halves = why if found["halves_at"] is None else f"at L{found['halves_at']:.1f}"
    names = ["benign", *(f"L{level}" for level in range(1, last + 1))]
    below = f"half lost: {halves or NONE}"
    return curve(found["dimension"], below, dots, names, None if benign is None else benign / 2)


def _dot_title(each: Found) -> str:
    name = f"L{each['level']}" if each["level"] else "benign twins"
    return f"{name}: {percent_text(each['sr'], each['interval'])}% of {each['n']}"


def _dimension_row(found: Found) -> tuple[str, ...]:
    change = found["difference"]
    benign = next((each for each in found["levels"] if each["level"] == 0), None)
    twins = NONE if benign is None else percent_text(benign["sr"], benign["interval"])
    halves = (
        found["why"] or ""
        if found["halves_at"] is None
        else f"L{number_text(found['halves_at'], found['halves_at_interval'], '{:.1f}')}"
    )
    first = (found["dimension"], str(found["n"]), _rate(found), twins)
    if change is None or found["few"]:
        return (*first, NONE, NONE, NONE, NONE, NONE, halves)
    by_task = change["tasks_interval"]
    return (
        *first,
        points_text(change["value"], change["interval"]),
        NONE if by_task is None else "[{:+.1f}, {:+.1f}]".format(*by_task),
        p_text(change["p_adjusted"]),
        f"{change['lost']}/{change['pairs']}",
        f"{change['gained']}/{change['pairs']}",
        halves,
    )


def _cell_row(cell: Found) -> tuple[str, ...]:
    change = cell["difference"]
    name = cell["dimension"] if cell["kind"] == cell["dimension"] else f"{cell['dimension']}.{cell['kind']}"
    level = NONE if cell["level"] is None else f"L{cell['level']}"
    known = change is not None and not cell["few"]
    return (
        name,
        level,
        str(cell["n"]),
        _rate(cell),
        percent_text(cell["benign"]) if known else NONE,
        points_text(change["value"], change["interval"]) if known else NONE,
        p_text(change["p_adjusted"]) if known else NONE,
        reasons_of(cell),
    )


def _pair_row(pair: Found) -> tuple[str, ...]:
    return (
        " + ".join(pair["dimensions"]),
        str(pair["n"]),
        f"{pair['first']:.1f} and {pair['second']:.1f}",
        percent_text(pair["joint"], pair["joint_interval"]),
        percent_text(pair["expected"], pair["expected_interval"]),
        number_text(pair["gap"], pair["gap_interval"], "{:+.3f}"),
        pair["verdict"],
        p_text(pair["p_adjusted"]),
    )
