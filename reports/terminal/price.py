"""What metrics cost a run, in a line or two at its end."""

from collections.abc import Iterator, Sequence
from statistics import median

from pytest_vla.metrics.clustered import CONFIDENCE
from pytest_vla.metrics.discrimination import timings
from pytest_vla.metrics.statistics import median_interval
from pytest_vla.policies.price import Price
from pytest_vla.records.record import METRIC_SECONDS, Record
from pytest_vla.reports.text import aligned, wrapped
from pytest_vla.util.text import counted


def price_lines(prices: Sequence[Price], records: Sequence[Record]) -> Iterator[str]:
    """A row a wish and a metric: ms that it adds to a control step.

    Of a wish the median of paired differences, as a busy machine slows single questions; of computing mean and standard
    deviation (ddof 1).

    Args:
        prices: of the policy; empty: nothing was asked for, or it could not be asked, and there is no line.
        records: of the run, with what computing took in their timings.
    """
    if not prices:
        return
    rows = [["price of metrics, ms a control step", "without", "with", "more"]]
    for each in prices:
        told = (_ms(each.without, each.steps), _ms(each.beside, each.steps))
        rows.append([f"asking for {each.wish}", *(f"{median(some):.3g}" for some in told), _more(_ms(each.extra))])
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
        f"asking: medians of {questions} of each kind before the first episode, an answer for {steps}, and of their "
        f"differences, [{CONFIDENCE:.0%} interval]; computing: mean (standard deviation) of "
        f"{counted(max(map(len, computing.values()), default=0), 'episode')}"
    )


def _ms(seconds: Sequence[float], steps: int = 1) -> list[float]:
    return [1e3 * each / steps for each in seconds]


def _more(differences: Sequence[float]) -> str:
    """The median of paired differences, where it can be told from 0."""
    bounds = median_interval(differences, CONFIDENCE)
    ends = "" if bounds is None else f" [{bounds[0]:.2g}, {bounds[1]:.2g}]"
    if bounds is None or bounds[0] <= 0 <= bounds[1]:
        return f"within noise{ends}"
    return f"{median(differences):.3g}{ends}"


def _told(values: Sequence[float]) -> str:
    mean, deviation = timings(values)
    return f"{mean:.3g} (sd {deviation:.2g})"
