"""The parser that ships: its weights, its trees, and how far they are from those that LIBERO-Para was scored with."""

import csv
import random
import shutil
import tomllib
from pathlib import Path
from statistics import correlation, fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("spacy")

from pytest_vla.errors import VlaError
from pytest_vla.language.generator import CELLS, variants
from pytest_vla.language.models import MODEL, SMALL_NAME, load, sentences_of, weights_digest
from pytest_vla.language.similarity import CONTENT, Parser, Sentence
from pytest_vla.plan.manifests import load_suite
from tests.support.data import data_root
from tests.support.readable import READABLE_SUITES


def published_rows() -> list[dict[str, str]]:
    root = data_root()
    file = None if root is None else root / "libero_para" / "libero_para_metadata.csv"
    if file is None or not file.is_file():
        pytest.skip("needs LIBERO-Para's data: set PYTEST_VLA_DATA or put it at ../shared/data")
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def tree(sentence: Sentence) -> list[tuple[str, str, str, int]]:
    return [(token.text, token.pos, token.dep, token.head) for token in sentence]


def parsed(text: str) -> Sentence:
    (sentence,) = load().parse([text])[0].sentences
    return sentence


def test_it_is_a_parser_whose_version_is_its_weights() -> None:
    parser: Parser = load()
    assert (parser.name, parser.version) == (SMALL_NAME, weights_digest(MODEL)[:12])
    assert load() is parser


def test_the_weights_are_small_and_are_no_program() -> None:
    files = [path for path in MODEL.rglob("*") if path.is_file()]
    assert 1e6 < sum(path.stat().st_size for path in files) <= 5e6
    assert not [path for path in files if path.suffix in (".py", ".pkl", ".pt", ".so")]


def test_a_command_is_a_verb_with_its_object_and_its_place() -> None:
    assert tree(parsed("Put the bowl on the plate")) == [
        ("put", "VERB", "ROOT", 0),
        ("the", "DET", "det", 2),
        ("bowl", "NOUN", "dobj", 0),
        ("on", "ADP", "prep", 0),
        ("the", "DET", "det", 5),
        ("plate", "NOUN", "pobj", 3),
    ]


def test_turn_on_the_stove_is_a_preposition_with_its_object_as_in_en_core_web_sm() -> None:
    assert tree(parsed("turn on the stove")) == [
        ("turn", "VERB", "ROOT", 0),
        ("on", "ADP", "prep", 0),
        ("the", "DET", "det", 3),
        ("stove", "NOUN", "pobj", 1),
    ]


def test_a_request_has_its_auxiliary_its_subject_and_its_mark() -> None:
    sentence = parsed("Could you please open the middle drawer of the cabinet?")
    assert [(token.pos, token.dep) for token in sentence] == [
        ("AUX", "aux"),
        ("PRON", "nsubj"),
        ("INTJ", "intj"),
        ("VERB", "ROOT"),
        ("DET", "det"),
        ("ADJ", "amod"),
        ("NOUN", "dobj"),
        ("ADP", "prep"),
        ("DET", "det"),
        ("NOUN", "pobj"),
        ("PUNCT", "punct"),
    ]


def test_content_words_come_in_their_dictionary_form() -> None:
    sentence = parsed("Has the bowl been placed on the plate yet?")
    assert [token.lemma for token in sentence if token.pos in CONTENT] == ["bowl", "place", "plate", "yet"]
    assert [token.lemma for token in parsed("The stove isn't on")][2:4] == ["be", "not"]


def test_sentences_are_parsed_apart() -> None:
    (text,) = load().parse(["Find the plate. Then push it to the front of the stove"])
    assert text.text == "find the plate. then push it to the front of the stove"
    assert [[token.text for token in sentence] for sentence in text.sentences] == [
        ["find", "the", "plate", "."],
        ["then", "push", "it", "to", "the", "front", "of", "the", "stove"],
    ]
    for sentence in text.sentences:
        assert [token.dep for token in sentence].count("ROOT") == 1


