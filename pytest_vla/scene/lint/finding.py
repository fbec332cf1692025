"""What a linter finds, and every code that it may have."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from pytest_vla.errors import VlaError
from pytest_vla.scene.catalog import CATEGORIES, Categories
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.workspaces import Workspace, workspace

# What a problem's class brings, where it is known.


def place_of(problem: Problem) -> Workspace | None:
    """The workspace of a problem; None where its class is not known."""
    with suppress(VlaError):
        return workspace(problem.name, problem.source)
    return None


def catalogue_of(problem: Problem) -> Categories:
    """The categories that a problem's class knows, beside those of files."""
    place = place_of(problem)
    return CATEGORIES if place is None or place.categories is None else place.categories


ERROR, WARNING, NOTE = LEVELS = ("error", "warning", "note")
"""An error: upstream crashes, or judges something else than the file says. A note is hardly ever a defect."""


@dataclass(frozen=True)
class Code:
    """A sort of finding.

    Attributes:
        name: stable; a program may compare it.
        level: one of `LEVELS`.
        meaning: what is wrong.
        why: what upstream makes of it.
        simulated: it is found by ``--simulate`` only.
        elsewhere: its level by rules that judge what upstream's code raises at, those of the paper and ours; empty: the
            same.
    """

    name: str
    level: str
    meaning: str
    why: str
    simulated: bool = False
    elsewhere: str = ""


CODES: Mapping[str, Code] = {
    code.name: code
    for code in (
        Code("S001", ERROR, "A section, an attribute or a kind of something is not known.", "It is passed over."),
        Code("S002", ERROR, "The text cannot be read as a task.", "It is refused, or read as something else."),
        Code("S003", ERROR, "A predicate is not known.", "An assertion fails when it is judged; `:init` ignores it."),
        Code("S004", ERROR, "A name is not declared.", "A KeyError when it is judged or placed."),
        Code("S005", ERROR, "The problem class is not known.", "A KeyError when the task is loaded."),
        Code("G001", ERROR, "The goal is cut off.", "Only the first expression of `:goal` is kept."),
        Code(
            "G002",
            ERROR,
            "Judging the goal crashes.",
            "An exception; VLA-Arena's evaluator drops the episode. Our and the paper's rules judge VLA-Arena's tasks.",
            elsewhere=WARNING,
        ),
        Code("G003", ERROR, "The goal holds at the start.", "The episode succeeds in its first step."),
        Code("G004", ERROR, "The goal asks for less than the prompt.", "A part of the task is not judged."),
        Code("G005", ERROR, "The goal can never hold.", "No episode succeeds."),
        Code("G006", WARNING, "The goal names a fixture and not its part.", "`On` looks at the fixture's origin."),
        Code("G007", ERROR, "Nothing can judge the goal by what it names.", "The task cannot run, by any rules."),
        Code("C001", ERROR, "The cost is cut off.", "Only the first expression of `:cost` is kept."),
        Code(
            "C002",
            ERROR,
            "Judging a cost crashes.",
            "An exception; VLA-Arena's evaluator drops the episode. Our and the paper's rules charge it.",
            elsewhere=WARNING,
        ),
        Code("C003", ERROR, "A cost is always charged, or never.", "It measures nothing."),
        Code("C004", WARNING, "A cost is charged of an arm that does nothing.", "No policy can avoid it.", True),
        Code("C005", NOTE, "A cost stands more than once.", "Each of them is charged."),
        Code("C006", WARNING, "A cost leaves out one of several things alike.", "That one is not measured."),
        Code("C007", WARNING, "`CheckForce` is not what it says.", "It compares one contact's tangential force."),
        Code("C008", ERROR, "A part is no geom that collides.", "A list without one never fires; the task cannot run."),
        Code("C009", ERROR, "Nothing can judge a cost by what it names.", "The task cannot run, by any rules."),
        Code("O001", ERROR, "A thing is declared and never placed.", "It stays where its model begins."),
        Code("O002", WARNING, "`:obj_of_interest` names what is not declared.", "Segmentation lacks it."),
        Code("O003", ERROR, "A category is not known.", "A KeyError when the task is loaded."),
        Code("O004", ERROR, "A thing is placed twice.", "An assertion fails, or the first place is lost."),
        Code("O005", ERROR, "A thing stands on what is not placed before it.", "It has no place."),
        Code("O006", ERROR, "A category is listed twice.", "The later list takes the place of the earlier one."),
        Code("R001", WARNING, "Two regions have the same key.", "The last one counts."),
        Code("R002", ERROR, "A region is out of the arm's reach.", "The task cannot be done."),
        Code("R003", NOTE, "A region is smaller than what is placed in it.", "Places are drawn outside of it."),
        Code("R004", WARNING, "A region lies on something that is not declared.", "It is ignored."),
        Code("R005", ERROR, "A region names a part that its target does not have.", "A KeyError when it is used."),
        Code("R006", ERROR, "A region of table or floor has no rectangle.", "An exception when the task is loaded."),
        Code("R007", WARNING, "A region of the goal has several rectangles.", "The goal looks at the first."),
        Code("M001", ERROR, "A mover cannot be moved.", "An exception in the first step."),
        Code("M002", WARNING, "An attribute of a motion has no effect.", "It is read and never used."),
        Code("M003", WARNING, "A circle is tilted.", "The thing is pulled below its height for half of each turn."),
        Code("M004", NOTE, "A period is odd.", "The motion repeats one step earlier than it says."),
        Code("M005", WARNING, "A motion does not begin where its thing stands.", "The thing is torn there."),
        Code("M006", WARNING, "A waypoint's direction has no effect.", "(0 -1 0) becomes no rotation."),
        Code("M007", WARNING, "A mover is named first in `InContact`.", "It stops only where it is named second."),
        Code(
            "M008",
            ERROR,
            "A motion is written as the paper prints it.",
            "An exception when the episode begins. Our and the paper's rules read it.",
            elsewhere=WARNING,
        ),
        Code("P001", ERROR, "The prompt does not name what the goal is about.", "Success is of another task."),
        Code("P002", WARNING, "A word of the prompt is misspelt.", "Policies are asked something odd."),
        Code("P003", WARNING, "The file's name and the prompt name other things.", "One of them is another task."),
        Code(
            "P004",
            WARNING,
            "The file's name and the prompt differ.",
            "LIBERO takes the instruction from the name, VLA-Arena from `:language`.",
        ),
        Code("P005", NOTE, "The prompt calls a thing as another category is called.", "Policies may know that one."),
        Code("I001", WARNING, "What the task begins with does not hold after settling.", "The prompt is false."),
        Code("I002", ERROR, "Init states are not of this task.", "Upstream refuses them or sets something else."),
        Code("I003", WARNING, "Things are thrown apart as the scene settles.", "They overlap in the init state."),
        Code("I004", ERROR, "The scene cannot be built.", "The task cannot run.", True),
    )
}


@dataclass(frozen=True, order=True)
class Finding:
    """One finding. `line` and `column` count from 1; they are 1 where a whole file is meant.

    `message` says what it is, why it matters and how to mend it. `level` is its code's, unless the rules that the task
    runs by make it less.
    """

    file: str
    line: int
    column: int
    code: str
    message: str
    level: str = ""

    def __post_init__(self) -> None:
        if not self.level:
            object.__setattr__(self, "level", CODES[self.code].level)
