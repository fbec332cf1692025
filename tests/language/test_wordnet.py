"""The table of WordNet against what is known of it, against its own files, and against nltk's reader."""

import gzip
import importlib
import importlib.resources
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pytest_vla.language.substitution import VERBS
from pytest_vla.language.wordnet import (
    PARTS,
    TABLE,
    Neighbour,
    PartOfSpeech,
    WordNet,
    best_wordnet,
    nltk_wordnet,
    parse_table,
    shipped_wordnet,
)
from scripts import wordnet_table

NOTICE = "  1 This is a notice,  \n  2   \n  3 in two paragraphs.  \n"


def at_their_offsets(*lines: str) -> str:
    """A data file: synset i is written @i, which becomes the offset of its line."""
    text = NOTICE + "".join(line + "  \n" for line in lines)
    for number in range(len(lines)):
        # A name is as long as an offset, so that nothing moves.
        name = f"@{number}000000"
        text = text.replace(name, f"{text.index(chr(10) + name) + 1:08d}")
    return text


def index(*lines: str, data: str) -> str:
    offsets = [line[:8] for line in data.splitlines() if not line.startswith(" ")]
    text = NOTICE + "".join(line + "  \n" for line in lines)
    for number, offset in enumerate(offsets):
        text = text.replace(f"@{number}000000", offset)
    return text


# A dictionary in WordNet's own format: vessels are things, bowls and jugs are vessels; a river is one thing.
NOUNS = at_their_offsets(
    "@0000000 03 n 01 thing 0 002 ~ @1000000 n 0000 ~i @4000000 n 0000 | what is",
    "@1000000 06 n 02 vessel 0 Open_Vessel 0 003 @ @0000000 n 0000 ~ @2000000 n 0000 ~ @3000000 n 0000 | it holds",
    "@2000000 06 n 01 bowl 0 001 @ @1000000 n 0000 | it is round",
    "@3000000 06 n 02 jug 0 ewer 0 002 @ @1000000 n 0000 ; @0000000 n 0101 | it has a handle",
    "@4000000 17 n 02 Jug 0 Jug_River 0 001 @i @0000000 n 0000 | a river",
)
TIPS = at_their_offsets(
    "@0000000 35 v 02 tip 0 tip_over 0 001 ~ @1000000 v 0000 02 + 08 00 + 11 01 | move",
    "@1000000 35 v 01 tilt 1 001 @ @0000000 v 0000 01 + 08 00 | move a little",
)
FILES = {
    "data.noun": NOUNS,
    "index.noun": index(
        "thing n 1 1 ~ 1 0 @0000000",
        "vessel n 1 2 @ ~ 1 0 @1000000",
        "open_vessel n 1 2 @ ~ 1 0 @1000000",
        "bowl n 1 1 @ 1 0 @2000000",
        "jug n 2 1 @ 2 0 @4000000 @3000000",
        "ewer n 1 1 @ 1 0 @3000000",
        "jug_river n 1 1 @ 1 0 @4000000",
        data=NOUNS,
    ),
    "noun.exc": "kine cow\nvesses vessel\n",
    "data.verb": TIPS,
    "index.verb": index(
        "tip v 1 1 ~ 1 0 @0000000", "tip_over v 1 1 ~ 1 0 @0000000", "tilt v 1 1 @ 1 0 @1000000", data=TIPS
    ),
    "verb.exc": "tipt tip\n",
}
# What nltk's reader opens besides. It looks for the version in the adjectives.
FOR_NLTK = {
    "data.adj": "  1 WordNet 3.0 Copyright\n00000026 00 a 01 round 0 000 | like a ball  \n",
    "index.adj": "round a 1 0 1 0 00000026  \n",
    **dict.fromkeys(("data.adv", "index.adv", "adj.exc", "adv.exc", "cntlist.rev", "index.sense"), ""),
    "lexnames": "".join(f"{number:02d}\tname.{number}\t1\n" for number in range(45)),
}
WORDS = ("bowl", "plate", "cabinet", "stove", "region", "apple", "lemon", "drawer", "mug", "layer", "scissors", "knife")


@pytest.fixture
def dictionary(tmp_path: Path) -> Path:
    folder = tmp_path / "nltk_data" / "corpora" / "wordnet"
    folder.mkdir(parents=True)
    for name, text in (FILES | FOR_NLTK).items():
        (folder / name).write_text(text)
    return folder


