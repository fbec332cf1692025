"""``pytest-vla import``: the logs of other evaluators as records, all of them or none."""

import argparse
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_vla.cli import main
from pytest_vla.commands import import_ as import_command
from pytest_vla.errors import VlaError
from pytest_vla.language.published import FILE, load_published
from pytest_vla.metrics.language import subjects
from pytest_vla.metrics.selection import by_model
from pytest_vla.plan.manifests import load_suite
from pytest_vla.records.record import Record, record_line
from pytest_vla.records.store import Store, open_store
from pytest_vla.reports.loaded import load
from pytest_vla.run.selection import _seeds_of_baseline
from pytest_vla.suites.libero_para.import_log import log_digest
from pytest_vla.suites.libero_para.variations import read_para_log, variation_of
from tests.support.data import data_root
from tests.support.evaluator_logs import outcomes, text_log, write, x_vla_lines
from tests.support.libero_para import EPISODE
from tests.support.runs import records_of, run_names


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def real_log() -> Path:
    root = data_root()
    if root is None or not (root / "libero_para").is_dir():
        pytest.skip("needs LIBERO-Para's data: set PYTEST_VLA_DATA or put it at ../shared/data")
    return root / "libero_para" / "xiaomi-robotics-0_seed7"


def import_log(*arguments: str | Path) -> None:
    parser = argparse.ArgumentParser()
    import_command.declare(parser)
    import_command.run(parser.parse_args([*map(str, arguments)]))


def log(folder: Path, *changes: dict[str, Any], task: int = 1) -> Path:
    folder.mkdir(exist_ok=True)
    episodes = [EPISODE | {"bddl_file": str(EPISODE["bddl_file"]).replace("eval1", f"eval{task}")} | c for c in changes]
    (folder / f"eval{task}.json").write_text(json.dumps({"eval_id": task, "episodes": episodes}))
    return folder


