"""S_T: trees with sorted siblings, and Zhang and Shasha's distance against its recursive definition."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.language.similarity import (
    Parsed,
    Sentence,
    Token,
    Tree,
    TreeComparison,
    compare_trees,
    ordered_tree,
    tree_edit_distance,
    tree_lines,
)
from tests.support.parsers import flat

LABELS = st.tuples(st.sampled_from(["det", "dobj", "prep"]), st.sampled_from(["NOUN", "DET"]))
TREES = st.recursive(
    st.builds(Tree, LABELS), lambda inner: st.builds(Tree, LABELS, st.lists(inner, max_size=3).map(tuple)), max_leaves=6
)


@st.composite
def sentences(draw: st.DrawFn) -> Sentence:
    """Any tree over words in any order."""
    n = draw(st.integers(1, 8))
    order = draw(st.permutations(range(n)))
    heads = [0] * n
    for position, index in enumerate(order):
        heads[index] = order[draw(st.integers(0, max(0, position - 1)))]
    labels = draw(st.lists(LABELS, min_size=n, max_size=n))
    return tuple(
        Token(f"w{index}", f"w{index}", labels[index][1], labels[index][0], heads[index]) for index in range(n)
    )


def size(tree: Tree) -> int:
    return 1 + sum(map(size, tree.children))


@cache
def by_definition(first: tuple[Tree, ...], second: tuple[Tree, ...]) -> int:
    """The distance of two forests: the last root is removed, inserted or renamed."""
    if not first or not second:
        return sum(map(size, first + second))
    one, other = first[-1], second[-1]
    return min(
        by_definition(first[:-1] + one.children, second) + 1,
        by_definition(first, second[:-1] + other.children) + 1,
        by_definition(first[:-1], second[:-1])
        + by_definition(one.children, other.children)
        + (one.label != other.label),
    )


def text_of(*found: Sentence) -> Parsed:
    return Parsed("text", found)


# Trees


def test_siblings_stand_in_the_order_of_their_labels() -> None:
    sentence = flat(["put", "the", "bowl", "on", "gently"])
    assert [child.label for child in ordered_tree(sentence).children] == [
        ("advmod", "ADV"),
        ("det", "DET"),
        ("dobj", "NOUN"),
        ("prep", "ADP"),
    ]


@given(sentences())
def test_every_word_is_a_node_and_all_siblings_are_sorted(sentence: Sentence) -> None:
    tree = ordered_tree(sentence)
    assert size(tree) == len(sentence)
    stack = [tree]
    while stack:
        node = stack.pop()
        assert [child.label for child in node.children] == sorted(child.label for child in node.children)
        stack.extend(node.children)


def test_a_tree_for_people() -> None:
    assert tree_lines(flat(["open", "the", "drawer"])) == ["open  ROOT VERB", "  the  det DET", "  drawer  dobj NOUN"]


@pytest.mark.parametrize(
    ("heads", "trouble"),
    [((1, 0, 2), "form a cycle"), ((0, 1, 1), "2 roots"), ((1, 2, 0), "0 roots"), ((0, 0, 3), "outside the sentence")],
)
def test_heads_that_make_no_tree_are_refused(heads: tuple[int, ...], trouble: str) -> None:
    sentence = tuple(Token(word, word, "X", "dep", head) for word, head in zip("abc", heads, strict=True))
    with pytest.raises(ValueError, match=f"'a b c'.*{trouble}"):
        ordered_tree(sentence)


def test_a_text_without_words_is_as_far_as_the_other_has_words() -> None:
    three = text_of(flat(["open", "the", "drawer"]))
    assert compare_trees(text_of(), three) == TreeComparison((), three.sentences[0], 3)
    assert compare_trees(three, text_of()).similarity == 0.0
    assert compare_trees(text_of(), text_of()).similarity == 1.0


# Distances


@given(TREES, TREES)
def test_the_distance_is_what_its_definition_says(first: Tree, second: Tree) -> None:
    pytest.importorskip("zss", reason="zss is not installed (make language)")
    assert tree_edit_distance(first, second) == by_definition((first,), (second,))


@given(sentences(), sentences())
def test_s_t_is_symmetric_and_a_share_and_1_for_the_same_tree(one: Sentence, other: Sentence) -> None:
    pytest.importorskip("zss", reason="zss is not installed (make language)")
    found = compare_trees(text_of(one), text_of(other))
    assert found.edit_distance == compare_trees(text_of(other), text_of(one)).edit_distance
    assert 0.0 <= found.similarity < 1.0 or ordered_tree(one) == ordered_tree(other)
    assert compare_trees(text_of(one), text_of(one)).similarity == 1.0


def test_only_the_first_sentence_counts() -> None:
    pytest.importorskip("zss", reason="zss is not installed (make language)")
    first, second = flat(["open", "the", "drawer"]), flat(["put", "a", "bowl", "on"])
    assert compare_trees(text_of(first), text_of(first, second)).similarity == 1.0
    found = compare_trees(text_of(first), text_of(second, first))
    assert (found.edit_distance, found.similarity) == (1, 1 - 1 / 7)


def test_labels_are_equal_or_not_whatever_zss_would_take() -> None:
    """zss's own label distance compares letters where editdist is installed."""
    zss = pytest.importorskip("zss", reason="zss is not installed (make language)")
    trees = Tree(("dobj", "NOUN")), Tree(("pobj", "NOUN"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zss.compare, "strdist", lambda one, other: 7)
        tree_edit_distance.cache_clear()
        assert tree_edit_distance(*trees) == 1
