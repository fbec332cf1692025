"""Success rates as text, for the end of a run."""

from collections.abc import Sequence

from pytest_vla.metrics.success import Outcome, SuccessRate, success_rate, suite_rates

_HEADER = ("suite", "episodes", "success", "rate", "95% Wilson interval", "not in the rate")


def summary_lines(records: Sequence[Outcome]) -> list[str]:
    """A table: a row a suite, and one over all where there are several."""
    rates = list(suite_rates(records))
    if len(rates) > 1:
        rates.append(success_rate("all", records))
    rows = [_HEADER, *map(_row, rates)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    # Names to the left, numbers to the right.
    return ["  ".join(_cell(*cell) for cell in zip(range(len(row)), row, widths, strict=True)).rstrip() for row in rows]


def summary_sentence(records: Sequence[Outcome]) -> str:
    """All suites in one line."""
    _, _, success, rate, interval, apart = _row(success_rate("all", records))
    return f"vla: {success} success, {rate} {interval}" + (f"; {apart}" if apart else "")


def _row(rate: SuccessRate) -> tuple[str, ...]:
    shown = "-" if rate.rate is None else f"{rate.rate:.1%}"
    interval = "-" if rate.interval is None else "[{:.1%}, {:.1%}]".format(*rate.interval)
    apart = [
        f"{outcome}: {', '.join(f'{count} {reason}' for reason, count in reasons.items())}"
        for outcome, reasons in (("errors", rate.errors), ("invalid", rate.invalid))
        if reasons
    ]
    return (rate.name, str(rate.episodes), f"{rate.successes}/{rate.counted}", shown, interval, "; ".join(apart))


def _cell(column: int, text: str, width: int) -> str:
    return text.ljust(width) if column in (0, len(_HEADER) - 1) else text.rjust(width)
