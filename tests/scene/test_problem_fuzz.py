"""Any text is a problem or a located error, in linear time; any problem survives being written."""

import re
import warnings
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_vla.errors import SceneError
from pytest_vla.scene.bddl import MAX_DEPTH, VlaWarning
from pytest_vla.scene.literals import CONNECTIVES, INIT_PREDICATES, SIGNATURES
from pytest_vla.scene.problem import Literal, Problem, format_problem, parse_problem, parse_problem_text
from pytest_vla.scene.sections import CameraOffset, Declaration, Mover, Noise, Region
from tests.support.examples import scaled
from tests.support.task_files import LOCATED, TASK
from tests.support.work import calls


def check_any(text: str, compat: bool) -> None:
    message = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VlaWarning)
        try:
            problem = parse_problem_text(text, compat=compat)
        except SceneError as error:
            message = str(error)
        if message:
            assert LOCATED.match(message)
            return
        assert parse_problem_text(format_problem(problem), compat=compat) == problem


@given(st.text() | st.text("()ab:-;.01 \n"), st.booleans())
def test_any_text_is_a_problem_or_a_located_error(text: str, compat: bool) -> None:
    check_any(text, compat)


@given(st.binary())
def test_any_bytes_are_a_problem_or_a_located_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzz.bddl"
    file.write_bytes(data)
    with pytest.raises(SceneError, match=rf"\A{re.escape(str(file))}:[1-9]\d*:[1-9]\d*: \S"):
        parse_problem(file)


TOKENS = re.findall(r"[()]|[^\s()]+", TASK)
WORDS = sorted({*TOKENS, *SIGNATURES, *CONNECTIVES, "and", "pi/2", "1e999", "é", ";", "-"})


# Where, how many tokens go, which come.
edits = st.tuples(st.integers(0, len(TOKENS)), st.integers(0, 3), st.lists(st.sampled_from(WORDS), max_size=4))


@given(st.lists(edits, max_size=4), st.booleans())
@settings(max_examples=scaled(400))
@example([], False)
def test_a_changed_task_is_a_problem_or_a_located_error(edits: list[tuple[int, int, list[str]]], compat: bool) -> None:
    tokens = list(TOKENS)
    for start, removed, added in edits:
        tokens[start : start + removed] = added
    check_any("\n".join(tokens), compat)


names = st.from_regex(r"[a-z0-9_][a-z0-9_.\-]{0,6}", fullmatch=True)
numbers = st.floats(allow_nan=False, allow_infinity=False)
vectors = st.tuples(numbers, numbers, numbers)
words = st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"], exclude_characters="();"), min_size=1, max_size=6)


def ordered(values: tuple[float, ...]) -> tuple[float, ...]:
    half = len(values) // 2
    pairs = [sorted(pair) for pair in zip(values[:half], values[half:], strict=True)]
    return (*(low for low, _ in pairs), *(high for _, high in pairs))


regions = st.builds(
    Region,
    names,
    names,
    st.lists(st.tuples(numbers, numbers, numbers, numbers).map(ordered), max_size=3).map(tuple),
    st.tuples(numbers, numbers).map(ordered),
    st.tuples(*[st.floats(0, 1)] * 4),
)


def literals(known: list[str], predicates: tuple[str, ...], group: int) -> st.SearchStrategy[Literal]:
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "name": st.sampled_from(known),
        "number": numbers,
        "parts": st.lists(st.integers(0, 99).map(str), min_size=1, max_size=3).map(tuple),
    }
    return st.one_of(
        [
            st.builds(Literal, st.just(predicate), st.tuples(*(kinds[kind] for kind in kinds_)), group=st.just(group))
            for predicate in predicates
            for kinds_ in SIGNATURES[predicate]
        ]
    )


def conditions(known: list[str], group: int) -> st.SearchStrategy[Literal]:
    def connect(predicate: str, children: list[Literal]) -> Literal:
        return Literal(predicate, tuple(children[:1] if predicate == "not" else children), group=group)

    return st.recursive(
        literals(known, tuple(SIGNATURES), group),
        lambda inner: st.builds(connect, st.sampled_from(CONNECTIVES), st.lists(inner, min_size=1, max_size=3)),
        max_leaves=4,
    )


