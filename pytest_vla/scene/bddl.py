"""BDDL text to s-expressions, with a place for every error, and numbers without eval.

The lexical rules are those of bddl 1.0.1 as LIBERO and VLA-Arena use them: ``;`` starts a comment, tokens are
parentheses and runs of anything else but white space, names do not depend on case. Reading is iterative and linear
in the length of the text, and nesting is bounded, so whoever walks an expression may recurse.
"""

import difflib
import functools
import math
import operator
import re
import warnings
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from pytest_vla.errors import SceneError
from pytest_vla.util.text import printable

MAX_DEPTH = 32  # the deepest file of LIBERO and VLA-Arena has 7
MAX_CHARACTERS = 2 * 1024 * 1024  # the largest such file has 7 thousand

_TOKEN = re.compile(r"[()]|[^\s()]+")
_NAME = re.compile(r"[a-z0-9_][a-z0-9_.\-]*")
_FACTOR = re.compile(r"([+-]*)(?:(pi)|((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?))")


class VlaWarning(UserWarning):
    """An accepted fault in a task file: let pass by ``compat=True``, or because only upstream's rules refuse it."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of a text, and whether unknown words in it are accepted with a warning.

    `told`: called with the word, its expected kind (``section``) and the message, instead of a warning or an error.
    """

    source: str
    compat: bool = False
    told: "Callable[[Atom, str, str], None] | None" = None


@dataclass(frozen=True, slots=True)
class Atom:
    """A word as written. `line` and `column` count from 1; columns count characters, not bytes."""

    text: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class SExpression:
    """A parenthesised list; `line` and `column` are those of its opening parenthesis."""

    items: tuple["Node", ...]
    line: int
    column: int


Node = Atom | SExpression


def read_expression(text: str, origin: Origin, landmarks: Container[str] = frozenset()) -> SExpression:
    """Parse the one parenthesised expression that `text` consists of.

    `landmarks` are the heads of the groups that belong directly under the root, in lower case. If a parenthesis is
    missing, the first landmark that is nested too deep gives the location. Raises SceneError for anything else but one
    balanced expression of at most `MAX_DEPTH` levels and `MAX_CHARACTERS` characters.
    """
    if len(text) > MAX_CHARACTERS:
        raise fail(origin, None, f"{len(text)} characters are too many for a problem, expected up to {MAX_CHARACTERS}")
    root: SExpression | None = None
    starts: list[Atom] = []
    pending: list[list[Node]] = []
    misplaced: Atom | None = None
    for token in _tokens(text):
        if root is not None:
            raise fail(
                origin,
                token,
                f"expected nothing after the end of the problem, found {describe(token)}; remove "
                "it, or the ')' too many before it",
            )
        if token.text == "(":
            if len(starts) == MAX_DEPTH:
                raise fail(origin, token, f"parentheses are nested deeper than {MAX_DEPTH}; look for missing ')' above")
            starts.append(token)
            pending.append([])
        elif not starts:
            raise fail(origin, token, f"expected '(define (problem NAME) ...)', found {describe(token)}")
        elif token.text == ")":
            start = starts.pop()
            group = SExpression(tuple(pending.pop()), start.line, start.column)
            if starts:
                pending[-1].append(group)
            else:
                root = group
        else:
            if misplaced is None and len(starts) > 2 and not pending[-1] and token.text.lower() in landmarks:
                misplaced = token
            pending[-1].append(token)
    if starts and misplaced is not None:
        raise fail(origin, misplaced, f"{describe(misplaced)} is inside another section; close that with ')' first")
    if starts:
        raise fail(origin, starts[-1], "this '(' is never closed; add the missing ')'")
    if root is None:
        raise fail(origin, None, "expected '(define (problem NAME) ...)', found nothing")
    return root


def _tokens(text: str) -> Iterator[Atom]:
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, line in enumerate(lines, start=1):
        for match in _TOKEN.finditer(line.partition(";")[0]):
            yield Atom(match.group(), number, match.start() + 1)


class LocatedToken(Protocol):
    """A token with its line and column in a text."""

    @property
    def line(self) -> int: ...

    @property
    def column(self) -> int: ...


