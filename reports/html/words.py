"""The language as a part of a page: PRIDE, heat maps of paraphrases, failure types. From the report's JSON."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from pytest_vla.reports.html.parts import Block, Table
from pytest_vla.reports.html.svg import shade
from pytest_vla.reports.html.written import NONE, number_text, percent_text

Found = Mapping[str, Any]

_GROUPS = {"categories": "category", "objects": "object type", "actions": "action type"}
"""What paraphrases are grouped by: keys of the report, and what they are called."""

_MEASURED_HEAD = ("paraphrases", "episodes", "success, %", "PRIDE", "mean distance", "overestimation")


def language_blocks(title: str, found: Found, alpha: float) -> Iterator[Block]:
    """Of a model and suite.

    Args:
        title: names them.
        found: of `pytest_vla.reports.language.json.model_table`.
        alpha: weight of S_K.
    """
    backend = found["backend"] or "none"
    texts = [f"Similarities: {backend}; alpha {alpha:g}."]
    if found["benign"] is not None:
        told = percent_text(found["benign"]["sr"], found["benign"]["sr_interval"])
        texts.append(f"Benign twins succeed in {told}% of {found['benign']['n']}.")
    caption = "In brackets 95% intervals over paraphrases like these, of these tasks"
    tables = []
    if found["n"]:
        tables.append(Table(caption, _MEASURED_HEAD, (("all", *_measured(found, str(alpha))),)))
    # The object's and the action's kinds have names in common, such as none.
    for key, heading in _GROUPS.items():
        if found[key]:
            grouped = tuple((each["name"], *_measured(each)) for each in found[key])
            tables.append(Table(f"By {heading}", (heading, *_MEASURED_HEAD[1:]), grouped))
    if found["others"]:
        rows = [(each["kind"], *_measured(each)) for each in found["others"]]
        tables.append(Table("Other changes of the text", _MEASURED_HEAD, tuple(rows)))
    yield Block(title, tuple(texts), _heat_maps(found["cells"]), tuple(tables), tuple(found["left_out"]))
    if found["failures"] is not None:
        yield _failures_block(title, found["failures"])
    if found["tasks"]:
        rows = [(each["name"], *_measured(each)) for each in found["tasks"]]
        table = Table(caption, ("task", *_MEASURED_HEAD[1:]), tuple(rows))
        yield Block(f"{title}: paraphrases by task", tables=(table,), is_open=False)
    if found["listening"] is not None:
        yield _listening_block(title, found["listening"])


def _measured(each: Found, alpha: str | None = None) -> tuple[str, ...]:
    pride, interval = each["pride"], each["pride_interval"]
    if alpha is not None:
        pride, interval = (pride or {}).get(alpha), (interval or {}).get(alpha)
    return (
        str(each["n"]),
        percent_text(each["sr"], each["sr_interval"]),
        percent_text(pride, interval),
        number_text(each["pd"], each["pd_interval"], "{:.3f}"),
        percent_text(each["overestimation"], each["overestimation_interval"]),
    )


def _heat_maps(cells: Sequence[Found]) -> tuple[Markup, ...]:
    if not cells:
        return ()
    return (
        _heat_map("Success, %: what is said of the object, and of the action", cells, "sr", lambda value: value / 100),
        _heat_map("PRIDE: the same, weighed by how far the words are", cells, "pride", lambda value: value / 100),
        _heat_map("Mean distance of the words", cells, "pd", lambda value: value, "{:.2f}"),
    )


def _heat_map(
    caption: str, cells: Sequence[Found], key: str, share: Callable[[float], float], form: str = "{:.0f}"
) -> Markup:
    """A table whose cells have colours; the number stands in each."""
    objects = [*dict.fromkeys(cell["object"] for cell in cells)]
    actions = [*dict.fromkeys(cell["action"] for cell in cells)]
    found = {(cell["object"], cell["action"]): cell for cell in cells}
    head = Markup().join(Markup('<th scope="col">{}</th>').format(_spaced(name)) for name in objects)
    rows = Markup().join(
        Markup('<tr><th scope="row">{}</th>{}</tr>').format(
            _spaced(action),
            Markup().join(_heat_cell(found.get((name, action)), key, share, form) for name in objects),
        )
        for action in actions
    )
    whole = Markup(
        '<div class="scroll" tabindex="0" role="region" aria-label="{0}"><table class="heat"><caption>{0}</caption>'
        '<thead><tr><th scope="col">action, by object</th>{1}</tr></thead><tbody>{2}</tbody></table></div>'
    )
    return whole.format(caption, head, rows)


def _heat_cell(cell: Found | None, key: str, share: Callable[[float], float], form: str) -> Markup:
    if cell is None or cell[key] is None:
        return Markup("<td>{}</td>").format(NONE)
    value = cell[key]
    told = f"{cell['object']} x {cell['action']}: {number_text(value, cell[f'{key}_interval'])}, {cell['n']} episodes"
    return Markup('<td style="{}" title="{}">{}</td>').format(shade(share(value)), told, form.format(value))


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _failures_block(title: str, failures: Found) -> Block:
    texts = (
        f"Under other words {percent_text(failures['sr'], failures['sr_interval'])}% of {failures['n']} succeeded; "
        f"near misses {percent_text(failures['near'], failures['near_interval'])}%, "
        f"far off {percent_text(failures['far'], failures['far_interval'])}%, "
        f"neither known {percent_text(failures['undefined'], failures['undefined_interval'])}% "
        f"(DTW: {failures['algorithm']}).",
    )
    rows = tuple(
        (
            task["name"],
            str(task["successes"]),
            str(task["failures"]),
            *(NONE if task[key] is None else str(task[key]) for key in ("near", "far", "undefined")),
            ", ".join(f"{name} {number}" for name, number in task["instead"].items()) or NONE,
        )
        for task in failures["tasks"]
        if task["failures"]
    )
    head = ("task", "successes", "failures", "near", "far", "undefined", "went for instead")
    caption = "Types of failure: near, the path is like those that succeed; far, it is like another"
    tables = (Table(caption, head, rows, 1, frozenset({6})),) if rows else ()
    return Block(f"{title}: failure types", texts, tables=tables)


def _listening_block(title: str, heard: Found) -> Block:
    probes = {"all": heard, **heard["probes"]}
    rows = tuple(
        (
            name,
            str(each["verdict"]),
            percent_text(each["followed"], each["followed_interval"]),
            percent_text(each["obeyed"], each["obeyed_interval"]),
            percent_text(each["sr_right"], each["sr_right_interval"]),
            percent_text(each["sr_probe"], each["sr_probe_interval"]),
            number_text(each["score"], each["score_interval"], "{:.2f}"),
        )
        for name, each in probes.items()
    )
    head = (
        "probe",
        "verdict",
        "followed, %",
        "obeyed, %",
        "success told right, %",
        "success under the probe, %",
        "score",
    )
    return Block(f"{title}: does it listen?", tables=(Table("In brackets 95% intervals", head, rows, 2),))
