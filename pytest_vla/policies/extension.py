"""The policies that come with pytest-vla, except for the expert."""

from pytest_vla.entries import PolicyEntry

_KINDS = (
    ("random", "RANDOM", "random actions"),
    ("tiny", "TINY", "a small learned policy for tabletop, included"),
    ("replay", "REPLAY", "recorded actions: an npz file, the folder of a run, or demonstrations"),
    ("memoriser", "MEMORISER", "the actions of a run's unvaried episodes, under any variation"),
    ("openpi", "OPENPI", "a policy on a server that speaks openpi's protocol"),
    ("vla-eval", "VLA_EVAL", "a policy on a vla-eval server"),
    ("groot", "GROOT", "a policy on a server of GR00T N1.6 or N1.7"),
    ("groot-n1.5", "GROOT_N15", "a policy on a server of GR00T N1.5"),
    ("x-vla", "X_VLA", "a policy on X-VLA's server"),
    ("starvla", "STARVLA", "a policy on a starVLA server"),
    ("lerobot-async", "LEROBOT_ASYNC", "not supported: lerobot's async inference server sends pickles"),
    ("lerobot", "LEROBOT", "any lerobot policy"),
    ("live", "LIVE", "a policy in the memory of a script that calls pytest_vla.evaluate"),
    *((name, name.upper(), "lerobot's LIBERO checkpoint") for name in ("pi0", "pi05", "smolvla", "xvla")),
)

_EVALUATORS = {
    **{"openpi": "openpi", "groot": "groot-n1.7", "groot-n1.5": "groot-n1.5", "x-vla": "x-vla"},
    **dict.fromkeys(("lerobot", "pi0", "pi05", "smolvla", "xvla"), "lerobot"),
}


def pytest_vla_policies() -> list[PolicyEntry]:
    """Return the policies that come with pytest-vla, in the order in which they are listed."""
    return [
        PolicyEntry(name, about, kind=f"pytest_vla.policies.builtin:{at}", evaluator=_EVALUATORS.get(name, ""))
        for name, at, about in _KINDS
    ]