def fail(origin: Origin, item: LocatedToken | None, message: str) -> SceneError:
    """Return the error to raise about `item`, or about the start of the text."""
    line, column = (1, 1) if item is None else (item.line, item.column)
    return SceneError(f"{origin.source}:{line}:{column}: {message}")


def reject_unknown(origin: Origin, node: Atom, what: str, known: Iterable[str], hint: str = "") -> None:
    """Raise that `node` is no known `what`, and list names that may be meant; only warn under ``compat``."""
    message = f"unknown {what} {describe(node)}{hint}"
    if origin.compat and origin.told is None:
        warnings.warn(printable(f"{origin.source}:{node.line}:{node.column}: {message}"), VlaWarning, stacklevel=2)
        return
    names = sorted(known)
    # Bounded on both sides: difflib's cost is the product of the lengths.
    close = difflib.get_close_matches(node.text.lower()[:80], names[:1000], n=3)
    if close:
        message += f"; did you mean {' or '.join(close)}?"
    elif 0 < len(names) <= 30:
        message += f"; expected one of {', '.join(name[:80] for name in names)}"
    if origin.told is not None:
        origin.told(node, what, message)
        return
    raise fail(origin, node, message)


def describe(node: Node) -> str:
    """Return `node` as an error message shows it: one line, of bounded length."""
    if isinstance(node, Atom):
        return repr(node.text if len(node.text) <= 40 else node.text[:37] + "...")
    if not node.items:
        return "'()'"
    first = node.items[0]
    return f"the group that starts with {describe(first)}" if isinstance(first, Atom) else "a group of groups"


def expect_group(node: Node, origin: Origin, expected: str) -> SExpression:
    """Return `node`, which must be a group; `expected` describes it for the error."""
    if not isinstance(node, SExpression):
        raise fail(origin, node, f"expected {expected}, found {describe(node)}")
    return node


def expect_word(node: Node, origin: Origin, expected: str) -> str:
    """Return the lower-case text of `node`, which must be an atom."""
    if not isinstance(node, Atom):
        raise fail(origin, node, f"expected {expected}, found {describe(node)}; a ')' may be missing before it")
    return node.text.lower()


def expect_name(node: Node, origin: Origin, expected: str) -> str:
    """Return the lower-case text of `node`, which must be an identifier.

    Identifiers consist of letters, digits, ``_``, ``.`` and inner ``-``.
    """
    word = expect_word(node, origin, expected)
    if not _NAME.fullmatch(word):
        raise fail(origin, node, f"expected {expected} of letters, digits, '_', '.' and '-', found {describe(node)}")
    return word


def split_head(group: SExpression, origin: Origin, expected: str) -> tuple[Atom, tuple[Node, ...]]:
    """Return the first word of `group`, and the rest."""
    if not group.items or not isinstance(group.items[0], Atom):
        raise fail(origin, group, f"expected {expected}, found {describe(group)}")
    return group.items[0], group.items[1:]


def read_number(node: Node, origin: Origin, expected: str = "a number") -> float:
    """Return the finite value of a number, or of a sum or product with ``pi``.

    Examples: ``-0.3``, ``1e-3`` or ``3*pi/4``.
    """
    word = expect_word(node, origin, expected)
    value = _evaluate(word)
    if value is None:
        raise fail(origin, node, f"expected {expected}, found {describe(node)}; write it like 0.25, -1e-3 or 3*pi/4")
    if not math.isfinite(value):
        raise fail(origin, node, f"expected {expected}, found {describe(node)}, which has no finite value")
    return value


def _evaluate(expression: str) -> float | None:
    """Evaluate arithmetic as Python does: NaN if undefined, None if `expression` is no arithmetic."""
    terms: list[float] = []
    operation, position = "+", 0
    while match := _FACTOR.match(expression, position):
        signs, pi, digits = match.groups()
        factor = math.pi if pi else float(digits)
        factor = -factor if signs.count("-") % 2 else factor
        if math.isinf(factor):
            return math.inf  # else 1/1e999 would pass as 0
        if operation == "*":
            terms[-1] *= factor
        elif operation == "/":
            terms[-1] = terms[-1] / factor if factor else math.nan
        else:
            terms.append(factor if operation == "+" else -factor)
        position = match.end()
        if position == len(expression):
            return functools.reduce(operator.add, terms)
        operation, position = expression[position], position + 1
        if operation not in "+-*/":
            return None
    return None
