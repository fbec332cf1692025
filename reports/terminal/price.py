"""What metrics cost a run, in a line or two at its end."""

from collections.abc import Iterator, Sequence

from pytest_vla.metrics.discrimination import timings
from pytest_vla.policies.price import Price
from pytest_vla.records.record import METRIC_SECONDS, Record
from pytest_vla.reports.tables import aligned, wrapped
from pytest_vla.util.text import counted


def price_lines(prices: Sequence[Price], records: Sequence[Record]) -> Iterator[str]:
    """A row a wish and a metric: ms that it adds to a control step, mean and standard deviation (ddof 1).

    Args:
        prices: of the policy; empty: nothing was asked for, or it could not be asked, and there is no line.
        records: of the run, with what computing took in their timings.
    """
    if not prices:
        return
    rows = [["price of metrics, ms a control step", "without", "with", "more"]]
    for each in prices:
        told = (_ms(each.without, each.steps), _ms(each.beside, each.steps), _ms(each.extra))
        rows.append([f"asking for {each.wish}", *map(_told, told)])
    computing: dict[str, list[float]] = {}
    for record in records:
        for name, took in record.timings.items():
            if name.startswith(METRIC_SECONDS) and took is not None and record.steps:
                computing.setdefault(name.removeprefix(METRIC_SECONDS), []).append(took / record.steps)
    for name, some in sorted(computing.items()):
        if len(some) > 1:
            rows.append([f"computing {name}", "", "", _told(_ms(some))])
    yield from aligned(rows, 1)
    questions, steps = counted(len(prices[0].extra), "question"), counted(prices[0].steps, "step")
    yield from wrapped(
        f"mean (standard deviation): of {questions} of each kind before the first episode, an answer for {steps}; of "
        f"{counted(max(map(len, computing.values()), default=0), 'episode')}"
    )


def _ms(seconds: Sequence[float], steps: int = 1) -> list[float]:
    return [1e3 * each / steps for each in seconds]


def _told(values: Sequence[float]) -> str:
    mean, deviation = timings(values)
    return f"{mean:.3g} (sd {deviation:.2g})"