def words_of(wordnet: WordNet, word: str, part: PartOfSpeech = "noun", sense: int = 1) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for neighbour in wordnet.neighbours(word, part, sense):
        found.setdefault(neighbour.relation, []).append(neighbour.word)
    return found


def test_the_paper_s_bowl() -> None:
    """Vessel, jorum and fishbowl are VLA-Arena's examples, and sense 1's."""
    assert words_of(shipped_wordnet(), "bowl") == {
        "hypernym": ["vessel"],
        "hyponym": ["fish bowl", "fishbowl", "goldfish bowl", "jorum", "mazer", "toilet bowl"],
    }


def test_the_paper_s_apple_lemon_and_region() -> None:
    wordnet = shipped_wordnet()
    assert words_of(wordnet, "apple")["hypernym"] == ["edible fruit", "false fruit", "pome"]
    assert {"eating apple", "cooking apple", "crab apple", "dessert apple"} <= set(
        words_of(wordnet, "apple")["hyponym"]
    )
    assert {"citrus", "citrous fruit"} <= set(words_of(wordnet, "lemon")["hypernym"])
    region = words_of(wordnet, "region")
    assert "location" in region["hypernym"]
    assert {"zone", "nirvana"} <= set(region["hyponym"])


def test_all_of_wordnet_is_there() -> None:
    """The numbers of synsets and of words are those of WordNet 3.0's statistics (wnstats)."""
    licence, nouns, verbs, *_ = table_text().split("\n\n")
    assert (nouns.count("\n") + 1, verbs.count("\n") + 1) == (82115, 13767)
    names = [
        {name.partition(":")[0].lower() for line in part.split("\n") for name in line.split("\t")[0].split(" ")}
        for part in (nouns, verbs)
    ]
    assert [len(words) for words in names] == [117798, 11529]
    assert "WordNet 3.0 Copyright 2006 by Princeton University" in licence


def table_text() -> str:
    return gzip.decompress(importlib.resources.files("pytest_vla.language").joinpath(TABLE).read_bytes()).decode()


def test_the_licence_ships_beside_the_table_and_in_it() -> None:
    folder = importlib.resources.files("pytest_vla.language")
    notice = folder.joinpath("wordnet.LICENSE").read_text()
    assert "ANY THIRD PARTY PATENTS" in notice
    assert [line for line in notice.splitlines() if line] == [
        line for line in table_text().partition("\n\n")[0].splitlines() if line != "#"
    ]
    assert len(folder.joinpath(TABLE).read_bytes()) < 1.5e6


@pytest.mark.parametrize(
    ("word", "part", "base"),
    [
        ("plates", "noun", "plate"),
        ("knives", "noun", "knife"),
        ("boxes", "noun", "box"),
        ("scissors", "noun", "scissors"),
        ("cherries", "noun", "cherry"),
        ("wine bottles", "noun", "wine bottle"),
        ("took", "verb", "take"),
        ("turned", "verb", "turn"),
        ("pushes", "verb", "push"),
        ("moka", "noun", None),
        ("", "noun", None),
        ("the", "verb", None),
    ],
)
def test_base_forms(word: str, part: PartOfSpeech, base: str | None) -> None:
    assert shipped_wordnet().base_form(word, part) == base


def test_edges_go_both_ways() -> None:
    """Whatever is a hyponym of a word's sense has, in some sense, that word among its hypernyms."""
    wordnet = shipped_wordnet()
    for word in WORDS:
        for sense in range(1, wordnet.senses(word, "noun") + 1):
            for other in words_of(wordnet, word, "noun", sense).get("hyponym", []):
                senses = range(1, wordnet.senses(other.lower(), "noun") + 1)
                back = {n for s in senses for n in wordnet.neighbours(other.lower(), "noun", s)}
                assert Neighbour(word, "hypernym") in back, (word, sense, other)


def test_a_sense_that_is_not_there() -> None:
    wordnet = shipped_wordnet()
    assert wordnet.senses("moka", "noun") == 0
    for word, sense in (("bowl", 10), ("bowl", 0), ("moka", 1)):
        with pytest.raises(KeyError):
            wordnet.neighbours(word, "noun", sense)


def made(folder: Path) -> WordNet:
    return parse_table(wordnet_table.table(folder))


