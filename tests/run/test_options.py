"""The table of options: each value is written as it is read, and what a run keeps is read as what others wrote."""

import argparse
import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pytest_vla
from pytest_vla.errors import VlaError
from pytest_vla.run.arguments import min_success, min_success_text, seconds_of, seconds_text
from pytest_vla.run.constants import MODELS_KEY
from pytest_vla.run.options import KEPT, OPTIONS, Options, option, options_of, switch
from pytest_vla.run.resume import Invocation, invocation_of, read_invocation, taken_over
from pytest_vla.run.settings import Settings
from pytest_vla.vary.registry import kinds
from tests.support.examples import scaled
from tests.support.settings import settings_of

# Of every option that has a value, texts as people type them.
TYPED = {
    "model": ("expert", "mine:policy?gain=0.5", "replay:runs/a b"),
    "suite": ("tabletop", "libero_goal,tabletop"),
    "tasks": ("stove", "turn_*,bowl?"),
    "task-levels": ("L0,L2", "0-1", "L1-L2,0"),
    "seeds": ("0-9", "3,1", "7"),
    "episodes": ("1", "12"),
    "vary": ("camera,light:3", "camera+light:3", "pairs"),
    "protocol": ("ours", "paper"),
    "sample": ("1", "200"),
    "twins": ("none", "auto"),
    "data": ("/some/where", "/a b"),
    "results": ("/runs",),
    "premises": ("ignore",),
    "textures": ("trained", "installed"),
    "replan": ("1", "50"),
    "settle-steps": ("0", "25"),
    "steps": ("1", "720", "longest"),
    "evaluator": ("openpi", "/a b/mine.toml"),
    "success": ("first", "held:20", "end"),
    "realtime": ("0", "0.15", "measured", "0.000001:wait", "99999:blend"),
    "run-seed": ("0", "4294967295"),
    "device": ("cpu", "cuda:0,cuda:1"),
    "max-batch": ("1", "9999"),
    "policy-timeout": ("90", "1.5h"),
    "timeout": ("5m", "999999999h"),
    "video": ("failed", "all"),
    "resume": ("last", "20260101"),
    "min-success": ("0.8", "80%", "0.00001:lower", "1"),
    "baseline": ("/a b/base.json",),
    "gate": ("fixed",),
    "margin": ("5", "0.5", "100"),
    "regression": ("margin", "any"),
    "gate-alpha": (".05", "0.1"),
    "gate-by": ("suite", "suite,task,level"),
    "gate-measure": ("steps=10", "cost,lower:jerk=0.5"),
    "gate-require": ("no-regression", "better"),
    "gate-summary": ("gate.md", "a b.md,gate.json"),
    "report": ("report.html", "/a b/report.html"),
    "track": ("mlflow", "mlflow,tensorboard,none"),
    "report-pictures": ("0", "200"),
    "collision-costs": ("none", "all"),
    "cost-file": ("/my/costs.toml", "/a b"),
    "fuzz": ("1", "200"),
    "fuzz-dimensions": ("camera", "camera,light"),
    "cases": ("/my/cases.toml", "/a b"),
    "shard": ("3/16", "1/1", "100000/100000"),
    "shard-durations": ("/a b/durations.json",),
    "max-hours": ("8", "0.5", ".1", "90m", "100s", "0.333"),
    "worker-hours": ("8", "0.5", "90m", "999999"),
    "max-cost": ("0", "12.5", "999999999999.000000001"),
    "metrics": ("all", "token_entropy,TB-E,my.own-metric"),
    "stop-when": ["token_entropy>0.3 for 5", "A-PI.arm <= -1e-3"],
    "kernels": ("pinned", "native"),
    "ray": ("auto", "local", "10.0.0.1:6379"),
    "ray-cpus": ("0.5", "2"),
    "ray-replicas": ("1", "64"),
}
CASES = [(option, text) for option in OPTIONS for text in TYPED.get(option.name, ())]


def stored(settings: Settings, *arguments: str) -> dict[str, Any]:
    """What a run keeps, from the store."""
    kept: dict[str, Any] = json.loads(json.dumps(invocation_of(settings, arguments, Path("/here"))))
    return kept


def test_every_option_has_texts_here() -> None:
    assert set(TYPED) == {option.name for option in OPTIONS if option.metavar is not None}


@pytest.mark.parametrize(("option", "text"), CASES, ids=lambda each: each if isinstance(each, str) else each.name)
def test_what_is_written_is_read_again(option: Any, text: str) -> None:
    value = option.parse(text)
    assert option.parse(option.text(value)) == value
    if option not in taken_over():
        return
    kept = stored(settings_of(**{option.attribute: value}))
    assert read_invocation("run", kept).values[option.attribute] == value


