"""LIBERO-PRO's paraphrases: the published ones, where their file is found, and a file that is none."""

import hashlib
from pathlib import Path

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.scene.variation import Variation
from pytest_vla.suites.libero_pro.tables import FILES, OURS, as_bddl, load_table
from tests.support.data import data_root, needs_data
from tests.support.libero_pro_variations import FILE, SCENE5, STOVE, drawn


@pytest.fixture
def yaml() -> None:
    pytest.importorskip("yaml", reason="needs PyYAML")


@needs_data
@pytest.mark.usefixtures("yaml")
def test_the_published_paraphrases_have_one_malformed_entry_of_120() -> None:
    root = data_root()
    assert root is not None
    found = load_table("semantic", root / "libero_pro" / FILE)
    assert {len(texts) for texts in found.entries.values()} == {3}
    assert len(found.entries) == 39
    assert set(found.malformed) == {("libero_10", SCENE5)}
    (complaint,) = found.malformed["libero_10", SCENE5]
    assert complaint.startswith("entry 3 of 3 is a mapping, as ': ' stands in a text without quotes: {'set mugs'")
    assert sum("\u2019" in text for texts in found.entries.values() for text in texts) == 4


@needs_data
@pytest.mark.usefixtures("yaml")
def test_the_published_files_have_as_many_entries_as_the_specification_counts() -> None:
    root = data_root()
    assert root is not None
    tables = {name: load_table(name, root / "libero_pro" / file) for name, file in FILES.items()}
    assert all(not table.malformed for name, table in tables.items() if name != "semantic")
    partners = [partner for entries in tables["swap"].entries.values() for _, names in entries for partner in names]
    assert len(partners) == 151
    counts = {
        suite: sorted(len(entries) for (other, _), entries in tables["task"].entries.items() if other == suite)
        for suite in ("libero_goal", "libero_spatial", "libero_10", "libero_object")
    }
    assert counts == {
        "libero_goal": [1] * 6 + [2] * 4,
        "libero_spatial": [1] * 10,
        "libero_10": [1] * 3 + [2] * 7,
        "libero_object": [1] * 10,
    }


@needs_data
@pytest.mark.usefixtures("yaml")
def test_every_task_of_the_published_paraphrases_is_varied_but_the_malformed_one() -> None:
    for suite in ("libero_goal", "libero_spatial", "libero_object", "libero_10"):
        for task in load_suite(suite, data=data_root()).tasks:
            if task.name == SCENE5:
                for seed in range(6):
                    with pytest.raises(VlaError, match=f"is malformed at libero_10/{SCENE5}: entry 3 of 3 is a map"):
                        drawn("pro.semantic", data_root(), seed, suite, task.name)
                continue
            texts = {drawn("pro.semantic", data_root(), seed, suite, task.name).instruction for seed in range(30)}
            assert len(texts) == 3
            assert task.language not in texts


def paraphrased(data: Path | None, seed: int, task: str = "turn_on_the_stove") -> Variation:
    return drawn("pro.semantic", data, seed, "libero_goal", task)


@pytest.mark.usefixtures("yaml")
def test_the_seed_draws_a_paraphrase_and_the_record_says_which(tmp_path: Path) -> None:
    content = f"{STOVE}    - Switch  ON the stove\n    - turn the stove on\n    - ignite the stove\n"
    (tmp_path / FILE).write_text(content)
    texts = ["switch on the stove", "turn the stove on", "ignite the stove"]
    for seed in range(12):
        variation = paraphrased(tmp_path, seed)
        assert (variation.label, variation.dimension, variation.kind) == ("pro.semantic", "pro", "semantic")
        assert variation.instruction == texts[variation.parameters["index"]]
        assert variation.parameters["source"] == f"LIBERO-PRO's {FILE}"
        assert variation.parameters["digest"] == hashlib.sha256(content.encode()).hexdigest()[:16]
        assert variation.parameters["original"] == "turn on the stove"
        assert not variation.changes_world
        assert paraphrased(tmp_path, seed) == variation
    assert {paraphrased(tmp_path, seed).instruction for seed in range(12)} == set(texts)


@pytest.mark.usefixtures("yaml")
@pytest.mark.parametrize("place", [".", "libero_pro", "libero_ood", "LIBERO-PRO", "LIBERO-PRO/libero_ood"])
def test_the_file_is_found_in_data_and_in_a_checkout(tmp_path: Path, place: str) -> None:
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    (tmp_path / place / FILE).write_text(f"{STOVE}    - ignite the stove\n")
    assert paraphrased(tmp_path, 0).instruction == "ignite the stove"


