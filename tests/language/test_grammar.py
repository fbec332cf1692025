"""Instructions as commands, and the notation in which sentences are written with their trees."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.language.grammar import (
    FORMS,
    IT,
    Clause,
    Detail,
    InstructionCommand,
    InstructionObject,
    InstructionPlace,
    clauses_words,
    frames,
    lexicon,
    meanings,
    read,
)
from pytest_vla.language.notation import (
    HEAD,
    NotationError,
    Word,
    filled,
    joined,
    matches,
    slots_of,
    template,
    text_of,
    tokens_of,
)
from pytest_vla.language.rules import drawn, rules_from
from pytest_vla.plan.manifests import load_suite
from tests.support.readable import READABLE_SUITES

"""All suites whose tasks have instructions of their own; those of libero_para are paraphrases."""

INSTRUCTIONS = sorted({task.language for name in READABLE_SUITES for task in load_suite(name).tasks})
CABINET = InstructionObject("cabinet")
TOP_DRAWER = InstructionObject("drawer", ("top",))


@pytest.mark.parametrize("instruction", INSTRUCTIONS)
def test_every_instruction_of_every_suite_is_read_and_written_again_word_for_word(instruction: str) -> None:
    command = read(instruction)
    phrase = joined(clauses_words(command.clauses, "do", lexicon()))
    assert text_of([word.text for word in phrase]) == instruction
    assert meanings(instruction) == {command.meaning}


@pytest.mark.parametrize("name", READABLE_SUITES)
def test_instructions_of_a_suite_that_differ_mean_different_things(name: str) -> None:
    languages = {task.language for task in load_suite(name).tasks}
    by_meaning: dict[tuple[Clause, ...], list[str]] = {}
    for language in sorted(languages):
        by_meaning.setdefault(read(language).meaning, []).append(language)
    assert [same for same in by_meaning.values() if len(same) > 1] == []


@pytest.mark.parametrize("instruction", INSTRUCTIONS)
def test_every_form_of_a_command_is_a_tree_with_one_root(instruction: str) -> None:
    for form in FORMS:
        phrase = joined(clauses_words(read(instruction).clauses, form, lexicon()))
        roots = [index for index, word in enumerate(phrase) if word.dep == HEAD]
        assert len(roots) == 1
        for index in range(len(phrase)):
            path = [index]
            while phrase[path[-1]].head != path[-1]:
                path.append(phrase[path[-1]].head)
                assert len(path) <= len(phrase), "a circle"
            assert path[-1] == roots[0]


def test_a_command_has_its_action_its_thing_and_its_place() -> None:
    drawer = InstructionObject("drawer", ("middle",), (Detail("of", (CABINET,)),))
    assert read("open the middle drawer of the cabinet").clauses == (Clause("open", drawer),)
    plate = Clause("push", InstructionObject("plate"), InstructionPlace("to the front of", InstructionObject("stove")))
    assert read("push the plate to the front of the stove").clauses == (plate,)


def test_inside_and_it_are_what_was_named_before() -> None:
    put = Clause("put", InstructionObject("bowl"), InstructionPlace("in", TOP_DRAWER))
    assert read("open the top drawer and put the bowl inside").meaning == (Clause("open", TOP_DRAWER), put)
    assert read("open the top drawer and put the bowl in it").meaning == (Clause("open", TOP_DRAWER), put)
    assert read("put the bowl in the top drawer and close it").meaning == (put, Clause("close", TOP_DRAWER))


def test_picking_up_and_finding_only_lead_to_what_is_meant() -> None:
    put = read("put the book in the basket").meaning
    assert read("pick up the book and place it in the basket").meaning == put
    assert read("find the stove and turn it on").meaning == read("turn on the stove").meaning
    assert read("pick up the book").meaning == (Clause("pick up", InstructionObject("book")),)
    assert read("pick up the book and put the bowl on the plate").meaning[0].action == "pick up"


def test_what_tells_a_thing_from_its_like_is_no_place_to_put_it() -> None:
    (clause,) = read("pick up the black bowl on the stove and place it on the plate").meaning
    assert clause.thing == InstructionObject("bowl", ("black",), (Detail("on", (InstructionObject("stove"),)),))
    assert clause.place == InstructionPlace("on", InstructionObject("plate"))


def test_another_name_or_verb_means_the_same_and_another_thing_does_not() -> None:
    assert read("switch on the cooker").meaning == read("turn on the stove").meaning
    assert read("set the cereal bowl on the dinner plate").meaning == read("put the bowl on the plate").meaning
    assert read("put the black bowl on the plate").meaning != read("put the bowl on the plate").meaning
    assert read("turn off the stove").meaning != read("turn on the stove").meaning
    assert read("put the bowl in the basket").meaning != read("put the bowl on the basket").meaning


@pytest.mark.parametrize(
    "text",
    [
        "could you please turn on the stove?",
        "Has the stove been turned on yet?",
        "the stove is still off",
        "After finding the stove, turn it on",
        "I need the stove turned on",
    ],
)
def test_other_ways_of_saying_it_are_found_again(text: str) -> None:
    assert meanings(text) == {read("turn on the stove").meaning}


@pytest.mark.parametrize(
    "text",
    ["", "the stove", "put the bowl", "push the bowl", "put the spaceship on the plate", "turn the stove"],
)
def test_what_is_no_command_means_nothing_and_is_refused(text: str) -> None:
    assert meanings(text) == set()
    with pytest.raises(VlaError, match="no reading"):
        read(text)


def test_a_refusal_names_the_words_that_are_unknown() -> None:
    with pytest.raises(VlaError, match=r"unknown: spaceship, warp"):
        read("put the spaceship on the warp")


@given(st.lists(st.sampled_from([w for i in INSTRUCTIONS for w in i.split()]), max_size=14))
def test_any_row_of_words_is_read_or_refused(words: list[str]) -> None:
    text = " ".join(words)
    try:
        command = read(text)
    except VlaError:
        return
    assert command.meaning in meanings(text)


def test_frames_name_only_slots_that_can_be_read_and_filled() -> None:
    plain = {"thing", "participle", "place", "state", "unstate", "is", "has", "does", "needs", "belongs", *FORMS}
    for name, several in frames().items():
        for parts in several:
            for slot in slots_of(parts):
                assert slot.removeprefix("first.").removeprefix("second.").rstrip("12") in plain, (name, slot)


def test_a_template_hangs_its_words_from_its_head() -> None:
    rules = rules_from({"tags": {"DET.DT": "the"}, "words": {"cup": {"NOUN": {"NN": "cup"}}}, "rules": {}})
    parts = template("take/VERB.VB* ( the:det {cup}* )dobj")
    phrase = joined(filled(parts, lambda name: [(HEAD, (Word(name, "NOUN", "NN", HEAD, 0),))], min, rules.describe))
    assert [(word.text, word.pos, word.dep, word.head) for word in phrase] == [
        ("take", "VERB", HEAD, 0),
        ("the", "DET", "det", 2),
        ("cup", "NOUN", "dobj", 0),
    ]


@pytest.mark.parametrize("text", ["take* ( the:det", "take* the:det )dobj", "take", "( a* )"])
def test_a_template_that_is_not_whole_is_refused(text: str) -> None:
    with pytest.raises(NotationError):
        template(text)


def test_a_phrase_without_one_head_is_refused() -> None:
    word = (Word("cup", "NOUN", "NN", HEAD, 0),)
    with pytest.raises(NotationError, match="one head"):
        joined([("det", word)])
    with pytest.raises(NotationError, match="one head"):
        joined([(HEAD, word), (HEAD, word)])


def test_a_template_is_found_in_words_and_its_slots_with_it() -> None:
    parts = template("please|kindly:intj {what}* now:advmod")
    tokens = ["kindly", "go", "away", "now"]
    ways = matches(parts, tokens, 0, lambda _, at: ((end, tokens[at:end]) for end in range(at + 1, 5)))
    assert list(ways) == [(4, {"what": ["go", "away"]})]


def test_rules_draw_by_weight_and_in_the_form_asked_for() -> None:
    import random

    table = {
        "tags": {"ADV.RB": "now"},
        "words": {"do": {"VERB": {"VB": "close"}}},
        "rules": {"s": ["9 | {do.VBG}* now:advmod", "{do.VBN}*"]},
    }
    rules = rules_from(table)
    rng = random.Random(1)
    texts = [text_of([word.text for word in joined(drawn(rules, "s", rng))]) for _ in range(400)]
    assert set(texts) == {"closing now", "closed"}
    assert 320 < texts.count("closing now") < 390
    with pytest.raises(NotationError, match="no rule"):
        drawn(rules, "x", rng)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("What's in it? I can't see.", "what 's in it ? i ca n't see ."),
        ("The cabinet\u2019s drawer isn't open, please!", "the cabinet 's drawer is n't open , please !"),
        ("x-ray caf\u00e9", "x-ray caf\u00e9"),
        ("", ""),
    ],
)
def test_texts_are_cut_as_spacy_cuts_them(text: str, tokens: str) -> None:
    assert tokens_of(text) == tokens.split()


@given(st.text(max_size=30))
def test_cutting_loses_nothing_but_spaces_and_writing_it_again_changes_no_word(text: str) -> None:
    tokens = tokens_of(text)
    assert "".join(tokens) == "".join(text.lower().replace("\u2019", "'").split())
    assert all(tokens)


def test_pronouns_need_something_before_them() -> None:
    assert InstructionCommand((Clause("close", InstructionObject(IT)),)).meaning == (
        Clause("close", InstructionObject(IT)),
    )
