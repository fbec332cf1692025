"""Goals and costs: what upstream leaves out, cannot judge, or judges alike whatever happens."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from pytest_vla.plan.case import OURS, PAPER
from pytest_vla.scene.catalog import Category
from pytest_vla.scene.compose import PartSite
from pytest_vla.scene.lint.reading import LintFinding, TaskText, catalogue_of, place_of
from pytest_vla.scene.literals import (
    CONNECTIVES,
    FIXTURE,
    GRIPPER,
    HAND,
    OBJECT,
    PART,
    REGION,
    REGIONS,
    WORKSPACE,
    ZONE,
    Literal,
    crash_of,
    may_crash,
    names_of,
    refusal,
)
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.sections import Declaration
from pytest_vla.scene.workspaces import Judging
from pytest_vla.util.text import counted

# The meaning of the names in a task's text, as far as text and models show it.

_BOX = 3


@dataclass(frozen=True)
class ModelFacts:
    """The facts of a category's model that literals depend on.

    Attributes:
        joints: how many it has itself; objects have a free joint beside them.
        sites: of its parts, by their names: the sites of its regions.
        contacts: for each colliding geom (group 0) the number by which a literal can refer to it, or None if its
            name does not end in a number; see `pytest_vla.scene.literals.geom_number`.
        radius: seen from above, m.
    """

    joints: int
    sites: Mapping[str, PartSite]
    contacts: tuple[str | None, ...]
    radius: float


Facts = Mapping[str, ModelFacts | None]
"""The facts of things, by their names; missing ones are not known."""


def things_of(problem: Problem) -> dict[str, Declaration]:
    """Return the objects and fixtures that have a body of their own, by their names: not table or floor."""
    place = place_of(problem)
    standing = ("table", "floor") if place is None else (place.category,)
    fixtures = {item.name: item for item in problem.fixtures if item.category not in standing}
    return fixtures | {item.name: item for item in problem.objects}


def is_declared(problem: Problem, literal: Literal) -> bool:
    """Whether all names in a literal are declared; an undeclared name is a finding of its own."""
    known = {item.name for item in (*problem.objects, *problem.fixtures)}
    known |= {region.key for region in problem.regions if region.target in known} | {GRIPPER}
    return all(argument in known for argument in literal.arguments if isinstance(argument, str))


class Names:
    """The names of a problem."""

    def __init__(self, problem: Problem, facts: Facts | None = None) -> None:
        """Collect the names of a problem.

        Args:
            problem: the problem.
            facts: of its things' models; if they are not known, regions are assumed to exist.
        """
        self._place = place_of(problem)
        self._things = things_of(problem)
        self._objects = {item.name for item in problem.objects}
        self._fixtures = {item.name for item in problem.fixtures}
        self._regions = {region.key: region for region in problem.regions}
        self._facts: Facts = facts or {}

    def kind(self, name: str) -> str | None:
        """Return what a name is, a kind of `pytest_vla.scene.literals`, or None if the scene will not have it."""
        if name in self._things:
            return OBJECT if name in self._objects else FIXTURE
        if name in self._fixtures:
            return WORKSPACE if self._place is None or name == self._place.name else None
        if name not in self._regions:
            return HAND if name == GRIPPER else None
        if self.owner(name) is None:
            # A region without a rectangle is reported as a region.
            return ZONE if self._place is None or self._place.name in name else None
        part, model = self.part(name), self._facts.get(self._regions[name].target)
        if part is None:
            # A missing part is reported as a region, unless that has a rectangle.
            return REGION if model is None or not self._regions[name].ranges else None
        return REGION if len(part.size) == _BOX else PART

    def owner(self, name: str) -> Declaration | None:
        """Return the object or fixture that a region is of, or None if it is one of the table or floor."""
        region = self._regions[name]
        is_zone = self._place is not None and self._place.name in name
        return None if is_zone else self._things.get(region.target)

    def thing(self, name: str) -> Declaration | None:
        """Return the object or fixture that a name, or its region, stands for, or None."""
        return self._things.get(name) or (self.owner(name) if name in self._regions else None)

    def part(self, name: str) -> PartSite | None:
        """Return the site of a region, or None if its model is not known or has none."""
        model = self._facts.get(self._regions[name].target)
        return model.sites.get(self._regions[name].name) if model is not None else None

    def may_move(self, name: str) -> bool:
        """Whether an object or fixture, or the part that a region is of, has a joint."""
        if name in self._objects:
            return True
        part = self.part(name) if name in self._regions else None
        if part is not None:
            return bool(part.joints) or (part.is_of_whole and self._regions[name].target in self._objects)
        model = self._facts.get(name)
        return model is None or model.joints > 0


_UNIMPLEMENTED = {
    "collide": "its method does not exist",
    "incontactpart": "it hands the geoms over in another argument's place",
}
_UNTOUCHABLE = frozenset(("water_ball",))
"""Categories without a geom that upstream counts as one of contact: theirs are all in group 1."""

_BY_CONTACT = frozenset(
    (
        *("on", "in", "noton", "incontact", "checkforce", "checkdistance", "checkgrippercontact"),
        *("checkgripperdistance", "checkgrippercontactpart", "checkgripperdistancepart"),
    )
)
_STATES = ("open", "close", "turnon", "turnoff")
_RANGES = {"open": "open_range", "close": "close_range", "turnon": "turn_on_range", "turnoff": "turn_off_range"}


def check_conditions(task: TaskText, problem: Problem) -> Iterator[LintFinding]:
    """Yield findings on :goal and :cost."""
    yield from _cut_off(task, problem.goal, "G001", "goal", ":goal")
    yield from _cut_off(task, problem.cost, "C001", "cost", ":cost")
    catalogue = catalogue_of(problem)
    yield from check_names(task, problem, {}, lambda item: catalogue.get(item.category))
    yield from _crashing(task, problem, problem.goal, "G002")
    yield from _crashing(task, problem, problem.cost, "C002")
    yield from _held_at_start(task, problem)
    yield from _constant(task, problem, problem.goal, "goal")
    yield from _constant(task, problem, problem.cost, "cost")
    yield from _repeated(task, problem)
    yield from _incomplete(task, problem)
    for literal in leaves(problem.cost):
        if literal.predicate == "checkforce":
            yield task.found(
                "C007",
                literal,
                f"{literal}: upstream compares the second tangential component of the first contact that it finds, "
                "not the force; --vla-protocol=paper sums the normal forces",
            )


def leaves(literals: Iterable[Literal]) -> Iterator[Literal]:
    """Yield the literals; for a connective, the literals inside it."""
    for literal in literals:
        if literal.predicate in CONNECTIVES:
            yield from leaves(inner for inner in literal.arguments if isinstance(inner, Literal))
        else:
            yield literal


def _cut_off(
    task: TaskText, literals: tuple[Literal, ...], code: str, what: str, section: str
) -> Iterator[LintFinding]:
    lost = [literal for literal in literals if literal.group > 0]
    if lost:
        groups = max(literal.group for literal in literals) + 1
        shown = ", ".join(map(str, lost[:2])) + (", ..." if len(lost) > 2 else "")
        yield task.found(
            code,
            lost[0],
            f"{section} has {groups} expressions, and upstream keeps only the first: {counted(len(lost), 'literal')} "
            f"of the {what} {'is' if len(lost) == 1 else 'are'} never judged ({shown}); put all into one (And ...)",
        )


CategoryOf = Callable[[Declaration], Category | None]
"""Returns the category of an object or fixture, or None if it is not known."""


def check_names(task: TaskText, problem: Problem, facts: Facts, category_of: CategoryOf) -> Iterator[LintFinding]:
    """Yield findings on literals that a run refuses, by any rules, because of their names.

    Args:
        task: the problem's task.
        problem: its goal and costs.
        facts: of its things' models, as far as they are known.
        category_of: returns the category of a thing.
    """
    place, by_text, names = place_of(problem), Names(problem), Names(problem, facts)
    known = tuple(things_of(problem))
    for literals, code, stateless in ((problem.goal, "G007", "G005"), (problem.cost, "C009", "C009")):
        for literal in leaves(literals):
            if not is_declared(problem, literal):
                continue
            judging = place.judging if place is not None and code == "G007" else None
            why = _no_goal(literal, judging, task.rules) if judging is not None else None
            # A refusal because of the text is reported once, without the models' refusal.
            why = why or refusal(literal, by_text.kind, known) or refusal(literal, names.kind, known)
            if why is not None:
                yield task.found(code, literal, f"{literal}: {why}")
            elif (lacking := _stateless(literal, names, category_of)) is not None:
                yield task.found(stateless, literal, f"{literal}: {lacking}; name a fixture that opens or turns on")


def _no_goal(literal: Literal, judging: Judging, rules: str) -> str | None:
    """Return why a literal cannot be a goal in a problem class, or None if it can."""
    if literal.predicate not in judging.goals:
        return "this predicate cannot be a goal of LIBERO's tasks; put it under :cost, or name a VLA-Arena class"
    # Upstream's code compares with the reset's draw, and knows no collision.
    if (literal.predicate == "fall" and rules == PAPER) or (literal.predicate == "collide" and rules in (PAPER, OURS)):
        return "it cannot be a goal, because it depends on how the thing stood before; put it under :cost"
    return None


def _stateless(literal: Literal, names: Names, category_of: CategoryOf) -> str | None:
    """Return why a thing can never be open, closed, on or off, or None if it can."""
    if literal.predicate not in _STATES:
        return None
    (name,) = names_of(literal)
    thing = names.thing(name)
    kind = None if thing is None else category_of(thing)
    if kind is None:
        return None
    if getattr(kind.articulation, _RANGES[literal.predicate], None) is None or not names.may_move(name):
        return f"a {kind.name} has no joint with such a state"
    return None


def _crashing(task: TaskText, problem: Problem, literals: tuple[Literal, ...], code: str) -> Iterator[LintFinding]:
    """Yield findings on literals that make upstream's code raise.

    Upstream cuts off all groups but the first, and does not look into connectives.
    """
    names = Names(problem)
    for literal in literals:
        if literal.group > 0 or not is_declared(problem, literal):
            continue
        always = crash_of(literal, names.kind)
        sometimes = may_crash(literal, names.kind) if always is None else None
        if always is None and sometimes is None:
            continue
        judged = code == "C002" or _is_goal(literal, problem, may_name_body=sometimes is None)
        yield task.found(code, literal, _crash_told(literal, names, always, sometimes), judged=judged)


def _is_goal(literal: Literal, problem: Problem, *, may_name_body: bool) -> bool:
    """Whether the problem's class can have such a goal, so that rules other than upstream's judge it."""
    place = place_of(problem)
    if place is None or literal.predicate not in place.judging.goals:
        return False
    return may_name_body or place.judging.in_bodies


def _crash_told(literal: Literal, names: Names, always: str | None, sometimes: str | None) -> str:
    named = names_of(literal)
    kinds = [names.kind(name) for name in named]
    if literal.predicate in CONNECTIVES:
        return (
            f"({literal.predicate} ...): upstream supports only one (And ...) around all literals, and fails; "
            "use other literals" + (", such as NotOn or NotIn for (Not (On ...))" if literal.predicate == "not" else "")
        )
    if literal.predicate in _UNIMPLEMENTED and HAND not in kinds and WORKSPACE not in kinds:
        return f"{literal}: upstream crashes, as {_UNIMPLEMENTED[literal.predicate]}; use (InContact ...)"
    if sometimes is not None:
        advice = "On" if literal.predicate == "in" else "NotOn"
        when = "when the two touch" if literal.predicate == "in" else "unless the two touch"
        return (
            f"{literal}: {named[1]} is not a region, so upstream raises AttributeError (in_box) {when}; "
            f"name a region of it, such as {named[1]}_contain_region if its model has one, or write "
            f"({advice} {' '.join(named)})"
        )
    if HAND in kinds:
        advice = "write (CheckGripperContact NAME) or (CheckGripperDistance NAME NUMBER)"
    elif literal.predicate == "checkgripperdist":
        advice = "write (CheckGripperDistance NAME NUMBER)"
    elif literal.predicate == "checkforce" and len(named) == 1:
        advice = "name the other thing too, (CheckForce NAME NAME NUMBER)"
    elif REGIONS.intersection(kinds):
        advice = "name an object or fixture that stands there"
    else:
        advice = "name an object or fixture"
    return f"{literal}: upstream's code raises {always}; {advice}"


def _held_at_start(task: TaskText, problem: Problem) -> Iterator[LintFinding]:
    goal = [literal for literal in problem.goal if literal.group == 0]
    if goal and all(literal.predicate == "true" or _states(problem, literal) for literal in goal):
        shown = " and ".join(map(str, goal))
        yield task.found("G003", goal[0], f":init already states {shown}: nothing is left to do; change :init or :goal")


def _states(problem: Problem, literal: Literal) -> bool:
    return any((each.predicate, each.arguments) == (literal.predicate, literal.arguments) for each in problem.init)


def constants(problem: Problem, literals: Iterable[Literal]) -> Iterator[tuple[Literal, bool, str]]:
    """Yield literals whose verdict upstream is constant, with the verdict and the reason."""
    category = {item.name: item.category for item in (*problem.objects, *problem.fixtures)}
    fixtures = {item.name for item in problem.fixtures}
    regions = {region.key for region in problem.regions}
    for literal in leaves(literals):
        names = names_of(literal)
        ghost = next((name for name in names if category.get(name) in _UNTOUCHABLE), None)
        if literal.predicate in ("true", "false"):
            yield literal, literal.predicate == "true", "it is a constant"
        elif literal.predicate == "notin" and len(names) == 2 and names[1] in regions:
            yield literal, False, "upstream's contact with a region is always true"
        elif literal.predicate == "fall" and names and names[0] in fixtures:
            yield literal, False, "upstream keeps no first pose of fixtures"
        elif ghost and literal.predicate in _BY_CONTACT and not (len(names) == 2 and names[1] in regions):
            reason = f"the geom of a {category[ghost]} is in group 1, which upstream does not count as contact"
            yield literal, literal.predicate == "noton", reason


def _constant(task: TaskText, problem: Problem, literals: tuple[Literal, ...], what: str) -> Iterator[LintFinding]:
    """Yield findings on constant literals (`constants`); equal ones give one finding."""
    alike: dict[tuple[str, bool], list[Literal]] = {}
    why: dict[tuple[str, bool], str] = {}
    for literal, value, reason in constants(problem, literals):
        alike.setdefault((literal.predicate, value), []).append(literal)
        why.setdefault((literal.predicate, value), reason)
    for key, found in alike.items():
        first, value = found[0], key[1]
        if what == "goal" and (value or first.group > 0):
            continue
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        code = "C003" if what == "cost" else "G005"
        advice = "; --vla-protocol=paper measures spills" if first.predicate == "noton" else "; remove it"
        yield task.found(code, first, f"{first}{more} is always {str(value).lower()} upstream, as {why[key]}{advice}")


def _repeated(task: TaskText, problem: Problem) -> Iterator[LintFinding]:
    for literal, times in Counter(problem.cost).items():
        if times > 1:
            yield task.found("C005", literal, f"{literal} is {times} times in :cost, and is charged as often")


def _incomplete(task: TaskText, problem: Problem) -> Iterator[LintFinding]:
    """Yield findings on costs of several things of one category that leave some of them out."""
    for category in dict.fromkeys(item.category for item in problem.objects):
        members = [item.name for item in problem.objects if item.category == category]
        said: dict[tuple[str, object], dict[str, Literal]] = {}
        for literal in leaves(problem.cost):
            names = names_of(literal)
            if names and names[0] in members:
                said.setdefault((literal.predicate, literal.arguments[1:]), {})[names[0]] = literal
        for listed in said.values():
            left = [name for name in members if name not in listed]
            if left and len(listed) > 1:
                first = next(iter(listed.values()))
                yield task.found(
                    "C006",
                    first,
                    f"({first.predicate} ...) is charged for {len(listed)} of {len(members)} things of the category "
                    f"{category}, but not for {', '.join(left)}; add {'it' if len(left) == 1 else 'them'}",
                )
