"""The model card's numbers: what they are made of, and how the script goes about it."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.metrics.language_paths import text_failures
from pytest_vla.metrics.rates import percents
from pytest_vla.metrics.success import success_rate, unit_of
from pytest_vla.policies.tiny.weights import load_weights
from pytest_vla.records.record import ASKED_DONE, Record
from pytest_vla.records.trajectory import load_trajectory, save_trajectory, trajectory_file
from pytest_vla.reports.loaded import Loaded
from scripts import tiny_card
from scripts.tiny_card import (
    ABLATIONS,
    CARD,
    NAMES,
    PARTS,
    TABLES,
    chosen,
    counts_of,
    main,
    read_card,
    shipped_weights,
)
from scripts.tiny_numbers import (
    Numbers,
    benign_numbers,
    displacement_numbers,
    listening_numbers,
    paraphrase_numbers,
    robustness_numbers,
    safety_numbers,
    speed_numbers,
)
from scripts.tiny_tables import EARLY, MODEL, cell, other_weights
from scripts.tiny_tables import page as page_of
from scripts.tiny_words import KEPT_OUT
from tests.support.data import REPOSITORY
from tests.support.paraphrased import ENDS, para_record, paraphrased, path_to, probed
from tests.support.records import record_of
from tests.support.robustness import run_of
from tests.support.safety import model_that_touches
from tests.support.tiny_weights import drawn_weights, written_weights
from tests.support.varied import varied

SCRIPT = REPOSITORY / "scripts" / "tiny_card.py"
TASKS = tuple(ENDS)
TRAINED = ("none", "hint")
SHIPPED = {MODEL: "aa", EARLY: "bb"}


def loaded_of(records: list[Record], folder: Path = Path()) -> Loaded:
    return Loaded(tuple(records), {"a-run": folder}, {})


def card_of(**parts: Any) -> dict[str, Any]:
    """A card's JSON, as it is read from its file, of the weights that ship."""
    tables = {}
    for name, numbers in parts.items():
        table = {"command": f"pytest {name}", "weights": SHIPPED[EARLY if name == "early" else MODEL]}
        if name in ("deaf", "blind"):
            table |= {"weights": name, "beside": SHIPPED[MODEL]}
        tables[name] = {**table, "numbers": {key: each.table() for key, each in numbers.items()}}
    return json.loads(json.dumps({"schema": 2, "parts": tables}))  # type: ignore[no-any-return]


def page(card: dict[str, Any]) -> str:
    return page_of(card, SHIPPED)


def listening_records() -> list[Record]:
    records = []
    for task in TASKS:
        for seed in range(5):
            records.append(para_record(task, seed, "success", {}, ""))
            records.append(probed(task, "blank", "failure", seed))
            told = probed(task, "other_task", "failure", seed)
            records.append(Record(**{**vars(told), "metrics": {ASKED_DONE: float(seed > 0)}}))
    return records


def test_benign_success_is_told_by_task_and_of_all() -> None:
    records = [record_of(seed, "success" if seed else "failure") for seed in range(4)] + [record_of(9, "error")]
    found = benign_numbers(loaded_of(records))
    each, of_all = found["success/turn_on_the_stove"], found["success/all"]
    assert (each.value, each.episodes) == (of_all.value, of_all.episodes) == (75.0, 4)
    assert each.interval is not None
    assert each.not_counted == {"policy-raised": 1}
    assert found["wall time of an episode"].table()["not_counted"] == {}
    assert found["wall time of an episode"].value == 1.25
    assert "| `turn_on_the_stove` | 75.0 [30.1, 95.4] | 4; not 1 policy-raised |" in page(card_of(benign=found))


def test_both_checkpoints_stand_in_one_table() -> None:
    later = benign_numbers(loaded_of([record_of(seed, "success") for seed in range(4)]))
    early = benign_numbers(loaded_of([record_of(seed, "failure") for seed in range(3)]))
    assert "| **all** | 100.0 [51.0, 100.0] | 0.0 [0.0, 56.1] | 4 and 3 |" in page(card_of(benign=later, early=early))
    assert "##" not in page(card_of(early=early)), "there is no table without the first column"


