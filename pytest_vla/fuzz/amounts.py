"""The amounts of a change: scale them down, or reset single numbers to their benign value.

A parameter that is an amount has a benign value, which changes nothing; one that is a manner (a heading, a colour, a
seed) has none and stays as it is.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from pytest_vla.scene.variation import Params
from pytest_vla.vary.space import ANGLE, NUMBER, WHOLE, Parameter


@dataclass(frozen=True)
class Component:
    """One number, text or thing of a change that is not benign.

    Attributes:
        name: of the parameter.
        at: its place in lists of lists; for a list of choices the place in the list; empty for the whole parameter.
    """

    name: str
    at: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.name + "".join(f"[{index}]" for index in self.at)


def less(space: Sequence[Parameter], params: Params, share: float, only: Component | None = None) -> dict[str, Any]:
    """Scale the numbers of a change toward their benign values.

    Whole numbers are rounded away from the benign value, so that none is lost at a share above 0. Parameters without an
    order (texts, choices, optional ones) stay.

    Args:
        space: of the kind.
        params: of its space.
        share: 1 keeps the change, 0 makes its numbers benign.
        only: the one number to scale, or None for all.
    """
    found = dict(params)
    for each in space:
        if each.name in params and _is_scaled(each) and (only is None or only.name == each.name):
            value = params[each.name]
            if only is not None:
                found[each.name] = _put(value, only.at, _scaled(each, _at(value, only.at), share))
            else:
                found[each.name] = _scaled(each, value, share)
    return found


def scaled_components(space: Sequence[Parameter], params: Params) -> tuple[Component, ...]:
    """Return those of `components` that are numbers, which can be scaled."""
    scaled = {each.name for each in space if _is_scaled(each)}
    return tuple(each for each in components(space, params) if each.name in scaled)


def value_at(params: Params, component: Component) -> Any:
    """Return the value of a component."""
    return _at(params[component.name], component.at)


def put(params: Params, component: Component, value: Any) -> dict[str, Any]:
    """Return parameters with another value for one component."""
    return {**params, component.name: _put(params[component.name], component.at, value)}


def nearby(space: Sequence[Parameter], params: Params, generator: Random, reach: float = 0.25) -> dict[str, Any]:
    """Return a change of the same kind with slightly different numbers, within bounds.

    Args:
        space: of the kind.
        params: of its space.
        generator: the same state gives the same change.
        reach: standard deviation, as a share of each number's range.
    """
    found = dict(params)
    for each in space:
        is_turned = each.form == ANGLE and not each.parts
        if each.name in params and (_is_scaled(each) or is_turned):
            found[each.name] = _moved(each, params[each.name], generator, reach)
    return found


def can_be_less(space: Sequence[Parameter], params: Params) -> bool:
    """Whether `less` makes any difference."""
    return less(space, params, 0.0) != dict(params)


def components(space: Sequence[Parameter], params: Params) -> tuple[Component, ...]:
    """Return all amounts that are not benign, in the space's order."""
    return tuple(component for each in space for component in _components(each, params))


def without(space: Sequence[Parameter], params: Params, removed: Iterable[Component]) -> dict[str, Any]:
    """Return the change with some of its `components` made benign."""
    by_name = {each.name: each for each in space}
    found = dict(params)
    listed: dict[str, set[int]] = {}
    for component in removed:
        parameter = by_name[component.name]
        if parameter.many:
            listed.setdefault(component.name, set()).add(component.at[0])
        elif component.at:
            found[component.name] = _put(found[component.name], component.at, parameter.benign)
        elif parameter.benign is None:
            del found[component.name]
        else:
            found[component.name] = parameter.benign_value()
    for name, places in listed.items():
        found[name] = [value for place, value in enumerate(params[name]) if place not in places]
    return found


def distance(space: Sequence[Parameter], params: Params) -> float:
    """Return the largest distance from benign, as a share of each number's range; 1 for others that are not benign."""
    return max((_distance(space, params, each) for each in components(space, params)), default=0.0)


def side(space: Sequence[Parameter], params: Params) -> int:
    """Return the side of benign on which its largest number is, -1 or 1; 0 without a number."""
    scaled = {each.name: each for each in space if _is_scaled(each)}
    found = [each for each in components(space, params) if each.name in scaled]
    if not found:
        return 0
    largest = max(found, key=lambda each: _distance(space, params, each))
    return 1 if _at(params[largest.name], largest.at) > scaled[largest.name].benign else -1


def _distance(space: Sequence[Parameter], params: Params, component: Component) -> float:
    parameter = next(each for each in space if each.name == component.name)
    if not _is_scaled(parameter):
        return 1.0
    value = _at(params[component.name], component.at)
    end = parameter.high if value > parameter.benign else parameter.low
    return float(min(abs(value - parameter.benign) / abs(end - parameter.benign), 1.0))


def _moved(parameter: Parameter, value: Any, generator: Random, reach: float) -> Any:
    if isinstance(value, (list, tuple)):
        return [_moved(parameter, each, generator, reach) for each in value]
    low, high = parameter.low, parameter.high
    moved = value + generator.gauss(0, reach) * (high - low)
    if parameter.form == ANGLE:
        return low + (moved - low) % (high - low)
    # What is benign stays so: other numbers than those that are changed would be another cause.
    if value == parameter.benign:
        return value
    moved = min(max(moved, low), high)
    return int(min(max(round(moved), low), high)) if parameter.form == WHOLE else moved


def _is_scaled(parameter: Parameter) -> bool:
    return parameter.form in (NUMBER, WHOLE) and parameter.benign is not None and not parameter.parts


def _scaled(parameter: Parameter, value: Any, share: float) -> Any:
    if isinstance(value, (list, tuple)):
        return [_scaled(parameter, each, share) for each in value]
    way = share * (value - parameter.benign)
    if parameter.form == WHOLE:
        # A product such as 0.1 * 30 may be a little more than it should be.
        way = math.copysign(math.ceil(abs(way) - 1e-9), way)
        return int(parameter.benign + way)
    return parameter.benign + way


def _components(parameter: Parameter, params: Params) -> Iterator[Component]:
    if parameter.name not in params or not parameter.is_amount:
        return
    value = params[parameter.name]
    if parameter.many:
        yield from (Component(parameter.name, (place,)) for place in range(len(value)))
    elif parameter.benign is None or parameter.parts or not parameter.shape:
        if parameter.benign is None or value != parameter.benign_value():
            yield Component(parameter.name)
    else:
        yield from (
            Component(parameter.name, at) for at in _places(parameter.shape) if _at(value, at) != parameter.benign
        )


def _places(shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    if not shape:
        yield ()
        return
    for index in range(shape[0]):
        yield from ((index, *rest) for rest in _places(shape[1:]))


def _at(value: Any, at: Sequence[int]) -> Any:
    for index in at:
        value = value[index]
    return value


def _put(value: Any, at: Sequence[int], new: Any) -> Any:
    if not at:
        return new
    return [_put(each, at[1:], new) if index == at[0] else each for index, each in enumerate(value)]