def test_many_texts_at_once_are_parsed_as_one_by_one() -> None:
    texts = ["Put the bowl on the plate", "", "turn on the stove. Go!", "x", "PUT THE BOWL ON THE PLATE"]
    together = load().parse(texts)
    assert together == [load().parse([text])[0] for text in texts]
    assert together[1].sentences == ()
    assert together[0] == together[4]


@given(st.text(max_size=40))
def test_any_text_becomes_trees_with_one_root_each(text: str) -> None:
    (result,) = load().parse([text])
    for sentence in result.sentences:
        assert [index for index, token in enumerate(sentence) if token.head == index] == [
            index for index, token in enumerate(sentence) if token.dep == "ROOT"
        ]
        assert [token.dep for token in sentence].count("ROOT") == 1


@given(st.text(alphabet="ab .?!,'", max_size=30))
def test_sentences_hold_every_word_in_order(text: str) -> None:
    words = [word for sentence in sentences_of(text) for word in sentence]
    assert "".join(words) == "".join(text.split())
    assert all(sentences_of(text))


def test_it_reads_the_generators_sentences_as_they_were_made() -> None:
    rng = random.Random(11)
    instructions = sorted({task.language for name in READABLE_SUITES for task in load_suite(name).tasks})
    made = [found for cell in CELLS for found in variants(rng.choice(instructions), [], rng, 4, *cell)]
    read = load().parse([variant.text for variant in made])
    pairs = [(variant.tree, text.sentences[0]) for variant, text in zip(made, read, strict=True)]
    words = [words for pair in pairs for words in zip(*pair, strict=True)]
    assert fmean(one.pos == other.pos for one, other in words) > 0.98
    assert fmean((one.dep, one.head) == (other.dep, other.head) for one, other in words) > 0.96


def test_weights_that_are_missing_or_broken_are_refused(tmp_path: Path) -> None:
    with pytest.raises(VlaError, match=r"the parser's weights are missing.*train_parser"):
        load(tmp_path / "none")
    broken = tmp_path / "broken"
    shutil.copytree(MODEL, broken)
    (broken / "parser" / "model").write_bytes(b"\x00")
    with pytest.raises(VlaError, match="cannot read the parser"):
        load(broken)


def test_training_gives_the_same_weights_from_the_same_seed_and_others_from_another(tmp_path: Path) -> None:
    from scripts.train_parser import CONFIG, train

    table = tomllib.loads(CONFIG.read_text(encoding="utf-8"))
    digests = []
    for number, seed in enumerate((1, 1, 2)):
        train({**table, "seed": seed}, tmp_path / str(number), 80, 1)
        digests.append(weights_digest(tmp_path / str(number)))
    assert digests[0] == digests[1] != digests[2]
    assert load(tmp_path / "0").parse(["open the drawer"])[0].sentences


def test_the_digest_is_of_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    first = weights_digest(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert weights_digest(tmp_path) != first
    (tmp_path / "b").write_bytes(b"2")
    assert weights_digest(tmp_path) != first


@pytest.mark.parametrize(("tasks", "structural"), [(range(6), 0.028), (range(6, 10), 0.033)], ids=["0-5", "6-9"])
def test_agreement_with_the_published_structural_similarities(tasks: range, structural: float) -> None:
    pytest.importorskip("zss")
    from pytest_vla.language.similarity import compare_trees

    rows = [row for row in published_rows() if int(row["eval"]) in tasks]
    names = ("original_instruction", "new_instruction")
    texts = sorted({row[name] for row in rows for name in names})
    trees = dict(zip(texts, load().parse(texts), strict=True))
    ours = [compare_trees(*(trees[row[name]] for name in names)).similarity for row in rows]
    theirs = [float(row["structural_similarity"]) for row in rows]
    keyword = [float(row["keyword_similarity"]) for row in rows]
    assert fmean(abs(one - other) for one, other in zip(ours, theirs, strict=True)) <= structural
    distances = [[1 - (k + s) / 2 for k, s in zip(keyword, each, strict=True)] for each in (ours, theirs)]
    if tasks == range(6):
        assert fmean(abs(one - other) for one, other in zip(*distances, strict=True)) <= 0.016
    assert correlation(*distances) >= 0.94
