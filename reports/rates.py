"""A success rate in words, the same in every report."""

from pytest_vla.metrics.success import SuccessRate


def share_text(rate: SuccessRate) -> str:
    """``63.6%``; a dash where nothing was counted."""
    return "-" if rate.rate is None else f"{rate.rate:.1%}"


def interval_text(rate: SuccessRate) -> str:
    """``[35.4%, 84.8%]``; a dash where nothing was counted."""
    return "-" if rate.interval is None else "[{:.1%}, {:.1%}]".format(*rate.interval)
