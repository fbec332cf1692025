"""The bottleneck of a run, in words."""

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_vla.reports.terminal import advice_text, measured_text, renderer_note, scarce_text, shortened
from pytest_vla.serving.stats import DeviceUse, ServingStats
from tests.support.records import record_of

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


def test_what_drew_the_pictures(tmp_path: Path) -> None:
    def drawn(*renderers: str, devices: str = "") -> list[str]:
        records = [record_of(seed, provenance={"renderer": name}) for seed, name in enumerate(renderers)]
        return renderer_note(records, [devices] if devices else [])

    software, card = "egl: llvmpipe (LLVM 15.0.6, 256 bits)", "egl: NVIDIA H100 80GB HBM3/PCIe/SSE2"
    assert drawn(software, software) == [f"pictures: {software}, in software"]
    (tmp_path / "renderD128").touch()
    (fallen,) = drawn(software, devices=f"{tmp_path}/renderD*")
    assert "EGL fell back" in fallen
    assert drawn(software, devices=f"{tmp_path}/nvidia*") == [f"pictures: {software}, in software"]
    assert drawn(card, devices=f"{tmp_path}/renderD*") == [f"pictures: {card}"]
    # No picture was drawn, or there is no MuJoCo.
    assert drawn("egl") == drawn("") == drawn() == []
