"""The reader of s-expressions and numbers: places, limits, linear work."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.errors import SceneError
from pytest_vla.scene.bddl import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    Atom,
    Node,
    Origin,
    SExpression,
    read_expression,
    read_number,
)
from tests.support.work import calls

HERE = Origin("scene.bddl")


def atoms(node: Node) -> list[tuple[str, int, int]]:
    if isinstance(node, Atom):
        return [(node.text, node.line, node.column)]
    return [("(", node.line, node.column), *(item for child in node.items for item in atoms(child))]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_every_node_has_its_place(newline: str, mark: str) -> None:
    text = newline.join(["; a comment (with", "(Define\t(a  -3.5);x)", "", "  é (b))  ; end)"])
    expected = [
        ("(", 2, 1),
        ("Define", 2, 2),
        ("(", 2, 9),
        ("a", 2, 10),
        ("-3.5", 2, 13),
        ("é", 4, 3),
        ("(", 4, 5),
        ("b", 4, 6),
    ]
    assert atoms(read_expression(mark + text, HERE)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1:1: expected '(define (problem NAME) ...)', found nothing"),
        (" ; only (a) comment", "1:1: expected '(define (problem NAME) ...)', found nothing"),
        ("\n x", "2:2: expected '(define (problem NAME) ...)', found 'x'"),
        (")", "1:1: expected '(define (problem NAME) ...)', found ')'"),
        ("(a\n (b c)", "1:1: this '(' is never closed"),
        ("(a\n (b c", "2:2: this '(' is never closed"),
        ("(a) (b)", "1:5: expected nothing after the end of the problem, found '('"),
        ("(a))", "1:4: expected nothing after the end of the problem, found ')'"),
        ("(a) b", "1:5: expected nothing after the end of the problem, found 'b'"),
        ("(a (:objects b - c\n  (:init (on b c)) )", "2:4: ':init' is inside another section"),
        ("(" * (MAX_DEPTH + 1) + ")" * (MAX_DEPTH + 1), f"1:{MAX_DEPTH + 1}: parentheses are nested deeper"),
        ("(" + "a" * MAX_CHARACTERS, "1:1: 2097153 characters are too many"),
    ],
)
def test_what_is_no_expression_is_a_located_error(text: str, message: str) -> None:
    with pytest.raises(SceneError) as caught:
        read_expression(text, HERE, {":init"})
    assert str(caught.value).startswith(f"scene.bddl:{message}")


def test_a_landmark_at_its_level_is_no_hint() -> None:
    with pytest.raises(SceneError, match=r"^scene.bddl:1:1: this '\(' is never closed"):
        read_expression("(a (:init) (:init)", HERE, {":init"})


def test_the_deepest_expression_that_is_allowed_is_read() -> None:
    node: Node = read_expression("(" * MAX_DEPTH + ")" * MAX_DEPTH, HERE)
    depth = 1
    while isinstance(node, SExpression) and node.items:
        node, depth = node.items[0], depth + 1
    assert depth == MAX_DEPTH


def number(text: str) -> float:
    return read_number(Atom(text, 3, 7), HERE)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0.0),
        ("-0", -0.0),
        ("+2.66", 2.66),
        (".5", 0.5),
        ("5.", 5.0),
        ("-1e-3", -1e-3),
        ("1E+2", 100.0),
        ("pi", math.pi),
        ("PI/2", math.pi / 2),
        ("-pi", -math.pi),
        ("--pi", math.pi),
        ("3*pi/4", 3 * math.pi / 4),
        ("-pi/2+0.1", -math.pi / 2 + 0.1),
        ("1-2-3", -4.0),
        ("8/2/2", 2.0),
        ("2-3*4", -10.0),
        ("2*-3", -6.0),
        ("1e-3-1e-3", 0.0),
    ],
)
def test_numbers(text: str, value: float) -> None:
    assert number(text) == value
    assert math.copysign(1.0, number(text)) == math.copysign(1.0, value)


@pytest.mark.parametrize(
    "text",
    [
        *("x", "1..2", "1.2.3", "2pi", "pi2", "pi.real", "1e", "1e+", "-", "+-", "1+", "*2", "1**2", "1//2", "1%2"),
        *("0x10", "1_0", "nan", "inf", "-inf", "infinity", "٣", "¼", "[1]", "1,2", "__import__", "1if", "1e9e9"),
        *(".", "e5"),
    ],
)
def test_what_is_no_number_is_a_located_error(text: str) -> None:
    with pytest.raises(SceneError, match=r"^scene\.bddl:3:7: expected a number, found .*; write it like 0\.25"):
        number(text)


@pytest.mark.parametrize(
    "text", ["1e999", "-1e999", "1/0", "0/0", "pi/0.0", "1/1e999", "0*1e999", "1e308*10", "1e308+1e308"]
)
def test_numbers_without_a_finite_value_are_refused(text: str) -> None:
    with pytest.raises(SceneError, match=r"^scene\.bddl:3:7: .* which has no finite value"):
        number(text)


def test_a_group_is_no_number() -> None:
    with pytest.raises(SceneError, match=r"^scene\.bddl:1:2: expected a number, found the group that starts with 'a'"):
        read_number(SExpression((Atom("a", 1, 3),), 1, 2), HERE)


factors = st.one_of(st.just("pi"), st.floats(0, 1e9).map(repr), st.integers(0, 999).map(lambda value: f"{value}.0"))
signs = st.sampled_from(["", "-", "+", "--"])


@given(st.lists(st.tuples(st.sampled_from("+-*/"), signs, factors), min_size=1, max_size=8))
def test_arithmetic_is_that_of_python(terms: list[tuple[str, str, str]]) -> None:
    text = "".join(f"{operation}{sign}{factor}" for operation, sign, factor in terms).lstrip("*/")
    try:
        expected = eval(text, {"__builtins__": {}, "pi": math.pi})  # the test made this text of numbers alone
    except ZeroDivisionError:
        expected = math.nan
    if math.isfinite(expected):
        assert number(text) == expected
    else:
        with pytest.raises(SceneError, match="no finite value"):
            number(text)


@pytest.mark.parametrize(
    "shape",
    [
        lambda n: "(" * n,
        lambda n: "(" + "()" * n,
        lambda n: "(" + "a " * n + ")",
        lambda n: "(" + "(a)\n" * n + ")",
        lambda n: "(a" + ";(\n" * n,
        lambda n: "((((" + "a " * n + "))))",
    ],
)
def test_work_grows_with_the_length_only(shape: Callable[[int], str]) -> None:
    small, large = (calls(lambda n=n: read_expression(shape(n), HERE)) for n in (1000, 4000))  # type: ignore[misc]
    assert large <= 4.2 * small


@pytest.mark.parametrize(
    "text",
    ["-" * 10**6, "1*" * 10**6, "9" * 10**6, "1" + "0" * 10**6 + "x", "1e" + "9" * 10**6, "pi" * 10**6],
    ids=range(6),
)
def test_a_megabyte_of_number_ends(text: str) -> None:
    with pytest.raises(SceneError, match=r"^scene\.bddl:3:7: .{1,200}$"):
        number(text)
