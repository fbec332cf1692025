"""Files of cases: what is written is read again, and whatever is wrong with one is said with its place."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.fuzz.candidate import Candidate, Scene, candidate_of
from pytest_vla.fuzz.case_file import ListedCase, read_cases, write_cases
from pytest_vla.plan.case import levelled
from pytest_vla.plan.manifests import load_suite
from pytest_vla.vary.chosen import change_of
from pytest_vla.vary.kind import Draw
from pytest_vla.vary.registry import find_variation, kind_named, kinds
from pytest_vla.vary.space import complaints
from tests.support.examples import scaled

TABLETOP = load_suite("tabletop")
NAMES = [kind.name for kind in kinds() if kind.levels and not kind.published and kind.name != "background.floor"]

GOOD = """\
schema = 1

[[case]]
suite = "tabletop"
task = "turn_on_the_stove"
seed = 3

[case.changes."camera.azimuth"]
azimuth_deg = 23.5
"""


@settings(max_examples=scaled(40))
@given(st.data())
def test_what_is_written_is_read_again(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    file = tmp_path_factory.mktemp("cases") / "fuzz_cases.toml"
    listed = []
    for seed in sorted(data.draw(st.sets(st.integers(0, 2**31 - 1), min_size=1, max_size=3))):
        task = data.draw(st.sampled_from(TABLETOP.tasks))
        names = data.draw(st.lists(st.sampled_from(NAMES), max_size=3, unique_by=lambda name: name.partition(".")[0]))
        changes = []
        for name in names:
            level = data.draw(st.integers(1, 2))
            try:
                params = kind_named(name).sample(Draw(task, levelled(name, level), seed, level))
            except VlaError:
                # Not of every task.
                continue
            changes.append(change_of(name, params))
        about = data.draw(st.text(st.characters(codec="utf-8"), max_size=20))
        listed.append(ListedCase(Candidate(task, seed, tuple(changes)), about))
    write_cases(file, listed)
    assert read_cases(file) == tuple(listed)
    for each in listed:
        label = each.candidate.label
        assert label == "" or label in each.candidate.case.id
    again = file.read_bytes()
    write_cases(file, read_cases(file))
    assert file.read_bytes() == again


def test_a_case_is_an_item_whose_variation_is_known(tmp_path: Path) -> None:
    file = tmp_path / "cases.toml"
    file.write_text(GOOD)
    (listed,) = read_cases(file)
    case = listed.candidate.case
    assert case.node_id.startswith("tabletop::test_episode[turn_on_the_stove-camera.azimuth-x")
    variation = find_variation(listed.candidate.task, case.variation, case.seed)
    assert variation is not None
    assert (variation.dimension, variation.kind, variation.level) == ("camera", "azimuth", None)
    assert variation.parameters == {"azimuth_deg": 23.5}


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("schema = 1\n", "", 0, "expected schema = 1 before the first [[case]], found none"),
        ("schema = 1", "schema = 2", 0, "expected schema = 1, found 2, of another version"),
        ("schema = 1", "schema = 1\nmore = 2", 0, "unknown key 'more'"),
        ("[[case]]", "[[cases]]", 0, "unknown key 'cases'"),
        ("[[case]]\n", "case = [\n", 0, "not valid TOML"),
        ('"tabletop"', '"tabeltop"', 4, "there is no suite 'tabeltop'. Did you mean tabletop"),
        ('"tabletop"', "3", 4, "expected suite = a text, found 3"),
        ('"turn_on_the_stove"', '"turn_on_the_stov"', 5, "Did you mean turn_on_the_stove"),
        ("seed = 3", "seed = -1", 6, "expected seed = a whole number from 0"),
        ("seed = 3", "seed = true", 6, "expected seed = a whole number from 0"),
        ("seed = 3", "sed = 3", 6, "unknown key 'sed': expected suite, task, seed, about, changes. Did you mean seed"),
        ("seed = 3", "seed = 3\nabout = 4", 7, "expected a text, found 4"),
        ("camera.azimuth", "camera.azimut", 8, "there is no kind of variation 'camera.azimut'. Did you mean camera"),
        ("23.5", "99.0", 9, "camera.azimuth: azimuth_deg: expected -75 to 75 deg, found 99.0"),
        (
            "azimuth_deg",
            "azimut_deg",
            9,
            "case[0].azimut_deg: camera.azimuth: unknown parameter 'azimut_deg'; Did you mean azimuth_deg? "
            "azimuth_deg is missing; parameters: azimuth_deg",
        ),
        (
            "azimuth_deg = 23.5",
            "",
            8,
            "case[0].changes: camera.azimuth: azimuth_deg is missing; parameters: azimuth_deg",
        ),
        (
            '[case.changes."camera.azimuth"]\nazimuth_deg = 23.5',
            "[case.changes.\"noise.gaussian\"]\nazimut = 1\n[case.changes.'camera.azimuth']\nazimut = 1",
            9,
            "noise.gaussian: unknown parameter 'azimut'",
        ),
        (
            'seed = 3\n\n[case.changes."camera.azimuth"]\nazimuth_deg = 23.5',
            'seed = 3\nchanges = {"camera.azimuth" = {azimut = 1}}',
            7,
            "unknown parameter 'azimut'",
        ),
        (
            "23.5",
            "23.5\nazimut = 3",
            10,
            "unknown parameter 'azimut'; Did you mean azimuth_deg? parameters: azimuth_deg",
        ),
        ("23.5", "23.5\nsource = 3", 10, "camera.azimuth: unknown parameter 'source'; parameters: azimuth_deg"),
        ("23.5", "nan", 9, "azimuth_deg: expected a number, found nan"),
        (
            "azimuth_deg = 23.5",
            'azimuth_deg = 23.5\n[case.changes."camera.distance"]\nfactor = 1.5',
            3,
            "one dimension",
        ),
        ('[case.changes."camera.azimuth"]\nazimuth_deg = 23.5', "changes = 4", 7, "expected tables [case.changes"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, old: str, new: str, line: int, said: str) -> None:
    file = tmp_path / "cases.toml"
    assert old in GOOD
    text = (
        GOOD.replace(old, new).replace("seed = 3\n\n", "seed = 3\n") if "changes = 4" in new else GOOD.replace(old, new)
    )
    file.write_text(text)
    with pytest.raises(VlaError) as raised:
        read_cases(file)
    assert said in str(raised.value)
    assert str(raised.value).startswith(f"{file}:{line}: case[0]" if line else f"{file}: ")


def test_facts_beside_the_parameters_are_kept(tmp_path: Path) -> None:
    """A search writes what a draw records, and labels have a digest of it."""
    file, task, kind = tmp_path / "cases.toml", TABLETOP.task("turn_on_the_stove"), kind_named("language.words")
    change = change_of(kind.name, kind.sample(Draw(task, levelled(kind.name, 1), 0, 1)))
    assert set(change.params) - {each.name for each in kind.space(task)}
    write_cases(file, [ListedCase(Candidate(task, 0, (change,)))])
    (listed,) = read_cases(file)
    assert listed.candidate.changes == (change,)
    file.write_text(file.read_text() + "level = 2\n")
    with pytest.raises(VlaError, match="unknown parameter 'level'"):
        read_cases(file)
    scene = Scene("tabletop", "turn_on_the_stove", changes={kind.name: {**change.params, "level": 2}})
    with pytest.raises(VlaError, match=r"unknown parameter .level."):
        candidate_of(scene)


def test_a_file_that_is_not_there_or_holds_nothing(tmp_path: Path) -> None:
    with pytest.raises(VlaError, match="cases cannot be read: No such file or directory; --vla-cases needs one TOML"):
        read_cases(tmp_path / "no.toml")
    (tmp_path / "empty.toml").write_text("schema = 1\n")
    with pytest.raises(VlaError, match="expected one \\[\\[case\\]\\] table or more"):
        read_cases(tmp_path / "empty.toml")
    (tmp_path / "twice.toml").write_text(GOOD + GOOD.removeprefix("schema = 1\n"))
    with pytest.raises(VlaError, match=r"twice\.toml:11: case\[1\]: duplicate of case\[0\]"):
        read_cases(tmp_path / "twice.toml")


def test_a_kind_without_a_space_of_this_task_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "cases.toml"
    file.write_text(GOOD.replace("camera.azimuth", "background.floor").replace("azimuth_deg = 23.5", "share = 1.0"))
    with pytest.raises(VlaError, match=r"case\[0\]\.changes: .*do not see the floor"):
        read_cases(file)


def test_written_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "cases.toml"
    file.write_text(GOOD)
    (listed,) = read_cases(file)
    hopeless = ListedCase(Candidate(listed.candidate.task, 0, (change_of("camera.azimuth", {"x": float("nan")}),)))
    with pytest.raises(ValueError, match="JSON compliant"):
        write_cases(file, [listed, hopeless])
    assert file.read_text() == GOOD


def test_every_drawn_change_of_a_file_is_within_its_space() -> None:
    task = TABLETOP.task("put_the_bowl_on_the_stove")
    for name in NAMES:
        kind = kind_named(name)
        params = change_of(name, kind.sample(Draw(task, levelled(name, 1), 0, 1))).params
        assert complaints(kind.space(task), params) == (), name
