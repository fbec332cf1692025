"""`pytest-vla gate`: verdicts over runs and baselines of a store, exit codes, summaries, bad input."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.cli import main
from pytest_vla.gate.baseline import baseline_of
from pytest_vla.gate.baseline_file import write_baseline
from pytest_vla.records.record import Record
from tests.support.kept_runs import write
from tests.support.varied import varied

FILE = Path("baseline.vla.json")


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def episodes(failures: int, number: int = 100, first: int = 0, **changes: Any) -> list[Record]:
    """Of ten tasks in turn; the last so many fail."""
    return [
        varied("", place < number - failures, task=f"task_{place % 10}", seed=first + place // 10, **changes)
        for place in range(number)
    ]


def call(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    assert main(["gate", *arguments]) == code
    out, err = capsys.readouterr()
    return str(out), str(err)


def kept(failures: int = 0) -> None:
    write_baseline(baseline_of(episodes(failures)), FILE)


def test_a_run_that_does_the_same_passes(capsys: pytest.CaptureFixture[str]) -> None:
    kept()
    write("new", episodes(0, policy_digest="d" * 64))
    out, _ = call(capsys)
    assert out.splitlines()[-1] == "gate: no worse (margin 5 points, alpha 5% per side)"
    assert "libero_goal[benign]    100.0%  100.0%    +0.0  [-3.0, +3.0]  0/100   0/100  no worse" in out
    assert "random (policy dddddddd) against random of baseline.vla.json" in out
    assert "compared: the same cases; bounds at 5% per side, over these tasks" in out


def test_a_regression_fails_and_names_what_was_lost(capsys: pytest.CaptureFixture[str]) -> None:
    kept()
    write("new", episodes(12))
    out, _ = call(capsys, code=1)
    assert out.splitlines()[-1] == "gate: regression (margin 5 points, alpha 5% per side)"
    assert "libero_goal/task_8       libero_goal[benign]     10/10  8/10   -20.0" in out
    assert "7 tasks more lost (-v has more)" in out
    assert out.splitlines()[-6:-1] == [
        "12 cases lost; each alone:",
        "  lost    libero_goal/task_8[seed8]",
        "  lost    libero_goal/task_8[seed9]",
        "  lost    libero_goal/task_9[seed8]",
        "  and 9 cases more lost (-v has more)",
    ]
    out, _ = call(capsys, "-v", code=1)
    assert len([line for line in out.splitlines() if line.startswith("  lost    ")]) == 12
    assert "more" not in out


def test_undecided_passes_unless_more_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    kept()
    write("new", episodes(3))
    out, _ = call(capsys)
    assert out.splitlines()[-1].startswith("gate: undecided")
    assert "To decide, start a new comparison with about" in " ".join(out.split())
    call(capsys, "--require=no-worse", code=1)
    call(capsys, "--require=better", code=1)


def test_margin_alpha_and_groups_are_the_users(capsys: pytest.CaptureFixture[str]) -> None:
    kept()
    write("new", episodes(3))
    out, _ = call(capsys, "--margin=10", "--require=no-worse")
    assert out.splitlines()[-1] == "gate: no worse (margin 10 points, alpha 5% per side)"
    table = json.loads(call(capsys, "--margin=10", "--alpha=.01", "--by=suite,task", "--json")[0])
    assert table["terms"] == {"margin": 10.0, "alpha": 0.01, "by": ["suite", "task"], "regression": "margin"}
    assert len(table["groups"]) == 10
    group = table["groups"]["libero_goal[task_9]"]
    assert group["lost"] == ["libero_goal/task_9[seed9]"]
    assert group["evidence"]["pairs"] == 10
    assert group["evidence"]["points"] == pytest.approx(-10)


def test_the_p_that_decides_stands_beside_bounds_that_are_not_adjusted(capsys: pytest.CaptureFixture[str]) -> None:
    """Of two groups the one that alone would be a regression is none: its bounds say one, and its p does not."""
    sides = [
        [varied("", place < 6, task="one", seed=place) for place in range(6)]
        + [varied("", place < number, task="two", seed=place) for place in range(40)]
        for number in (40, 40)
    ]
    write_baseline(baseline_of(sides[0]), FILE)
    lost = [dataclasses.replace(each, outcome="failure", success_step=None) for each in sides[1][:5]]
    write("new", [*lost, *sides[1][5:]])
    one, _ = call(capsys, "--by=suite")
    assert "adj. p" not in one
    assert "adjusted" not in one
    out, _ = call(capsys, "--by=suite,task", "--summary=summary.md")
    groups = json.loads(call(capsys, "--by=suite,task", "--json")[0])["groups"]
    found = groups["libero_goal[one]"]
    assert found["verdict"] == "undecided"
    assert 0.05 < found["p_beyond"] < 0.1
    assert found["evidence"]["bounds"][1] < -5
    for text in (out, Path("summary.md").read_text()):
        assert "adj. p" in text
        assert f"{found['p_beyond']:.3f}" in text
        assert "verdicts go by p adjusted for all groups (Holm)" in " ".join(text.split())


def test_any_loss_that_is_shown_is_a_regression_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Six lost of a hundred: shown, and not that they exceed five points."""
    kept()
    write("new", episodes(6))
    out, _ = call(capsys)
    assert "a loss of 6 points is significant, but not shown to exceed the margin of 5 points" in " ".join(out.split())
    assert out.splitlines()[-1] == "gate: undecided (margin 5 points, alpha 5% per side)"
    out, _ = call(capsys, "--regression=any", code=1)
    assert out.splitlines()[-1] == "gate: regression (margin 5 points, alpha 5% per side, any loss is a regression)"
    (group,) = json.loads(call(capsys, "--json")[0])["groups"].values()
    assert (group["shown_loss"], group["judged"]) == (True, True)
    assert group["p_worse"] < 0.05 < group["p_beyond"]
    assert group["fresh"] > 100
    assert group["detectable"] is not None