def test_every_variation_is_kept_as_it_was_typed() -> None:
    (vary,) = (option for option in OPTIONS if option.name == "vary")
    labels = vary.parse(",".join(kind.name for kind in kinds()))
    assert len(labels) > 100
    assert read_invocation("run", stored(settings_of(vary=labels))).values["vary"] == labels


@given(st.integers(1, 10**9 - 1), st.sampled_from(["", ".5", ".001", ".333"]), st.sampled_from("smh"))
def test_times_are_written_as_they_are_read(whole: int, part: str, unit: str) -> None:
    seconds = seconds_of(f"{whole}{part}{unit}")
    assert seconds_of(seconds_text(seconds)) == pytest.approx(seconds, rel=1e-15)


@given(st.decimals(0, 1, places=9), st.booleans())
def test_rates_are_written_as_they_are_read(share: Any, lower: bool) -> None:
    wanted = min_success(f"{share:f}{':lower' if lower else ''}")
    assert min_success(min_success_text(wanted)) == wanted


def test_nothing_said_is_kept_too() -> None:
    read = read_invocation("run", stored(settings_of(), "tests/a b.py"))
    assert read == Invocation(
        {each.attribute: each.default for each in taken_over()} | {"model": "expert"},
        frozenset(),
        (),
        "expert",
        Path("/here"),
        ("tests/a b.py",),
        Path("/here"),
    )


def test_a_run_of_an_earlier_version_is_read() -> None:
    kept = stored(settings_of(suite=("tabletop",), device=("cpu",), min_success=(0.8, True), vary=("camera",)))
    old = kept["settings"]
    old |= {"suites": old.pop("suite"), "devices": old.pop("device"), "min_success": 0.8, "min_success_lower": True}
    old |= {"min_success_typed": True, "vary_typed": False}
    del old["typed"], old["vary"], old["video"]
    read = read_invocation("run", kept)
    assert read.values["suite"] == ("tabletop",)
    assert read.values["device"] == ("cpu",)
    assert read.values["min_success"] == (0.8, True)
    assert read.typed == {"min_success"}
    # Of an option that is newer than the run.
    assert read.values["video"] == "none"


def test_a_table_is_read_from_its_attributes() -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class More(Options):
        shake_hands: int = option("shake", "N", int, default=3, belongs="case", topic="main")
        wave: bool = switch("wave", belongs="resumption", topic="main")

    shake, wave = options_of(More)[len(OPTIONS) :]
    assert (shake.flag, shake.key, shake.again, shake.belongs in KEPT) == (
        "--vla-shake-hands",
        "vla_shake_hands",
        True,
        True,
    )
    assert (wave.flag, wave.again, wave.belongs in KEPT) == ("--vla-wave", False, False)
    assert (More().shake_hands, More().wave, More().run_seed) == (3, False, 0)


# What others wrote.

WRONG: list[tuple[str, Any, str]] = [
    ("settings", None, "its settings are missing"),
    ("settings", [1], "its settings are missing"),
    ("arguments", "tests", "its arguments is 'tests', no list"),
    ("arguments", [3], "its arguments is 3, no text"),
    ("arguments", ["a\0b"], "its arguments is 'a?x00b', no text".replace("?", "\\")),
    ("folder", 3, "its folder is 3, no text"),
    ("folder", "here", "its folder is 'here', no absolute path"),
    ("model", None, "its model is missing"),
    ("model", ["expert"], "its model is ['expert'], no value of --vla-model"),
    ("model_text", 1, "its model_text is 1, no text"),
    ("model_folder", "x" * 100_000, "its model_folder is 'xxx"),
    ("given", ["-pevil"], "its given has '-pevil', no option of an episode"),
    ("given", ["--vla-check-feasible=1"], "no option of an episode"),
    ("given", ["--vla-replan=0"], "no option of an episode"),
    ("given", ["--vla-seeds=0"], "no option of an episode"),
    ("typed", [["model"]], "its typed is ['model'], no text"),
    ("replan", "3", "its replan is '3', no value of --vla-replan"),
    ("replan", True, "its replan is True, no value"),
    ("replan", 3.0, "its replan is 3.0, no value"),
    ("replan", 10**4000, "its replan is 1000"),
    ("replan", [3], "its replan is [3], no value"),
    ("run_seed", -1, "its run_seed is -1, no value of --vla-run-seed"),
    ("run_seed", None, "its run_seed is None, no value"),
    ("seeds", [0, 0], "its seeds is [0, 0], no value of --vla-seeds"),
    ("seeds", ["0-9"], "its seeds is ['0-9'], no value"),
    ("seeds", {"0": 1}, "its seeds is {'0': 1}, no value"),
    ("tasks", ["a,b"], "its tasks is ['a,b'], no value of --vla-tasks"),
    ("tasks", ["\ud800"], "its tasks is"),
    ("vary", ["camera.nothing:1"], "its vary is ['camera.nothing:1'], no value of --vla-vary"),
    ("vary", ["\x1b[31m"], "its vary is"),
    ("check_feasible", "yes", "its check_feasible is 'yes', no value of --vla-check-feasible"),
    ("check_feasible", 1, "its check_feasible is 1, no value"),
    ("timeout", 1e300, "its timeout is 1e+300, no value of --vla-timeout"),
    ("timeout", 10**400, "its timeout is"),
    ("timeout", "5m", "its timeout is '5m', no value"),
    ("min_success", [0.8], "its min_success is [0.8], no value of --vla-min-success"),
    ("min_success", [2, False], "its min_success is [2, False], no value"),
    ("min_success", 3.5, "its min_success is [3.5, False], no value"),
    ("device", ["cuda;x"], "its device is ['cuda;x'], no value of --vla-device"),
    ("data", "/a\0b", "its data is"),
    ("metrics", ["a b"], "its metrics is ['a b'], no value of --vla-metrics"),
    ("kernels", "fast", "its kernels is 'fast', no value of --vla-kernels"),
    ("shake", 3, "its option 'shake' is unknown"),
    ("\x1b[31m" + "y" * 1000, 3, "its option '\\x1b[31myyy"),
]


