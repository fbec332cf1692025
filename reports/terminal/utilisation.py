"""What is scarce where a policy's process serves workers, device or cores, in a few words."""

from pytest_vla.serving.seen import Use

SCARCE = 0.85
"""Share of the time from which on a part is scarce: whatever else is there waits for it."""


def scarce_text(use: Use | None) -> str:
    """``device 93% busy, mean batch 14; cores wait`` or ``cores 97% busy, device 40% busy``; empty: not known."""
    if use is None:
        return ""
    device = f"device {use.device:.0%} busy"
    batch = f"mean batch {use.batch:.{0 if use.batch >= 10 else 1}f}"
    if use.cores is None:
        return f"{device}, {batch}"
    cores = f"cores {use.cores:.0%} busy"
    if use.device >= SCARCE:
        return f"{device}, {batch}; {'cores wait' if use.cores < SCARCE else cores}"
    return f"{cores}, {device}" if use.cores >= SCARCE else f"{device}, {batch}; {cores}"


def shortened(text: str, width: int) -> str:
    """As much of such a text as there is room for, in whole parts; empty where there is for none."""
    if len(text) <= width:
        return text
    first = text.partition(";")[0]
    return first if len(first) <= width else ""
