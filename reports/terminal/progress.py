"""A run's progress in one line, printed anew while episodes end."""

from collections.abc import Sequence

from pytest_vla.metrics.rates import VariedOutcome, interval_text, judged_apart, share_text
from pytest_vla.metrics.success import success_rate
from pytest_vla.serving.stats import DeviceUse, ServingStats, mean

SCARCE = 0.85
"""Busy share from which a part is the bottleneck."""


def scarce_text(use: DeviceUse | None) -> str:
    """Return how busy device and cores are, the scarce one first, or an empty text if it is not known.

    Such as ``device 93% busy, mean batch 14; cores wait`` or ``cores 97% busy, device 40% busy``.
    """
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
    """Shorten a text of `scarce_text` to whole parts that fit; empty if none fits."""
    if len(text) <= width:
        return text
    for end in (";", ","):
        first = text.partition(end)[0]
        if len(first) <= width:
            return first
    return ""


def measured_text(use: DeviceUse, seen: Sequence[ServingStats]) -> str:
    """Return the bottleneck of a run, with the times that show it.

    Args:
        use: of the run.
        seen: by each device's process.
    """
    thinking, away = ([each for some in seen for each in getattr(some, name)] for name in ("thinking", "away"))
    scarce = [name for name, share in (("CPU", use.cores or 0.0), ("device", use.device)) if share >= SCARCE]
    times = [f"a call takes {_time(use.call)}"]
    if thinking:
        times.append(f"a worker computes {_time(mean(thinking))} between questions")
    if away:
        times.append(f"{_time(mean(away))} between episodes")
    return f"bottleneck: {' and '.join(scarce) or 'none'} ({scarce_text(use)}); {', '.join(times)}"


def advice_text(workers: int, ratio: float) -> str:
    """Return how much time another number of workers would save, such as ``-n 24 would save about 20% of the time``."""
    return f"-n {workers} would save about {1 - ratio:.0%} of the time"


def _time(seconds: float) -> str:
    """``85 ms``, ``1.2 s``."""
    return f"{seconds:.2g} s" if seconds >= 0.9995 else f"{1000 * seconds:.{0 if seconds >= 0.00995 else 1}f} ms"


def progress_line(
    ended: Sequence[VariedOutcome],
    done: int,
    total: int,
    elapsed: float,
    left: float | None,
    until: float | None = None,
    interval: bool = True,
) -> str:
    """Return ``vla 12/40: success 7/11 = 63.6% [35.4%, 84.8%], 1 error, 0.42 episodes/s, 1:07 left``.

    With varied episodes the success is ``benign 3/4 = 75.0%, varied 4/6 = 66.7%, 2 probed``.

    Args:
        ended: episodes of this invocation.
        done: episodes that have ended, including those of a resumed run.
        total: episodes of the run.
        elapsed: seconds since the first episode could begin.
        left: seconds until the end, or None if not known yet.
        until: seconds until a time limit ends the run, shown instead of `left` if sooner, or None without a limit.
        interval: whether to add the interval of the success.
    """
    groups, every = judged_apart(ended), success_rate("all", ended)
    parts = []
    for name, some in groups.items():
        rate = success_rate(name, some)
        share = f" = {share_text(rate)}" + (f" {interval_text(rate)}" if interval and not name else "")
        parts.append(f"{name or 'success'} {rate.successes}/{rate.counted}" + share * bool(rate.counted))
    if probed := sum(record.is_probe and record.outcome in ("success", "failure") for record in ended):
        parts.append(f"{probed} probed")
    given = [record for record in ended if record.is_given and record.outcome in ("success", "failure")]
    if given:
        parts.append(f"given {sum(record.outcome == 'success' for record in given)}/{len(given)}")
    if not parts:
        parts.append("success 0/0")
    for word, counts in (("error", every.errors), ("invalid", every.invalid)):
        if number := sum(counts.values()):
            parts.append(f"{number} {word}{'s' if word == 'error' and number > 1 else ''}")
    if elapsed > 0 and every.episodes:
        parts.append(f"{every.episodes / elapsed:.3g} episodes/s")
    if until is not None and done < total and (left is None or left > until):
        parts.append(f"ends in {duration_text(until)}")
    elif left is not None and done < total:
        parts.append(f"{duration_text(left)} left")
    return f"vla {done}/{total}: {', '.join(parts)}"


def duration_text(seconds: float) -> str:
    """Return ``0:07``, ``12:30``, ``3:05:00``."""
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def about(seconds: float) -> str:
    """Return an estimated time: ``40 s``, ``3 min``, ``2.5 h``."""
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
