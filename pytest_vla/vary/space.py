"""Parameter spaces of kinds of variation: each parameter's name, form, bounds, and the value that changes nothing."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Params

FORMS = NUMBER, WHOLE, ANGLE, SEED, TEXT, CHOICE, LISTED = (
    "number",
    "whole number",
    "angle",
    "seed",
    "text",
    "choice",
    "listed",
)
"""A `SEED` has no order, so that there is nothing between two. What is `LISTED` is a benchmark's or a user's own entry:
there are others, of its list, and nothing between them."""

# What was rounded may be beyond a bound by so much.
_SLACK = 1e-6
_LONGEST = 10_000


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kind.

    Attributes:
        name: its key in the `Params`.
        form: one of `FORMS`.
        low, high: bounds, both included; a whole circle for an angle.
        benign: the value that changes nothing, for each number if there are several; None if the parameter sets the
            manner and not the amount, so that nothing is gained by changing it.
        shape: the shape of nested lists; empty for a single value.
        choices: the values to choose from.
        many: whether the value is a list of distinct choices, in any order.
        parts: for a value that is a list of different things, one parameter for each; `form` is then not used.
        optional: whether it may be left out, which changes nothing.
        unit: such as ``m``, or empty.
    """

    name: str
    form: str = NUMBER
    low: float = -math.inf
    high: float = math.inf
    benign: Any = None
    shape: tuple[int, ...] = ()
    choices: tuple[Any, ...] = ()
    many: bool = False
    parts: "tuple[Parameter, ...]" = ()
    optional: bool = False
    unit: str = ""

    @property
    def is_amount(self) -> bool:
        """Whether the parameter is an amount that can be reduced."""
        return self.benign is not None or self.optional

    def benign_value(self) -> Any:
        """Return the benign value as in the `Params`, or None if there is none."""
        if self.benign is None:
            return None
        return list(self.benign) if self.many else _filled(self.shape, self.benign)

    def complaint(self, value: object) -> str:
        """Return a short description of a value's error, or empty if it is valid."""
        if self.parts:
            return _of_parts(self.parts, value)
        if self.many:
            return _of_many(self.choices, value)
        if not self.shape:
            return self._of_one(value)
        found = list(_leaves(value, self.shape))
        if len(found) != math.prod(self.shape):
            return f"expected {' x '.join(map(str, self.shape))} values, found {_shown(value)}"
        return next(filter(None, map(self._of_one, found)), "")

    def in_words(self, most: int = 6) -> str:
        """Return what the values may be, in Markdown, such as ``number, 0 to 0.5 m``, with up to `most` choices."""
        if self.parts:
            return "a list: " + "; ".join(f"{each.name}: {each.in_words(most)}" for each in self.parts)
        if self.form in (CHOICE, LISTED) or self.many:
            some = ", ".join(f"`{each}`" for each in self.choices[:most])
            more = f" and {len(self.choices) - most} more" if len(self.choices) > most else ""
            return f"{'distinct ones' if self.many else 'one'} of {some}{more}"
        unit = f" {self.unit}" if self.unit else ""
        bounds = "" if self.low == -math.inf else f", {self.low:.10g} to {self.high:.10g}{unit}"
        return f"{self.form}{bounds}" + f" ({' x '.join(map(str, self.shape))} of them)" * bool(self.shape)

    def _of_one(self, value: object) -> str:
        if self.form == TEXT:
            fits = isinstance(value, str) and len(value) <= _LONGEST
            return "" if fits else f"expected a text of up to {_LONGEST} characters, found {_shown(value)}"
        if self.form in (CHOICE, LISTED):
            some = ", ".join(map(_shown, self.choices[:5])) + (", ..." if len(self.choices) > 5 else "")
            return "" if value in self.choices else f"expected one of {some}; found {_shown(value)}"
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        whole = self.form in (WHOLE, SEED)
        if not is_number or not isinstance(value, (int, float)) or (whole and not isinstance(value, int)):
            return f"expected a {WHOLE if whole else NUMBER}, found {_shown(value)}"
        if not self.low - _SLACK <= value <= self.high + _SLACK:
            unit = f" {self.unit}" if self.unit else ""
            return f"expected {self.low:g} to {self.high:g}{unit}, found {_shown(value)}"
        return ""


Space = Callable[[Task], tuple[Parameter, ...]]
"""Gives the parameters that a kind has of a task. Raises VlaError where the task cannot have the kind."""


def complaints(space: Sequence[Parameter], params: Params) -> tuple[str, ...]:
    """Return the errors in `params`, each with the parameter's name; facts beside the parameters are not checked."""
    found = []
    for each in space:
        if each.name in params:
            if wrong := each.complaint(params[each.name]):
                found.append(f"{each.name}: {wrong}")
        elif not each.optional:
            found.append(f"{each.name} is missing")
    return tuple(found)


def benign(space: Sequence[Parameter], params: Params) -> dict[str, Any]:
    """Return `params` with all amounts set to their benign values."""
    found = {name: value for name, value in params.items() if not any(each.name == name for each in space)}
    for each in space:
        if each.benign is not None:
            found[each.name] = each.benign_value()
        elif not each.optional and each.name in params:
            found[each.name] = params[each.name]
    return found


def _of_parts(parts: Sequence[Parameter], value: object) -> str:
    if not isinstance(value, (list, tuple)) or len(value) != len(parts):
        return f"expected {', '.join(part.name for part in parts)}, found {_shown(value)}"
    told = ((part.name, part.complaint(each)) for part, each in zip(parts, value, strict=True))
    return next((f"{name}: {wrong}" for name, wrong in told if wrong), "")


def _of_many(choices: Sequence[Any], value: object) -> str:
    if not isinstance(value, (list, tuple)) or any(each in value[:at] for at, each in enumerate(value)):
        return f"expected a list without repeats, found {_shown(value)}"
    strange = [each for each in value if each not in choices]
    return f"{_shown(strange[0])} is not one of {', '.join(map(_shown, choices))}" if strange else ""


def _leaves(value: object, shape: Sequence[int]) -> Iterator[object]:
    """Yield the values of nested lists; fewer values if they do not have the shape."""
    if not shape:
        yield value
    elif isinstance(value, (list, tuple)) and len(value) == shape[0]:
        for each in value:
            yield from _leaves(each, shape[1:])


def _filled(shape: Sequence[int], value: Any) -> Any:
    return [_filled(shape[1:], value) for _ in range(shape[0])] if shape else value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
