"""The episodes of a page as JSON: each column once, texts by number, so that ten thousand take little place.

``count``; ``columns`` (``name``, ``label``, ``rows``, and of texts ``values``, which the rows are places in);
``anchors``, of each episode; ``twins``, by the number of a varied episode that of its benign twin; ``names``, the texts
of literals and accounts; ``literals``, ``costs`` and ``media`` by the episode's number, where there are any;
``commands``: place in ``recipes`` and the id that stands between its two
texts.
"""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_vla.metrics.rates import group_of
from pytest_vla.metrics.selection import by_model, run_of, that_count, twin_of
from pytest_vla.plan.case import names_of
from pytest_vla.plan.costs import cumulative
from pytest_vla.records.record import Record

ANCHOR = 12
"""Hexadecimal digits of an episode's anchor."""


def anchor_of(record: Record) -> str:
    """What names an episode in links to it: the same in every report of its run."""
    told = f"{record.run}\n{record.node}\n{record.seeds.get('run')}\n{record.attempt}\n{record.started}"
    return hashlib.sha256(told.encode(errors="surrogatepass")).hexdigest()[:ANCHOR]


def twin_places(records: Sequence[Record]) -> dict[int, int]:
    """By the place of a varied episode that of its benign twin, of the same model and run seed, where it is there.

    Of several the first that counts is it, else the first.
    """
    if not any(record.variation for record in records):
        return {}
    models, counting = _standing(records)
    found: dict[tuple[str, str, int], int] = {}
    for place, record in enumerate(records):
        key = models[place], *run_of(record)
        if not record.variation and (key not in found or (counting[place] and not counting[found[key]])):
            found[key] = place
    keys = ((place, (models[place], *twin_of(record))) for place, record in enumerate(records) if record.variation)
    return {place: found[key] for place, key in keys if key in found}


def episodes_table(
    records: Sequence[Record],
    command_of: Callable[[Record], str],
    media: Mapping[int, Any],
    twins: Mapping[int, int] | None = None,
) -> dict[str, Any]:
    """All episodes; see the module's page.

    Args:
        records: in any order.
        command_of: the command that runs an episode alone; empty: none is known.
        media: by the place of its record, what is shown of an episode: ``pictures``, ``video`` and ``paths``.
        twins: of `twin_places`; None: no episode has one.
    """
    models, counting = _standing(records)
    names = _Texts()
    literals, costs = {}, {}
    for place, record in enumerate(records):
        if record.literals:
            literals[place] = [
                [names.place(name), [[step, int(held)] for step, held in changes]]
                for name, changes in record.literals.items()
            ]
        if charged := [charge for charge in record.costs if charge.amount]:
            costs[place] = [
                [
                    names.place(charge.name),
                    names.place(charge.account),
                    _number(charge.amount),
                    _steps_text(charge.step, charge.last_step),
                    charge.by,
                    _number(charge.force),
                ]
                for charge in charged
            ]
    recipes, commands = _commands(records, command_of)
    return {
        "count": len(records),
        "columns": [*_columns(records, models, counting), *_metric_columns(records)],
        "anchors": [*map(anchor_of, records)],
        "twins": twins or {},
        "names": names.texts,
        "literals": literals,
        "costs": costs,
        "media": media,
        "recipes": recipes,
        "commands": commands,
    }


class _Texts:
    """Texts, each once."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def place(self, text: str) -> int:
        """The number of a text, which is new where it has none."""
        return self._places.setdefault(text, len(self._places))

    @property
    def texts(self) -> list[str]:
        """By their numbers."""
        return [*self._places]


def _standing(records: Sequence[Record]) -> tuple[list[str], list[bool]]:
    """Of each record its model's name in reports, and whether it is in the numbers."""
    places = {id(record): place for place, record in enumerate(records)}
    models, counting = [""] * len(records), [False] * len(records)
    for (model, _), some in by_model(records).items():
        for record in some:
            models[places[id(record)]] = model
        for record in that_count(some).records:
            counting[places[id(record)]] = True
    return models, counting


