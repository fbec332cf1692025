"""A task file of LIBERO (BDDL) or VLA-Arena (CBDDL) as one typed value, and back to text."""

import itertools
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.errors import SceneError, VlaError
from pytest_vla.plan.task import Task
from pytest_vla.scene.bddl import (
    MAX_CHARACTERS,
    Node,
    Origin,
    SExpression,
    VlaWarning,
    describe,
    expect_group,
    expect_name,
    expect_word,
    fail,
    read_expression,
    reject_unknown,
    split_head,
)
from pytest_vla.scene.literals import Argument, Literal, Scope, read_condition, read_init, show_number
from pytest_vla.scene.sections import (
    CameraOffset,
    Declaration,
    Mover,
    Noise,
    Region,
    Vector,
    read_cameras,
    read_declarations,
    read_image_settings,
    read_movers,
    read_noise,
    read_random_color,
    read_regions,
)

if TYPE_CHECKING:
    from pytest_vla.plan.data_roots import DataRoot


__all__ = [
    "Argument",
    "CameraOffset",
    "Declaration",
    "Literal",
    "Mover",
    "Noise",
    "Problem",
    "Region",
    "VlaWarning",
    "format_problem",
    "parse_problem",
    "parse_problem_text",
]

_REQUIRED = ("problem", ":domain", ":language", ":goal")
SECTIONS = (
    *_REQUIRED,
    ":requirements",
    ":regions",
    ":fixtures",
    ":objects",
    ":moving_objects",
    ":obj_of_interest",
    ":init",
    ":cost",
    ":image_settings",
    ":noise",
    ":camera",
    ":random_color",
)
_DOMAIN = "robosuite"
_MAX_BYTES = 4 * MAX_CHARACTERS


@dataclass(frozen=True)
class Problem:
    """A parsed task file: objects and their places, the goal, and the costs.

    Names are in lower case, as upstream's tokenizer makes them; `language` is as written, with single spaces. Order is
    the file's throughout. `regions` may hold one key twice (upstream: the last counts) and regions whose target is not
    declared; no literal names the latter. `objects_of_interest` may contain undeclared names. If ``compat`` accepted
    unknown parts, sections and attributes are missing here and literals are kept. Problems compare by content: places
    and `source` do not count.
    """

    name: str
    domain: str
    language: str
    regions: tuple[Region, ...] = ()
    fixtures: tuple[Declaration, ...] = ()
    objects: tuple[Declaration, ...] = ()
    objects_of_interest: tuple[str, ...] = ()
    init: tuple[Literal, ...] = ()
    goal: tuple[Literal, ...] = ()
    cost: tuple[Literal, ...] = ()
    movers: tuple[Mover, ...] = ()
    image_settings: tuple[tuple[str, float], ...] = ()
    noise: Noise | None = None
    camera: tuple[CameraOffset, ...] = ()
    random_color: bool = False
    source: str = field(default="<string>", compare=False)


def parse_problem(source: str | os.PathLike[str], *, compat: bool = False) -> Problem:
    """Read the task file `source` (UTF-8, with or without a byte order mark).

    Raises SceneError, its message starting ``FILE:LINE:COLUMN: ``, for anything that is not a valid problem (only
    ``FILE: `` for a file that cannot be read). With `compat`, unknown sections, predicates, attributes and names are
    VlaWarnings.
    """
    return parse_problem_text(read_text(source), source=os.fspath(source), compat=compat)


def read_text(source: str | os.PathLike[str]) -> str:
    """Return the text of a task file (UTF-8). Raises SceneError as `parse_problem` does."""
    name = os.fspath(source)
    try:
        with Path(source).open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SceneError(f"{name}: cannot read this task file: {reason}; give the path of a .bddl file") from error
    if len(data) > _MAX_BYTES:
        raise SceneError(f"{name}:1:1: more than {_MAX_BYTES} bytes are too many for a problem; give a .bddl file")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8").removeprefix("\ufeff")
        lines = before.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        raise SceneError(
            f"{name}:{len(lines)}:{len(lines[-1]) + 1}: expected UTF-8 text, found the byte 0x{data[error.start]:02x}; "
            "save the file as UTF-8"
        ) from error