def test_who_is_deaf_and_who_is_blind_stand_beside_tiny() -> None:
    whole, deaf, blind = (
        benign_numbers(loaded_of([record_of(seed, "success" if seed < done else "failure") for seed in range(4)]))
        for done in (4, 2, 0)
    )
    text = page(card_of(benign=whole, deaf=deaf, blind=blind))
    assert "| task | deaf, % | blind, % | `tiny`, % | episodes |" in text
    assert "| **all** | 50.0 [15.0, 85.0] | 0.0 [0.0, 49.0] | 100.0 [51.0, 100.0] | 4 |" in text
    assert "pytest deaf\npytest blind\npytest benign\n" in text
    assert "deaf" not in page(card_of(benign=whole))


def test_listening_tells_what_is_done_of_the_scenes_task_and_of_what_is_told() -> None:
    found = listening_numbers(loaded_of(listening_records()))
    assert found["success/right text"].value == 100.0
    assert found["success/blank"].value == found["success/other_task"].value == 0.0
    assert (found["followed/other_task"].value, found["followed/other_task"].episodes) == (80.0, 15)
    assert "followed/blank" not in found
    text = page(card_of(listening=found))
    assert "| nothing | 15 | 0.0 [0.0, 20.4] | - |" in text
    assert "verdict: **listens**" in text


def test_errors_under_a_text_are_told_by_reason_and_so_are_episodes_without_a_twin() -> None:
    task = TASKS[0]
    records = [*listening_records(), para_record(task, 7, "error", {}, ""), para_record(task, 8, "success", {}, "")]
    records += [probed(task, "blank", "failure", 7), probed(task, "blank", "invalid", 8)]
    found = listening_numbers(loaded_of(records))
    assert found["success/right text"].not_counted == {"policy-raised": 1, "no-counted-probe": 1}
    assert found["success/blank"].episodes == 15
    assert found["success/blank"].not_counted == {"goal-holds-at-start": 1, "no-counted-twin": 1}
    assert found["success/other_task"].not_counted == {}
    assert "| nothing | 15; not 1 goal-holds-at-start, 1 no-counted-twin | 0.0" in page(card_of(listening=found))


def test_a_text_under_which_nothing_was_counted_is_no_silence() -> None:
    records = [para_record(TASKS[0], 7, "success", {}, ""), probed(TASKS[0], "blank", "error")]
    found = listening_numbers(loaded_of(records))
    assert (found["success/blank"].value, found["success/blank"].not_counted) == (None, {"policy-raised": 1})
    assert "| nothing | 0; not 1 policy-raised | - | - |" in page(card_of(listening=found))


def test_robustness_names_the_dimensions_whose_drop_leaves_out_zero() -> None:
    records = run_of("", [True] * 12)
    records += run_of("camera.azimuth-L1", [True] * 12) + run_of("camera.azimuth-L5", [False] * 12)
    records += run_of("light.diffuse-L3", [True] * 12)
    records += [varied("light.diffuse-L3", "error", "a_task", 12), varied("light.diffuse-L3", True, "a_task", 13)]
    records += [varied("noise.blur-L2", "invalid", "a_task", 1)]
    found = robustness_numbers(loaded_of(records))
    assert found["success/camera/L0"].value == found["success/camera/L1"].value == 100.0
    assert found["success/camera/L5"].value == found["kind/camera.azimuth/L5"].value == 0.0
    change = found["change/camera"]
    assert (change.value, change.episodes) == (-50.0, 24)
    assert change.interval is not None
    assert change.interval[1] < 0
    assert found["change/light"].not_counted == {"policy-raised": 1, "no-counted-twin": 1}
    text = page(card_of(robustness=found))
    assert "| 12; not 1 policy-raised, 1 no-counted-twin | - |" in text
    assert "| noise | - | - | - | - | - | - | - | 0; not 1 goal-holds-at-start | - |" in text
    assert "| `noise.blur` | - | - (0; not 1 goal-holds-at-start) | - |" in text
    assert "leaves out zero: camera. It may be none: light, noise." in text
    assert "Holm's correction for all dimensions: camera." in text
    assert "| `camera.azimuth` | 100 (12) | - | - | - | 0 (12) |" in text


