"""The lines on the cost of metrics, on a busy machine too."""

from pytest_vla.policies.trial import Price
from pytest_vla.reports.terminal import price_lines


def row(without: tuple[float, ...], beside: tuple[float, ...]) -> str:
    return " ".join(list(price_lines([Price("samples", without, beside, 2)], []))[1].split())


def test_a_price_is_the_median_of_paired_differences() -> None:
    without = (0.010, 0.011, 0.012, 0.010, 0.011, 0.012)
    slow = tuple(each + 0.004 for each in without[:-1])
    # The last question was hit by something else.
    assert row(without, (*slow, 0.512)) == "asking for samples 5.5 7.5 2 [2, 2.5e+02]"


def test_what_cannot_be_told_from_nothing_is_no_negative_price() -> None:
    without = (0.010, 0.030, 0.010, 0.010, 0.010, 0.010)
    assert row(without, (0.011, 0.011, 0.011, 0.011, 0.011, 0.011)).endswith("within noise [-9.5, 0.5]")
    assert row((0.1, 0.1), (0.2, 0.2)).endswith("within noise"), "two say nothing"
