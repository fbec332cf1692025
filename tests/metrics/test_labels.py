"""Labels of quality: the file, how far two agree, and what goes with them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.metrics.labels import (
    CLASSES,
    Label,
    agreement,
    agreements,
    labelled,
    ranks_of,
    read_labels,
    write_labels,
)

CASE = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"]), min_size=1, max_size=20)


@given(st.dictionaries(st.tuples(CASE, CASE), st.sampled_from(CLASSES), max_size=12))
def test_a_file_has_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, said: dict[tuple[str, str], str]
) -> None:
    file = tmp_path_factory.mktemp("labels") / "labels.csv"
    labels = tuple(Label(case, label, by) for (case, by), label in said.items())
    write_labels(file, labels)
    assert read_labels(file, {case for case, _ in said}) == labels


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("case,label\n", "has no column by; expected CSV with the columns case, label, by"),
        ("", "has no column case, label, by"),
        ("case,label,by\na,good,me\n", "line 2: label 'good', expected one of low, medium, high"),
        ("case,label,by\na,low,me\nb,low,me\n", "line 3: there is no episode 'b' among these runs"),
        ("case,label,by\na\n", "line 2: label ''"),
        ("case,label,by\n\xff\n", "codec can't decode"),
    ],
)
def test_a_file_that_cannot_be_used_says_where_and_how_to_mend(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "labels.csv"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(VlaError) as found:
        read_labels(file, {"a"})
    assert complaint in str(found.value)
    assert str(file) in str(found.value)


def test_the_last_label_of_a_case_counts(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text("case,note,label,by\na,x,low,me\na,y,high,me\na,z,low,you\n")
    assert [each.label for each in read_labels(file, {"a"})] == ["high", "low"]
    with pytest.raises(VlaError, match="No such file"):
        read_labels(tmp_path / "none.csv", {"a"})


def test_kappa_by_hand() -> None:
    """Cohen's own way: 20 of 25 alike, of which 13 are by chance."""
    pairs = [("low", "low")] * 20 + [("low", "high")] * 5 + [("high", "low")] * 10 + [("high", "high")] * 15
    ones, others = ({str(n): each[k] for n, each in enumerate(pairs)} for k in (0, 1))
    found = agreement("me", "you", ones, others)
    assert found is not None
    assert (found.episodes, found.observed) == (50, 0.7)
    assert found.kappa == pytest.approx(0.4)
    same = agreement("me", "you", {"a": "low"}, {"a": "low"})
    assert same is not None
    assert (same.observed, same.kappa) == (1.0, None)
    assert agreement("me", "you", {"a": "low"}, {"b": "low"}) is None


def test_every_two_people_are_held_against_each_other() -> None:
    labels = [
        Label(case, label, by) for by in "abc" for case, label in (("x", "low"), ("y", "high")) if by + case != "cy"
    ]
    found = agreements(labels)
    assert [(each.one, each.other, each.episodes) for each in found] == [("a", "b", 2), ("a", "c", 1), ("b", "c", 1)]
    assert found[0].kappa == 1.0
    assert ranks_of([Label("x", "low", "a"), Label("x", "medium", "b")]) == {"x": 1.5}


def test_what_goes_with_labels_by_hand() -> None:
    ranks = {f"s{number}": 1.0 + number // 3 for number in range(9)}
    values = {case: -place for case, place in zip(ranks, range(9), strict=True)} | {f"f{n}": 5.0 + n for n in range(4)}
    found = labelled("m", values, ranks, {f"f{n}" for n in range(4)})
    assert found.correlation is not None
    assert found.correlation.band == "strong"
    assert found.correlation.rho < -0.9
    assert {name: each and each.a12 for name, each in found.against_failures.items()} == dict.fromkeys(CLASSES, 0.0)
    few = labelled("m", {"s0": 1.0}, ranks, ())
    assert (few.correlation, set(few.against_failures.values())) == (None, {None})