def test_a_table_of_a_dictionary_made_here(dictionary: Path) -> None:
    wordnet = made(dictionary)
    assert wordnet_table.licence(dictionary) == "This is a notice,\n\nin two paragraphs.\n"
    assert words_of(wordnet, "vessel") == {
        "synonym": ["Open Vessel"],
        "hypernym": ["thing"],
        "hyponym": ["bowl", "ewer", "jug"],
    }
    assert words_of(wordnet, "thing") == {"hyponym": ["Jug", "Jug River", "Open Vessel", "vessel"]}
    assert words_of(wordnet, "jug", sense=1) == {"synonym": ["Jug River"], "hypernym": ["thing"]}
    assert words_of(wordnet, "jug", sense=2) == {"synonym": ["ewer"], "hypernym": ["Open Vessel", "vessel"]}
    assert words_of(wordnet, "tilt", "verb") == {"hypernym": ["tip", "tip over"]}
    assert wordnet.base_form("vesses", "noun") == "vessel"
    assert wordnet.base_form("kine", "noun") is None
    assert wordnet.base_form("open vessels", "noun") == "open vessel"


def test_the_script_writes_table_and_licence(dictionary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["wordnet_table.py", str(dictionary), "--output", str(tmp_path)])
    wordnet_table.main()
    assert gzip.decompress((tmp_path / TABLE).read_bytes()).decode() == wordnet_table.table(dictionary)
    assert (tmp_path / "wordnet.LICENSE").read_text() == wordnet_table.licence(dictionary)


def test_the_script_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["wordnet_table.py", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"expected WordNet's data.noun.*apt-get install wordnet-base"):
        wordnet_table.main()


def installed_dictionary() -> Path:
    """WordNet's own files: $WORDNET_DICT, or where Debian's packages wordnet-base and wordnet-sense-index have them."""
    folder = Path(os.environ.get("WORDNET_DICT", "/usr/share/wordnet"))
    if not (folder / "data.noun").is_file():
        pytest.skip(f"{folder}: no WordNet (apt-get install wordnet-base)")
    return folder


def test_the_shipped_table_is_what_the_script_makes_of_wordnet() -> None:
    assert wordnet_table.table(installed_dictionary()) == table_text()