@pytest.mark.usefixtures("yaml")
def test_the_environment_says_where_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / FILE).write_text(f"{STOVE}    - ignite the stove\n")
    monkeypatch.setenv("PYTEST_VLA_DATA", str(tmp_path))
    assert paraphrased(None, 0).instruction == "ignite the stove"
    (tmp_path / "other").mkdir()
    assert paraphrased(tmp_path / "other", 0).instruction == "ignite the stove"


def test_without_the_file_a_paraphrase_is_one_of_ours() -> None:
    found = [drawn("pro.semantic", None, seed) for seed in range(20)]
    assert len({each.instruction for each in found}) > 10
    assert all(each.instruction not in (None, "turn on the stove") for each in found)
    assert {each.parameters["source"] for each in found} == {OURS}
    assert found[3] == drawn("pro.semantic", None, 3)
    together = drawn("pro.combined.swap-semantic", None, 3, task="put_the_bowl_on_the_plate")
    alone = drawn("pro.semantic", None, 3, task="put_the_bowl_on_the_plate")
    assert (together.instruction, together.parameters["semantic.source"]) == (alone.instruction, OURS)


@pytest.mark.usefixtures("yaml")
@pytest.mark.parametrize(
    ("entries", "complaint"),
    [
        ("    - fine\n    - set mugs: white on left\n", "entry 2 of 2 is a mapping, as ': ' stands in a text without"),
        ("    - yes\n", "entry 1 of 1 is not a text: True"),
        ("    - 3\n    - fine\n    - ''\n", "entry 1 of 3 is not a text: 3; entry 3 of 3 is not a text: ''"),
        ("    - ignite (the stove)\n", r"entry 1 of 1 has \( or \) or ;, which no BDDL text can"),
        ("    ignite the stove\n", "expected a list of texts, found 'ignite the stove'"),
        ("    []\n", r"expected a list of texts, found \[\]"),
    ],
)
def test_a_malformed_entry_is_an_error_of_its_task_alone(tmp_path: Path, entries: str, complaint: str) -> None:
    (tmp_path / FILE).write_text(f"{STOVE}{entries}  put_the_bowl_on_the_plate:\n    - bowl to plate\n")
    for seed in range(4):
        with pytest.raises(VlaError, match=rf"is malformed at libero_goal/turn_on_the_stove: {complaint}"):
            paraphrased(tmp_path, seed)
    assert paraphrased(tmp_path, 0, task="put_the_bowl_on_the_plate").instruction == "bowl to plate"


@pytest.mark.usefixtures("yaml")
@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("a: [", "cannot be read as YAML"),
        ("a: 2001-99-99", "cannot be read as YAML"),
        ("- a\n", "expected LIBERO-PRO's ood_language.yaml: suites, each with tasks"),
        ("", "expected LIBERO-PRO's ood_language.yaml: suites, each with tasks"),
        ("libero_goal: text\n", "expected LIBERO-PRO's ood_language.yaml: suites, each with tasks"),
        ("libero_goal:\n  1:\n    - text\n", "expected LIBERO-PRO's ood_language.yaml: suites, each with tasks"),
        ("[" * 5000, "cannot be read as YAML"),
    ],
)
def test_a_file_that_is_no_such_yaml_is_refused(tmp_path: Path, content: str, complaint: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(VlaError, match=complaint):
        paraphrased(tmp_path, 0)


@pytest.mark.usefixtures("yaml")
def test_nothing_in_the_file_is_evaluated(tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    (tmp_path / FILE).write_text(f"{STOVE}    - !!python/object/apply:pathlib.Path.touch ['{sign}']\n")
    with pytest.raises(VlaError, match="cannot be read as YAML"):
        paraphrased(tmp_path, 0)
    assert not sign.exists()


@pytest.mark.usefixtures("yaml")
def test_a_task_that_the_file_lacks_is_told_with_close_ones(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("libero_goal:\n  turn_on_a_stove:\n    - ignite the stove\n")
    with pytest.raises(VlaError, match=r"no task libero_goal/turn_on_the_stove. Did you mean turn_on_a_stove\?"):
        paraphrased(tmp_path, 0)
    # Of a suite that the file does not have it says nothing.
    assert drawn("pro.semantic", tmp_path, 0).parameters["source"] == OURS


@pytest.mark.usefixtures("yaml")
def test_a_text_that_is_the_tasks_own_is_no_variation(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(f"{STOVE}    - Turn on the stove\n")
    with pytest.raises(VlaError, match="changes nothing"):
        paraphrased(tmp_path, 0)


def test_a_text_is_as_upstreams_bddl_reader_has_it() -> None:
    assert as_bddl(" Open\tthe  cabinet\u2019s\nDrawer ") == "open the cabinet\u2019s drawer"
