"""The bottleneck of a run, in words."""

from dataclasses import replace

import pytest

from pytest_vla.reports.terminal import advice_text, measured_text, scarce_text, shortened
from pytest_vla.serving.stats import DeviceUse, ServingStats

USE = DeviceUse(device=0.93, cores=0.4, batch=14.2, call=0.085)


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (USE, "device 93% busy, mean batch 14; cores wait"),
        (replace(USE, cores=0.97), "device 93% busy, mean batch 14; cores 97% busy"),
        (replace(USE, device=0.4, cores=0.97), "cores 97% busy, device 40% busy"),
        (replace(USE, device=0.4, batch=7.26), "device 40% busy, mean batch 7.3; cores 40% busy"),
        (replace(USE, cores=None), "device 93% busy, mean batch 14"),
        (None, ""),
    ],
)
def test_what_is_scarce(use: DeviceUse | None, text: str) -> None:
    assert scarce_text(use) == text


def test_it_is_left_out_before_anything_else_is_cut() -> None:
    text = scarce_text(USE)
    assert shortened(text, 42) == text
    assert shortened(text, 41) == "device 93% busy, mean batch 14"
    assert shortened(text, 29) == "device 93% busy"
    assert shortened(text, 14) == ""
    assert shortened("", -3) == ""


def test_what_was_measured() -> None:
    seen = [ServingStats(thinking=(0.07, 0.09), away=(1.5,)), ServingStats(thinking=(0.08,))]
    assert measured_text(USE, seen) == (
        "bottleneck: device (device 93% busy, mean batch 14; cores wait); a call takes 85 ms, a worker computes 80 ms "
        "between questions, 1.5 s between episodes"
    )
    assert measured_text(replace(USE, call=0.0021), [ServingStats()]).endswith("cores wait); a call takes 2.1 ms")


def test_an_advice() -> None:
    assert advice_text(24, 0.804) == "-n 24 would save about 20% of the time"
