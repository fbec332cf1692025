"""The failures of a search on its page: in words, in pictures, with what runs each again."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from pytest_vla.fuzz.amounts import Component, components, scaled_components, value_at
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.causes import space_of
from pytest_vla.fuzz.found import Found
from pytest_vla.fuzz.told import often_text, params_text, rival_text
from pytest_vla.reports.blocks import Cell, Table, table_of
from pytest_vla.reports.html.media import picture_uri
from pytest_vla.reports.html.parts import PageBlock, block_of
from pytest_vla.reports.html.written import NONE
from pytest_vla.show.changes import Scene, scene_pictures
from pytest_vla.util.text import counted, printable
from pytest_vla.vary.chosen import remembering
from pytest_vla.vary.space import Parameter

PICTURED = 20
"""So many failures have pictures."""

_CODE = Markup("<code>{}</code>")


@dataclass(frozen=True)
class Shot:
    """A scene as the policy first sees it.

    Attributes:
        about: what it is.
        source: address of the picture; empty: there is none.
        why: there is none, or what is wrong with it.
    """

    about: str
    source: str = ""
    why: str = ""


@dataclass(frozen=True)
class Failure:
    """A failure as it is shown.

    Attributes:
        title: what is changed.
        task: id.
        often: how often it fails.
        rival: what the policy that is compared does; empty: none is.
        shots: without the change, with it, and as the scene was found; none: it has no pictures.
        block: where it begins to fail.
        facts: by name.
    """

    title: str
    task: str
    often: str
    rival: str
    shots: tuple[Shot, ...]
    block: PageBlock
    facts: dict[str, Cell]


def failures_of(found: Sequence[Found], cases: str, model: str, rival: str) -> tuple[Failure, ...]:
    """Each as it is shown; the first `PICTURED` with pictures.

    Args:
        found: those that always fail first.
        cases: the file of cases.
        model: the policy.
        rival: the policy that is compared; empty: none is.
    """
    pictured = [scene for each in found[:PICTURED] for scene in _scenes_of(each)]
    scenes = scene_pictures(pictured) if pictured else []
    shots = [_shots(scenes[3 * place : 3 * place + 3]) for place in range(len(scenes) // 3)]
    shots += [()] * (len(found) - len(shots))
    return tuple(
        _failure(place, each, some, cases, model, rival)
        for place, (each, some) in enumerate(zip(found, shots, strict=True), 1)
    )


def _scenes_of(found: Found) -> tuple[Candidate, ...]:
    smallest = found.shrunk.candidate
    return smallest.having(()), smallest, found.first


def _shots(scenes: Sequence[Scene]) -> tuple[Shot, ...]:
    abouts = "without any change", "at its smallest", "as it was found"
    return tuple(
        Shot(about, "" if scene.picture is None else picture_uri(scene.picture), scene.why)
        for about, scene in zip(abouts, scenes, strict=True)
    )


def _failure(place: int, found: Found, shots: tuple[Shot, ...], cases: str, model: str, rival: str) -> Failure:
    smallest = found.shrunk.candidate
    often = f"{'flaky, ' * found.is_flaky}fails {often_text(found)}"
    return Failure(
        title=words_of(smallest),
        task=f"{smallest.task.id}, seed {smallest.seed}",
        often=often,
        rival=rival_text(found, rival),
        shots=shots,
        block=block_of(tables=(_boundaries(place, found),) if found.shrunk.boundaries else ()),
        facts=_facts(found, cases, model),
    )


def words_of(candidate: Candidate) -> str:
    """``camera.azimuth azimuth_deg=23.4 with robot.joints offset[3]=-0.3 rad``: what says how much, of each change."""
    told = []
    for change in candidate.changes:
        space = space_of(candidate, change)
        by_name = {each.name: each for each in space}
        amounts = components(space, change.params)
        texts = [_amount_text(by_name[each.name], each, value_at(change.params, each)) for each in amounts]
        told.append(" ".join([change.kind, *texts]))
    return " with ".join(told) or "no change"


def _amount_text(parameter: Parameter, component: Component, value: Any) -> str:
    if parameter.parts:
        # Such as an object that is added, and where; which one it is comes first.
        return f"{component}={value[0]}"
    return f"{component}={_shown(value)}{_unit(parameter)}"


def _unit(parameter: Parameter) -> str:
    return f" {parameter.unit}" if parameter.unit and not parameter.name.endswith(f"_{parameter.unit}") else ""


def _boundaries(place: int, found: Found) -> Table:
    changes = {change.kind: change for change in found.shrunk.candidate.changes}
    rows: list[tuple[Cell, ...]] = []
    for side in found.shrunk.boundaries:
        space = space_of(found.shrunk.candidate, changes[side.kind])
        units = {each.name: _unit(each) for each in space}
        for each in scaled_components(space, side.fails) if side.along is None else (side.along,):
            passes = NONE if side.passes is None else f"{_shown(value_at(side.passes, each))}{units[each.name]}"
            rows.append((side.kind, str(each), passes, f"{_shown(value_at(side.fails, each))}{units[each.name]}"))
    caption = f"Where failure {place} begins, of this seed, to this side; {NONE}: nothing less was tried that passes"
    return table_of(caption, ("change", "amount", "passes at", "fails at"), tuple(rows), names=2)


def _facts(found: Found, cases: str, model: str) -> dict[str, Cell]:
    smallest = found.shrunk.candidate
    complete = "" if found.shrunk.complete else "; not at its smallest, its episodes were at an end"
    facts: dict[str, Cell] = {
        "all of it": " with ".join(f"{change.kind} {params_text(change.params)}" for change in smallest.changes),
        "found as": f"scene {found.number}, {found.source}: {words_of(found.first)}",
        "made smaller in": f"{counted(found.shrunk.tried, 'trial')}{complete}",
    }
    if found.is_flaky:
        facts["again"] = "it is in no file, since it does not fail under all run seeds"
        return facts
    with remembering(smallest.changes):
        node = smallest.case.node_id
    command = f"pytest {shlex.quote(node)} --vla-cases={shlex.quote(cases)} --vla-model={shlex.quote(model)}"
    facts["again"] = _CODE.format(printable(command))
    return facts


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)
