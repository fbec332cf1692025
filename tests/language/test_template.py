"""The template distance: rough, needs nothing, and not far from the published values."""

from statistics import correlation, fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.language.similarity import UNLIKE, compare_words, keyword_similarity, match_words
from tests.support.libero_para import published_csv

TEXTS = st.text(alphabet="abd .?,'theo", max_size=30)


def test_content_words_are_alike_and_function_words_are_not() -> None:
    found = compare_words("open the drawer of the cabinet", "Shut the box on the shelf!")
    assert found.original == ("*", "the", "*", "of", "the", "*")
    assert found.paraphrase == ("*", "the", "*", "on", "the", "*", ".")
    assert (found.edit_distance, found.similarity) == (2, 1 - 2 / 13)


def test_only_the_first_sentence_is_a_frame_and_all_words_are_matched() -> None:
    assert compare_words("open the drawer", "Open the drawer. It is mine").similarity == 1 - 1 / 7
    (found,) = match_words("cabinets", "open it. The cabinet is there")
    assert (found.word, found.best, found.cosine) == ("cabinets", "cabinet", 1.0)
    (other,) = match_words("stove", "open it")
    assert (other.best, other.cosine) == ("", UNLIKE)
    assert match_words("stove", "this is it") == ()


@given(TEXTS, TEXTS)
def test_shares_for_any_texts(original: str, paraphrase: str) -> None:
    assert 0.0 <= compare_words(original, paraphrase).similarity <= 1.0
    assert compare_words(original, original).similarity == 1.0
    assert compare_words(original, paraphrase).edit_distance == compare_words(paraphrase, original).edit_distance
    assert 0.0 <= keyword_similarity(match_words(original, paraphrase)) <= 1.0


def test_agreement_with_the_published_values() -> None:
    """Measured: tasks 0-5 .031 and .049, tasks 6-9 .031 and .085; r(PD) .92 and .91."""
    from pytest_vla.language.published import load_published
    from pytest_vla.metrics.pride import paraphrase_distance

    for tuned, most in ((True, 0.05), (False, 0.09)):
        rows = [row for row in load_published(published_csv()).rows if (row.task < 6) == tuned]
        pairs = [
            (keyword_similarity(match_words(*texts)), compare_words(*texts).similarity)
            for texts in ((row.original, row.instruction) for row in rows)
        ]
        assert fmean(abs(row.keyword - pair[0]) for row, pair in zip(rows, pairs, strict=True)) < 0.032
        assert fmean(abs(row.structural - pair[1]) for row, pair in zip(rows, pairs, strict=True)) < most
        distances = [paraphrase_distance(*pair) for pair in pairs]
        assert correlation(distances, [paraphrase_distance(row.keyword, row.structural) for row in rows]) > 0.9
        assert distances == pytest.approx([min(1.0, each) for each in distances])
