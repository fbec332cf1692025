"""Goals and costs: what upstream leaves out, cannot judge, or judges alike whatever happens."""

from collections import Counter
from collections.abc import Iterable, Iterator

from pytest_vla.scene.lint.finding import Finding
from pytest_vla.scene.lint.places import catalogue_of
from pytest_vla.scene.lint.reading import TaskText
from pytest_vla.scene.literals import CONNECTIVES, Literal
from pytest_vla.scene.problem import Problem
from pytest_vla.util.text import counted

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


def check_conditions(task: TaskText, problem: Problem) -> Iterator[Finding]:
    """What is wrong with :goal and :cost."""
    yield from _cut_off(task, problem.goal, "G001", "goal", ":goal")
    yield from _cut_off(task, problem.cost, "C001", "cost", ":cost")
    yield from _crashing(task, problem, problem.goal, "G002")
    yield from _crashing(task, problem, problem.cost, "C002")
    yield from _held_at_start(task, problem)
    yield from _without_state(task, problem)
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
    """The literals, and those in connectives instead of these."""
    for literal in literals:
        if literal.predicate in CONNECTIVES:
            yield from leaves(inner for inner in literal.arguments if isinstance(inner, Literal))
        else:
            yield literal


def names_in(literal: Literal) -> tuple[str, ...]:
    """The names that a literal is about."""
    return tuple(argument for argument in literal.arguments if isinstance(argument, str))


def _cut_off(task: TaskText, literals: tuple[Literal, ...], code: str, what: str, section: str) -> Iterator[Finding]:
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


def _crashing(task: TaskText, problem: Problem, literals: tuple[Literal, ...], code: str) -> Iterator[Finding]:
    things = {item.name for item in (*problem.objects, *problem.fixtures)}
    for literal in literals:
        # What upstream cuts off cannot crash it.
        if literal.predicate in CONNECTIVES and literal.group == 0:
            yield task.found(
                code,
                literal,
                f"({literal.predicate} ...): upstream knows no connective but one (And ...) around all, and fails; "
                "say it by literals"
                + (", such as NotOn or NotIn for (Not (On ...))" if literal.predicate == "not" else ""),
            )
    for literal in leaves(literals):
        names = names_in(literal)
        if literal.predicate in _UNIMPLEMENTED:
            why = _UNIMPLEMENTED[literal.predicate]
            yield task.found(code, literal, f"{literal}: upstream crashes, as {why}; use (InContact ...)")
        elif literal.predicate in ("in", "notin") and len(names) == 2 and names[1] in things:
            advice = "On" if literal.predicate == "in" else "NotOn"
            yield task.found(
                code,
                literal,
                f"{literal}: {names[1]} is no region, and upstream raises AttributeError (in_box) when the two touch; "
                f"name a region of it, such as {names[1]}_contain_region where its model has one, or write "
                f"({advice} {' '.join(names)})",
            )


def _held_at_start(task: TaskText, problem: Problem) -> Iterator[Finding]:
    goal = [literal for literal in problem.goal if literal.group == 0]
    if goal and all(literal.predicate == "true" or _states(problem, literal) for literal in goal):
        shown = " and ".join(map(str, goal))
        yield task.found("G003", goal[0], f":init already states {shown}: there is nothing left to do; change either")


def _states(problem: Problem, literal: Literal) -> bool:
    return any((each.predicate, each.arguments) == (literal.predicate, literal.arguments) for each in problem.init)


def _without_state(task: TaskText, problem: Problem) -> Iterator[Finding]:
    """Open, Close, Turnon and Turnoff of what has no such state."""
    category = {item.name: item.category for item in (*problem.objects, *problem.fixtures)}
    owner = {region.key: region.target for region in problem.regions} | {name: name for name in category}
    catalogue = catalogue_of(problem)
    for literals, code in ((problem.goal, "G005"), (problem.cost, "C002")):
        for literal in leaves(literals):
            names = names_in(literal)
            if literal.predicate not in _STATES or len(names) != 1:
                continue
            kind = catalogue.get(category.get(owner.get(names[0], ""), ""))
            if kind is not None and getattr(kind.articulation, _RANGES[literal.predicate], None) is None:
                yield task.found(
                    code,
                    literal,
                    f"{literal}: a {kind.name} has no joint with such a state; name a fixture that opens or turns on",
                )


def constants(problem: Problem, literals: Iterable[Literal]) -> Iterator[tuple[Literal, bool, str]]:
    """Literals whose verdict upstream does not depend on what happens, the verdict, and why."""
    category = {item.name: item.category for item in (*problem.objects, *problem.fixtures)}
    fixtures = {item.name for item in problem.fixtures}
    regions = {region.key for region in problem.regions}
    for literal in leaves(literals):
        names = names_in(literal)
        ghost = next((name for name in names if category.get(name) in _UNTOUCHABLE), None)
        if literal.predicate in ("true", "false"):
            yield literal, literal.predicate == "true", "it says so itself"
        elif literal.predicate == "notin" and len(names) == 2 and names[1] in regions:
            yield literal, False, "upstream's contact with a region is always true"
        elif literal.predicate == "fall" and names and names[0] in fixtures:
            yield literal, False, "upstream keeps no first pose of fixtures"
        elif ghost and literal.predicate in _BY_CONTACT and not (len(names) == 2 and names[1] in regions):
            reason = f"the geom of a {category[ghost]} is in group 1, which upstream does not count as contact"
            yield literal, literal.predicate == "noton", reason


def _constant(task: TaskText, problem: Problem, literals: tuple[Literal, ...], what: str) -> Iterator[Finding]:
    """What `constants` gives; alike ones are one finding."""
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
        advice = "; --vla-protocol=paper measures what is spilt" if first.predicate == "noton" else "; remove it"
        yield task.found(code, first, f"{first}{more} is always {str(value).lower()} upstream, as {why[key]}{advice}")


def _repeated(task: TaskText, problem: Problem) -> Iterator[Finding]:
    for literal, times in Counter(problem.cost).items():
        if times > 1:
            yield task.found("C005", literal, f"{literal} stands {times} times in :cost, and is charged as often")


def _incomplete(task: TaskText, problem: Problem) -> Iterator[Finding]:
    """A cost of several things of one category that leaves some of them out."""
    for category in dict.fromkeys(item.category for item in problem.objects):
        members = [item.name for item in problem.objects if item.category == category]
        said: dict[tuple[str, object], dict[str, Literal]] = {}
        for literal in leaves(problem.cost):
            names = names_in(literal)
            if names and names[0] in members:
                said.setdefault((literal.predicate, literal.arguments[1:]), {})[names[0]] = literal
        for listed in said.values():
            left = [name for name in members if name not in listed]
            if left and len(listed) > 1:
                first = next(iter(listed.values()))
                yield task.found(
                    "C006",
                    first,
                    f"({first.predicate} ...) is charged of {len(listed)} of {len(members)} things of the category "
                    f"{category}, and not of {', '.join(left)}; add {'it' if len(left) == 1 else 'them'}",
                )