def test_the_real_log_becomes_a_run(real_log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_log(real_log, "--data", real_log.parent)
    first, *others = capsys.readouterr().out.splitlines()
    (name,) = run_names(Path(".vla"))
    assert first == f"run {name}: 2431 episodes of 6 tasks by xiaomi-robotics-0, seed 7, 1903 successes"
    assert others == [
        f"texts checked against {real_log.parent / FILE}",
        "2015 episodes began from init states 1, 2, 3, 4, 5; the protocol's is 0",
    ]
    with open_store(Path(".vla"), create=False) as store:
        run = store.run("last")
        assert (run.status, run.done, run.planned, run.model) == ("finished", 2431, 2431, "xiaomi-robotics-0")
        assert not any(item.is_left for item in store.items(name))
    records = records_of(Path(".vla"))
    assert sum(record.outcome == "success" for record in records) == 1903
    published = load_published(real_log.parent / FILE)
    for record, episode in zip(records, read_para_log(real_log), strict=True):
        row = published.by_key[episode.key]
        # As an episode of the suite has it.
        assert record.variation == variation_of(row, row.original, published).table()
        assert (record.task.replace("_", " "), record.instruction) == (row.original, row.instruction)
        assert (record.seed, record.seeds, record.steps) == (7, {"init_state": episode.init_state}, episode.steps)
        assert (record.success_step, record.arrays, record.of_suite) == (
            episode.steps if episode.success else None,
            None,
            True,
        )
    assert {record.provenance["log_digest"] for record in records} == {log_digest(real_log)}
    assert records[0].provenance["imported"] == "libero-para"
    assert records[0].protocol["max_steps"] == load_suite("libero_para").protocol.max_steps == 300
    assert len({record.digest for record in records}) > 100
    assert record_line(records[0]).isascii()


def test_a_log_is_imported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = log(tmp_path / "some-model_seed8", {}, {"variant_id": 4, **_bddl(4), "success": False})
    import_log(folder)
    assert "texts not checked: no CSV was given (--data)" in capsys.readouterr().out
    copy = shutil.copytree(folder, tmp_path / "copy-seed9")
    with pytest.raises(VlaError, match=r"copy-seed9 is already in \.vla, as run .* of some-model: `pytest-vla report"):
        import_log(copy, "--model=other")
    assert len(run_names(Path(".vla"))) == 1
    # Another folder of results, and another log, are another matter.
    import_log(copy, "--results=elsewhere")
    log(copy, {"success": False})
    import_log(copy, "--model=my/model", "--seed=3")
    assert [(r.policy, r.seed, r.outcome) for r in records_of(Path(".vla"))] == [("my/model", 3, "failure")]


def test_task_numbers_are_alphabetical(tmp_path: Path) -> None:
    import_log(log(tmp_path / "m_seed7", {}, task=9))
    (record,) = records_of(Path(".vla"))
    assert record.case == "libero_para/turn_on_the_stove[addition_deletion.hint.3-seed7]"
    assert record.twin == "libero_para/turn_on_the_stove[seed7]"
    assert record.variation["parameters"]["original"] == "turn on the stove"


@pytest.mark.parametrize(
    ("name", "changes", "task", "trouble"),
    [
        ("m_seed7", [{}], 10, r"eval10\.json is of no task: LIBERO-Para has 0 to 9"),
        (
            "m_seed7",
            [{}, {}],
            1,
            r"eval1\.json, episode 1: addition_deletion with hint, paraphrase 3 is there twice for init state 0",
        ),
        ("m_seed7", [{"success": "yes"}], 1, r"success is 'yes'"),
        ("m_seed7", [], 1, r"has no episode"),
    ],
)
def test_what_is_no_log_leaves_no_run(
    tmp_path: Path, name: str, changes: list[dict[str, Any]], task: int, trouble: str
) -> None:
    with pytest.raises(VlaError, match=trouble):
        import_log(log(tmp_path / name, *changes, task=task))
    assert run_names(Path(".vla")) == []


@pytest.mark.parametrize(
    ("folder", "model", "seed"),
    [
        ("pi05 seed 7", "pi05", 7),
        ("s7/seed7", "s7", 7),
        ("pi05/seed_11", "pi05", 11),
        ("X-VLA_Seed8", "X-VLA", 8),
    ],
)
def test_a_folders_name_says_model_and_seed(
    tmp_path: Path, folder: str, model: str, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / folder).parent.mkdir(exist_ok=True)
    import_log(log(tmp_path / folder, {}))
    assert f"by {model}, seed {seed}, 1 successes" in capsys.readouterr().out
    assert [(r.policy, r.seed) for r in records_of(Path(".vla"))] == [(model, seed)]


def test_a_folder_whose_name_says_no_seed_is_of_the_protocols_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import_log(log(tmp_path / "heldout", {}))
    assert [(r.policy, r.seed) for r in records_of(Path(".vla"))] == [("heldout", 7)]
    said = capsys.readouterr().out
    assert "heldout: its name says no seed, so it is taken as 7, LIBERO-Para's first; else --seed=N, and " in said
    import_log(log(tmp_path / "others", {"success": False}), "--seed=9", "--model=m")
    assert [(r.policy, r.seed) for r in records_of(Path(".vla"))] == [("m", 9)]
    assert "says no seed" not in capsys.readouterr().out


def test_a_folder_of_logs_is_a_run_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = tmp_path / "logs"
    (logs / "pi05").mkdir(parents=True)
    log(logs / "m_seed10", {})
    log(logs / "m_seed7", {"success": False})
    log(logs / "pi05" / "seed7", {"num_steps": 12})
    import_log(logs)
    lines = [line.partition(": ")[2] for line in capsys.readouterr().out.splitlines() if line.startswith("run ")]
    assert lines == [
        "1 episode of 1 task by m, seed 7, 0 successes",
        "1 episode of 1 task by m, seed 10, 1 successes",
        "1 episode of 1 task by pi05, seed 7, 1 successes",
    ]
    assert len(run_names(Path(".vla"))) == 3
    # A seed more, later.
    log(logs / "m_seed11", {"num_steps": 13})
    import_log(logs)
    said = capsys.readouterr().out
    assert said.count("; skipped") == 3
    assert "by m, seed 11, 1 successes" in said
    assert len(run_names(Path(".vla"))) == 4
    with pytest.raises(VlaError, match=r"logs is already in \.vla, as run"):
        import_log(logs)
    assert len(run_names(Path(".vla"))) == 4


def test_a_folder_of_logs_is_imported_whole_or_not_at_all(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    log(logs / "m_seed7", {})
    with pytest.raises(VlaError, match="there are 2 logs, and a seed is of one"):
        import_log(log(logs / "m_seed8", {"success": False}).parent, "--seed=7")
    shutil.copytree(logs / "m_seed7", logs / "n_seed7")
    with pytest.raises(VlaError, match=r"n_seed7 is a copy of .*m_seed7"):
        import_log(logs)
    log(logs / "n_seed7", {"num_steps": 1})
    with pytest.raises(VlaError, match="are both one, seed 7, and only one of equal episodes counts"):
        import_log(logs, "--model=one")
    (logs / "n_seed7" / "eval1.json").write_text("{")
    with pytest.raises(VlaError, match=r"n_seed7/eval1\.json cannot be read"):
        import_log(logs)
    assert run_names(Path(".vla")) == []
    (logs / "n_seed7" / "eval1.json").unlink()
    (logs / "m_seed7" / "eval1.json").unlink()
    (logs / "m_seed8" / "eval1.json").unlink()
    with pytest.raises(VlaError, match=r"no eval0\.json or similar, nor in its subfolders"):
        import_log(tmp_path, "--format=libero-para")
    with pytest.raises(VlaError, match=r"no file in it is a log\. Formats: .*libero-para"):
        import_log(tmp_path)


def test_all_episodes_of_a_paraphrase_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    several = [{"episode_idx": number, "success": number < 2} for number in range(5)]
    once = {"variant_id": 4, **_bddl(4), "success": False}
    import_log(log(tmp_path / "m_seed7", *several, once))
    lines = [line.partition(": ")[2] for line in capsys.readouterr().out.splitlines() if line.startswith("run ")]
    assert lines[0] == "2 episodes of 1 task by m, seed 7, number 1 of each, 1 successes"
    assert lines[4] == "1 episode of 1 task by m, seed 7, number 5 of each, 0 successes"
    with open_store(Path(".vla"), create=False) as store:
        records = [record for run in reversed(store.runs()) for record in store.records(run.name)]
    assert [record.seeds.get("run") for record in records] == [None, None, 1, 2, 3, 4]
    (subject,) = subjects(records)
    # Two of six, and nothing left out.
    assert [record.outcome for record in subject.paraphrases].count("success") == 2
    assert (len(subject.paraphrases), subject.left_out) == (6, ())
    with pytest.raises(VlaError, match=r"is already in .*, as run"):
        import_log(tmp_path / "m_seed7")


def test_texts_that_are_not_the_csvs_are_refused(tmp_path: Path, real_log: Path) -> None:
    folder = log(tmp_path / "m_seed7", {"paraphrased_instruction": "open the pod bay doors"})
    with pytest.raises(
        VlaError, match=r"m_seed7/eval1\.json, episode 0: .* has 'open the pod bay doors', LIBERO-Para's"
    ):
        import_log(folder, "--data", real_log.parent)
    with pytest.raises(VlaError, match=r"--data=.*m_seed7 has no libero_para_metadata.csv"):
        import_log(folder, "--data", folder)
    assert run_names(Path(".vla")) == []


@pytest.mark.parametrize("seed", ["-1", "7-11", "7,8", "", "4294967296", "²"])
def test_a_seed_is_one(tmp_path: Path, seed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        import_log(log(tmp_path / "m_seed7", {}), f"--seed={seed}")
    assert f"argument --seed: {seed!r} is not a seed, 0 to 4294967295\n" in capsys.readouterr().err


def test_an_empty_name_of_the_model_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        import_log(log(tmp_path / "m_seed7", {}), "--model=")
    assert "argument --model: a value is missing" in capsys.readouterr().err
    assert not Path(".vla").exists()


def test_control_characters_of_a_folders_name_reach_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = log(tmp_path / "m\x1b[31m\x07_seed7", {})
    import_log(folder)
    assert " by m?[31m?, seed 7, 1 successes" in capsys.readouterr().out
    import_log(log(tmp_path / "n\x1b]0;x\x07", {"num_steps": 1}))
    said = capsys.readouterr().out
    assert f"{tmp_path}/n?]0;x?: its name says no seed" in said
    assert [record.policy for record in records_of(Path(".vla"))] == ["n?]0;x?"]
    with pytest.raises(VlaError, match=r"m\?\[31m\?_seed7 is already in \.vla"):
        import_log(folder)
    with pytest.raises(VlaError, match=r"no\?such"):
        import_log(tmp_path / "no\x1bsuch")
    assert "\x1b" not in said


def test_a_csv_with_fewer_than_are_published_is_told(
    tmp_path: Path, real_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (real_log.parent / FILE).read_text(encoding="utf-8").splitlines()
    (tmp_path / FILE).write_text("\n".join(lines[:-1]), encoding="utf-8")
    import_log(real_log, "--data", tmp_path)
    checked = f"texts checked against {tmp_path / FILE}, which has 4091 of 4092 published paraphrases: 413 of 414 "
    assert checked in capsys.readouterr().out


def test_nothing_is_left_of_an_import_that_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = log(tmp_path / "m_seed7", {}, {"variant_id": 4, **_bddl(4)})
    add_all = Store.add_all

    def interrupted(store: Store, records: list[Record]) -> None:
        def some() -> Any:
            yield records[0]
            raise KeyboardInterrupt

        add_all(store, some())

    with monkeypatch.context() as patch:
        patch.setattr(Store, "add_all", interrupted)
        with pytest.raises(KeyboardInterrupt):
            import_log(folder)
    assert run_names(Path(".vla")) == []
    import_log(folder)
    assert len(records_of(Path(".vla"))) == 2


def _bddl(variant: int) -> dict[str, Any]:
    return {"bddl_file": str(EPISODE["bddl_file"]).replace("ver3", f"ver{variant}")}


def openpi_log(name: str, failures: int, suite: str = "libero_goal", n: int = 20) -> Path:
    lost = [(index % 10, index // 10) for index in range(failures)]
    return write(Path(name), text_log("openpi", suite, outcomes(suite, 10, n, lost)))


def test_two_logs_are_gated_by_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    old, same, worse = openpi_log("old.txt", 4), openpi_log("same.txt", 5), openpi_log("worse.txt", 60)
    assert main(["gate", str(worse), f"--baseline={old}", "--json"]) == 1
    verdict = json.loads(capsys.readouterr().out)
    assert (verdict["verdict"], verdict["run"]["model"], verdict["baseline"]["model"]) == ("regression", "worse", "old")
    # Nobody can run a log in rounds.
    assert main(["gate", str(openpi_log("near.txt", 5, n=2)), f"--baseline={old}"]) == 0
    assert "inconclusive" in (told := capsys.readouterr().out)
    assert "sequential" not in told
    assert main(["gate", str(same), f"--baseline={old}", "--require=no-worse"]) == 0
    assert "note" not in capsys.readouterr().out
    # Each is a run, and is imported once.
    assert len(run_names(Path(".vla"))) == 4
    assert main(["baseline", "save", str(old), "-o", "b.json"]) == 0
    assert main(["gate", str(worse), "--baseline=b.json"]) == 1
    assert str(old.resolve()) not in Path("b.json").read_text()
    assert main(["plan", f"--baseline={old}"]) == 0
    capsys.readouterr()
    assert main(["report", str(old), "--format=json"]) == 0
    (model,) = json.loads(capsys.readouterr().out)["models"]
    assert (model["success"]["evaluator"], model["success"]["n"], round(model["success"]["sr"], 1)) == (
        "openpi",
        200,
        98.0,
    )
    assert len(run_names(Path(".vla"))) == 4


def test_a_log_as_the_baseline_of_a_run_says_the_seeds() -> None:
    settings: Any = SimpleNamespace(baseline=openpi_log("old.txt", 4), results=Path(".vla"))
    assert _seeds_of_baseline(settings) == {"libero_goal": tuple(range(20))}


def test_logs_of_different_evaluators_are_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    old = openpi_log("old.txt", 4)
    other = write(Path("oft.txt"), text_log("openvla-oft", "libero_goal", outcomes("libero_goal", 10, 20)))
    unknown = write(Path("x.txt"), text_log("openvla", "libero_goal", outcomes("libero_goal", 10, 20)))
    for path in (other, unknown):
        assert main(["gate", str(path), f"--baseline={old}"]) == 1
        assert "evaluator differs (baseline openpi, run" in capsys.readouterr().out
    assert main(["gate", str(unknown), f"--baseline={unknown}"]) == 0
    assert "evaluators of both logs are unknown" in capsys.readouterr().out


def test_logs_of_several_suites_are_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    files = [openpi_log(f"{suite}.txt", 3, suite, 2) for suite in ("libero_goal", "libero_object")]
    import_log(*files, "--model=pi05")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(": 40 episodes of 20 tasks by pi05, 34 successes")
    assert {record.suite for record in records_of(Path(".vla"))} == {"libero_goal", "libero_object"}
    with pytest.raises(VlaError, match="files of one command become one run, and have one format"):
        import_log(files[0], write(Path("r.json"), x_vla_lines("libero_goal", {"x": [True]})), "--model=m")


def test_a_log_that_needs_options_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    text = text_log("openvla", "libero_goal", {"turn on the stove": [True]}).partition("\n")[2]
    path = write(Path("a.txt"), text)
    assert main(["report", str(path)]) == 1
    assert "--suite=NAME" in capsys.readouterr().err
    import_log(path, "--suite=libero_goal", "--evaluator=openvla", "--model=m")
    assert main(["report", str(path)]) == 0
    assert "m, libero_goal, evaluator openvla" in capsys.readouterr().out
    with pytest.raises(VlaError, match="`pytest-vla rm "):
        import_log(path, "--suite=libero_goal")


@pytest.mark.parametrize("runs", [[], ["last"]])
def test_a_log_as_the_baseline_is_not_the_last_run_that_is_judged(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(openpi_log("worse.txt", 60))]) == 0
    capsys.readouterr()
    assert main(["gate", *runs, f"--baseline={openpi_log('old.txt', 4)}", "--json"]) == 1
    verdict = json.loads(capsys.readouterr().out)
    assert (verdict["verdict"], verdict["run"]["model"], verdict["baseline"]["model"]) == ("regression", "worse", "old")


def test_two_logs_of_one_model_are_apart_if_they_have_the_same_cases(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        Path(name, "pi0").mkdir(parents=True)
    files = [openpi_log("one/pi0/log.txt", 4), openpi_log("two/pi0/log.txt", 60)]
    assert main(["report", *map(str, files), "--format=json"]) == 0
    found = {each["model"]: each["success"]["sr"] for each in json.loads(capsys.readouterr().out)["models"]}
    assert sorted(round(rate) for rate in found.values()) == [70, 98]
    assert {*found} == {f"pi0 (run {name})" for name in run_names(Path(".vla"))}
    assert main(["report", *map(str, files)]) == 0
    shown = capsys.readouterr().out
    assert all(f"note: the log {path}" in shown for path in files)
    # Of one evaluator, two logs are apart as well beside one of another.
    import_log(write(Path("oft.txt"), text_log("openvla-oft", "libero_goal", outcomes("libero_goal"))), "--model=pi0")
    names = {name for name, _ in by_model(load([], Path(".vla")).records)}
    assert len(names) == 3
    assert all("evaluator " in name and "run " in name for name in names)


def test_logs_of_different_tasks_are_one_row_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    whole = outcomes("libero_goal", 10, 3)
    for name, texts in (("a.txt", [*whole][:4]), ("b.txt", [*whole][4:])):
        import_log(write(Path(name), text_log("openpi", "libero_goal", {t: whole[t] for t in texts})), "--model=m")
    capsys.readouterr()
    assert main(["report"]) == 0
    shown = capsys.readouterr().out
    assert "=== m, libero_goal, evaluator openpi ===\nnote: 2 logs together: a.txt, b.txt" in shown


def test_each_log_below_a_folder_is_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "all" / "pi0").mkdir(parents=True)
    (tmp_path / "all" / ".hidden").mkdir()
    (tmp_path / "all" / "x" / "y").mkdir(parents=True)
    good = openpi_log("all/a.txt", 4)
    text = good.read_text()
    for name in ("copy.txt", "pi0/log.txt", ".hidden/b.txt"):
        (tmp_path / "all" / name).write_text(text.replace("INFO:root:\n", "INFO:root: \n") if "log" in name else text)
    (tmp_path / "all" / "cut.txt").write_text(text[: len(text) // 2])
    (tmp_path / "all" / "video.mp4").write_bytes(bytes(range(256)))
    log(tmp_path / "all" / "x" / "y" / "m_seed7", {})
    (tmp_path / "all" / "link.txt").symlink_to(good.resolve())
    assert main(["import", "all"]) == 1
    said = capsys.readouterr()
    runs = [line for line in said.out.splitlines() if line.startswith("run ")]
    assert [line.split(" by ")[1].split(",")[0] for line in runs] == ["a", "m", "pi0"]
    assert f"{Path('all', 'copy.txt')} is already in .vla" in said.out
    assert "all: 1 file is no log: video.mp4" in said.out
    assert "1 file was not imported" in said.err
    assert "cut.txt: the log is not finished" in said.err
    # What is there is skipped; the rest is imported by the options that it needs.
    assert main(["import", "all", "--allow-unfinished"]) == 0
    assert len(run_names(Path(".vla"))) == 4
    assert main(["import", "all", "all/a.txt"]) == 1
    assert "import them apart" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    with pytest.raises(VlaError, match="empty: no file in it is a log"):
        import_log("empty")