def parse_problem_text(text: str, *, source: str = "<string>", compat: bool = False) -> Problem:
    """Parse a text as `parse_problem` does; `source` is its name in errors."""
    origin = Origin(source, compat)
    return read_problem_tree(read_expression(text, origin, SECTIONS), origin)


def read_problem_tree(root: SExpression, origin: Origin) -> Problem:
    """Return the problem in an expression from `read_expression`. Raises SceneError as `parse_problem` does."""
    head, rest = split_head(root, origin, "'(define (problem NAME) ...)'")
    if head.text.lower() != "define":
        raise fail(origin, head, f"expected '(define (problem NAME) ...)', found {describe(head)}")
    sections = _split_sections(root, rest, origin)

    def content(name: str) -> tuple[Node, ...]:
        return sections[name].items[1:] if name in sections else ()

    regions = read_regions(content(":regions"), origin)
    fixtures = read_declarations(content(":fixtures"), origin)
    objects = read_declarations(content(":objects"), origin)
    scope = _scope(fixtures, objects, regions, origin)
    return Problem(
        name=_read_single(sections["problem"], origin, "(problem NAME)"),
        domain=_read_domain(sections[":domain"], origin),
        language=_read_language(sections[":language"], origin),
        regions=regions,
        fixtures=fixtures,
        objects=objects,
        objects_of_interest=tuple(expect_name(node, origin, "a name") for node in content(":obj_of_interest")),
        init=read_init(content(":init"), origin, scope),
        goal=read_condition(sections[":goal"], origin, scope),
        cost=read_condition(sections[":cost"], origin, scope) if ":cost" in sections else (),
        movers=read_movers(content(":moving_objects"), origin, frozenset(item.name for item in objects)),
        image_settings=read_image_settings(content(":image_settings"), origin),
        noise=read_noise(sections[":noise"], origin) if ":noise" in sections else None,
        camera=read_cameras(content(":camera"), origin),
        random_color=":random_color" in sections and read_random_color(sections[":random_color"], origin),
        source=origin.source,
    )


def _split_sections(root: SExpression, nodes: tuple[Node, ...], origin: Origin) -> dict[str, SExpression]:
    """Return the sections by lower-case name, without unknown ones that ``compat`` accepted."""
    sections: dict[str, SExpression] = {}
    for node in nodes:
        section = expect_group(node, origin, "a section such as (:goal ...)")
        head, _ = split_head(section, origin, "a section such as (:goal ...)")
        name = head.text.lower()
        if name not in SECTIONS:
            reject_unknown(origin, head, "section", SECTIONS)
        elif name in sections:
            raise fail(
                origin, section, f"the section {name} occurs twice (first in line {sections[name].line}); join them"
            )
        else:
            sections[name] = section
    for name in _REQUIRED:
        if name not in sections:
            raise fail(origin, root, f"this problem has no section {name}; add ({name} ...)")
    return sections


def _scope(
    fixtures: tuple[Declaration, ...], objects: tuple[Declaration, ...], regions: tuple[Region, ...], origin: Origin
) -> Scope:
    declared: dict[str, Declaration] = {}
    for item in (*fixtures, *objects):
        if item.name in declared:
            raise fail(
                origin,
                item,
                f"{item.name!r} is declared twice (first in line {declared[item.name].line}); "
                "give each a name of its own",
            )
        declared[item.name] = item
    dangling = {region.key: region.target for region in regions if region.target not in declared}
    keys = {region.key for region in regions if region.target in declared}
    return Scope(names=frozenset({*declared, *keys}), dangling=dangling)


def _read_single(section: SExpression, origin: Origin, form: str) -> str:
    if len(section.items) != 2:
        raise fail(origin, section, f"expected {form}, found {len(section.items) - 1} names")
    return expect_name(section.items[1], origin, "a name")


def _read_domain(section: SExpression, origin: Origin) -> str:
    domain = _read_single(section, origin, f"(:domain {_DOMAIN})")
    if domain != _DOMAIN:
        raise fail(origin, section, f"expected (:domain {_DOMAIN}), found {domain!r}; no other domain can be simulated")
    return domain


