"""How a run goes, in one line: made anew while episodes end."""

from pytest_vla.metrics.success import SuccessRate
from pytest_vla.reports.rates import interval_text, share_text


def progress_line(rate: SuccessRate, done: int, total: int, elapsed: float, left: float | None) -> str:
    """``vla 12/40: success 7/11 = 63.6% [35.4%, 84.8%], 1 error, 0.42 episodes/s, 1:07 left``.

    Args:
        rate: over what has ended.
        done: episodes that have ended, with those of the run that is gone on with.
        total: episodes of the run.
        elapsed: seconds since the first episode could begin.
        left: seconds until the end; None: not known yet.
    """
    parts = [f"success {rate.successes}/{rate.counted}"]
    if rate.counted:
        parts[0] += f" = {share_text(rate)} {interval_text(rate)}"
    for word, counts in (("error", rate.errors), ("invalid", rate.invalid)):
        if number := sum(counts.values()):
            parts.append(f"{number} {word}{'s' if word == 'error' and number > 1 else ''}")
    if elapsed > 0 and rate.episodes:
        parts.append(f"{rate.episodes / elapsed:.3g} episodes/s")
    if left is not None and done < total:
        parts.append(f"{duration_text(left)} left")
    return f"vla {done}/{total}: {', '.join(parts)}"


def duration_text(seconds: float) -> str:
    """``0:07``, ``12:30``, ``3:05:00``."""
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def about(seconds: float) -> str:
    """A time that is only an estimate: ``40 s``, ``3 min``, ``2.5 h``."""
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
