"""The section on success under published evaluators' budgets, the table of published numbers, and comparisons."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.plan.evaluators import PUBLISHED, built_in_evaluators, load_evaluator
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import with_protocol
from pytest_vla.records.record import Record
from pytest_vla.reports import figures
from pytest_vla.reports.evaluators import make_budgets, published_number, published_numbers
from pytest_vla.reports.loaded import load
from pytest_vla.util.documents import read_toml
from tests.support.data import needs_data
from tests.support.reports import RESULTS, models_of, report, write
from tests.support.varied import varied


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))


def goal(steps: list[int | None], budget: int = 600, policy: str = "mine", **protocol: Any) -> list[Record]:
    """Episodes of libero_goal that succeeded at these steps, or failed."""
    return [
        varied(
            "",
            step is not None,
            f"task_{number % 10}",
            number // 10,
            policy=policy,
            protocol={"max_steps": budget, **protocol},
            success_step=step,
            steps=step or budget,
        )
        for number, step in enumerate(steps)
    ]


# The table of published numbers.

SUITES = ("libero_spatial", "libero_object", "libero_goal", "libero_10", "libero_90")
KEYS = {"model", "checkpoint", "evaluator", "episodes", "rates", "successes", "steps", "source", "note"}


def test_every_published_number_has_a_source_and_can_be_one() -> None:
    table = read_toml(PUBLISHED)
    assert isinstance(table.pop("read"), date)
    numbers = published_numbers()
    assert table.keys() == numbers.keys()
    assert sum(bool(each.checkpoint) for each in numbers.values()) >= 25
    evaluators = {each.name for each in built_in_evaluators()}
    for name, each in numbers.items():
        assert table[name].keys() <= KEYS, name
        assert len(each.source) > 20, name
        assert each.model, name
        assert each.evaluator in {*evaluators, ""}, name
        assert each.rates, name
        for suite, rate in each.rates.items():
            assert suite in SUITES, name
            assert 0 <= rate <= 1, name
            assert each.budget(suite) or not each.evaluator, name
            n = each.episodes.get(suite)
            if "successes" in table[name]:
                assert n is not None, name
                assert 0 <= table[name]["successes"][suite] <= n, name


def test_a_rate_of_few_episodes_can_come_of_them() -> None:
    # Rates over 500 episodes of one seed are multiples of 0.2; RLinf's are means of something else.
    others = ("rlinf-openvla-oft", "rlinf-openvla-oft-base", "servovla")
    for name, each in published_numbers().items():
        for suite, rate in each.rates.items():
            n = each.episodes.get(suite)
            if n is not None and n <= 200:
                assert abs(rate * n - round(rate * n)) < 1e-6 * n, name
            if n == 500 and name not in others:
                assert abs(rate * n - round(rate * n)) <= 0.5 + 1e-9, name


def test_an_unknown_name_says_what_is_near() -> None:
    with pytest.raises(VlaError, match="Did you mean pi05"):
        published_number("pi0.5")
    write(goal([10] * 10))
    with pytest.raises(VlaError, match=r"--published=evo1-lerobot: it has numbers of libero_object; .* libero_goal"):
        report("--published=evo1-lerobot")


# Under each evaluator's budget.


def test_one_run_has_the_rate_under_every_budget_up_to_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    # Of 40, 20 succeed by step 300, ten more by step 600.
    write(goal([100] * 20 + [450] * 10 + [None] * 10))
    (model,) = models_of(capsys, "--section=evaluators")
    found = model["evaluators"]
    under = {each["evaluator"]: each for each in found["under"]}
    assert (found["steps"], found["rate"]["sr"]) == (600, 75)
    assert (under["openpi"]["steps"], under["openpi"]["rate"]["sr"]) == (300, 50)
    assert (under["groot-n1.5"]["steps"], under["groot-n1.5"]["rate"]) == (600, found["rate"])
    assert (under["x-vla"]["steps"], under["x-vla"]["rate"]) == (800, None), "nobody knows"
    assert [at["steps"] for at in found["curve"]] == [100, 300, 450, 600]
    report("--section=evaluators")
    out = capsys.readouterr().out
    told = "libero_goal 50.0 [35.2, 64.8] at 300; 75.0 [59.8, 85.8] at 600 steps; no success after step 450"
    assert told in " ".join(out.split())
    assert "--vla-steps=longest" in out
    assert "Success by step budget, %" not in out
    report("--section=evaluators", "--full")
    assert "Success by step budget, %" in capsys.readouterr().out


def test_errors_stay_in_no_rate(capsys: pytest.CaptureFixture[str]) -> None:
    write([*goal([100, None]), varied("", "error", "task_9", policy="mine", protocol={"max_steps": 600})])
    (model,) = models_of(capsys, "--section=evaluators")
    assert [each["not_counted"] for each in model["evaluators"]["curve"]] == [1, 1, 1]


@needs_data
def test_a_run_of_an_evaluator_differs_in_nothing_but_from_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    task = load_suite("libero_goal").tasks[0]
    openpi = load_evaluator("openpi")
    table = with_protocol(openpi.task(task), max_steps=600).protocol.table()
    write(goal([100] * 10, **table | {"max_steps": 600}))
    (model,) = models_of(capsys, "--section=evaluators")
    under = {each["evaluator"]: {field["name"] for field in each["differs"]} for each in model["evaluators"]["under"]}
    assert under["openpi"] == {"replan"}, "the record's is the whole chunk"
    assert {"image_size", "scenes", "state"} <= under["lerobot"]
    assert model["evaluators"]["evaluator"] == "openpi"


def test_what_a_log_does_not_say_is_unknown_and_not_made_up() -> None:
    write(goal([100] * 10, evaluator="openpi", scenes="stream 7"))
    (found,) = make_budgets(load([], RESULTS))
    under = {each.evaluator: {field.name: field.run for field in each.differs} for each in found.under}
    assert "image_size" not in under["openpi"], "the script's own is known"
    assert (under["lerobot"]["image_size"], under["lerobot"]["state"]) == ("unknown", "unknown")


def test_a_log_of_an_unknown_script_has_its_rate_and_no_budget(capsys: pytest.CaptureFixture[str]) -> None:
    write(
        varied("", number < 8, seed=number, policy="mine", protocol={"evaluator": "unknown"}, replan=None)
        for number in range(10)
    )
    (model,) = models_of(capsys, "--published=pi05")
    found = model["evaluators"]
    assert (found["steps"], found["rate"]["sr"], found["curve"]) == (None, 80, [])
    assert all(each["rate"] is None for each in found["under"])
    assert found["compared"]["verdict"] == "budget-unknown"
    report("--published=pi05")
    out = " ".join(capsys.readouterr().out.split())
    assert "libero_goal 80.0 [49.0, 94.3] under a step budget that is not known" in out
    assert "Not known of the run: actions (" in out
    assert "also differ" not in out


def test_varied_episodes_are_in_no_such_rate(capsys: pytest.CaptureFixture[str]) -> None:
    write(
        [
            *goal([100] * 10),
            varied("camera.distance-L3", True, policy="mine", protocol={"max_steps": 600}, success_step=5),
        ]
    )
    (model,) = models_of(capsys, "--section=evaluators")
    assert model["evaluators"]["rate"]["n"] == 10


# Beside a published number.


def compared(capsys: pytest.CaptureFixture[str], records: list[Record], name: str = "pi05") -> dict[str, Any]:
    write(records)
    (model,) = models_of(capsys, f"--published={name}")
    found: dict[str, Any] = model["evaluators"]["compared"]
    return found


def test_what_the_budget_explains(capsys: pytest.CaptureFixture[str]) -> None:
    # OpenVLA's 79.2 of 1,500 at 300 steps: 158 of 200 by then, and 190 by 600.
    found = compared(capsys, goal([100] * 158 + [400] * 32 + [None] * 10), "openvla")
    assert (found["steps"], found["sr"], found["verdict"]) == (300, pytest.approx(79.2), "explained-by-budget")
    assert found["rate_at_steps"]["sr"] == 79
    assert found["difference"]["value"] == pytest.approx(95 - 79.2)
    low, high = found["difference_at_steps"]["interval"]
    assert low < 0 < high
    report("--published=openvla")
    out = " ".join(capsys.readouterr().out.split())
    assert "the budget explains 16.0 points" in out
    assert "verdict: explained by the budget. Not known of the run: actions (" in out


@pytest.mark.parametrize(
    ("steps", "budget", "name", "verdict"),
    [
        ([100] * 98 + [None] * 2, 300, "pi05", "within-sampling"),
        ([100] * 60 + [None] * 40, 300, "pi05", "different"),
        ([100] * 60 + [None] * 40, 300, "x-vla", "budget-not-measured"),
        ([100] * 60 + [None] * 40, 300, "cosmos-policy", "budget-unknown"),
        ([100] * 96 + [None] * 4, 300, "vla-0", "within-sampling"),
    ],
)
def test_verdicts(
    steps: list[int | None], budget: int, name: str, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = compared(capsys, goal(steps, budget), name)
    assert found["verdict"] == verdict
    assert found["difference"]["has_published_error"] is (name != "vla-0"), "VLA-0's episodes are not known"


def test_a_part_of_the_tasks_is_told_beside_the_published_number(capsys: pytest.CaptureFixture[str]) -> None:
    said = "3 of libero_goal's 10 tasks"
    for steps, is_told in (([100] * 3, True), ([100] * 10, False)):
        write(goal(steps, 300), "part" if is_told else "whole")
        report("part" if is_told else "whole", "--published=pi05")
        assert (said in " ".join(capsys.readouterr().out.split())) is is_told


# Choosing sections.


def test_sections_are_made_by_name_and_these_on_request_only(capsys: pytest.CaptureFixture[str]) -> None:
    write(goal([100] * 10))
    with pytest.raises(VlaError, match="nothing to report"):
        report()
    with pytest.raises(VlaError, match=r"no section 'evaluator'\. Did you mean evaluators\?"):
        report("--section=evaluator")
    with pytest.raises(VlaError, match=r"nothing to report: 10 records, with nothing for --section=language,safety"):
        report("--section=safety,language")
    (model,) = models_of(capsys, "--section=time-to-success", "--section", "evaluators")
    assert {"evaluators", "time_to_success"} <= model.keys()
    (model,) = models_of(capsys, "--section=all")
    assert {"evaluators", "time_to_success"} <= model.keys()


def test_the_curve_is_on_the_page_and_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    write(goal([100] * 20 + [None] * 10))
    report("--section=evaluators", "--published=pi05", "-o", "report.html", "--pictures=0")
    page = Path("report.html").read_text()
    assert "section-evaluators" in page
    assert "success by step budget" in page
    assert "groot-n1.5" in page
    drawn: dict[str, bytes] = {}
    monkeypatch.setattr(figures, "check_matplotlib", lambda: None)
    monkeypatch.setattr("pytest_vla.reports.evaluators._picture", lambda each: each.model.encode())
    monkeypatch.setattr(figures, "write_pictures", lambda pictures, *_: drawn.update(pictures) or [])
    report("--section=evaluators", "--format=png", "-o", ".")
    assert drawn == {"budget-mine-libero_goal": b"mine"}
