"""Which conditions of an episode decide whether it can be compared with another, and which only round: one table."""

from typing import Literal, NamedTuple

Effect = Literal["refuses", "refuses costs", "warns"]
"""Of a condition that differs: nothing is compared; costs are not compared, and what was done is; it is told."""


class Condition(NamedTuple):
    """A row of `CONDITIONS`.

    Attributes:
        name: of the condition; one that ends with a dot: all that begin so and have no row of their own.
        effect: where it differs.
        about: what it is, for people.
        why: the effect is that.
        must_be_known: whether nothing is refused where one side does not say it, as records of earlier versions and
            published logs may not; else not saying it is a value, such as the default.
    """

    name: str
    effect: Effect
    about: str
    why: str
    must_be_known: bool = False


CONDITIONS = (
    # First, since another simulator compiles another scene, and may begin elsewhere.
    Condition("provenance.mujoco", "refuses", "MuJoCo", "another version moves otherwise", True),
    Condition("provenance.robosuite", "refuses", "robosuite", "another version moves otherwise", True),
    Condition("protocol.max_steps", "refuses", "step budget", "more steps, more successes"),
    Condition("protocol.rules", "refuses", "success rule", "the paper's goals and its code's are others"),
    Condition("protocol.", "refuses", "protocol", "it is what every episode of a suite has in common"),
    Condition("goal", "refuses", "success rule", "another goal is another task", True),
    Condition("instruction", "refuses", "instruction", "the policy was told something else", True),
    Condition("replan", "refuses", "replan length", "a policy that is asked more often does otherwise"),
    Condition("scene", "refuses", "scene", "its files or assets are others: things move or look otherwise", True),
    Condition("provenance.stand_ins", "refuses", "stand-in assets", "things look otherwise", True),
    Condition("init_state", "refuses", "init state", "the same seed began elsewhere"),
    Condition("variation", "refuses", "variation", "its label names another dimension, kind or level"),
    Condition("parameters", "refuses", "variation's parameters", "the same label was drawn otherwise"),
    Condition("world.", "refuses", "simulator of the suite's own world", "it says that its results depend on it"),
    Condition("provenance.premises", "refuses", "premises (--vla-premises)", "other episodes are invalid"),
    Condition("provenance.feasible", "refuses", "feasible (--vla-feasible)", "other episodes are invalid"),
    Condition("provenance.stop_when", "refuses", "alarm (--vla-stop-when)", "it stops other episodes"),
    Condition("charged", "refuses costs", "costs that were watched", "other things were charged"),
    Condition("provenance.costs", "refuses costs", "collisions (--vla-costs)", "other contacts were charged"),
    Condition("provenance.declared_costs", "refuses costs", "your own costs (--vla-cost)", "the file says otherwise"),
    Condition(
        "provenance.ledger", "refuses costs", "ledger", "before, it looked once a control step: impacts were missed"
    ),
    Condition("provenance.rescored", "refuses costs", "charging", "from recorded states, not as the episode ran"),
    Condition("group", "warns", "group of your own tests", "the marker names another"),
    Condition("provenance.kernels", "warns", "kernels", "they round otherwise"),
    Condition("provenance.blas", "warns", "BLAS kernels", "they round otherwise"),
    Condition("provenance.libm", "warns", "libm", "it rounds otherwise"),
    Condition("provenance.renderer", "warns", "renderer", "pictures round otherwise"),
    Condition("provenance.platform", "warns", "platform", "another machine may round otherwise"),
    Condition("provenance.python", "warns", "Python", "it may round otherwise"),
    Condition("provenance.numpy", "warns", "numpy", "it may round otherwise"),
    Condition("provenance.scipy", "warns", "scipy", "it may round otherwise"),
    Condition("provenance.numba", "warns", "numba", "it may round otherwise"),
    Condition("provenance.llvmlite", "warns", "llvmlite", "it may round otherwise"),
    Condition("provenance.pytest-vla", "warns", "pytest-vla", "it may round otherwise"),
    Condition("provenance.", "warns", "provenance", "nobody said that results depend on it", True),
)
"""What decides whether two episodes can be compared. Any other condition is a later version's: `OTHER`."""

OTHER = Condition("", "warns", "condition", "this version does not know what it says", True)


def row_of(name: str) -> Condition:
    """The row of `CONDITIONS` that says what becomes of a condition."""
    exact = next((row for row in CONDITIONS if row.name == name), None)
    begun = (row for row in CONDITIONS if row.name.endswith(".") and name.startswith(row.name))
    return exact or next(begun, OTHER)
