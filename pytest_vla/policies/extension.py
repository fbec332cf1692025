"""The policies that come with pytest-vla, except for the expert."""

from pytest_vla.entries import PolicyEntry

_KINDS = (
    ("random", "RANDOM", "random actions"),
    ("tiny", "TINY", "a small learned policy that ships, for tabletop"),
    ("replay", "REPLAY", "recorded actions: an npz file, or the folder of a run"),
    ("openpi", "OPENPI", "served elsewhere, in openpi's protocol"),
    ("vla-eval", "VLA_EVAL", "served elsewhere, by vla-eval"),
    ("lerobot", "LEROBOT", "any policy of lerobot"),
    ("live", "LIVE", "a policy in the memory of a script that called pytest_vla.evaluate"),
    *((name, name.upper(), "a LIBERO checkpoint of lerobot") for name in ("pi0", "pi05", "smolvla", "xvla")),
)


def pytest_vla_policies() -> list[PolicyEntry]:
    """Return the policies that come with pytest-vla, in the order in which they are listed."""
    return [PolicyEntry(name, about, kind=f"pytest_vla.policies.builtin:{at}") for name, at, about in _KINDS]