@pytest.mark.parametrize(("name", "value", "complaint"), WRONG, ids=lambda each: repr(each)[:30])
def test_what_nobody_typed_is_refused(name: str, value: object, complaint: str) -> None:
    kept = stored(settings_of(seeds=(0,)))
    of = kept if name in kept else kept["settings"]
    of[name] = value
    with pytest.raises(VlaError) as refused:
        read_invocation("run-1", kept)
    told = str(refused.value)
    assert complaint in told
    assert told.startswith("--vla-resume: run run-1 cannot be resumed: ")
    assert told.isprintable()
    assert len(told) < 400


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["x" * 20_000, "cpu", "0-9", "camera", "a,b", "\ud800", "../..", "~", "%", "tabletop"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=scaled(80))
@given(st.data())
def test_whatever_stands_in_the_store_is_read_or_refused(data: st.DataObject) -> None:
    kept = stored(settings_of(seeds=(0, 1), min_success=(0.8, False), device=("cpu",)), "tests")
    for _ in range(data.draw(st.integers(1, 3))):
        of = data.draw(st.sampled_from([kept, kept.get("settings")]))
        if not isinstance(of, dict) or not of:
            continue
        name = data.draw(st.sampled_from(sorted(of)) | st.text(max_size=8))
        if data.draw(st.integers(0, 4)):
            of[name] = data.draw(JSON)
        else:
            of.pop(name, None)
    told, values = "", dict[str, Any]()
    try:
        values = dict(read_invocation("run", kept).values)
    except VlaError as error:
        told = str(error)
    assert bool(values) is not bool(told)
    assert told.isprintable()
    assert len(told) < 400
    for each in taken_over() if values else ():
        value = values[each.attribute]
        if value != each.default and each.metavar is not None:
            # It could have been typed.
            assert each.parse(each.text(value)) == value


def test_a_value_that_cannot_be_typed_is_none_of_the_table() -> None:
    for each in OPTIONS:
        if each.metavar is not None and each.attribute not in (
            *("model", "data", "results", "resume", "tasks", "suite"),
            *("cost_file", "baseline", "gate_summary", "report", "cases", "shard_durations"),
        ):
            with pytest.raises((VlaError, argparse.ArgumentTypeError)):
                each.parse("\x1b")


def test_every_option_that_the_code_names_is_in_the_table() -> None:
    """Whoever renames one is told of each message and key that has the old name."""
    flags, keys = {option.flag for option in OPTIONS}, {MODELS_KEY, *(option.key for option in OPTIONS)}
    package = Path(str(pytest_vla.__file__)).parent
    files = [file for folder in (package, *package.glob("*/")) for file in folder.rglob("*.py")]
    assert len(files) > 300
    for file in files:
        text = file.read_text()
        # What is cut off, as in --vla-*, is no name.
        assert set(re.findall(r"--vla-[a-z]+(?:-[a-z]+)*(?![a-z*-])", text)) <= flags, file
        asked = re.findall(r"get(?:option|ini)\(\"(vla_\w+)\"|\b(?:typed|option)\.(vla_\w+)", text)
        assert {first or second for first, second in asked} <= keys, file