@pytest.mark.slow
def test_paraphrases_of_kinds_that_were_kept_out_stand_apart() -> None:
    records = [para_record(task, 7, "success", {}, "") for task in TASKS]
    for task in TASKS:
        records += [paraphrased(task, index, "success", types=TRAINED) for index in range(3)]
        records += [paraphrased(task, index, "failure", types=KEPT_OUT[0]) for index in range(2)]
    found = paraphrase_numbers(loaded_of(records))
    assert (found["success/trained kinds"].value, found["success/trained kinds"].episodes) == (100.0, 9)
    assert (found["success/kinds kept out"].value, found["success/kinds kept out"].episodes) == (0.0, 6)
    assert (found["PRIDE/trained kinds"].value, found["PRIDE/kinds kept out"].value) == (100.0, 0.0)
    assert found["success/all"].value == 60.0
    assert found["success/the task's own text"].episodes == 3
    assert "success/trained kinds, trained texts" not in found, "no such text is trained"
    text = page(card_of(paraphrases=found))
    assert "| kinds kept out | 6 | 0.0" in text
    assert "Distances by " in text


@pytest.mark.slow
def test_paraphrases_of_one_init_state_are_one_unit() -> None:
    records = [
        paraphrased(task, index, "success" if seed else "failure", seed, types=TRAINED)
        for task in (*TASKS, "open_the_drawer", "close_the_drawer")
        for seed in range(4)
        for index in range(5)
    ]
    records.append(paraphrased(TASKS[0], 5, "error", types=TRAINED))
    found = paraphrase_numbers(loaded_of(records))
    of_all = found["success/all"]
    assert (of_all.value, of_all.episodes, of_all.not_counted) == (75.0, 100, {"policy-raised": 1})
    by_unit = success_rate("", records, unit_of)
    assert of_all.interval == percents(by_unit.interval)
    assert of_all.tasks_interval == percents(by_unit.tasks_interval)
    pride = found["PRIDE/all"]
    assert pride.interval is not None
    assert of_all.interval is not None
    assert pride.interval[1] - pride.interval[0] == pytest.approx(of_all.interval[1] - of_all.interval[0], rel=0.2)
    one_each = success_rate("", records).interval
    assert one_each is not None
    assert of_all.interval[1] - of_all.interval[0] > 150 * (one_each[1] - one_each[0])
    assert "| all | 100; not 1 policy-raised | 75.0 [" in page(card_of(paraphrases=found))


def test_an_interval_over_tasks_like_these_stands_beside_that_over_these() -> None:
    number = {"value": 94.84, "interval": [92.5, 96.4], "tasks_interval": [83.5, 98.51]}
    assert cell(number) == "94.8 [92.5, 96.4] (83.5, 98.5)"
    assert cell({"value": 94.84, "interval": [92.5, 96.4]}) == "94.8 [92.5, 96.4]"


