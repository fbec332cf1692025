"""What is scarce where a policy's process serves workers, device or cores, in a few words."""

from collections.abc import Sequence

from pytest_vla.serving.seen import Seen, Use, mean

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
    for end in (";", ","):
        first = text.partition(end)[0]
        if len(first) <= width:
            return first
    return ""


def measured_text(use: Use, seen: Sequence[Seen]) -> str:
    """What was scarce in a run, and the times that it follows from.

    Args:
        use: of the run.
        seen: by each device's process.
    """
    thinking, away = ([each for some in seen for each in getattr(some, name)] for name in ("thinking", "away"))
    times = [f"a call takes {_time(use.call)}"]
    if thinking:
        times.append(f"a worker computes {_time(mean(thinking))} between questions")
    if away:
        times.append(f"{_time(mean(away))} between episodes")
    return f"{scarce_text(use)}: {', '.join(times)}"


def advice_text(workers: int, ratio: float) -> str:
    """``-n 24 would take about 0.8x the time``."""
    return f"-n {workers} would take about {ratio:.2g}x the time"


def _time(seconds: float) -> str:
    """``85 ms``, ``1.2 s``."""
    return f"{seconds:.2g} s" if seconds >= 0.9995 else f"{1000 * seconds:.{0 if seconds >= 0.00995 else 1}f} ms"
