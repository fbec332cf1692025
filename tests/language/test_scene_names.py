"""What the things of a scene are called, and which words would mean another one."""

import pytest

from pytest_vla.language.scene_names import SceneNames, known_things, scene_names, things_of
from pytest_vla.language.wordnet import shipped_wordnet
from pytest_vla.plan.manifests import load_suite
from pytest_vla.scene.catalog import CATEGORIES
from pytest_vla.scene.problem import problem_of
from pytest_vla.vary.axes.language import names_in
from tests.support.data import data_root, needs_data

SUITES = ("libero_goal", "libero_spatial", "libero_object", "libero_10", "libero_90")


def scene(*categories: str) -> SceneNames:
    return SceneNames(tuple(thing for category in categories for thing in things_of(category)))


def fits(word: str, phrase: str, *categories: str) -> bool:
    return scene(*categories).fits(word, phrase, shipped_wordnet())


@pytest.mark.parametrize(
    ("phrase", "names"),
    [
        ("black bowl", {"bowl"}),
        ("cream cheese box", {"cream cheese box"}),
        ("box", set()),
        ("middle drawer", {"drawer"}),
        ("wine bottle", {"wine bottle"}),
        ("bottle", set()),
        ("yellow and white mug", {"mug"}),
        ("Rack", {"wine rack"}),
    ],
)
def test_a_phrase_means_what_has_the_longest_of_its_ends_as_a_name(phrase: str, names: set[str]) -> None:
    there = scene("akita_black_bowl", "cream_cheese", "wooden_cabinet", "wine_bottle", "porcelain_mug", "wine_rack")
    assert {thing.names[0] for thing in there.meant_by(phrase)} == names


def test_things_that_are_called_the_same_are_all_meant() -> None:
    assert len(scene("porcelain_mug", "red_coffee_mug", "plate").meant_by("red mug")) == 2


@pytest.mark.parametrize(
    ("word", "phrase", "beside"),
    [
        ("salad bowl", "plate", "akita_black_bowl"),
        ("bottle", "wine bottle", "ketchup"),
        ("container", "basket", "milk"),
        ("vessel", "bowl", "wine_bottle"),
        ("kitchen appliance", "stove", "microwave"),
        ("piece of furniture", "cabinet", "table"),
        ("skillet", "moka pot", "chefmate_8_frypan"),
        ("condiment", "ketchup", "bbq_sauce"),
        ("custard cup", "ramekin", "porcelain_mug"),
        ("dish", "ramekin", "plate"),
        ("Soup", "alphabet soup", "pea_soup"),
    ],
)
def test_a_word_that_something_else_could_have_does_not_fit(word: str, phrase: str, beside: str) -> None:
    own = {
        "plate": "plate", "wine bottle": "wine_bottle", "basket": "basket", "bowl": "akita_black_bowl",
        "stove": "flat_stove", "cabinet": "wooden_cabinet", "moka pot": "moka_pot", "ketchup": "ketchup",
        "ramekin": "glazed_rim_porcelain_ramekin", "alphabet soup": "alphabet_soup",
    }[phrase]  # fmt: skip
    assert fits(word, phrase, own)
    assert not fits(word, phrase, own, beside)


def test_a_word_that_ends_as_the_phrase_does_is_told_apart_by_the_rest() -> None:
    assert fits("pasta sauce", "tomato sauce", "tomato_sauce", "bbq_sauce")
    assert fits("dinner plate", "plate", "plate", "dinner_plate")


def test_what_a_thing_is_not_does_not_fit_it_though_it_has_the_name() -> None:
    assert fits("dresser", "cabinet", "wooden_cabinet")
    assert not fits("dresser", "cabinet", "wooden_two_layer_shelf")


def test_a_category_that_nobody_listed_is_called_by_its_name() -> None:
    assert things_of("blue_tea_pot_2")[0].names == ("blue tea pot", "tea pot", "pot")
    assert not fits("coffee pot", "moka pot", "moka_pot", "pot") or fits("coffee pot", "moka pot", "moka_pot")
    assert not fits("jug", "bottle", "glass_bottle", "water_jug")


def test_the_table_says_what_it_should() -> None:
    for category, things in known_things().items():
        for thing in things:
            assert thing.names, category
            assert all(name == name.lower() for name in (*thing.names, *thing.others, *thing.unfit)), category
    # Furniture of upstream's that no task has.
    bare = {"basin_faucet", "bowl_drainer", "dining_set_group", "faucet", "window"}
    foods = {"cherries", "corn", "macaroni_and_cheese", "mayo", "popcorn", "rack"}
    assert set(CATEGORIES) - set(known_things()) <= bare | foods


@needs_data
def test_every_thing_of_every_task_is_listed() -> None:
    for suite in SUITES:
        for task in load_suite(suite, data=data_root()).tasks:
            problem = problem_of(task)
            for item in (*problem.objects, *problem.fixtures):
                assert item.category in known_things(), (task.name, item.category)


def test_a_scene_has_its_table_and_what_distractors_may_add() -> None:
    task = load_suite("tabletop").task("put_the_bowl_on_the_plate")
    told = {name for thing in scene_names(problem_of(task)).things for name in thing.names}
    assert {"table", "bowl", "drawer", "knob", "rack"} <= told
    stove = load_suite("tabletop").task("turn_on_the_stove")
    assert {thing.names[0] for thing in names_in(stove).things} >= {"bottle", "box"}
