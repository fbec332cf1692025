"""LIBERO-PRO's semantic paraphrases: drawn from the user's YAML, whose malformed entries are named."""

import hashlib
import sys
from pathlib import Path

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.suite import load_suite
from pytest_vla.variation import Variation
from pytest_vla.vary import registry
from pytest_vla.vary.libero_pro import FILE, as_bddl, load_paraphrases, paraphrase
from tests.support.data import data_root, needs_data

LABEL = "language.pro"
STOVE = "libero_goal:\n  turn_on_the_stove:\n"
SCENE5 = "LIVING_ROOM_SCENE5_put_the_white_mug_on_the_left_plate_and_put_the_yellow_and_white_mug_on_the_right_plate"


@pytest.fixture(autouse=True)
def _no_data_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_VLA_DATA", raising=False)
    registry._drawn.cache_clear()


@pytest.fixture
def yaml() -> None:
    pytest.importorskip("yaml", reason="needs PyYAML")


def drawn(data: Path | None, seed: int, suite: str = "libero_goal", task: str = "turn_on_the_stove") -> Variation:
    found = registry.find_variation(load_suite(suite, data=data).task(task), LABEL, seed)
    assert found is not None
    return found


@needs_data
@pytest.mark.usefixtures("yaml")
def test_the_published_file_has_one_malformed_entry_of_120() -> None:
    root = data_root()
    assert root is not None
    found = load_paraphrases(root / "libero_pro" / FILE)
    assert {len(texts) for texts in found.texts.values()} == {3}
    assert len(found.texts) == 39
    assert set(found.malformed) == {("libero_10", SCENE5)}
    (complaint,) = found.malformed["libero_10", SCENE5]
    assert complaint.startswith("entry 3 of 3 is a mapping, as ': ' stands in a text without quotes: {'set mugs'")
    assert sum("\u2019" in text for texts in found.texts.values() for text in texts) == 4


@needs_data
@pytest.mark.usefixtures("yaml")
def test_every_task_of_the_published_file_is_varied_but_the_malformed_one() -> None:
    for suite in ("libero_goal", "libero_spatial", "libero_object", "libero_10"):
        for task in load_suite(suite, data=data_root()).tasks:
            if task.name == SCENE5:
                for seed in range(6):
                    with pytest.raises(VlaError, match=f"is malformed at libero_10/{SCENE5}: entry 3 of 3 is a map"):
                        registry.find_variation(task, LABEL, seed)
                continue
            texts = {drawn(data_root(), seed, suite, task.name).instruction for seed in range(30)}
            assert len(texts) == 3
            assert task.language not in texts


@pytest.mark.usefixtures("yaml")
def test_the_seed_draws_and_the_record_says_what(tmp_path: Path) -> None:
    content = f"{STOVE}    - Switch  ON the stove\n    - turn the stove on\n    - ignite the stove\n"
    (tmp_path / FILE).write_text(content)
    texts = ["switch on the stove", "turn the stove on", "ignite the stove"]
    for seed in range(12):
        variation = drawn(tmp_path, seed)
        assert (variation.label, variation.dimension, variation.kind) == (LABEL, "language", "libero-pro")
        assert variation.instruction == texts[variation.parameters["index"]]
        assert variation.parameters["file"] == FILE
        assert variation.parameters["digest"] == hashlib.sha256(content.encode()).hexdigest()[:16]
        assert variation.parameters["original"] == "turn on the stove"
        registry._drawn.cache_clear()
        assert drawn(tmp_path, seed) == variation
    assert {drawn(tmp_path, seed).instruction for seed in range(12)} == set(texts)


@pytest.mark.usefixtures("yaml")
@pytest.mark.parametrize("place", [".", "libero_pro", "libero_ood", "LIBERO-PRO", "LIBERO-PRO/libero_ood"])
def test_the_file_is_found_in_data_and_in_a_checkout(tmp_path: Path, place: str) -> None:
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    (tmp_path / place / FILE).write_text(f"{STOVE}    - ignite the stove\n")
    assert drawn(tmp_path, 0).instruction == "ignite the stove"


@pytest.mark.usefixtures("yaml")
def test_the_environment_says_where_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / FILE).write_text(f"{STOVE}    - ignite the stove\n")
    monkeypatch.setenv("PYTEST_VLA_DATA", str(tmp_path))
    assert drawn(None, 0).instruction == "ignite the stove"
    (tmp_path / "other").mkdir()
    assert drawn(tmp_path / "other", 0).instruction == "ignite the stove"


def test_without_the_file_the_message_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(VlaError, match=r"ood_language.yaml is nowhere: give a checkout .* by --vla-data or .* Looked"):
        drawn(tmp_path, 0)


@pytest.mark.usefixtures("yaml")
@pytest.mark.parametrize(
    ("entries", "complaint"),
    [
        ("    - fine\n    - set mugs: white on left\n", "entry 2 of 2 is a mapping, as ': ' stands in a text without"),
        ("    - yes\n", "entry 1 of 1 is no text: True"),
        ("    - 3\n    - fine\n    - ''\n", "entry 1 of 3 is no text: 3; entry 3 of 3 is no text: ''"),
        ("    - ignite (the stove)\n", r"entry 1 of 1 has \( or \) or ;, which no BDDL text can"),
        ("    ignite the stove\n", "expected a list of texts, found 'ignite the stove'"),
        ("    []\n", r"expected a list of texts, found \[\]"),
    ],
)
def test_a_malformed_entry_is_an_error_of_its_task_alone(tmp_path: Path, entries: str, complaint: str) -> None:
    (tmp_path / FILE).write_text(f"{STOVE}{entries}  put_the_bowl_on_the_plate:\n    - bowl to plate\n")
    for seed in range(4):
        with pytest.raises(VlaError, match=rf"is malformed at libero_goal/turn_on_the_stove: {complaint}"):
            drawn(tmp_path, seed)
    assert drawn(tmp_path, 0, task="put_the_bowl_on_the_plate").instruction == "bowl to plate"


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
        drawn(tmp_path, 0)


@pytest.mark.usefixtures("yaml")
def test_nothing_in_the_file_is_evaluated(tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    (tmp_path / FILE).write_text(f"{STOVE}    - !!python/object/apply:pathlib.Path.touch ['{sign}']\n")
    with pytest.raises(VlaError, match="cannot be read as YAML"):
        drawn(tmp_path, 0)
    assert not sign.exists()


@pytest.mark.usefixtures("yaml")
def test_a_task_that_the_file_lacks_is_told_with_close_ones(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("libero_goal:\n  turn_on_a_stove:\n    - ignite the stove\n")
    with pytest.raises(VlaError, match=r"no task libero_goal/turn_on_the_stove. Did you mean turn_on_a_stove\?"):
        drawn(tmp_path, 0)
    with pytest.raises(VlaError, match=r"no task tabletop/"):
        paraphrase(load_suite("tabletop", data=tmp_path).tasks[0], LABEL, 0)


@pytest.mark.usefixtures("yaml")
def test_a_text_that_is_the_tasks_own_is_no_variation(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(f"{STOVE}    - Turn on the stove\n")
    with pytest.raises(VlaError, match="changes nothing"):
        drawn(tmp_path, 0)


def test_without_pyyaml_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / FILE).write_text(f"{STOVE}    - ignite the stove\n")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(VlaError, match=r"cannot be read without PyYAML .*: pip install pyyaml"):
        drawn(tmp_path, 0)


def test_a_text_is_as_upstreams_bddl_reader_has_it() -> None:
    assert as_bddl(" Open\tthe  cabinet\u2019s\nDrawer ") == "open the cabinet\u2019s drawer"
