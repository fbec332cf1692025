"""Success rates as text, for the end of a run."""

from collections.abc import Mapping, Sequence

from pytest_vla.metrics.success import Outcome, SuccessRate, success_rate, suite_rates

_HEADER = ("suite", "episodes", "success", "rate", "95% Wilson interval", "not in the rate")


def summary_lines(records: Sequence[Outcome], own: Mapping[str, Sequence[Outcome]]) -> list[str]:
    """A table: a row a suite, one over all where there are several, and a row for each test of the user's own.

    Args:
        records: of the suites' own items.
        own: of the user's tests, by test: they may run a suite's cases again, so no rate is over both.
    """
    rates = list(suite_rates(records))
    if len(rates) > 1:
        rates.append(success_rate("all", records))
    rates += [success_rate(name, own[name]) for name in sorted(own)]
    rows = [_HEADER, *map(_row, rates)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    # Names to the left, numbers to the right.
    return ["  ".join(_cell(*cell) for cell in zip(range(len(row)), row, widths, strict=True)).rstrip() for row in rows]


def summary_sentence(records: Sequence[Outcome], title: str = "vla") -> str:
    """All suites in one line."""
    _, _, success, rate, interval, apart = _row(success_rate("all", records))
    return f"{title}: {success} success, {rate} {interval}" + (f"; {apart}" if apart else "")


def verdict_line(rate: SuccessRate, minimum: float) -> str:
    """A suite's rate against the wanted one: ``libero_goal: 8/10 = 80.0% [49.0%, 94.3%] >= 80%: passed``."""
    wanted = f"{minimum * 100:.6g}%"
    if rate.interval is None:
        return f"{rate.name}: nothing was measured, {wanted} was wanted: failed"
    _, _, success, share, interval, _ = _row(rate)
    sign, verdict = (">=", "passed") if rate.reaches(minimum) else ("<", "failed")
    return f"{rate.name}: {success} = {share} {interval} {sign} {wanted}: {verdict}"


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
