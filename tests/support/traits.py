"""What policies may say of themselves, as Hypothesis draws it."""

from typing import Any

from hypothesis import strategies as st

from pytest_vla.plan.choices import IMAGE_TRANSFORMS
from pytest_vla.policies.fit import ACTION_CONVENTIONS, GRIPPERS, ROTATIONS, STATE_LAYOUTS, Traits

COUNTS = st.integers(1, 10_000)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "action_size": COUNTS,
    "action_convention": st.sampled_from(ACTION_CONVENTIONS),
    "rotation": st.sampled_from(ROTATIONS),
    "gripper": st.sampled_from(GRIPPERS),
    "reads": st.lists(st.text(), max_size=4).map(tuple),
    "image_size": st.tuples(COUNTS, COUNTS),
    "image_transform": st.sampled_from(IMAGE_TRANSFORMS),
    "state_size": COUNTS,
    "state_layout": st.sampled_from(STATE_LAYOUTS),
    "control_freq": st.floats(0.01, 1000),
    "language": st.booleans(),
    "instructions": st.lists(st.text(), max_size=4).map(tuple),
    "chunk": COUNTS,
    "draws": st.booleans(),
    "cameras": st.lists(st.text(), max_size=2).map(tuple),
    "guessed": st.lists(st.text(), max_size=2).map(tuple),
}


def any_traits() -> st.SearchStrategy[Traits]:
    return st.fixed_dictionaries({}, optional=VALUES).map(lambda said: Traits(**said))