def movers(name: str) -> st.SearchStrategy[Mover]:
    quaternions = st.tuples(numbers, numbers, numbers, numbers)
    return st.builds(
        Mover,
        st.just(name),
        st.sampled_from(["linear", "circle", "waypoint", "parabolic"]),
        **{
            key: st.none() | numbers
            for key in ("period", "travel_dist", "speed", "initial_speed", "radius", "angle", "dt")
        },
        **{key: st.none() | vectors for key in ("direction", "center", "pos", "start_pos", "gravity")},
        **{key: st.none() | quaternions for key in ("quat", "start_quat")},
        waypoints=st.just(()) | st.lists(st.tuples(vectors, vectors), min_size=2, max_size=3).map(tuple),
        loop=st.none() | st.booleans(),
    )


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    declaration = st.builds(Declaration, names, names)
    declared = draw(st.lists(declaration, min_size=1, max_size=5, unique_by=lambda item: item.name))
    fixtures = draw(st.integers(0, len(declared) - 1))
    placed = draw(st.lists(regions, max_size=3))
    known = [item.name for item in declared]
    known += [region.key for region in placed if region.target in known]

    def condition(minimum: int) -> tuple[Literal, ...]:
        groups = range(draw(st.integers(minimum, 3)))
        return tuple(
            item for group in groups for item in draw(st.lists(conditions(known, group), min_size=1, max_size=3))
        )

    moved = [item.name for item in declared[fixtures:] if draw(st.booleans())]
    count = draw(st.integers(0, 3))
    cameras = draw(st.lists(st.from_regex(r"[a-z_][a-z0-9_]{0,6}", fullmatch=True), max_size=3, unique=True))
    return Problem(
        name=draw(names),
        domain="robosuite",
        language=" ".join(draw(st.lists(words, min_size=1, max_size=4))),
        regions=tuple(placed),
        fixtures=tuple(declared[:fixtures]),
        objects=tuple(declared[fixtures:]),
        objects_of_interest=tuple(draw(st.lists(names, max_size=3))),
        init=tuple(draw(literals(known, INIT_PREDICATES, group)) for group in range(count)),
        goal=condition(1),
        cost=condition(0),
        movers=tuple(draw(movers(name)) for name in moved),
        image_settings=tuple(draw(st.dictionaries(st.sampled_from(["brightness", "contrast"]), numbers)).items()),
        noise=draw(
            st.none()
            | st.builds(Noise, st.just("gaussian"), st.tuples(numbers, st.floats(0, 1e300)))
            | st.builds(Noise, st.just("salt_pepper"), st.tuples(st.floats(0, 1)))
        ),
        camera=tuple(CameraOffset(name, draw(vectors)) for name in cameras),
        random_color=draw(st.booleans()),
    )


@given(problems())
@settings(max_examples=scaled(30))
def test_what_is_written_reads_back_the_same(problem: Problem) -> None:
    text = format_problem(problem)
    read = parse_problem_text(text)
    assert read == problem
    assert repr(read.regions) == repr(
        tuple(
            replace(region, line=again.line, column=again.column)
            for region, again in zip(problem.regions, read.regions, strict=True)
        )
    )  # equality does not see the sign of zero, repr does
    assert format_problem(read) == text


# --- linear work ---

SHAPES = {
    "objects": lambda n: TASK.replace("plate_1 - plate", "plate_1 " + " ".join(f"o{i} - cup" for i in range(n))),
    "names": lambda n: TASK.replace("plate_1 - plate", "plate_1 " + " ".join(f"o{i}" for i in range(n)) + " - cup"),
    "regions": lambda n: TASK.replace("(spare ", "".join(f"(r{i} (:target t{i % 7}))" for i in range(n)) + "(spare "),
    "ranges": lambda n: TASK.replace("(0 0 1 1)", "(0 0 1 1)" * n),
    "init": lambda n: TASK.replace("(:init", "(:init" + "(On cup_1 plate_1)" * n),
    "goal": lambda n: TASK.replace("(:goal (And", "(:goal (And" + "(On cup_1 plate_1)" * n),
    "groups": lambda n: TASK.replace("(:goal (And", "(:goal " + "(On cup_1 plate_1)" * n + "(And"),
    "language": lambda n: TASK.replace("gently", "gently " * n),
    "sections": lambda n: TASK.replace("(:init", "".join(f"(:s{i} a)" for i in range(n)) + "(:init"),
    "unknown": lambda n: TASK.replace("(:init", "(:init" + "".join(f"(P{i} nobody{i})" for i in range(n))),
    "waypoints": lambda n: TASK.replace("((0 0 1) (0 1 0))", "((0 0 1) (0 1 0))" * n),
    "comments": lambda n: TASK.replace("(:init", "; (:init\n" * n + "(:init"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_work_grows_with_the_length_only(shape: str) -> None:
    def work(count: int) -> int:
        text = SHAPES[shape](count)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", VlaWarning)
            return calls(lambda: parse_problem_text(text, compat=True))

    assert work(1600) <= 4.2 * work(400)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10**6,
        ")" * 10**6,
        "()" * 500_000,
        "(a " * 300_000,
        "(define " + "(x)" * 300_000,
        TASK.replace("On", "On" * 10**5),
        TASK.replace("gently", "x" * 10**6 + "("),
        TASK.replace("cup_2 plate_1)", "z" * 10**6 + " y)"),
        "\0" * 10**6,
        TASK.replace("(Not", "(Not" * (MAX_DEPTH - 4) + "(Not", 1),
        ";" * 10**6,
        "\ufeff" * 10**6,
    ],
    ids=range(12),
)
def test_a_megabyte_of_anything_ends(text: str) -> None:
    with pytest.raises(SceneError, match=LOCATED):
        parse_problem_text(text)
