"""Dependency trees, and S_T: how alike the trees of two instructions are."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pytest_vla.language.parsed import Parsed, Sentence
from pytest_vla.util.extras import required


@dataclass(frozen=True)
class Tree:
    """A node: its label, (dependency, part of speech), and its children in the labels' order."""

    label: tuple[str, str]
    children: tuple["Tree", ...] = ()


@dataclass(frozen=True)
class TreeComparison:
    """The trees of two instructions side by side.

    Attributes:
        original: the first sentence of the original; empty for a text without words.
        paraphrase: that of the paraphrase.
        edit_distance: nodes to insert, remove and rename, at least.
    """

    original: Sentence
    paraphrase: Sentence
    edit_distance: int

    @property
    def similarity(self) -> float:
        """S_T = 1 - distance / (n1 + n2), 0..1; two texts without words are alike."""
        nodes = len(self.original) + len(self.paraphrase)
        return 1 - self.edit_distance / nodes if nodes else 1.0


def compare_trees(original: Parsed, paraphrase: Parsed) -> TreeComparison:
    """The first sentences of two texts, as the paper compares them; the other sentences do not count.

    Raises:
        VlaError: zss is not installed.
        ValueError: a sentence's heads make no tree.
    """
    first, second = (parsed.sentences[0] if parsed.sentences else () for parsed in (original, paraphrase))
    if not first or not second:
        return TreeComparison(first, second, len(first) + len(second))
    return TreeComparison(first, second, tree_edit_distance(ordered_tree(first), ordered_tree(second)))


def ordered_tree(sentence: Sentence) -> Tree:
    """A sentence's tree. Siblings are sorted by label, so that word order counts for nothing.

    Raises:
        ValueError: the heads make no tree.
    """
    children = children_of(sentence)
    roots = [index for index, token in enumerate(sentence) if token.head == index]
    if len(roots) != 1:
        raise ValueError(f"{_shown(sentence)}: {len(roots)} roots in one sentence")
    # From the leaves up: a child comes after its head in `order`.
    order = list(roots)
    for index in order:
        order.extend(children[index])
    if len(order) != len(sentence):
        raise ValueError(f"{_shown(sentence)}: the heads make a circle")
    trees: dict[int, Tree] = {}
    for index in reversed(order):
        token = sentence[index]
        trees[index] = Tree((token.dep, token.pos), tuple(trees[child] for child in children[index]))
    return trees[roots[0]]


def children_of(sentence: Sentence) -> list[list[int]]:
    """Of each token the indices of its children, sorted by label; those of one label stay in the text's order.

    Raises:
        ValueError: a head is outside the sentence.
    """
    children: list[list[int]] = [[] for _ in sentence]
    for index, token in enumerate(sentence):
        if not 0 <= token.head < len(sentence):
            raise ValueError(f"{_shown(sentence)}: the head of {token.text!r} is outside the sentence")
        if token.head != index:
            children[token.head].append(index)
    for each in children:
        each.sort(key=lambda index: (sentence[index].dep, sentence[index].pos))
    return children


@lru_cache(maxsize=65536)
def tree_edit_distance(first: Tree, second: Tree) -> int:
    """Zhang and Shasha's distance: each node inserted, removed or renamed costs 1. Raises VlaError without zss."""
    zss = required("zss")
    # Never zss's default label distance: with the package editdist installed it compares letters.
    distance = zss.distance(
        *(first, second),
        get_children=lambda node: node.children,
        insert_cost=lambda node: 1,
        remove_cost=lambda node: 1,
        update_cost=lambda one, other: int(one.label != other.label),
    )
    return int(distance)


def tree_lines(sentence: Sentence) -> Sequence[str]:
    """A sentence's tree for people: a line a node, ``word  dep POS``, siblings as they are compared."""
    children = children_of(sentence)
    lines: list[str] = []
    stack = [(index, 0) for index, token in enumerate(sentence) if token.head == index]
    while stack:
        index, depth = stack.pop()
        token = sentence[index]
        lines.append(f"{'  ' * depth}{token.text}  {token.dep} {token.pos}")
        stack.extend((child, depth + 1) for child in reversed(children[index]))
    return lines


def _shown(sentence: Sentence) -> str:
    return repr(" ".join(token.text for token in sentence))
