"""The report of labels: its table, its JSON, and labels of episodes that are not there."""

from pathlib import Path

import pytest

from pytest_vla.reports.html.svg import density
from tests.support.reports import models_of, report, write
from tests.support.varied import varied

HEAD = "case,label,by,digest,run\n"


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))


def test_which_metrics_go_with_labels_and_how_far_two_agree(capsys: pytest.CaptureFixture[str]) -> None:
    records = [
        varied("", seed < 9, seed=seed, digest=f"d{seed}", metrics={"hand_jerk": 10.0 - seed}) for seed in range(13)
    ]
    write(records)
    classes = ["low"] * 3 + ["medium"] * 3 + ["high"] * 3
    rows = [f"{record.case},{label},me,{record.digest},a-run" for record, label in zip(records, classes, strict=False)]
    rows += [f"{records[0].case},low,you,d0,a-run", f"{records[3].case},high,you,d3,a-run"]
    Path("labels.csv").write_text(HEAD + "\n".join(rows))
    (model,) = models_of(capsys, "--labels=labels.csv")
    told = model["labels"]
    assert (told["episodes"], told["disagreed"], told["failures"]) == ({"low": 3, "medium": 2, "high": 3}, 1, 4)
    (two,) = told["agreements"]
    assert (two["episodes"], two["observed"]) == (2, 0.5)
    (jerk,) = told["metrics"]
    assert jerk["correlation"]["rho"] < -0.9
    assert jerk["correlation"]["band"] == "high"
    assert jerk["against_failures"]["low"]["a12"] == 1.0
    # With so few failures: 3 and 4 can be parted in 35 ways, two of which lie as far apart.
    assert jerk["against_failures"]["low"]["p"] == pytest.approx(2 / 35)
    assert jerk["against_failures"]["low"]["category"] is None
    (as_paper,) = models_of(capsys, "--labels=labels.csv", "--rho=paper")
    assert as_paper["labels"]["metrics"][0]["correlation"]["rho"] == -jerk["correlation"]["rho"]
    assert as_paper["labels"]["metrics"][0]["against_failures"] == jerk["against_failures"]
    report("--labels=labels.csv", "--rho=paper")
    assert "a lower metric, a higher quality, as in the paper's Table III" in " ".join(capsys.readouterr().out.split())
    report("--labels=labels.csv")
    text = " ".join(capsys.readouterr().out.split())
    assert "a larger metric, a higher quality" in text
    assert "me and you agree on 50% of 2 episodes, Cohen's kappa" in text
    assert "1 episode in no class, as the two labels in the middle differ" in text
    assert "n negligible, below 0.147; s small, below 0.33; m medium, below 0.474; L large, beyond" in text
    assert "these are 3 comparisons: of as many where nothing goes with anything, one of 20 has p < 0.05" in text
    assert "metric rho p of rho band low medium high hand_jerk -0.9" in text


def test_labels_of_failures_alone_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    record = varied("", False, seed=0, digest="d0", metrics={"hand_jerk": 1.0})
    write([record])
    Path("labels.csv").write_text(f"{HEAD}{record.case},low,me,d0,a-run\n")
    report("--labels=labels.csv")
    told = " ".join(capsys.readouterr().out.split())
    assert "1 label of failures, in no number: labels are of successes" in told
    assert "no success of these runs has a label" in told


def test_labels_are_of_the_policy_that_was_labelled_and_of_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("good", "bad"):
        write(
            [
                varied("", True, seed=seed, policy=name, digest=f"{name}{seed}", metrics={"hand_jerk": seed + 1.0})
                for seed in range(4)
            ],
            f"{name}-run",
        )
    cases = [varied("", True, seed=seed).case for seed in range(4)]
    rows = [f"{case},high,me,good{seed},good-run\n" for seed, case in enumerate(cases)]
    Path("labels.csv").write_text(HEAD + "".join(rows))
    good, bad = models_of(capsys, "good-run", "bad-run", "--labels=labels.csv")
    assert (good["model"], bad["model"]) == ("good", "bad")
    assert good["labels"]["episodes"]["high"] == 4
    assert "labels" not in bad
    report("bad-run", "--labels=labels.csv")
    told = " ".join(capsys.readouterr().out.split())
    assert "4 labels of other episodes than these runs', and in no number: of run good-run" in told
    assert "no success of these runs has a label" in told


def test_a_correlation_by_chance_has_no_word(capsys: pytest.CaptureFixture[str]) -> None:
    labels = ("low", "low", "medium", "high")
    records = [
        varied("", True, seed=seed, digest=f"d{seed}", metrics={"hand_jerk": value})
        for seed, value in enumerate((1.0, 3.0, 2.0, 3.5))
    ]
    write(records)
    rows = (f"{record.case},{label},me,{record.digest},a-run\n" for record, label in zip(records, labels, strict=True))
    Path("labels.csv").write_text(HEAD + "".join(rows))
    (model,) = models_of(capsys, "--labels=labels.csv")
    told = model["labels"]["metrics"][0]["correlation"]
    assert (told["rho"] > 0.5, told["p"] > 0.05, told["band"]) == (True, True, None)
    report("--labels=labels.csv")
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("hand_jerk "))
    assert "high" not in line


def test_metrics_are_drawn_as_violins_by_class(tmp_path: Path) -> None:
    rows = [
        varied("", number < 8, seed=number, digest=f"d{number}", metrics={"hand_path": 0.1 * number})
        for number in range(12)
    ]
    write(rows)
    classes = ["low"] * 4 + ["medium"] * 2 + ["high"] * 2
    lines = [f"{one.case},{label},me,{one.digest},a-run" for one, label in zip(rows, classes, strict=False)]
    Path("labels.csv").write_text("case,label,by,digest,run\n" + "\n".join(lines))
    report("--labels=labels.csv", "--section=labels", "-o", "page.html")
    page = Path("page.html").read_text()
    assert 'aria-label="hand_path by group: low 4, median 0.15; medium 2, median 0.45; high 2' in page
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (pip install 'pytest-vla[report]')")
    report("--labels=labels.csv", "--section=labels", "--format=png", "-o", "pictures")
    (picture,) = Path("pictures").iterdir()
    assert picture.name.endswith("-labels.png")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_density_is_largest_where_most_values_are() -> None:
    at, shares = density([0.0, 0.9, 1.0, 1.1, 1.0])
    assert (at[0], at[-1], shares.max()) == (0.0, 1.1, 1.0)
    assert at[int(shares.argmax())] == pytest.approx(1.0, abs=0.06)
    assert density([2.0] * 3)[1].tolist() == [1.0] * 41