@pytest.mark.slow
def test_failures_are_near_or_far_by_their_paths(tmp_path: Path) -> None:
    task, other = TASKS[:2]
    records = []

    def kept(record: Record, end: tuple[float, float, float]) -> None:
        arrays = f"{len(records)}.npz"
        save_trajectory(trajectory_file(tmp_path, arrays), path_to(end, seed=len(records)))
        records.append(Record(**{**vars(record), "arrays": arrays}))

    for seed in range(6):
        kept(para_record(task, seed, "success", {}, ""), ENDS[task])
        kept(para_record(other, seed, "success", {}, ""), ENDS[other])
        kept(paraphrased(task, 0, "success", seed=seed), ENDS[task])
    kept(paraphrased(task, 1, "failure"), ENDS[other])
    kept(para_record(task, 9, "failure", {}, ""), ENDS[other])
    records.append(paraphrased(task, 2, "failure"))

    def shares(of: list[Record]) -> tuple[dict[str, float | None], Numbers]:
        found = paraphrase_numbers(loaded_of(of, tmp_path))
        names = ("near", "far", "undefined", "another task's path")
        return {name: found[f"failures/{name}/paraphrases"].value for name in names}, found

    values, found = shares(records)
    assert values == pytest.approx({"near": 0.0, "far": 100 / 7, "undefined": 0.0, "another task's path": 100.0})
    far = found["failures/far/paraphrases"]
    assert far.told == {"examples": [paraphrased(task, 1, "failure").case]}
    assert (far.episodes, far.not_counted) == (7, {"no-path": 1})
    text = page(card_of(paraphrases=found))
    assert "## How it fails" in text
    assert "| paraphrases | 7; not 1 no-path | 0.0" in text

    def path(record: Record) -> Any:
        return record.arrays and load_trajectory(trajectory_file(tmp_path, record.arrays)).eef_pos

    reported = text_failures([record for record in records if record.variation], path, "exact")
    assert reported is not None
    assert reported.levels["max"].far.value == far.value, "the report has the same share"

    alone, _ = shares([record for record in records if record.task == task])
    assert alone["another task's path"] is None, "there is no other task's path to tell"
    assert alone["far"] == pytest.approx(100 / 7)
    few, found = shares([record for record in records if record.outcome == "failure"])
    assert few == {"near": None, "far": None, "undefined": 100.0, "another task's path": None}
    assert "| paraphrases | 1; not 1 no-path | - | - | 100.0" in page(card_of(paraphrases=found))


def test_displacement_is_told_by_axis_and_metres() -> None:
    records = [varied("", True, seed=seed) for seed in range(6)]
    records += [varied("pro.displace_x-L1", True, seed=seed) for seed in range(6)]
    records += [varied("pro.displace_x-L4", False, seed=seed) for seed in range(6)]
    found = displacement_numbers(loaded_of(records))
    assert (found["success/displace_x/0.1 m"].value, found["success/displace_x/0.4 m"].value) == (100.0, 0.0)
    assert found["change/displace_x"].value == -50.0
    assert found["change/displace_x"].not_counted == {}
    assert "| along x | 100 (6) | 100 (6) | - | - | 0 (6) | - | -50.0 [" in page(card_of(displacement=found))


def test_safety_is_told_by_level() -> None:
    found = safety_numbers(loaded_of(model_that_touches()))
    assert found["success/L0"].value == found["safe success/L0"].value
    safe, done = found["safe success/L1"].value, found["success/L1"].value
    assert safe is not None
    assert done is not None
    assert safe < done
    assert "| L1 | 18 |" in page(card_of(safety=found))


def test_safety_tells_by_level_what_is_in_no_rate() -> None:
    records = model_that_touches()
    broken = [Record(**{**vars(record), "outcome": "error", "reason": "policy-raised"}) for record in records]
    of_l2 = [
        Record(**{**vars(record), "task_level": "L2", "case": record.case.replace("L0", "L2")})
        for record in broken
        if record.task_level == "L0"
    ]
    unpriced = Record(**{**vars(records[0]), "costs": ()})
    found = safety_numbers(loaded_of([unpriced, *records[1:-1], broken[-1], *of_l2]))
    assert found["success/L0"].not_counted == {"no-ledger": 1}
    assert (found["safe success/L1"].episodes, found["safe success/L1"].not_counted) == (17, {"policy-raised": 1})
    text = page(card_of(safety=found))
    assert "| L1 | 17; not 1 policy-raised |" in text
    assert "| L2 | 0; not 18 policy-raised | - | - | - |" in text


def test_the_time_of_a_question_is_what_check_policy_measured() -> None:
    row = {"batch": 4, "median_ms": 12.5, "slowest_ms": 20.0, "actions_per_second": 9.0}
    found = speed_numbers({"latency": [row]})
    assert "| 4 | 12.5 | 20.0 |" in page(card_of(speed=found))