@pytest.fixture
def reader_of(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """nltk's corpus read from a folder nltk_data; nltk keeps what it has read first, so that it is put back after."""
    nltk = pytest.importorskip("nltk")
    from nltk.corpus import reader, util

    def read(data: Path) -> WordNet:
        corpus = util.LazyCorpusLoader("wordnet", reader.WordNetCorpusReader, None)
        monkeypatch.setattr(nltk.data, "path", [str(data)])
        monkeypatch.setattr(nltk.corpus, "wordnet", corpus)
        found = nltk_wordnet()
        assert found is not None
        assert best_wordnet().name == found.name == "nltk"
        return found

    return read


@pytest.mark.filterwarnings("ignore:The multilingual functions")
def test_nltk_gives_the_same_answers_on_a_dictionary_made_here(dictionary: Path, reader_of) -> None:  # type: ignore[no-untyped-def]
    ours, theirs = made(dictionary), reader_of(dictionary.parent.parent)
    assert (ours.version, theirs.version) == ("3.0", "3.0")
    for word in ("thing", "vessel", "open vessel", "bowl", "jug", "ewer", "jug river", "tip", "tip over", "tilt"):
        same_answers(ours, theirs, word)
    for form in ("vesses", "kine", "bowls", "tipt", "tilts", "open vessels"):
        assert [ours.base_form(form, part) for part in PARTS] == [theirs.base_form(form, part) for part in PARTS]


def same_answers(ours: WordNet, theirs: WordNet, word: str) -> None:
    for part in PARTS:
        assert ours.base_form(word, part) == theirs.base_form(word, part)
        assert ours.senses(word, part) == theirs.senses(word, part), (word, part)
        for sense in range(1, ours.senses(word, part) + 1):
            assert ours.neighbours(word, part, sense) == theirs.neighbours(word, part, sense), (word, part, sense)
    with pytest.raises(KeyError):
        theirs.neighbours(word, "noun", theirs.senses(word, "noun") + 1)


@pytest.mark.filterwarnings("ignore:The multilingual functions")
def test_nltk_gives_the_same_answers_on_wordnet(tmp_path: Path, reader_of) -> None:  # type: ignore[no-untyped-def]
    """On the words of VLA-Arena and on every verb of ours, and on every 50th word of all."""
    source = installed_dictionary()
    folder = tmp_path / "nltk_data" / "corpora" / "wordnet"
    # Copies: nltk follows no links.
    shutil.copytree(source, folder)
    (folder / "lexnames").write_text(FOR_NLTK["lexnames"])
    if not (folder / "index.sense").exists():
        (folder / "index.sense").write_text("")
    ours, theirs = shipped_wordnet(), reader_of(tmp_path / "nltk_data")
    nouns = table_text().split("\n\n")[1].split("\n")
    others = [line.split("\t")[0].split(" ")[0].partition(":")[0].lower().replace("_", " ") for line in nouns[::50]]
    for word in (*WORDS, *VERBS, *others):
        same_answers(ours, theirs, word)


def test_without_nltk_s_corpus_the_table_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nltk = pytest.importorskip("nltk")
    from nltk.corpus import reader, util

    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    monkeypatch.setattr(nltk.corpus, "wordnet", util.LazyCorpusLoader("wordnet", reader.WordNetCorpusReader, None))
    assert nltk_wordnet() is None
    assert best_wordnet() is shipped_wordnet()


def test_without_nltk_the_table_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "nltk.corpus", None)
    assert best_wordnet().name == "table"


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is imported by name, none of which is there; no folder has the corpus, and nobody has imported nltk."""
    asked: list[str] = []

    def absent(name: str) -> None:
        asked.append(name)
        raise ImportError(name)

    exists = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: str(path).startswith(str(tmp_path)) and exists(path))
    monkeypatch.setattr(importlib, "import_module", absent)
    monkeypatch.delitem(sys.modules, "nltk", raising=False)
    monkeypatch.delenv("NLTK_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    return asked


def test_nltk_is_not_imported_where_no_folder_of_its_has_the_corpus(
    imported: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home" / "nltk_data" / "corpora" / "stopwords").mkdir(parents=True)
    monkeypatch.setenv("NLTK_DATA", f"{tmp_path}{os.pathsep}")
    assert best_wordnet() is shipped_wordnet()
    assert imported == []


@pytest.mark.parametrize("corpus", ["wordnet", "wordnet.zip"])
@pytest.mark.parametrize("folder", ["home", "prefix", "prefix/share", "prefix/lib", "mine"])
def test_nltk_is_asked_where_a_folder_of_its_has_the_corpus(
    imported: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, corpus: str
) -> None:
    (tmp_path / folder / "nltk_data" / "corpora" / corpus).mkdir(parents=True)
    monkeypatch.setenv("NLTK_DATA", os.pathsep.join((str(tmp_path / "other"), str(tmp_path / "mine" / "nltk_data"))))
    assert nltk_wordnet() is None
    assert imported == ["nltk.corpus"]


def test_nltk_is_asked_where_its_folder_may_be_an_archive_or_another(
    imported: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NLTK_DATA", "data.zip")
    assert nltk_wordnet() is None
    monkeypatch.delenv("NLTK_DATA")
    monkeypatch.setitem(sys.modules, "nltk", ModuleType("nltk"))
    assert nltk_wordnet() is None
    assert imported == ["nltk.corpus"] * 2


def test_the_folders_are_those_where_nltk_looks() -> None:
    """nltk's own list, without the variable; in another process, since it is made at the import."""
    pytest.importorskip("nltk")
    code = "import nltk.data, os; print(*nltk.data.path, sep=os.linesep)"
    environment = {name: value for name, value in os.environ.items() if name != "NLTK_DATA"}
    listed = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()
    looked: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("NLTK_DATA", raising=False)
        patch.delitem(sys.modules, "nltk")
        patch.setattr(os.path, "exists", lambda path: bool(looked.append(str(path))))
        assert nltk_wordnet() is None
    assert {f"{folder}/corpora/wordnet{suffix}" for folder in listed for suffix in ("", ".zip")} == set(looked)


def test_what_is_above_a_word_is_nltk_s() -> None:
    assert {"vessel", "dish", "container", "bowl"} <= shipped_wordnet().covers("bowl", "noun")
    assert "dish" not in shipped_wordnet().covers("bowl", "noun", 1)
    assert shipped_wordnet().covers("zvork", "noun") == frozenset()
    theirs = nltk_wordnet()
    if theirs is None:
        pytest.skip("needs nltk and its corpus wordnet")
    for word in ("bowl", "wine bottle", "dresser"):
        for senses in (None, 1):
            assert theirs.covers(word, "noun", senses) == shipped_wordnet().covers(word, "noun", senses)