def _columns(records: Sequence[Record], models: Sequence[str], counting: Sequence[bool]) -> list[dict[str, Any]]:
    def varied(record: Record, key: str) -> Any:
        return record.variation.get(key)

    found = [
        _text_column("task", "task", [record.task_key for record in records]),
        _text_column("outcome", "outcome", [record.outcome for record in records]),
        _text_column("reason", "reason", [record.reason for record in records]),
        _text_column("variation", "variation", [_variation_text(record) for record in records]),
        _number_column("level", "level", [varied(record, "level") for record in records]),
        _number_column("seed", "seed", [record.seed for record in records]),
        _number_column("steps", "steps", [record.steps for record in records]),
        _text_column("model", "model", models),
        _text_column("suite", "suite", [record.suite for record in records]),
        _number_column("cost", "cost", [_cost(record) for record in records]),
        _text_column("instruction", "instruction", [record.instruction for record in records]),
        _text_column("run", "run", [record.run for record in records]),
        _text_column("counts", "in the rates", ["yes" if each else "no" for each in counting]),
        _text_column("message", "message", [record.message for record in records]),
        _text_column("group", "group", [group_of(record) for record in records], hidden=True),
        _text_column("twin", "benign twin", [record.twin if record.variation else None for record in records], True),
        _number_column("run_seed", "run seed", [record.seeds.get("run") for record in records], True),
        _number_column("wall", "wall time, s", [record.timings.get("wall") for record in records], True),
        _number_column("attempt", "attempt", [record.attempt if record.attempt > 1 else None for record in records]),
    ]
    told = [column for column in found if any(value not in (None, "") for value in _values(column))]
    # What is the same everywhere is said with the episode, and has no column.
    alike = ("model", "suite", "run", "counts", "variation")
    return [column | {"hidden": True} if column["name"] in alike and _is_alike(column) else column for column in told]


def _metric_columns(records: Sequence[Record]) -> list[dict[str, Any]]:
    """What others keep of episodes, behind what is shown at once."""
    names = sorted({name for record in records for name in record.metrics})
    return [
        _number_column(f"metric-{number}", name, [record.metrics.get(name) for record in records], True)
        for number, name in enumerate(names)
    ]


def _values(column: Mapping[str, Any]) -> Sequence[Any]:
    values: Sequence[Any] = column.get("values", column["rows"])
    return values


def _is_alike(column: Mapping[str, Any]) -> bool:
    return len({*_values(column)}) < 2


def _text_column(name: str, label: str, values: Sequence[str | None], hidden: bool = False) -> dict[str, Any]:
    texts = _Texts()
    rows = [texts.place(value or "") for value in values]
    return {"name": name, "label": label, "values": texts.texts, "rows": rows, "hidden": hidden}


def _number_column(name: str, label: str, values: Sequence[Any], hidden: bool = False) -> dict[str, Any]:
    return {"name": name, "label": label, "rows": [_number(value) for value in values], "hidden": hidden}


def _number(value: Any) -> float | int | None:
    """As JSON can have it: what is no finite number is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def _variation_text(record: Record) -> str:
    variation = record.variation
    if not variation:
        return "benign"
    return str(variation.get("label") or names_of(str(variation.get("dimension")), str(variation.get("kind"))))


def _cost(record: Record) -> float | None:
    """By the headline's account; None: it has no ledger."""
    return cumulative(record.costs) if record.costs else None


def _steps_text(step: int | None, last: int | None) -> str | None:
    if step is None:
        return None
    return str(step) if last in (None, step) else f"{step}-{last}"


def _commands(
    records: Sequence[Record], command_of: Callable[[Record], str]
) -> tuple[list[tuple[str, str]], list[tuple[int, str] | None]]:
    """What stands before and behind the id, each pair once; and of each episode which, and its id."""
    recipes: dict[tuple[str, str], int] = {}
    commands: list[tuple[int, str] | None] = []
    for record in records:
        command, node = command_of(record), record.node
        before, found, after = command.partition(node)
        if not command:
            commands.append(None)
        elif found:
            commands.append((recipes.setdefault((before, after), len(recipes)), node))
        else:
            commands.append((recipes.setdefault(("", ""), len(recipes)), command))
    return [*recipes], commands