def _read_language(section: SExpression, origin: Origin) -> str:
    words = section.items[1:]
    if not words:
        raise fail(
            origin,
            section,
            "expected an instruction in :language, found none; write it like (:language put the bowl on the plate)",
        )
    for node in words:
        expect_word(node, origin, "a word of the instruction, which holds no parentheses")
    return " ".join(node.text for node in words if not isinstance(node, SExpression))


def format_problem(problem: Problem) -> str:
    """Return `problem` as BDDL text that parses to an equal problem.

    ``parse_problem_text(format_problem(p)) == p`` for every `p` that was parsed; if `p` was parsed with ``compat``, its
    text needs it too.
    """
    lines = [
        f"(define (problem {problem.name})",
        f"  (:domain {problem.domain})",
        f"  (:language {problem.language})",
        *_section(":regions", map(_format_region, problem.regions)),
        *_section(":fixtures", (f"{item.name} - {item.category}" for item in problem.fixtures)),
        *_section(":objects", (f"{item.name} - {item.category}" for item in problem.objects)),
        *_section(":moving_objects", map(_format_mover, problem.movers)),
        *_section(":obj_of_interest", problem.objects_of_interest),
        *_section(":init", map(str, problem.init)),
        *_section(":goal", _format_condition(problem.goal)),
        *_section(":cost", _format_condition(problem.cost)),
        *_section(":image_settings", (f"{name} {show_number(value)}" for name, value in problem.image_settings)),
        *_section(":noise", [_format_noise(problem.noise)] if problem.noise else ()),
        *_section(":camera", (f"{item.name} {_numbers(item.offset)}" for item in problem.camera)),
        *_section(":random_color", ["true"] if problem.random_color else ()),
    ]
    return "\n".join([*lines, ")\n"])


def _section(name: str, entries: Iterable[str]) -> list[str]:
    listed = list(entries)
    return [f"  ({name}", *(f"    {entry}" for entry in listed), "  )"] if listed else []


def _numbers(values: Vector) -> str:
    return " ".join(map(show_number, values))


def _format_region(region: Region) -> str:
    parts = [region.name, f"(:target {region.target})"]
    if region.ranges:
        parts.append(f"(:ranges ({' '.join(f'({_numbers(rectangle)})' for rectangle in region.ranges)}))")
    if region.yaw_rotation != Region.yaw_rotation:
        parts.append(f"(:yaw_rotation (({_numbers(region.yaw_rotation)})))")
    if region.rgba != Region.rgba:
        parts.append(f"(:rgba ({_numbers(region.rgba)}))")
    return f"({' '.join(parts)})"


def _format_condition(literals: tuple[Literal, ...]) -> list[str]:
    # Always with the And: a literal `(and ...)` that stood inside one must not be taken for the outer one.
    groups = itertools.groupby(literals, key=lambda literal: literal.group)
    return [f"(and {' '.join(map(str, members))})" for _, members in groups]


def _format_noise(noise: Noise) -> str:
    return f"{noise.kind} {_numbers(noise.parameters)}"


def _format_mover(mover: Mover) -> str:
    parts = [mover.name, f"(:motion_type {mover.motion_type})"]
    for item in fields(mover)[2:]:
        value = getattr(mover, item.name)
        if value is None or value == () or not item.compare:
            continue
        if item.name == "waypoints":
            pairs = " ".join(f"(({_numbers(place)}) ({_numbers(direction)}))" for place, direction in value)
            shown = f"({pairs})"
        elif isinstance(value, bool):
            shown = str(value).lower()
        else:
            shown = f"({_numbers(value)})" if isinstance(value, tuple) else show_number(value)
        parts.append(f"(:motion_{item.name} {shown})")
    return f"({' '.join(parts)})"


# The problems of tasks, read from their files.


@cache
def problem_of(task: Task) -> "Problem":
    """Return the parsed file of a task. Raises VlaError if it is missing or invalid."""
    if task.world is not None:
        raise VlaError("it reads the task's file, but the suite brings its own world")
    from pytest_vla.plan.data_roots import task_roots

    return read_problem(task, task_roots(task))


def read_problem(task: Task, roots: "tuple[DataRoot, ...]") -> "Problem":
    """Return the parsed file of a task, from the first root that has it.

    Raises VlaError if it is missing or invalid.
    """
    from pytest_vla.plan.data_roots import find_task_file

    return parse_problem(find_task_file(roots, task))
