"""Names of variations: how they are composed, and taken apart."""

LABEL = r"[A-Za-z0-9_.+-]+"
"""What stands in ids for a variation; a regular expression."""

JOINT = "+"
"""Between the parts of a joint variation: in its label, its dimension and its kind."""

PROTOCOLS = OURS, PAPER, UPSTREAM = ("ours", "paper", "upstream")
"""How a benchmark's variations are made where we, its paper and its code differ; the first one by default."""


def parts_of(label: str) -> tuple[str, ...]:
    """The labels of the variations that a joint one is made of; of any other, its own."""
    return tuple(label.split(JOINT))