def test_parts_come_in_their_order_and_counts_are_in_their_commands() -> None:
    assert chosen([]) == tuple(name for name in NAMES if name != ABLATIONS)
    assert chosen(["speed", "benign"]) == ("benign", "speed")
    counts = counts_of(["robustness=160"])
    (part,) = (part for part in PARTS if part.name == "robustness")
    assert "--vla-sample=160" in part.command("tiny", counts["robustness"], None, "2")
    assert "--vla-sample=800" in part.command("tiny", None, None, "2")
    assert "--vla-tasks=stove" in part.command("tiny", None, "stove", "2")


def test_a_part_of_other_weights_is_named_and_in_no_table() -> None:
    numbers = benign_numbers(loaded_of([record_of(seed, "success") for seed in range(4)]))
    card = card_of(benign=numbers, early=numbers, deaf=numbers, blind=numbers)
    assert "Left out" not in page(card)
    for name, key in (("early", "weights"), ("blind", "beside")):
        card["parts"][name][key] = "cc"
    text = page(card)
    assert "of other weights than those that ship: early, blind.\n" in text
    assert "| task | `tiny`, % | episodes |" in text
    assert "| task | deaf, % | `tiny`, % | episodes |" in text
    assert "pytest blind" not in text
    assert "##" not in page_of(card, {MODEL: "dd", EARLY: "dd"})


def test_published_numbers_are_of_the_weights_that_ship_and_the_tables_are_theirs() -> None:
    card = read_card(REPOSITORY / CARD)
    assert other_weights(card["parts"], shipped_weights()) == []
    assert page_of(card, shipped_weights()) == (REPOSITORY / TABLES).read_text(encoding="utf-8")


@pytest.mark.slow
def test_paraphrases_are_spread_over_init_states(pytester: pytest.Pytester) -> None:
    (part,) = (part for part in PARTS if part.name == "paraphrases")
    _, *options, _, _ = part.command("random", None, None, "2")
    found = pytester.runpytest(*options, "--collect-only", "-q").outlines
    names = [line for line in found if "language.paraphrase" in line]
    assert len({re.sub(r"-seed\d+", "", name) for name in names}) == len(names) == 430
    by_seed = Counter(re.findall(r"-seed(\d+)", "\n".join(names)))
    assert len(by_seed) == 10
    assert min(by_seed.values()) >= 30


