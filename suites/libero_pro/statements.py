"""What a task's file says of its objects and fixtures: which there are, and what facts and goal ask of them."""

from collections.abc import Iterator

from pytest_vla.scene.literals import Literal
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.sections import Declaration
from pytest_vla.scene.workspaces import workspace

STATES = {"open": "open_range", "close": "close_range", "turnon": "turn_on_range", "turnoff": "turn_off_range"}
"""Predicates that state a joint, each with the range of an articulation that it is about."""


def declared(problem: Problem) -> dict[str, Declaration]:
    """All fixtures and objects, by name."""
    return {item.name: item for item in (*problem.fixtures, *problem.objects)}


def of_interest(problem: Problem) -> tuple[str, ...]:
    """Objects and fixtures of interest, also where their regions are."""
    here = declared(problem)
    targets = {region.key: region.target for region in problem.regions}
    named = (name if name in here else targets.get(name, "") for name in problem.objects_of_interest)
    place = workspace(problem.name, problem.source).category
    return tuple(dict.fromkeys(name for name in named if name in here and here[name].category != place))


def bodies_of(literal: Literal, problem: Problem) -> Iterator[str]:
    """The fixtures and objects that a literal names, also by their regions."""
    here = declared(problem)
    targets = {region.key: region.target for region in problem.regions}
    for argument in literal.arguments:
        if isinstance(argument, Literal):
            yield from bodies_of(argument, problem)
        elif isinstance(argument, str):
            name = argument if argument in here else targets.get(argument, "")
            yield from [name] if name in here else []


def asked_of(problem: Problem, category: str) -> tuple[set[str], set[str]]:
    """Sites and states that facts and goal name of a category's objects or fixtures."""
    names = {item.name for item in declared(problem).values() if item.category == category}
    sites = {region.key: region.name for region in problem.regions if region.target in names}
    asked: tuple[set[str], set[str]] = set(), set()

    def read(literal: Literal) -> None:
        for argument in literal.arguments:
            if isinstance(argument, Literal):
                read(argument)
            elif argument in sites or argument in names:
                asked[0].update([sites[str(argument)]] if argument in sites else [])
                asked[1].update([literal.predicate] if literal.predicate in STATES else [])

    for literal in (*problem.init, *problem.goal, *problem.cost):
        read(literal)
    return asked


def bearing_of(problem: Problem) -> Iterator[str]:
    """Objects and fixtures on or in which facts and goal have something."""
    for literal in (*problem.init, *problem.goal):
        if len(literal.arguments) == 2:
            yield from bodies_of(Literal(literal.predicate, literal.arguments[1:]), problem)
