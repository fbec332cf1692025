"""The choices for pictures, actions, control, textures and premises."""

IMAGE_TRANSFORMS = ("none", "rotate_180")
"""What a suite may do to the pictures of its policies; `pytest_vla.policies.view` does it."""

OUT_OF_RANGE = ("clip", "error")
"""What a suite may do about actions outside of [-1, 1]; `pytest_vla.episode.rollout` does it."""

RELATIVE, ABSOLUTE = CONTROLS = ("relative", "absolute")
"""What an action of LIBERO's robot is: a change of the end effector's pose, scaled by 0.05 m and 0.5 rad, or the pose
itself (m, axis-angle in rad), both in the world's frame. Settling is relative. `pytest_vla.World` does it."""

TRAINED, INSTALLED = TEXTURES = ("trained", "installed")
"""How a suite's textures are drawn: as published checkpoints saw them (by MuJoCo before 3.3.3, which knew no colour
space of textures), or as the installed version draws them, darker from 3.3.3 on. `pytest_vla.World` does it."""

CHECK, IGNORE = PREMISES = ("check", "ignore")
"""What ``--vla-premises`` may say."""

COSTS = COSTS_ALL, COSTS_NONE = "all", "none"
"""Whether collisions are charged: see ``--vla-collision-costs``."""

MOST_SHARDS = 100_000
"""Into which a selection may be shared out."""