def test_a_run_in_which_every_episode_broke_is_not_judged(capsys: pytest.CaptureFixture[str]) -> None:
    kept()
    write("new", [varied("", "error", task=f"task_{place % 10}", seed=place // 10) for place in range(100)])
    out, _ = call(capsys, code=2)
    assert "nothing was measured" in out
    assert json.loads(call(capsys, "--json", code=2)[0])["passed"] is False


def test_too_few_starts_are_not_judged(capsys: pytest.CaptureFixture[str]) -> None:
    FILE.unlink(missing_ok=True)
    write_baseline(baseline_of(episodes(0, 4)), FILE)
    write("new", episodes(4, 4))
    out, _ = call(capsys)
    assert "undecided" in out
    assert "not judged (4 starts)" in out
    assert json.loads(call(capsys, "--json")[0])["groups"]["libero_goal[benign]"]["judged"] is False
    call(capsys, "--require=no-worse", code=1)


def test_a_run_is_compared_with_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    write("before", episodes(0, policy="a"))
    write("now", episodes(20, policy="b"))
    table = json.loads(call(capsys, "now", "--baseline=before", "--json", code=1)[0])
    assert (table["baseline"]["model"], table["run"]["model"]) == ("a", "b")
    assert table["verdict"] == "regression"
    assert table["is_paired"] is True


def test_other_seeds_are_compared_by_task(capsys: pytest.CaptureFixture[str]) -> None:
    kept()
    write("new", episodes(40, first=100))
    out, _ = call(capsys, code=1)
    assert "the same tasks from other seeds (no case is in both)" in out
    assert "lost" not in out.splitlines()[2]


def test_a_summary_is_appended_as_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    kept()
    write("new", episodes(12))
    summary = Path("summary.md")
    summary.write_text("before\n", encoding="utf-8")
    call(capsys, f"--summary={summary}", code=1)
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("before\n### gate: regression")
    assert "| libero\\_goal\\[benign\\] | 100.0% | 88.0% | -12.0 |" in text
    assert "| libero\\_goal/task\\_8 | libero\\_goal\\[benign\\] | 10/10 | 8/10 | -20.0 |" in text
    flipped = text.partition("#### Flipped cases\n\n12 cases lost. Each alone:\n\n```bash\n")[2].splitlines()
    assert flipped[:2] == ["# lost libero_goal/task_8[seed8]", "# lost libero_goal/task_8[seed9]"]
    assert flipped[12] == "```"
    _, err = call(capsys, "--summary=no/such/folder.md", code=2)
    assert "--summary=no/such/folder.md" in err
    assert "expected a file to append to" in err


def started(**changes: Any) -> dict[str, Any]:
    """What a run keeps that was started here."""
    settings = {"model": "mine:policy", "model_text": "mine:policy", "model_folder": str(Path.cwd()), **changes}
    given = {"given": ["--vla-model=mine:policy", "--vla-data=a b"], "typed": ["model"]}
    return {"settings": settings | given, "arguments": [], "folder": str(Path.cwd())}


ALONE = "'libero_goal::test_episode[task_9-seed9]' --vla-model=mine:policy '--vla-data=a b' --vla-video=all"


def test_each_flipped_case_has_the_command_that_runs_it_alone(capsys: pytest.CaptureFixture[str]) -> None:
    kept()
    write("new", episodes(12), invocation=started(), command="pytest -p theirs --vla-suite=libero_goal -p no:cov")
    out, _ = call(capsys, "-v", code=1)
    assert f"  lost    pytest {ALONE} -p theirs\n" in out
    Path("theirs.py").touch()
    out, _ = call(capsys, "-v", code=1)
    assert f"  lost    python -m pytest {ALONE} -p theirs\n" in out, "where the module lies here"
    table = json.loads(call(capsys, "--json", code=1)[0])
    assert len(table["flipped"]) == 12
    assert table["flipped"][-1] == {
        "group": "libero_goal[benign]",
        "case": "libero_goal/task_7[seed9]",
        "way": "lost",
        "command": f"python -m pytest {ALONE.replace('task_9', 'task_7')} -p theirs",
    }
    worst = {"group": "libero_goal[benign]", "task": "libero_goal/task_8", "baseline": [10, 10], "run": [8, 10]}
    assert table["worst_tasks"][0] == worst
    assert len(table["worst_tasks"]) == 10


def test_a_command_says_in_which_folder_it_is_to_be_typed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept()
    write("new", episodes(12), invocation=started())
    here = Path.cwd()
    (here / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    out, _ = call(capsys, "-v", f"--baseline={here / FILE}", f"--results={here / '.vla'}", code=1)
    assert f"  lost    cd {here} && pytest {ALONE}\n" in out


@pytest.mark.parametrize(
    "invocation",
    [
        {"imported": "a log"},
        {"settings": {"given": ["; rm -r /"]}},
        {},
    ],
)
def test_a_run_that_cannot_be_started_again_has_cases_and_no_commands(
    capsys: pytest.CaptureFixture[str], invocation: dict[str, Any]
) -> None:
    kept()
    whole = started()
    whole["settings"] |= invocation.get("settings", {})
    write("new", episodes(12), invocation=whole if "settings" in invocation else invocation)
    out, _ = call(capsys, "-v", code=1)
    assert "  lost    libero_goal/task_9[seed9]\n" in out
    assert "rm" not in out


def test_a_command_is_of_the_run_with_the_case_s_run_seed(capsys: pytest.CaptureFixture[str]) -> None:
    FILE.unlink(missing_ok=True)
    write_baseline(baseline_of([*episodes(0, 30), *episodes(0, 30, run_seed=7)]), FILE)
    write("one", episodes(0, 30), invocation=started())
    given = {"run_seed": 7}
    of_seven = started(**given)
    of_seven["settings"]["given"] = ["--vla-model=mine:policy", "--vla-run-seed=7"]
    write("two", episodes(9, 30, run_seed=7), invocation=of_seven)
    table = json.loads(call(capsys, "one", "two", "--json", "--by=suite", "--regression=any", code=1)[0])
    assert [each["command"].count("--vla-run-seed=7") for each in table["flipped"]] == [1] * 9


def test_errors_are_judged_and_not_refused(capsys: pytest.CaptureFixture[str]) -> None:
    kept()
    broken = [varied("", "error", task=f"task_{seed % 10}", seed=9) for seed in range(10)]
    write("new", [*episodes(0, number=90), *broken])
    out, _ = call(capsys)
    assert out.splitlines()[-1].startswith("gate: undecided")
    told = "errors: undecided if they count as failures, no worse if they count as successes"
    assert told in " ".join(out.split())
    assert "not counted (errors, invalid): 10 in the run, 0 in the baseline" in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--margin=0"], "margin 0: expected points of success above 0"),
        (["--margin=101"], "margin 101"),
        (["--alpha=.5"], "alpha 0.5: expected"),
        (["--by=suite,dimensions"], "Did you mean dimension"),
        (["--baseline=missing.json"], "missing.json"),
        (["--baseline=missing"], "missing"),
        (["nosuchrun"], "nosuchrun"),
    ],
)
def test_what_makes_no_sense_is_refused(capsys: pytest.CaptureFixture[str], arguments: list[str], told: str) -> None:
    kept()
    write("new", episodes(0))
    out, err = call(capsys, *arguments, code=2)
    assert not out
    assert told in err


def test_a_run_that_has_not_ended_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    kept()
    write("new", episodes(0), planned=5)
    _, err = call(capsys, code=2)
    assert "run new has 100 of 105 episodes" in err
    call(capsys, "--allow-unfinished")


@pytest.mark.parametrize("text", ["x", "nan", "inf"])
def test_numbers_are_numbers(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with pytest.raises(SystemExit):
        main(["gate", f"--margin={text}"])
    assert f"'{text}': expected a number" in capsys.readouterr().err


def slowed(by: int) -> list[Record]:
    """A hundred that succeed, of which each takes some steps more."""
    return [
        dataclasses.replace(record, steps=200, success_step=100 + place % 7 + by * (1 + place % 3))
        for place, record in enumerate(episodes(0))
    ]


def test_measures_beside_success_fail_a_gate_too(capsys: pytest.CaptureFixture[str]) -> None:
    write_baseline(baseline_of(slowed(0)), Path("baseline.vla.json"))
    write("slower", slowed(3))
    call(capsys)
    out, _ = call(capsys, "--measure=steps", "--summary=summary.md", code=1)
    row = next(line for line in out.splitlines() if line.startswith("steps "))
    assert row.split()[1:3] == ["libero_goal[benign]", "103"]
    assert row.split()[-1] == "regression"
    assert out.splitlines()[-1] == "gate: steps of libero_goal[benign] regression"
    assert "all pairs are equal" in call(capsys, "slower", "--baseline=slower", "--measure=steps")[0]
    assert "| steps | libero\\_goal\\[benign\\] |" in Path("summary.md").read_text()
    assert Path("summary.md").read_text().startswith("### gate: steps of libero"), "success alone is no headline here"
    failed = json.loads(call(capsys, "--measure=steps", "--json", code=1)[0])
    assert (failed["verdict"], failed["passed"]) == ("no worse", False)
    table = json.loads(call(capsys, "--measure=steps=20", "--require=no-worse", "--json")[0])
    (measured,) = table["measures"]
    assert table["passed"]
    assert (measured["verdict"], measured["margin"], measured["pairs"]) == ("no worse", 20, 100)
    _, err = call(capsys, "--measure=steps", "--require=no-worse", code=2)
    assert "expected a margin for each --measure" in err
    _, err = call(capsys, "--measure=cost.collisions", code=2)
    assert "measure cost.collisions: no common case has a value for it; none is recorded" in err
    _, err = call(capsys, "--measure=speed", code=2)
    assert "measure 'speed': expected steps, cost" in err


def test_pride_says_what_compared_the_texts(capsys: pytest.CaptureFixture[str]) -> None:
    told = ("switch on the stove", "please get the stove going", "the stove should be on", "could you heat the stove")
    label = "language.paraphrase.1"

    def some(lost: int) -> list[Record]:
        return [
            varied(label, place >= lost, seed=place, instruction=told[place % 4], task="turn_on_the_stove")
            for place in range(40)
        ]

    write_baseline(baseline_of(some(0)), Path("baseline.vla.json"))
    write("worse", some(13))
    out, err = call(capsys, "--measure=pride", code=1)
    assert not err
    assert "PRIDE at alpha 0.5 by " in out
    row = next(line for line in out.splitlines() if line.startswith("pride "))
    assert row.split()[1:3] == ["libero_goal[language]", "100"]
    assert row.split()[-1] == "regression"


def test_a_run_that_does_nothing_has_no_steps_and_is_judged_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    write_baseline(baseline_of(slowed(0)), Path("baseline.vla.json"))
    write("nothing", episodes(100))
    out, _ = call(capsys, "--measure=steps=10", code=1)
    assert "steps of libero_goal[benign]: no pair in which both succeed" in out
    assert "gate: regression" in out


def test_a_run_elsewhere_is_resumed_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    kept()
    write("part", episodes(0), planned=2)
    Path(".vla").rename("other")
    _, err = call(capsys, "--results=other", code=2)
    assert f"pytest --vla-resume=part --vla-results={'other'} runs the rest" in err.replace(f"{tmp_path}/", "")
