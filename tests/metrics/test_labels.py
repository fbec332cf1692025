"""Labels of quality: the file, how far two agree, and what goes with them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.metrics.discrimination import (
    CLASSES,
    Label,
    agreement,
    agreements,
    combined,
    labelled,
    read_labels,
    write_labels,
)

CASE = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"]), min_size=1, max_size=20)


@given(st.dictionaries(st.tuples(CASE, CASE), st.sampled_from(CLASSES), max_size=12))
def test_a_file_has_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, said: dict[tuple[str, str], str]
) -> None:
    file = tmp_path_factory.mktemp("labels") / "labels.csv"
    labels = tuple(Label(case, label, by, f"of {case}", "a-run") for (case, by), label in said.items())
    write_labels(file, labels)
    assert read_labels(file) == labels
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert read_labels(file) == labels, "Excel begins a file with a byte order mark"


HEAD = "case,label,by,digest,run\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("case,label,digest,run\n", "has no column by; expected CSV with the columns case, label, by, digest, run"),
        ("case,label,by\na,low,me\n", "has no column digest, run; expected CSV with"),
        ("case,label,by\na,low,me\n", "the digest says which episode was labelled"),
        ("", "has no column case, label, by"),
        (f"{HEAD}a,good,me,d,r\n", "line 2: label 'good', expected one of low, medium, high"),
        (f"{HEAD}a\n", "line 2: label ''"),
        (f"{HEAD}a,low,me,d,r\na,low,,d,r\n", "line 3: no by; expected"),
        (f"{HEAD}a,low,me, ,r\n", "line 2: no digest; expected"),
        (f"{HEAD}a,low,me,d,r\nb,low,m\0e,d,r\n", "line 3: a NUL character"),
        (f"{HEAD}a,low,me,d,r\nb,low,me,d,r\na,high,me,d,r\n", "line 4: 'me' labels 'a' high, and low in line 2"),
        (f"{HEAD}\xff\n", "codec can't decode"),
    ],
)
def test_a_file_that_cannot_be_used_says_where_and_how_to_mend(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "labels.csv"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(VlaError) as found:
        read_labels(file)
    assert complaint in str(found.value)
    assert str(file) in str(found.value)


def test_a_person_labels_one_case_of_two_policies(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text("case,note,label,by,digest,run\na,x,low,me,d1,r\na,y,high,me,d2,s\na,z,low,you,d1,r\n")
    assert [each.label for each in read_labels(file)] == ["low", "high", "low"]
    with pytest.raises(VlaError, match="No such file"):
        read_labels(tmp_path / "none.csv")


def test_kappa_by_hand() -> None:
    """Cohen's own way: 20 of 25 alike, of which 13 are by chance."""
    pairs = [("low", "low")] * 20 + [("low", "high")] * 5 + [("high", "low")] * 10 + [("high", "high")] * 15
    ones, others = ({(str(n), ""): each[k] for n, each in enumerate(pairs)} for k in (0, 1))
    found = agreement("me", "you", ones, others)
    assert found is not None
    assert (found.episodes, found.observed) == (50, 0.7)
    assert found.kappa == pytest.approx(0.4)
    same = agreement("me", "you", {("a", ""): "low"}, {("a", ""): "low"})
    assert same is not None
    assert (same.observed, same.kappa) == (1.0, None)
    assert agreement("me", "you", {("a", ""): "low"}, {("b", ""): "low"}) is None


def test_every_two_people_are_held_against_each_other() -> None:
    labels = [
        Label(case, label, by, "d", "r")
        for by in "abc"
        for case, label in (("x", "low"), ("y", "high"))
        if by + case != "cy"
    ]
    found = agreements(labels)
    assert [(each.one, each.other, each.episodes) for each in found] == [("a", "b", 2), ("a", "c", 1), ("b", "c", 1)]
    assert found[0].kappa == 1.0


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("low", "low"),
        ("low high", None),
        ("medium high", None),
        ("high high", "high"),
        ("low low high", "low"),
        ("high high low", "high"),
        ("low medium high", "medium"),
        ("low high medium medium", "medium"),
        ("low low high high", None),
        ("low medium high high", None),
    ],
)
def test_people_together_say_what_one_of_them_chose_or_nothing(said: str, expected: str | None) -> None:
    assert combined(Label("x", each, str(n), "d", "r") for n, each in enumerate(said.split())) == {("x", "d"): expected}


def test_what_goes_with_labels_by_hand() -> None:
    labels: dict[tuple[str, str], str | None] = {(f"s{n}", "d"): CLASSES[n // 3] for n in range(9)}
    failed = {(f"f{n}", "d") for n in range(4)}
    values = {each: -float(place) for place, each in enumerate(labels)} | dict.fromkeys(failed, 5.0)
    found = labelled("m", values, labels, failed)
    assert found.correlation is not None
    assert found.correlation.band == "high"
    assert found.correlation.rho < -0.9
    assert {name: each and each.a12 for name, each in found.against_failures.items()} == dict.fromkeys(CLASSES, 0.0)
    assert labelled("m", values | {("x", "d"): 99.0}, labels | {("x", "d"): None}, failed) == found
    few = labelled("m", {("s0", "d"): 1.0}, labels, ())
    assert (few.correlation, set(few.against_failures.values())) == (None, {None})