def test_a_trial_is_refused_for_the_card(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trial = ["benign", "--tasks=turn_on_the_stove", "--results=runs"]
    for more in ([], ["--json=docs/../docs/tiny.json"]):
        assert tiny_card.main([*trial, *more]) == 1
        told = capsys.readouterr().err
        assert (
            told == "--tasks=turn_on_the_stove: a trial is not for docs/tiny.json; name another file by --json=FILE\n"
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["robustness", "robustness=", "robustness=0", "robustness=-1", "speed=3", "=1", "a=b"])
def test_a_count_that_is_none_is_told(text: str) -> None:
    with pytest.raises(VlaError, match=r"expected PART=N.*robustness=800"):
        counts_of([text])


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema": 7, "parts": {}}', '{"schema": 2, "parts": 3}'])
def test_a_file_that_is_no_card_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "card.json"
    path.write_text(text)
    with pytest.raises(VlaError, match="remove it to measure all"):
        read_card(path)


def test_ablations_are_measured_where_both_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(VlaError, match=r"expected --ablations=FOLDER.*train_tiny\.py --out build/tiny --ablations"):
        chosen([ABLATIONS])
    written_weights(tmp_path / "deaf.npz")
    with pytest.raises(VlaError, match=r"there is no blind\.npz; expected what `python scripts/train_tiny\.py --out /"):
        chosen(["benign", ABLATIONS], tmp_path)
    with pytest.raises(VlaError, match="there is no blind"):
        chosen([], tmp_path)
    written_weights(tmp_path / "blind.npz")
    with pytest.raises(VlaError, match=r"there is no final\.npz"):
        chosen([ABLATIONS], tmp_path)
    written_weights(tmp_path / "final.npz")
    assert chosen(["speed", ABLATIONS, "benign"], tmp_path) == ("benign", "deaf", "blind", "speed")
    assert set(chosen([], tmp_path)) == {*NAMES, "deaf", "blind"} - {ABLATIONS}
    assert chosen(["benign"], tmp_path) == ("benign",)
    assert counts_of(["ablations=3"]) == {ABLATIONS: 3}


def test_an_unknown_part_ends_with_those_that_there_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tiny_card.main(["curves", "--results", str(tmp_path)]) == 1
    assert "there is no part 'curves'; expected some of benign, early" in capsys.readouterr().err


@pytest.mark.slow
def test_a_part_is_measured_by_a_run_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def card(*more: str) -> str:
        files = [f"--json={tmp_path / 'a.json'}", f"--results={tmp_path / 'runs'}"]
        trial = ["benign", "speed", "--count=benign=2", "--tasks=turn_on_the_stove", "--model=random"]
        assert tiny_card.main([*trial, *files, *more]) == 0
        return capfd.readouterr().out

    assert "[1/2] benign: 3 numbers of 2 episodes" in card()
    parts = json.loads((tmp_path / "a.json").read_text())["parts"]
    number = parts["benign"]["numbers"]["success/turn_on_the_stove"]
    assert number["episodes"] == 2
    assert number["command"].startswith("pytest --vla-suite=tabletop --vla-episodes=2 --vla-tasks=turn_on_the_stove")
    assert "renderer" in parts["benign"]["made under"]
    text = (tmp_path / "a.md").read_text()
    assert "than those that ship: benign, speed." in text
    assert "## Success" not in text
    said = card()
    assert "[1/2] benign: is there, by pytest" in said
    assert "$" not in said
    said = card("--count=benign=1")
    assert "[1/2] benign: is there of another policy or by another command, and is measured again" in said
    assert "[2/2] speed: is there, by" in said
    assert json.loads((tmp_path / "a.json").read_text())["parts"]["benign"]["episodes"] == 1
    (tmp_path / "a.json").unlink()
    assert "[1/2] benign: was run" in card(), "of a run that is whole the numbers are made without another one"


@pytest.mark.slow
def test_ablations_are_two_parts_whose_commands_name_no_path_of_this_machine(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    written_weights(tmp_path / "deaf.npz")
    written_weights(tmp_path / "blind.npz", drawn_weights(1))
    written_weights(tmp_path / "final.npz", drawn_weights(2))
    files = [f"--json={tmp_path / 'a.json'}", f"--markdown={tmp_path / 'a.md'}", f"--results={tmp_path / 'runs'}"]
    trial = ["ablations", "--count=ablations=1", "--tasks=turn_on_the_stove", f"--ablations={tmp_path}", *files]
    assert tiny_card.main(trial) == 0
    assert "[2/2] blind: 3 numbers of 1 episodes" in capfd.readouterr().out
    written = (tmp_path / "a.json").read_text()
    parts = json.loads(written)["parts"]
    assert {name: part["model"] for name, part in parts.items()} == {
        "deaf": "tiny:build/tiny/deaf.npz",
        "blind": "tiny:build/tiny/blind.npz",
    }
    assert parts["deaf"]["weights"] == load_weights(tmp_path / "deaf.npz").digest != parts["blind"]["weights"]
    assert parts["deaf"]["beside"] == parts["blind"]["beside"] == load_weights(tmp_path / "final.npz").digest
    assert "than those that ship: deaf, blind." in (tmp_path / "a.md").read_text()
    assert "--vla-episodes=1 --vla-tasks=turn_on_the_stove --vla-model=tiny:build/" in parts["deaf"]["command"]
    assert str(tmp_path) not in written + (tmp_path / "a.md").read_text()
    assert tiny_card.main(trial) == 0
    assert "[1/2] deaf: is there, by pytest" in capfd.readouterr().out


def test_the_script_runs_as_a_file_from_any_folder(tmp_path: Path) -> None:
    told = subprocess.run([sys.executable, str(SCRIPT), "--help"], cwd=tmp_path, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert "--ablations" in told.stdout


def test_tables_of_a_json_that_is_not_there_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    assert main(["--tables", f"--json={tmp_path / 'typo.json'}", f"--markdown={page}"]) == 1
    assert "typo.json: there is no such file" in capsys.readouterr().err
    assert not page.exists()
